"""A table as a user gives it, checked, and read into the model's terms."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from visl.data.codec import Encoded
from visl.data.long import LongLog
from visl.data.source import Name, Source, read_source
from visl.errors import InputError, warn_user
from visl.inference import AskedCells


@dataclass(frozen=True)
class Reading:
    X: Any  # as given; whatever is no frame and no log, as an array
    names: list[Name]  # the fitted column at each position of X
    encoded: Encoded

    def gaps(self) -> AskedCells:
        return AskedCells(*self.encoded.gaps())


def read_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> tuple[Any, Source]:
    """X, arrays in the form that all else expects, and its columns.  reset: in a fit"""
    checked = _checked(estimator, X, reset=reset)
    return checked, read_source(checked)


def check_for_fit(names: list[Name], n_rows: int) -> None:
    """What any table to learn from must have."""
    if not names:
        raise InputError("the table has no columns (0 feature(s))")
    if n_rows < 2:
        raise InputError(f"the table has {n_rows} row(s) (n_samples = {n_rows}): at least 2 are needed")
    for name in names:
        is_finite = not isinstance(name, float) or np.isfinite(name)
        if not isinstance(name, str | int | float) or not is_finite:  # bool is an int
            raise InputError(f"a column is called {name!r} ({type(name).__name__}): name columns by text or numbers")
    _refuse_repeated(names)


def _checked(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    if isinstance(X, LongLog):
        return X
    if isinstance(X, str | os.PathLike):
        raise InputError(
            f"X is {str(X)!r}: read the file first, for example with pandas.read_csv, or use the command line "
            f"(visl fit {X} --out MODEL)"
        )
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        _refuse_repeated(list(getattr(X, "column_names", X.columns)))
        raise
    if isinstance(frame, nw.LazyFrame):
        raise InputError(f"X is a lazy frame ({type(X).__name__}): collect it first")
    if isinstance(frame, nw.DataFrame):
        if not len(frame.columns):
            raise InputError("the table has no columns (0 feature(s))")
        return X
    return _checked_array(estimator, X, reset=reset)


def _refuse_repeated(names: list[Any]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"two columns are called {name!r}: give each column its own name")
        seen.add(name)


def _checked_array(estimator: BaseEstimator, X: Any, *, reset: bool) -> NDArray:
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float32 if X.dtype == np.float32 else np.float64), np.nan)
    if getattr(X, "dtype", None) == np.longdouble and np.longdouble != np.float64:
        raise InputError("X is an array of long doubles, which would lose digits here: convert it to float64")
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InputError("Complex data not supported: give real numbers")
    try:
        # Its warnings point into scikit-learn: ours point at the user's line.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            array: NDArray = validate_data(
                estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
            )
    except ValueError as error:
        _refuse_text(X)
        raise InputError(str(error)) from error
    for warning in caught:
        warn_user(warning.message)
    return array


def _refuse_text(X: Any) -> None:
    cells = np.asarray(X, dtype=object)
    for (row, column), value in np.ndenumerate(cells) if cells.ndim == 2 else ():
        try:
            float(value)
        except (TypeError, ValueError):
            if isinstance(value, str):
                raise InputError(
                    f"column {column} of the array holds the text {value!r} in row {row}: give numbers, with NaN for "
                    "gaps, or a data frame, whose columns may hold text"
                ) from None
            return
