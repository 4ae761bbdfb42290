"""A made-up table of numbers with a known graph, and the time that filling its gaps takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from visl.batches import TrainingData
from visl.conditional_fit import fit_conditionals
from visl.config import Config
from visl.inference import AskedCells, Imputer
from visl.model import VislModel
from visl.schema import CONTINUOUS, Column, Schema
from visl.standardising import standardise
from visl.steps import Alone
from visl.table import Table

ROWS, MOST_PARENTS, HIDDEN = 1000, 3, 1 / 3


@dataclass(frozen=True)
class Filling:
    model: VislModel
    shown: Table
    asked: AskedCells
    fitting: float  # seconds

    def fill(self, *, polish: bool) -> None:
        n_draws = self.model.config.n_draws
        Imputer(self.model, n_draws=n_draws, seed=0, polish=polish).point(self.shown, self.asked)


def made_up(D: int) -> Filling:
    """Every column is a sum of waves of up to three earlier ones."""
    rng = np.random.default_rng(D)
    values, graph = rng.normal(size=(ROWS, D)), torch.zeros(D, D)
    for j in range(1, D):
        parents = rng.choice(j, size=min(j, MOST_PARENTS), replace=False)
        graph[parents, j] = 1.0
        values[:, j] = np.sin(2 * values[:, parents]).sum(1) + 0.2 * values[:, j]
    schema = Schema(tuple(Column(j, CONTINUOUS, j) for j in range(D)), tuple(range(D)), grouped=False)
    model = VislModel(schema, Config(), graph, torch.Generator().manual_seed(0))
    table = Table.from_dense(values, np.ones(values.shape, bool))
    standardise(model, TrainingData([table]), Alone())
    begun = time.perf_counter()
    fit_conditionals(model, table)
    assert model.conditionals is not None
    model.conditionals.trusted.fill_(True)
    fitting = time.perf_counter() - begun
    hidden = rng.random(values.shape) < HIDDEN
    return Filling(model, Table.from_dense(values, ~hidden), AskedCells(*np.nonzero(hidden)), fitting)


def at_best(run: Callable[[], None], seconds: float) -> float:
    """The shortest of as many times as fit into these seconds."""
    times: list[float] = []
    while sum(times) < seconds or len(times) < 2:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)
