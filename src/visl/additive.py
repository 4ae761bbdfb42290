"""A number as a sum of smooth functions of other columns, one for each; solved exactly, for any set of columns."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

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
BINS = 1024
TAIL_SHARE, TAILS = 0.1, 4.0  # of a Student distribution in the noise of a column, and its degrees of freedom
KEPT = 128  # solutions that are remembered

FloatArray = NDArray[np.float64]


class AdditiveFits:
    """x_j = constant + sum over columns k of f_k(x_k) + noise, every row predicted by the others.

    f_k is a cubic spline of a number, or a value for each level. A row without itself has the residual e / (1 - h), h
    being its entry on the diagonal of X (X'X + P)^-1 X': so what a function learns of the very rows it is judged by
    does not count for it, and a column that says nothing is worth less than nothing.
    """

    def __init__(self, values: FloatArray, is_number: Sequence[bool]) -> None:
        """values: (N, D), NaN in gaps"""
        self.values = values
        n_pieces = int(min(MOST_PIECES, max(1, len(values) // ROWS_OF_A_PIECE)))
        columns = zip(values.T, is_number, strict=True)
        self._bases = [spline_basis(x, n_pieces) if number else level_basis(x) for x, number in columns]
        self._rough = [roughness(b.shape[1], number) for b, number in zip(self._bases, is_number, strict=True)]
        self._known: OrderedDict[tuple[int, tuple[int, ...], tuple[int, ...]], FloatArray] = OrderedDict()

    def residuals(self, column: int, given: Sequence[int], without: Sequence[int] | None = None) -> FloatArray:
        """(1 + without, N): with all that is given, then without each of these (None: each that is given), on the same
        rows; NaN where one is a gap."""
        key = column, tuple(given), tuple(given if without is None else without)
        if key not in self._known:
            self._known[key] = self._solved(*key)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    def _solved(self, column: int, given: tuple[int, ...], without: tuple[int, ...]) -> FloatArray:
        seen = ~np.isnan(self.values[:, [column, *given]]).any(1)
        rows = slice(None) if seen.all() else np.flatnonzero(seen)  # a slice copies nothing
        result = np.full((1 + len(without), len(self.values)), np.nan)
        if seen.any():
            problem = _Problem([self._bases[k][rows] for k in given], self.values[rows, column])
            solutions = (problem.solved(self._penalty(given, s)) for s in SMOOTHNESS[: None if given else 1])
            best = min(solutions, key=problem.cross_validated)
            result[:, rows] = problem.residuals(best, [given.index(k) for k in without])
        return result

    def _penalty(self, given: tuple[int, ...], smoothness: float) -> FloatArray:
        """(F, F) for each row"""
        sizes = [1, *(self._bases[k].shape[1] for k in given)]
        result, ends = TINY * np.eye(sum(sizes)), np.cumsum(sizes)
        for k, first, end in zip(given, ends, ends[1:], strict=False):
            result[first:end, first:end] += smoothness * self._rough[k]
        return result


@dataclass(frozen=True)
class _Solution:
    inverse: FloatArray  # (F, F) of A = X'X + P
    coefficients: FloatArray  # (F,)


class _Problem:
    """Least squares with a penalty."""

    def __init__(self, bases: Sequence[FloatArray], y: FloatArray) -> None:
        self.X, self.y = np.concatenate([np.ones((len(y), 1)), *bases], axis=1), y
        ends = np.cumsum([1, *(basis.shape[1] for basis in bases)])
        self.blocks = [slice(first, end) for first, end in zip(ends, ends[1:], strict=False)]
        self.gram, self.target = self.X.T @ self.X, self.X.T @ y

    def solved(self, penalty: FloatArray) -> _Solution:
        """penalty: (F, F) for each row"""
        inverse = np.linalg.inv(self.gram + len(self.y) * penalty)
        return _Solution(inverse, inverse @ self.target)

    def cross_validated(self, solution: _Solution) -> float:
        """Mean square of residuals as if every row had the mean leverage: generalised cross-validation."""
        used = np.einsum("fg,gf->", solution.inverse, self.gram) / len(self.y)
        return float(np.square(self.y - self.X @ solution.coefficients).mean() / max(1 - used, 1e-3) ** 2)

    def residuals(self, solution: _Solution, without: Sequence[int]) -> list[FloatArray]:
        """Of each row, predicted by the others: with all functions, then without each of these.

        With B the columns of X A^-1, C the block of A^-1 and b the coefficients that belong to a function: fitted
        values without it are fitted - B C^-1 b, and leverages h - diag(B C^-1 B').
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


def log_densities(residuals: FloatArray) -> FloatArray:
    """Of residuals whose noise may have any shape: each by a kernel estimate from the others, and for a part by a
    distribution with long tails, where others are far. NaN stays NaN.
    """
    result = np.full(len(residuals), np.nan)
    seen = ~np.isnan(residuals)
    r = residuals[seen]
    if len(r) > 1:
        result[seen] = np.log((1 - TAIL_SHARE) * _kernel_densities(r) + TAIL_SHARE * _student_densities(r))
    return result


def _kernel_densities(r: FloatArray) -> FloatArray:
    """Gaussian kernels, of Silverman's width, from counts in BINS bins; a row without itself."""
    low, high = np.quantile(r, [0.25, 0.75])
    spread = min(float(r.std()), float(high - low) / 1.34) or float(r.std())
    width = max(0.9 * spread * len(r) ** -0.2, math.sqrt(LEAST_VARIANCE))
    first, last = np.quantile(r, [0.001, 0.999]) + [-4 * width, 4 * width]
    counts, edges = np.histogram(r, BINS, (first, last))
    away = np.arange(-BINS, BINS + 1) * (edges[1] - edges[0]) / width
    kernel = np.exp(-0.5 * away[np.abs(away) < 5] ** 2) / (width * math.sqrt(2 * math.pi))
    smooth = np.convolve(counts, kernel)[len(kernel) // 2 :][:BINS]
    around = np.interp(r, (edges[1:] + edges[:-1]) / 2, smooth, left=0.0, right=0.0)
    return np.maximum(around - kernel.max(), 0.0) / (len(r) - 1)


def _student_densities(r: FloatArray) -> FloatArray:
    """With TAILS degrees of freedom, and the scale that makes the residuals most probable."""
    square = max(float(np.median(r**2)), LEAST_VARIANCE)
    for _ in range(20):
        weight = (TAILS + 1) / (TAILS + r**2 / square)
        square = max(float((weight * r**2).mean()), LEAST_VARIANCE)
    top = math.exp(math.lgamma((TAILS + 1) / 2) - math.lgamma(TAILS / 2)) / math.sqrt(TAILS * math.pi * square)
    return np.asarray(top * (1 + r**2 / (TAILS * square)) ** (-(TAILS + 1) / 2))


def level_basis(x: FloatArray) -> FloatArray:
    """(N, levels) 1 where a row has the level, less its share"""
    levels = np.unique(x[~np.isnan(x)])
    return _centred((x[:, None] == levels).astype(float))


def spline_basis(x: FloatArray, n_pieces: int) -> FloatArray:
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


def roughness(n: int, is_number: bool) -> FloatArray:
    """(n, n) of a quadratic penalty: where a piece has hardly a row, a curve goes on as it did."""
    second = np.diff(np.eye(n), 2, axis=0) if is_number else np.zeros((0, n))
    return np.asarray(second.T @ second)


def _centred(basis: FloatArray) -> FloatArray:
    return basis - basis.mean(0)
