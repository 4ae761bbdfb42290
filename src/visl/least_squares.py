"""Least squares with a penalty, every row predicted by the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visl.densities import LEAST_VARIANCE

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    inverse: FloatArray  # (F, F) of A = X'X + P
    coefficients: FloatArray  # (F,)


class LeastSquares:
    """Least squares with a penalty."""

    def __init__(self, bases: Sequence[FloatArray], y: FloatArray) -> None:
        """bases: (N, functions) each; y: (N,)"""
        self.bases, self.y = bases, y
        self.X = np.concatenate([np.ones((len(y), 1)), *bases], axis=1)
        ends = np.cumsum([1, *(basis.shape[1] for basis in bases)])
        self.blocks = [slice(first, end) for first, end in zip(ends, ends[1:], strict=False)]
        self.gram, self.target = self.X.T @ self.X, self.X.T @ y

    def solved(self, penalty: FloatArray) -> Solution:
        """penalty: (F, F) for each row"""
        inverse = np.linalg.inv(self.gram + len(self.y) * penalty)
        return Solution(inverse, inverse @ self.target)

    def best(self, penalties: Iterable[FloatArray]) -> Solution:
        return min((self.solved(penalty) for penalty in penalties), key=self.cross_validated)

    def cross_validated(self, solution: Solution) -> float:
        """Mean square of residuals as if every row had the mean leverage: generalised cross-validation."""
        used = np.einsum("fg,gf->", solution.inverse, self.gram) / len(self.y)
        return float(np.square(self.y - self.X @ solution.coefficients).mean() / max(1 - used, 1e-3) ** 2)

    def nats_better(self, solution: Solution, square: float) -> float:
        """Than with this mean square, of normal noise."""
        left = max(self.cross_validated(solution), LEAST_VARIANCE)
        return 0.5 * len(self.y) * math.log(max(square, LEAST_VARIANCE) / left)

    def residuals(self, solution: Solution, without: Sequence[int]) -> list[FloatArray]:
        """Of each row, predicted by the others: with all functions, then without each of these bases.

        With B the columns of X A^-1, C the block of A^-1 and b the coefficients that belong to one: fitted values
        without it are fitted - B C^-1 b, and leverages h - diag(B C^-1 B').
        """
        spread = self.X @ solution.inverse
        fitted, leverage = self.X @ solution.coefficients, np.einsum("nf,nf->n", spread, self.X)
        result = [self._of_other_rows(fitted, leverage)]
        for block in (self.blocks[k] for k in without):
            B = spread[:, block]
            weighed = B @ np.linalg.inv(solution.inverse[block, block])  # B C^-1
            less = np.einsum("nq,nq->n", weighed, B)
            result.append(self._of_other_rows(fitted - weighed @ solution.coefficients[block], leverage - less))
        return result

    def _of_other_rows(self, fitted: FloatArray, leverage: FloatArray) -> FloatArray:
        return (self.y - fitted) / np.maximum(1 - leverage, 1e-3)
