"""A binary column as a noisy-or of others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from visl.noisy_or import NoisyOr


def ten_and_ten():
    """The cause is there in ten of twenty rows; the effect in 5 of these, and in 1 of the others."""
    cause = np.repeat([1.0, 0.0], 10)
    effect = np.concatenate([np.repeat([1.0, 0.0], 5), np.repeat([1.0, 0.0], [1, 9])])
    return effect, cause[:, None]


def rare_causes(n_rows, weights, seed=0, share=0.2, leak=0.02):
    rng = np.random.default_rng(seed)
    causes = (rng.random((n_rows, len(weights))) < share).astype(float)
    return (rng.random(n_rows) < 1 - np.exp(-leak - causes @ np.asarray(weights))).astype(float), causes


def test_one_cause_by_hand():
    """P(absent) is 9/10 without the cause and 5/10 with it: so -log(.9) and log(.9 / .5)."""
    loss, weights, _ = NoisyOr(*ten_and_ten()).fit((0,))
    np.testing.assert_allclose(weights, [-np.log(0.9), np.log(1.8)], rtol=1e-2)
    assert loss == pytest.approx(-(10 * np.log(0.5) + np.log(0.1) + 9 * np.log(0.9)), abs=1e-3)


def test_no_cause_is_the_share():
    effect, others = ten_and_ten()
    loss, weights, _ = NoisyOr(effect, others).fit(())
    assert weights[0] == pytest.approx(-np.log(14 / 20), rel=1e-2)
    assert loss == pytest.approx(-(6 * np.log(0.3) + 14 * np.log(0.7)), abs=1e-3)


def test_what_prevents_is_no_cause():
    effect, others = ten_and_ten()
    against = NoisyOr(effect, 1 - others)
    assert against.fit((0,)).weights[1] == pytest.approx(0, abs=1e-6)
    assert against.eliminated([0], np.zeros(1)) == ()
    assert against.gain_of(0, ()) == 0


def test_rows_with_a_gap_do_not_count():
    effect, others = ten_and_ten()
    more, rows = np.append(effect, [np.nan] * 7), np.append(others, np.ones((7, 1)), axis=0)
    assert NoisyOr(more, rows).fit((0,)).loss == NoisyOr(effect, others).fit((0,)).loss


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.lists(st.sampled_from([0.0, 0.3, 1.0, 3.0]), min_size=1, max_size=5))
def test_the_loss_is_the_least(seed, weights):
    """As a general minimiser finds it."""
    effect, causes = rare_causes(200, weights, seed, share=0.3, leak=0.1)
    X, present = np.concatenate([np.ones((200, 1)), causes], axis=1), effect == 1

    def loss(w):
        hazard = X @ w
        return hazard[~present].sum() - np.log(-np.expm1(-hazard[present])).sum()

    bounds = [(1e-4, 20.0), *[(0.0, 20.0)] * len(weights)]
    least = minimize(loss, np.full(X.shape[1], 0.3), method="L-BFGS-B", bounds=bounds).fun
    found = NoisyOr(effect, causes).fit(tuple(range(len(weights))))
    assert found.loss == pytest.approx(loss(found.weights), abs=1e-6)
    assert found.loss <= least + 0.05


def test_worth_is_what_is_lost_and_a_first_glance_is_near():
    effect, causes = rare_causes(2000, [1.0, 0.3, 0.0])
    column = NoisyOr(effect, causes)
    worth = column.worth((0, 1, 2))
    for place in range(3):
        rest = tuple(k for k in range(3) if k != place)
        assert worth[place] == pytest.approx(
            NoisyOr(effect, causes).fit(rest).loss - column.fit((0, 1, 2)).loss, abs=0.01
        )
    assert worth[0] > worth[1] > 20 > 3 > worth[2]
    assert column.worth((0, 1, 2), [1]) == pytest.approx(worth[1])
    # With the two others' weights as they are, adding the cause again gains no more than fitting all.
    assert 0 < column.gain_of(1, (0, 2)) <= worth[1] + 1e-3


def test_true_causes_are_left_over():
    """Beside them noise, and a copy of the first that is now and then wrong."""
    effect, causes = rare_causes(2000, [1.0, 0.5, 1.5])
    rng = np.random.default_rng(1)
    copy = np.where(rng.random(2000) < 0.1, 1 - causes[:, 0], causes[:, 0])
    others = np.column_stack([copy, causes, rng.random((2000, 20)) < 0.2]).astype(float)
    column = NoisyOr(effect, others)
    assert column.eliminated(range(24), np.full(24, 4.0)) == (1, 2, 3)


def test_a_cost_is_each_candidates_own():
    effect, causes = rare_causes(2000, [1.0, 0.5])
    column = NoisyOr(effect, causes)
    assert column.eliminated([0, 1], np.array([4.0, 4.0])) == (0, 1)
    assert column.eliminated([0, 1], np.array([np.inf, 4.0])) == (1,)
    assert column.eliminated([0, 1], np.array([4.0, np.inf])) == (0,)
    assert column.eliminated([0, 1], np.array([np.inf, -np.inf])) == (1,)
