"""A binary column whose strongest cause that is present decides how probable it is."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from visl.strongest_cause import StrongestCause, rounded


def effect(column, others, instead=None):
    return StrongestCause(np.asarray(column, float), rounded(np.asarray(others, float)), instead)


def bernoulli(present, rows):
    """Nats of so many rows of which so many have the effect, at their own rate."""
    p = present / rows
    return -sum(n * np.log(q) for n, q in ((present, p), (rows - present, 1 - p)) if n)


# Rows of causes 0 and 1: eight have both, ten only 0, twenty only 1, twelve neither. Of these 6, 7, 5 and 1 have the
# effect: of the rows of 0 13 of 18, of the others of 1 5 of 20.
ROWS = ([1, 1], [1, 0], [0, 1], [0, 0])
COUNTS, PRESENT = (8, 10, 20, 12), (6, 7, 5, 1)


def by_hand():
    others = np.repeat(np.array(ROWS, float), COUNTS, axis=0)
    column = np.concatenate([np.repeat([1.0, 0.0], [p, n - p]) for n, p in zip(COUNTS, PRESENT, strict=True)])
    return column, others


def simulated(n_rows, rates, leak=0.02, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    causes = (rng.random((n_rows, len(rates))) < share).astype(float)
    strength = np.maximum(leak, (causes * np.asarray(rates)).max(1, initial=0.0))
    return (rng.random(n_rows) < strength).astype(float), causes


def test_two_causes_by_hand():
    found = effect(*by_hand()).fit((0, 1))
    assert found.order.tolist() == [0, 1]
    np.testing.assert_allclose(found.weights, [1 / 12, 13 / 18, 5 / 20], rtol=1e-6)
    assert found.loss == pytest.approx(bernoulli(13, 18) + bernoulli(5, 20) + bernoulli(1, 12), abs=1e-5)


def test_causes_have_the_order_in_which_they_are_named():
    column, others = by_hand()
    found = effect(column, others[:, ::-1]).fit((0, 1))
    assert found.order.tolist() == [1, 0]
    np.testing.assert_allclose(found.weights, [1 / 12, 5 / 20, 13 / 18], rtol=1e-6)


def test_no_cause_is_the_share():
    column = effect(*by_hand())
    assert column.fit(()).weights.tolist() == pytest.approx([19 / 50])
    assert column.fit(()).loss == pytest.approx(bernoulli(19, 50), abs=1e-5)


def test_worth_by_hand():
    """Without cause 0 its rows go on to 1, if that is there, else to none; without 1 all its rows have none."""
    column = effect(*by_hand())
    with_both = bernoulli(13, 18) + bernoulli(5, 20) + bernoulli(1, 12)
    without = [bernoulli(11, 28) + bernoulli(8, 22) - with_both, bernoulli(13, 18) + bernoulli(6, 32) - with_both]
    np.testing.assert_allclose(column.worth((0, 1)), without, atol=1e-4)
    np.testing.assert_allclose(column._roughly((0, 1)), without, atol=1e-4)  # exact where nothing is uncertain
    # As worth, but what is left for the leak keeps the leak of before.
    kept = 5 * np.log((5 / 20) / (6 / 32)) + 15 * np.log((15 / 20) / (26 / 32))
    assert column.gain_of(1, (0,)) == pytest.approx(kept, abs=1e-4)


def test_what_is_known_of_a_row_enters_as_a_sum_over_what_may_be():
    """Of ten rows that have the cause for certain all have the effect, of ten without none; of ten others that have it
    with a probability of one half eight do, so that it must have been there in these: rates stay 1 and 0."""
    others = np.repeat([[1.0], [0.0], [0.5]], 10, axis=0)
    column = np.concatenate([np.ones(10), np.zeros(10), np.repeat([1.0, 0.0], [8, 2])])
    found = effect(column, others).fit((0,))
    assert found.weights[1] > 0.99
    assert found.weights[0] < 0.01
    assert found.loss == pytest.approx(10 * np.log(2), abs=0.1)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.lists(st.sampled_from([0.1, 0.4, 0.8]), min_size=1, max_size=3), st.booleans())
def test_the_loss_is_that_of_the_rates_and_near_the_least(seed, rates, uncertain):
    """For some order of the causes, as a general minimiser finds the rates."""
    column, causes = simulated(300, rates, leak=0.1, seed=seed)
    if uncertain:
        hidden = np.random.default_rng(seed).random(causes.shape) < 0.3
        causes = np.where(hidden, 0.3, causes)
    places = tuple(range(len(rates)))

    def present(rates_and_leak, order):
        left, result = np.ones(len(column)), np.zeros(len(column))
        for k in order:
            result += left * causes[:, k] * rates_and_leak[1 + k]
            left = left * (1 - causes[:, k])
        return result + left * rates_and_leak[0]

    def loss(rates_and_leak, order):
        p = present(rates_and_leak, order)
        return -np.log(np.where(column == 1, p, 1 - p)).sum()

    fitted = effect(column, causes)
    found = fitted.fit(places)
    assert found.loss == pytest.approx(loss(found.weights, found.order), abs=0.05)
    np.testing.assert_allclose(fitted.present_given(places, causes), present(found.weights, found.order), atol=1e-5)
    bounds = [(1e-4, 0.999), *[(1e-3, 0.999)] * len(rates)]
    start = np.full(1 + len(rates), 0.3)
    orders = list(itertools.permutations(places))
    of_its_order = minimize(loss, start, (found.order,), method="L-BFGS-B", bounds=bounds).fun
    assert found.loss <= of_its_order + 0.5
    assert found.loss <= min(minimize(loss, start, (o,), method="L-BFGS-B", bounds=bounds).fun for o in orders) + 5


def test_rows_with_a_gap_do_not_count():
    column, others = by_hand()
    more, rows = np.append(column, [np.nan] * 7), np.append(others, np.ones((7, 2)), axis=0)
    assert effect(more, rows).fit((0, 1)).loss == effect(column, others).fit((0, 1)).loss


def test_some_causes_have_values_of_this_effect_alone():
    column, others = by_hand()
    assert effect(column, np.zeros_like(others), {0: rounded(others[:, 0]), 1: rounded(others[:, 1])}).fit(
        (0, 1)
    ).loss == pytest.approx(effect(column, others).fit((0, 1)).loss)
    instead = effect(column, others, {1: np.zeros(len(column), np.float32)})
    assert instead.gain_of(1, (0,)) == 0
    assert instead.gain_of(0, ()) == pytest.approx(effect(column, others).gain_of(0, ()))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_true_causes_are_left_over(missing):
    """Beside them noise, and a copy of the first that is now and then wrong."""
    column, causes = simulated(3000, [0.9, 0.3, 0.6])
    rng = np.random.default_rng(1)
    copy = np.where(rng.random(3000) < 0.1, 1 - causes[:, 0], causes[:, 0])
    others = np.column_stack([copy, causes, rng.random((3000, 20)) < 0.3]).astype(float)
    others = np.where(rng.random(others.shape) < missing, others.mean(0), others)
    first = 1 if missing else 0  # a copy tells of what is not seen
    assert effect(column, others).eliminated(range(first, 24), np.full(24, 4.0)) == (1, 2, 3)
