"""Sachs et al.: 853 measured cells, eleven proteins, the consensus graph of seventeen edges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from visl.experiments import contenders, found_data, tables
from visl.experiments.design import DataSet, Experiment, Row
from visl.experiments.problem import Problem, Truth
from visl.experiments.protocol import hide_test_cells
from visl.schema import CONTINUOUS

FOLDER, GRAPH_FILE, VALUES_FILE = "sachs", "dag_17_edges_grandag.csv", "sachs_observational_853x11.csv"
DOWNLOAD = (
    f"the Sachs data: put {VALUES_FILE} (a header of names, one cell a line) and {GRAPH_FILE} (names across and down, "
    f"1 in [i, j] for i -> j) into DIR/{FOLDER} and give --data DIR"
)
SEEDS = range(5)  # of the methods; the data are the same


def data_sets(smoke: bool) -> list[DataSet]:
    more = {"rows": 120} if smoke else {}
    return [DataSet(f"seed {seed}", 11, {"seed": seed, **more}) for seed in (SEEDS[:1] if smoke else SEEDS)]


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    folder = found_data.folder_with(data, FOLDER, GRAPH_FILE, DOWNLOAD)
    graph, names = found_data.read_matrix(folder / GRAPH_FILE)
    values = found_data.read_values(folder / VALUES_FILE, names)[: data_set.settings.get("rows")]
    nothing = values[:0]
    return hide_test_cells(values, nothing, np.random.default_rng(0), kind=CONTINUOUS, edges=graph.astype(bool))


def make_tables(rows: Sequence[Row]) -> list[str]:
    names = EXPERIMENT.names()
    return [
        tables.section("Structure, mean of five seeds of the method"),
        tables.structure(rows, names),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


EXPERIMENT = Experiment(
    name="sachs",
    title="Sachs: protein signalling, a consensus graph of seventeen edges",
    data_sets=data_sets,
    contenders=(*contenders.STRUCTURE, *contenders.OURS),
    load=load,
    tables=make_tables,
    download=DOWNLOAD,
)
