"""Structure methods of other libraries: the direction of every edge, and what they are never given."""

import importlib.metadata
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

import visl
from visl.errors import InputError
from visl.experiments.methods import structure
from visl.experiments.methods.structure_shared import Columns
from visl.experiments.problem import Answer, Problem, Run

Method = Callable[[Problem, Run], Answer]

LIBRARY = {
    structure.pc: "causallearn",
    structure.ges: "numpy",
    structure.hill_climb: "pyagrum",
    structure.tabu: "pyagrum",
    structure.mmhc: "pgmpy",
    structure.notears_linear: "castle",
    structure.notears_nonlinear: "castle",
    structure.dag_gnn: "castle",
    structure.dagma: "dagma",
    structure.dagma_nonlinear: "dagma",
}
COLLIDER = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)  # 0 -> 2 <- 1
# Enough steps for two or three columns.
EPOCHS = {structure.notears_nonlinear: 6, structure.dag_gnn: 15, structure.dagma: 3000, structure.dagma_nonlinear: 350}
LEAST_SQUARES = [structure.notears_linear, structure.dagma, structure.dag_gnn]
NONLINEAR = [structure.notears_nonlinear, structure.dagma_nonlinear]
FIND_COLLIDERS = [structure.pc, structure.ges, structure.hill_climb, structure.tabu, structure.mmhc]


def problem(train: np.ndarray, kind: str = "continuous", group_of: np.ndarray | None = None) -> Problem:
    D, nothing = train.shape[1], np.zeros(0, dtype=np.int64)
    groups = np.arange(D) if group_of is None else group_of
    return Problem(train, train[:0], nothing, nothing, (kind,) * D, groups)


def skip_without(method: Method) -> None:
    pytest.importorskip(LIBRARY[method])


def run_of(method: Method, seed: int = 0) -> Run:
    return Run(seed=seed, epochs=EPOCHS.get(method))


def edges_of(method: Method, given: Problem, seed: int = 0) -> np.ndarray:
    answer = method(given, run_of(method, seed))
    assert answer.structure is not None
    return answer.structure.edges


def gaussian_collider(n_rows: int = 1000) -> np.ndarray:
    x, y, noise = np.random.default_rng(0).standard_normal((3, n_rows))
    return np.stack([x, y, x + y + 0.5 * noise], axis=1)


def binary_collider(n_rows: int = 1000) -> np.ndarray:
    rng = np.random.default_rng(0)
    x, y, wrong = rng.random((3, n_rows)) < np.array([[0.5], [0.4], [0.1]])
    return np.stack([x, y, (x | y) ^ wrong], axis=1).astype(np.float64)


@pytest.mark.parametrize("method", FIND_COLLIDERS)
def test_a_binary_collider_is_found_from_its_causes_to_its_effect(method: Method) -> None:
    skip_without(method)
    assert (edges_of(method, problem(binary_collider(5000), "binary")) == COLLIDER).all()


@pytest.mark.parametrize("method", [structure.pc, structure.ges])
def test_a_gaussian_collider_is_found_from_its_causes_to_its_effect(method: Method) -> None:
    skip_without(method)
    assert (edges_of(method, problem(gaussian_collider())) == COLLIDER).all()


def unexplained(values: np.ndarray, edges: np.ndarray) -> float:
    """Sum over columns of the squares that a regression on the parents leaves."""
    left = 0.0
    for node in range(values.shape[1]):
        above = values[:, edges[:, node]]
        left += float(np.square(values[:, node] - above @ np.linalg.pinv(above) @ values[:, node]).mean())
    return left


@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_weights_read_from_and_to(method: Method) -> None:
    """Standardised, a collider's squares are fitted best by a wrong graph, in which the effect comes first; but what
    is found must fit better than its mirror image."""
    skip_without(method)
    values = gaussian_collider(300)
    values = (values - values.mean(0)) / values.std(0)
    found = method(problem(values), run_of(method)).structure
    assert found is not None
    assert found.edges.any()
    assert found.probabilities is not None
    assert found.probabilities[found.edges].min() > found.probabilities[~found.edges].max() >= 0
    assert unexplained(values, found.edges) < unexplained(values, found.edges.T) - 0.02


@pytest.mark.parametrize("method", NONLINEAR)
def test_a_step_is_read_from_cause_to_effect(method: Method) -> None:
    """The cause tells on which side of the step the effect is; the effect tells little but the sign of the cause."""
    skip_without(method)
    cause, noise = np.random.default_rng(0).standard_normal((2, 200))
    values = np.stack([np.tanh(6 * cause) + 0.1 * noise, cause], axis=1)
    assert (edges_of(method, problem(values)) == [[False, False], [True, False]]).all()


@pytest.mark.parametrize("method", [structure.pc, structure.ges])
def test_an_edge_without_a_direction_has_both(method: Method) -> None:
    skip_without(method)
    x, y = np.random.default_rng(0).standard_normal((2, 500))
    assert (edges_of(method, problem(np.stack([x, x + y], axis=1))) == [[False, True], [True, False]]).all()


