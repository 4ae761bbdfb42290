import dataclasses
import math

import numpy as np
import pytest

from visl.errors import InputError
from visl.experiments.problem import Imputation, Problem, Structure, Truth
from visl.experiments.scores import imputation_scores, structure_record


def problem(kinds: tuple[str, ...], asked: list[int]) -> Problem:
    """asked: the column of each hidden cell, all of one row"""
    D = len(kinds)
    column = np.array(asked)
    return Problem(np.zeros((3, D)), np.zeros((1, D)), np.zeros_like(column), column, kinds, np.arange(D))


def graph(n_nodes: int, *edges: tuple[int, int]) -> np.ndarray:
    matrix = np.zeros((n_nodes, n_nodes), dtype=bool)
    for start, end in edges:
        matrix[start, end] = True
    return matrix


def test_continuous_cells_pooled_and_by_column():
    # Column 0: errors .3, .3, .3; column 1: error .1.
    mean, values = np.array([0.3, 0.4, 0.5, 0.6]), np.array([0.0, 0.1, 0.2, 0.5])
    asked = problem(("continuous", "continuous"), [0, 0, 0, 1])
    scores = imputation_scores(asked, Truth(values), Imputation(mean))
    # Column 0 has a spread of sqrt(.02 / 3); one cell has none.
    mixed = (0.3 / math.sqrt(0.02 / 3) + 0.1) / 2
    expected = {"rmse": math.sqrt((3 * 0.09 + 0.01) / 4), "rmse_by_column": 0.2, "mixed_error": mixed}
    assert scores == pytest.approx(expected)


def test_binary_cells():
    asked = problem(("binary", "binary"), [0, 0, 1, 1])
    scores = imputation_scores(asked, Truth(np.array([1.0, 0, 0, 1])), Imputation(np.array([0.9, 0.6, 0.5, 0.4])))
    # At .5 itself the answer is 0, as argmax has it. By score: 1 0 0 1; thresholds' precisions 1, 1/2, 1/3, 1/2.
    assert scores == pytest.approx(
        {
            "accuracy": 0.5,
            "auroc": 2 / 4,
            "aupr": 0.5 + 0.5 * (1 / 3 + 1 / 2) / 2,
            "average_precision": 0.5 + 0.5 * 1 / 2,
            "log_likelihood": np.mean(np.log([0.9, 0.4, 0.5, 0.4])),
            "mixed_error": 0.5,
            # Levels 1, 1, 0, 0 with .9, .6, .5, .6; the second and the last are wrong and share a bin.
            "level_calibration": (0.1 + 2 * 0.6 + 0.5) / 4,
        }
    )


def test_levels_are_calibrated_where_they_are_right_as_often_as_they_are_probable():
    """Of ten cells of three levels the likeliest has 7 in 10, and is right in seven or in all; numbers do not count."""
    asked = problem(("categorical", "continuous"), [0] * 10 + [1])

    def log_density(values):
        return np.log(np.where(values == 2, 0.7, 0.15))

    for n_right, error in ((7, 0.0), (10, 0.3)):
        values = np.array([2.0] * n_right + [0.0] * (10 - n_right) + [5.0])
        scores = imputation_scores(asked, Truth(values), Imputation(np.full(11, 2.0), log_density=log_density))
        assert scores["level_calibration"] == pytest.approx(error)


def test_mixed_cells_are_scored_apart():
    asked = problem(("continuous", "binary"), [0, 1, 1])
    scores = imputation_scores(asked, Truth(np.array([0.5, 1, 0])), Imputation(np.array([0.2, 0.7, 0.1])))
    assert scores["rmse"] == scores["rmse_by_column"] == pytest.approx(0.3)
    assert scores["accuracy"] == scores["auroc"] == 1
    assert scores["mixed_error"] == pytest.approx((0.3 + 0) / 2)
    # Of the binary half alone it would not be comparable.
    assert "log_likelihood" not in scores
    assert "coverage" not in scores


def test_levels_of_a_categorical_column_are_right_or_wrong():
    asked = problem(("categorical", "continuous"), [0, 0, 0, 0, 1, 1])
    truth, found = np.array([2.0, 0, 1, 1, 0.0, 2.0]), np.array([2.0, 1, 1, 1, 1.0, 1.0])
    # A quarter of the levels is wrong, the numbers are one deviation off.
    assert imputation_scores(asked, Truth(truth), Imputation(found))["mixed_error"] == pytest.approx((0.25 + 1) / 2)


