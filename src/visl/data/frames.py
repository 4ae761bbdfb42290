"""Results back in the form the user gave: the same kind of frame, columns, order, index and dtypes."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from visl.data.codec import decode
from visl.data.holding import set_cells
from visl.data.source import Name
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

    names: the fitted column at each position of X (see `visl.data.align`).
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
    new = {}
    for position, name in enumerate(names):
        at, values = filled_cells(name)
        if len(at):
            column = schema.columns[schema.position[name]]
            new[position] = set_cells(frame[:, position], at, values.tolist(), column)
    return _replace_columns(frame, new)


def arranged(X: Any, names: list[Name], wanted: list[Name], library: str) -> Any:
    """X as an array, or as a frame of the named library, with its columns, which have these names, as wanted."""
    order = [names.index(name) for name in wanted]
    if isinstance(X, np.ndarray):
        return X[:, order]
    frame = nw.from_native(X, eager_only=True)[:, order]
    return frame.to_polars() if library == "polars" else frame.to_pandas()


def probability_frame(X: Any, column: Column, shares: NDArray[np.float64]) -> Any:
    """The probabilities of a column's levels, (rows, levels), as a frame of X's kind; pandas for an array."""
    import pandas as pd

    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or frame.implementation.is_pandas_like():
        index = None if isinstance(X, np.ndarray) else X.index
        return pd.DataFrame(shares, columns=list(column.levels), index=index)
    data = {str(level): shares[:, k] for k, level in enumerate(column.levels)}
    return nw.from_dict(data, backend=frame.implementation).to_native()


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
