"""Table: the one in-memory form of the data that the model takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Table:
    """The observed cells of N rows and D columns, row by row (CSR): a gap takes no memory and can add nothing.

    Values are on the model's scale (see `Schema`): continuous ones in [0, 1] for the training range, discrete ones the
    index of their level.
    """

    starts: NDArray[np.int64]  # (N + 1,) the cells of row n are starts[n]:starts[n + 1]
    columns: NDArray[np.int32]  # (cells,) ascending within a row
    values: NDArray[np.float32]  # (cells,)
    n_columns: int

    @property
    def n_rows(self) -> int:
        return len(self.starts) - 1

    @property
    def n_cells(self) -> int:
        return len(self.values)

    @property
    def row_of_cell(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    @classmethod
    def from_dense(cls, values: NDArray, observed: NDArray[np.bool_]) -> Table:
        """(N, D) values, of which only the observed ones are read."""
        rows, columns = np.nonzero(observed)
        return cls._from_sorted(rows, columns, values[rows, columns], observed.shape)

    @classmethod
    def from_cells(cls, rows: NDArray, columns: NDArray, values: NDArray, shape: tuple[int, int]) -> Table:
        """Cells in any order, each at most once."""
        order = np.lexsort((columns, rows))
        return cls._from_sorted(rows[order], columns[order], values[order], shape)

    @classmethod
    def _from_sorted(cls, rows: NDArray, columns: NDArray, values: NDArray, shape: tuple[int, int]) -> Table:
        starts = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=starts[1:])
        return cls(starts, columns.astype(np.int32), values.astype(np.float32), shape[1])

    def to_dense(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(N, D) values with 0 in every gap, and (N, D) observed."""
        values = np.zeros((self.n_rows, self.n_columns), np.float32)
        observed = np.zeros((self.n_rows, self.n_columns), bool)
        rows = self.row_of_cell
        values[rows, self.columns] = self.values
        observed[rows, self.columns] = True
        return values, observed

    def take_rows(self, rows: NDArray[np.int64]) -> Table:
        """The given rows, in the given order."""
        counts = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        # Position of each cell: its row's first position plus its rank in the row.
        cells = np.repeat(self.starts[:-1][rows] - starts[:-1], counts) + np.arange(starts[-1])
        return Table(starts, self.columns[cells], self.values[cells], self.n_columns)

    def keep_cells(self, keep: NDArray[np.bool_]) -> Table:
        """The same rows with only the kept cells observed.  keep: (cells,)"""
        starts = np.concatenate([[0], np.cumsum(keep)])[self.starts]
        return Table(starts, self.columns[keep], self.values[keep], self.n_columns)

    def gaps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of all cells that are not observed, row by row. Takes (N, D) booleans: call it on chunks."""
        observed = np.zeros((self.n_rows, self.n_columns), bool)
        observed[self.row_of_cell, self.columns] = True
        rows, columns = np.nonzero(~observed)
        return rows, columns

    def find(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which of the given cells are observed, and their values (0 where not).  (n,), (n,) -> (n,), (n,)"""
        known, asked = self.row_of_cell * self.n_columns + self.columns, rows * self.n_columns + columns
        at = np.searchsorted(known, asked)
        found = np.append(known, -1)[at] == asked
        return found, np.where(found, np.append(self.values, np.float32(0))[at], np.float32(0))

    def fingerprint(self, *, ordered: bool) -> int:
        """The same for the same rows; ordered: in the same order."""
        keys = self.row_keys()
        if ordered:
            keys = mix_bits(keys ^ mix_bits(np.arange(self.n_rows, dtype=np.uint64)))
        return int(np.append(keys, mix_bits(np.array(self.n_rows))).sum(dtype=np.uint64))

    def row_keys(self) -> NDArray[np.uint64]:
        """A 64-bit key of each row's content: equal for equal rows, whatever stands around them.  (N,)"""
        values = self.values + np.float32(0)  # makes -0 a 0
        bits = values.view(np.uint32).astype(np.uint64) | (self.columns.astype(np.uint64) << np.uint64(32))
        # Wrap-around sums of mixed cells do not depend on the order of the cells.
        sums = np.concatenate([[np.uint64(0)], np.cumsum(mix_bits(bits), dtype=np.uint64)])
        return mix_bits(sums[self.starts[1:]] - sums[self.starts[:-1]])


def mix_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: neighbouring inputs give unrelated 64-bit outputs."""
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2^64
        x = np.asarray(x, np.uint64) + _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def signed_bits(number: int) -> int:
    """The signed 64-bit integer with the bits of an unsigned one."""
    return number - 2**64 if number >= 2**63 else number
