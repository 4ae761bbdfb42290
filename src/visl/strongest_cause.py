"""A binary column whose strongest cause that is present decides how probable it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visl.effects import Causes, Effect, Fit, FloatArray

if TYPE_CHECKING:
    from types import ModuleType

SURE = 0.01  # a cause that is as nearly absent or present counts as if it were

SmallArray = NDArray[np.float32]


@cache
def _kernels() -> ModuleType:
    """Imported at the first use, because Numba is not needed elsewhere."""
    from visl import strongest_cause_kernels

    return strongest_cause_kernels


def rounded(values: FloatArray) -> SmallArray:
    """What enters as causes, with what is nearly sure taken for sure."""
    return np.where(values < SURE, 0.0, np.where(values > 1 - SURE, 1.0, values)).astype(np.float32)


class StrongestCause(Effect):
    """P(x_j = 1 | causes) = r_k of the strongest cause k that is present, or the leak r_0 if none is.

    Rows are shared out among the causes, each to the first that is present in the order of their strength, and r_k is
    how many of k's rows have the effect. Where it is not seen which causes are present, the sum over what may be.
    """

    def __init__(self, column: FloatArray, others: SmallArray, instead: Mapping[int, SmallArray] | None = None) -> None:
        """column: (N,) 0, 1 or NaN; others: (N, M) what enters as causes, from 0 to 1, `rounded`, the same for all
        effects; instead: (N,) what enters instead of some of them for this one"""
        super().__init__(column)
        self.seen = np.flatnonzero(~np.isnan(column))
        self.present = column[self.seen] == 1
        self.others, self.instead = others, dict(instead or {})

    def _entering(self, causes: Causes) -> SmallArray:
        """(rows that see the effect, causes)"""
        x = self.others[np.ix_(self.seen, np.array(causes, np.intp))]
        for place, k in enumerate(causes):
            if k in self.instead:
                x[:, place] = self.instead[k][self.seen]
        return x

    def _from_the_strongest(self, causes: Causes) -> tuple[SmallArray, FloatArray]:
        """What enters, and the rates, the leak's last."""
        _, weights, order = self.fit(causes)
        return np.ascontiguousarray(self._entering(causes)[:, order]), np.append(weights[1:][order], weights[0])

    def _fitted(self, causes: Causes, start: FloatArray | None) -> Fit:
        order, rates, loss = _kernels().fit(self._entering(causes), self.present)
        weights = np.empty(1 + len(causes))
        weights[0], weights[1 + order] = rates[-1], rates[:-1]
        return Fit(float(loss), weights, order)

    def present_given(self, causes: Causes, values: FloatArray) -> FloatArray:
        _, weights, order = self.fit(causes)
        rates = np.append(weights[1:][order], weights[0])
        return np.asarray(_kernels().coming_to(rounded(values[:, order]), rates)[1][:, 0], np.float64)

    def _told_by(self, causes: Causes) -> tuple[SmallArray, SmallArray, FloatArray]:
        x, rates = self._from_the_strongest(causes)
        return (*_kernels().coming_to(x, rates), rates)

    def _gain_of(self, cause: int, told: tuple[SmallArray, SmallArray, FloatArray]) -> float:
        x = self.instead[cause] if cause in self.instead else self.others[:, cause]
        return float(_kernels().gain_of_one(x[self.seen], self.present, *told))

    def _roughly(self, causes: Causes) -> FloatArray:
        x, rates = self._from_the_strongest(causes)
        result = np.empty(len(causes))
        result[self.fit(causes).order] = _kernels().worth_of_each(x, self.present, rates)
        return result
