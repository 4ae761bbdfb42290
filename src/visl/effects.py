"""A binary column as an effect of others: what its fits of any form have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WEAKEST = 5  # of the causes, that are fitted without to find the one that is worth least
BY_FAR = 0.9  # of its cost is what a cause falls short by, at first glance, if it may go with others
KEPT = 2000  # fits of a column that are remembered

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Causes = tuple[int, ...]  # columns, in order


class Fit(NamedTuple):
    loss: float  # nats, over all rows that see the column
    weights: FloatArray  # (1 + causes,), first the leak's
    order: IntArray = np.empty(0, np.intp)  # (causes,) places, where the order of causes counts


class Effect(ABC):
    """What may bring a column about: causes, and beside them a leak."""

    def __init__(self, column: FloatArray) -> None:
        """column: (N,) 0, 1 or NaN"""
        self.n_present, self.n_absent = int((column == 1).sum()), int((column == 0).sum())
        self._known: OrderedDict[Causes, Fit] = OrderedDict()
        self._told: tuple[Causes, Any] | None = None  # of the causes that were asked for last

    @property
    def varies(self) -> bool:
        return self.n_present > 0 and self.n_absent > 0

    def fit(self, causes: Causes, start: FloatArray | None = None) -> Fit:
        """start: (1 + causes,) weights of a fit that is near"""
        if causes not in self._known:
            self._known[causes] = self._fitted(causes, start)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[causes]

    @abstractmethod
    def _fitted(self, causes: Causes, start: FloatArray | None) -> Fit: ...

    @abstractmethod
    def present_given(self, causes: Causes, values: FloatArray) -> FloatArray:
        """(n, causes) -> (n,) the probability that the effect is present"""

    def gain_of(self, cause: int, causes: Causes) -> float:
        """Nats that one more cause gains, roughly: those that there are stay as they are."""
        if self._told is None or self._told[0] != causes:
            self._told = causes, self._told_by(causes)
        return self._gain_of(cause, self._told[1])

    @abstractmethod
    def _told_by(self, causes: Causes) -> Any:
        """What `_gain_of` has to know of a fit."""

    @abstractmethod
    def _gain_of(self, cause: int, told: Any) -> float: ...

    @abstractmethod
    def _roughly(self, causes: Causes) -> FloatArray:
        """(causes,) what each is worth, nats, without another fit"""

    def worth(self, causes: Causes, asked: Sequence[int] | None = None) -> FloatArray:
        """(asked,) nats that the fit without each of the asked places among the causes loses; None: of all"""
        whole = self.fit(causes)
        places = range(len(causes)) if asked is None else asked
        return np.array([self._without(t, causes, whole).loss - whole.loss for t in places])

    def _without(self, place: int, causes: Causes, whole: Fit) -> Fit:
        others = causes[:place] + causes[place + 1 :]
        return self._known.get(others) or self.fit(others, np.delete(whole.weights, 1 + place))

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
        """Those to which the fit gives any weight."""
        return causes
