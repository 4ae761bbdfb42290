"""Real tables of numbers and levels, no graph known: 30 % of the observed cells hidden in place, five times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from visl.data.masks import mcar
from visl.experiments import contenders, found_data, tables
from visl.experiments.design import DataSet, Experiment, Row
from visl.experiments.problem import FloatArray, IntArray, Problem, Truth
from visl.experiments.protocol import HIDDEN_SHARE, scale_by_training
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "tabular"
SEEDS = range(5)
MOST_LEVELS = 50  # a column of more different words holds names


@dataclass(frozen=True)
class TableFile:
    name: str
    cells: int  # roughly: small tables come first
    has_header: bool = True


TABLES = (
    TableFile("yacht", 2_200),
    TableFile("energy.yaringal", 7_700, has_header=False),
    TableFile("airfoil", 9_000),
    TableFile("concrete.yaringal", 9_300, has_header=False),
    TableFile("student_performance", 13_000),
    TableFile("winequality_red", 19_000),
    TableFile("bfi", 78_000),
    TableFile("nhefs", 104_000),
    TableFile("california_housing_geron", 206_000),
    TableFile("communities_crime_unnormalized", 320_000),
)
LABELS = [table.name for table in TABLES]
DOWNLOAD = (
    f"the tables {', '.join(LABELS)}: put each as NAME.csv.gz into DIR/{FOLDER} and give --data DIR. They are the UCI, "
    "psych (bfi) and NHEFS tables of these names; concrete.yaringal and energy.yaringal have no header"
)


def data_sets(smoke: bool) -> list[DataSet]:
    some, seeds = (TABLES[:1], SEEDS[:1]) if smoke else (TABLES, SEEDS)
    most = {"rows": 120} if smoke else {}
    return [
        DataSet(f"{table.name}, seed {seed}", table.cells, {"table": table.name, "seed": seed, **most}, table.name)
        for table in some
        for seed in seeds
    ]


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    name, seed = data_set.settings["table"], data_set.settings["seed"]
    file = next(table for table in TABLES if table.name == name)
    folder = found_data.folder_with(data, FOLDER, f"{name}.csv.gz", DOWNLOAD)
    frame = found_data.read_table(folder / f"{name}.csv.gz", has_header=file.has_header)
    values, kinds, n_levels = encode(frame)
    rng = np.random.default_rng([seed, LABELS.index(name)])
    if most := data_set.settings.get("rows"):
        values = values[rng.permutation(len(values))[:most]]
    return hide_in_place(values, kinds, n_levels, rng)


def encode(frame: pd.DataFrame) -> tuple[FloatArray, tuple[str, ...], tuple[int, ...]]:
    """Numbers as they are, two values as 0 and 1, words as indices. Names and constant columns are left out."""
    import pandas as pd

    columns, kinds, n_levels = [], [], []
    for _, column in frame.items():
        numeric = pd.api.types.is_numeric_dtype(column)
        codes, levels = pd.factorize(column, sort=True)
        if len(levels) < 2 or (not numeric and len(levels) > MOST_LEVELS):
            continue
        is_number = numeric and not set(levels) <= {0, 1}
        kind = CONTINUOUS if is_number else BINARY if len(levels) == 2 else CATEGORICAL
        columns.append(column.to_numpy(np.float64) if is_number else np.where(codes < 0, np.nan, codes))
        kinds.append(kind)
        n_levels.append(len(levels) if kind == CATEGORICAL else 0)
    return np.stack(columns, axis=1), tuple(kinds), tuple(n_levels)


def hide_in_place(
    values: FloatArray, kinds: tuple[str, ...], n_levels: tuple[int, ...], rng: np.random.Generator
) -> tuple[Problem, Truth]:
    """The table with gaps is both what is learned from and what is filled."""
    shown = mcar(values.shape, HIDDEN_SHARE, rng)
    train = np.where(shown, values, np.nan)
    number = np.array([kind == CONTINUOUS for kind in kinds])
    scaled, all_scaled = scale_by_training(train, values)
    train, values = np.where(number, scaled, train), np.where(number, all_scaled, values)
    rows, columns = np.nonzero(~shown & ~np.isnan(values))
    group_of: IntArray = np.arange(len(kinds))
    problem = Problem(train, train, rows, columns, kinds, group_of, n_levels)
    return problem, Truth(values[rows, columns])


def make_tables(rows: Sequence[Row]) -> list[str]:
    names = EXPERIMENT.names()
    return [
        tables.section("Error: RMSE of standardised numbers, error rate of levels, mean over the columns of a table"),
        tables.by_data(rows, names, "mixed_error", LABELS),
        tables.section("Coverage of 90 % intervals"),
        tables.by_data(rows, names, "coverage", LABELS),
        *_of_later_versions(rows, names),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


LATER = {
    "shared_coverage": "The same, a value that many cells have counting for the share of its probability inside the "
    "interval",
    "level_calibration": "Calibration error of the probability of a discrete cell's likeliest level",
}


def _of_later_versions(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Scores that rows of earlier versions do not have."""
    result = []
    for score, title in LATER.items():
        if tables.shown_names(rows, names, [score]):
            result += [tables.section(title), tables.by_data(rows, names, score, LABELS)]
    return result


EXPERIMENT = Experiment(
    name="mixed",
    title="Real tables of numbers and levels, 30 % hidden",
    data_sets=data_sets,
    contenders=(
        *(contender for contender in contenders.IMPUTATION if contender.method not in ("majority", "pvae")),
        *contenders.OURS,
    ),
    load=load,
    tables=make_tables,
    download=DOWNLOAD,
    files_of=lambda data_set: data_set.settings["table"],
)
