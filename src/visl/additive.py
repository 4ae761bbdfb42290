"""A number as a sum of smooth functions of other columns, one for each; solved exactly, for any set of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DEGREE = 3  # of the splines
MOST_PIECES = 36
ROWS_OF_A_PIECE = 50  # at least
SMOOTHNESS = (
    1e-5,
    1e-4,
    1e-3,
    1e-2,
)  # times the rows: of squared second differences of coefficients
TINY = 1e-9  # times the rows: of squared coefficients, so that there is one solution
LEAST_VARIANCE = 1e-6

FloatArray = NDArray[np.float64]


class AdditiveFits:
    """x_j = constant + sum over columns k of f_k(x_k) + Gaussian noise, every row predicted by the others.

    f_k is a cubic spline of a number, or a value for each level. A row without itself has the residual e / (1 - h), h
    being its entry on the diagonal of X (X'X + P)^-1 X': so what a function learns of the very rows it is judged by
    does not count for it, and a column that says nothing is worth less than nothing.
    """

    def __init__(self, values: FloatArray, is_number: Sequence[bool]) -> None:
        """values: (N, D), NaN in gaps"""
        self.values = values
        n_pieces = int(min(MOST_PIECES, max(1, len(values) // ROWS_OF_A_PIECE)))
        columns = zip(values.T, is_number, strict=True)
        self._bases = [_spline_basis(x, n_pieces) if number else _level_basis(x) for x, number in columns]
        self._rough = [_roughness(b.shape[1], number) for b, number in zip(self._bases, is_number, strict=True)]
        self._smoothness: dict[int, float] = {}  # of each column's functions, as its first set of columns needs it
        self._known: dict[tuple[int, tuple[int, ...]], FloatArray] = {}

    def residuals(self, column: int, given: Sequence[int]) -> FloatArray:
        """(1 + given, N): with all that is given, then without each, on the same rows; NaN where one is a gap."""
        key = column, tuple(given)
        if key not in self._known:
            self._known[key] = self._solved(*key)
        return self._known[key]

    def _solved(self, column: int, given: tuple[int, ...]) -> FloatArray:
        rows = np.flatnonzero(~np.isnan(self.values[:, [column, *given]]).any(1))
        result = np.full((1 + len(given), len(self.values)), np.nan)
        if len(rows):
            bases = [self._bases[k][rows] for k in given]
            y, chosen = self.values[rows, column], self._smoothness.get(column)
            tried = SMOOTHNESS if chosen is None else (chosen,)
            solutions = {s: _Solution(bases, self._penalty(given, s), y) for s in tried}
            smoothness = min(solutions, key=lambda s: float(np.square(solutions[s].residuals()).mean()))
            if given:
                self._smoothness[column] = smoothness
            best = solutions[smoothness]
            result[:, rows] = [best.residuals(), *(best.residuals(block) for block in best.blocks)]
        return result

    def _penalty(self, given: tuple[int, ...], smoothness: float) -> FloatArray:
        """(F, F) for each row"""
        sizes = [1, *(self._bases[k].shape[1] for k in given)]
        result, ends = TINY * np.eye(sum(sizes)), np.cumsum(sizes)
        for k, first, end in zip(given, ends, ends[1:], strict=False):
            result[first:end, first:end] += smoothness * self._rough[k]
        return result


class _Solution:
    """Least squares with a penalty. With A = X'X + P, and B the columns of X A^-1, C the block of A^-1 and b the
    coefficients that belong to a function: fitted values without it are fitted - B C^-1 b, and leverages
    h - diag(B C^-1 B')."""

    def __init__(self, bases: Sequence[FloatArray], penalty: FloatArray, y: FloatArray) -> None:
        X = np.concatenate([np.ones((len(y), 1)), *bases], axis=1)
        ends = np.cumsum([1, *(basis.shape[1] for basis in bases)])
        self.blocks = [slice(first, end) for first, end in zip(ends, ends[1:], strict=False)]
        self.inverse = np.linalg.inv(X.T @ X + len(y) * penalty)
        self.spread = X @ self.inverse
        self.coefficients = self.inverse @ (X.T @ y)
        self.y, self.fitted, self.leverage = y, X @ self.coefficients, np.einsum("nf,nf->n", self.spread, X)

    def residuals(self, block: slice = slice(0, 0)) -> FloatArray:
        """Of each row, predicted by the others, without the function of this block."""
        B, C = self.spread[:, block], self.inverse[block, block]
        solved = np.linalg.solve(C, np.column_stack([self.coefficients[block], B.T]))  # C^-1 b, C^-1 B'
        fitted = self.fitted - B @ solved[:, 0]
        leverage = self.leverage - np.einsum("nq,qn->n", B, solved[:, 1:])
        return (self.y - fitted) / np.maximum(1 - leverage, 1e-3)


def log_densities(residuals: FloatArray) -> FloatArray:
    """Gaussian, of residuals whose variance is their own mean square; NaN stays NaN."""
    variance = max(float(np.nanmean(residuals**2)), LEAST_VARIANCE)
    return -0.5 * (residuals**2 / variance + math.log(2 * math.pi * variance))


def _level_basis(x: FloatArray) -> FloatArray:
    """(N, levels) 1 where a row has the level, less its share"""
    levels = np.unique(x[~np.isnan(x)])
    return _centred((x[:, None] == levels).astype(float))


def _spline_basis(x: FloatArray, n_pieces: int) -> FloatArray:
    """(N, pieces + DEGREE) B-splines with knots at quantiles, by the recursion of Cox and de Boor."""
    seen = x[~np.isnan(x)]
    if not len(seen):
        return np.zeros((len(x), 0))
    inner = _knots(seen, n_pieces)
    if len(inner) < 2:
        return np.zeros((len(x), 0))
    knots = np.concatenate([[inner[0]] * DEGREE, inner, [inner[-1]] * DEGREE])
    place = np.nan_to_num(x, nan=inner[0]).clip(inner[0], inner[-1])[:, None]
    last = len(inner) + DEGREE - 2  # the piece to which the largest value belongs
    basis = ((knots[:-1] <= place) & (place < knots[1:])).astype(float)
    basis[place[:, 0] == inner[-1], last] = 1.0
    for degree in range(1, DEGREE + 1):
        left, right = knots[: -degree - 1], knots[degree + 1 :]
        rise, fall = knots[degree:-1] - left, right - knots[1:-degree]
        up = np.where(rise > 0, (place - left) / np.where(rise > 0, rise, 1.0), 0.0)
        down = np.where(fall > 0, (right - place) / np.where(fall > 0, fall, 1.0), 0.0)
        basis = up * basis[:, :-1] + down * basis[:, 1:]
    return _centred(basis)


def _knots(seen: FloatArray, n_pieces: int) -> FloatArray:
    """A third at quantiles, the others evenly far apart: a wave in a tail needs them as well."""
    third = max(1, n_pieces // 3)
    at_quantiles = np.quantile(seen, np.linspace(0, 1, third + 1))
    return np.unique(np.concatenate([at_quantiles, np.linspace(seen.min(), seen.max(), 2 * third + 1)]))


def _roughness(n: int, is_number: bool) -> FloatArray:
    """(n, n) of a quadratic penalty: where a piece has hardly a row, a curve goes on as it did."""
    second = np.diff(np.eye(n), 2, axis=0) if is_number else np.zeros((0, n))
    return np.asarray(second.T @ second)


def _centred(basis: FloatArray) -> FloatArray:
    return basis - basis.mean(0)
