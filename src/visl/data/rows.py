"""Some rows of a table, in whatever form the user holds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from visl.data.long import LongLog


def take_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """X: a frame, an array or a LongLog, whose columns stay declared. rows: positions, ascending."""
    if isinstance(X, LongLog):
        return _take_log_rows(X, rows)
    if isinstance(X, np.ndarray):
        return X[rows]
    return nw.from_native(X, eager_only=True)[rows].to_native()


def _take_log_rows(log: LongLog, rows: NDArray[np.int64]) -> LongLog:
    position = np.full(len(log.row_ids), -1)
    position[rows] = np.arange(len(rows))
    cells = position[log.row] >= 0
    return replace(
        log,
        row_ids=log.row_ids[rows],
        row=position[log.row[cells]].astype(np.int64),
        column=log.column[cells],
        values=log.values[cells],
    )
