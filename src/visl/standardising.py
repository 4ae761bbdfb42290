"""What networks are told about the continuous columns before they learn: centre, spread, and where values lie."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visl.batches import TrainingData
from visl.model import VislModel
from visl.nets.encoder import CellEncoder
from visl.nets.tails import drawn_in
from visl.schema import CONTINUOUS
from visl.steps import Engine
from visl.table import Table

ROWS_OF_A_KNOT = 50  # at least; a column with few observed cells has fewer knots
# A tail is long where the middle of the 5 % and 95 % quantiles is further than this share of half their distance from
# the median: .38 for a log-normal column with a deviation of 1/2, .56 for an exponential one.
SKEWED = 0.3
NEAREST = 0.01  # of the distance of those quantiles: at least what b of `LongTails` is
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
    for buffer, found in ((model.centre, centre), (model.spread, spread)):
        _fill(buffer, found)
    if model.tails is not None:
        three = np.stack([np.mean(gather(_quantiles(some, [0.05, 0.5, 0.95]).tolist()), axis=0) for some in tables])
        three = (three - centre[..., None]) / spread[..., None]  # (1 or K, D, 3)
        tails = _tails(*np.moveaxis(np.where(continuous[:, None], three, 0.0), -1, 0))
        for buffer, found in zip(model.tails.numbers(), tails, strict=True):
            _fill(buffer, found)


def as_fits_see(model: VislModel, k: int, table: Table) -> FloatArray:
    """(N, D) a table's values as exact fits of member k see them, NaN in gaps; discrete ones are as they are."""
    assert model.tails is not None
    values, observed = table.to_dense()
    numbers = (model.centre, model.spread, *model.tails.numbers())
    centre, spread, *tails = (x[k].cpu().double().numpy() for x in numbers)
    return np.where(observed, drawn_in((values - centre) / spread, *tails), np.nan)


def _tails(low: FloatArray, middle: FloatArray, high: FloatArray) -> list[FloatArray]:
    """The numbers of `LongTails` for columns with these quantiles, all of one shape.

    a makes the logarithms of the three symmetric, (s low + a)(s high + a) = (s middle + a)^2, and b is the distance of
    the nearer end; a column with (nearly) one value at that end has a larger b.
    """
    skew = high + low - 2 * middle
    side = np.where(np.abs(skew) > SKEWED * (high - low), np.sign(skew), 0.0)
    skewed = side != 0
    near, far = np.where(side < 0, -high, low), np.where(side < 0, -low, high)
    unit = (side * middle - near) ** 2 / np.where(skewed, np.abs(skew), 1.0)
    unit = np.where(skewed, np.maximum(unit, NEAREST * (far - near)), 1.0)
    offset = np.where(skewed, unit - near, 0.0)
    ends = [drawn_in(x, side, offset, unit, np.zeros_like(x), np.ones_like(x)) for x in (low, middle, high)]
    centre = np.where(skewed, ends[1], 0.0)
    spread = np.where(skewed, (ends[2] - ends[0]) / 3.29, 1.0)  # of a normal distribution between 5 % and 95 %
    return [side, offset, unit, centre, spread]


def _place(encoder: CellEncoder, knots: FloatArray) -> None:
    if encoder.curves is not None:
        _fill(encoder.curves.knots, knots)


def _fill(buffer: Tensor, found: FloatArray) -> None:
    """(1 or data sets, ...) -> (K, ...): members of a data set follow each other."""
    each = len(buffer) // len(found)
    buffer.copy_(torch.from_numpy(found.repeat(each, axis=0)))


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
    knots = np.empty((tables[0].n_columns, n_knots))
    for j, of_column in enumerate(_columns(tables)):
        n = min(n_knots, max(2, len(of_column) // ROWS_OF_A_KNOT))
        inside = np.quantile(of_column, np.linspace(0, 1, n)) if len(of_column) else np.linspace(0, 1, n)
        knots[j] = np.concatenate([inside, FAR * np.arange(1, n_knots - n + 1)])[:n_knots]
    return knots


def _quantiles(tables: list[Table], shares: list[float]) -> FloatArray:
    """(D, shares) of each column's observed values; 0 where there are none"""
    return np.stack([np.quantile(x, shares) if len(x) else np.zeros(len(shares)) for x in _columns(tables)])


def _columns(tables: list[Table]) -> list[FloatArray]:
    """The observed values of each column."""
    columns, values = _cells(tables)
    ends = np.bincount(columns, minlength=tables[0].n_columns).cumsum()
    return np.split(values[np.argsort(columns, kind="stable")], ends[:-1])
