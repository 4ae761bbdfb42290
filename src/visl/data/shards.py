"""Data in parts, each read by a process of its own: summaries that can be sent and merged, and the schema of the whole.

A summary is plain data, the same after a round trip through JSON:
{"n_rows": rows, "columns": [{"name", "dtype", "count", "values", "low", "high", "whole", "order"}, ...]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from visl.data.codec import describe_columns, summarise_columns
from visl.data.log_files import check_alike, log_files, share_of
from visl.data.long import LongLog, read_long
from visl.data.outputs import PathLike
from visl.data.source import Name, Source
from visl.data.summary import ColumnSummary, join
from visl.errors import InputError
from visl.schema import Schema
from visl.table import mix_bits

_FIELDS = ("name", "dtype", "count", "values", "low", "high", "whole", "order")
_TUPLES = ("values", "order")


@dataclass(frozen=True)
class LogParts:
    """Some of the files of a log, each a log of its own."""

    logs: Sequence[LongLog]
    numbers: Sequence[int]  # which of the files they are
    n_parts: int  # files of the whole log
    column_ids: Sequence[Name] = ()  # of the whole log

    @property
    def n_cells(self) -> int:
        return sum(log.n_cells for log in self.logs)


def read_parts(
    folder: PathLike, row: str, column: str, value: str, duplicates: str | None, *, process: int, processes: int
) -> LogParts:
    """The files that are this process's: every so many of them, in order of their names."""
    files = log_files(folder)
    own = share_of(folder, files, (process, processes))
    check_alike(files, (row, column, value))
    numbers = range(process, len(files), processes)
    return LogParts([read_long(file, row, column, value, duplicates) for file in own], numbers, len(files))


def summarise(source: Source, kinds: Any = None) -> dict[str, Any]:
    """What the schema needs to know of one part of the data.

    kinds: as for the schema, of any columns; a column of numbers lists all of them only if they are levels by that.
    """
    if isinstance(kinds, Mapping):
        present = set(source.names)
        kinds = {name: kind for name, kind in kinds.items() if name in present}  # others are in other parts
    return {"n_rows": source.n_rows, "columns": [_to_json(column) for column in summarise_columns(source, kinds)]}


def merge(summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary of all parts together. Their order decides only on that of columns and texts: by first appearance."""
    parts = list(summaries)
    if not parts:
        raise InputError("there are no summaries to merge: give one for each part of the data")
    columns: dict[Name, list[ColumnSummary]] = {}
    for part in parts:
        for entry in part["columns"]:
            columns.setdefault(entry["name"], []).append(_from_json(entry))
    return {
        "n_rows": sum(part["n_rows"] for part in parts),
        "columns": [_to_json(reduce(join, column)) for column in columns.values()],
    }


def schema_from_summary(
    summary: Mapping[str, Any], kinds: Any, group_of: Mapping[Name, Name], *, named: bool
) -> Schema:
    """The schema that `infer_schema` gives on all the data that was summarised, with the same kinds."""
    return describe_columns([_from_json(entry) for entry in summary["columns"]], kinds, group_of, named=named)


def row_key(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A 64-bit key of each row id, in any process the same: a key in two parts is a row in two parts.  (n,) -> (n,)

    ids: whole numbers, or text as objects.
    """
    if ids.dtype.kind in "iu":
        return mix_bits(ids.astype(np.int64).view(np.uint64))
    return pd.util.hash_array(ids.astype(object), categorize=False)


def _to_json(column: ColumnSummary) -> dict[str, Any]:
    entry = {name: getattr(column, name) for name in _FIELDS}
    return entry | {name: None if entry[name] is None else list(entry[name]) for name in _TUPLES}


def _from_json(entry: Mapping[str, Any]) -> ColumnSummary:
    fields = {name: entry[name] for name in _FIELDS}
    return ColumnSummary(**fields | {name: None if fields[name] is None else tuple(fields[name]) for name in _TUPLES})
