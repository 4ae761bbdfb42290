"""How well hidden cells are predicted: one row of scores for each column, and one for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from visl import measures
from visl.data.codec import decode
from visl.inference import AskedCells, Imputer
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, Column, Schema
from visl.table import Table

OVERALL = "(all)"
MEASURES = (
    "rmse",  # continuous, on the user's scale
    "rmse_scaled",  # continuous, on values scaled to [0, 1] by the training data
    "accuracy",  # discrete
    "auroc",  # binary
    "aupr",  # binary: trapezoid under the precision-recall curve, as the paper has it
    "average_precision",  # binary
    "log_likelihood",  # mean over cells, nats; continuous: density of the scaled value
    "coverage",  # share of cells inside their interval; not for categorical cells
)


def score_hidden(
    imputer: Imputer, table: Table, hidden: NDArray[np.bool_], *, level: float, round_integers: bool
) -> pd.DataFrame:
    """Predict the hidden cells of the table from the others.  hidden: (cells,)"""
    cells = _predicted_cells(imputer, table, hidden, level, round_integers)
    schema = imputer.schema
    rows = [_scores(part, column.name, column.kind) for column, part in _by_column(cells, schema)]
    rows.append(_scores(cells, OVERALL, "mixed" if cells["kind"].nunique() != 1 else str(cells["kind"].iloc[0])))
    return pd.DataFrame(rows, columns=["column", "kind", "cells", *MEASURES])


def _by_column(cells: pd.DataFrame, schema: Schema) -> list[tuple[Column, pd.DataFrame]]:
    present = sorted(set(cells["index"]))
    return [(schema.columns[j], cells[cells["index"] == j]) for j in present]


def _predicted_cells(
    imputer: Imputer, table: Table, hidden: NDArray[np.bool_], level: float, round_integers: bool
) -> pd.DataFrame:
    """One row for each hidden cell: its truth and what is predicted, on the model's scale."""
    schema, shown = imputer.schema, table.keep_cells(~hidden)
    asked = AskedCells(table.row_of_cell[hidden], table.columns[hidden].astype(np.int64))
    truth, point = table.values[hidden], imputer.point(shown, asked)
    low, high = (imputer.quantile(shown, asked, share) for share in ((1 - level) / 2, (1 + level) / 2))
    for j, column in enumerate(schema.columns):
        if column.kind == CONTINUOUS:  # score what a user gets: whole numbers where the column holds whole numbers
            at = asked.column == j
            for codes in (point, low, high):  # in float32, as the truth is: then equal numbers stay equal
                codes[at] = (decode(column, codes[at], round_integers=round_integers) - column.low) / column.span
    probabilities = imputer.probabilities(shown, asked)
    kinds = np.array([column.kind for column in schema.columns])[asked.column]
    return pd.DataFrame(
        {
            "index": asked.column,
            "kind": kinds,
            "truth": truth,
            "point": point,
            "span": np.array([column.span for column in schema.columns])[asked.column],
            "positive": probabilities[:, 1] if probabilities.shape[1] > 1 else 0.0,
            "log_prob": imputer.log_prob(shown, asked, truth),
            "low": low,
            "high": high,
        }
    )


def _scores(cells: pd.DataFrame, name: Any, kind: str) -> dict[str, Any]:
    number, discrete = cells[cells["kind"] == CONTINUOUS], cells[cells["kind"] != CONTINUOUS]
    binary, ordered = cells[cells["kind"] == BINARY], cells[cells["kind"] != CATEGORICAL]
    point, truth, span = (number[field].astype(np.float64) for field in ("point", "truth", "span"))
    return {
        "column": name,
        "kind": kind,
        "cells": len(cells),
        "rmse": measures.rmse(point * span, truth * span),
        "rmse_scaled": measures.rmse(point, truth),
        "accuracy": measures.accuracy(discrete["point"], discrete["truth"]),
        **_ranking(binary),
        "log_likelihood": measures.mean_log_likelihood(cells["log_prob"]),
        "coverage": measures.interval_coverage(ordered["low"], ordered["high"], ordered["truth"]),
    }


def _ranking(binary: pd.DataFrame) -> dict[str, float]:
    truth, score = binary["truth"].to_numpy(), binary["positive"].to_numpy()
    if len(np.unique(truth)) < 2:
        return dict.fromkeys(("auroc", "aupr", "average_precision"), np.nan)
    return {
        "auroc": measures.auroc(score, truth),
        "aupr": measures.aupr(score, truth),
        "average_precision": measures.average_precision(score, truth),
    }
