"""The asked cells of a long log: known ones as they are, the others predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from visl.data.codec import decode_cells
from visl.data.long import STRING, LongLog, find_ids
from visl.data.plain import plain
from visl.errors import InputError
from visl.inference import AskedCells, Imputer
from visl.reading import Reading
from visl.schema import CONTINUOUS

PROBABILITY = "probability"


def check_asked(X: Any, rows: Any, columns: Any) -> tuple[NDArray, NDArray]:
    """The ids, pair by pair, as arrays."""
    if not isinstance(X, LongLog):
        raise InputError(
            f"predict_cells takes a long log, and X is a {type(X).__name__}: make one with visl.long_from_frame, or "
            "fill a wide table with transform"
        )
    if PROBABILITY in (X.row_name, X.column_name, X.value_name):
        raise InputError(f"the log has a column {PROBABILITY!r}, the name of one that is added to it: rename it")
    asked = np.asarray(rows), np.asarray(columns)
    if asked[0].ndim != 1 or asked[0].shape != asked[1].shape:
        raise InputError(
            f"rows and columns have the shapes {asked[0].shape} and {asked[1].shape}: give two lists of one length, "
            "pair by pair"
        )
    return asked


def predict_log_cells(
    imputer: Imputer, reading: Reading, rows: NDArray, columns: NDArray, *, round_integers: bool
) -> pd.DataFrame:
    """value of each asked pair, and for discrete columns its probability."""
    log, schema, table = reading.X, imputer.schema, reading.encoded.table
    row = _positions(rows, log.row_ids, log.row_name)
    names = np.empty(len(schema.columns), object)
    names[:] = [column.name for column in schema.columns]
    column = _positions(columns, names, log.column_name)
    order = np.argsort(row, kind="stable")
    asked = AskedCells(row[order], column[order])
    is_read, read_codes = table.find(asked.row, asked.column)
    codes = np.where(is_read, read_codes, imputer.point(table, asked))
    values = decode_cells(schema, asked.column, codes, round_integers=round_integers)
    shares = imputer.probabilities(table, asked).max(1, initial=0.0)
    discrete = np.array([c.kind != CONTINUOUS for c in schema.columns])[asked.column]

    # A known level was decoded to itself; a known number, and a level that the model does not know, are the log's own.
    at = _find_in_log(reading, asked, names)
    is_known = at >= 0
    for i in np.flatnonzero(is_known & ~(discrete & is_read)):
        values[i] = _unseen(log, at[i]) if discrete[i] else float(log.values[at[i]])
    shares = np.where(discrete, np.where(is_known, 1.0, shares), np.nan)
    back = np.argsort(order)
    return pd.DataFrame(
        {
            log.row_name: rows,
            log.column_name: columns,
            log.value_name: pd.Series(values[back].tolist()),
            PROBABILITY: shares[back],
        }
    )


def _find_in_log(reading: Reading, asked: AskedCells, names: NDArray) -> NDArray[np.int64]:
    """Which cell of the log each asked one is, -1 for those that it lacks.  names: of the model's columns"""
    log: LongLog = reading.X
    width = len(log.column_ids)
    position = {name: k for k, name in enumerate(reading.names)}
    log_column = np.array([position.get(name, -1) for name in names], np.int64)[asked.column]
    known, key = log.row * width + log.column, asked.row * width + log_column
    at = np.searchsorted(known, key)
    found = (log_column >= 0) & (np.append(known, -1)[at] == key)
    return np.where(found, at, -1)


def _unseen(log: LongLog, cell: int) -> Any:
    value = plain(log.values[cell])
    return value if log.value_dtype == STRING or not value.is_integer() else int(value)


def _positions(ids: NDArray, known: NDArray, name: str) -> NDArray[np.int64]:
    """Position of each id among the known ones."""
    position = find_ids(known, ids)
    if (position < 0).any():
        unknown = ids[position < 0].tolist()[0]
        raise InputError(f"{name} {unknown!r} is not known: ask only for rows and columns that are there")
    return position
