"""Results back in the form the user gave: the same kind of frame, columns, order, index and dtypes."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from visl.data.codec import decode
from visl.data.source import Name, column_names
from visl.schema import Column, Schema


def fill(
    X: Any,
    names: list[Name],
    schema: Schema,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    codes: NDArray,
    *,
    round_integers: bool,
) -> Any:
    """A copy of X with the given cells (columns in model order) set to the decoded codes, all else left as it is.

    names: the fitted column at each position; X's columns are matched by name where they can be.
    """
    by_column = np.argsort(columns, kind="stable")
    bounds = np.searchsorted(columns[by_column], np.arange(len(schema.columns) + 1))
    cells_of = {column.name: by_column[bounds[j] : bounds[j + 1]] for j, column in enumerate(schema.columns)}

    def filled_cells(name: Name) -> tuple[NDArray[np.int64], NDArray]:
        cells = cells_of[name]
        column = schema.columns[schema.position[name]]
        return rows[cells], decode(column, codes[cells], round_integers=round_integers)

    if isinstance(X, np.ndarray):
        filled = X.copy()
        for position, name in enumerate(names):
            at, values = filled_cells(name)
            filled[at, position] = values.astype(filled.dtype)
        return filled
    frame = nw.from_native(X, eager_only=True)
    own_names = column_names(frame)
    new = {}
    for position, name in enumerate(own_names if set(own_names) == set(names) else names):
        at, values = filled_cells(name)
        if len(at):
            new[position] = _set_cells(frame[:, position], at, values.tolist())
    return _replace_columns(frame, new)


def probability_frame(X: Any, column: Column, shares: NDArray[np.float64]) -> Any:
    """The probabilities of a column's levels, (rows, levels), as a frame of X's kind; pandas for an array."""
    import pandas as pd

    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or frame.implementation.is_pandas_like():
        index = None if isinstance(X, np.ndarray) else X.index
        return pd.DataFrame(shares, columns=list(column.levels), index=index)
    data = {str(level): shares[:, k] for k, level in enumerate(column.levels)}
    return nw.from_dict(data, backend=frame.implementation).to_native()


def _set_cells(series: nw.Series[Any], rows: NDArray[np.int64], values: list[Any]) -> Any:
    """The native series with the given cells set. Each library has its own way that keeps the dtype."""
    dtype, native = series.dtype, series.to_native()
    whole = dtype.is_integer() and all(value is None or value == round(value) for value in values)
    if whole:
        values = [None if value is None else int(value) for value in values]
    elif dtype.is_integer():  # unrounded results of an integer column do not fit its type
        native = series.cast(nw.Float64).to_native()
    if series.implementation.is_pandas_like():
        native = native.copy()
        native.iloc[rows] = _pandas_values(values, native.dtype)
        return native
    if series.implementation.is_polars():
        return native.clone().scatter(rows.tolist(), values)
    import pyarrow

    cells = native.to_pylist()
    for row, value in zip(rows.tolist(), values, strict=True):
        cells[row] = value
    return pyarrow.chunked_array([pyarrow.array(cells, native.type)])


def _pandas_values(values: list[Any], dtype: Any) -> Any:
    import pandas as pd

    return np.array(values, dtype) if isinstance(dtype, np.dtype) else pd.array(values, dtype=dtype)


def _replace_columns(frame: nw.DataFrame[Any], new: dict[int, Any]) -> Any:
    native = frame.to_native()
    if frame.implementation.is_pandas_like():
        native = native.copy()
        for position, series in new.items():
            native.isetitem(position, series)
        return native
    if frame.implementation.is_polars():
        return native.with_columns(list(new.values()))
    for position, column in new.items():
        native = native.set_column(position, native.field(position).with_type(column.type), column)
    return native
