"""The paper's test protocol: training and test rows, scaling by the training rows, hidden test cells."""

from __future__ import annotations

import numpy as np

from visl.data.masks import mar, mcar
from visl.experiments.problem import BoolArray, FloatArray, IntArray, Problem, Truth
from visl.schema import CONTINUOUS

HIDDEN_SHARE = 0.3  # of the observed test cells, hidden and scored (paper)


def split_rows(n_rows: int, n_train: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    order = rng.permutation(n_rows)
    return order[:n_train], order[n_train:]


def scale_by_training(train: FloatArray, test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each column to [0, 1] by what is observed of it in training; a constant one to 0."""
    low, high = np.nanmin(train, axis=0), np.nanmax(train, axis=0)
    span = np.where(high > low, high - low, 1.0)
    return (train - low) / span, (test - low) / span


def hide_test_cells(
    train: FloatArray,
    test: FloatArray,
    rng: np.random.Generator,
    *,
    kind: str,
    edges: BoolArray | None = None,
    group_of: IntArray | None = None,
    shown: BoolArray | None = None,
) -> tuple[Problem, Truth]:
    """A share of the observed test cells is hidden.  shown: (n, D) which are not, where that is decided elsewhere"""
    if kind == CONTINUOUS:
        train, test = scale_by_training(train, test)
    observed = ~np.isnan(test)
    shown = mcar(test.shape, HIDDEN_SHARE, rng) if shown is None else shown
    rows, columns = np.nonzero(observed & ~shown)
    D = train.shape[1]
    problem = Problem(
        train=train,
        test=np.where(shown, test, np.nan),
        asked_row=rows,
        asked_column=columns,
        kinds=(kind,) * D,
        group_of=np.arange(D) if group_of is None else group_of,
    )
    return problem, Truth(test[rows, columns], edges)


def with_training_gaps(
    complete: FloatArray, test: FloatArray, mechanism: str, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Training rows with gaps, and which test cells are shown: the same mechanism and rate in both.

    MAR gaps depend on columns that are always seen, the same ones in both.
    """
    N = len(complete)
    everything = np.concatenate([complete, test])
    observed = mcar(everything.shape, HIDDEN_SHARE, rng) if mechanism == "MCAR" else mar(everything, HIDDEN_SHARE, rng)
    return np.where(observed[:N], complete, np.nan), observed[N:]
