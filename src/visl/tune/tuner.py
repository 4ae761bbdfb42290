"""Trials of settings on held-out cells, and the best of them as a preset."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any, Self

import numpy as np
import optuna
import torch
from optuna.trial import Trial
from sklearn.base import clone

from visl.config import check_whole_number
from visl.data.codec import encode
from visl.data.plain import plain
from visl.data.rows import take_rows
from visl.data.source import read_source
from visl.errors import InputError
from visl.estimator import PRESET_SETTINGS, VISL
from visl.inference import Imputer
from visl.preparation import prepare
from visl.reading import read_table
from visl.settings import check_share, preset_parts
from visl.steps import Alone
from visl.training import Interrupted, TrainingState
from visl.tune.held_out import METRICS, check_metric, choose_rows, default_metric, hold_out
from visl.tune.results import STOPPED, Tuned, best_of, importances_of, line_of, table_of
from visl.tune.space import PAPER_SPACE, Space, check_space
from visl.tune.study import count_trials, explained, open_study, quiet

PAPER_TRIALS = 39
REPORTS = 10  # tenths of the training; each but the last reports a score, by which a trial may be pruned


class Watcher:
    """Told what happens; may stop it."""

    def on_trial(self, number: int, settings: Mapping[str, Any], epochs: int) -> None:
        """A trial begins."""

    def on_epoch(self, record: Mapping[str, float]) -> None:
        """An epoch of it ends."""

    def on_end(self, trial: Mapping[str, Any]) -> None:
        """It has ended: its line in `Tuned.trials`."""

    def should_stop(self, state: TrainingState | None) -> bool:
        """Asked before each trial, and with the state after each step."""
        return False


class _Surplus(Exception):
    """A trial that is one too many."""


class Tuner:
    """Varies settings of an unfitted estimator on one table.

    estimator: what is not varied; its random_state None counts as 0, so that a study can be taken up again.
    vary: setting of `Config` -> Range or Choices; None: the paper's grid, less what the estimator fixes.
    metric: one of METRICS; None: "accuracy" for levels, "rmse" for numbers, "error" for a mixed table.
    validation: share of the rows held out; hide: share of their cells that is hidden and predicted.
    """

    def __init__(
        self,
        estimator: VISL,
        X: Any,
        *,
        vary: Space | None = None,
        metric: str | None = None,
        validation: float = 0.1,
        hide: float = 0.3,
        prune: bool = True,
    ) -> None:
        self.estimator, self.prune = clone(estimator), prune
        if self.estimator.random_state is None:
            self.estimator.random_state = 0
        self.shares = check_share("validation", validation), check_share("hide", hide)
        self.space = check_space(_free(self.estimator) if vary is None else vary)
        _refuse_fixed(self.estimator, self.space)
        self.base, self.preset_settings = preset_parts(estimator.preset)
        self.whole = clone(self.estimator)  # knows the whole table, and is never trained
        X, _ = read_table(self.whole, X, reset=True)
        table = self.whole._prepare(X, (), Alone()).tables[0]
        self.seed = self.whole.seed_
        self._split(X, table)
        self.metric = default_metric(self.held_out) if metric is None else check_metric(metric, self.held_out)
        self.study: optuna.Study | None = None
        self.storage: str | None = None

    def _split(self, X: Any, table: Any) -> None:
        """Every trial has the same training rows, held-out rows and hidden cells."""
        rng, schema = np.random.default_rng(self.seed), self.whole.schema_
        self.rows = rows = choose_rows(table, schema, self.shares[0], rng)  # held out
        kept = np.setdiff1d(np.arange(table.n_rows), rows)
        # What the columns are is known; their scales come from the training rows alone.
        self.estimator.kinds = _kinds(self.whole)
        self.training = take_rows(X, kept)
        prepared = prepare(clone(self.estimator), self.training, Alone())
        encoded = encode(read_source(take_rows(X, rows)), prepared.schema)
        self.held_out = hold_out(encoded.table, prepared.data.tables[0], prepared.schema, self.shares[1], rng)

    # -- the study

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must be the same for trials to be of one study."""
        whole = self.whole
        prior = whole.model_.edges.prior.cpu().numpy().tobytes()
        table = [whole.schema_.to_json(), whole.order_fingerprint_, hashlib.sha256(prior).hexdigest()]
        fixed = {name: value for name, value in asdict(whole.model_.config).items() if name not in self.space}
        return {
            "table": hashlib.sha256(json.dumps(table, default=str).encode()).hexdigest(),
            "vary": {name: str(varied) for name, varied in self.space.items()},
            "metric": self.metric,
            "validation": self.shares[0],
            "hide": self.shares[1],
            "seed": self.seed,
            **fixed,
        }

    def open(self, storage: str | None = None, name: str = "visl", *, afresh: bool = False) -> Self:
        """Make the study of this name, or take it up; refuse one that is of another table or other settings.

        storage: the URL of a database, in which the study is kept and found again; None: in memory. afresh: delete it.
        """
        direction = METRICS[self.metric].direction
        self.study = open_study(
            storage, name, direction=direction, seed=self.seed, prune=self.prune, identity=self.identity, afresh=afresh
        )
        self.storage = storage
        return self

    def run(self, n_trials: int = PAPER_TRIALS, watcher: Watcher | None = None) -> Tuned:
        """Trials until the study has this many finished or pruned ones, by this and all other workers."""
        check_whole_number("trials", n_trials)
        if self.study is None:
            self.open()
        assert self.study is not None
        study, watcher = self.study, watcher or Watcher()
        tell = [lambda study, trial: watcher.on_end(line_of(trial))]
        with explained(self.storage), quiet():
            while True:
                optuna.storages.fail_stale_trials(study)
                if sum(count_trials(study)) >= n_trials:
                    break
                if watcher.should_stop(None):
                    raise Interrupted(TrainingState())
                study.optimize(
                    lambda trial: self._try(trial, watcher, n_trials), n_trials=1, callbacks=tell, catch=(_Surplus,)
                )
        return self.results()

    def _try(self, trial: Trial, watcher: Watcher, n_trials: int) -> float:
        if sum(count_trials(trial.study, below=trial.number)) >= n_trials:  # of workers that began at the same moment
            trial.set_user_attr("reason", "not needed: other workers had begun the last trials")
            raise _Surplus
        settings = {name: varied.suggest(trial, name) for name, varied in self.space.items()}
        trial.set_user_attr("settings", settings)
        model = clone(self.estimator).set_params(preset=self._preset(settings))
        epochs, reported = model._config().epochs, 0
        watcher.on_trial(trial.number, settings, epochs)

        def on_epoch(record: dict[str, float]) -> None:
            nonlocal reported
            watcher.on_epoch(record)
            tenth = int(record["epoch"]) * REPORTS // epochs
            if reported < tenth < REPORTS:
                reported = tenth
                trial.report(self._score(model), tenth)
                if trial.should_prune():
                    raise optuna.TrialPruned

        try:
            model._fit(self.training, on_epoch=on_epoch, should_stop=watcher.should_stop)
            return self._score(model)
        except (InputError, MemoryError, torch.OutOfMemoryError) as error:
            # The table is known to be good: these settings diverge, or are too large. The search goes on elsewhere.
            trial.set_user_attr("reason", str(error) or type(error).__name__)
            raise optuna.TrialPruned from error
        except optuna.TrialPruned:
            raise
        except (Interrupted, KeyboardInterrupt):
            trial.set_user_attr("reason", STOPPED)
            raise
        except Exception as error:
            trial.set_user_attr("reason", f"{type(error).__name__}: {error}")
            raise

    def _score(self, model: VISL) -> float:
        network = model.model_
        imputer = Imputer(network, n_draws=network.config.n_draws, seed=self.seed)
        score = self.held_out.score(imputer, self.metric)
        if not math.isfinite(score):
            raise InputError(f"the {self.metric} of the held-out cells is {score}")
        return score

    def _preset(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {"preset": self.base, "settings": {**self.preset_settings, **settings}}

    # -- what came out

    def results(self) -> Tuned:
        """So far, of all workers."""
        assert self.study is not None
        fixed = {name: plain(getattr(self.estimator, name)) for name in PRESET_SETTINGS}
        given = {name: value for name, value in fixed.items() if value is not None}
        preset = self._preset(given)
        with quiet():
            return Tuned(
                table_of(self.study, list(self.space)),
                best_of(self.study, preset, self.metric),
                importances_of(self.study, self.seed),
            )


def tune(estimator: VISL, X: Any, n_trials: int = PAPER_TRIALS, *, vary: Space | None = None, **settings: Any) -> Tuned:
    """Find good settings of an estimator for a table; see `Tuner` for all settings, and its `run` to keep a study."""
    return Tuner(estimator, X, vary=vary, **settings).run(n_trials)


def _free(estimator: VISL) -> Space:
    return {name: varied for name, varied in PAPER_SPACE.items() if getattr(estimator, name, None) is None}


def _refuse_fixed(estimator: VISL, space: Space) -> None:
    for name in space:
        if getattr(estimator, name, None) is not None:
            raise InputError(f"{name} is both varied and given: leave one of them out")


def _kinds(whole: VISL) -> dict[Any, Any]:
    """As the user says, else as inferred from all rows."""
    schema, kinds = whole.schema_, whole.kinds
    given = dict.fromkeys(whole.columns_, kinds) if isinstance(kinds, str) else dict(kinds or {})
    return {column.name: given.get(column.name, column.kind) for column in schema.columns}
