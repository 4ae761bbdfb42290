"""Which pictures an experiment shows: of the first of the smallest and of the largest data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from visl.experiments.design import DataSet, Experiment, Row
from visl.experiments.problem import FloatArray, Structure
from visl.experiments.rows import DONE, unpack_edges
from visl.experiments.tables import VISL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN_NODES = 20  # a drawn graph of more cannot be read
CURVES = 7  # methods in one figure
SHOWN = VISL  # the method whose edges are shown


def of_pairs(experiment: Experiment, rows: Sequence[Row], folder: Path, data: Path | None) -> list[Path]:
    """Pair plot of the first data set."""
    from visl.experiments import pictures

    files = []
    for data_set in _first_of_sizes(experiment, rows)[:1]:
        problem, _ = experiment.load(data_set, data)
        names = [f"x{j + 1}" for j in range(problem.train.shape[1])]
        figure = pictures.pair_plot(
            problem.train, names, problem.is_binary, title=f"{experiment.name}, {data_set.name}"
        )
        files.append(_saved(figure, folder, experiment, data_set, "pairs"))
    return files


def of_edges(experiment: Experiment, rows: Sequence[Row], folder: Path, data: Path | None) -> list[Path]:
    """Heat map of the edge probabilities, the graph told right from wrong, and how well edges are ranked."""
    from visl.experiments import pictures

    files = []
    for data_set in _first_of_sizes(experiment, rows):
        _, truth = experiment.load(data_set, data)
        of_data_set = [row for row in rows if row["data_set"] == data_set.name and row["status"] == DONE]
        ranked = {row["method"]: unpack_edges(row["edges"]) for row in of_data_set if row.get("edges")}
        if truth.edges is None or not truth.edges.any() or SHOWN not in ranked:
            continue
        structure, title = ranked[SHOWN], f"{experiment.name}, {data_set.name}: {SHOWN}"
        names = [f"x{j + 1}" for j in range(len(truth.edges))]
        heat = pictures.edge_heat_map(strengths(structure), truth.edges, names, title=title)
        files.append(_saved(heat, folder, experiment, data_set, "edges"))
        if len(truth.edges) <= DRAWN_NODES:
            graph = pictures.predicted_graph(structure, truth.edges, names, title=title)
            files.append(_saved(graph, folder, experiment, data_set, "graph"))
        first = sorted(ranked, key=lambda name: not name.startswith(VISL))[:CURVES]
        chosen = {name: strengths(ranked[name]) for name in first}
        curves = pictures.edge_curves(chosen, truth.edges, title=f"{experiment.name}, {data_set.name}")
        files.append(_saved(curves, folder, experiment, data_set, "curves"))
    return files


def strengths(structure: Structure) -> FloatArray:
    return structure.edges.astype(float) if structure.probabilities is None else structure.probabilities


def _first_of_sizes(experiment: Experiment, rows: Sequence[Row]) -> list[DataSet]:
    """The first data set of the smallest and of the largest size that have been run."""
    smoke = any(row["smoke"] for row in rows)
    present = {row["data_set"] for row in rows if row["status"] == DONE}
    by_size: dict[int, DataSet] = {}
    for data_set in experiment.data_sets(smoke):
        if data_set.name in present:
            by_size.setdefault(data_set.size, data_set)
    sizes = sorted(by_size)
    return [by_size[size] for size in dict.fromkeys([*sizes[:1], *sizes[-1:]])]


def _saved(figure: Figure, folder: Path, experiment: Experiment, data_set: DataSet, what: str) -> Path:
    from visl.experiments import pictures

    slug = "".join(c if c.isalnum() else "-" for c in data_set.name.lower()).replace("--", "-")
    file = folder / f"{experiment.name}-{slug}-{what}.png"
    pictures.save(figure, file)
    return file
