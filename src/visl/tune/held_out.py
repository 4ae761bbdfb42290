"""Held-out cells of held-out rows: which they are, and how well a model predicts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visl.data.masks import hide as hide_cells
from visl.errors import InputError
from visl.inference import AskedCells, Imputer
from visl.measures import accuracy, mean_log_likelihood, rmse
from visl.schema import CONTINUOUS, Schema
from visl.table import Table


@dataclass(frozen=True)
class HeldOut:
    """Rows that no model is fitted on, and which of their cells are predicted from the others."""

    table: Table  # (rows, D) on the model's scale
    hidden: NDArray[np.bool_]  # (cells,)
    continuous: NDArray[np.bool_]  # (D,)
    spread: NDArray[np.float64]  # (D,) standard deviation of the scaled values of the training rows; discrete: 1

    @property
    def asked(self) -> AskedCells:
        return AskedCells(self.table.row_of_cell[self.hidden], self.table.columns[self.hidden].astype(np.int64))

    @property
    def shown(self) -> Table:
        return self.table.keep_cells(~self.hidden)

    @property
    def truth(self) -> NDArray[np.float32]:
        return self.table.values[self.hidden]

    def score(self, imputer: Imputer, metric: str) -> float:
        return METRICS[metric].score(self, imputer)


@dataclass(frozen=True)
class Metric:
    direction: Literal["minimize", "maximize"]  # Optuna's words
    words: str
    score: Callable[[HeldOut, Imputer], float]


def choose_rows(table: Table, schema: Schema, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows to hold out, ascending. A row that alone has a column's value, or a level, stays in training."""
    n_rows = table.n_rows
    held = np.zeros(n_rows, bool)
    held[rng.permutation(n_rows)[: max(1, round(share * n_rows))]] = True
    most = max((column.n_levels for column in schema.columns), default=0) + 1
    discrete = ~_is_continuous(schema)[table.columns]
    known = table.columns.astype(np.int64) * most + np.where(discrete, table.values + 1, 0).astype(np.int64)
    in_training = np.bincount(known[~held[table.row_of_cell]], minlength=table.n_columns * most)
    held[table.row_of_cell[in_training[known] == 0]] = False
    if not held.any() or n_rows - held.sum() < 2:
        raise InputError(
            f"the {n_rows} rows do not suffice to hold some out: give more of them, or another share (--validation)"
        )
    return np.flatnonzero(held)


def hold_out(table: Table, training: Table, schema: Schema, share: float, rng: np.random.Generator) -> HeldOut:
    """Hide a share of the cells of the held-out rows."""
    hidden = ~hide_cells(np.ones(table.n_cells, bool), share, rng)
    if not hidden.any():
        raise InputError("no cell of the held-out rows was hidden: hold out more rows, or hide more cells (--hide)")
    continuous = _is_continuous(schema)
    return HeldOut(table, hidden, continuous, np.where(continuous, _spreads(training), 1.0))


def default_metric(held_out: HeldOut) -> str:
    """By what the columns are, not by which cells happen to be hidden."""
    is_number = held_out.continuous
    return "rmse" if is_number.all() else "error" if is_number.any() else "accuracy"


def check_metric(metric: str, held_out: HeldOut) -> str:
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: use one of {', '.join(METRICS)}")
    is_number = held_out.continuous[held_out.asked.column]
    lacking = {"accuracy": (is_number.all(), "levels"), "rmse": (not is_number.any(), "numbers")}.get(metric)
    if lacking is not None and lacking[0]:
        raise InputError(f"metric is {metric!r}, but no column of {lacking[1]} is hidden: use 'error', or leave it out")
    return metric


def _is_continuous(schema: Schema) -> NDArray[np.bool_]:
    return np.array([column.kind == CONTINUOUS for column in schema.columns])


def _spreads(table: Table) -> NDArray[np.float64]:
    """(D,)"""
    values, D = table.values.astype(np.float64), table.n_columns
    counts = np.maximum(np.bincount(table.columns, minlength=D), 1)
    means = np.bincount(table.columns, values, minlength=D) / counts
    return np.sqrt(np.bincount(table.columns, (values - means[table.columns]) ** 2, minlength=D) / counts)


def _accuracy(held_out: HeldOut, imputer: Imputer) -> float:
    of_levels = ~held_out.continuous[held_out.asked.column]
    return accuracy(imputer.point(held_out.shown, held_out.asked)[of_levels], held_out.truth[of_levels])


def _rmse(held_out: HeldOut, imputer: Imputer) -> float:
    of_numbers = held_out.continuous[held_out.asked.column]
    return rmse(imputer.point(held_out.shown, held_out.asked)[of_numbers], held_out.truth[of_numbers])


def _error(held_out: HeldOut, imputer: Imputer) -> float:
    """Mean over columns; of a column of numbers RMSE / standard deviation, of one of levels the share of errors."""
    column, truth = held_out.asked.column, held_out.truth
    point = imputer.point(held_out.shown, held_out.asked).astype(np.float64)
    is_number = held_out.continuous[column]
    loss = np.where(is_number, (point - truth) ** 2, point != truth)
    counts = np.bincount(column, minlength=len(held_out.spread))
    scored = (counts > 0) & (held_out.spread > 0)  # no one can be wrong on a constant
    means = np.bincount(column, loss, minlength=len(held_out.spread))[scored] / counts[scored]
    numbers = held_out.continuous[scored]
    return float(np.mean(np.where(numbers, np.sqrt(means) / held_out.spread[scored], means)))


def _log_likelihood(held_out: HeldOut, imputer: Imputer) -> float:
    return mean_log_likelihood(imputer.log_prob(held_out.shown, held_out.asked, held_out.truth))


METRICS = {
    "accuracy": Metric("maximize", "share of hidden levels that are predicted right", _accuracy),
    "rmse": Metric("minimize", "root mean squared error of hidden numbers, each column scaled to 0-1", _rmse),
    "error": Metric("minimize", "mean over columns of RMSE / standard deviation, or of the share of errors", _error),
    "log_likelihood": Metric("maximize", "mean log-likelihood of a hidden cell", _log_likelihood),
}
