"""Orders of causes and effects."""

import networkx as nx
import numpy as np
import pytest

from visl.noisy_or import Effect
from visl.order_search import EFFECTS, NO_EFFECTS, OrderSearch, worth_of_all

M = 12
TRUE = np.zeros((M, M), bool)
TRUE[[0, 0, 1, 1, 2, 2, 2], [3, 4, 4, 5, 5, 6, 7]] = True  # three that cause others, five effects of one or two ...
TRUE[[3, 3, 4], [8, 9, 9]] = True  # ... of which two cause others again; 10 and 11 are alone


def simulated(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((n_rows, M))
    for j in range(M):
        share = 0.2 if not TRUE[:, j].any() else 0.02
        x[:, j] = rng.random(n_rows) < 1 - (1 - share) * np.prod(1 - 0.7 * x[:, TRUE[:, j]], axis=1)
    return x


@pytest.fixture(scope="module")
def effects():
    x = simulated()
    return [Effect(column, x) for column in x.T]


OPEN, NONE = ~np.eye(M, dtype=bool), np.zeros((M, M), bool)


def search(effects, open_=OPEN, required=NONE, priority=None):
    priority = worth_of_all(effects, open_).sum(1) if priority is None else priority
    found = OrderSearch(effects, open_, required, priority)
    return found, found.run(np.random.default_rng(0))


def test_the_graph_is_found_from_any_order(effects):
    for priority in (None, np.arange(M, 0, -1.0), np.random.default_rng(3).random(M)):
        _, graph = search(effects, priority=priority)
        assert np.argwhere(graph).tolist() == np.argwhere(TRUE).tolist()


def test_columns_are_worth_most_as_causes_of_what_they_cause(effects):
    worth = worth_of_all(effects, OPEN)
    assert (worth[TRUE] > 10).all()
    assert worth[0, [3, 4]].min() > worth[0][~TRUE[0]].max()


def test_an_edge_costs_less_from_a_column_that_has_more_effects(effects):
    found, graph = search(effects)
    n_effects = graph.sum(1)
    assert n_effects[[2, 1, 11]].tolist() == [3, 2, 0]
    total = NO_EFFECTS + M - 1
    np.testing.assert_allclose(
        found.cost[[2, 1, 11]], -np.log(np.array([EFFECTS + 2.5, EFFECTS + 1.5, EFFECTS]) / total)
    )
    assert (found.worth()[~graph] == 0).all()
    assert (found.worth()[graph] > 0).all()


def test_knowledge_is_kept(effects):
    open_, required = OPEN.copy(), NONE.copy()
    required[11, 10] = required[10, 0] = True  # which no row shows
    open_[0, 3] = False
    _, graph = search(effects, open_ & ~required & ~required.T, required)
    assert graph[11, 10]
    assert graph[10, 0]
    assert not graph[0, 3]
    assert nx.is_directed_acyclic_graph(nx.from_numpy_array(graph, create_using=nx.DiGraph))


def test_a_required_edge_against_the_truth_turns_what_depends_on_it(effects):
    required = NONE.copy()
    required[8, 3] = True
    found, graph = search(effects, OPEN & ~required & ~required.T, required)
    assert graph[8, 3]
    assert not graph[3, 8]
    assert found.order.index(8) < found.order.index(3)
