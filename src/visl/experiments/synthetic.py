"""The paper's synthetic experiment: fifteen data sets, sines along a random graph, complete training rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from visl.data.simulate_synthetic import SyntheticData, simulate_synthetic
from visl.experiments import contenders, illustrations, paper, tables
from visl.experiments.design import DataSet, Experiment, Row
from visl.experiments.methods import finds_structure, imputes
from visl.experiments.problem import Problem, Truth
from visl.experiments.protocol import hide_test_cells
from visl.schema import CONTINUOUS

SIZES = (5, 7, 9)
SEEDS = range(5)
TRAIN_ROWS, TEST_ROWS = 5000, 1000


def data_sets(smoke: bool) -> list[DataSet]:
    sizes, seeds = (SIZES[:1], SEEDS[:1]) if smoke else (SIZES, SEEDS)
    rows = (120, 60) if smoke else (TRAIN_ROWS, TEST_ROWS)
    return [
        DataSet(f"D={D}, seed {seed}", D, {"D": D, "seed": seed, "rows": rows}, label=f"D={D}")
        for D in sizes
        for seed in seeds
    ]


def simulate(data_set: DataSet) -> tuple[SyntheticData, int, np.random.Generator]:
    """The data, how many of the rows are for training, and a generator for what comes next."""
    D, seed, (n_train, n_test) = (data_set.settings[name] for name in ("D", "seed", "rows"))
    rng = np.random.default_rng([D, seed])
    return simulate_synthetic(D, n_train + n_test, rng), n_train, rng


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    simulated, n_train, rng = simulate(data_set)
    train, test = simulated.values[:n_train], simulated.values[n_train:]
    return hide_test_cells(train, test, rng, kind=CONTINUOUS, edges=simulated.edges)


def make_tables(rows: Sequence[Row]) -> list[str]:
    names, imputers, finders = EXPERIMENT.names(), EXPERIMENT.names(imputes), EXPERIMENT.names(finds_structure)
    by_size = [f"D={D}" for D in SIZES]
    return [
        tables.section("Imputation: RMSE of hidden test cells, values scaled by the training rows"),
        tables.scores_by_label(rows, imputers, "rmse", by_size, paper.SYNTHETIC_RMSE),
        tables.section("Imputation: the 90 % interval and the likelihood"),
        tables.means(rows, imputers, ("rmse_by_column", "coverage", "log_likelihood")),
        tables.section("Structure: all fifteen data sets"),
        tables.structure(rows, finders, paper.SYNTHETIC_STRUCTURE),
        tables.section("Structure, by the number of variables"),
        *(
            tables.scores_by_label(rows, finders, score, by_size, of_paper)
            for score, of_paper in (
                ("adjacency_f1", paper.SYNTHETIC_ADJACENCY),
                ("orientation_f1", paper.SYNTHETIC_ORIENTATION),
                ("causal_accuracy", paper.SYNTHETIC_CAUSAL),
            )
        ),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


def make_pictures(rows: Sequence[Row], folder: Path, data: Path | None) -> list[Path]:
    """Of the first of the smallest data sets, its pairs; of it and the first of the largest, what was found."""
    return [
        *illustrations.of_pairs(EXPERIMENT, rows, folder, data),
        *illustrations.of_edges(EXPERIMENT, rows, folder, data),
    ]


EXPERIMENT = Experiment(
    name="synthetic",
    title="Sines along a random graph: imputation and structure on fifteen data sets",
    data_sets=data_sets,
    contenders=(*contenders.IMPUTATION, *contenders.STRUCTURE, *contenders.visl_as_in("paper-synthetic")),
    load=load,
    tables=make_tables,
    pictures=make_pictures,
    keeps_edges=lambda data_set: True,
)
