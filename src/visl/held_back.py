"""Levels that networks never see in training, by which predicted levels become as sure as they are right.

Networks know the cells that they have learned from better than others, the more so the fewer rows there are. So a share
of the discrete cells is held back from them, for `calibration`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from visl.batches import TrainingData
from visl.model import VislModel
from visl.table import Table

MOST = 2000  # cells: they tell the temperature to within a few hundredths


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
    has_levels = np.array([bool(column.levels) for column in model.schema.columns])
    discrete = np.flatnonzero(has_levels[table.columns])
    n_held = min(MOST, int(model.config.hold_back * len(discrete)))
    held = np.zeros(table.n_cells, bool)
    held[discrete[np.random.default_rng(0).choice(len(discrete), n_held, replace=False)]] = True
    return held
