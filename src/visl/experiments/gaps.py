"""The synthetic experiment with gaps, MCAR and MAR, in training and in test: what real tables look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from visl.experiments import contenders, synthetic, tables
from visl.experiments.design import Contender, DataSet, Experiment, Row
from visl.experiments.methods import finds_structure, imputes
from visl.experiments.problem import Problem, Truth
from visl.experiments.protocol import hide_test_cells, with_training_gaps
from visl.schema import CONTINUOUS

MECHANISMS = ("MCAR", "MAR")
FILL = "knn"  # for structure methods, none of which can have gaps


def data_sets(smoke: bool) -> list[DataSet]:
    return [
        replace(
            data_set,
            name=f"{mechanism}, {data_set.name}",
            settings={**data_set.settings, "mechanism": mechanism},
            label=mechanism,
        )
        for data_set in synthetic.data_sets(smoke)
        for mechanism in MECHANISMS
    ]


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    simulated, n_train, rng = synthetic.simulate(data_set)
    train, test = simulated.values[:n_train], simulated.values[n_train:]
    train, shown = with_training_gaps(train, test, data_set.settings["mechanism"], rng)
    return hide_test_cells(train, test, rng, kind=CONTINUOUS, edges=simulated.edges, shown=shown)


def make_tables(rows: Sequence[Row]) -> list[str]:
    names, imputers, finders = EXPERIMENT.names(), EXPERIMENT.names(imputes), EXPERIMENT.names(finds_structure)
    return [
        tables.section("Imputation: RMSE of hidden test cells"),
        tables.scores_by_label(rows, imputers, "rmse", MECHANISMS, together=False),
        tables.section("Structure (of every method but VISL on a table whose gaps were filled by nearest neighbours)"),
        *(
            tables.scores_by_label(rows, finders, score, MECHANISMS, together=False)
            for score in ("adjacency_f1", "orientation_f1", "causal_accuracy", "dag_orientation_f1")
        ),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


def _filled(contender: Contender) -> Contender:
    return contender if contender.method == "random_edges" else replace(contender, fill=FILL)


EXPERIMENT = Experiment(
    name="gaps",
    title="The synthetic data sets with 30 % of the values missing, MCAR and MAR, in training and in test",
    data_sets=data_sets,
    contenders=(
        *contenders.IMPUTATION,
        *map(_filled, contenders.STRUCTURE),
        *contenders.visl_as_in("paper-synthetic"),
    ),
    load=load,
    tables=make_tables,
)
