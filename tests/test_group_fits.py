"""Exact fits of groups, whatever their kind."""

import numpy as np
import pytest

from core_helpers import group_wise, variable_wise
from visl.group_fits import GroupFits, counts, fits_find_graph
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS


def parents(n, *given):
    return np.isin(np.arange(n), given)


def test_counting_is_for_levels_alone():
    assert counts(variable_wise(BINARY, (CATEGORICAL, 3)))
    assert not counts(variable_wise(BINARY, CONTINUOUS))
    assert not counts(group_wise([BINARY, BINARY], [BINARY]))
    assert counts(variable_wise(*[BINARY] * 1000))
    assert not counts(variable_wise(*[BINARY] * 1001))


def test_fits_find_the_graph_of_single_columns_of_any_kind_up_to_a_thousand():
    assert fits_find_graph(variable_wise(BINARY, (CATEGORICAL, 3), CONTINUOUS))
    assert not fits_find_graph(group_wise([BINARY, CONTINUOUS], [BINARY]))
    assert fits_find_graph(variable_wise(*[CONTINUOUS] * 1000))
    assert not fits_find_graph(variable_wise(*[CONTINUOUS] * 1001))


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
