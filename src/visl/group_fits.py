"""Exact fits of groups to their parents, and what each parent is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visl.additive import AdditiveFits, log_densities
from visl.schema import CONTINUOUS, Schema

ROWS_OF_A_PARENT = 40  # with fewer, fits say little ...
MOST_PARENTS = 12  # ... and with more, they take long
FEWEST_ROWS = 20  # what fewer rows would have to judge stays as it is
LARGEST_GAIN = 1.0  # nats that one row may count for: a few rows far outside must not decide

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class GroupFits:
    """Exact fits, where every group is a single column."""

    def __init__(self, values: FloatArray, schema: Schema) -> None:
        """values: (N, D), as equations see them, NaN in gaps"""
        self.possible = np.array(schema.has_numbers) & (len(schema.groups) == len(schema.columns))  # (M,)
        self.column = [schema.group_of.index(m) for m in range(len(schema.groups))]
        self.fits = AdditiveFits(values, [column.kind == CONTINUOUS for column in schema.columns])
        self.n_rows = len(values)

    def residuals(self, group: int, parents: BoolArray) -> FloatArray:
        """(N,); parents: (M,)"""
        every = np.flatnonzero(parents)
        return self._fits(group, every, every[:0])[0]

    def gain(self, group: int, parents: BoolArray, changed: int) -> tuple[float, float, int]:
        """Mean, variance and number of rows of what this parent is worth beside the others."""
        return _summary(self._gain(group, parents, changed))

    def gain_of_rows(self, group: int, parents: BoolArray, changed: int) -> FloatArray:
        """(N,) the same of every row that sees all parents, else NaN; of none if there are too few of them."""
        n_parents = int(parents.sum()) + (not parents[changed])
        if n_parents > MOST_PARENTS:
            return np.full(self.n_rows, np.nan)
        gain = self._gain(group, parents, changed)
        enough = (~np.isnan(gain)).sum() >= max(FEWEST_ROWS, ROWS_OF_A_PARENT * n_parents)
        return gain if enough else np.full(self.n_rows, np.nan)

    def _gain(self, group: int, parents: BoolArray, changed: int) -> FloatArray:
        """(N,) NaN where a row does not see all parents"""
        # Of all parents of a graph one is asked for after the other; of a set with one more, only that one.
        every = np.flatnonzero(parents | (np.arange(len(parents)) == changed))
        asked = every if parents[changed] else np.array([changed])
        found = self._fits(group, every, asked)
        if np.isnan(found[0]).all():
            return found[0]
        return log_densities(found[0]) - log_densities(found[1 + int(np.flatnonzero(asked == changed)[0])])

    def _fits(self, group: int, parents: IntArray, without: IntArray) -> FloatArray:
        """(1 + without, N)"""
        given, less = ([self.column[m] for m in groups] for groups in (parents, without))
        return self.fits.residuals(self.column[group], given, less)


def _summary(gain: FloatArray) -> tuple[float, float, int]:
    seen = gain[~np.isnan(gain)].clip(-LARGEST_GAIN, LARGEST_GAIN)
    return (float(seen.mean()), float(seen.var()), len(seen)) if len(seen) else (0.0, 0.0, 0)
