"""What several runs say about the relations between topics: their union, and where they lie in the hierarchy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from visl.experiments.eedi_data import Topics
from visl.experiments.problem import BoolArray, FloatArray


@dataclass(frozen=True)
class Relation:
    sender: int
    receiver: int
    probability: float  # or strength, mean over the runs
    runs: int  # in which it was found


def union(found_in: Sequence[BoolArray], probabilities: Sequence[FloatArray]) -> list[Relation]:
    """Edges found in any of the runs, the likeliest first.  of each run: (M, M)"""
    over = np.stack(found_in).sum(axis=0)
    np.fill_diagonal(over, 0)
    mean = np.stack(probabilities).mean(axis=0)
    found = [Relation(i, j, float(mean[i, j]), int(over[i, j])) for i, j in zip(*np.nonzero(over), strict=True)]
    return sorted(found, key=lambda relation: -relation.probability)


def by_topic(relations: Sequence[Relation], topic_of: Sequence[str]) -> Counter[tuple[str, str]]:
    """How many relations go from one topic of a level to another.  topic_of: (M,) names of the level"""
    return Counter((topic_of[r.sender], topic_of[r.receiver]) for r in relations)


def share_inside(relations: Sequence[Relation], topic_of: Sequence[str]) -> float:
    """Of the relations, the share that stays inside one topic of the level."""
    if not relations:
        return float("nan")
    return sum(topic_of[r.sender] == topic_of[r.receiver] for r in relations) / len(relations)


def describe(topics: Topics, m: int) -> str:
    return f"{topics.names[m]} ({topics.level_2[m]}, {topics.level_1[m]})"