@pytest.mark.parametrize("method", [structure.pc, structure.ges, structure.hill_climb, structure.tabu])
def test_two_colliders_and_what_follows_from_them(method: Method) -> None:
    """0 -> 2 <- 1, 2 -> 3, 3 -> 5 <- 4: every direction follows from the independences."""
    skip_without(method)
    noise = np.random.default_rng(1).standard_normal((3000, 6))
    truth = np.zeros((6, 6), dtype=bool)
    truth[[0, 1, 2, 3, 4], [2, 2, 3, 5, 5]] = True
    values = noise.copy()
    for node in (2, 3, 5):
        values[:, node] = values @ truth[:, node] + 0.7 * noise[:, node]
    shuffled = np.array([3, 5, 0, 2, 4, 1])
    found = edges_of(method, problem(values[:, shuffled]))
    if method in (structure.hill_climb, structure.tabu):  # bins blur: only the skeleton is asked for
        found, truth = found | found.T, truth | truth.T
    assert (found == truth[np.ix_(shuffled, shuffled)]).all()


@pytest.mark.parametrize("method", LIBRARY)
def test_gaps_and_groups_are_refused(method: Method) -> None:
    train = binary_collider(50)
    with pytest.raises(InputError, match=f"{method.__name__} .*group"):
        method(problem(train, group_of=np.array([0, 0, 1])), Run())
    train[3, 1] = np.nan
    with pytest.raises(InputError, match=f"{method.__name__} .*fill the gaps first"):
        method(problem(train), Run())


@pytest.mark.parametrize("method", LIBRARY)
def test_a_constant_column_is_a_node_without_edges(method: Method) -> None:
    skip_without(method)
    train = np.insert(gaussian_collider(100), 1, 0.5, axis=1)
    run = Run(epochs=1)
    answer = method(problem(train), run)
    assert answer.structure is not None
    edges = answer.structure.edges
    assert edges.shape == (4, 4)
    assert not edges[1].any()
    assert not edges[:, 1].any()
    alone = method(problem(np.delete(train, 1, axis=1)), run)
    assert alone.structure is not None
    assert (np.delete(np.delete(edges, 1, axis=0), 1, axis=1) == alone.structure.edges).all()


def test_nothing_but_constants_has_no_edges() -> None:
    assert not edges_of(structure.ges, problem(np.ones((5, 3)))).any()


@pytest.mark.parametrize("method", [structure.notears_nonlinear, structure.dag_gnn, structure.dagma_nonlinear])
def test_the_seed_decides_and_global_state_is_left_alone(method: Method, capfd: pytest.CaptureFixture[str]) -> None:
    skip_without(method)
    given = problem(gaussian_collider(100))
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    first, again = (method(given, Run(seed=3, epochs=1)).structure for _ in range(2))
    assert first is not None
    assert again is not None
    assert first.probabilities is not None
    assert (first.edges == again.edges).all()
    assert (first.probabilities == again.probabilities).all()
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert states == after
    assert torch.get_default_dtype() == torch.float32
    assert capfd.readouterr() == ("", "")


def test_a_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(InputError, match=r"pc needs causal-learn: pip install 'visl\[baselines\]'"):
        structure.pc(problem(gaussian_collider(50)), Run())


def test_uneven_columns_keep_two_levels() -> None:
    mostly_top, mostly_bottom = np.ones(100), np.zeros(100)
    mostly_top[:5], mostly_bottom[:5] = np.linspace(0, 0.5, 5), np.linspace(0.5, 1, 5)
    even = np.linspace(0, 1, 100)
    levels = Columns(np.stack([mostly_top, mostly_bottom, even], axis=1), np.zeros(3, dtype=bool)).levels()
    assert levels[:, 0].tolist() == [0] * 5 + [1] * 95
    assert levels[:, 1].tolist() == [1] * 5 + [0] * 95
    assert np.bincount(levels[:, 2]).tolist() == [20] * 5


def test_random_edges_are_a_dag_of_the_prior_density_and_need_no_data() -> None:
    given = problem(np.full((2, 200), np.nan), group_of=np.repeat(np.arange(100), 2))
    edges = edges_of(structure.random_edges, given)
    assert edges.shape == (100, 100)
    assert not np.linalg.matrix_power(edges.astype(float), 100).any()  # no walk of a hundred steps: no cycle
    assert abs(edges.sum() - 0.05 * 4950) < 4 * np.sqrt(0.05 * 0.95 * 4950)
    assert (edges == edges_of(structure.random_edges, given)).all()
    assert (edges != edges_of(structure.random_edges, given, seed=1)).any()


def test_our_own_methods_need_no_installed_distribution(monkeypatch):
    from visl.experiments.methods import structure_shared

    monkeypatch.setattr(structure_shared.importlib.metadata, "version", lambda name: pytest.fail("asked for"))
    assert structure_shared.version_of("visl", "ges") == visl.__version__
