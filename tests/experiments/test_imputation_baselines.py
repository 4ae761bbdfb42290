import dataclasses

import numpy as np
import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import BayesianRidge

from visl.experiments.methods import imputation
from visl.experiments.methods.imputation import boosted, chained, knn, majority, mean, mice, missforest
from visl.experiments.problem import Problem, Run

NAN = np.nan
ALL = [majority, mean, mice, missforest, knn, boosted]


def problem_of(train, test, kinds="continuous"):
    """Every gap of the test rows is asked."""
    train, test = np.asarray(train, float), np.asarray(test, float)
    rows, columns = np.nonzero(np.isnan(test))
    D = train.shape[1]
    kinds = (kinds,) * D if isinstance(kinds, str) else kinds
    return Problem(train, test, rows, columns, kinds, np.arange(D))


def curved(rng, n_train=400, n_test=100):
    """The second column is 4 (x - .5)^2, of which a line sees nothing; each test row lacks it."""
    x = rng.random(n_train + n_test)
    table = np.stack([x, 4 * (x - 0.5) ** 2, rng.random(len(x))], axis=1)
    test, truth = table[n_train:].copy(), table[n_train:, 1].copy()
    test[:, 1] = NAN
    return problem_of(table[:n_train], test), truth


def rmse(answer, truth):
    return np.sqrt(np.mean((answer.imputation.mean - truth) ** 2))


def test_mean_and_its_density_by_hand():
    problem = problem_of([[0, 1], [0.5, NAN], [1, 1], [NAN, 0]], [[NAN, NAN]], ("continuous", "binary"))
    found = mean(problem, Run()).imputation
    assert found.mean == pytest.approx([0.5, 2 / 3])
    # Variance of 0, .5, 1: 1/6. The density at the mean is 1 / sqrt(2 pi / 6); P(1) = 2/3, P(0) = 1/3.
    assert found.log_density(np.array([0.5, 1])) == pytest.approx([-0.5 * np.log(np.pi / 3), np.log(2 / 3)], abs=1e-6)
    assert found.log_density(np.array([0.5, 0]))[1] == pytest.approx(np.log(1 / 3), abs=1e-6)


def test_majority_by_hand():
    train = [[0.2, 0, 0.9], [0.7, 1, 0.3], [0.7, 1, NAN], [NAN, NAN, 0.5]]
    found = majority(problem_of(train, [[NAN] * 3], ("continuous", "binary", "continuous")), Run())
    assert found.imputation.mean.tolist() == [0.7, 1.0, 0.3]  # the third column's values all differ: the smallest


@pytest.mark.parametrize("method", ALL)
def test_empty_and_constant_columns_keep_their_place(method):
    rng = np.random.default_rng(0)
    train = rng.random((40, 4))
    train[:, 1], train[:, 2] = NAN, 0.25
    test = np.array([[0.5, NAN, NAN, 0.5], [NAN, 0.4, 0.25, NAN]])
    found = method(problem_of(train, test), Run()).imputation.mean
    assert found[:2] == pytest.approx([0.5, 0.25])
    assert np.isfinite(found).all()
    assert found.shape == (4,)


@pytest.mark.parametrize("method", ALL)
def test_same_seed_same_answer_and_probabilities_in_range(method):
    rng = np.random.default_rng(1)
    train = (rng.random((40, 4)) < 0.5).astype(float)
    train[:, 3] = train[:, 0]
    train[rng.random(train.shape) < 0.1] = NAN
    problem = problem_of(train, [[1, NAN, 0, NAN], [0, 1, NAN, NAN]], "binary")
    first, second = method(problem, Run(seed=3)), method(problem, Run(seed=3))
    assert np.array_equal(first.imputation.mean, second.imputation.mean)
    assert ((first.imputation.mean >= 0) & (first.imputation.mean <= 1)).all()
    assert first.settings


@pytest.mark.parametrize("train_gaps", [0.0, 0.2])
def test_mice_recovers_a_linear_relation(train_gaps):
    rng = np.random.default_rng(2)
    table = rng.random((300, 3))
    table[:, 2] = 0.3 * table[:, 0] + 0.6 * table[:, 1] + 0.05
    train, test = table[:250].copy(), table[250:].copy()
    train[rng.random(train.shape) < train_gaps] = NAN
    test[:, 2] = NAN
    found = mice(problem_of(train, test), Run()).imputation.mean
    assert found == pytest.approx(table[250:, 2], abs=0.02 if train_gaps else 1e-4)


def test_complete_training_rows_do_not_end_the_rounds():
    """A chain of near copies, in which the gap's neighbour is a gap as well: one round sees only column means."""
    rng = np.random.default_rng(3)
    table = rng.random((400, 1)) + 0.01 * rng.standard_normal((400, 5))
    train, test, truth = table[:300], table[300:].copy(), table[300:, 1:].ravel()
    test[:, 1:] = NAN
    problem = problem_of(train, test)
    ours = rmse(mice(problem, Run()), truth)
    library = IterativeImputer(BayesianRidge()).fit(train).transform(test)[:, 1:].ravel()
    assert ours < 0.2 * rmse(mean(problem, Run()), truth)
    assert ours < 0.5 * np.sqrt(np.mean((library - truth) ** 2))


@pytest.mark.filterwarnings("ignore:.*Early stopping criterion not reached")
def test_chained_equations_are_those_of_the_library():
    rng = np.random.default_rng(4)
    table = rng.multivariate_normal(np.zeros(4), 0.5 + 0.5 * np.eye(4), 120)
    table[rng.random(table.shape) < 0.2] = NAN
    problem = problem_of(table[:80], table[80:])
    library = IterativeImputer(BayesianRidge(), max_iter=2, tol=0).fit(problem.train).transform(problem.test)
    assert chained(problem, BayesianRidge(), rounds=2, tolerance=0) == pytest.approx(library, abs=1e-9)


@pytest.mark.parametrize("method", [knn, missforest, boosted])
def test_nonlinear_relations_beat_the_mean(method):
    problem, truth = curved(np.random.default_rng(5))
    assert rmse(method(problem, Run()), truth) < 0.6 * rmse(mean(problem, Run()), truth)


def test_wide_tables_use_the_most_correlated_columns(monkeypatch):
    rng = np.random.default_rng(6)
    table = rng.random((200, 8))
    table[:, 7] = table[:, 4]
    test = table[150:].copy()
    test[:, 7] = NAN
    monkeypatch.setattr(imputation, "MOST_PREDICTORS", 2)
    assert [4 in found for found in imputation._predictors(table)][7]
    assert all(len(found) == 2 for found in imputation._predictors(table))
    assert mice(problem_of(table[:150], test), Run()).imputation.mean == pytest.approx(table[150:, 4], abs=1e-3)


def test_fewer_rounds_in_a_small_trial():
    problem, _ = curved(np.random.default_rng(7), 60, 10)
    assert mice(problem, Run(epochs=1)).settings["rounds"] == 1
    assert mice(problem, Run(epochs=300)).settings["rounds"] == imputation.ROUNDS


def test_nothing_asked_nothing_answered():
    problem, _ = curved(np.random.default_rng(8), 30, 5)
    complete = dataclasses.replace(
        problem, test=problem.train[:5], asked_row=np.zeros(0, int), asked_column=np.zeros(0, int)
    )
    for method in ALL:
        assert len(method(complete, Run()).imputation.mean) == 0
