"""A binary column that any one of its causes may bring about: a noisy-or, fitted exactly."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from visl.effects import Causes, Effect, Fit, FloatArray

if TYPE_CHECKING:
    from types import ModuleType

FIRST_LEAK, FIRST_WEIGHT = 0.05, 0.3  # where fits start; the leak no higher, since it would hide causes ...
LEAST_START = 1e-3  # ... and all weights no lower, since they move by shares of their size
SMALLEST_CURVATURE = 1e-3
NOTHING = 1e-4  # a weight below this is 0
LEAST_HAZARD = 1e-9


@cache
def _kernels() -> ModuleType:
    """Imported at the first use, because Numba is not needed elsewhere."""
    from visl import noisy_or_kernels

    return noisy_or_kernels


class NoisyOr(Effect):
    """P(x_j = 0 | causes) = exp(-(w_0 + sum over the causes k of w_k x_k)), all weights at least 0.

    So only rows where the effect is present have more than a linear part in the loss, which is convex. Most weights of
    many candidates are 0 at its minimum.
    """

    def __init__(self, column: FloatArray, others: FloatArray) -> None:
        """column: (N,) 0, 1 or NaN; others: (N, M) what enters as causes, from 0 to 1, without gaps"""
        super().__init__(column)
        self.present = np.ascontiguousarray(others[column == 1].T)  # (M, rows where it is present)
        self.absent = others[column == 0].sum(0)  # (M,) over the other rows

    def _fitted(self, causes: Causes, start: FloatArray | None) -> Fit:
        of_causes = list(causes)
        present = np.concatenate([np.ones((1, self.n_present)), self.present[of_causes]])
        weights = np.full(1 + len(causes), FIRST_WEIGHT) if start is None else np.maximum(start, LEAST_START)
        weights[0] = min(weights[0], FIRST_LEAK) if causes else weights[0]
        loss = _kernels().fit(present, np.append(self.n_absent, self.absent[of_causes]).astype(float), weights)
        return Fit(float(loss), weights)

    def present_given(self, causes: Causes, values: FloatArray) -> FloatArray:
        weights = self.fit(causes).weights
        return np.asarray(-np.expm1(-np.maximum(weights[0] + values @ weights[1:], LEAST_HAZARD)))

    def _told_by(self, causes: Causes) -> FloatArray:
        """(rows where it is present,) the hazard of each: -log P(absent)"""
        weights = self.fit(causes).weights
        return np.asarray(weights[0] + weights[1:] @ self.present[list(causes)])

    def _gain_of(self, cause: int, told: FloatArray) -> float:
        return float(_kernels().gain_of_one(self.present[cause], float(self.absent[cause]), told))

    def _roughly(self, causes: Causes) -> FloatArray:
        """(causes,) as if the loss were quadratic: w^2 / 2 C, with C on the diagonal of its inverse curvature.
        Where a column has no other cause it is too little."""
        weights, hazard = self.fit(causes).weights, self._told_by(causes)
        x = np.concatenate([np.ones((1, self.n_present)), self.present[list(causes)]])
        stays = np.exp(-hazard)
        curvature = (x * (stays / (1 - stays) ** 2)) @ x.T + SMALLEST_CURVATURE * np.eye(len(x))
        return np.asarray((weights**2 / (2 * np.linalg.inv(curvature).diagonal()))[1:])

    def _weighty(self, causes: Causes) -> Causes:
        weights = self.fit(causes).weights[1:]
        return tuple(k for k, weight in zip(causes, weights, strict=True) if weight > NOTHING)
