"""What came out of a study, by all of its workers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
import pandas as pd
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

import visl
from visl.tune.space import POSITION
from visl.tune.study import count_trials

WORDS = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
INTERRUPTED, RUNNING = "interrupted", "running"
STATES = (*WORDS.values(), INTERRUPTED, RUNNING)
STOPPED, VANISHED = "stopped by Ctrl-C or a signal", "its process ended before it did"  # reasons
LEAST_FOR_IMPORTANCES = 4  # different scores


@dataclass(frozen=True)
class Tuned:
    trials: pd.DataFrame  # one line for each
    best: dict[str, Any] | None  # a preset: VISL(preset=best); None while no trial has finished
    importances: dict[str, float]  # share of each setting in the scores' variance; empty with too few trials


def table_of(study: Study, settings: Sequence[str]) -> pd.DataFrame:
    columns = ["trial", "state", "score", "seconds", *settings, "reason"]
    lines = [line_of(trial) for trial in study.get_trials(deepcopy=False)]
    table = pd.DataFrame(lines, columns=columns)
    # Whole numbers stay whole, though a trial that ended before it began has none.
    whole = [name for name in settings if {type(line[name]) for line in lines if name in line} == {int}]
    return table.astype(dict.fromkeys(whole, "Int64"))


def line_of(trial: FrozenTrial) -> dict[str, Any]:
    """The score of a trial that did not finish is the last that it reported."""
    reported = math.nan if trial.last_step is None else trial.intermediate_values[trial.last_step]
    state, reason = WORDS.get(trial.state, RUNNING), trial.user_attrs.get("reason")
    if trial.state == TrialState.FAIL and reason in (None, STOPPED):  # what fails by itself says why
        state, reason = INTERRUPTED, reason or VANISHED
    return {
        "trial": trial.number,
        "state": state,
        "score": reported if trial.value is None else trial.value,
        "seconds": math.nan if trial.duration is None else round(trial.duration.total_seconds(), 3),
        **trial.user_attrs.get("settings", {}),
        "reason": reason,
    }


def best_of(study: Study, preset: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    """The content of a preset file. preset: what was not varied"""
    if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        return None
    best = study.best_trial
    return {
        "preset": preset["preset"],
        "settings": {**preset["settings"], **best.user_attrs["settings"]},
        "version": visl.__version__,
        "metric": metric,
        "score": best.value,
        "trial": best.number,
        "trials": count_trials(study)[0],
    }


def importances_of(study: Study, seed: int) -> dict[str, float]:
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.value for trial in finished}) < LEAST_FOR_IMPORTANCES:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name.removesuffix(POSITION): float(share) for name, share in found.items()}
