"""What is found after training, by observed cells that are hidden again: how wide draws are, and who draws them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visl.calibration import HiddenCells, calibrate, hide
from visl.conditional_fit import fit_conditionals
from visl.inference import Imputer
from visl.model import VislModel
from visl.schema import CONTINUOUS
from visl.table import Table

ROWS = 500
DRAWS = 10
FEWEST_CELLS = 20  # of a column, for its error to count


def finish(model: VislModel, table: Table, *, seed: int) -> None:
    if model.config.calibrate_noise:
        calibrate(model, table, seed=seed)
    if model.conditionals is not None and fit_conditionals(model, table):
        model.conditionals.trusted.fill_(True)
        hidden = hide(table, seed, ROWS)
        by_networks, polished = (_scores(model, hidden, seed, polish=polish) for polish in (False, True))
        # Networks have learned from these cells more closely than a few curves can, so a draw is theirs.
        better = all(new > old for new, old in zip(polished, by_networks, strict=True))
        model.conditionals.trusted.fill_(better)


def found_after_training(model: VislModel) -> list[Tensor]:
    """What `finish` sets, in place."""
    of_conditionals = [] if model.conditionals is None else list(model.conditionals.buffers())
    return [model.noise_variance, model.deviation_scale, *of_conditionals]


def _scores(model: VislModel, hidden: HiddenCells, seed: int, *, polish: bool) -> tuple[float, float]:
    """Log-probability of the hidden cells, and less their error, which is a mean over columns."""
    imputer = Imputer(model, n_draws=max(DRAWS, model.n_members), seed=seed, polish=polish)
    log_prob = imputer.log_prob(hidden.shown, hidden.asked, hidden.values)
    wrong = _errors(model, imputer.point(hidden.shown, hidden.asked), hidden)
    return float(log_prob.mean()), -wrong


def _errors(model: VislModel, guess: NDArray[np.float32], hidden: HiddenCells) -> float:
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
