"""Real tables of numbers and levels, in tiny made-up ones of the same layout; categories for methods of numbers."""

import numpy as np
import pandas as pd
import pytest

from experiment_helpers import write_mixed, write_sachs
from visl.errors import InputError
from visl.experiments import mixed, sachs
from visl.experiments.methods.imputation import knn, mean, mice
from visl.experiments.methods.indicators import with_indicators
from visl.experiments.problem import Answer, Imputation, Problem, Run

NAN = np.nan


def test_kinds_and_codes_by_hand():
    frame = pd.DataFrame(
        {
            "count": [3, 3, 5],
            "flag": [1.0, NAN, 0.0],
            "answer": ["yes", "no", None],
            "colour": ["red", "blue", "green"],
            "constant": [2, 2, 2],
        }
    )
    values, kinds, n_levels = mixed.encode(frame)
    assert kinds == ("continuous", "binary", "binary", "categorical")
    assert n_levels == (0, 0, 0, 3)
    expected = [[3, 1, 1, 2], [3, NAN, 0, 0], [5, 0, NAN, 1]]  # levels in the order of the alphabet
    np.testing.assert_array_equal(values, expected)


def test_a_column_of_names_is_left_out():
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(51)], "x": np.arange(51.0)})
    assert mixed.encode(frame)[1] == ("continuous",)
    assert mixed.encode(frame[:50])[1] == ("categorical", "continuous")


def test_cells_are_hidden_in_place_and_seeds_differ(tmp_path):
    write_mixed(tmp_path / "tabular")
    first, second = (data_set for data_set in mixed.data_sets(False)[:2])
    problem, truth = mixed.load(first, tmp_path)
    assert problem.kinds == ("continuous", "continuous", "binary", "categorical")
    assert problem.test is problem.train
    assert np.isnan(problem.train[problem.asked_row, problem.asked_column]).all()
    n_observed = 60 * 4 - 6
    assert len(truth.values) + (~np.isnan(problem.train)).sum() == n_observed  # the table's own gaps are not asked for
    assert 0.2 < len(truth.values) / n_observed < 0.4
    assert (np.nanmin(problem.train[:, 0]), np.nanmax(problem.train[:, 0])) == (0, 1)
    again, _ = mixed.load(first, tmp_path)
    np.testing.assert_array_equal(problem.asked_row, again.asked_row)
    other, _ = mixed.load(second, tmp_path)
    assert problem.asked_row.tolist() != other.asked_row.tolist()


def test_a_broken_file_is_named(tmp_path):
    write_mixed(tmp_path / "tabular")
    (tmp_path / "tabular" / "yacht.csv.gz").write_text("no archive")
    with pytest.raises(InputError, match=r"yacht\.csv\.gz does not hold a table .*download it again"):
        mixed.load(mixed.data_sets(False)[0], tmp_path)


def test_sachs_by_hand(tmp_path):
    write_sachs(tmp_path / "sachs")
    problem, truth = sachs.load(sachs.data_sets(False)[0], tmp_path)
    assert problem.train.shape == (150, 3)
    assert not len(truth.values)
    assert truth.edges.tolist() == [[False, True, False], [False, False, True], [False, False, False]]


# -- categories for methods of numbers


def problem_of(train, test, kinds, n_levels):
    rows, columns = np.nonzero(np.isnan(test))
    return Problem(np.array(train), np.array(test), rows, columns, kinds, np.arange(len(kinds)), n_levels)


def test_indicators_by_hand():
    seen = {}

    @with_indicators
    def method(problem, run):
        seen["problem"] = problem
        # Of the first cell the levels' shares are .2, .5 and .3; the second is a number.
        return Answer(Imputation(np.array([0.2, 0.5, 0.3, 0.7])))

    asked = problem_of([[0.5, 2.0], [NAN, 0.0]], [[0.1, NAN], [NAN, 1.0]], ("continuous", "categorical"), (0, 3))
    answer = method(asked, Run())
    assert answer.imputation.mean.tolist() == [1, 0.7]
    wide = seen["problem"]
    np.testing.assert_array_equal(wide.train, [[0.5, 0, 0, 1], [NAN, 1, 0, 0]])
    np.testing.assert_array_equal(wide.test, [[0.1, NAN, NAN, NAN], [NAN, 0, 1, 0]])
    assert wide.kinds == ("continuous", "binary", "binary", "binary")
    assert list(zip(wide.asked_row.tolist(), wide.asked_column.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
    ]


@pytest.mark.parametrize("method", [knn, mice])
def test_a_category_that_follows_from_a_number_is_found(method):
    level = np.repeat([0.0, 1.0, 2.0], 20)
    train = np.stack([level / 2, level], axis=1)
    test = np.array([[0.0, NAN], [0.5, NAN], [1.0, NAN]])
    answer = method(problem_of(train, test, ("continuous", "categorical"), (0, 3)), Run())
    found = answer.imputation.mean
    assert found[[0, 2]].tolist() == [0, 2]
    assert method is mice or found[1] == 1  # a line cannot rise and fall again


def test_the_most_frequent_level_and_the_mean():
    train = [[0.1, 2.0], [0.5, 2.0], [NAN, 0.0]]
    answer = mean(problem_of(train, [[NAN, NAN]], ("continuous", "categorical"), (0, 3)), Run())
    assert answer.imputation.mean.tolist() == [0.3, 2]
