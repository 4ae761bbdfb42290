"""The paper's test protocol: what a method sees, what it is scored against."""

import numpy as np
import pytest

from visl.experiments import find_experiment, gaps, synthetic
from visl.experiments.protocol import hide_test_cells, scale_by_training, split_rows, with_training_gaps
from visl.schema import BINARY, CONTINUOUS

NAN = np.nan


def table(seed, rows=400, columns=6):
    return np.random.default_rng(seed).normal(3, 2, (rows, columns))


def by_name(experiment):
    """The first data set of each label, as in a small trial."""
    return {data_set.label: data_set for data_set in experiment.data_sets(True)}


@pytest.mark.parametrize("kind", [CONTINUOUS, BINARY])
def test_hidden_cells_are_asked_in_the_order_of_their_true_values(kind):
    train, test = (table(0) > 3).astype(float), (table(1) > 3).astype(float)
    test[5, 2] = NAN  # cannot be asked
    problem, truth = hide_test_cells(train, test, np.random.default_rng(0), kind=kind)
    hidden = np.isnan(problem.test)
    assert hidden[5, 2]
    hidden[5, 2] = False
    assert np.argwhere(hidden).tolist() == np.stack([problem.asked_row, problem.asked_column], axis=1).tolist()
    assert truth.values.tolist() == test[hidden].tolist()
    assert problem.test[~hidden & ~np.isnan(test)].tolist() == test[~hidden & ~np.isnan(test)].tolist()
    assert abs(hidden.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / hidden.size)
    assert problem.kinds == (kind,) * 6


def test_hidden_values_are_nowhere_in_the_problem():
    problem, truth = hide_test_cells(table(0), table(1), np.random.default_rng(0), kind=CONTINUOUS)
    seen = np.concatenate([problem.train.ravel(), problem.test.ravel()])
    assert len(truth.values) > 600
    assert not np.isin(truth.values, seen).any()


def test_what_is_shown_can_be_decided_elsewhere():
    test, shown = np.arange(4.0).reshape(2, 2), np.array([[True, False], [False, True]])
    test[1, 0] = NAN
    problem, truth = hide_test_cells(
        np.array([[0, 0], [4, 2.0]]), test, np.random.default_rng(0), kind=CONTINUOUS, shown=shown
    )
    assert (problem.asked_row.tolist(), problem.asked_column.tolist(), truth.values.tolist()) == ([0], [1], [0.5])
    assert problem.test[0, 0] == 0
    assert problem.test[1, 1] == 1.5


def test_scaling_is_by_training_rows_alone():
    train = np.array([[1.0, 5, 7], [3, NAN, 7], [2, 9, 7]])
    test = np.array([[5.0, 1, 8], [NAN, 7, 7]])
    scaled, as_trained = scale_by_training(train, test)
    assert scaled == pytest.approx(np.array([[0, 0, 0], [1, NAN, 0], [0.5, 1, 0]]), nan_ok=True)
    assert as_trained == pytest.approx(np.array([[2, -1, 1], [NAN, 0.5, 0]]), nan_ok=True)


def test_rows_are_split_once_each():
    train, test = split_rows(10, 7, np.random.default_rng(0))
    assert len(train) == 7
    assert sorted([*train, *test]) == list(range(10))


def test_gaps_completely_at_random():
    train, shown = with_training_gaps(table(0), table(1), "MCAR", np.random.default_rng(0))
    missing = np.concatenate([np.isnan(train), ~shown])
    assert abs(missing.mean() - 0.3) < 0.025
    assert (abs(missing.mean(axis=0) - 0.3) < 0.07).all()


def test_gaps_at_random_have_drivers_that_are_never_missing():
    train, shown = with_training_gaps(table(0), table(1), "MAR", np.random.default_rng(0))
    missing = np.concatenate([np.isnan(train), ~shown])
    assert abs(missing.mean() - 0.3) < 0.03
    drivers = ~missing.any(axis=0)
    assert drivers.sum() == 2  # 30 % of six columns
    assert (abs(missing[:, ~drivers].mean(axis=0) - 0.3 * 6 / 4) < 0.09).all()
    # The gaps of a column go with the drivers, in both parts: their means differ between seen and missing rows.
    values = np.concatenate([table(0), table(1)])[:, drivers]
    for column in np.flatnonzero(~drivers):
        without, with_it = values[missing[:, column]].mean(axis=0), values[~missing[:, column]].mean(axis=0)
        assert np.abs(without - with_it).max() > 0.4


@pytest.mark.parametrize("label", ["MCAR", "MAR"])
def test_the_same_gaps_for_the_same_seed(label):
    data_set = by_name(gaps)[label]
    (first, truth), (second, again) = (gaps.load(data_set, None) for _ in range(2))
    assert np.array_equal(first.train, second.train, equal_nan=True)
    assert np.array_equal(first.test, second.test, equal_nan=True)
    assert np.array_equal(truth.values, again.values)
    other, _ = gaps.load(by_name(gaps)[{"MCAR": "MAR", "MAR": "MCAR"}[label]], None)
    assert not np.array_equal(np.isnan(first.train), np.isnan(other.train))


def test_gaps_are_made_in_the_synthetic_data_sets():
    """The scale is that of the training cells that are left: elsewhere the tables agree up to it."""
    complete, truth = synthetic.load(by_name(synthetic)["D=5"], None)
    for data_set in by_name(gaps).values():
        problem, of_gaps = gaps.load(data_set, None)
        assert np.array_equal(truth.edges, of_gaps.edges)
        seen = ~np.isnan(problem.train)
        for j in range(5):
            ours, theirs = problem.train[seen[:, j], j], complete.train[seen[:, j], j]
            assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1)
            assert (ours.min(), ours.max()) == (0, 1)


def test_scaling_hides_nothing():
    experiment = find_experiment("scaling")
    problem, truth = experiment.load(experiment.data_sets(True)[0], None)
    assert problem.train.shape == (120, 4)
    assert problem.test.shape == (0, 4)
    assert len(truth.values) == 0
    assert np.nanmin(problem.train, axis=0).tolist() == [0] * 4
    assert np.nanmax(problem.train, axis=0).tolist() == [1] * 4
