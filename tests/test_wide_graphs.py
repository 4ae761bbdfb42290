"""Graphs of more columns, numbers among them, than are searched thoroughly: found by exact fits, without networks."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from visl import VISL

N_COLUMNS, N_ROWS = 33, 700
LEVELS = (5, 17)  # columns of two levels
MANY = 32  # a column of thirty levels that goes with nothing
SETTINGS = {"latent_dim": 2, "epochs": 6, "n_draws": 2, "random_state": 0}


def made_up(seed=0):
    """Columns in an order that is shuffled; three of four have a parent or two among those before."""
    rng = np.random.default_rng(seed)
    order, table, edges = rng.permutation(N_COLUMNS - 1), {}, set()
    for place, j in enumerate(order):
        parents = rng.choice(order[:place], min(place, rng.integers(0, 3)), replace=False)
        value = (0.3 if len(parents) else 1.0) * rng.normal(size=N_ROWS)
        for i in parents:
            x = table[f"c{i}"]
            value = value + np.sin(2 * (x - x.mean()) / x.std())
            edges.add((f"c{i}", f"c{j}"))
        table[f"c{j}"] = (value + 0.5 * rng.logistic(size=N_ROWS) > 0).astype(float) if j in LEVELS else value
    table[f"c{MANY}"] = rng.integers(0, 30, N_ROWS).astype(str)
    return pd.DataFrame({f"c{j}": table[f"c{j}"] for j in range(N_COLUMNS)}), edges


@pytest.fixture(scope="module")
def found():
    return VISL(**SETTINGS).fit(made_up()[0])


def test_the_graph_is_found(found):
    true, learned = made_up()[1], set(found.graph_.edges)
    assert 2 * len(true & learned) / (len(true) + len(learned)) > 0.85
    assert nx.is_directed_acyclic_graph(found.graph_)
    assert not any(f"c{MANY}" in edge for edge in learned)


def test_no_network_learns_the_graph(found):
    assert found.history_["stage"].tolist() == [2] * 2


def test_knowledge_is_kept_with_gaps(found):
    table, edges = made_up()
    shown = table.mask(np.random.default_rng(1).random(table.shape) < 0.1)
    required, forbidden = ("c3", "c4"), min(edges & set(found.graph_.edges))
    p = VISL(required_edges=[required], forbidden_edges=[forbidden], **SETTINGS).fit(shown).edge_probabilities_
    assert p.loc[required] == 1.0
    assert p.loc[required[::-1]] == p.loc[forbidden] == 0.0


def test_with_all_edges_known_there_is_nothing_to_learn():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
    known = pd.DataFrame([[0, 1, 0], [0, 0, 1], [0, 0, 0]], index=list("abc"), columns=list("abc"))
    model = VISL(edge_prior=known, **SETTINGS).fit(table)
    assert model.history_["stage"].tolist() == [2] * 4
    pd.testing.assert_frame_equal(model.edge_probabilities_, known.astype(float), check_names=False, check_dtype=False)
