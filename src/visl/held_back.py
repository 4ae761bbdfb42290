"""Levels that networks do not learn to fill gaps from, by which predicted levels become as sure as they are right.

Networks know the cells that they have learned from better than others, the more so the fewer rows there are. So a share
of the discrete cells is held back from them in stage 2, where they learn to fill gaps, for `calibration`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from visl.batches import TrainingData
from visl.model import VislModel
from visl.table import Table

MOST = 2000  # cells: they tell the temperature to within a twentieth
OF_A_ROW = 0.2  # share of the levels of a row that has any held back: not every row has to be predicted


def seen_by_networks(model: VislModel, data: TrainingData) -> TrainingData:
    """Of the data set of each member, or of the largest part of all members', some levels are held back."""
    largest = int(np.argmax(data.sizes))
    tables = [
        table.keep_cells(~is_held_back(model, table)) if data.of_members or data.parts[i] == largest else table
        for i, table in enumerate(data.tables)
    ]
    return replace(data, tables=tables)


def is_held_back(model: VislModel, table: Table) -> NDArray[np.bool_]:
    """(cells,), the same whenever it is asked."""
    has_levels = np.array([bool(column.levels) for column in model.schema.columns])[table.columns]
    n_discrete, rng = has_levels.sum(), np.random.default_rng(0)
    n_held = min(MOST, int(model.config.hold_back * n_discrete))
    n_rows = min(table.n_rows, math.ceil(table.n_rows * n_held / max(1, OF_A_ROW * n_discrete)))
    in_rows = np.zeros(table.n_rows, bool)
    in_rows[rng.choice(table.n_rows, n_rows, replace=False)] = True
    candidates = np.flatnonzero(has_levels & np.repeat(in_rows, np.diff(table.starts)))
    held = np.zeros(table.n_cells, bool)
    held[rng.choice(candidates, min(n_held, len(candidates)), replace=False)] = True
    return held
