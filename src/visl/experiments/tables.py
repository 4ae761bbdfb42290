"""Rows of results as tables of Markdown: methods down, scores across, the paper's figure beside ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from visl.experiments.design import Row
from visl.experiments.paper import Figures
from visl.experiments.rows import DONE, FAILED, OVER

STRUCTURE_SCORES = {
    "adjacency_recall": "adj. R",
    "adjacency_precision": "adj. P",
    "adjacency_f1": "adj. F1",
    "orientation_recall": "ori. R",
    "orientation_precision": "ori. P",
    "orientation_f1": "ori. F1",
    "causal_accuracy": "causal acc.",
}
BESIDE_PAPER = {**STRUCTURE_SCORES, "shd": "SHD", "edge_auroc": "edge AUROC", "edge_aupr": "edge avg. precision"}
WORDS = {
    "rmse": "RMSE",
    "rmse_by_column": "RMSE, mean of columns",
    "coverage": "coverage of 90 % intervals",
    "shared_coverage": "coverage, ends shared out",
    "log_likelihood": "log-likelihood of a cell",
    "mixed_error": "error, mean of columns",
    "accuracy": "accuracy",
    "auroc": "AUROC",
    "aupr": "AUPR (trapezoid)",
    "average_precision": "average precision",
    "adjacency_f1": "adjacency F1",
    "orientation_f1": "orientation F1",
    "causal_accuracy": "causal accuracy",
    "dag_orientation_f1": "orientation F1 of the acyclic graph",
    "edge_auroc": "edge AUROC",
}
NOTHING, NOT_RUN = "–", "not run"
VISL = "VISL"  # what the names of its contenders begin with


def section(title: str) -> str:
    return f"### {title}"


def markdown(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """The first column reads left, the others right."""
    rule = ["---", *["---:" for _ in titles[1:]]]
    return "\n".join("| " + " | ".join(line) + " |" for line in (titles, rule, *lines))


def of_method(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row["method"] == name]


def mean_and_error(values: Sequence[float], digits: int = 3) -> str:
    """Mean and standard error over data sets."""
    if not values:
        return NOTHING
    if len(values) == 1:
        return number(values[0], digits)
    return f"{number(fmean(values), digits)} ± {number(stdev(values) / math.sqrt(len(values)), digits)}"


def number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def scores_of(rows: Sequence[Row], score: str) -> list[float]:
    found = [row["scores"].get(score) for row in rows if row["status"] == DONE]
    return [value for value in found if value is not None]


def summary(rows: Sequence[Row], score: str, digits: int = 3) -> str:
    """Mean and error of the cells that are done, and what became of the others.  rows: of all planned cells"""
    if not rows:
        return NOTHING
    values = scores_of(rows, score)
    counts = Counter(row["status"] for row in rows)
    if not counts[DONE]:
        return over_the_limit(rows) if counts[OVER] else FAILED if counts[FAILED] else NOT_RUN
    if not values:
        return NOTHING
    return mean_and_error(values, digits) + share_done(rows)


def share_done(rows: Sequence[Row]) -> str:
    """Of the planned cells, if not all."""
    done = sum(row["status"] == DONE for row in rows)
    return "" if done == len(rows) else f" ({done} of {len(rows)})"


def over_the_limit(rows: Sequence[Row]) -> str:
    limit = max(row["limit_s"] for row in rows if row["status"] == OVER)
    return f"{OVER} ({limit / 60:g} min)"


def was_run(rows: Sequence[Row]) -> bool:
    return any(row["status"] != NOT_RUN for row in rows)


def shown_names(rows: Sequence[Row], names: Sequence[str], scores: Sequence[str]) -> list[str]:
    """Methods that have been run and have, or would have had, one of the scores."""

    def belongs(name: str) -> bool:
        of_name = of_method(rows, name)
        done = [row for row in of_name if row["status"] == DONE]
        has_score = any(row["scores"].get(score) is not None for row in done for score in scores)
        return was_run(of_name) and (not done or has_score)

    return [name for name in names if belongs(name)]


def means(
    rows: Sequence[Row],
    names: Sequence[str],
    scores: Sequence[str],
    of_paper: Figures | None = None,
    *,
    digits: int = 3,
) -> str:
    """Means over all data sets. of_paper: its figures for the first scores"""
    titles = ["method", *(WORDS.get(score, score) for score in scores)]
    n_paper = len(next(iter(of_paper.values()))) if of_paper else 0
    titles += [f"paper: {WORDS.get(score, score)}" for score in scores[:n_paper]]
    lines = [
        [
            name,
            *(summary(of_method(rows, name), score, digits) for score in scores),
            *paper_cells(name, of_paper, digits),
        ]
        for name in shown_names(rows, names, scores)
    ]
    return markdown(titles, lines)


def scores_by_label(
    rows: Sequence[Row],
    names: Sequence[str],
    score: str,
    labels: Sequence[str],
    of_paper: Figures | None = None,
    *,
    together: bool = True,
) -> str:
    """One score, for each label and (together) over all data sets."""
    columns = [*labels, "all"] if together else list(labels)
    titles = [WORDS.get(score, score), *columns, *([f"paper: {label}" for label in columns] if of_paper else [])]
    lines = []
    for name in shown_names(rows, names, [score]):
        mine = of_method(rows, name)
        cells = [summary([row for row in mine if row["label"] == label], score) for label in labels]
        lines.append([name, *cells, *([summary(mine, score)] if together else []), *paper_cells(name, of_paper)])
    return markdown(titles, lines)


def by_data(rows: Sequence[Row], names: Sequence[str], score: str, labels: Sequence[str]) -> str:
    """One score: data sets down, methods across."""
    shown = shown_names(rows, names, [score])
    lines = [
        [label, *(summary([r for r in of_method(rows, n) if r["label"] == label], score) for n in shown)]
        for label in labels
    ]
    return markdown([WORDS.get(score, score), *shown], lines)


def structure(rows: Sequence[Row], names: Sequence[str], of_paper: Figures | None = None) -> str:
    """VISL twice: its posterior above 0.5, as the paper scores it, and the acyclic graph."""
    titles = ["method", *BESIDE_PAPER.values()]
    lines = []
    for name in shown_names(rows, names, list(STRUCTURE_SCORES)):
        mine = of_method(rows, name)
        lines.append([name, *(summary(mine, score, _digits(score)) for score in BESIDE_PAPER)])
        if of_paper and name in of_paper:
            printed = [number(value) for value in of_paper[name]]
            lines.append([f"*paper: {name}*", *printed, *[NOTHING for _ in range(len(BESIDE_PAPER) - len(printed))]])
        if name.startswith(VISL):
            dag = [summary(mine, f"dag_{score}", _digits(score)) for score in (*STRUCTURE_SCORES, "shd")]
            lines.append([f"{name}: acyclic graph", *dag, NOTHING, NOTHING])
    return markdown(titles, lines)


def _digits(score: str) -> int:
    return 1 if score == "shd" else 3


def costs(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Seconds and memory of a cell, and on what."""
    lines = []
    for name in names:
        mine = of_method(rows, name)
        done = [row for row in mine if row["status"] == DONE]
        if not was_run(mine):
            continue
        if not done:
            lines.append([name, summary(mine, ""), NOTHING, NOTHING, _reasons(mine)])
            continue
        seconds, memory = [row["seconds"] for row in done], [row["peak_mib"] for row in done if row.get("peak_mib")]
        peak = f"{max(memory):,.0f}" if memory else NOTHING
        filled = {str(row["fill"]) for row in done if row.get("fill")}
        note = f"gaps of training filled by {', '.join(sorted(filled))}" if filled else _reasons(mine)
        lines.append([name, f"{fmean(seconds):.3g}{share_done(mine)}", peak, where(done), note])
    return markdown(["method", "seconds a cell", "most memory, MiB", "on", "note"], lines)


def where(done: Sequence[Row]) -> str:
    """On what, and with how many data sets side by side, whose time is one."""
    together = max(row.get("together") or 1 for row in done)
    device = str(done[0].get("device") or "cpu")
    device = "one CPU thread" if device == "cpu" else device
    return device if together == 1 else f"{device}, {together} data sets side by side"


def _reasons(rows: Sequence[Row]) -> str:
    found = list(dict.fromkeys(str(row["reason"]) for row in rows if row.get("reason")))
    return found[0].replace("|", "/") if found else ""


def paper_cells(name: str, of_paper: Figures | None, digits: int = 3) -> list[str]:
    if not of_paper:
        return []
    width = max(map(len, of_paper.values()))
    figures: Any = of_paper.get(name, ())
    return [number(value, digits) for value in figures] + [NOTHING] * (width - len(figures))
