import numpy as np
import pytest
import torch

from visl.experiments.methods.dag_gnn_groups import _by_group, _layout, acyclicity, dag_gnn_groups, unexplained
from visl.experiments.problem import Problem, Run
from visl.graph.acyclicity import find_cycle


def structure_problem(train, kind, group_of):
    nothing = np.zeros(0, int)
    return Problem(train, train[:0], nothing, nothing, (kind,) * train.shape[1], np.asarray(group_of))


def answers(seed=0, rows=300, gaps=0.2):
    """Groups of 3, 2 and 2 right/wrong questions; the first two share an ability, the third has its own."""
    rng = np.random.default_rng(seed)
    group_of = np.array([0, 0, 0, 1, 1, 2, 2])
    ability = rng.standard_normal((rows, 2))[:, [0, 0, 1]]
    table = (3 * ability[:, group_of] + rng.logistic(size=(rows, 7)) > 0).astype(float)
    table[rng.random(table.shape) < gaps] = np.nan
    return structure_problem(table, "binary", group_of)


def test_direction_is_from_to():
    """A[0, 1] = 2: h_1 = 2 h_0 + z_1."""
    weights = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    assert unexplained(torch.tensor([[[1.0], [5.0]]]), weights).flatten().tolist() == [1.0, 3.0]


def test_acyclicity_by_hand():
    """M = 2, A = [[0, a], [b, 0]]: tr(I + B + B^2 / 4) - 2 = a^2 b^2 / 2."""
    assert float(acyclicity(torch.tensor([[0.0, 3.0], [0.5, 0.0]]))) == pytest.approx(9 * 0.25 / 2)
    assert float(acyclicity(torch.tensor([[0.0, 3.0, 1.0], [0.0, 0.0, 7.0], [0.0, 0.0, 0.0]]))) == 0
    weights = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(acyclicity, (weights,))


def test_groups_of_different_width_are_padded():
    assert _layout(np.array([1, 0, 1, 1])).tolist() == [[1, -1, -1], [0, 2, 3]]
    table = np.array([[1.0, np.nan, 0.0], [1.0, 1.0, np.nan]])
    problem = structure_problem(table, "binary", [1, 0, 1])
    values, observed = _by_group(problem, _layout(problem.group_of))
    assert values.tolist() == [[[0.5, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.5]]]
    assert observed.tolist() == [[[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]


def test_continuous_columns_are_centred_and_gaps_are_their_mean():
    problem = structure_problem(np.array([[0.2], [0.6], [np.nan]]), "continuous", [0])
    values, observed = _by_group(problem, _layout(problem.group_of))
    assert values.flatten().tolist() == pytest.approx([-1, 1, 0])
    assert observed.flatten().tolist() == [1, 1, 0]


def test_joined_groups_are_found_without_a_cycle():
    answer = dag_gnn_groups(answers(), Run(epochs=10))
    edges, strength = answer.structure.edges, answer.structure.probabilities
    assert edges[0, 1] != edges[1, 0]
    assert not edges[2].any()
    assert not edges[:, 2].any()
    assert find_cycle(edges) is None
    assert ((strength >= 0) & (strength <= 1)).all()
    assert strength.diagonal().tolist() == [0, 0, 0]
    assert answer.imputation is None


def test_same_seed_same_graph():
    first, second = (dag_gnn_groups(answers(rows=100), Run(seed=1, epochs=2)) for _ in range(2))
    assert np.array_equal(first.structure.probabilities, second.structure.probabilities)


def test_single_columns_are_groups_too():
    rng = np.random.default_rng(0)
    x = rng.random(400)
    table = np.stack([x, x + 0.2 * rng.standard_normal(400), rng.random(400)], axis=1)
    edges = dag_gnn_groups(structure_problem(table, "continuous", [0, 1, 2]), Run(epochs=20)).structure.edges
    assert edges[0, 1] != edges[1, 0]
    assert edges.sum() == 1
