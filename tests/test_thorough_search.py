"""Sets of parents that tell something only together."""

import networkx as nx
import numpy as np
import pytest

from core_helpers import variable_wise
from visl.group_fits import GroupFits
from visl.schema import CONTINUOUS
from visl.search import Chance, GraphClimb, reaches
from visl.thorough_search import ThoroughSearch


def search_of(values, open_=None):
    fits = GroupFits((values - np.nanmean(values, 0)) / np.nanstd(values, 0), variable_wise(*[CONTINUOUS] * 4))
    open_ = ~np.eye(4, dtype=bool) if open_ is None else open_
    return ThoroughSearch(GraphClimb(fits.gain_of_rows, open_), fits)


def nearly_the_same(n_rows, seed=0):
    """0 and 1 differ by a little, which is what 2 tells; 3 is something else."""
    rng = np.random.default_rng(seed)
    both, differ, other = rng.normal(size=(3, n_rows))
    return np.stack([both, both + 0.05 * differ, differ + 0.3 * rng.normal(size=n_rows), other], 1)


ONLY_TO_2 = np.zeros((4, 4), bool)
ONLY_TO_2[[0, 1, 3], 2] = True
NONE = np.zeros((4, 4), bool)


@pytest.fixture(scope="module")
def values():
    return nearly_the_same(600)


def test_what_tells_only_together_is_found_from_above(values):
    search = search_of(values, ONLY_TO_2)
    assert not search.climb.climbed(NONE).any()  # each by itself is worth a nat: correlations of .05
    assert np.argwhere(search.settled(NONE)).tolist() == [[0, 2], [1, 2]]


def test_where_rows_are_too_few_no_set_is_looked_at(values):
    """Three parents need 45 rows that see them all, two 30."""
    hidden = values.copy()
    hidden[29:, 3], hidden[29:, 0] = np.nan, np.nan
    assert not search_of(hidden, ONLY_TO_2).settled(NONE).any()
    hidden[:200, 0] = values[:200, 0]  # then the two are enough, whatever 3 might be worth
    assert np.argwhere(search_of(hidden, ONLY_TO_2).settled(NONE)).tolist() == [[0, 2], [1, 2]]


def test_descendants_do_not_become_parents(values):
    search = search_of(values)
    start = NONE.copy()
    start[2, 0] = True  # closed, so that it stays
    search.climb.open_[2, 0] = False
    found = search.settled(start)
    assert found[2, 0]
    assert not reaches(found)[0, 2]


@pytest.mark.parametrize("seed", range(3))
def test_with_gaps_it_ends_in_an_acyclic_graph(seed):
    """Graphs are compared in the rows that see the parents of both, which may contradict each other."""
    values, rng = nearly_the_same(300, seed), np.random.default_rng(seed)
    values[rng.random(values.shape) < 0.4] = np.nan
    chances = [Chance.draw(300, 4, rng) for _ in range(3)]
    found = search_of(values).best(NONE, chances)
    assert nx.is_directed_acyclic_graph(nx.from_numpy_array(found, create_using=nx.DiGraph))


def test_a_wrong_parent_to_start_from_does_not_matter(values):
    wrong = NONE.copy()
    wrong[3, 2] = True
    search = search_of(values, ONLY_TO_2)
    np.testing.assert_array_equal(search.best(wrong, []), search.best(NONE, []))


def bend_and_difference(seed, n_rows=400):
    """2 -> 3, bent, together with the difference of 0 and 1, which tells little of 3 unless 2 is known."""
    rng = np.random.default_rng(seed)
    both, differ, cause, noise = rng.normal(size=(4, n_rows))
    effect = 4 * (cause + 0.5 * np.sign(cause) * cause**2) + differ + 0.3 * noise
    return np.stack([both, both + 0.05 * differ, cause, effect], 1)


BACKWARDS = np.zeros((4, 4), bool)
BACKWARDS[[0, 1, 3], 2] = True
APART = ~np.eye(4, dtype=bool)
APART[0, 1] = APART[1, 0] = False


@pytest.mark.parametrize("seed", range(3))
def test_an_edge_is_turned_with_the_parents_of_its_ends_where_they_must_move_together(seed):
    """3 -> 2 with 0 and 1 as further parents of 2. Turned alone it leaves 3 without the two, which neither single edges
    nor sets of 3's parents bring before."""
    search = search_of(bend_and_difference(seed), APART)
    np.testing.assert_array_equal(search.climb.climbed(BACKWARDS), BACKWARDS)
    np.testing.assert_array_equal(search.settled(BACKWARDS), BACKWARDS)
    assert np.argwhere(search.best(BACKWARDS, [])).tolist() == [[0, 3], [1, 3], [2, 3]]


def test_an_edge_that_is_known_is_not_turned():
    for known in ((3, 2), (2, 3)):  # required, or its reverse forbidden
        open_ = APART.copy()
        open_[known] = False
        assert search_of(bend_and_difference(0), open_).best(BACKWARDS, [])[3, 2]
