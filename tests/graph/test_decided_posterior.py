"""Edges whose two directions exclude each other, decided by exact fits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core_helpers import generator
from visl.graph.acyclicity import find_cycle
from visl.graph.posterior import DecidedPosterior

OPEN = torch.full((3, 3), 0.05)


def posterior(prior=OPEN, decided=None):
    """Of a single member."""
    edges = DecidedPosterior(prior[None])
    if decided is not None:
        edges.decided.copy_(torch.tensor(decided)[None])
    return edges


DECIDED = [[0.0, 0.6, 0.25], [0.2, 0.0, 0.0], [0.25, 1.0, 0.0]]


def test_until_it_is_decided_it_is_the_prior_and_nothing_is_learned_by_gradients():
    edges = posterior()
    torch.testing.assert_close(edges.probabilities()[0], OPEN * (1 - torch.eye(3)))
    assert edges.kl().item() == pytest.approx(0.0, abs=1e-6)
    assert not list(edges.parameters())


def test_probabilities_by_hand():
    edges = posterior(decided=DECIDED)
    p = edges.probabilities()[0]
    assert p[0, 1].item() == pytest.approx(0.6)
    assert p[1, 0].item() == pytest.approx(0.2)
    assert 1 - 2e-6 < p[2, 1].item() < 1  # only knowledge is certain
    assert p.diagonal().tolist() == [0, 0, 0]
    # The directions exclude each other, so a pair is joined by either.
    np.testing.assert_allclose(edges.adjacency()[0].numpy(), [[0, 0.8, 0.5], [0.8, 0, 1], [0.5, 1, 0]], atol=1e-5)


def test_samples_are_graphs_of_whole_edges_with_the_decided_probabilities():
    edges, n = posterior(decided=DECIDED), 40_000
    graphs = edges.soften(torch.rand(n, 1, 3, 3, generator=generator(1)))[:, 0]
    assert graphs.unique().tolist() == [0.0, 1.0]
    # The deviation of a share is at most .0025.
    torch.testing.assert_close(graphs.mean(0), torch.tensor(DECIDED), atol=0.01, rtol=0)


def test_knowledge_is_certain_and_a_required_edge_rules_out_its_reverse():
    prior = OPEN.clone()
    prior[0, 1], prior[2, 0] = 1.0, 0.0
    edges = posterior(prior, [[0.0, 0.3, 0.4], [0.7, 0.0, 0.5], [0.6, 0.5, 0.0]])
    p = edges.probabilities()[0]
    assert p[0, 1] == 1
    assert p[1, 0] == 0
    assert p[2, 0] == 0
    assert p[0, 2] == pytest.approx(0.4)
    assert edges.learned[0].tolist() == [[False, False, True], [False, False, True], [False, True, False]]
    graphs = edges.soften(torch.rand(100, 1, 3, 3, generator=generator(2)))[:, 0]
    assert (graphs[:, 0, 1] == 1).all()
    assert not graphs[:, 1, 0].any()
    assert not graphs[:, 2, 0].any()


@given(arrays(np.float64, (5, 5), elements=st.floats(0, 1)), st.floats(0, 0.99))
def test_the_chosen_graph_is_acyclic_and_joins_only_pairs_above_the_threshold(weights, threshold):
    p = weights / np.maximum(weights + weights.T, 1)  # no pair above 1
    np.fill_diagonal(p, 0)
    graph = DecidedPosterior.choose_graph(p, threshold)
    assert find_cycle(graph) is None
    pair = p + p.T
    assert (pair[graph] > threshold).all()
    assert (p[graph] >= p.T[graph]).all()


def test_a_pair_is_joined_by_its_two_directions_together():
    p = np.array([[0, 0.3, 0.2], [0.25, 0, 0.0], [0.2, 0.0, 0]])
    assert DecidedPosterior.choose_graph(p, 0.5).tolist() == [[False, True, False], [False] * 3, [False] * 3]


def test_kl_by_hand():
    # Six edges at .25 under a prior of .05: 6 (.25 ln 5 + .75 ln(.75 / .95)).
    edges = posterior(decided=np.full((3, 3), 0.25, np.float32).tolist())
    assert edges.kl().item() == pytest.approx(6 * (0.25 * np.log(5) + 0.75 * np.log(0.75 / 0.95)), rel=1e-5)
