"""What is found after training, by observed cells that are hidden again: how wide draws are, who draws them, and how
sure levels are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visl.calibration import HiddenCells, calibrate, hide, set_temperature
from visl.conditional_fit import fit_conditionals
from visl.inference import Imputer
from visl.model import VislModel
from visl.schema import CONTINUOUS
from visl.table import Table

ROWS = 1000
TIMES = 3  # that each row of a small table is taken, with other cells hidden
DRAWS = 20
AS_GOOD = 1.02  # times the error of networks: what chance may make of two that are alike
FEWEST_CELLS = 20  # of a column, for its error to count


def finish(model: VislModel, table: Table, *, seed: int) -> None:
    if model.config.calibrate_noise:
        calibrate(model, table, seed=seed)
    if model.conditionals is not None and fit_conditionals(model, table):
        model.conditionals.trusted.fill_(True)
        hidden = hide(table, seed, min(ROWS, TIMES * table.n_rows))
        by_networks, polished = (_scores(model, hidden, seed, polish=polish) for polish in (False, True))
        # Networks have learned from these cells more closely than a few curves can: that is in their favour.
        better = polished.log_prob > by_networks.log_prob and polished.error <= AS_GOOD * by_networks.error
        model.conditionals.trusted.fill_(better)
    set_temperature(model, table, seed=seed)


def found_after_training(model: VislModel) -> list[Tensor]:
    """What `finish` sets, in place."""
    of_conditionals = [] if model.conditionals is None else list(model.conditionals.buffers())
    return [model.noise_variance, model.deviation_scale, model.level_temperature, *of_conditionals]


class Scores(NamedTuple):
    """Of hidden cells."""

    log_prob: float
    error: float  # mean over the columns, see `_error`


def _scores(model: VislModel, hidden: HiddenCells, seed: int, *, polish: bool) -> Scores:
    imputer = Imputer(model, n_draws=max(DRAWS, model.n_members), seed=seed, polish=polish)
    log_prob = imputer.log_prob(hidden.shown, hidden.asked, hidden.values)
    return Scores(float(log_prob.mean()), _error(model, imputer.point(hidden.shown, hidden.asked), hidden))


def _error(model: VislModel, guess: NDArray[np.float32], hidden: HiddenCells) -> float:
    """Mean over the columns: root of the mean squared error in deviations of a number, share of wrong levels."""
    errors = []
    for j, column in enumerate(model.schema.columns):
        here = hidden.asked.column == j
        if here.sum() < FEWEST_CELLS:
            continue
        away = guess[here] - hidden.values[here]
        is_number = column.kind == CONTINUOUS
        spread = float(model.spread[0, j])
        errors.append(float(np.sqrt(np.mean(away**2))) / spread if is_number else float(np.mean(away != 0)))
    return float(np.mean(errors)) if errors else 0.0
