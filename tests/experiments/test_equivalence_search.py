"""Greedy equivalence search against what is known by hand, and against causal-learn's, which is slow but right."""

import math

import numpy as np
import pytest

from visl.experiments.methods.equivalence_search import greedy_equivalence_search
from visl.experiments.methods.local_scores import DiscreteBic, GaussianBic
from visl.experiments.methods.patterns import Pattern
from visl.experiments.methods.structure import _edges_of_end_marks


def random_values(seed: int, n_nodes: int = 7, n_rows: int = 400) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((n_nodes, n_nodes)) < 0.4, k=1) * rng.uniform(0.3, 1.2, (n_nodes, n_nodes))
    values = rng.standard_normal((n_rows, n_nodes))
    for node in range(n_nodes):
        values[:, node] += values @ weights[:, node]
    return values[:, rng.permutation(n_nodes)]


def test_discrete_bic_by_hand() -> None:
    levels = np.array([[0, 0], [0, 0], [0, 1], [1, 1]])
    score = DiscreteBic(levels)
    assert score(1, frozenset()) == pytest.approx(4 * math.log(0.5) - 0.5 * math.log(4))
    given = 2 * math.log(2 / 3) + math.log(1 / 3)
    assert score(1, frozenset({0})) == pytest.approx(given - math.log(4))


def test_discrete_bic_is_the_same_when_combinations_are_counted_anew() -> None:
    levels = np.random.default_rng(0).integers(0, 3, (40, 8))
    score, parents = DiscreteBic(levels), [0, 1, 2, 3, 4, 5, 6]
    combinations = np.unique(levels[:, parents], axis=0, return_inverse=True)[1]
    expected = 0.0
    for combination in range(combinations.max() + 1):
        counts = np.bincount(levels[combinations == combination, 7])
        expected += sum(n * math.log(n / counts.sum()) for n in counts if n)
    assert score(7, frozenset(parents)) == pytest.approx(expected - 0.5 * math.log(40) * 3**7 * 2)


def test_gaussian_bic_is_the_gain_in_explained_variance() -> None:
    values = random_values(0)
    score = GaussianBic(values)
    r2 = np.corrcoef(values[:, 0], values[:, 1])[0, 1] ** 2
    gain = score(0, frozenset({1})) - score(0, frozenset())
    assert gain == pytest.approx(-200 * math.log(1 - r2) - 0.5 * math.log(400))


def test_inserting_a_collider_directs_what_follows() -> None:
    chain = Pattern.without_edges(4).after_insertion(2, 3, ()).after_insertion(0, 2, ())
    assert chain.neighbours == [{2}, set(), {0, 3}, {2}]
    collider = chain.after_insertion(1, 2, (0,))
    assert collider.parents == [set(), set(), {0, 1}, {2}]
    assert collider.after_deletion(1, 2, ()).parents == [set()] * 4


@pytest.mark.parametrize("seed", range(4))
def test_same_graph_as_causal_learn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip("causallearn.search.ScoreBased.GES")
    values = random_values(seed)
    n_nodes = values.shape[1]
    found = greedy_equivalence_search(GaussianBic(values), n_nodes)
    assert (found == _edges_of_end_marks(theirs.ges(values)["G"].graph)).all()

    levels = (values > np.median(values, axis=0)).astype(np.int64)
    score = DiscreteBic(levels)
    monkeypatch.setattr(theirs, "local_score_BDeu", lambda data, node, above, _: score(node, frozenset(above)))
    found = greedy_equivalence_search(score, n_nodes)
    assert (found == _edges_of_end_marks(theirs.ges(levels, "local_score_BDeu")["G"].graph)).all()


def test_order_of_columns_does_not_matter() -> None:
    values, order = random_values(5), np.array([6, 2, 0, 5, 1, 4, 3])
    found = greedy_equivalence_search(GaussianBic(values), 7)
    permuted = greedy_equivalence_search(GaussianBic(values[:, order]), 7)
    assert (permuted == found[np.ix_(order, order)]).all()
