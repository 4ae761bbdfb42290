"""Climbing to the graph in which rows are predicted best."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visl.additive import AdditiveFits
from visl.densities import log_densities
from visl.search import LEAST_STEP, MOST_FLIPS, PARENT_COST, Chance, GraphClimb, reaches


def graph_of(n, *edges):
    graph = np.zeros((n, n), bool)
    for i, j in edges:
        graph[i, j] = True
    return graph


def from_scores(score, n, n_rows=2):
    """A climb on made-up totals of every group given its parents, spread evenly over the rows."""

    def gain(group, parents, changed):
        with_it, without = parents.copy(), parents.copy()
        with_it[changed], without[changed] = True, False
        return np.full(n_rows, (score(group, with_it) - score(group, without)) / n_rows)

    return GraphClimb(gain, ~np.eye(n, dtype=bool))


def gaussian(covariance, n_rows):
    """-n/2 log of what is left of a column's variance beside its parents: all that a linear Gaussian table can tell."""

    def score(group, parents):
        k = np.flatnonzero(parents)
        explained = covariance[group, k] @ np.linalg.solve(covariance[np.ix_(k, k)], covariance[k, group])
        return -0.5 * n_rows * np.log(covariance[group, group] - explained)

    return score


CHAIN = np.array([[1.0, 0.8, 0.64], [0.8, 1.0, 0.8], [0.64, 0.8, 1.0]])  # 0 - 1 - 2, correlations of .8


@pytest.mark.parametrize(("worth", "edges"), [(PARENT_COST + 1, [(0, 1)]), (PARENT_COST - 1, [])])
def test_an_edge_is_there_if_it_is_worth_its_cost(worth, edges):
    climb = from_scores(lambda group, parents: worth * (group == 1 and parents[0]), 2)
    for start in (graph_of(2), graph_of(2, (0, 1))):
        np.testing.assert_array_equal(climb.climbed(start), graph_of(2, *edges))


def test_an_edge_is_turned_where_it_is_worth_more():
    climb = from_scores(lambda group, parents: (20.0 if group == 0 else 12.0) * parents[1 - group], 2)
    np.testing.assert_array_equal(climb.climbed(graph_of(2, (0, 1))), graph_of(2, (1, 0)))


def test_what_only_a_wrong_order_needs_goes_with_it():
    """0 -> 2, 0 -> 1, 2 -> 1 tells as much as 0 -> 1 -> 2 and needs an edge more: no single step is better."""
    climb = from_scores(gaussian(CHAIN, 1000), 3)
    found = climb.climbed(graph_of(3, (0, 2), (0, 1), (2, 1)))
    assert (found | found.T).tolist() == (graph_of(3, (0, 1), (1, 0), (1, 2), (2, 1))).tolist()
    assert found[:, 1].sum() <= 1  # 0 -> 1 <- 2 would say that the ends are independent


def test_two_independent_causes_are_found_to_be_causes():
    covariance = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.6], [0.0, 0.6, 1.0]])
    climb = from_scores(gaussian(covariance, 1000), 3)
    for start in (graph_of(3), graph_of(3, (0, 1), (1, 2), (0, 2))):
        np.testing.assert_array_equal(climb.climbed(start), graph_of(3, (0, 1), (2, 1)))


def test_closed_edges_stay_as_they_are():
    climb = from_scores(lambda group, parents: 100.0 * parents.sum(), 3)
    climb.open_ = graph_of(3, (0, 1), (2, 1))
    np.testing.assert_array_equal(climb.climbed(graph_of(3, (1, 2))), graph_of(3, (1, 2), (0, 1)))


def test_a_climb_ends_although_gains_contradict_each_other():
    """As with gaps, where each is that of other rows: what was worth adding may be worth dropping, round and round."""
    asked = []

    def gain(group, parents, changed):
        asked.append(parents.tobytes())
        rng = np.random.default_rng([group, changed, *parents.astype(int)])
        return np.full(2, 40.0 * rng.standard_normal())

    climb = GraphClimb(gain, ~np.eye(9, dtype=bool))
    assert nx.is_directed_acyclic_graph(nx.DiGraph(climb.climbed(graph_of(9))))
    assert len(asked) < 9 * 8 * 2 * MOST_FLIPS * 9 * 8  # every flip of every edge asks for the others at most


