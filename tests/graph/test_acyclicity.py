import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core_helpers import dags, generator
from visl.graph.acyclicity import dag_penalty, find_cycle, matrix_expm1, project_to_dag
from visl.graph.posterior import EdgePosterior

squares = st.integers(1, 6).flatmap(
    lambda M: hnp.arrays(np.float64, (M, M), elements=st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 1.0]))
)


def is_acyclic(edges):
    """No walk of M steps: the oracle of these tests."""
    return not np.linalg.matrix_power(edges.astype(object), len(edges)).any()


@given(dags(max_nodes=8), st.floats(0.1, 1.0))
def test_penalty_is_exactly_zero_on_dags(edges, weight):
    for dtype in (torch.float32, torch.float64):
        assert dag_penalty(torch.tensor(weight * edges, dtype=dtype)).item() == 0.0


@given(squares)
def test_penalty_is_positive_exactly_on_cyclic_graphs(edges):
    penalty = dag_penalty(torch.tensor(edges)).item()
    if is_acyclic(edges > 0):
        assert penalty == 0.0
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


def random_matrices(*shape, seed=0, dtype=torch.float64):
    """Entries in [0, 1], a third of them 0."""
    matrices = torch.rand(*shape, generator=generator(seed), dtype=dtype)
    return matrices * (torch.rand(*shape, generator=generator(seed + 1)) < 2 / 3)


@pytest.mark.parametrize("M", [1, 2, 3, 5, 8, 13, 22, 40])
@pytest.mark.parametrize("scale", [1e-6, 0.05, 1.0])
def test_matrix_expm1_equals_torchs_exponential(M, scale):
    for shape in ((M, M), (3, M, M), (2, 2, M, M)):
        a = scale * random_matrices(*shape, seed=M)
        expected = torch.matrix_exp(a) - torch.eye(M, dtype=a.dtype)
        torch.testing.assert_close(matrix_expm1(a), expected, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(matrix_expm1(a.float()).double(), expected, rtol=2e-5, atol=2e-7 * scale)


@pytest.mark.parametrize("x", [0.0, 1e-9, 1 / 16, 0.1, 1 / 8, 0.7, 1.0])
def test_matrix_expm1_of_a_number_to_the_last_digits(x):
    for dtype, rel in ((torch.float64, 5e-15), (torch.float32, 5e-7)):
        assert matrix_expm1(torch.tensor([[x]], dtype=dtype)).item() == pytest.approx(math.expm1(x), rel=rel, abs=0.0)


def test_matrices_of_very_different_sizes_share_a_stack():
    """The series is scaled for the largest of them; the small ones must not lose digits by it."""
    small, large = 1e-6 * random_matrices(12, 12, seed=3), torch.ones(12, 12, dtype=torch.float64)
    for dtype, rtol in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        together = matrix_expm1(torch.stack([small, large]).to(dtype))
        expected = sum(torch.linalg.matrix_power(small, n) / math.factorial(n) for n in range(1, 6))
        torch.testing.assert_close(together[0].double(), expected, rtol=rtol, atol=0.0)
        torch.testing.assert_close(together[1].double(), large * math.expm1(12) / 12, rtol=rtol, atol=0.0)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 5, 5)])
def test_gradient_of_the_penalty(shape):
    edges = torch.rand(*shape, generator=generator(7), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(dag_penalty, edges)


def test_gradient_of_the_penalty_by_hand():
    # 2 cosh(a b) - 2 of the two-cycle with weights a, b: its derivative by a is 2 b sinh(a b).
    edges = torch.tensor([[0.0, 0.5], [0.8, 0.0]], dtype=torch.float64, requires_grad=True)
    dag_penalty(edges).backward()
    expected = torch.tensor([[0.0, 1.6 * math.sinh(0.4)], [math.sinh(0.4), 0.0]], dtype=torch.float64)
    torch.testing.assert_close(edges.grad, expected)


@pytest.mark.parametrize(("weight", "length"), [(1e-4, 2), (1e-4, 3), (1e-3, 2), (1e-3, 5), (1e-2, 4), (0.1, 3)])
def test_single_precision_keeps_the_smallest_penalties(weight, length):
    # A cycle of n edges of weight w: n walks that return after n steps, each (w^2)^n / n!, then 2 n steps and so on.
    edges = torch.zeros(length, length)
    for i in range(length):
        edges[i, (i + 1) % length] = weight
    n, a = length, edges.max().double().item() ** 2
    expected = n * sum(a ** (n * turns) / math.factorial(n * turns) for turns in (1, 2, 3))
    assert dag_penalty(edges).item() == pytest.approx(expected, rel=1e-5)


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
    edges = EdgePosterior(prior[None], torch.tensor([0.5]), torch.tensor([0.5]))
    torch.nn.init.constant_(edges.logits, 40.0)  # sigma(40) is 1 in float32
    chosen = project_to_dag(edges.probabilities()[0].detach().numpy(), 0.5)
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
