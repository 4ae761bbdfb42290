"""Any table a user may hold, as plain columns of observed values: the one way in for frames, arrays and long logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number, Real
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
    dtype: str  # "number", "integer", "boolean", "text", or "category" (which may hold text or numbers)
    order: tuple[Any, ...] | None = None  # all levels of an ordered categorical column

    @property
    def numeric(self) -> bool:
        return is_numeric(self.dtype)

    def shown(self, cell: int) -> str:
        return shown(self.values[cell])


def is_numeric(dtype: str) -> bool:
    return dtype in ("number", "integer", "boolean")


def shown(value: Any) -> str:
    """One value as a message should show it."""
    value = _plain(value)
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


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
    return [_plain(name) for name in frame.columns]


def _frame_column(name: Name, series: nw.Series[Any]) -> ColumnData:
    dtype = series.dtype
    if _is_sparse(series):
        raise InputError(f"column {name!r} is sparse: make it dense first (frame.sparse.to_dense())")
    if dtype.is_numeric() and dtype != nw.Decimal:
        numbers = series.cast(nw.Float64).fill_null(float("nan")).to_numpy()
        return _from_numbers(name, numbers, "integer" if dtype.is_integer() else "number")
    if dtype == nw.Boolean:
        return _from_objects(name, series)
    if dtype in (nw.Categorical, nw.Enum):
        return _from_categories(name, series)
    if dtype in (nw.String, nw.Object, nw.Unknown):
        return _from_objects(name, series)
    raise InputError(
        f"column {name!r} holds values of type {dtype}: turn them into numbers or text, or leave the column out"
    )


def _from_categories(name: Name, series: nw.Series[Any]) -> ColumnData:
    rows, seen = _observed(series)
    order = _declared_order(series.to_native())
    for level in dict.fromkeys([*seen, *(order or ())]):
        if not isinstance(level, str | Real):
            raise InputError(
                f"column {name!r} has the level {str(level)!r} ({type(level).__name__}), neither text nor a number: "
                "convert the column with .astype(str), or leave it out"
            )
    return ColumnData(name, rows, _objects(seen), "category", order)


def _is_sparse(series: nw.Series[Any]) -> bool:
    return series.implementation.is_pandas_like() and type(series.to_native().dtype).__name__ == "SparseDtype"


def _declared_order(native: Any) -> tuple[Any, ...] | None:
    """The levels of an ordered category column in order, None for an unordered one."""
    if hasattr(native, "combine_chunks"):  # pyarrow
        return tuple(native.combine_chunks().dictionary.to_pylist()) if native.type.ordered else None
    if not getattr(native.dtype, "ordered", hasattr(native.dtype, "categories")):
        return None  # an unordered pandas category, or a polars Categorical; a polars Enum has an order
    categories = getattr(native.dtype, "categories", None)
    return None if categories is None else tuple(_plain(level) for level in categories)


def _from_numbers(name: Name, numbers: NDArray, dtype: str) -> ColumnData:
    numbers = np.asarray(numbers, dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise InputError(
            f"column {name!r} holds {numbers[infinite[0]]} in row {infinite[0]}: replace infinities by numbers or gaps"
        )
    rows = np.flatnonzero(~np.isnan(numbers))
    return ColumnData(name, rows, numbers[rows], dtype)


def _from_objects(name: Name, series: nw.Series[Any]) -> ColumnData:
    """Booleans, text, and pandas' object columns, which may hold anything."""
    rows, seen = _observed(series)
    if series.dtype == nw.Boolean or (seen and all(isinstance(value, bool) for value in seen)):
        return ColumnData(name, rows, np.array(seen, np.float64), "boolean")
    if seen and all(isinstance(value, Real | Decimal) for value in seen):
        numbers = np.full(len(series), np.nan)
        numbers[rows] = seen
        return _from_numbers(name, numbers, "number")
    for row, value in zip(rows, seen, strict=True):
        if isinstance(value, complex):
            raise InputError(f"column {name!r} holds the complex number {value!r} in row {row}: give real numbers")
        if isinstance(value, Number):
            raise InputError(f"column {name!r} mixes text and numbers ({value!r} in row {row}): make them all one kind")
        if not isinstance(value, str):
            raise InputError(
                f"column {name!r} holds {value!r} ({type(value).__name__}) in row {row}: use numbers or text, "
                "or leave the column out"
            )
    return ColumnData(name, rows, _objects(seen), "text")


def _observed(series: nw.Series[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    values = series.to_list()
    rows = [i for i, value in enumerate(values) if not _is_gap(value)]
    return np.array(rows, np.int64), [_plain(values[i]) for i in rows]


def _objects(values: list[Any]) -> NDArray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


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
    # The cells are sorted by row: a stable order by column keeps that. 16-bit numbers are sorted in linear time.
    narrow = np.uint16 if len(log.column_ids) <= 2**16 else np.int32
    order = np.argsort(log.column.astype(narrow), kind="stable")
    rows, values = log.row[order].astype(np.int64, copy=False), log.values[order]
    del order
    ends = np.cumsum(np.bincount(log.column, minlength=len(log.column_ids))).tolist()
    dtype = {"string": "text"}.get(log.value_dtype, log.value_dtype)
    for name, start, end in zip(log.column_ids.tolist(), [0, *ends], ends, strict=False):
        yield ColumnData(name, rows[start:end], values[start:end], dtype)
