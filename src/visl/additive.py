"""A number as a sum of smooth functions of other columns, one for each, and one of all if they act together; solved
exactly, for any set of columns."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visl.densities import log_densities
from visl.least_squares import LeastSquares, Solution
from visl.smooth import Basis, kernel, place, roughness

MOST_PIECES = 36
# Columns; in a table of more, where so many more functions are fitted: pieces, and no functions of several columns.
WIDE, PIECES_OF_WIDE = 30, 12
ROWS_OF_A_PIECE = 50  # at least
SMOOTHNESS = (1e-5, 1e-4, 1e-3, 1e-2)  # times the rows: of squared second differences of coefficients
# Columns may act together: as a smooth function of all that are given, if not too many are and residuals show it.
MOST_TOGETHER = 8  # columns
LANDMARKS, ROWS_OF_A_LANDMARK = 150, 10  # rows around which it may bend: at most, and of how many it is one at least
WIDTHS = (1.5, 4.0)  # of what a landmark tells, in deviations of the columns, times the root of their number
SIZES = (1e-5, 1e-4, 1e-3, 1e-2)  # times the rows: of the function's squared norm
SHOWN, CLEARLY = 5.0, 10.0  # nats in all rows, first in residuals and then in all
TINY = 1e-9  # times the rows: of squared coefficients, so that there is one solution
KEPT_NUMBERS = 1 << 24  # of residuals that are remembered ...
TOLD_NUMBERS = 1 << 23  # ... and of rows' log-densities

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


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
        self._places = [place(x, bool(number)) for x, number in zip(values.T, is_number, strict=True)]
        self._rough = [roughness(b.shape[1], number) for b, number in zip(self._bases, is_number, strict=True)]
        self._known: OrderedDict[tuple[int, tuple[int, ...], tuple[int, ...]], FloatArray] = OrderedDict()
        self._n_kept = 0  # numbers
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
            self._n_kept += self._known[key].size
            while self._n_kept > KEPT_NUMBERS and len(self._known) > 1:
                self._n_kept -= self._known.popitem(last=False)[1].size
        return self._known[key]

    def functions(self, column: int, given: Sequence[int]) -> tuple[float, list[FloatArray], FloatArray]:
        """The constant, the coefficients of each function, and the residuals of the rows that see all, each predicted
        by the others."""
        seen = ~np.isnan(self.values[:, [column, *given]]).any(1)
        problem, solution = self._best_sum(column, tuple(given), np.flatnonzero(seen))[:2]
        of_blocks = [solution.coefficients[block] for block in problem.blocks]
        return float(solution.coefficients[0]), of_blocks, problem.residuals(solution, [])[0]

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
        by_sum = problem.residuals(solution, [given.index(k) for k in without])
        together = self._together(given, rows, problem, self._penalty(given, smoothness), by_sum[0])
        if together is None or _nats_better(together, by_sum[0]) < CLEARLY:
            return by_sum
        others = (tuple(k for k in given if k != left_out) for left_out in without)
        return [together, *(self._residuals(column, o, rows, [])[0] for o in others)]

    def _together(
        self,
        given: tuple[int, ...],
        rows: slice | IntArray,
        of_sum: LeastSquares,
        penalty: FloatArray,
        left: FloatArray,
    ) -> FloatArray | None:
        """(N,) residuals by both; left: those of the sum, in which products and the like must show."""
        n_landmarks = min(LANDMARKS, len(left) // ROWS_OF_A_LANDMARK)
        if not (2 <= len(given) <= MOST_TOGETHER and n_landmarks > 1) or self.values.shape[1] > WIDE:
            return None
        places = np.concatenate([self._places[k][rows] for k in given], axis=1)
        landmarks = places[np.linspace(0, len(places) - 1, n_landmarks).astype(int)]
        shown, best = SHOWN, None
        for width in WIDTHS:
            of_rows, norm = (kernel(x, landmarks, width * math.sqrt(len(given))) for x in (places, landmarks))
            in_residuals = LeastSquares([of_rows], left)
            found = in_residuals.best(_with_norm(np.full((1, 1), TINY), size * norm) for size in SIZES)
            better = in_residuals.nats_better(found, float(np.square(left).mean()))
            if better > shown:
                shown, best = better, (of_rows, norm)
        if best is None:
            return None
        problem = LeastSquares([*of_sum.bases, best[0]], of_sum.y)
        return problem.residuals(problem.best(_with_norm(penalty, size * best[1]) for size in SIZES), [])[0]

    def _best_sum(
        self, column: int, given: tuple[int, ...], rows: slice | IntArray
    ) -> tuple[LeastSquares, Solution, float]:
        """By cross-validation of how smooth the functions are."""
        problem = LeastSquares([self._bases[k][rows] for k in given], self.values[rows, column])
        solutions = [(problem.solved(self._penalty(given, s)), s) for s in SMOOTHNESS[: None if given else 1]]
        return problem, *min(solutions, key=lambda found: problem.cross_validated(found[0]))

    def _penalty(self, given: tuple[int, ...], smoothness: float) -> FloatArray:
        """(F, F) for each row"""
        sizes = [1, *(self._bases[k].shape[1] for k in given)]
        result, ends = TINY * np.eye(sum(sizes)), np.cumsum(sizes)
        for k, first, end in zip(given, ends, ends[1:], strict=False):
            result[first:end, first:end] += smoothness * self._rough[k]
        return result


def _with_norm(penalty: FloatArray, further: FloatArray) -> FloatArray:
    """(F, F) and (G, G) -> (F + G, F + G)"""
    result = TINY * np.eye(len(penalty) + len(further))
    result[: len(penalty), : len(penalty)] = penalty
    result[len(penalty) :, len(penalty) :] += further
    return result


def _nats_better(one: FloatArray, other: FloatArray) -> float:
    """Of all rows, by the densities of their residuals."""
    return float(log_densities(one).sum() - log_densities(other).sum())


def pieces_of(n_rows: int, n_columns: int) -> int:
    """Of a spline."""
    most = PIECES_OF_WIDE if n_columns > WIDE else MOST_PIECES
    return int(min(most, max(1, n_rows // ROWS_OF_A_PIECE)))
