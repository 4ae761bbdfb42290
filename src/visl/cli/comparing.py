"""The demo's class, and how much of what is known about it the model found. The words must not flatter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from visl.cli.console import count
from visl.data.demo import load_demo
from visl.data.files import read_table
from visl.data.masks import hide
from visl.estimator import VISL
from visl.graph.metrics import edge_auroc, structure_scores
from visl.measures import auroc

HIDDEN, SEED = 0.1, 0  # share of the known answers that the fit never sees, and which


@dataclass(frozen=True)
class Class:
    students: pd.Series[Any]
    answers: pd.DataFrame  # as the file has them
    shown: pd.DataFrame  # less those hidden for the test
    hidden: NDArray[np.bool_]  # (students, questions)
    topics_path: Path
    areas: dict[str, str]
    prerequisites: list[tuple[str, str]]

    @classmethod
    def load(cls) -> Class:
        files = load_demo()
        table = read_table(files.answers_path)
        answers = table.drop(columns="student")
        observed = answers.notna().to_numpy()
        hidden = observed & ~hide(observed, HIDDEN, np.random.default_rng(SEED))
        areas = read_table(files.areas_path)
        edges = read_table(files.prerequisites_path)
        return cls(
            students=table["student"],
            answers=answers,
            shown=answers.mask(hidden),
            hidden=hidden,
            topics_path=files.topics_path,
            areas=dict(zip(areas["topic"], areas["area"], strict=True)),
            prerequisites=list(zip(edges["from"], edges["to"], strict=True)),
        )

    @property
    def description(self) -> str:
        rows, columns = self.answers.shape
        missing = self.answers.isna().to_numpy().mean()
        return (
            f"A simulated class: {rows} students, {columns} questions in {len(self.areas)} maths topics, {missing:.0%} "
            f"of answers missing.\nA topic is mastered only with all its prerequisites; the model is not told which "
            f"they are.\n{self.hidden.sum():,} of the known answers are hidden from the fit, to test it on."
        )

    def with_ids(self, answers: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([self.students, answers], axis=1)


def hidden_scores(model: VISL, data: Class) -> dict[str, float]:
    """Of the hidden answers: right or wrong, and ranked; beside them each question's share of right answers."""
    chances = model.predict_proba(data.shown)
    right = np.column_stack([chances[name][1] for name in data.answers.columns])[data.hidden]
    truth = data.answers.to_numpy(dtype=float, na_value=np.nan)[data.hidden]
    means = data.shown.to_numpy(dtype=float, na_value=np.nan)
    mean = np.broadcast_to(np.nanmean(means, axis=0), data.hidden.shape)[data.hidden]
    return {
        "count": len(truth),
        "accuracy": float(((right > 0.5) == truth).mean()),
        "auroc": auroc(right, truth),
        "baseline_accuracy": float(((mean > 0.5) == truth).mean()),
        "baseline_auroc": auroc(mean, truth),
    }


def structure(model: VISL, data: Class) -> dict[str, float]:
    names = list(model.edge_probabilities_.index)
    found, truth = _matrix(model.graph_.edges, names), _matrix(data.prerequisites, names)
    pairs = len(names) * (len(names) - 1) // 2
    return {
        "true_edges": int(truth.sum()),
        "edges": int(found.sum()),
        "joined_right": int((found & (truth | truth.T)).sum()),
        "directed_right": int((found & truth).sum()),
        "pairs": pairs,
        "edge_auroc": edge_auroc(model.edge_probabilities_.to_numpy(), truth),
        **structure_scores(found, truth).as_dict(),
    }


def _matrix(edges: Iterable[tuple[Any, Any]], names: list[Any]) -> NDArray[np.bool_]:
    """(topics, topics), [from, to]"""
    matrix = np.zeros((len(names), len(names)), bool)
    for source, target in edges:
        matrix[names.index(source), names.index(target)] = True
    return matrix


def words(hidden: dict[str, Any], graph: dict[str, Any]) -> list[str]:
    rows = (
        ("each question's share of right answers", hidden["baseline_accuracy"], hidden["baseline_auroc"]),
        ("visl", hidden["accuracy"], hidden["auroc"]),
    )
    title = f"{hidden['count']:,} hidden answers, predicted by"
    return [
        f"{title:<42}accuracy   AUROC",
        *(f"  {name:<40}{accuracy:8.3f}{auroc:8.3f}" for name, accuracy, auroc in rows),
        "",
        *_graph_words(graph),
    ]


def _graph_words(graph: dict[str, Any]) -> list[str]:
    edges, true = graph["edges"], graph["true_edges"]
    lines = [f"The graph: {count(edges, 'edge')} learned, {true} true."]
    if edges:
        chance = true / graph["pairs"]
        lines += [
            f"  joined pairs that are true      {graph['joined_right']} of {edges} "
            f"({graph['adjacency_precision']:.0%}; of pairs drawn by chance: {chance:.0%})",
            f"  true pairs that were joined     {graph['joined_right']} of {true} ({graph['adjacency_recall']:.0%})",
            f"  of these, in the true direction {graph['directed_right']} of {graph['joined_right']} "
            "(a coin gets half)",
        ]
    else:
        lines.append("  No edge is more probable than the threshold, so no prerequisite was found.")
    lines.append(f"  AUROC of the edge probabilities {graph['edge_auroc']:.3f} (chance: 0.500), over all ordered pairs")
    return lines