def test_every_end_of_a_chain_may_be_its_beginning():
    """0 -> 1 -> 2 -> 3 -> 4: five graphs tell the same, and chance alone decides; turning one edge after the other
    leads through all of them."""
    n = 5
    climb = from_scores(gaussian(0.8 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))), 1000), n, n_rows=1000)
    start, rng = graph_of(n, *((i, i + 1) for i in range(n - 1))), np.random.default_rng(0)
    found = [climb.resampled(start, Chance.draw(1000, n, rng)) for _ in range(40)]
    assert all(((graph | graph.T) == (start | start.T)).all() for graph in found)
    roots = np.array([np.flatnonzero(~graph.any(0)) for graph in found])  # one each, so there is no collider
    assert roots.shape == (40, 1)
    assert np.bincount(roots[:, 0], minlength=n).min() >= 3


def test_directions_that_are_told_come_back_from_another_start():
    """0 -> 1 -> 2 with 100 nats for each of these directions."""
    told = gaussian(CHAIN, 1000)

    def score(group, parents):
        return told(group, parents) + 100.0 * (group > 0 and parents[group - 1])

    climb, rng = from_scores(score, 3, n_rows=1000), np.random.default_rng(0)
    for _ in range(10):
        chance = Chance.draw(1000, 3, rng)
        np.testing.assert_array_equal(climb.resampled(graph_of(3, (0, 1), (1, 2)), chance), graph_of(3, (0, 1), (1, 2)))


def test_growing_adds_the_best_edges_first_and_drops_none():
    """1 tells 2 all that 0 tells it, so 0 -> 2 is not worth its cost beside 1 -> 2."""
    climb = from_scores(gaussian(CHAIN, 1000), 3)
    start = graph_of(3, (0, 1))
    np.testing.assert_array_equal(climb.narrowed(graph_of(3, (0, 2), (1, 2))).grown(start), graph_of(3, (0, 1), (1, 2)))
    np.testing.assert_array_equal(climb.narrowed(graph_of(3, (1, 0), (2, 0))).grown(start), graph_of(3, (0, 1), (2, 0)))
    assert start.tolist() == graph_of(3, (0, 1)).tolist()


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_what_each_edge_is_worth_by_itself_decides_where_they_do_not_meet(n, seed):
    worth = np.random.default_rng(seed).uniform(0, 2 * PARENT_COST, (n, n)) * ~np.eye(n, dtype=bool)
    grown = from_scores(lambda group, parents: worth[parents, group].sum(), n).grown(graph_of(n))
    assert nx.is_directed_acyclic_graph(nx.DiGraph(grown))
    left_out = (worth > PARENT_COST + LEAST_STEP) & ~grown
    assert not (grown & (worth < PARENT_COST)).any()
    assert (left_out <= reaches(grown).T).all()  # only what would have closed a cycle ...
    for j, i in np.argwhere(left_out):
        way = reaches(grown & (worth >= worth[j, i]))  # ... of better edges
        assert way[i, j]


@given(st.integers(2, 5), st.integers(0, 10_000))
def test_the_end_is_acyclic_and_no_edge_more_or_less_is_better(n, seed):
    def score(group, parents):
        return 15.0 * np.random.default_rng([seed, group, *np.packbits(parents)]).random() * (1 + parents.sum()) ** 0.5

    climb = from_scores(score, n)
    found = climb.climbed(np.zeros((n, n), bool))
    assert nx.is_directed_acyclic_graph(nx.from_numpy_array(found, create_using=nx.DiGraph))
    for i, j in np.argwhere(~np.eye(n, dtype=bool) & ~reaches(found).T):
        now, changed = found[:, j], found[:, j].copy()
        changed[i] = not now[i]
        more = score(j, changed) - score(j, now) - PARENT_COST * (int(changed.sum()) - int(now.sum()))
        assert more <= LEAST_STEP + 1e-9


