"""A level given the levels of other columns, by counting; exact, for any set of columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROWS_OF_SHARES = 1.0  # what a column's own shares count for in every line of a table, in rows ...
ROWS_OF_A_LEVEL = 0.5  # ... and what each of its levels counts for in these shares

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class LevelTables:
    """P(x_j | given columns): a line of shares for each combination of levels that rows have, every row predicted by
    the others.

    With n rows in a line, m of them at a row's own level, which has the share s among all rows but this:
    (m - 1 + s) / (n - 1 + 1). So what a table learns of the very rows it is judged by does not count for it, and a
    column that says nothing is worth less than nothing.
    """

    def __init__(self, values: FloatArray, n_levels: Sequence[int]) -> None:
        """values: (N, D) indices of levels, NaN in gaps"""
        self.seen = ~np.isnan(values)
        self.codes = np.nan_to_num(values).astype(np.int64)
        self.n_levels = n_levels

    def log_prob(self, column: int, given: Sequence[int], also_seen: Sequence[int] = ()) -> FloatArray:
        """(N,) of each row, from those that see all of these columns; NaN of the others."""
        seen = np.asarray(self.seen[:, [column, *given, *also_seen]].all(1))
        result = np.full(len(seen), np.nan)
        level, K = self.codes[seen, column], max(1, self.n_levels[column])
        line = self._lines(given, seen)
        in_line, n_level = np.bincount(line), np.bincount(level, minlength=K)
        in_place = np.bincount(line * K + level)[line * K + level]
        share = (n_level[level] - 1 + ROWS_OF_A_LEVEL) / (len(level) - 1 + ROWS_OF_A_LEVEL * K)
        result[seen] = np.log((in_place - 1 + ROWS_OF_SHARES * share) / (in_line[line] - 1 + ROWS_OF_SHARES))
        return result

    def _lines(self, given: Sequence[int], seen: BoolArray) -> IntArray:
        """(rows,) the combination of each row's levels, as a number below that of rows or near it"""
        line = np.zeros(int(seen.sum()), np.int64)
        for k in given:
            line = line * max(1, self.n_levels[k]) + self.codes[seen, k]
            if len(line) and line.max() > 4 * len(line):
                line = np.unique(line, return_inverse=True)[1]
        return line
