"""What networks are told about the continuous columns before they learn: centre, spread, and where values lie."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from visl.batches import TrainingData
from visl.model import VislModel
from visl.nets.encoder import CellEncoder
from visl.schema import CONTINUOUS
from visl.steps import Engine
from visl.table import Table

ROWS_OF_A_KNOT = 50  # at least; a column with few observed cells has fewer knots
FAR = 1e6  # where knots lie that a column does not use: no value comes near

FloatArray = NDArray[np.float64]


def standardise(model: VislModel, data: TrainingData, engine: Engine) -> None:
    """From the observed cells of all processes; a column without spread keeps its scale."""
    tables = [[table] for table in data.tables] if data.of_members else [list(data.tables)]
    shared = data.of_members or data.share[1] > 1  # every process has all the rows
    gather = (lambda plain: [plain]) if shared else engine.gather
    continuous = np.array([column.kind == CONTINUOUS for column in model.schema.columns])
    sums = np.stack([np.sum(gather(_sums(some).tolist()), axis=0) for some in tables])  # (1 or K, 3, D)
    count, total, square = np.moveaxis(sums, 1, 0)
    count = np.maximum(count, 1)
    centre = np.where(continuous, total / count, 0.0)
    variance = square / count - centre**2
    spread = np.sqrt(np.where(continuous & (variance > 1e-12), variance, 1.0))
    if not model.standardises:
        centre, spread = np.zeros_like(centre), np.ones_like(spread)
    n_knots = model.config.n_knots
    knots = np.stack([np.mean(gather(_knots(some, n_knots).tolist()), axis=0) for some in tables])  # (1 or K, D, T)
    knots = (knots - centre[..., None]) / spread[..., None]
    _place(model.encoder, knots)
    if model.equations is not None:
        _place(model.equations.encoder, knots)
    for buffer, found in ((model.centre, centre), (model.spread, spread)):
        buffer.copy_(torch.from_numpy(found).expand_as(buffer))


def _place(encoder: CellEncoder, knots: FloatArray) -> None:
    if encoder.curves is not None:
        encoder.curves.knots.copy_(torch.from_numpy(knots).expand_as(encoder.curves.knots))


def _sums(tables: list[Table]) -> FloatArray:
    """(3, D): number, sum and sum of squares of the observed cells"""
    columns, values = _cells(tables)
    weights = (np.ones_like(values), values, values**2)
    return np.stack([np.bincount(columns, w, minlength=tables[0].n_columns) for w in weights])


def _cells(tables: list[Table]) -> tuple[NDArray[np.integer], FloatArray]:
    columns = np.concatenate([table.columns for table in tables])
    return columns, np.concatenate([table.values for table in tables]).astype(np.float64)


def _knots(tables: list[Table], n_knots: int) -> FloatArray:
    """(D, T) quantiles of each column's observed values, evenly far apart"""
    columns, values = _cells(tables)
    values, ends = (
        values[np.argsort(columns, kind="stable")],
        np.bincount(columns, minlength=tables[0].n_columns).cumsum(),
    )
    knots = np.empty((tables[0].n_columns, n_knots))
    for j, of_column in enumerate(np.split(values, ends[:-1])):
        n = min(n_knots, max(2, len(of_column) // ROWS_OF_A_KNOT))
        inside = np.quantile(of_column, np.linspace(0, 1, n)) if len(of_column) else np.linspace(0, 1, n)
        knots[j] = np.concatenate([inside, FAR * np.arange(1, n_knots - n + 1)])[:n_knots]
    return knots
