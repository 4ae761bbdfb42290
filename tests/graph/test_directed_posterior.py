"""Edges whose two directions exclude each other."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core_helpers import generator
from visl.graph.acyclicity import find_cycle
from visl.graph.posterior import TINY, DirectedPosterior

OPEN = torch.full((3, 3), 0.05)


def posterior(prior=OPEN, initial=0.5, dropout=0.0):
    """Of a single member."""
    return DirectedPosterior(prior[None], torch.tensor([initial]), dropout=dropout)


def set_pair(edges, i, j, *, existence, orientation):
    """orientation: the log-odds of i -> j against j -> i"""
    with torch.no_grad():
        for a, b in ((i, j), (j, i)):
            edges.existence[0, a, b] = existence
        edges.orientation[0, i, j] = orientation


def test_probabilities_by_hand():
    edges = posterior()
    set_pair(edges, 0, 1, existence=np.log(4), orientation=np.log(3))  # joined .8, in this direction .75
    p = edges.probabilities()[0]
    assert p[0, 1].item() == pytest.approx(0.6)
    assert p[1, 0].item() == pytest.approx(0.2)
    assert p[0, 2].item() == pytest.approx(0.25)  # joined .5, either direction
    assert edges.adjacency()[0, 0, 1].item() == pytest.approx(0.8)
    assert p.diagonal().tolist() == [0, 0, 0]


def test_samples_have_the_probabilities_and_never_both_directions():
    edges, n = posterior(dropout=0.2), 40_000
    set_pair(edges, 0, 1, existence=np.log(4), orientation=np.log(3))
    with torch.no_grad():
        graphs = edges.soften(torch.rand(n, 1, 3, 3, generator=generator(1)))[:, 0]
    present = graphs > 0.5
    assert graphs.unique().tolist() == [0.0, torch.tensor(TINY).item(), 1.0]
    assert not (present & present.mT).any()
    shares = present.float().mean(0)
    # A fifth is left out. The deviation of a share is at most .0025.
    torch.testing.assert_close(shares, 0.8 * edges.probabilities()[0].detach(), atol=0.01, rtol=0)


def test_a_sampled_edge_has_the_gradient_of_its_soft_form_absent_ones_too():
    edges = posterior()
    uniform = torch.full((1, 3, 3), 0.3)
    graph = edges.soften(uniform)
    assert graph[0, 0, 1].item() == pytest.approx(TINY)  # logit(.3) < 0: the other direction, and not joined either
    graph[0, 0, 1].backward()
    a = 0.3  # both the direction's and the pair's sigmoid(0 + logit(.3))
    expected = a * a * (1 - a)
    assert edges.orientation.grad[0, 0, 1].item() == pytest.approx(expected, rel=1e-4)
    assert edges.orientation.grad[0, 1, 0].item() == pytest.approx(-expected, rel=1e-4)
    assert edges.existence.grad[0, 0, 1].item() == pytest.approx(expected, rel=1e-4)


def test_knowledge_is_certain_and_a_required_edge_rules_out_its_reverse():
    prior = OPEN.clone()
    prior[0, 1], prior[2, 0] = 1.0, 0.0
    edges = posterior(prior)
    p = edges.probabilities()[0]
    assert p[0, 1] == 1
    assert p[1, 0] == 0
    assert p[2, 0] == 0
    graphs = edges.soften(torch.rand(100, 1, 3, 3, generator=generator(2)))[:, 0]
    assert (graphs[:, 0, 1] == 1).all()
    assert not graphs[:, 1, 0].any()
    assert not graphs[:, 2, 0].any()


def test_settled_is_the_most_probable_graph_and_samples_leave_some_of_its_edges_out():
    edges = posterior(dropout=0.1)
    set_pair(edges, 0, 1, existence=3.0, orientation=2.0)
    set_pair(edges, 1, 2, existence=3.0, orientation=-2.0)
    set_pair(edges, 0, 2, existence=-3.0, orientation=2.0)
    edges.settle(0.25)
    expected = torch.tensor([[0, 0.75, 0], [0, 0, 0], [0, 0.75, 0]])  # 0 -> 1 and 2 -> 1
    torch.testing.assert_close(edges.probabilities()[0], expected)
    graphs = edges.soften(torch.rand(20_000, 1, 3, 3, generator=generator(3)))[:, 0]
    assert set(graphs.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(graphs.mean(0), expected, atol=0.02, rtol=0)
    assert not graphs.requires_grad or torch.autograd.grad(graphs.sum(), edges.existence)[0].abs().sum() == 0


def test_pairs_two_edges_apart_are_candidates_once_settled():
    edges = posterior()
    set_pair(edges, 0, 1, existence=3.0, orientation=2.0)
    set_pair(edges, 1, 2, existence=3.0, orientation=2.0)
    set_pair(edges, 0, 2, existence=-3.0, orientation=2.0)
    edges.settle(0.25)
    torch.testing.assert_close(edges.probabilities()[0], torch.tensor([[0, 0.75, 0.5], [0, 0, 0.75], [0, 0, 0]]))
    assert edges.most_probable()[0].tolist() == [[False, True, False], [False, False, True], [False] * 3]


def test_an_edge_that_has_become_improbable_is_gone_for_the_kernels():
    edges = posterior()
    set_pair(edges, 0, 1, existence=-10.0, orientation=0.0)
    graph = edges.soften(torch.full((1, 3, 3), 0.3))[0]
    assert graph[0, 1] == 0
    assert graph[0, 2] > 0


@given(arrays(np.float64, (5, 5), elements=st.floats(0, 1)), st.floats(0, 0.99))
def test_the_chosen_graph_is_acyclic_and_joins_only_pairs_above_the_threshold(weights, threshold):
    p = weights / np.maximum(weights + weights.T, 1)  # no pair above 1
    np.fill_diagonal(p, 0)
    graph = DirectedPosterior.choose_graph(p, threshold)
    assert find_cycle(graph) is None
    pair = p + p.T
    assert (pair[graph] > threshold).all()
    assert (p[graph] >= p.T[graph]).all()


def test_a_pair_is_joined_by_its_two_directions_together():
    p = np.array([[0, 0.3, 0.2], [0.25, 0, 0.0], [0.2, 0.0, 0]])
    assert DirectedPosterior.choose_graph(p, 0.5).tolist() == [[False, True, False], [False] * 3, [False] * 3]


def test_kl_by_hand():
    # Two pairs of directions at .25 each under a prior of .05, and the third: 6 (.25 ln 5 + .75 ln(.75 / .95)).
    assert posterior().kl().item() == pytest.approx(6 * (0.25 * np.log(5) + 0.75 * np.log(0.75 / 0.95)), rel=1e-5)
