"""What the graph is worth to imputation: none at all, the learned one, the true one, and one that joins every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from visl.experiments import contenders, synthetic, tables
from visl.experiments.design import Contender, DataSet, Experiment, Row
from visl.experiments.problem import BoolArray, Problem, Truth

NONE, LEARNED, TRUE, FULL = GRAPHS = ("no edges", "learned", "true", "every pair")


def data_sets(smoke: bool) -> list[DataSet]:
    return [
        replace(
            data_set,
            name=f"{graph}, {data_set.name}",
            settings={**data_set.settings, "graph": graph},
            label=graph,
        )
        for data_set in synthetic.data_sets(smoke)
        for graph in GRAPHS
    ]


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    problem, truth = synthetic.load(data_set, data)
    assert truth.edges is not None
    graph = known_graph(data_set.settings["graph"], truth.edges, seed=data_set.settings["seed"])
    return replace(problem, known_edges=graph), truth


def known_graph(name: str, true: BoolArray, *, seed: int) -> BoolArray | None:
    """(M, M); None: it is to be learned. Where every pair is joined, the columns stand in a random order."""
    if name == FULL:
        place = np.random.default_rng(seed).permutation(len(true))
        return np.asarray(place[:, None] < place)
    return {NONE: np.zeros_like(true), TRUE: true, LEARNED: None}[name]


def make_tables(rows: Sequence[Row]) -> list[str]:
    names = EXPERIMENT.names()
    return [
        tables.section("RMSE of hidden test cells, by the graph that is known or learned"),
        tables.scores_by_label(rows, names, "rmse", GRAPHS, together=False),
        tables.section("Log-likelihood of a hidden cell"),
        tables.scores_by_label(rows, names, "log_likelihood", GRAPHS, together=False),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


EXPERIMENT = Experiment(
    name="ablation",
    title="What the graph is worth to imputation",
    data_sets=data_sets,
    contenders=(
        contenders.OURS[0],
        Contender("VISL, networks alone", "visl", {"preset": "default", "polishing_sweeps": 0}),
    ),
    load=load,
    tables=make_tables,
)
