"""VISL itself. Data sets of one shape are trained side by side, as members of one model: far faster on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from visl.batches import TrainingData, member_seeds
from visl.config import Config, build_config
from visl.experiments.problem import TAILS, Answer, FloatArray, Imputation, Problem, Run, Structure
from visl.finishing import finish
from visl.inference import AskedCells, Imputer
from visl.model import VislModel
from visl.schema import BINARY, CONTINUOUS, Column, Schema
from visl.steps import find_device
from visl.table import Table
from visl.training import Interrupted, train

EDGE_THRESHOLD = 0.5  # the paper's tables score the posterior above it, two-way edges allowed
SMALL: dict[str, Any] = {"latent_dim": 8, "n_draws": 5}  # of a small trial


class OverTheLimit(Exception):
    """Training was stopped because its time was up."""


def visl(problem: Problem, run: Run, **settings: Any) -> Answer:
    return visl_side_by_side([problem], [run], **settings)[0]


def visl_side_by_side(
    problems: Sequence[Problem],
    runs: Sequence[Run],
    *,
    time_is_up: Callable[[], bool] = lambda: False,
    preset: str = "default",
    **settings: Any,
) -> list[Answer]:
    """One answer for each problem; all have the same columns, groups and number of training rows."""
    config = replace(build_config(preset), **settings)
    if runs[0].epochs is not None:
        config = replace(config, epochs=runs[0].epochs)
    if runs[0].small:
        config = replace(config, **SMALL)
    model, data = build(problems, runs, config)
    try:
        train(model, data, seeds=_seeds(runs, config), should_stop=lambda state: time_is_up())
    except Interrupted:
        raise OverTheLimit from None
    return answers(model, data, problems, runs)


def build(problems: Sequence[Problem], runs: Sequence[Run], config: Config) -> tuple[VislModel, TrainingData]:
    """A model with the members of each problem one after the other, and what it is trained on."""
    schema = schema_of(problems[0])
    prior = torch.stack([_prior(problem, config) for problem in problems]).repeat_interleave(config.n_members, 0)
    rngs = [torch.Generator().manual_seed(seed) for seed in _seeds(runs, config)]
    model = VislModel(schema, config, prior, rngs).to(find_device(runs[0].device))
    tables = [to_table(problem.train) for problem in problems]
    return model, TrainingData(tables, of_members=True, members_each=config.n_members)


def _prior(problem: Problem, config: Config) -> torch.Tensor:
    """(M, M)"""
    if problem.known_edges is not None:
        return torch.from_numpy(problem.known_edges).float()
    return torch.full((problem.n_groups, problem.n_groups), config.edge_prior)


def _seeds(runs: Sequence[Run], config: Config) -> list[int]:
    return [seed for run in runs for seed in member_seeds(run.seed, config.n_members)]


def answers(model: VislModel, data: TrainingData, problems: Sequence[Problem], runs: Sequence[Run]) -> list[Answer]:
    n = data.members_each
    return [
        _answer(model.some(slice(n * i, n * (i + 1))), data.tables[i], problem, run)
        for i, (problem, run) in enumerate(zip(problems, runs, strict=True))
    ]


def can_share_a_model(first: Problem, second: Problem) -> bool:
    return (
        first.train.shape == second.train.shape
        and first.kinds == second.kinds
        and first.n_levels == second.n_levels
        and np.array_equal(first.group_of, second.group_of)
    )


def schema_of(problem: Problem) -> Schema:
    """Columns and groups by number."""
    columns = [
        Column(j, kind, int(group), levels=_levels(problem, j))
        for j, (kind, group) in enumerate(zip(problem.kinds, problem.group_of, strict=True))
    ]
    return Schema(tuple(columns), tuple(range(problem.n_groups)), grouped=not problem.variable_wise)


def _levels(problem: Problem, j: int) -> tuple[int, ...]:
    kind = problem.kinds[j]
    return () if kind == CONTINUOUS else (0, 1) if kind == BINARY else tuple(range(problem.n_levels[j]))


def to_table(values: FloatArray) -> Table:
    observed = ~np.isnan(values)
    return Table.from_dense(np.where(observed, values, 0.0), observed)


def _answer(model: VislModel, table: Table, problem: Problem, run: Run) -> Answer:
    config = model.config
    finish(model, table, seed=run.seed)
    with torch.no_grad():
        probabilities = model.edges.probabilities().cpu().double().numpy().mean(0)
    structure = Structure(model.edges.edges_above(probabilities, EDGE_THRESHOLD), probabilities)
    return Answer(_imputation(model, problem, run), structure, asdict(config))


def _imputation(model: VislModel, problem: Problem, run: Run) -> Imputation | None:
    if not len(problem.asked_row):
        return None
    shown, asked = to_table(problem.test), AskedCells(problem.asked_row, problem.asked_column)
    imputer = Imputer(model, n_draws=model.config.n_draws, seed=run.seed)
    is_binary = problem.is_binary[problem.asked_column]
    point = imputer.point(shown, asked).astype(np.float64)
    if is_binary.any():
        point = np.where(is_binary, imputer.probabilities(shown, asked)[:, 1], point)
    low, high = (imputer.quantile(shown, asked, share).astype(np.float64) for share in TAILS)

    def log_density(values: FloatArray) -> FloatArray:
        return imputer.log_prob(shown, asked, values.astype(np.float32)).astype(np.float64)

    def cdf(values: FloatArray) -> FloatArray:
        return imputer.cdf(shown, asked, values)[:, 0].astype(np.float64)

    return Imputation(point, low, high, log_density, cdf)