def test_reaching_by_hand():
    found = reaches(graph_of(4, (0, 1), (1, 2)))
    np.testing.assert_array_equal(found, graph_of(4, (0, 1), (1, 2), (0, 2)))


def test_chance_draws_rows_and_leans_one_way_or_the_other():
    chance = Chance.draw(50, 4, np.random.default_rng(0))
    assert chance.weights.sum() == 50
    assert (chance.leaning <= 0).all()
    assert (np.maximum(chance.leaning, chance.leaning.T) == 0).all()
    assert ((chance.leaning < 0) ^ (chance.leaning.T < 0) ^ np.eye(4, dtype=bool)).all()


@pytest.mark.parametrize(
    ("leaning", "edge"), [([[0.0, 0.0], [-9.0, 0.0]], (0, 1)), ([[0.0, -9.0], [0.0, 0.0]], (1, 0))]
)
def test_of_directions_that_tell_the_same_chance_chooses(leaning, edge):
    """The edge is worth 20 nats either way, in two rows that count twice and not at all."""
    climb = from_scores(lambda group, parents: 20.0 * parents.any(), 2)
    found = climb.climbed(graph_of(2, (0, 1)), Chance(np.array([2.0, 0.0]), np.array(leaning), seed=0))
    np.testing.assert_array_equal(found, graph_of(2, edge))


# -- with fits of rows


def climb_of(values):
    values = (values - values.mean(0)) / values.std(0)
    n = values.shape[1]
    fits = AdditiveFits(values, [True] * n)

    def gain(group, parents, changed):
        every = np.flatnonzero(parents | (np.arange(n) == changed))
        found = fits.residuals(group, every)
        return log_densities(found[0]) - log_densities(found[1 + list(every).index(changed)])

    return GraphClimb(gain, ~np.eye(n, dtype=bool))


def shares(values, seed, n=20):
    """Of edges in other data sets of the kind."""
    climb, (n_rows, n_columns), rng = climb_of(values), values.shape, np.random.default_rng(seed)
    graph = climb.climbed(np.zeros((n_columns, n_columns), bool))
    return np.mean([climb.climbed(graph, Chance.draw(n_rows, n_columns, rng)) for _ in range(n)], axis=0)


def straight(noise, rng, n=800):
    """0 -> 1 -> 2 -> 3 and 0 -> 3, all straight lines."""
    x = noise(rng, (n, 4))
    x[:, 1] += x[:, 0]
    x[:, 2] -= 0.8 * x[:, 1]
    x[:, 3] += x[:, 2] - x[:, 0]
    return x


@pytest.mark.parametrize("noise", [lambda rng, n: rng.uniform(-1, 1, n), lambda rng, n: rng.laplace(size=n)])
def test_noise_that_is_not_normal_shows_directions(noise):
    found = shares(straight(noise, np.random.default_rng(0)), 0)
    np.testing.assert_array_equal(found > 0.9, graph_of(4, (0, 1), (1, 2), (2, 3), (0, 3)))


def test_normal_noise_leaves_directions_open():
    """Of 0 -> 1 either direction explains the rows as well: over ten tables neither is told with certainty."""
    told = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=500)
        found = shares(np.column_stack([x, x + rng.normal(size=500)]), seed)
        assert found[0, 1] + found[1, 0] == 1.0  # that they are joined is certain
        told.append(found[0, 1])
    assert 0.25 < np.mean(told) < 0.75
    assert np.mean(np.abs(np.array(told) - 0.5)) < 0.4


def test_units_and_variances_do_not_tell_directions():
    rng = np.random.default_rng(5)
    x = rng.normal(size=800)
    y = np.sin(2 * x) + 0.3 * rng.normal(size=800)
    for scale in (1e-3, 1.0, 1e3):
        found = climb_of(np.column_stack([x, scale * y])).climbed(np.zeros((2, 2), bool))
        np.testing.assert_array_equal(found, graph_of(2, (0, 1)))
