"""What `visl fit` shows: how the table was understood before training, and what came out after it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visl.cli.console import Talk, count, duration, edge_table, listed, plain_table
from visl.cli.options import LogNames
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL, Column

if TYPE_CHECKING:
    from visl.estimator import VISL

TOP_EDGES = 10
MEANING = {
    CONTINUOUS: "numbers",
    BINARY: "two values",
    CATEGORICAL: "levels without an order",
    ORDINAL: "levels in order",
}


def columns_by_kind(model: VISL) -> dict[str, list[Column]]:
    """In the order of the user's columns."""
    columns = [model.schema_.columns[model.schema_.position[name]] for name in model.columns_]
    return {kind: found for kind in MEANING if (found := [column for column in columns if column.kind == kind])}


def edges_of(model: VISL) -> list[tuple[Any, Any, float, float, float]]:
    """(from, to, probability, adjacency, spread between the members), the most probable first."""
    names = ("probability", "adjacency", "spread")
    edges = [(a, b, *(edge[name] for name in names)) for a, b, edge in model.graph_.edges(data=True)]
    return sorted(edges, key=lambda edge: -edge[2])


def edge_records(model: VISL) -> list[dict[str, Any]]:
    names = ("from", "to", "probability", "adjacency", "spread")
    return [dict(zip(names, edge, strict=True)) for edge in edges_of(model)]


def settings_of(model: VISL) -> dict[str, Any]:
    from visl.estimator import PRESET_SETTINGS
    from visl.settings import preset_words

    config = model.model_.config
    used = {name: getattr(config, name) for name in PRESET_SETTINGS}
    return {"preset": preset_words(model.preset_), **used, "edge_threshold": model.edge_threshold}


def nearest_edge(model: VISL) -> str:
    """Where no edge is probable enough: which comes closest."""
    import numpy as np

    table = model.edge_probabilities_
    if len(table) < 2:
        return "A graph needs at least two groups."
    probabilities = np.where(np.eye(len(table)), -1.0, table.to_numpy())  # no group leads to itself
    i, j = divmod(int(probabilities.argmax()), len(table))
    return f"The most probable edge is {table.index[i]} -> {table.columns[j]}, with {probabilities[i, j]:.3f}."


def kinds_table(model: VISL) -> Any:
    rows = [
        (kind, MEANING[kind], len(columns), listed([column.name for column in columns]))
        for kind, columns in columns_by_kind(model).items()
    ]
    return plain_table(("kind", "meaning", "columns", "such as"), rows)


def describe_table(talk: Talk, model: VISL, path: Path, known_cells: int) -> None:
    rows, columns = model.n_rows_, len(model.columns_)
    missing = f"{100 * _missing(model, known_cells):.1f} % of cells missing"
    talk.note(f"{path}: {count(rows, 'row')}, {count(columns, 'column')}, {missing}")
    talk.note(kinds_table(model))
    talk.note(
        f"Another kind is set with --kind COLUMN=KIND. {_groups(model)}{_aside(model)}",
        "",
    )
    for notice in model.notices_[:5]:
        talk.notice(notice)
    if len(model.notices_) > 5:
        talk.notice(f"{len(model.notices_) - 5} more columns have one value only")


def summarise(
    talk: Talk, model: VISL, table: Path, out: Path, names: LogNames | None, known_cells: int, seconds: float
) -> None:
    edges = edges_of(model)
    summary = {
        "model": out,
        "rows": model.n_rows_,
        "columns": len(model.columns_),
        "groups": len(model.groups_),
        "kinds": {kind: len(columns) for kind, columns in columns_by_kind(model).items()},
        "missing": _missing(model, known_cells),
        "set_aside": model.set_aside_,
        "settings": settings_of(model),
        "seed": model.random_state,
        "seconds": round(seconds, 3),
        "training_seconds": round(model.training_seconds_, 3),
        "peak_memory": peak_memory(),
        "loss": float(model.history_["loss"].iloc[-1]),
        "edges": edge_records(model),
        "notices": model.notices_,
    }
    above = f"more probable than {model.edge_threshold:g}"
    found = f"{count(len(edges), 'edge')} {above} between {count(len(model.groups_), 'group')}"
    talk.result(
        summary,
        f"Fitted {count(len(model.history_), 'epoch')} in {duration(seconds)}: {found}.",
        *(
            [edge_table(edges[:TOP_EDGES], title=_title(len(edges)), spread=model.model_.n_members > 1)]
            if edges
            else [nearest_edge(model)]
        ),
        f"The model is in {out}. Next:",
        f"  {_impute_line(table, out, names)}",
        f"  visl graph {shlex.quote(str(out))} --out graph.png",
    )


def peak_memory() -> int | None:
    """Bytes that this process has held at most; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _title(n_edges: int) -> str | None:
    return f"The {TOP_EDGES} most probable of {n_edges}" if n_edges > TOP_EDGES else None


def _impute_line(table: Path, out: Path, names: LogNames | None) -> str:
    model, path = shlex.quote(str(out)), shlex.quote(str(table))
    if names is None:
        return f"visl impute {model} {path} --out filled.csv"
    log = shlex.join(["--row", names.row, "--column", names.column, "--value", names.value])
    again = f" --duplicates {names.duplicates}" if names.duplicates else ""
    return f"visl impute {model} {path} --long {log}{again} --out filled.csv"


def _missing(model: VISL, known_cells: int) -> float:
    return 1 - known_cells / (model.n_rows_ * len(model.columns_))


def _groups(model: VISL) -> str:
    if not model.schema_.grouped:
        return "Every column is a node of the graph."
    groups = model.schema_.groups
    return f"The graph has {count(len(groups), 'group')}: {listed(groups)}."


def _aside(model: VISL) -> str:
    return f" Set aside: {listed(model.set_aside_)}." if model.set_aside_ else ""
