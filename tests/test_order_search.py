"""Orders of causes and effects."""

import networkx as nx
import numpy as np
import pytest

from visl.noisy_or import NoisyOr
from visl.order_search import ALIKE, EFFECTS, NO_EFFECTS, OrderSearch, edge_costs, worth_of_all

M = 12
TRUE = np.zeros((M, M), bool)
TRUE[[0, 1, 0, 2, 1, 2], [3, 3, 4, 4, 5, 5]] = True  # effects of two each, from which directions can be told ...
TRUE[[3, 4, 3, 5, 4, 5], [6, 6, 7, 7, 8, 8]] = True  # ... and theirs
TRUE[9, 10] = True  # a single cause, which may as well be the effect; 11 is alone


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
    return [NoisyOr(column, x) for column in x.T]


OPEN, NONE = ~np.eye(M, dtype=bool), np.zeros((M, M), bool)


def search(effects, open_=OPEN, required=NONE, priority=None):
    priority = worth_of_all(effects, open_).sum(1) if priority is None else priority
    found = OrderSearch(effects, open_, required, priority)
    return found, found.run(np.random.default_rng(0))


def test_the_graph_is_found_from_any_order(effects):
    for priority in (None, np.arange(M, 0, -1.0), np.random.default_rng(3).random(M)):
        _, graph = search(effects, priority=priority)
        assert graph[9, 10] ^ graph[10, 9]
        assert graph[:9, :9][TRUE[:9, :9]].all()
        # Among so few columns an edge costs little, so that one more may seem worth it by chance.
        assert graph.sum() <= TRUE.sum() + 1


def test_columns_are_worth_most_as_causes_of_what_they_cause(effects):
    worth = worth_of_all(effects, OPEN)
    assert (worth[TRUE] > 10).all()
    assert worth[0, [3, 4]].min() > worth[0][~TRUE[0]].max()


def test_edges_have_worth_where_they_are(effects):
    found, graph = search(effects)
    assert (found.worth()[~graph] == 0).all()
    assert (found.worth()[graph] > 0).all()


def test_an_edge_costs_less_from_a_column_that_has_more_effects():
    graph = NONE.copy()
    graph[0, [3, 4, 5]] = True
    cost, total = edge_costs(graph), NO_EFFECTS + M - 1
    np.testing.assert_allclose(cost[0, 6:], -np.log((EFFECTS + 2.5) / total))  # nothing else is alike
    np.testing.assert_allclose(cost[1, 6:], -np.log(EFFECTS / total))


def test_an_edge_costs_less_where_columns_that_are_alike_have_it():
    """0 and 1 share the effects 3 and 4, and 0 has 5 as well: as an effect of 1, 5 has another column beside it that is
    alike, and so has 1. By hand: 2 of 2 effects are shared (5 is left out), which counts for ALIKE (2 / 3)^2."""
    graph = NONE.copy()
    graph[0, [3, 4, 5]] = graph[1, [3, 4]] = True
    cost, total = edge_costs(graph), NO_EFFECTS + M - 1
    share = (EFFECTS + 1.5) / total
    alike = ALIKE * (2 / 3) ** 2
    as_cause = (share + alike) / (1 + alike)
    # 3 and 4 each share their cause 0 with 5 (1 is left out), 1 of 1, and both have the cause 1.
    of_two = 2 * ALIKE * (1 / 2) ** 2
    as_effect = (share + of_two) / (1 + of_two)
    assert cost[1, 5] == pytest.approx(-np.log((as_cause + as_effect) / 2))
    assert cost[1, 6] > -np.log(share)  # what 0 does not have either


def test_only_what_has_several_causes_tells_directions(effects):
    found, graph = search(effects)
    lost = found.lost_if_turned()
    assert (lost[:6, 3:9][TRUE[:6, 3:9]] > 10).all()
    assert min(lost[9, 10], lost[10, 9]) < 3  # the other is no edge; that column may have another effect by chance
    assert np.isinf(lost[~graph]).all()


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
    required[6, 3] = True
    found, graph = search(effects, OPEN & ~required & ~required.T, required)
    assert graph[6, 3]
    assert not graph[3, 6]
    assert found.order.index(6) < found.order.index(3)
