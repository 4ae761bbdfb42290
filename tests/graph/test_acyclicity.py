import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core_helpers import dags
from visl.graph.acyclicity import dag_penalty, find_cycle, project_to_dag
from visl.graph.posterior import EdgePosterior

squares = st.integers(1, 6).flatmap(
    lambda M: hnp.arrays(np.float64, (M, M), elements=st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 1.0]))
)


def is_acyclic(edges):
    """No walk of M steps: the oracle of these tests."""
    return not np.linalg.matrix_power(edges.astype(object), len(edges)).any()


@given(dags(max_nodes=8), st.floats(0.1, 1.0))
def test_penalty_is_zero_on_dags(edges, weight):
    assert dag_penalty(torch.tensor(weight * edges, dtype=torch.float32)).item() == pytest.approx(0, abs=1e-5)


@given(squares)
def test_penalty_is_positive_exactly_on_cyclic_graphs(edges):
    penalty = dag_penalty(torch.tensor(edges)).item()
    if is_acyclic(edges > 0):
        assert penalty == pytest.approx(0, abs=1e-9)
    else:
        assert penalty > 1e-6


def test_penalty_of_the_two_cycle_by_hand():
    # exp([[0, 1], [1, 0]]) has cosh(1) on its diagonal.
    assert dag_penalty(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).item() == pytest.approx(2 * math.cosh(1) - 2, rel=1e-5)


def test_penalty_of_a_weighted_two_cycle_by_hand():
    # Squared weights .25 and .64: eigenvalues +- .5 * .8.
    edges = torch.tensor([[0.0, 0.5], [0.8, 0.0]], dtype=torch.float64)
    assert dag_penalty(edges).item() == pytest.approx(2 * math.cosh(0.4) - 2)


def test_penalty_of_a_loop_and_of_a_stack():
    stack = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(dag_penalty(stack), torch.tensor([math.e - 1, 0.0], dtype=torch.float64))


@given(squares, st.sampled_from([0.0, 0.2, 0.5, 0.9]))
def test_projection_is_acyclic_and_leaves_out_only_what_closes_a_cycle(probabilities, threshold):
    chosen = project_to_dag(probabilities, threshold)
    assert is_acyclic(chosen)
    assert not (chosen & ~(probabilities > threshold)).any()
    for i, j in np.argwhere((probabilities > threshold) & ~chosen):
        # Already the chosen edges that are at least as probable lead back from j to i.
        stronger = chosen & (probabilities >= probabilities[i, j])
        stronger[i, j] = True
        assert not is_acyclic(stronger)


@given(dags(max_nodes=6))
def test_projection_keeps_a_dag_as_it_is(edges):
    np.testing.assert_array_equal(project_to_dag(0.6 * edges, 0.5), edges)


def test_projection_of_three_nodes_by_hand():
    probabilities = np.zeros((3, 3))
    probabilities[1, 0] = 0.95  # kept
    probabilities[0, 1] = 0.90  # closes 1 -> 0 -> 1
    probabilities[1, 2] = 0.80  # kept
    probabilities[2, 0] = 0.70  # kept: 0 leads nowhere yet
    probabilities[0, 2] = 0.60  # closes 2 -> 0 -> 2
    probabilities[2, 1] = 0.40  # below the threshold
    expected = [[False, False, False], [True, False, True], [True, False, False]]
    np.testing.assert_array_equal(project_to_dag(probabilities, 0.5), expected)


def test_projection_sees_cycles_through_edges_added_in_any_order():
    # 2 -> 3 and 0 -> 1 first, then 1 -> 2 joins the two paths; 3 -> 0 would close the long cycle.
    probabilities = np.zeros((4, 4))
    probabilities[2, 3], probabilities[0, 1], probabilities[1, 2], probabilities[3, 0] = 0.9, 0.8, 0.7, 0.6
    chosen = project_to_dag(probabilities, 0.5)
    assert np.argwhere(chosen).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_required_edges_stay():
    probabilities = np.full((3, 3), 0.999)
    np.fill_diagonal(probabilities, 0.0)
    probabilities[2, 1] = probabilities[1, 0] = 1.0
    chosen = project_to_dag(probabilities, 0.5)
    assert np.argwhere(chosen).tolist() == [[1, 0], [2, 0], [2, 1]]


def test_required_edges_stay_however_sure_training_is_of_others():
    prior = torch.full((3, 3), 0.05)
    prior[2, 1] = prior[1, 0] = 1.0
    edges = EdgePosterior(prior, 0.5, 0.5)
    torch.nn.init.constant_(edges.logits, 40.0)  # sigma(40) is 1 in float32
    chosen = project_to_dag(edges.probabilities().detach().numpy(), 0.5)
    assert np.argwhere(chosen).tolist() == [[1, 0], [2, 0], [2, 1]]


def test_threshold_is_strict():
    probabilities = np.array([[0.0, 0.5, 0.0], [0.0, 0.0, np.nextafter(0.5, 1)], [0.0, 0.0, 0.0]])
    assert np.argwhere(project_to_dag(probabilities, 0.5)).tolist() == [[1, 2]]


@given(squares)
def test_find_cycle_finds_one_exactly_where_there_is_one(weights):
    edges = weights > 0.6
    cycle = find_cycle(edges)
    assert (cycle is None) == is_acyclic(edges)
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        assert all(edges[i, j] for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_find_cycle_by_hand():
    edges = np.zeros((4, 4), bool)
    edges[0, 1] = edges[1, 2] = edges[2, 3] = True
    assert find_cycle(edges) is None
    edges[3, 1] = True
    assert find_cycle(edges) == [1, 2, 3]
    assert find_cycle(np.eye(2, dtype=bool)) == [0]
