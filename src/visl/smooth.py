"""Functions of columns that add up to any smooth one, or to any of its levels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

DEGREE = 3  # of the splines
APART = 2.0  # deviations between two levels of a column, divided by the root of 2

FloatArray = NDArray[np.float64]


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


def place(x: FloatArray, is_number: bool) -> FloatArray:
    """(N,) -> (N, dimensions) in which values are near each other that are alike"""
    return np.nan_to_num(x)[:, None] if is_number else APART * level_basis(x)


def kernel(one: FloatArray, other: FloatArray, width: float) -> FloatArray:
    """(N, d), (M, d) -> (N, M): 1 at the same place, falling as a Gaussian."""
    square = np.square(one).sum(1)[:, None] + np.square(other).sum(1) - 2 * one @ other.T
    return np.exp(-0.5 * np.maximum(square, 0) / width**2)
