"""Imputation baselines: column statistics, neighbours, and chained equations over scikit-learn's regressors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import KNNImputer
from sklearn.linear_model import BayesianRidge

from visl.experiments.methods.cells import Mixture
from visl.experiments.methods.indicators import with_indicators
from visl.experiments.problem import Answer, BoolArray, FloatArray, Imputation, IntArray, Problem, Run

UNKNOWN = 0.5  # what a column without any observed training value is filled with: the middle of its scale
ROUNDS, TOLERANCE = 10, 1e-3  # scikit-learn's own for IterativeImputer
TREE_ROUNDS = 3  # of ensembles of trees, which take minutes a round on wide tables
MOST_PREDICTORS = 250  # of a column; wider tables use the most correlated ones
KNN_MEGABYTES = 128  # of distances at a time
LEAST_DEVIATION = 1e-3  # of a constant column, on the scale [0, 1]


def majority(problem: Problem, run: Run) -> Answer:
    """The most frequent value; among equals the smallest, as SimpleImputer(strategy="most_frequent") chooses.

    Where all values of a continuous column differ this is the smallest of them, 0 on the scaled column: with mean .5
    and deviation .22 its RMSE is sqrt(.25 + .22^2) = .546, so this is what the paper's .5442 must be.
    """
    return _answer(problem, _modes(problem.train)[problem.asked_column], {"ties": "smallest"})


def mean(problem: Problem, run: Run) -> Answer:
    """The mean of the column's observed training cells, or the most frequent level; the density is its Gaussian."""
    means, deviations = _moments(problem.train)
    of_cells = np.where(problem.is_categorical, _modes(problem.train), means)[problem.asked_column]
    settings: dict[str, object] = {"library": f"numpy {np.__version__}"}
    if problem.is_categorical.any():
        return _answer(problem, of_cells, settings)
    deviation = deviations[problem.asked_column]
    binary = problem.is_binary[problem.asked_column]
    mixture = Mixture(of_cells[None].astype(np.float32), deviation, binary)
    return Answer(Imputation(of_cells, log_density=mixture.log_density), settings=settings)


@with_indicators
def knn(problem: Problem, run: Run, n_neighbors: int = 10) -> Answer:
    """Mean of the nearest training rows that have the cell, by distance over the cells both rows have."""
    # keep_empty_features: otherwise columns without a value are dropped and all later ones move.
    imputer = KNNImputer(n_neighbors=n_neighbors, keep_empty_features=True).fit(problem.train)
    with sklearn.config_context(working_memory=KNN_MEGABYTES):
        filled = imputer.transform(problem.test)
    empty = np.isnan(problem.train).all(axis=0)
    filled[:, empty] = UNKNOWN  # the library's 0 would be a certain "no" in a binary column
    return _answer(problem, _asked(problem, filled), _settings(n_neighbors=n_neighbors))


@with_indicators
def mice(problem: Problem, run: Run) -> Answer:
    """Bayesian ridge regressions with scikit-learn's default parameters, as in the paper."""
    return _chained_answer(problem, run, BayesianRidge(), ROUNDS)


@with_indicators
def missforest(problem: Problem, run: Run) -> Answer:
    """Random forests as in MissForest: 100 trees, sqrt(D) columns tried at a split, leaves of 5."""
    forest = RandomForestRegressor(100, max_features="sqrt", min_samples_leaf=5, random_state=run.seed, n_jobs=1)
    return _chained_answer(_with_gaps(problem, run), run, forest, TREE_ROUNDS)


@with_indicators
def boosted(problem: Problem, run: Run) -> Answer:
    """Gradient-boosted trees with the library's default parameters."""
    regressor = HistGradientBoostingRegressor(random_state=run.seed)
    return _chained_answer(_with_gaps(problem, run), run, regressor, TREE_ROUNDS)


def _chained_answer(problem: Problem, run: Run, regressor: Any, rounds: int) -> Answer:
    rounds = rounds if run.epochs is None else max(1, min(rounds, run.epochs))
    filled = chained(problem, regressor, rounds)
    settings = _settings(regressor=repr(regressor), rounds=rounds, most_predictors=MOST_PREDICTORS)
    return _answer(problem, _asked(problem, filled), settings)


def _with_gaps(problem: Problem, run: Run) -> Problem:
    """Complete training rows with the test rows' share of gaps.

    Trees fitted on exact predictors trust the guesses in the test rows as much. RMSE on two synthetic data sets of 9
    variables, without and with: boosted trees .126 and .098 -> .088 and .091, forests .096 and .097 -> .089 and .096.
    Linear regressions lose by it, .136 and .130 -> .145 and .134, so `mice` does without.
    """
    if problem.has_gaps:
        return problem
    share = np.isnan(problem.test).mean()
    hidden = np.random.default_rng(run.seed).random(problem.train.shape) < share
    return replace(problem, train=np.where(hidden, np.nan, problem.train))


