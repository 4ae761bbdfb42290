"""Long logs: one line (row id, column id, value) for each observed cell. Never a Python object for each number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from visl.data.log_cells import DUPLICATES, NUMBER, STRING, Cells, encode_ids, read_values, refuse_infinite
from visl.data.log_files import Shard, check_present, read_columns
from visl.data.outputs import PathLike
from visl.errors import InputError

__all__ = ["STRING", "LongLog", "find_ids", "long_from_frame", "read_cells", "read_long"]


@dataclass(frozen=True)
class LongLog:
    """The observed cells, sorted by (row, column), each once. A row or column without a value is still declared."""

    row_name: str
    column_name: str
    value_name: str
    row_ids: NDArray[Any]  # unique, in order of first appearance; int64, or str objects
    column_ids: NDArray[Any]
    row: NDArray[np.int64]  # (cells,) index into row_ids
    column: NDArray[np.int32]  # (cells,) index into column_ids
    values: NDArray[Any]  # (cells,) float64, or str objects if value_dtype is "string"
    value_dtype: str  # "number", "integer", "boolean" or "string"

    @property
    def n_cells(self) -> int:
        return len(self.values)


def read_long(
    path: PathLike, row: str, column: str, value: str, duplicates: str | None = None, shard: Shard | None = None
) -> LongLog:
    """A log from a file, or from all Parquet files in a folder, in order of their names.

    duplicates: which value a repeated pair gets, "first", "last" or "mean"; None refuses it.
    shard: (process, processes): only the files i of the folder with i % processes == process, counted from 0.
    """
    _check_settings((row, column, value), duplicates)
    columns, is_text = read_columns(path, (row, column), value, shard)
    return _build(str(path), (row, column, value), columns, is_text, duplicates)


def long_from_frame(frame: Any, row: str, column: str, value: str, duplicates: str | None = None) -> LongLog:
    """A log from a data frame: pandas, Polars, PyArrow or another that narwhals knows."""
    names = (row, column, value)
    _check_settings(names, duplicates)
    try:
        known = nw.from_native(frame)
    except TypeError as error:
        raise InputError(f"a long log is given as {type(frame).__name__}: give a data frame or a file") from error
    check_present("the log", names, known.collect_schema().names())
    chosen = known.select(names)
    eager = chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen
    columns = [_series_to_arrow(eager, name, "values" if name == value else "ids") for name in names]
    return _build("the log", names, columns, False, duplicates)


def read_cells(path: PathLike, row: str, column: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The asked pairs of ids, in the order of the file; see `find_ids` for where they are in a log."""
    _check_different((row, column))
    ids, is_text = read_columns(path, (row, column))
    _check_rows(str(path), len(ids[0]))
    row_ids, rows = encode_ids(ids[0], str(path), row, is_text)
    column_ids, columns = encode_ids(ids[1], str(path), column, is_text)
    return row_ids[rows], column_ids[columns]


def find_ids(known: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each asked id among the known, unique ones, -1 for an unknown one.  (asked,)

    The ids of one file may be numbers and those of another, which has some more, text: then "12" is 12.
    """
    position = _index(known).get_indexer(_index(asked)).astype(np.int64)
    unknown = position < 0
    if unknown.any():
        as_text = _index(known.astype(str).astype(object))
        if as_text.is_unique:
            position[unknown] = as_text.get_indexer(_index(asked[unknown].astype(str).astype(object)))
    return position


def _index(ids: NDArray[Any]) -> pd.Index[Any]:
    return pd.Index(ids, dtype=object if ids.dtype == object else None, tupleize_cols=False)


def _check_settings(names: Sequence[str], duplicates: str | None) -> None:
    _check_different(names)
    if duplicates is not None and duplicates not in DUPLICATES:
        raise InputError(f"duplicates is {duplicates!r}: use one of {', '.join(DUPLICATES)}")


def _check_different(names: Sequence[str]) -> None:
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise InputError(f"column {repeated[0]!r} of the log has two roles: name different columns")


def _check_rows(source: str, count: int) -> None:
    if count == 0:
        raise InputError(f"{source} has no rows, only names of columns: choose a file with data in it")


def _series_to_arrow(frame: Any, name: str, what: str) -> pa.ChunkedArray:
    try:
        array = frame[name].to_arrow()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"column {name!r} of the log has {what} of mixed types, as text among numbers: correct them ({error})"
        ) from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _build(
    source: str, names: Sequence[str], columns: list[pa.ChunkedArray], is_text: bool, duplicates: str | None
) -> LongLog:
    """columns: rows, columns and values; they leave the list as they are used, since sorting needs the memory."""
    row_name, column_name, value_name = names
    _check_rows(source, len(columns[0]))
    values, present, value_dtype = read_values(columns.pop(), source, value_name)
    column_ids, column = encode_ids(columns.pop(), source, column_name, is_text)
    row_ids, row = encode_ids(columns.pop(), source, row_name, is_text)
    if present is not None:
        row, column, values = row[present], column[present], values[present]
    if value_dtype == NUMBER:
        refuse_infinite(source, values, row_ids, row, column_ids, column)
    pa.default_memory_pool().release_unused()
    keys = row.astype(np.int64)
    keys *= len(column_ids)
    keys += column
    del row, column
    cells = Cells(keys, values, value_dtype)
    if cells.repeated:
        if duplicates is None:
            raise cells.refuse_repeated(source, row_ids, column_ids)
        cells.settle(duplicates, source)
    cells.order = None  # only a repetition needs it
    row_of_cell = cells.keys // len(column_ids)
    cells.keys %= len(column_ids)
    return LongLog(
        row_name,
        column_name,
        value_name,
        row_ids,
        column_ids,
        row_of_cell,
        cells.keys.astype(np.int32),
        cells.values if value_dtype == STRING else cells.values.astype(np.float64, copy=False),
        cells.value_dtype,
    )
