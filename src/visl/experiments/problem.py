"""What a method is given, what it gives back, and what it is scored against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

LEVEL = 0.9  # of the intervals of imputed values
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # shares below their ends


@dataclass(frozen=True)
class Problem:
    """One data set as a method sees it.

    Continuous columns are scaled to [0, 1] by the training data (test values may lie outside), binary ones hold 0 and
    1, categorical ones the index of a level; gaps are NaN.
    """

    train: FloatArray  # (N, D)
    test: FloatArray  # (n, D), without the hidden cells
    asked_row: IntArray  # (c,) the hidden cells of the test rows, sorted by row
    asked_column: IntArray  # (c,)
    kinds: tuple[str, ...]  # (D,) of schema.KINDS
    group_of: IntArray  # (D,) index of each column's group, a node of the graph; columns of a group stand together
    n_levels: tuple[int, ...] = ()  # (D,) of categorical columns, else 0; empty: there is none
    known_edges: BoolArray | None = None  # (M, M) the graph, for methods that can be told it; None: it is not known

    @property
    def n_groups(self) -> int:
        return int(self.group_of.max()) + 1

    @property
    def variable_wise(self) -> bool:
        return self.n_groups == len(self.group_of)

    @property
    def has_gaps(self) -> bool:
        """In training."""
        return bool(np.isnan(self.train).any())

    @property
    def is_binary(self) -> BoolArray:
        """(D,)"""
        return np.array([kind == "binary" for kind in self.kinds])

    @property
    def is_categorical(self) -> BoolArray:
        """(D,)"""
        return np.array([kind == "categorical" for kind in self.kinds])


@dataclass(frozen=True)
class Run:
    """How a method is run."""

    seed: int = 0
    device: str = "cpu"
    epochs: int | None = None  # of methods that have epochs; None: their own
    small: bool = False  # a small trial: whatever else takes time may be smaller too


@dataclass(frozen=True)
class Imputation:
    """Of the asked cells."""

    mean: FloatArray  # (c,) expected value; of a binary cell the probability of 1, of a categorical one its level
    low: FloatArray | None = None  # (c,) ends of the interval of LEVEL, equal tails
    high: FloatArray | None = None
    log_density: Callable[[FloatArray], FloatArray] | None = None  # log p of the asked cells' values, (c,) -> (c,)
    cdf: Callable[[FloatArray], FloatArray] | None = None  # P(X <= value), (c,) -> (c,); NaN where there is no order


@dataclass(frozen=True)
class Structure:
    """Between the groups, [from, to]. Both directions of a pair: not directed, or both."""

    edges: BoolArray  # (M, M)
    probabilities: FloatArray | None = None  # (M, M), of methods that give a probability or a strength to every edge


@dataclass(frozen=True)
class Answer:
    imputation: Imputation | None = None
    structure: Structure | None = None
    settings: dict[str, object] | None = None  # what the method was run with, for the record


@dataclass(frozen=True)
class Truth:
    """What an answer is scored against; methods never see it."""

    values: FloatArray  # (c,) of the asked cells
    edges: BoolArray | None = None  # (M, M)
    about: Mapping[str, Any] = field(default_factory=dict)  # names of the nodes and the like, for the tables
