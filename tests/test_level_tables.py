"""Tables of levels given levels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visl.level_tables import LevelTables


def test_a_table_by_hand():
    """Rows (given, level): (0, 0), (0, 0), (0, 1), (1, 1), and one with a gap.

    The first: one other of two in its line has its level, which one of the three others has at all: share
    (1 + 1/2) / (3 + 1) = 3/8, so (1 + 3/8) / (2 + 1). The last is alone in its line: its share among all others, (1 +
    1/2) / 4.
    """
    values = np.array([[0.0, 0], [0, 0], [0, 1], [1, 1], [np.nan, 1]])
    found = np.exp(LevelTables(values, [2, 2]).log_prob(1, [0]))
    np.testing.assert_allclose(found, [1.375 / 3, 1.375 / 3, 0.375 / 3, 0.375, np.nan])


def test_without_given_columns_a_row_has_the_share_of_its_level():
    values = np.array([[0.0], [0.0], [1.0]])
    share = np.array([1.5 / 3, 1.5 / 3, 0.5 / 3])
    np.testing.assert_allclose(np.exp(LevelTables(values, [2]).log_prob(0, [])), (np.array([1, 1, 0]) + share) / 3)


def test_only_rows_that_see_all_columns_count():
    values = np.array([[0.0, 0, 0], [0, 0, np.nan], [0, 1, 0], [1, 1, 0]])
    tables = LevelTables(values, [2, 2, 1])
    found = tables.log_prob(1, [0], also_seen=[2])
    assert np.isnan(found).tolist() == [False, True, False, False]
    np.testing.assert_allclose(found[[0, 2, 3]], LevelTables(values[[0, 2, 3]], [2, 2, 1]).log_prob(1, [0]))
    assert np.isnan(LevelTables(np.full((3, 2), np.nan), [2, 2]).log_prob(0, [1])).all()


@given(st.integers(0, 1000), st.integers(1, 7))
def test_each_row_is_predicted_by_the_others(seed, n_given):
    """However many lines there are: one way to count, in plain loops."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, size=(12, 1 + n_given)).astype(float)
    found = LevelTables(values, [3] * (1 + n_given)).log_prob(0, range(1, 1 + n_given))
    for i, row in enumerate(values):
        others = np.delete(values, i, 0)
        share = ((others[:, 0] == row[0]).sum() + 0.5) / (len(others) + 1.5)
        line = others[(others[:, 1:] == row[1:]).all(1)]
        assert found[i] == pytest.approx(np.log(((line[:, 0] == row[0]).sum() + share) / (len(line) + 1)))


def test_a_column_that_says_nothing_is_worth_less_than_nothing_and_a_parent_its_information():
    rng = np.random.default_rng(0)
    cause, noise = rng.random((2, 4000)) < 0.5
    effect = cause ^ (rng.random(4000) < 0.1)
    values = np.stack([effect, cause, noise], 1).astype(float)
    tables = LevelTables(values, [2, 2, 2])
    alone, told, both = (tables.log_prob(0, given).mean() for given in ([], [1], [1, 2]))
    assert alone == pytest.approx(-np.log(2), abs=0.002)
    assert told == pytest.approx(0.9 * np.log(0.9) + 0.1 * np.log(0.1), abs=0.02)
    assert told - 0.002 < both < told