def chained(problem: Problem, regressor: Any, rounds: int, tolerance: float = TOLERANCE) -> FloatArray:
    """The test rows, filled by regressions of each column on the others, fitted on training rows.  -> (n, D)

    Round by round and column by column, as IterativeImputer().fit(train).transform(test), with two differences.
    Training and test gaps are filled side by side, so that no regression is kept (D * rounds forests are gigabytes).
    And complete training rows do not end it: IterativeImputer stops when the training gaps no longer change, so
    without any it stops after one round, in which test gaps are filled from column means (linear regressions on the
    synthetic task: RMSE .20, against .14 here). Here the rounds go on until the test gaps settle too.
    """
    N = len(problem.train)
    cells = np.concatenate([problem.train, problem.test])
    gap = np.isnan(cells)
    cells = np.where(gap, _moments(problem.train)[0], cells)
    predictors = _predictors(cells[:N])
    small = tolerance * np.abs(cells[~gap]).max(initial=0.0)
    fitted: dict[int, Any] = {}
    for _ in range(rounds):
        before = cells[gap]
        for j in _columns_in_turn(problem.train, gap):
            model = fitted[j] if j in fitted else _fit(regressor, cells[:N], ~gap[:N, j], predictors[j], j)
            if not problem.has_gaps:  # then its training rows never change
                fitted[j] = model
            rows = np.flatnonzero(gap[:, j])
            found = model.predict(cells[np.ix_(rows, predictors[j])])
            cells[rows, j] = found.clip(0, 1) if problem.kinds[j] == "binary" else found
        if np.abs(cells[gap] - before).max(initial=0.0) < small:
            break
    return cells[N:]


def _fit(regressor: Any, train: FloatArray, seen: BoolArray, predictors: IntArray, j: int) -> Any:
    return clone(regressor).fit(train[np.ix_(np.flatnonzero(seen), predictors)], train[seen, j])


def _columns_in_turn(train: FloatArray, gap: BoolArray) -> list[int]:
    """Those with gaps, fewest in training first. A column that is constant or empty in training stays as it began."""
    order = np.argsort(np.isnan(train).sum(axis=0), kind="stable")
    seen = ~np.isnan(train)
    varies = np.where(seen, train, np.inf).min(axis=0) < np.where(seen, train, -np.inf).max(axis=0)
    return [int(j) for j in order if gap[:, j].any() and varies[j] and train.shape[1] > 1]


def _predictors(train: FloatArray) -> list[IntArray]:
    """For each column the others, or the MOST_PREDICTORS most correlated with it, in order.  train: filled"""
    D = train.shape[1]
    others = [np.delete(np.arange(D), j) for j in range(D)]
    if D - 1 <= MOST_PREDICTORS:
        return others
    centred = train - train.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(length > 0, length, 1.0)
    strength = np.abs(scaled.T @ scaled)  # (D, D)
    closest = [np.argsort(-strength[j, others[j]], kind="stable")[:MOST_PREDICTORS] for j in range(D)]
    return [np.sort(others[j][closest[j]]) for j in range(D)]


def _moments(train: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of each column's observed cells.  (N, D) -> (D,), (D,)"""
    seen = ~np.isnan(train)
    count = seen.sum(axis=0)
    means = np.where(seen, train, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(seen, train - means, 0.0) ** 2
    deviations = np.sqrt(squares.sum(axis=0) / np.maximum(count, 1))
    return np.where(count > 0, means, UNKNOWN), deviations.clip(LEAST_DEVIATION)


def _modes(train: FloatArray) -> FloatArray:
    """(N, D) -> (D,)"""
    modes = np.full(train.shape[1], UNKNOWN)
    for j, column in enumerate(train.T):
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        if len(values):
            modes[j] = values[counts.argmax()]  # the first of the highest: values are sorted
    return modes


def _asked(problem: Problem, filled: FloatArray) -> FloatArray:
    return filled[problem.asked_row, problem.asked_column]


def _answer(problem: Problem, of_cells: FloatArray, settings: dict[str, object]) -> Answer:
    binary = problem.is_binary[problem.asked_column]
    return Answer(Imputation(np.where(binary, of_cells.clip(0, 1), of_cells)), settings=settings)


def _settings(**settings: object) -> dict[str, object]:
    return {"library": f"scikit-learn {sklearn.__version__}", **settings}
