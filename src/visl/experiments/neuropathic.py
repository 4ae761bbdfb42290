"""Neuropathic pain: 222 binary variables on a known graph of 770 edges, five data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from visl.experiments import contenders, found_data, illustrations, paper, tables
from visl.experiments.design import DataSet, Experiment, Row
from visl.experiments.methods import finds_structure, imputes
from visl.experiments.problem import BoolArray, Problem, Truth
from visl.experiments.protocol import hide_test_cells, split_rows
from visl.graph.metrics import structure_scores
from visl.schema import BINARY

FOLDER, GRAPH_FILE = "neuropathic_pain", "true_dag.csv"
DOWNLOAD = (
    "the neuropathic data sets: put true_dag.csv (names across and down, 1 in [i, j] for i -> j) and "
    "simulated_1.csv.gz to simulated_5.csv.gz (a header of the same names, 0/1, one patient a line) into "
    f"DIR/{FOLDER} and give --data DIR. The graph and a simulator are published as the Neuropathic Pain Diagnosis "
    "Simulator"
)
TRAIN_ROWS = 1000


def data_sets(smoke: bool) -> list[DataSet]:
    numbers = (1,) if smoke else range(1, 6)
    settings: dict[str, Any] = {"smoke": True} if smoke else {}
    return [DataSet(f"data set {k}", 222, {"number": k, "seed": k, **settings}) for k in numbers]


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    folder = found_data.folder_with(data, FOLDER, GRAPH_FILE, DOWNLOAD)
    graph, names = found_data.read_matrix(folder / GRAPH_FILE)
    edges = graph.astype(bool)
    number = data_set.settings["number"]
    values = found_data.read_values(folder / f"simulated_{number}.csv.gz", names)
    rng = np.random.default_rng([222, number])
    train, test = split_rows(len(values), TRAIN_ROWS, rng)
    if data_set.settings.get("smoke"):  # a few edges between columns that vary
        varies = values[train].std(axis=0) > 0.2
        some = np.unique(np.argwhere(edges & varies[:, None] & varies[None, :])[:6])
        values, edges = values[:, some], edges[np.ix_(some, some)]
        train, test = train[:200], test[:100]
    problem, truth = hide_test_cells(values[train], values[test], rng, kind=BINARY, edges=edges)
    return problem, replace(truth, about=ceiling(problem, edges))


def ceiling(problem: Problem, edges: BoolArray) -> dict[str, float]:
    """Edges of columns that are constant in training cannot be found: the best scores that are left."""
    constant = np.nanstd(problem.train, axis=0) == 0
    hidden = edges & (constant[:, None] | constant[None, :])
    best = structure_scores(edges & ~hidden, edges)
    return {"constant": int(constant.sum()), "hidden_edges": int(hidden.sum()), "orientation_f1": best.orientation_f1}


def make_tables(rows: Sequence[Row]) -> list[str]:
    names, imputers, finders = EXPERIMENT.names(), EXPERIMENT.names(imputes), EXPERIMENT.names(finds_structure)
    return [
        "The data follow the published form of the simulator on its exact graph, with probabilities estimated from its "
        "100 public records, because its own tables could not be had: the paper's figures, on other data, stand in a "
        "column of their own and are no measure for ours. " + _ceilings(rows),
        tables.section("Imputation: hidden test cells"),
        tables.means(
            rows, imputers, ("accuracy", "auroc", "aupr", "average_precision", "log_likelihood"),
            paper.NEUROPATHIC_IMPUTATION, digits=4,
        ),
        tables.section("Structure"),
        tables.structure(rows, finders, paper.NEUROPATHIC_STRUCTURE),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]  # fmt: skip


def _ceilings(rows: Sequence[Row]) -> str:
    known = [row["about"] for row in rows if row.get("about")]
    if not known:
        return ""
    hidden, best = ([about[name] for about in known] for name in ("hidden_edges", "orientation_f1"))
    return (
        f"{min(hidden)} to {max(hidden)} of the true edges touch a column that is constant in the training rows and "
        "cannot be found: the best possible orientation F1 is "
        f"{tables.number(min(best))} to {tables.number(max(best))}."
    )


def make_pictures(rows: Sequence[Row], folder: Path, data: Path | None) -> list[Path]:
    """Without the data, those that are there from before."""
    if data is None or not found_data.has(data, FOLDER, GRAPH_FILE):
        return sorted(folder.glob("neuropathic-*.png"))
    return illustrations.of_edges(EXPERIMENT, rows, folder, data)


EXPERIMENT = Experiment(
    name="neuropathic",
    title="Neuropathic pain: 222 binary variables, five data sets",
    data_sets=data_sets,
    contenders=(*contenders.IMPUTATION, *contenders.STRUCTURE, *contenders.visl_as_in("paper-neuropathic")),
    load=load,
    tables=make_tables,
    pictures=make_pictures,
    keeps_edges=lambda data_set: data_set.settings["number"] == 1,  # for the pictures
    download=DOWNLOAD,
)
