"""Gaps of one column set to values, in the column's own dtype. Each library has its own way that keeps the dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from visl.data.kinds import encode_levels
from visl.data.source import ColumnData
from visl.errors import InputError
from visl.schema import CONTINUOUS, Column

TEXT, CATEGORIES, ANYTHING = (nw.String,), (nw.Categorical, nw.Enum), (nw.Object, nw.Unknown)


def set_cells(series: nw.Series[Any], rows: NDArray[np.int64], values: list[Any], column: Column) -> Any:
    """The native series with the given cells set to values of the fitted column; None leaves a gap."""
    if all(value is None for value in values):
        return series.to_native()
    if len(rows) == len(series):  # nothing but gaps: no dtype of its own to keep, unless it suits
        if _is_object(series):
            return _set_native(series, rows, values)
        if not _suits(series.dtype, values):
            return _new_column(series, values, column)
    if series.dtype in CATEGORIES:
        return _set_levels(series, rows, values, column)
    series, values = _held(series, values, column)
    return _set_native(series, rows, values)


# -- what a dtype can hold


def _is_object(series: nw.Series[Any]) -> bool:
    return series.implementation.is_pandas_like() and series.to_native().dtype == object


def _suits(dtype: Any, values: list[Any]) -> bool:
    """Whether the dtype of a column of gaps is meant for such values."""
    value = _first(values)
    if isinstance(value, bool):
        return bool(dtype == nw.Boolean)
    if isinstance(value, str):
        return dtype in TEXT or dtype in CATEGORIES
    return bool(dtype.is_numeric())


def _new_column(series: nw.Series[Any], values: list[Any], column: Column) -> Any:
    if column.kind == CONTINUOUS and all(value is None or value.is_integer() for value in values) and column.integer:
        values = [None if value is None else int(value) for value in values]
    native = series.to_native()
    if series.implementation.is_pandas_like():
        import pandas as pd

        return pd.Series(values, index=native.index, name=native.name)
    if series.implementation.is_polars():
        return type(native)(native.name, values)
    import pyarrow

    return pyarrow.chunked_array([pyarrow.array(values)])


def _held(series: nw.Series[Any], values: list[Any], column: Column) -> tuple[nw.Series[Any], list[Any]]:
    """The values as the dtype holds them, and the series, in a wider dtype where that is the only way."""
    dtype = series.dtype
    if dtype in ANYTHING:
        return series, values
    if dtype in TEXT:  # numbers, in a table that has them as text
        return series, _each(lambda value: value if isinstance(value, str) else _written(value), values)
    if any(isinstance(value, str) for value in values) or (dtype == nw.Boolean and not set(values) <= {0, 1, None}):
        raise InputError(
            f"column {column.name!r} is of type {dtype}, which cannot hold {_first(values)!r}, a value it had in fit: "
            "give the column the type that it had there"
        )
    if dtype == nw.Boolean:
        return series, _each(bool, values)
    if not dtype.is_integer():
        return series, values
    if not all(value is None or value == round(value) for value in values):
        return series.cast(nw.Float64), values  # unrounded results of an integer column do not fit its type
    limits = np.iinfo(str(dtype).lower())
    least, most = int(limits.min), int(limits.max)
    whole = _each(int, values)
    if column.kind == CONTINUOUS:
        return series, _each(lambda value: min(max(value, least), most), whole)
    too_wide = any(value is not None and not least <= value <= most for value in whole)
    return (series.cast(nw.Int64) if too_wide else series), whole  # a level is never changed into another


def _each(change: Any, values: list[Any]) -> list[Any]:
    return [None if value is None else change(value) for value in values]


def _written(value: float) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _first(values: list[Any]) -> Any:
    return next(value for value in values if value is not None)


# -- setting


def _set_native(series: nw.Series[Any], rows: NDArray[np.int64], values: list[Any]) -> Any:
    native = series.to_native()
    if series.implementation.is_pandas_like():
        import pandas as pd

        native, dtype = native.copy(), native.dtype
        native.iloc[rows] = np.array(values, dtype) if isinstance(dtype, np.dtype) else pd.array(values, dtype=dtype)
        return native
    if series.implementation.is_polars():
        return native.clone().scatter(rows.tolist(), values)
    import pyarrow

    cells = native.to_pylist()
    for row, value in zip(rows.tolist(), values, strict=True):
        cells[row] = value
    return pyarrow.chunked_array([pyarrow.array(cells, native.type)])


def _set_levels(series: nw.Series[Any], rows: NDArray[np.int64], values: list[Any], column: Column) -> Any:
    """Of a column of categories. Its order and its unused levels stay; levels that it lacks are added."""
    native = series.to_native()
    if series.implementation.is_polars():
        return _set_polars_levels(series, rows, values, column)
    is_pandas = series.implementation.is_pandas_like() and hasattr(native.dtype, "categories")  # else of arrow
    own = native.cat.categories.tolist() if is_pandas else _arrow_chunk(native).dictionary.to_pylist()
    spelled = _spelled(column, own)
    values = [None if value is None else spelled.get(value, value) for value in values]
    lacking = [level for level in column.levels if level not in spelled]
    # In the fitted order if the column's own levels are in it too, else behind them.
    fitted = [spelled.get(level, level) for level in column.levels]
    levels = fitted if [level for level in fitted if level in own] == own else [*own, *lacking]
    if is_pandas:
        native = native.cat.set_categories(levels) if lacking else native.copy()
        native.iloc[rows] = values
        return native
    return _arrow_levels(native, rows, values, levels)


def _spelled(column: Column, own: Iterable[Any]) -> dict[Any, Any]:
    """Fitted level -> the category that stands for it: a table may have as text what is a number in another."""
    own = list(own)
    categories = np.empty(len(own), object)
    categories[:] = own
    codes = encode_levels(ColumnData(column.name, np.arange(len(own)), categories, "category"), column.levels)
    return {column.levels[int(code)]: category for code, category in zip(codes, own, strict=True) if code >= 0}


def _set_polars_levels(series: nw.Series[Any], rows: NDArray[np.int64], values: list[Any], column: Column) -> Any:
    native, values = series.to_native(), _each(str, values)
    if series.dtype == nw.Enum:
        own = native.dtype.categories.to_list()
        spelled = {str(level): category for level, category in _spelled(column, own).items()}
        values = _each(lambda value: spelled.get(value, value), values)
        for value in values:
            if value is not None and value not in own:
                raise InputError(
                    f"column {column.name!r} is an Enum without the level {value!r}, which it had in fit: add the "
                    "level to the Enum, or cast the column to text"
                )
    return native.clone().scatter(rows.tolist(), values)


def _arrow_chunk(native: Any) -> Any:
    import pyarrow

    array = native.array.__arrow_array__() if hasattr(native, "array") else native
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    return array.chunk(0) if isinstance(array, pyarrow.ChunkedArray) else array


def _arrow_levels(native: Any, rows: NDArray[np.int64], values: list[Any], levels: list[Any]) -> Any:
    import pyarrow

    chunk = _arrow_chunk(native)
    position = {level: k for k, level in enumerate(levels)}
    own = chunk.dictionary.to_pylist()
    codes = [None if code is None else position[own[code]] for code in chunk.indices.to_pylist()]
    for row, value in zip(rows.tolist(), values, strict=True):
        codes[row] = None if value is None else position[value]
    kind = chunk.type
    index_type = kind.index_type if len(levels) < 2 ** (kind.index_type.bit_width - 1) else pyarrow.int32()
    dictionary = chunk.dictionary if levels == own else pyarrow.array(levels, kind.value_type)
    array = pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, index_type), dictionary, ordered=kind.ordered)
    if not hasattr(native, "array"):
        return pyarrow.chunked_array([array])
    import pandas as pd

    return pd.Series(pd.arrays.ArrowExtensionArray(array), index=native.index, name=native.name)
