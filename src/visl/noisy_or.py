"""A binary column as an effect of others, any one of which may bring it about: a noisy-or, fitted exactly."""

from __future__ import annotations

import importlib.util
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from types import ModuleType

FIRST_LEAK, FIRST_WEIGHT = 0.05, 0.3  # where fits start; the leak no higher, since it would hide causes ...
LEAST_START = 1e-3  # ... and all weights no lower, since they move by shares of their size
SMALLEST_CURVATURE = 1e-3
WEAKEST = 5  # of the causes, that are fitted without to find the one that is worth least
BY_FAR = 0.9  # of its cost is what a cause falls short by, at first glance, if it may go with others
NOTHING = 1e-4  # a weight below this is 0
KEPT = 2000  # fits of a column that are remembered

FloatArray = NDArray[np.float64]
Causes = tuple[int, ...]  # columns, in order


@cache
def available() -> bool:
    """Whether loops can be compiled."""
    return importlib.util.find_spec("numba") is not None


@cache
def _kernels() -> ModuleType:
    """Imported at the first use, because Numba is not needed elsewhere."""
    from visl import noisy_or_kernels

    return noisy_or_kernels


class Fit(NamedTuple):
    loss: float  # nats, over all rows that see the column
    weights: FloatArray  # (1 + causes,), first the leak


class Effect:
    """P(x_j = 0 | causes) = exp(-(w_0 + sum over the causes k of w_k x_k)), all weights at least 0.

    So only rows where the effect is present have more than a linear part in the loss, which is convex. Most weights of
    many candidates are 0 at its minimum.
    """

    def __init__(self, column: FloatArray, others: FloatArray) -> None:
        """column: (N,) 0, 1 or NaN; others: (N, M) what enters as causes, from 0 to 1, without gaps"""
        present, absent = column == 1, column == 0
        self.present = np.ascontiguousarray(others[present].T)  # (M, rows where it is present)
        self.absent = others[absent].sum(0)  # (M,) over the other rows
        self.n_present, self.n_absent = int(present.sum()), int(absent.sum())
        self._known: OrderedDict[Causes, Fit] = OrderedDict()

    @property
    def varies(self) -> bool:
        return self.n_present > 0 and self.n_absent > 0

    def fit(self, causes: Causes, start: FloatArray | None = None) -> Fit:
        """start: (1 + causes,) weights of a fit that is near"""
        if causes not in self._known:
            of_causes = list(causes)
            present = np.concatenate([np.ones((1, self.n_present)), self.present[of_causes]])
            weights = np.full(1 + len(causes), FIRST_WEIGHT) if start is None else np.maximum(start, LEAST_START)
            weights[0] = min(weights[0], FIRST_LEAK) if causes else weights[0]
            loss = _kernels().fit(present, np.append(self.n_absent, self.absent[of_causes]).astype(float), weights)
            self._known[causes] = Fit(float(loss), weights)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[causes]

    def hazard(self, causes: Causes) -> FloatArray:
        """(rows where it is present,) of each: -log P(absent)"""
        weights = self.fit(causes).weights
        return np.asarray(weights[0] + weights[1:] @ self.present[list(causes)])

    def gain_of(self, cause: int, hazard: FloatArray) -> float:
        """Nats that one more cause gains beside those of the hazard, whose weights stay."""
        return float(_kernels().gain_of_one(self.present[cause], float(self.absent[cause]), hazard))

    def worth(self, causes: Causes, asked: Sequence[int] | None = None) -> FloatArray:
        """(asked,) nats that the fit without each of the asked places among the causes loses; None: of all"""
        loss, weights = self.fit(causes)
        places = range(len(causes)) if asked is None else asked
        without = (self.fit(_without(causes, t), np.delete(weights, 1 + t)).loss for t in places)
        return np.array([other - loss for other in without])

    def _roughly(self, causes: Causes) -> FloatArray:
        """(causes,) the same as if the loss were quadratic: w^2 / 2 C, with C on the diagonal of its inverse curvature.
        Where a column has no other cause it is too little."""
        weights, hazard = self.fit(causes).weights, self.hazard(causes)
        x = np.concatenate([np.ones((1, self.n_present)), self.present[list(causes)]])
        stays = np.exp(-hazard)
        curvature = (x * (stays / (1 - stays) ** 2)) @ x.T + SMALLEST_CURVATURE * np.eye(len(x))
        return np.asarray((weights**2 / (2 * np.linalg.inv(curvature).diagonal()))[1:])

    def eliminated(self, candidates: Iterable[int], cost: FloatArray) -> Causes:
        """Of the candidates those that are worth their cost, (M,) nats, beside each other: of all of them the one that
        falls shortest is dropped, again and again."""
        causes = self._weighty(tuple(sorted(candidates)))
        while causes:
            costs = cost[list(causes)]
            rough = self._roughly(causes) - costs
            weak = np.argsort(rough)[: max(1, int((rough < -BY_FAR * costs).sum()) // 2)]
            if len(weak) < 2:  # worth a closer look
                looked_at = np.argsort(rough)[:WEAKEST]
                surplus = self.worth(causes, looked_at.tolist()) - costs[looked_at]
                if surplus.min() >= 0:
                    looked_at, surplus = np.arange(len(causes)), self.worth(causes) - costs
                if surplus.min() >= 0:
                    break
                weak = looked_at[[surplus.argmin()]]
            causes = self._weighty(tuple(np.delete(causes, weak).tolist()))
        return causes

    def _weighty(self, causes: Causes) -> Causes:
        weights = self.fit(causes).weights[1:]
        return tuple(k for k, weight in zip(causes, weights, strict=True) if weight > NOTHING)


def _without(causes: Causes, place: int) -> Causes:
    return causes[:place] + causes[place + 1 :]
