"""A number as a sum of smooth functions of other columns, one for each; solved exactly, for any set of columns."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

DEGREE = 3  # of the splines
MOST_PIECES = 36
# Columns; in a table of more, where so many more functions are fitted: pieces, and no functions of several columns.
WIDE, PIECES_OF_WIDE = 30, 12
ROWS_OF_A_PIECE = 50  # at least
SMOOTHNESS = (
    1e-5,
    1e-4,
    1e-3,
    1e-2,
)  # times the rows: of squared second differences of coefficients
# Columns may act together: as a smooth function of all that are given, if not too many are and residuals show it.
MOST_TOGETHER = 8  # columns
LANDMARKS, ROWS_OF_A_LANDMARK = 150, 10  # rows around which it may bend: at most, and of how many it is one at least
WIDTHS = (1.5, 4.0)  # of what a landmark tells, in deviations of the columns, times the root of their number
APART = 2.0  # deviations, of two levels, divided by the root of 2
SIZES = (1e-5, 1e-4, 1e-3, 1e-2)  # times the rows: of the function's squared norm
SHOWN, CLEARLY = 5.0, 10.0  # nats in all rows, first in residuals and then in all
TINY = 1e-9  # times the rows: of squared coefficients, so that there is one solution
LEAST_VARIANCE = 1e-6
BINS = 1024
TAIL_SHARE, TAILS = 0.1, 4.0  # of a Student distribution in the noise of a column, and its degrees of freedom
KEPT = 128  # solutions that are remembered ...
TOLD_NUMBERS = 1 << 22  # ... and of rows' log-densities

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
_Part = tuple[tuple[int, ...], FloatArray]  # columns, and (N, functions) of them


class AdditiveFits:
    """x_j = constant + sum over columns k of f_k(x_k) + noise, every row predicted by the others.

    f_k is a cubic spline of a number, or a value for each level. Where the columns clearly act together there is a
    smooth function of all of them as well, from the space of a Gaussian kernel. A row without itself has the residual
    e / (1 - h), h being its entry on the diagonal of X (X'X + P)^-1 X': so what a function learns of the very rows it
    is judged by does not count for it, and a column that says nothing is worth less than nothing.
    """

    def __init__(self, values: FloatArray, is_number: Sequence[bool]) -> None:
        """values: (N, D), NaN in gaps"""
        self.values = values
        columns = zip(values.T, is_number, strict=True)
        n_pieces = pieces_of(*values.shape)
        self.bases = [Basis.of(x, n_pieces if number else None) for x, number in columns]
        self._bases = [basis(x) for basis, x in zip(self.bases, values.T, strict=True)]
        self._places = [self._place(x, bool(number)) for x, number in zip(values.T, is_number, strict=True)]
        self._rough = [roughness(b.shape[1], number) for b, number in zip(self._bases, is_number, strict=True)]
        self._known: OrderedDict[tuple[int, tuple[int, ...], tuple[int, ...]], FloatArray] = OrderedDict()
        self._told: OrderedDict[tuple[int, tuple[int, ...], int | None], FloatArray] = OrderedDict()

    def log_prob(
        self, column: int, given: Sequence[int], without: int | None = None, asked: Sequence[int] = ()
    ) -> FloatArray:
        """(N,) of the rows that see all these columns, given them, or all but one; NaN of the others.

        asked: all that will be left out one after the other, and are solved for at once
        """
        key = column, tuple(given), without
        if key not in self._told:
            found = self.residuals(column, given, asked)[0 if without is None else 1 + asked.index(without)]
            self._told[key] = log_densities(found)
            if len(self._told) > TOLD_NUMBERS // len(found):
                self._told.popitem(last=False)
        return self._told[key]

    def residuals(self, column: int, given: Sequence[int], without: Sequence[int] | None = None) -> FloatArray:
        """(1 + without, N): with all that is given, then without each of these (None: each that is given), on the same
        rows; NaN where one is a gap."""
        key = column, tuple(given), tuple(given if without is None else without)
        if key not in self._known:
            self._known[key] = self._solved(*key)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    def functions(self, column: int, given: Sequence[int]) -> tuple[float, list[FloatArray], FloatArray]:
        """The constant, the coefficients of each function, and the residuals of the rows that see all, each predicted
        by the others."""
        seen = ~np.isnan(self.values[:, [column, *given]]).any(1)
        problem, solution = self._best_sum(column, tuple(given), np.flatnonzero(seen))[:2]
        of_columns = [solution.coefficients[problem.places(k)] for k in given]
        return float(solution.coefficients[0]), of_columns, problem.residuals(solution, [])[0]

    def _solved(self, column: int, given: tuple[int, ...], without: tuple[int, ...]) -> FloatArray:
        seen = ~np.isnan(self.values[:, [column, *given]]).any(1)
        rows = slice(None) if seen.all() else np.flatnonzero(seen)  # a slice copies nothing
        result = np.full((1 + len(without), len(self.values)), np.nan)
        if seen.any():
            result[:, rows] = self._residuals(column, given, rows, without)
        return result

    def _residuals(
        self, column: int, given: tuple[int, ...], rows: slice | IntArray, without: Sequence[int]
    ) -> list[FloatArray]:
        """By a sum, or by a sum and a function of all that is given, if that clearly predicts better."""
        problem, solution, smoothness = self._best_sum(column, given, rows)
        by_sum = problem.residuals(solution, without)
        together = self._together(given, rows, problem, self._penalty(given, smoothness), by_sum[0])
        if together is None or _nats_better(together, by_sum[0]) < CLEARLY:
            return by_sum
        others = (tuple(k for k in given if k != left_out) for left_out in without)
        return [together, *(self._residuals(column, o, rows, [])[0] for o in others)]

    def _together(
        self, given: tuple[int, ...], rows: slice | IntArray, of_sum: _Problem, penalty: FloatArray, left: FloatArray
    ) -> FloatArray | None:
        """(N,) residuals by both; left: those of the sum, in which products and the like must show."""
        n_landmarks = min(LANDMARKS, len(left) // ROWS_OF_A_LANDMARK)
        if not (2 <= len(given) <= MOST_TOGETHER and n_landmarks > 1) or self.values.shape[1] > WIDE:
            return None
        place = np.concatenate([self._places[k][rows] for k in given], axis=1)
        landmarks = place[np.linspace(0, len(place) - 1, n_landmarks).astype(int)]
        shown, best = SHOWN, None
        for width in WIDTHS:
            of_rows, norm = (_kernel(x, landmarks, width * math.sqrt(len(given))) for x in (place, landmarks))
            in_residuals = _Problem([(given, of_rows)], left)
            found = in_residuals.best(_with_norm(np.full((1, 1), TINY), size * norm) for size in SIZES)
            better = in_residuals.nats_better(found, float(np.square(left).mean()))
            if better > shown:
                shown, best = better, (of_rows, norm)
        if best is None:
            return None
        problem = _Problem([*of_sum.parts, (given, best[0])], of_sum.y)
        return problem.residuals(problem.best(_with_norm(penalty, size * best[1]) for size in SIZES), [])[0]

    @staticmethod
    def _place(x: FloatArray, is_number: bool) -> FloatArray:
        """(N, dimensions) in which near values are alike"""
        return np.nan_to_num(x)[:, None] if is_number else APART * level_basis(x)

    def _best_sum(
        self, column: int, given: tuple[int, ...], rows: slice | IntArray
    ) -> tuple[_Problem, _Solution, float]:
        """By cross-validation of how smooth the functions are."""
        problem = _Problem([((k,), self._bases[k][rows]) for k in given], self.values[rows, column])
        solutions = [(problem.solved(self._penalty(given, s)), s) for s in SMOOTHNESS[: None if given else 1]]
        return problem, *min(solutions, key=lambda found: problem.cross_validated(found[0]))

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

    def __init__(self, parts: Sequence[_Part], y: FloatArray) -> None:
        self.parts, self.y = parts, y
        self.X = np.concatenate([np.ones((len(y), 1)), *(functions for _, functions in parts)], axis=1)
        self.n_functions = self.X.shape[1]
        self.columns = [(), *(columns for columns, functions in parts for _ in range(functions.shape[1]))]
        self.gram, self.target = self.X.T @ self.X, self.X.T @ y

    def places(self, column: int) -> IntArray:
        """Of the functions in which it takes part."""
        return np.flatnonzero([column in columns for columns in self.columns])

    def solved(self, penalty: FloatArray) -> _Solution:
        """penalty: (F, F) for each row"""
        inverse = np.linalg.inv(self.gram + len(self.y) * penalty)
        return _Solution(inverse, inverse @ self.target)

    def best(self, penalties: Iterable[FloatArray]) -> _Solution:
        return min((self.solved(penalty) for penalty in penalties), key=self.cross_validated)

    def cross_validated(self, solution: _Solution) -> float:
        """Mean square of residuals as if every row had the mean leverage: generalised cross-validation."""
        used = np.einsum("fg,gf->", solution.inverse, self.gram) / len(self.y)
        return float(np.square(self.y - self.X @ solution.coefficients).mean() / max(1 - used, 1e-3) ** 2)

    def nats_better(self, solution: _Solution, square: float) -> float:
        """Than with this mean square, of normal noise."""
        return (
            0.5
            * len(self.y)
            * math.log(max(square, LEAST_VARIANCE) / max(self.cross_validated(solution), LEAST_VARIANCE))
        )

    def residuals(self, solution: _Solution, without: Sequence[int]) -> list[FloatArray]:
        """Of each row, predicted by the others: with all functions, then without those of each of these columns.

        With B the columns of X A^-1, C the block of A^-1 and b the coefficients that belong to them: fitted
        values without them are fitted - B C^-1 b, and leverages h - diag(B C^-1 B').
        """
        spread = self.X @ solution.inverse
        fitted, leverage = self.X @ solution.coefficients, np.einsum("nf,nf->n", spread, self.X)
        result = [self._of_other_rows(fitted, leverage)]
        for places in (self.places(k) for k in without):
            B = spread[:, places]
            weighed = B @ np.linalg.inv(solution.inverse[np.ix_(places, places)])  # B C^-1
            less = np.einsum("nq,nq->n", weighed, B)
            result.append(self._of_other_rows(fitted - weighed @ solution.coefficients[places], leverage - less))
        return result

    def _of_other_rows(self, fitted: FloatArray, leverage: FloatArray) -> FloatArray:
        return (self.y - fitted) / np.maximum(1 - leverage, 1e-3)


def _with_norm(penalty: FloatArray, further: FloatArray) -> FloatArray:
    """(F, F) and (G, G) -> (F + G, F + G)"""
    result = TINY * np.eye(len(penalty) + len(further))
    result[: len(penalty), : len(penalty)] = penalty
    result[len(penalty) :, len(penalty) :] += further
    return result


def _nats_better(one: FloatArray, other: FloatArray) -> float:
    """Of all rows, by the densities of their residuals."""
    return float(log_densities(one).sum() - log_densities(other).sum())


def _kernel(one: FloatArray, other: FloatArray, width: float) -> FloatArray:
    """(N, d), (M, d) -> (N, M): 1 at the same place, falling as a Gaussian."""
    square = np.square(one).sum(1)[:, None] + np.square(other).sum(1) - 2 * one @ other.T
    return np.exp(-0.5 * np.maximum(square, 0) / width**2)


def log_densities(residuals: FloatArray) -> FloatArray:
    """Of residuals whose noise may have any shape: each by a kernel estimate from the others, and for a part by a
    distribution with long tails, where others are far. NaN stays NaN.
    """
    result = np.full(len(residuals), np.nan)
    seen = ~np.isnan(residuals)
    r = residuals[seen]
    if len(r) > 1:
        result[seen] = np.log(Density.of(r).of_others(r))
    return result


@dataclass(frozen=True)
class Density:
    """Of residuals, in BINS bins: by Gaussian kernels of Silverman's width, and by a Student distribution."""

    first: float  # the middle of the first bin
    bin: float
    kernels: FloatArray  # (BINS,) how many residuals there are at the middle of each, times their kernels
    own: float  # what a residual counts there for itself
    square: float  # scale of the Student distribution, squared

    @classmethod
    def of(cls, r: FloatArray) -> Density:
        lowest, low, high, highest = np.quantile(r, [0.001, 0.25, 0.75, 0.999]).tolist()
        deviation = float(r.std())
        spread = min(deviation, (high - low) / 1.34) or deviation
        width = max(0.9 * spread * len(r) ** -0.2, math.sqrt(LEAST_VARIANCE))
        start, step = lowest - 4 * width, (highest - lowest + 8 * width) / BINS
        place = (r - start) / step
        counts = np.bincount(place[(place >= 0) & (place < BINS)].astype(np.intp), minlength=BINS)
        away = np.arange(-BINS, BINS + 1) * step / width
        kernel = np.exp(-0.5 * away[np.abs(away) < 5] ** 2) / (width * math.sqrt(2 * math.pi))
        smooth = np.convolve(counts, kernel)[len(kernel) // 2 :][:BINS]
        return cls(start + step / 2, step, smooth, float(kernel.max()), _student_square(r))

    def of_others(self, r: FloatArray) -> FloatArray:
        """(N,) of each of these residuals, by the others"""
        others = np.asarray(np.maximum(self._kernels(r) - self.own, 0.0), np.float64) / (len(r) - 1)
        return self._mixed(others, r)

    def at(self, away: FloatArray, n: int) -> FloatArray:
        """Anywhere, by all n residuals."""
        return self._mixed(self._kernels(away) / n, away)

    def _kernels(self, r: FloatArray) -> FloatArray:
        """Straight lines between the bins' middles, 0 outside."""
        place = (r - self.first) / self.bin
        inside = (place >= 0) & (place <= BINS - 1)
        lower = np.where(inside, place, 0.0).astype(np.intp).clip(max=BINS - 2)
        rise = self.kernels[1:] - self.kernels[:-1]
        return np.where(inside, self.kernels[lower] + (place - lower) * rise[lower], 0.0)

    def _mixed(self, kernels: FloatArray, r: FloatArray) -> FloatArray:
        gammas = math.lgamma((TAILS + 1) / 2) - math.lgamma(TAILS / 2)
        top = math.exp(gammas) / math.sqrt(TAILS * math.pi * self.square)
        falls = 1 + r * r / (TAILS * self.square)
        student = top / (falls * falls * np.sqrt(falls))  # to the power of (TAILS + 1) / 2
        return np.asarray((1 - TAIL_SHARE) * kernels + TAIL_SHARE * student)


def _student_square(r: FloatArray) -> float:
    """The scale, squared, with which residuals are most probable under a Student distribution with TAILS degrees.

    Each weighs (TAILS + 1) / (TAILS + r^2 / square), and the square is the mean of the weighed squares.
    """
    squares = r * r
    result = max(float(np.median(squares)), LEAST_VARIANCE)
    for _ in range(20):
        before, weights = result, 1 / (TAILS * result + squares)
        result = max((TAILS + 1) * result * (1 - TAILS * result * float(weights.mean())), LEAST_VARIANCE)
        if abs(result - before) < 1e-4 * before:
            break
    return result


def pieces_of(n_rows: int, n_columns: int) -> int:
    """Of a spline."""
    most = PIECES_OF_WIDE if n_columns > WIDE else MOST_PIECES
    return int(min(most, max(1, n_rows // ROWS_OF_A_PIECE)))


@dataclass(frozen=True)
class Basis:
    """Functions of a column that add up to any smooth one, or to any of its levels; each has the mean 0."""

    knots: FloatArray | None  # of B-splines; None: levels
    levels: FloatArray | None
    mean: FloatArray  # (functions,)

    @classmethod
    def of(cls, x: FloatArray, n_pieces: int | None) -> Basis:
        """x: (N,), NaN in gaps, which count as the least value in the means; n_pieces: None of levels"""
        seen = x[~np.isnan(x)]
        if n_pieces is None:
            start = cls(None, np.unique(seen), np.zeros(1))
        else:
            knots = _knots(seen, n_pieces) if len(seen) else seen
            start = cls(knots if len(knots) > 1 else np.zeros(0), None, np.zeros(1))
        return replace(start, mean=start(x).mean(0))

    def __call__(self, x: FloatArray) -> FloatArray:
        """(N,) -> (N, functions)"""
        if self.levels is not None:
            return (x[:, None] == self.levels).astype(float) - self.mean
        assert self.knots is not None
        return _splines(x, self.knots) - self.mean if len(self.knots) else np.zeros((len(x), 0))


def level_basis(x: FloatArray) -> FloatArray:
    """(N, levels) 1 where a row has the level, less its share"""
    return Basis.of(x, None)(x)


def spline_basis(x: FloatArray, n_pieces: int) -> FloatArray:
    """(N, pieces + DEGREE)"""
    return Basis.of(x, n_pieces)(x)


def _splines(x: FloatArray, inner: FloatArray) -> FloatArray:
    """(N, pieces + DEGREE) B-splines, by the recursion of Cox and de Boor; constant outside the knots."""
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
    return basis


def _knots(seen: FloatArray, n_pieces: int) -> FloatArray:
    """A third at quantiles, the others evenly far apart: a wave in a tail needs them as well."""
    third = max(1, n_pieces // 3)
    at_quantiles = np.quantile(seen, np.linspace(0, 1, third + 1))
    return np.unique(np.concatenate([at_quantiles, np.linspace(seen.min(), seen.max(), 2 * third + 1)]))


def roughness(n: int, is_number: bool) -> FloatArray:
    """(n, n) of a quadratic penalty: where a piece has hardly a row, a curve goes on as it did."""
    second = np.diff(np.eye(n), 2, axis=0) if is_number else np.zeros((0, n))
    return np.asarray(second.T @ second)
