"""Between a user's columns and the model's Table: the schema, the cells in, the values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visl.data.kinds import as_numbers, check_kinds, describe_column, encode_levels
from visl.data.source import ColumnData, Name, Source
from visl.data.summary import ColumnSummary, summarise_column
from visl.errors import InputError
from visl.schema import BINARY, CONTINUOUS, Column, Schema
from visl.table import Table

MOST_BEYOND = 10.0  # the model sees values at most this many spans beyond the training range: 1e300 would poison a row


def infer_schema(source: Source, kinds: Any, group_of: Mapping[Name, Name], *, named: bool) -> Schema:
    """The model's own order of columns: by group, then by name, so that a named frame's order does not matter.

    group_of: the group of each column that is in one; empty is the variable-wise form.
    """
    return describe_columns(summarise_columns(source, kinds), kinds, group_of, named=named)


def summarise_columns(source: Source, kinds: Any) -> list[ColumnSummary]:
    """Of each column what `describe_columns` needs, with the same kinds."""
    settings = check_kinds(kinds, source.names)
    return [
        summarise_column(data, list_all=settings.get(data.name, CONTINUOUS) != CONTINUOUS) for data in source.columns
    ]


def describe_columns(
    columns: Sequence[ColumnSummary], kinds: Any, group_of: Mapping[Name, Name], *, named: bool
) -> Schema:
    """As `infer_schema`, from summaries."""
    settings = check_kinds(kinds, [column.name for column in columns])
    described = [
        describe_column(column, settings.get(column.name), group_of.get(column.name, column.name)) for column in columns
    ]
    groups = list(dict.fromkeys(column.group for column in described))
    if named:
        groups.sort(key=str)
        described.sort(key=lambda column: str(column.name))
    rank = {group: m for m, group in enumerate(groups)}
    described.sort(key=lambda column: rank[column.group])
    return Schema(tuple(described), tuple(groups), grouped=bool(group_of))


def describe_constants(schema: Schema) -> list[str]:
    """A notice on each column that has one value only."""
    return [
        f"column {column.name!r} has one value only: its gaps are filled with it, and it can tell nothing about others"
        for column in schema.columns
        if column.constant
    ]


@dataclass(frozen=True)
class Encoded:
    """A source in the model's terms."""

    table: Table
    # Cells that hold a level never seen in training: not a gap to fill, but nothing the model can read either.
    unseen_rows: NDArray[np.int64]
    unseen_columns: NDArray[np.int64]  # model order
    unseen_values: NDArray  # the levels themselves

    def gaps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns (model order) of the cells to fill, sorted by row."""
        rows, columns = self.table.gaps()
        if not len(self.unseen_rows):
            return rows, columns
        width = self.table.n_columns
        kept = ~np.isin(rows * width + columns, self.unseen_rows * width + self.unseen_columns)
        return rows[kept], columns[kept]

    def unseen_levels(self, schema: Schema) -> dict[Name, list[Any]]:
        """By column, each once."""
        levels: dict[Name, dict[Any, None]] = {}
        for j, value in zip(self.unseen_columns.tolist(), self.unseen_values.tolist(), strict=True):
            levels.setdefault(schema.columns[j].name, {})[value] = None
        return {name: list(seen) for name, seen in levels.items()}


def encode(source: Source, schema: Schema) -> Encoded:
    """Columns are matched by name; a column that the source does not have is all gaps."""
    by_name = {data.name: data for data in source.columns}
    # A long log lacks the columns that nobody has answered.
    present = [(j, by_name[column.name]) for j, column in enumerate(schema.columns) if column.name in by_name]
    starts = _row_starts([data for _, data in present], source.n_rows)
    columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    # Column by column each cell takes the next place of its row: rows and columns come out in order without a sort.
    free = starts[:-1].copy()
    unseen = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, object))]
    for j, data in present:
        codes = _encode_column(data, schema.columns[j])
        if schema.columns[j].levels and codes.min(initial=0) < 0:
            cells = codes < 0
            unseen.append((data.rows[cells], np.full(cells.sum(), j), data.values[cells].astype(object)))
            codes[cells] = np.nan
        at = free[data.rows]
        columns[at], values[at] = j, codes
        free[data.rows] = at + 1
    table = Table(starts, columns, values, len(schema.columns))
    if len(unseen) > 1:
        table = table.keep_cells(~np.isnan(values))
    return Encoded(table, *(np.concatenate(parts) for parts in zip(*unseen, strict=True)))


def _row_starts(columns: list[ColumnData], n_rows: int) -> NDArray[np.int64]:
    """Where the cells of each row start, all columns together, and the end.  (rows + 1,)"""
    starts = np.zeros(n_rows + 1, np.int64)
    for data in columns:
        starts[data.rows + 1] += 1  # a column has a row at most once
    return np.cumsum(starts, out=starts)


def decode(column: Column, codes: NDArray, *, round_integers: bool) -> NDArray:
    """Values on the user's scale: float64 if continuous, else the levels themselves (objects). NaN stays a gap."""
    if column.kind == CONTINUOUS:
        values = column.low + column.span * codes.astype(np.float64)
        return np.round(values) if column.integer and round_integers else values
    levels = np.empty(column.n_levels + 1, object)
    levels[:] = [*column.levels, None]
    return levels[np.where(np.isnan(codes), column.n_levels, codes).astype(int)]


def decode_cells(schema: Schema, columns: NDArray[np.int64], codes: NDArray, *, round_integers: bool) -> NDArray:
    """(cells,) values on the user's scale, as objects, of cells of different columns."""
    values = np.empty(len(codes), object)
    for j in np.unique(columns):
        at = columns == j
        values[at] = decode(schema.columns[j], codes[at], round_integers=round_integers)
    return values


def _encode_column(data: ColumnData, column: Column) -> NDArray[np.float32]:
    if column.kind == CONTINUOUS:
        with np.errstate(over="ignore"):
            scaled = (as_numbers(data) - column.low) / column.span
        return np.clip(scaled, -MOST_BEYOND, 1 + MOST_BEYOND).astype(np.float32)
    codes = encode_levels(data, column.levels)
    if column.kind == BINARY and (codes < 0).any():
        cell = int(np.flatnonzero(codes < 0)[0])
        raise InputError(
            f"column {column.name!r} is binary ({column.levels[0]!r} or {column.levels[1]!r}), but row "
            f"{data.rows[cell]} holds {data.shown(cell)}: correct it, or fit with another kind"
        )
    return codes
