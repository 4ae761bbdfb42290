"""An answer against the truth: the numbers that the tables hold. A score that does not apply has no entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from visl import measures
from visl.errors import InputError
from visl.experiments.problem import LEVEL, BoolArray, FloatArray, Imputation, IntArray, Problem, Structure, Truth
from visl.graph.acyclicity import project_to_dag
from visl.graph.metrics import edge_aupr, edge_auroc, structure_scores
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS


def imputation_scores(problem: Problem, truth: Truth, imputation: Imputation) -> dict[str, float]:
    """Over the asked cells: continuous and binary ones apart; likelihood and mixed error over them all.

    Coverage is over the cells that have an interval: one of NaN is none.
    """
    _check(problem, truth, imputation)
    mean, values = imputation.mean, truth.values
    kind_of_cell = np.array(problem.kinds)[problem.asked_column]
    number, binary = kind_of_cell == CONTINUOUS, kind_of_cell == BINARY
    scores: dict[str, float] = {}
    if number.any():
        scores |= _number_scores(mean[number], values[number], problem.asked_column[number])
    if binary.any():
        scores |= _binary_scores(mean[binary], values[binary])
    scores["mixed_error"] = mixed_error(problem, truth, mean)
    if imputation.log_density is not None:
        scores["log_likelihood"] = measures.mean_log_likelihood(imputation.log_density(values))
    elif binary.any() and binary.all():  # of some of the cells it could not be compared with other methods'
        scores["log_likelihood"] = measures.mean_log_likelihood(measures.bernoulli_log_likelihood(mean, values))
    if imputation.low is not None and imputation.high is not None:
        given = ~np.isnan(imputation.low) & ~np.isnan(imputation.high)  # some methods have intervals for numbers alone
        scores["coverage"] = measures.interval_coverage(imputation.low[given], imputation.high[given], values[given])
    if imputation.cdf is not None:
        scores["shared_coverage"] = shared_coverage(problem, truth, imputation.cdf)
    if not number.all() and (binary[~number].all() or imputation.log_density is not None):
        scores["level_calibration"] = level_calibration(problem, truth, imputation)
    return scores


def shared_coverage(problem: Problem, truth: Truth, cdf: Callable[[FloatArray], FloatArray]) -> float:
    """Of the cells that have an order; a value that others of its column have too counts for its share inside."""
    low, high = truth.values.astype(np.float64), truth.values.astype(np.float64)
    for j in np.unique(problem.asked_column):
        here = problem.asked_column == j
        if problem.kinds[j] == CONTINUOUS:
            seen = problem.train[~np.isnan(problem.train[:, j]), j]
            low[here], high[here] = measures.tie_bounds(np.concatenate([seen, high[here]]), high[here])
        else:
            low[here] -= 0.5  # between this level and the one below
    below, up_to = cdf(low), cdf(high)
    ordered = ~np.isnan(up_to)
    return measures.shared_coverage(below[ordered], up_to[ordered], LEVEL)


def level_calibration(problem: Problem, truth: Truth, imputation: Imputation) -> float:
    """Calibration error of the probability that the likeliest level of a discrete cell is given."""
    kind_of_cell = np.array(problem.kinds)[problem.asked_column]
    categorical, discrete = kind_of_cell == CATEGORICAL, kind_of_cell != CONTINUOUS
    likeliest = np.where(categorical, imputation.mean, imputation.mean > 0.5)
    confidence = np.where(likeliest == 1, imputation.mean, 1 - imputation.mean)  # of a binary cell
    if categorical.any():
        assert imputation.log_density is not None
        confidence = np.where(categorical, np.exp(imputation.log_density(likeliest)), confidence)
    right = likeliest == truth.values
    return measures.calibration_error(np.clip(confidence[discrete], 0, 1), right[discrete])


def _check(problem: Problem, truth: Truth, imputation: Imputation) -> None:
    cells = problem.asked_column.shape
    if not (imputation.mean.shape == truth.values.shape == cells):
        raise InputError(f"mean {imputation.mean.shape}, truth {truth.values.shape}, cells {cells}: give one for each")
    unanswered = np.flatnonzero(~np.isfinite(imputation.mean))
    if len(unanswered):
        raise InputError(f"{len(unanswered)} of the asked cells have no finite mean: give one for each cell")


def mixed_error(problem: Problem, truth: Truth, mean: FloatArray) -> float:
    """Mean over columns: RMSE of a continuous one in units of the spread of its asked cells, error rate of a discrete
    one."""
    errors = []
    for j in np.unique(problem.asked_column):
        here = problem.asked_column == j
        found, values, kind = mean[here], truth.values[here], problem.kinds[j]
        if kind == CONTINUOUS:
            spread = values.std()
            errors.append(measures.rmse(found, values) / (spread if spread > 0 else 1.0))
        else:
            levels = found if kind == CATEGORICAL else found > 0.5
            errors.append(1 - measures.accuracy(levels, values))
    return float(np.mean(errors))


def _number_scores(mean: FloatArray, values: FloatArray, column: IntArray) -> dict[str, float]:
    by_column = [measures.rmse(mean[column == j], values[column == j]) for j in np.unique(column)]
    return {"rmse": measures.rmse(mean, values), "rmse_by_column": float(np.mean(by_column))}


def _binary_scores(probability: FloatArray, values: FloatArray) -> dict[str, float]:
    return {
        "accuracy": measures.accuracy(probability > 0.5, values),
        "auroc": measures.auroc(probability, values),
        "aupr": measures.aupr(probability, values),
        "average_precision": measures.average_precision(probability, values),
    }


def structure_record(truth_edges: BoolArray, structure: Structure) -> dict[str, Any]:
    """Scores of the graph as the method gives it; where it has probabilities, of their order and of a DAG as well."""
    record: dict[str, Any] = structure_scores(structure.edges, truth_edges).as_dict()
    if structure.probabilities is not None:
        record["edge_auroc"] = edge_auroc(structure.probabilities, truth_edges)
        record["edge_aupr"] = edge_aupr(structure.probabilities, truth_edges)
        dag_scores = structure_scores(_as_dag(structure.edges, structure.probabilities), truth_edges).as_dict()
        record |= {f"dag_{name}": value for name, value in dag_scores.items()}
    return record


def _as_dag(edges: BoolArray, probabilities: FloatArray) -> BoolArray:
    """Of the method's own edges, so that strengths that are no probabilities keep the method's own threshold."""
    return project_to_dag(np.where(edges, probabilities, -np.inf), threshold=-np.inf)
