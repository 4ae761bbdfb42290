"""Exact fits of groups to their parents, and what each parent is worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visl.additive import AdditiveFits
from visl.additive_logits import AdditiveLogits
from visl.level_tables import LevelTables
from visl.schema import CONTINUOUS, Schema

ROWS_OF_A_PARENT = 40  # with fewer, fits say little ...
MOST_PARENTS = 12  # ... and with more, they take long
FEWEST_ROWS = 20  # that see all, for an edge to be judged
LARGEST_GAIN = 1.0  # nats that one row may count for: a few rows far outside must not decide
MOST_FITTED = 1000  # groups; in wider tables networks find the graph

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def counts(schema: Schema) -> bool:
    """Whether counting is enough: there are levels alone."""
    return fits_find_graph(schema) and not any(schema.has_numbers)


def fits_find_graph(schema: Schema) -> bool:
    """Whether exact fits find the graph, without any network."""
    return len(schema.groups) == len(schema.columns) <= MOST_FITTED


class GroupFits:
    """Exact fits, where every group is a single column: numbers as sums of smooth functions, levels by counting, or
    where numbers are among their parents, or a sum tells more, by logits that are such sums."""

    def __init__(self, values: FloatArray, schema: Schema) -> None:
        """values: (N, D), see `as_fits_see`, NaN in gaps"""
        M, numbers = len(schema.groups), np.array([column.kind == CONTINUOUS for column in schema.columns])
        self.tabulated = counts(schema)
        self.column = [schema.group_of.index(m) for m in range(M)]
        self.is_number, self.n_levels = numbers, [column.n_levels for column in schema.columns]
        self.additive, self.logits = AdditiveFits(values, numbers.tolist()), AdditiveLogits(values, self.n_levels)
        self.tables = LevelTables(values, self.n_levels)
        self.values, self.n_rows = values, len(values)

    def log_prob(self, group: int, parents: BoolArray) -> FloatArray:
        """(N,) of every row that sees the group and its parents, else NaN; parents: (M,)"""
        column, given = self.column[group], self._columns(parents)
        if self.is_number[column]:
            return self.additive.log_prob(column, given)
        return self._of_level(column, given)

    def gain(self, group: int, parents: BoolArray, changed: int) -> tuple[float, float, int]:
        """Mean, variance and number of rows of what this parent is worth beside the others."""
        return _summary(self.gain_of_each_row(group, parents, changed))

    def gain_of_rows(self, group: int, parents: BoolArray, changed: int) -> FloatArray:
        """(N,) the same of every row that sees all parents, else NaN; of none if there are too few of them."""
        n_parents = int(parents.sum()) + (not parents[changed])
        if n_parents > MOST_PARENTS:
            return np.full(self.n_rows, np.nan)
        seen = ~np.isnan(self.values[:, [self.column[group], self.column[changed], *self._columns(parents)]]).any(1)
        if seen.sum() < max(FEWEST_ROWS, ROWS_OF_A_PARENT * n_parents * self._n_curves(group, parents, changed)):
            return np.full(self.n_rows, np.nan)
        return self.gain_of_each_row(group, parents, changed)

    def _n_curves(self, group: int, parents: BoolArray, changed: int) -> int:
        """That each parent has: one, or if there are numbers among them one for each of a level's logits."""
        column = self.column[group]
        if self.is_number[column] or not self.is_number[[self.column[changed], *self._columns(parents)]].any():
            return 1
        return max(1, self.n_levels[column] - 1)

    def gain_of_each_row(self, group: int, parents: BoolArray, changed: int) -> FloatArray:
        """(N,) the same, however few rows there are"""
        column, parent = self.column[group], self.column[changed]
        others = [k for k in self._columns(parents) if k != parent]
        if not self.is_number[column]:
            return self._of_level(column, sorted([*others, parent])) - self._of_level(column, others, [parent])
        # Of all parents of a graph one is asked for after the other; of a set with one more, only that one.
        given = sorted([*others, parent])
        asked = given if parents[changed] else [parent]
        with_all = self.additive.log_prob(column, given, None, asked)
        if np.isnan(with_all).all():
            return with_all
        return with_all - self.additive.log_prob(column, given, parent, asked)

    def left(self, graph: BoolArray) -> FloatArray:
        """(N, M) what parents do not explain of each number; NaN where one is a gap. Of levels, all."""
        result = self.values[:, self.column].copy()
        for j in np.flatnonzero(graph.any(0) & self.is_number[self.column]):
            result[:, j] = self.additive.residuals(self.column[j], self._columns(graph[:, j]), [])[0]
        return result

    def _of_level(self, column: int, given: list[int], also_seen: Sequence[int] = ()) -> FloatArray:
        """(N,) by counting or by logits, whichever tells the rows better."""
        if self.is_number[given].any():
            return self.logits.log_prob(column, given, also_seen)
        counted = self.tables.log_prob(column, given, also_seen)
        if self.tabulated or not given:
            return counted
        added = self.logits.log_prob(column, given, also_seen)
        return added if np.nansum(added) > np.nansum(counted) else counted

    def _columns(self, groups: BoolArray) -> list[int]:
        return [self.column[m] for m in np.flatnonzero(groups)]


def _summary(gain: FloatArray) -> tuple[float, float, int]:
    seen = gain[~np.isnan(gain)].clip(-LARGEST_GAIN, LARGEST_GAIN)
    return (float(seen.mean()), float(seen.var()), len(seen)) if len(seen) else (0.0, 0.0, 0)
