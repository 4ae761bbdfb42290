"""An Optuna study that can be left and taken up again, by one worker or by several."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from visl.errors import InputError

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
HEARTBEAT, GRACE = 60, 300  # seconds: a trial whose worker was killed counts as running until it misses them
OPEN_ATTEMPTS = 5
LOCK_SECONDS = 60  # a worker waits for the others' writes to an SQLite file
Direction = Literal["minimize", "maximize"]
IDENTITY = "visl"  # the study's attribute that says what it is of
STARTUP_TRIALS = 10  # drawn at random, before the sampler has anything to go by
PRUNE_AFTER_TRIALS, PRUNE_AFTER_REPORTS = 5, 2


class SamplerByNumber(BaseSampler):
    """TPE whose random draws follow from the seed and the number of the trial.

    So workers with the same seed do not try the same things, and a study that was left and taken up again goes on as
    if nothing had happened. TPE rather than a Gaussian process: it learns from pruned trials too.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _tpe(self, trial: FrozenTrial, what: str = "") -> TPESampler:
        key = np.random.SeedSequence([self.seed, trial.number, crc32(what.encode())])
        return TPESampler(seed=int(key.generate_state(1)[0]), n_startup_trials=STARTUP_TRIALS)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._tpe(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._tpe(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._tpe(trial, param_name).sample_independent(study, trial, param_name, param_distribution)


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def open_study(
    url: str | None,
    name: str,
    *,
    direction: Direction,
    seed: int,
    prune: bool,
    identity: Mapping[str, Any],
    afresh: bool,
) -> Study:
    """The study of this name, made if there is none; refused if it is of something else. url None: in memory"""
    sampler = SamplerByNumber(seed)
    # The first half of the training has no backward messages: its scores say too little for a harsher pruner.
    median = optuna.pruners.MedianPruner(PRUNE_AFTER_TRIALS, n_warmup_steps=PRUNE_AFTER_REPORTS)
    pruner = median if prune else optuna.pruners.NopPruner()
    with explained(url, ImportError, RuntimeError), quiet():
        storage = _storage(url)
        if afresh and name in optuna.get_all_study_names(storage):
            optuna.delete_study(study_name=name, storage=storage)
        study = optuna.create_study(
            storage=storage, study_name=name, direction=direction, sampler=sampler, pruner=pruner, load_if_exists=True
        )
        found = study.user_attrs.get(IDENTITY)
        _refuse_other(found, json.loads(json.dumps(identity)), f"the study {name!r} in {_shown(url)}")
        if found is None:
            study.set_user_attr(IDENTITY, identity)
    return study


def count_trials(study: Study, below: int | None = None) -> tuple[int, int]:
    """Finished by any worker, and running in one that is alive, as far as `fail_stale_trials` knows.

    below: only trials with lower numbers
    """
    states = [trial.state for trial in study.get_trials(deepcopy=False) if below is None or trial.number < below]
    return sum(state in FINISHED for state in states), states.count(TrialState.RUNNING)


@contextmanager
def explained(url: str | None, *further: type[Exception]) -> Iterator[None]:
    """What goes wrong with a storage, in words. further: errors that can only come from it here"""
    errors: tuple[type[Exception], ...] = (SQLAlchemyError, optuna.exceptions.StorageInternalError, *further)
    try:
        yield
    except errors as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise InputError(f"the storage {_shown(url)} cannot be used ({reason}): check it, or choose another") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna reports to our caller, not to the terminal."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _storage(url: str | None) -> optuna.storages.BaseStorage:
    if url is None:
        return optuna.storages.InMemoryStorage()
    is_sqlite = make_url(url).get_backend_name() == "sqlite"
    engine = {"connect_args": {"timeout": LOCK_SECONDS}} if is_sqlite else None
    for attempt in range(OPEN_ATTEMPTS):
        try:
            return optuna.storages.RDBStorage(
                url, engine_kwargs=engine, heartbeat_interval=HEARTBEAT, grace_period=GRACE
            )
        except (OperationalError, ProgrammingError, IntegrityError):  # another worker makes the same tables
            if attempt == OPEN_ATTEMPTS - 1:
                raise
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("unreachable")


def _shown(url: str | None) -> str:
    """Without the password."""
    try:
        place = make_url(url or "memory://")
    except ArgumentError:
        return f"{url!r}"
    is_file = place.get_backend_name() == "sqlite" and place.database
    return str(place.database) if is_file else place.render_as_string(hide_password=True)


def _refuse_other(found: Any, identity: Mapping[str, Any], study: str) -> None:
    if found is None or found == identity:
        return
    remedy = "choose another --out or --study, or start afresh with --force (afresh=True in Python)"
    if not isinstance(found, dict) or found.get("table") != identity["table"]:
        raise InputError(f"{study} is of another table, or of other groups, kinds or knowledge of edges: {remedy}")
    names = [name for name in {**found, **identity} if found.get(name) != identity.get(name)]
    differences = [f"{name} {found.get(name)} (now {identity.get(name)})" for name in names]
    raise InputError(f"{study} was made with {', '.join(differences)}: give the same, {remedy}")
