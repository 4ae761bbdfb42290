"""Categorical columns for methods that know numbers alone: an indicator for every level, and the largest wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from visl.experiments.problem import Answer, FloatArray, Imputation, IntArray, Problem, Run
from visl.schema import BINARY, CATEGORICAL

Method = Callable[..., Answer]


def with_indicators(method: Method) -> Method:
    """The method on a table in which every categorical column is as many binary ones as it has levels."""

    @wraps(method)
    def on_indicators(problem: Problem, run: Run, **settings: Any) -> Answer:
        if not problem.is_categorical.any():
            return method(problem, run, **settings)
        widths = _widths(problem)
        answer = method(_widened(problem, widths), run, **settings)
        assert answer.imputation is not None
        levels = _largest(answer.imputation.mean, problem, widths)
        return replace(answer, imputation=Imputation(levels))

    return on_indicators


def _widths(problem: Problem) -> IntArray:
    """(D,) of each column in the wide table"""
    return np.array([problem.n_levels[j] if kind == CATEGORICAL else 1 for j, kind in enumerate(problem.kinds)])


def _widened(problem: Problem, widths: IntArray) -> Problem:
    row, column = _asked(problem, widths)
    kinds = tuple(BINARY if kind == CATEGORICAL else kind for kind in problem.kinds)
    return replace(
        problem,
        train=_wide(problem.train, problem, widths),
        test=_wide(problem.test, problem, widths),
        asked_row=row,
        asked_column=column,
        kinds=tuple(np.repeat(kinds, widths).tolist()),
        group_of=np.repeat(problem.group_of, widths),
        n_levels=(),
    )


def _wide(values: FloatArray, problem: Problem, widths: IntArray) -> FloatArray:
    parts = []
    for j, column in enumerate(values.T):
        if problem.kinds[j] == CATEGORICAL:
            levels = column[:, None] == np.arange(widths[j])
            parts.append(np.where(np.isnan(column)[:, None], np.nan, levels))
        else:
            parts.append(column[:, None])
    return np.concatenate(parts, axis=1)


def _asked(problem: Problem, widths: IntArray) -> tuple[IntArray, IntArray]:
    """Of every asked cell all its columns in the wide table, one after the other."""
    first, counts = np.cumsum(widths) - widths, widths[problem.asked_column]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(problem.asked_row, counts), np.repeat(first[problem.asked_column], counts) + within


def _largest(wide: FloatArray, problem: Problem, widths: IntArray) -> FloatArray:
    """(c,) a categorical cell's level with the largest share, any other cell as it is."""
    counts = widths[problem.asked_column]
    cells = np.split(wide, np.cumsum(counts)[:-1])
    categorical = problem.is_categorical[problem.asked_column]
    return np.array(
        [np.argmax(cell) if is_level else cell[0] for cell, is_level in zip(cells, categorical, strict=True)]
    )
