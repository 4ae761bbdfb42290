"""Which pairs of columns go together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from visl.screening import dependence, strongest_pairs


def test_levels_by_hand():
    """Ten rows each of (0, 0) and (1, 1): 20 log 2 nats above independence, less half for a degree of freedom."""
    values = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    assert dependence(values, values, np.array([False, False]))[0, 1] == pytest.approx(20 * np.log(2) - 0.5)


def test_it_is_half_of_g_in_the_rows_that_see_both():
    rng = np.random.default_rng(0)
    values = rng.integers(0, [3, 4], (200, 2)).astype(float)
    values[:50, 0], values[30:70, 1] = np.nan, np.nan
    both = values[~np.isnan(values).any(1)].astype(int)
    counts = np.zeros((3, 4))
    np.add.at(counts, tuple(both.T), 1)
    g = chi2_contingency(counts, correction=False, lambda_="log-likelihood").statistic
    assert dependence(values, values, np.array([False, False]))[0, 1] == pytest.approx(g / 2 - 0.5 * 6)


def test_a_wave_without_correlation_goes_before_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 6))
    x[:, 1] = np.cos(2 * x[:, 0]) + 0.1 * x[:, 1]
    x[:, 3] = x[:, 2] > 0
    number = np.array([True, True, True, False, True, True])
    found = strongest_pairs(x, x, number, 1)
    assert found[0, 1]
    assert found[2, 3]
    assert found.any(0).all()  # everyone has a best one


@given(st.integers(2, 7), st.integers(1, 8), st.integers(0, 100))
def test_pairs_are_symmetric_and_follow_the_columns(n, most, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, n)) + rng.normal(size=(60, 1))
    values[rng.random(values.shape) < 0.2] = np.nan
    number, order = np.ones(n, bool), rng.permutation(n)
    found = strongest_pairs(values, values, number, most)
    assert not found.diagonal().any()
    assert (found == found.T).all()
    assert (found.sum(0) >= min(most, n - 1)).all()
    np.testing.assert_array_equal(
        strongest_pairs(values[:, order], values[:, order], number, most), found[np.ix_(order, order)]
    )
    np.testing.assert_array_equal(
        strongest_pairs(np.exp(values), np.exp(values), number, most), found
    )  # bins of equally many rows


def test_a_weak_parent_is_seen_in_what_a_strong_one_leaves():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 4))
    x[:, 2] = x[:, 0] + 0.1 * rng.normal(size=2000)  # nearly a copy of the strong one
    weak = 0.2 * x[:, 1] ** 2
    x[:, 3] = 3 * x[:, 0] + weak
    left = x.copy()
    left[:, 3] = weak
    number = np.ones(4, bool)
    by_itself = dependence(x, x, number)[:, 3]
    assert by_itself[1] < by_itself[2]
    of_what_is_left = strongest_pairs(x, left, number, 1)
    assert of_what_is_left[:, 3].tolist() == [False, True, False, False]


def test_a_column_without_a_value_goes_with_nothing():
    values = np.column_stack([np.full(30, np.nan), np.arange(30.0), np.arange(30.0)])
    found = dependence(values, values, np.ones(3, bool))
    assert found[0, 1] == found[0, 2] == 0.0
    assert found[1, 2] > 0
