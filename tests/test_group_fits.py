"""Exact fits of groups, whatever their kind."""

import numpy as np
import pytest

from core_helpers import group_wise, variable_wise
from visl.group_fits import GroupFits, counts
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS


def parents(n, *given):
    return np.isin(np.arange(n), given)


def test_counting_is_for_levels_alone():
    assert counts(variable_wise(BINARY, (CATEGORICAL, 3)))
    assert not counts(variable_wise(BINARY, CONTINUOUS))
    assert not counts(group_wise([BINARY, BINARY], [BINARY]))
    assert counts(variable_wise(*[BINARY] * 100))
    assert not counts(variable_wise(*[BINARY] * 101))


def mixed(n_rows=1000):
    """A level that two levels tell together, one that a number tells, and that number."""
    rng = np.random.default_rng(0)
    one, other = rng.random((2, n_rows)) < 0.5
    number = rng.normal(size=n_rows)
    told = rng.random(n_rows) < 1 / (1 + np.exp(-3 * number))
    values = np.stack([one, other, one ^ other, told, number], 1).astype(float)
    return GroupFits(values, variable_wise(BINARY, BINARY, BINARY, BINARY, CONTINUOUS))


def test_levels_are_told_by_counting_or_by_logits_whichever_is_better():
    fits = mixed()
    assert fits.possible.all()
    assert not fits.tabulated
    np.testing.assert_array_equal(fits.log_prob(2, parents(5, 0, 1)), fits.tables.log_prob(2, [0, 1]))
    assert fits.log_prob(2, parents(5, 0, 1)).mean() > -0.02
    assert fits.log_prob(3, parents(5, 4)).mean() > fits.log_prob(3, parents(5)).mean() + 0.2
    np.testing.assert_array_equal(fits.log_prob(3, parents(5, 0, 4)), fits.logits.log_prob(3, [0, 4]))


def test_a_gain_is_that_of_one_parent_beside_the_others():
    fits = mixed()
    for group, given, changed in ((2, (0, 1), 1), (3, (), 4), (4, (3,), 3), (4, (3,), 0)):
        sets = ({*given, changed}, {*given} - {changed})
        with_it, without = (fits.log_prob(group, parents(5, *some)) for some in sets)
        found = fits.gain_of_rows(group, parents(5, *given), changed)
        np.testing.assert_allclose(found, with_it - without, atol=1e-6)
        assert fits.gain(group, parents(5, *given), changed)[0] == pytest.approx(found.clip(-1, 1).mean())


def test_pairs_that_may_be_independent_are_told_by_the_share_of_false_ones():
    rng = np.random.default_rng(0)
    values = (rng.random((500, 4)) < 0.5).astype(float)
    values[:, 1] = values[:, 0]
    fits, asked = GroupFits(values, variable_wise(*[BINARY] * 4)), np.triu(np.ones((4, 4), bool), 1)
    assert np.argwhere(fits.dependent(asked, 0.05, n_pairs=6)).tolist() == [[0, 1]]
    # Of p-values .001, .02 and .9 among 6 pairs, .001 < .05 / 6 passes, .02 < .05 * 2 / 6 = .0167 does not.
    known = {(0, 1): 0.001, (0, 2): 0.02, (0, 3): 0.9}
    fits.tables.independence = lambda i, j: known[i, j]
    asked = np.zeros((4, 4), bool)
    asked[0, 1:] = True
    assert np.argwhere(fits.dependent(asked, 0.05, n_pairs=6)).tolist() == [[0, 1]]
    assert np.argwhere(fits.dependent(asked, 0.05, n_pairs=5)).tolist() == [[0, 1], [0, 2]]