def test_density_and_intervals():
    asked, values = problem(("continuous", "binary"), [0, 0, 1]), np.array([0.5, 0.9, 1.0])
    answer = Imputation(
        mean=np.array([0.5, 0.5, 0.5]),
        low=np.array([0.4, 0.4, np.nan]),
        high=np.array([0.6, 0.6, np.nan]),
        log_density=lambda cells: -3.0 * cells,
    )
    scores = imputation_scores(asked, Truth(values), answer)
    assert scores["log_likelihood"] == pytest.approx(-3 * 0.8)
    assert scores["coverage"] == 0.5  # the binary cell has no interval


def test_a_value_that_others_have_is_covered_in_part():
    """Numbers spread evenly over [0, 2]; levels with .3, .6 and .1.

    1 is in training and asked for: it stands for all from 0.75 to 1.5, which is inside. 2, too, stands for all from
    1.5 on, the upper quarter, of which .2 is inside. 0.05 alone is a point with .025 below it. Level 2 holds [.9, 1],
    half of which is inside.
    """
    asked, values = problem(("continuous", "ordinal", "categorical"), [0, 0, 0, 1, 2]), np.array([1.0, 2.0, 0.05, 2, 1])
    train = np.full((4, 3), np.nan)
    train[:, 0] = [0.5, 1.0, 2.0, 2.0]
    cumulative = np.array([0.3, 0.9, 1.0])

    def cdf(at):
        of_number = np.clip(at / 2, 0, 1)
        of_level = [cumulative[int(v)] if v >= 0 else 0.0 for v in np.floor(np.clip(at, -1, 2))]
        return np.where(asked.asked_column == 0, of_number, np.where(asked.asked_column == 1, of_level, np.nan))

    answer = Imputation(mean=values, cdf=cdf)
    scores = imputation_scores(dataclasses.replace(asked, train=train), Truth(values), answer)
    assert scores["shared_coverage"] == pytest.approx((1 + 0.2 / 0.25 + 0 + 0.5) / 4)


def test_every_cell_must_be_answered():
    asked = problem(("continuous",), [0, 0])
    with pytest.raises(InputError, match="1 of the asked cells"):
        imputation_scores(asked, Truth(np.zeros(2)), Imputation(np.array([0.1, np.nan])))
    with pytest.raises(InputError, match="give one for each"):
        imputation_scores(asked, Truth(np.zeros(2)), Imputation(np.zeros(3)))


def test_structure_without_probabilities():
    record = structure_record(graph(3, (0, 1), (1, 2)), Structure(graph(3, (0, 1), (2, 1))))
    assert record["adjacency_f1"] == 1
    assert record["orientation_f1"] == record["causal_accuracy"] == 0.5
    assert record["shd"] == 1
    assert not [name for name in record if name.startswith(("edge_", "dag_"))]


def test_structure_with_probabilities():
    # 0 -> 1 and 1 -> 0 are both above the threshold; the DAG keeps the more probable one, which is the true one.
    probabilities = np.array([[0, 0.9, 0.1], [0.7, 0, 0.8], [0.2, 0.3, 0]])
    record = structure_record(graph(3, (0, 1), (1, 2)), Structure(probabilities > 0.5, probabilities))
    assert record["shd"] == 1
    assert record["orientation_recall"] == 0.5
    assert record["edge_auroc"] == record["edge_aupr"] == 1
    assert record["dag_shd"] == 0
    assert record["dag_orientation_f1"] == record["dag_causal_accuracy"] == 1


def test_strengths_keep_the_method_s_own_threshold():
    # Strengths around 3, and negative ones: only what the method calls an edge can be in the DAG.
    strengths = np.array([[0, 4.0, 2.0], [3.0, 0, -1.0], [2.5, 1.0, 0]])
    edges = graph(3, (0, 1), (1, 0), (1, 2))
    record = structure_record(graph(3, (0, 1), (1, 2)), Structure(edges, strengths))
    assert record["dag_shd"] == 0
