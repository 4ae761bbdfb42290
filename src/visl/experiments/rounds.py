"""The synthetic experiment with other numbers T of message rounds."""

from __future__ import annotations

from collections.abc import Sequence

from visl.experiments import synthetic, tables
from visl.experiments.design import Contender, Experiment, Row

ROUNDS = (1, 2, 3, 5, 8)  # the paper has 3, and 8 for Eedi
FORMS = {"VISL": {}, "VISL, own networks": {"shared_networks": False}}


def make_tables(rows: Sequence[Row]) -> list[str]:
    names = EXPERIMENT.names()
    scores = ("rmse", "adjacency_f1", "orientation_f1", "causal_accuracy", "dag_orientation_f1", "edge_auroc")
    return [
        tables.section("Means of the fifteen synthetic data sets"),
        tables.means(rows, names, scores),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


EXPERIMENT = Experiment(
    name="rounds",
    title="The effect of the number of message rounds T",
    data_sets=synthetic.data_sets,
    contenders=[
        Contender(f"{form}, T={T}", "visl", {"preset": "paper-synthetic", "message_steps": T, **settings})
        for form, settings in FORMS.items()
        for T in ROUNDS
    ],
    load=synthetic.load,
    tables=make_tables,
)
