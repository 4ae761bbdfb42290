"""Running time and structure from 4 to 512 variables, three data sets each, made as the synthetic ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from visl.experiments import contenders, paper, synthetic, tables
from visl.experiments.design import Contender, DataSet, Experiment, Row
from visl.experiments.rows import DONE, OVER

SEEDS = range(3)
LABELS = [str(size) for size in paper.SCALING_SIZES]


def data_sets(smoke: bool) -> list[DataSet]:
    sizes, seeds = ((4, 5), SEEDS[:1]) if smoke else (paper.SCALING_SIZES, SEEDS)
    rows = (120, 0) if smoke else (synthetic.TRAIN_ROWS, 0)  # no imputation here
    return [
        DataSet(f"{D} variables, seed {seed}", D, {"D": D, "seed": seed, "rows": rows}, label=str(D))
        for D in sizes
        for seed in seeds
    ]


def make_tables(rows: Sequence[Row]) -> list[str]:
    names = EXPERIMENT.names()
    return [
        tables.section("Minutes, mean of three data sets (in the second table the paper's, on a K80 or V100 GPU)"),
        tables.markdown(
            ["ours", *LABELS],
            [[_where(rows, name), *_minutes(rows, name)] for name in tables.shown_names(rows, names, ["shd"])],
        ),
        tables.markdown(
            ["paper", *LABELS], [[name, *_printed(name)] for name in names if name in paper.SCALING_MINUTES]
        ),
        tables.section("Structure"),
        *(tables.scores_by_label(rows, names, score, LABELS) for score in ("adjacency_f1", "orientation_f1")),
        tables.section("Where the time was measured"),
        tables.costs(rows, names),
    ]


def _minutes(rows: Sequence[Row], name: str) -> list[str]:
    cells = []
    for label in LABELS:
        mine = [row for row in tables.of_method(rows, name) if row["label"] == label]
        done = [row["seconds"] / 60 for row in mine if row["status"] == DONE]
        cells.append(f"{fmean(done):.2g}{tables.share_done(mine)}" if done else tables.summary(mine, ""))
    return cells


def _where(rows: Sequence[Row], name: str) -> str:
    done = [row for row in tables.of_method(rows, name) if row["status"] == DONE]
    return f"{name} ({tables.where(done)})" if done else name


def _printed(name: str) -> list[str]:
    figures = [f"{minutes:g}" for minutes in paper.SCALING_MINUTES[name]]
    return figures + ["over a day"] * (len(LABELS) - len(figures))


def mean_seconds(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Of each method at each size; infinite where any data set was over the limit."""
    spent: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row["status"] in (DONE, OVER):
            seconds = row["seconds"] if row["status"] == DONE else math.inf
            spent.setdefault(row["method"], {}).setdefault(row["size"], []).append(seconds)
    return {name: {size: fmean(of_size) for size, of_size in sizes.items()} for name, sizes in spent.items()}


def limit_of(rows: Sequence[Row]) -> float:
    """Rows may have had different ones: that of cells which were over theirs, if no other cell took longer."""
    limits = [row["limit_s"] for row in rows if row.get("limit_s")]
    of_over = max((row["limit_s"] for row in rows if row["status"] == OVER), default=max(limits))
    longest = max((row["seconds"] for row in rows if row["status"] == DONE), default=0.0)
    return float(of_over if longest <= of_over else max(limits))


def make_pictures(rows: Sequence[Row], folder: Path, data: Path | None) -> list[Path]:
    times = mean_seconds(rows)
    if not times or not any(row.get("limit_s") for row in rows):
        return []
    from visl.experiments import pictures

    figure = pictures.running_times(times, limit=limit_of(rows), title="Time to learn a graph", size_name="variables")
    pictures.save(figure, folder / "scaling-times.png")
    return [folder / "scaling-times.png"]


EXPERIMENT = Experiment(
    name="scaling",
    title="Running time and structure from 4 to 512 variables",
    data_sets=data_sets,
    # Vectors of 32, as the paper has for its 222 variables: 256 of them at 512 variables would serve nobody.
    contenders=(
        *contenders.STRUCTURE,
        Contender("VISL", "visl", {"preset": "paper-synthetic", "latent_dim": 32, "initial_edge_probability": None}),
        contenders.OUR_GRAPH,
    ),
    load=synthetic.load,
    tables=make_tables,
    pictures=make_pictures,
)
