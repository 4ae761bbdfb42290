"""Any table a user may hold, as plain columns of observed values: the one way in for frames, arrays and long logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from visl.data.long import LongLog
from visl.errors import InputError

Name = str | int


@dataclass(frozen=True)
class ColumnData:
    """The observed values of one column. Numbers and booleans are float64, everything else Python objects."""

    name: Name
    rows: NDArray[np.int64]  # (observed,) ascending
    values: NDArray  # (observed,)
    dtype: str  # "number", "integer", "boolean", "text"
    categories: tuple[Any, ...] | None = None  # of a categorical column, as declared
    ordered: bool = False

    @property
    def numeric(self) -> bool:
        return self.dtype != "text"


@dataclass(frozen=True)
class Source:
    n_rows: int
    columns: tuple[ColumnData, ...]

    @property
    def names(self) -> list[Name]:
        return [column.name for column in self.columns]


def read_source(X: Any) -> Source:
    """X: a pandas, polars or pyarrow frame, a two-dimensional NumPy array with NaN for gaps, or a LongLog."""
    if isinstance(X, LongLog):
        return Source(len(X.row_ids), tuple(_log_columns(X)))
    if isinstance(X, np.ndarray):
        columns = tuple(_from_numbers(j, X[:, j], "number") for j in range(X.shape[1]))
        return Source(len(X), columns)
    frame = nw.from_native(X, eager_only=True)
    names = column_names(frame)
    return Source(len(frame), tuple(_frame_column(name, frame[:, j]) for j, name in enumerate(names)))


def column_names(frame: nw.DataFrame[Any]) -> list[Name]:
    names = list(frame.columns)
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"column name {name!r} occurs {names.count(name)} times: give each column its own name")
    return [name.item() if isinstance(name, np.generic) else name for name in names]


def _frame_column(name: Name, series: nw.Series[Any]) -> ColumnData:
    dtype = series.dtype
    if dtype.is_numeric():
        numbers = series.cast(nw.Float64).fill_null(float("nan")).to_numpy()
        return _from_numbers(name, numbers, "integer" if dtype.is_integer() else "number")
    if dtype == nw.Boolean:
        return _from_objects(name, series)
    if dtype in (nw.Categorical, nw.Enum):
        categories = tuple(_plain(value) for value in series.cat.get_categories().to_list())
        return _from_objects(name, series, categories, ordered=_is_ordered(series))
    if dtype in (nw.String, nw.Object, nw.Unknown):
        return _from_objects(name, series)
    raise InputError(
        f"column {name!r} holds values of type {dtype}: turn them into numbers or text, or leave the column out"
    )


def _is_ordered(series: nw.Series[Any]) -> bool:
    native = series.to_native()
    native_type = getattr(native, "type", None) or getattr(native, "dtype", None)  # pyarrow, pandas
    return bool(getattr(native_type, "ordered", series.dtype == nw.Enum))


def _from_numbers(name: Name, numbers: NDArray, dtype: str) -> ColumnData:
    numbers = np.asarray(numbers, dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise InputError(
            f"column {name!r} holds {numbers[infinite[0]]} in row {infinite[0]}: replace infinities by numbers or gaps"
        )
    rows = np.flatnonzero(~np.isnan(numbers))
    return ColumnData(name, rows, numbers[rows], dtype)


def _from_objects(
    name: Name, series: nw.Series[Any], categories: tuple[Any, ...] | None = None, ordered: bool = False
) -> ColumnData:
    """Booleans, text, categories, and pandas' object columns, which may hold anything."""
    values = series.to_list()
    rows = np.array([i for i, value in enumerate(values) if not _is_gap(value)], dtype=np.int64)
    seen = [_plain(values[i]) for i in rows]
    if categories is None and seen:
        if all(isinstance(value, bool) for value in seen):
            return ColumnData(name, rows, np.array(seen, np.float64), "boolean")
        if all(isinstance(value, Number) for value in seen):
            full = np.full(len(values), np.nan)
            full[rows] = seen
            return _from_numbers(name, full, "number")
    objects = np.empty(len(seen), object)
    objects[:] = seen
    if categories is None and series.dtype == nw.Boolean:
        return ColumnData(name, rows, objects.astype(np.float64), "boolean")
    for row, value in zip(rows, seen, strict=True):
        if not isinstance(value, str | Number):
            raise InputError(
                f"column {name!r} holds {value!r} ({type(value).__name__}) in row {row}: use numbers or text, "
                "or leave the column out"
            )
        if categories is None and not isinstance(value, str):
            raise InputError(f"column {name!r} mixes text and numbers ({value!r} in row {row}): make them all one kind")
    return ColumnData(name, rows, objects, "text", categories, ordered)


def _is_gap(value: Any) -> bool:
    """None, NaN and pandas' NA and NaT; the last three differ from themselves or cannot be compared."""
    if value is None:
        return True
    if isinstance(value, str | bool):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _log_columns(log: LongLog) -> Iterator[ColumnData]:
    order = np.lexsort((log.row, log.column))
    bounds = np.searchsorted(log.column[order], np.arange(len(log.column_ids) + 1))
    dtype = {"string": "text"}.get(log.value_dtype, log.value_dtype)
    for j, name in enumerate(log.column_ids.tolist()):
        cells = order[bounds[j] : bounds[j + 1]]
        yield ColumnData(name, log.row[cells].astype(np.int64), log.values[cells], dtype)
