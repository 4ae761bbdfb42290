"""Logits that are sums of smooth functions."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from visl import additive_logits
from visl.additive_logits import AdditiveLogits, log_prob_of_others


def made_up(n_rows=1500, n_levels=3, seed=0):
    """0 is a level told by a wave of 1 and by the level of 2; 3 says nothing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 4))
    x[:, 2] = rng.integers(0, 2, n_rows)
    score = 2 * np.sin(2 * x[:, 1]) + 2 * x[:, 2] - 1
    logits = score[:, None] * np.arange(n_levels)
    x[:, 0] = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    return x, np.log(softmax(logits, 1)[np.arange(n_rows), x[:, 0].astype(int)])


@pytest.mark.parametrize("n_levels", [2, 3])
def test_each_row_is_predicted_by_a_regression_on_the_others(n_levels):
    rng = np.random.default_rng(0)
    X, level = rng.normal(size=(40, 2)), rng.integers(0, n_levels, 40)
    with_constant, penalty = np.column_stack([np.ones(40), X]), np.diag([0.0, 2.0, 2.0])
    found = log_prob_of_others(with_constant, level, n_levels, penalty)
    # Binary: scikit-learn's penalty of 1/(2C) is ours. With more levels its logits are not relative to the first.
    if n_levels == 2:
        for i in range(40):
            others = np.arange(40) != i
            model = LogisticRegression(C=0.5, tol=1e-9).fit(X[others], level[others])
            assert found[i] == pytest.approx(model.predict_log_proba(X[[i]])[0, level[i]], abs=0.02)
    assert (found < 0).all()
    assert log_prob_of_others(with_constant, level, n_levels, 1e9 * penalty).mean() == pytest.approx(
        np.mean([np.log(((level == k).sum() - 1) / 39) for k in level]), abs=3e-3
    )  # without slopes: shares of the others


@pytest.mark.parametrize("n_levels", [2, 3])
def test_functions_are_found(n_levels):
    values, truth = made_up(n_levels=n_levels)
    logits = AdditiveLogits(values, [n_levels, 0, 2, 0])
    found = logits.log_prob(0, [1, 2])
    assert found.mean() == pytest.approx(truth.mean(), abs=0.03)
    assert found.mean() - logits.log_prob(0, [1]).mean() > 0.05
    assert found.mean() - logits.log_prob(0, [2]).mean() > 0.1
    assert -0.02 < logits.log_prob(0, [1, 2, 3]).mean() - found.mean() < 0.002


def test_many_levels_are_told_as_well_logit_by_logit(monkeypatch):
    values, _ = made_up(n_levels=8)
    one_by_one = AdditiveLogits(values, [8, 0, 2, 0]).log_prob(0, [1, 2])
    monkeypatch.setattr(additive_logits, "TOGETHER", 7)
    together = AdditiveLogits(values, [8, 0, 2, 0]).log_prob(0, [1, 2])
    assert not np.array_equal(one_by_one, together)
    assert np.median(np.abs(one_by_one - together)) < 0.01
    assert one_by_one.mean() == pytest.approx(together.mean(), abs=0.002)


def test_only_rows_that_see_all_columns_count():
    values, _ = made_up(400)
    values[:100, 3] = np.nan
    some = AdditiveLogits(values, [3, 0, 2, 0]).log_prob(0, [2], also_seen=[3])
    assert np.isnan(some).tolist() == [True] * 100 + [False] * 300
    assert (some[100:] != AdditiveLogits(values, [3, 0, 2, 0]).log_prob(0, [2])[100:]).all()


def test_a_level_that_is_told_with_certainty_has_finite_logits():
    x = np.linspace(-1, 1, 300)
    values = np.column_stack([x > 0, x])
    found = AdditiveLogits(values, [2, 0]).log_prob(0, [1])
    assert np.isfinite(found).all()
    assert np.exp(found.mean()) > 0.95
