"""Public Bayesian networks of levels with a known graph: structure from a thousand rows and from five thousand."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from visl.errors import InputError
from visl.experiments import contenders, found_data, tables
from visl.experiments.bayesian_network import BayesianNetwork, parse_bif
from visl.experiments.design import DataSet, Experiment, Row
from visl.experiments.problem import Problem, Truth
from visl.schema import BINARY, CATEGORICAL

FOLDER = "bnlearn"
NAMES = {"asia": 8, "child": 20, "insurance": 27, "alarm": 37, "hailfinder": 56, "win95pts": 76}  # and their columns
ROWS, SEEDS = (1000, 5000), range(3)
DOWNLOAD = (
    f"the networks {', '.join(NAMES)}: put {', '.join(f'{name}.bif.gz' for name in NAMES)} "
    f"into DIR/{FOLDER} and give --data DIR. The Bayesian Network Repository of bnlearn publishes them"
)
# Those that know levels: gradient methods take their numbers for amounts.
FINDERS = ("random_edges", "pc", "ges", "hill_climb", "tabu")


def data_sets(smoke: bool) -> list[DataSet]:
    names, rows, seeds = (["asia"], [200], [0]) if smoke else (list(NAMES), ROWS, SEEDS)
    return [
        DataSet(
            f"{name}, {n:,} rows, seed {seed}",
            NAMES[name],
            {"network": name, "rows": n, "seed": seed},
            label=_label(name, n),
        )
        for name in names
        for n in rows
        for seed in seeds
    ]


def _label(name: str, n_rows: int) -> str:
    return f"{name} ({NAMES[name]} columns), {n_rows:,} rows"


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    name, seed = data_set.settings["network"], data_set.settings["seed"]
    file = found_data.folder_with(data, FOLDER, f"{name}.bif.gz", DOWNLOAD) / f"{name}.bif.gz"
    network = read_bif(file)
    rng = np.random.default_rng([seed, data_set.settings["rows"], list(NAMES).index(name)])
    order = rng.permutation(len(network.variables))  # neither the file's order nor the names may help
    values = network.sample(data_set.settings["rows"], rng)[:, order].astype(np.float64)
    n_levels = [len(network.variables[j].levels) for j in order]
    kinds = tuple(BINARY if n == 2 else CATEGORICAL for n in n_levels)
    nothing = np.zeros(0, np.int64)
    of_categories = tuple(n if n > 2 else 0 for n in n_levels)
    problem = Problem(values, values[:0], nothing, nothing, kinds, np.arange(len(order)), of_categories)
    return problem, Truth(np.zeros(0), network.edges[np.ix_(order, order)])


def read_bif(file: Path) -> BayesianNetwork:
    try:
        text = gzip.decompress(file.read_bytes()).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}): download it again") from error
    return parse_bif(text, str(file))


def make_tables(rows: Sequence[Row]) -> list[str]:
    names = EXPERIMENT.names()
    labels = [_label(name, n) for name in NAMES for n in ROWS]
    return [
        tables.section("Adjacency F1, mean of three seeds"),
        tables.by_data(rows, names, "adjacency_f1", labels),
        tables.section("Orientation F1"),
        tables.by_data(rows, names, "orientation_f1", labels),
        tables.section("Structure, all data sets"),
        tables.structure(rows, names),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


EXPERIMENT = Experiment(
    name="networks",
    title="Public Bayesian networks of levels with a known graph",
    data_sets=data_sets,
    contenders=(
        *(contender for contender in contenders.STRUCTURE if contender.method in FINDERS),
        contenders.OUR_GRAPH,
    ),
    load=load,
    tables=make_tables,
    download=DOWNLOAD,
    files_of=lambda data_set: data_set.settings["network"],
)
