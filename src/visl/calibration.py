"""How wide continuous draws are, and how sure levels: set after training by cells of the training rows that are hidden
and predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from visl.held_back import is_held_back
from visl.inference import AskedCells, Imputer
from visl.measures import inside_shares, tie_bounds
from visl.model import VislModel
from visl.table import Table

ROWS = 2000  # those of a smaller table are taken several times, with other cells hidden
DRAWS = 30  # for the noise of Gaussians ...
DRAWS_OF_MIXTURES, DRAWS_OF_A_MEMBER = 10, 3  # ... and for mixtures, whose draws are nearly alike: at least
HIDDEN = 0.3  # share of the cells that are gaps then, as in the paper's test protocol ...
LEAST_HIDDEN = 0.1  # ... but of the observed ones at least this share is hidden: a table may have more gaps already
MIN_CELLS = 20  # a column with fewer hidden cells takes the residuals of all columns together
MIN_NOISE_VARIANCE = 1e-6
LEVEL = 0.9  # of the intervals that are to hold this share
# What deviations of mixtures may be multiplied by. A column takes its own, drawn to that of all columns, which counts
# like so many cells; and so does a temperature of 1.
FACTORS = np.geomspace(0.5, 2.0, 15)
CELLS_OF_ALL = 200
# Networks have learned from the hidden cells, and know them the better the fewer rows and the more columns there are.
# With so many values of a column for each column half of a narrowing (of its logarithm) is made; with more, more of it.
VALUES_FOR_HALF = 15
TEMPERATURES = np.geomspace(0.5, 4.0, 22)


@dataclass(frozen=True)
class HiddenCells:
    """Some rows, of which some cells are hidden."""

    shown: Table
    asked: AskedCells
    values: NDArray[np.float32]  # (cells,) of the asked cells
    known: Table  # the same rows, each once, nothing hidden
    trust: float  # what a narrowing that they call for counts: see VALUES_FOR_HALF


def calibrate(model: VislModel, table: Table, *, seed: int) -> None:
    """Set the spread of continuous draws by observed cells that are hidden: the noise of single Gaussians, the
    deviations of mixtures."""
    hidden = hide(table, seed)
    is_number = np.array([not column.levels for column in model.schema.columns])
    if not is_number[hidden.asked.column].any():
        return
    if model.config.mixture_components == 1:
        variances = [_noise_variance(member, hidden, is_number, seed) for member in model.members()]
        model.noise_variance.copy_(torch.from_numpy(np.stack(variances)))
    else:
        model.deviation_scale.fill_(1.0)
        model.deviation_scale.copy_(torch.from_numpy(_deviation_scale(model, hidden, is_number, seed)))


def set_temperature(model: VislModel, table: Table, *, seed: int) -> None:
    """What logarithms of levels' probabilities are divided by: with it the likeliest levels of the cells that were held
    back are as probable, on average, as they are right.

    For all members together, since it is their mean that is told. Gaps that fits draw anew are left as they are.
    """
    model.level_temperature.fill_(1.0)
    held = is_held_back(model, table)
    if model.polishes or not model.uses_backward or not held.any():  # without a stage 2 nothing was held back
        return
    rows = np.unique(table.row_of_cell[held])
    of_rows = np.isin(table.row_of_cell, rows)
    table, held = table.take_rows(rows), held[of_rows]
    shown, asked = table.keep_cells(~held), AskedCells(table.row_of_cell[held], table.columns[held].astype(np.int64))
    # As many draws as later: the mean of more is less sure.
    imputer = Imputer(model, n_draws=model.config.n_draws, seed=seed)
    right = (imputer.point(shown, asked) == table.values[held]).mean()
    told = imputer.confidence(shown, asked, TEMPERATURES.tolist()).mean(0)  # falls
    found = np.interp(-right, -told, np.log(TEMPERATURES))
    model.level_temperature.fill_(float(np.exp(found * len(asked) / (len(asked) + CELLS_OF_ALL))))


def hide(table: Table, seed: int, n_rows: int = ROWS) -> HiddenCells:
    rng = np.random.default_rng(seed)
    rows = np.sort(np.resize(rng.permutation(table.n_rows), n_rows))
    sample = table.take_rows(rows)
    observed = sample.n_cells / max(1, sample.n_rows * sample.n_columns)
    shown = rng.random(sample.n_cells) >= max(LEAST_HIDDEN, 1 - (1 - HIDDEN) / max(observed, 1e-9))
    asked = AskedCells(sample.row_of_cell[~shown], sample.columns[~shown].astype(np.int64))
    return HiddenCells(
        sample.keep_cells(shown),
        asked,
        sample.values[~shown],
        known=table.take_rows(np.unique(rows)),
        trust=trust_in(table.n_cells / table.n_columns**2),
    )


def trust_in(values_for_each_column: float) -> float:
    return values_for_each_column / (values_for_each_column + VALUES_FOR_HALF)


def _noise_variance(
    member: VislModel, hidden: HiddenCells, is_number: NDArray[np.bool_], seed: int
) -> NDArray[np.float64]:
    """(D,) noise variance = mean squared residual - mean variance of the draws, of one member.  is_number: (D,)"""
    column = hidden.asked.column
    imputer = Imputer(member, n_draws=DRAWS, seed=seed)
    mean, spread = imputer.moments(hidden.shown, hidden.asked).T
    excess = (hidden.values - mean) ** 2 - spread
    overall = excess[is_number[column]].mean()
    counts = np.bincount(column, minlength=len(is_number))
    means = np.bincount(column, excess, minlength=len(is_number)) / np.maximum(counts, 1)
    variance = np.where(counts >= MIN_CELLS, means, overall)
    return np.where(is_number, np.maximum(variance, MIN_NOISE_VARIANCE), member.noise_variance[0].cpu().numpy())


def _deviation_scale(
    model: VislModel, hidden: HiddenCells, is_number: NDArray[np.bool_], seed: int
) -> NDArray[np.float64]:
    """(D,) with which intervals of LEVEL hold about that share of the hidden values, all members together.

    Pooled members are wider than each of them, so they share one scale.
    """
    column = hidden.asked.column
    low, high = _bounds(hidden, is_number)
    imputer = Imputer(model, n_draws=max(DRAWS_OF_MIXTURES, DRAWS_OF_A_MEMBER * model.n_members), seed=seed)
    below, up_to = (imputer.cdf(hidden.shown, hidden.asked, ends, list(FACTORS)) for ends in (low, high))
    inside = np.where(is_number[column][:, None], inside_shares(below, up_to, LEVEL), 0.0)  # (cells, factors)
    overall = _log_factor(inside[is_number[column]].mean(0))
    counts = np.bincount(column, minlength=len(is_number))
    own = [_log_factor(inside[column == j].mean(0)) if counts[j] else overall for j in range(len(is_number))]
    shrunk = (counts * own + CELLS_OF_ALL * overall) / (counts + CELLS_OF_ALL)
    return np.where(is_number, np.exp(np.where(shrunk < 0, hidden.trust * shrunk, shrunk)), 1.0)


def _bounds(hidden: HiddenCells, is_number: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(cells,) between which numbers lies what is taken for each hidden value: see `tie_bounds`."""
    low, high = hidden.values.astype(np.float64), hidden.values.astype(np.float64)
    for j in np.flatnonzero(is_number):
        here = hidden.asked.column == j
        low[here], high[here] = tie_bounds(hidden.known.values[hidden.known.columns == j], hidden.values[here])
    return low, high


def _log_factor(coverage: NDArray[np.float64]) -> float:
    """Where the coverage, (factors,), reaches LEVEL; the last factor if it does not."""
    return float(np.interp(LEVEL, np.maximum.accumulate(coverage), np.log(FACTORS)))
