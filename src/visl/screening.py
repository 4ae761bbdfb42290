"""Which pairs of columns go together most: in a wide table only these are tried as edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BINS = 8  # of a number, with equally many rows; levels beyond the seventh count as one

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def strongest_pairs(values: FloatArray, left: FloatArray, is_number: BoolArray, most: int) -> BoolArray:
    """(D, D), [from, to]: the `most` columns with which what is left of each column goes together best, and of either
    of two columns of which nothing is explained yet.

    values: (N, D), levels counted from 0, NaN in gaps; left: (N, D) the same, or what parents do not explain of it
    """
    worth = dependence(values, left, is_number)
    np.fill_diagonal(worth, -np.inf)
    if len(worth) <= most:
        return worth > -np.inf
    least = -np.partition(-worth, most - 1, axis=0)[most - 1]
    chosen = (worth >= least) & (worth > -np.inf)
    unexplained = np.array([np.array_equal(x, y, equal_nan=True) for x, y in zip(values.T, left.T, strict=True)])
    return np.asarray(chosen | (chosen.T & unexplained & unexplained[:, None]))


def dependence(values: FloatArray, others: FloatArray, is_number: BoolArray) -> FloatArray:
    """(D, D) nats by which the table of the bins of one and of another is likelier than if they were independent, in
    the rows that see both, less what chance alone makes of it: half a nat for each degree of freedom.
    """
    one, other = (_memberships(x, is_number) for x in (values, others))
    D = values.shape[1]
    counts = (one.T @ other).astype(float).reshape(D, BINS, D, BINS).transpose(0, 2, 1, 3)  # (D, D, BINS, BINS)
    rows, columns, every = counts.sum(3), counts.sum(2), counts.sum((2, 3))
    told = _n_log_n(counts).sum((2, 3)) - _n_log_n(rows).sum(2) - _n_log_n(columns).sum(2) + _n_log_n(every)
    free = np.maximum((rows > 0).sum(2) - 1, 0) * np.maximum((columns > 0).sum(2) - 1, 0)
    return np.asarray(told - 0.5 * free)


def _memberships(values: FloatArray, is_number: BoolArray) -> NDArray[np.float32]:
    """(N, D * BINS) 1 at the bin of each value; all 0 of a gap"""
    bins = np.stack([_binned(x, number) for x, number in zip(values.T, is_number, strict=True)], axis=1)
    return (bins[:, :, None] == np.arange(BINS)).astype(np.float32).reshape(len(values), -1)


def _binned(x: FloatArray, is_number: bool) -> NDArray[np.intp]:
    """(N,), -1 in gaps"""
    seen = ~np.isnan(x)
    result = np.full(len(x), -1)
    if is_number:
        ends = np.unique(np.quantile(x[seen], np.arange(1, BINS) / BINS)) if seen.any() else np.zeros(0)
        result[seen] = np.searchsorted(ends, x[seen], side="right")
    else:
        result[seen] = np.minimum(x[seen], BINS - 1)
    return result


def _n_log_n(n: FloatArray) -> FloatArray:
    return np.asarray(n * np.log(np.maximum(n, 1.0)))
