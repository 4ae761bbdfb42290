import math

import gadjid
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from sklearn.metrics import average_precision_score, roc_auc_score

from visl.errors import InputError
from visl.graph.metrics import edge_aupr, edge_auroc, structure_scores


def graph(n_nodes: int, *edges: tuple[int, int]) -> np.ndarray:
    matrix = np.zeros((n_nodes, n_nodes), dtype=bool)
    for start, end in edges:
        matrix[start, end] = True
    return matrix


def rounded(predicted: np.ndarray, truth: np.ndarray) -> list[float]:
    """adjacency R P F1, orientation R P F1, causal accuracy, SHD"""
    return [round(value, 4) for value in structure_scores(predicted, truth).as_dict().values()]


# Worked out by hand


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ([(0, 1)], [1, 1, 1, 1, 1, 1, 1, 0]),
        ([(1, 0)], [1, 1, 1, 0, 0, 0, 0, 1]),
        # A two-way edge is the wrong type, but holds the true direction.
        ([(0, 1), (1, 0)], [1, 1, 1, 0, 0, 0, 1, 1]),
        ([], [0, 0, 0, 0, 0, 0, 0, 1]),
    ],
)
def test_two_nodes_one_true_edge(predicted, expected):
    assert rounded(graph(2, *predicted), graph(2, (0, 1))) == expected


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ([(0, 1), (1, 0)], [1, 1, 1, 1, 1, 1, 1, 0]),
        # One of the two true directed edges is found.
        ([(0, 1)], [1, 1, 1, 0, 0, 0, 0.5, 1]),
    ],
)
def test_two_nodes_two_way_truth(predicted, expected):
    assert rounded(graph(2, *predicted), graph(2, (0, 1), (1, 0))) == expected


@pytest.mark.parametrize(
    ("predicted", "truth", "expected"),
    [
        # Chain; pair 01 right, pair 12 missing, pair 02 extra.
        ([(0, 1), (0, 2)], [(0, 1), (1, 2)], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 2]),
        # All three pairs predicted, 12 the wrong way round, 02 extra.
        ([(0, 1), (2, 1), (0, 2)], [(0, 1), (1, 2)], [1, 0.6667, 0.8, 0.5, 0.3333, 0.4, 0.5, 2]),
        # 01 two-way, which is the wrong type, 12 right; both true directed edges are in.
        ([(0, 1), (1, 0), (1, 2)], [(0, 1), (1, 2)], [1, 1, 1, 0.5, 0.5, 0.5, 1, 1]),
        # Truth 0 <-> 1 -> 2: three directed edges, of which 0 -> 1 and 1 -> 2 are predicted.
        ([(0, 1), (1, 2)], [(0, 1), (1, 0), (1, 2)], [1, 1, 1, 0.5, 0.5, 0.5, 0.6667, 1]),
        # One of three joined pairs is found.
        ([(0, 2)], [(0, 1), (1, 2), (0, 2)], [0.3333, 1, 0.5, 0.3333, 1, 0.5, 0.3333, 2]),
    ],
)
def test_three_nodes(predicted, truth, expected):
    assert rounded(graph(3, *predicted), graph(3, *truth)) == expected


def test_empty_graphs():
    assert rounded(graph(3), graph(3)) == [1, 1, 1, 1, 1, 1, 1, 0]
    assert rounded(graph(3, (0, 1)), graph(3)) == [0, 0, 0, 0, 0, 0, 0, 1]
    assert rounded(graph(3), graph(3, (0, 1))) == [0, 0, 0, 0, 0, 0, 0, 1]
    assert rounded(graph(1), graph(1)) == [1, 1, 1, 1, 1, 1, 1, 0]


def test_scores_are_plain_numbers():
    scores = structure_scores(graph(3, (0, 1), (0, 2)), graph(3, (0, 1))).as_dict()
    assert {type(value) for value in scores.values()} == {float, int}


def test_names_of_the_scores():
    assert list(structure_scores(graph(2), graph(2)).as_dict()) == [
        "adjacency_recall",
        "adjacency_precision",
        "adjacency_f1",
        "orientation_recall",
        "orientation_precision",
        "orientation_f1",
        "causal_accuracy",
        "shd",
    ]


def test_ranking_by_hand():
    # Off-diagonal pairs by probability: 01 .9 edge, 10 .6 none, 12 .6 edge, 02 .2 none, 20 .1 none, 21 .0 none.
    probabilities = np.array([[0.5, 0.9, 0.2], [0.6, 0.5, 0.6], [0.1, 0.0, 0.5]])
    truth = graph(3, (0, 1), (1, 2))
    # 2 x 4 comparisons: 01 wins 4; 12 wins 3 and ties 1.
    assert edge_auroc(probabilities, truth) == pytest.approx(7.5 / 8)
    # Threshold .9: recall 1/2, precision 1. Threshold .6, both tied pairs at once: recall 1, precision 2/3.
    assert edge_aupr(probabilities, truth) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_equal_probabilities_know_nothing():
    truth = graph(3, (0, 1), (1, 2))
    assert edge_auroc(np.full((3, 3), 0.3), truth) == 0.5
    assert edge_aupr(np.full((3, 3), 0.3), truth) == pytest.approx(2 / 6)


def test_ranking_is_undefined_without_both_kinds_of_pair():
    assert math.isnan(edge_auroc(np.zeros((2, 2)), graph(2)))
    assert math.isnan(edge_auroc(np.zeros((2, 2)), np.ones((2, 2))))
    assert math.isnan(edge_aupr(np.zeros((2, 2)), graph(2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: structure_scores(np.zeros((2, 3)), graph(2)), "predicted has shape"),
        (lambda: structure_scores(graph(3), graph(2)), "same nodes"),
        (lambda: structure_scores(np.full((2, 2), 0.4), graph(2)), "threshold"),
        (lambda: structure_scores(graph(2), np.full((2, 2), np.nan)), "truth holds"),
        (lambda: edge_auroc(np.zeros((3, 3)), graph(2)), "same nodes"),
        (lambda: edge_aupr(np.full((2, 2), np.nan), graph(2, (0, 1))), "NaN"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


# Properties


@st.composite
def pair_of_graphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 6))
    return draw(npst.arrays(bool, (n, n))), draw(npst.arrays(bool, (n, n)))


@st.composite
def one_way_graph(draw: st.DrawFn) -> np.ndarray:
    """At least one edge, no pair joined both ways."""
    n = draw(st.integers(2, 6))
    types = draw(npst.arrays(np.int8, (n, n), elements=st.integers(0, 2)).filter(lambda t: np.triu(t, 1).any()))
    return np.triu(types == 1, 1) | np.triu(types == 2, 1).T


@settings(max_examples=50, deadline=None)
@given(pair_of_graphs())
def test_scores_are_shares_and_shd_counts_pairs(graphs):
    scores = structure_scores(*graphs).as_dict()
    n = len(graphs[0])
    assert 0 <= scores.pop("shd") <= n * (n - 1) / 2
    assert all(0 <= value <= 1 for value in scores.values())


@settings(max_examples=50, deadline=None)
@given(pair_of_graphs())
def test_a_perfect_prediction(graphs):
    scores = structure_scores(graphs[0], graphs[0]).as_dict()
    assert scores.pop("shd") == 0
    assert set(scores.values()) == {1.0}


@settings(max_examples=50, deadline=None)
@given(pair_of_graphs(), st.randoms(use_true_random=False))
def test_names_of_the_nodes_do_not_matter(graphs, random):
    order = list(range(len(graphs[0])))
    random.shuffle(order)
    relabelled = [matrix[np.ix_(order, order)] for matrix in graphs]
    assert structure_scores(*relabelled) == structure_scores(*graphs)


@settings(max_examples=50, deadline=None)
@given(one_way_graph())
def test_reversing_every_edge(truth):
    scores = structure_scores(truth.T, truth)
    assert (scores.adjacency_recall, scores.adjacency_precision, scores.adjacency_f1) == (1, 1, 1)
    assert (scores.orientation_recall, scores.orientation_precision, scores.orientation_f1) == (0, 0, 0)
    assert scores.causal_accuracy == 0
    assert scores.shd == truth.sum()


@settings(max_examples=50, deadline=None)
@given(pair_of_graphs())
def test_the_diagonal_is_not_looked_at(graphs):
    bare = [matrix & ~np.eye(len(matrix), dtype=bool) for matrix in graphs]
    assert structure_scores(*graphs) == structure_scores(*bare)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 8]))
def test_ranking_agrees_with_scikit_learn(n, seed, decimals):
    # Few decimals make many ties.
    rng = np.random.default_rng(seed)
    probabilities, truth = rng.random((n, n)).round(decimals), rng.random((n, n)) < 0.4
    truth[0, 1], truth[1, 0] = True, False
    pairs = ~np.eye(n, dtype=bool)
    assert edge_auroc(probabilities, truth) == pytest.approx(roc_auc_score(truth[pairs], probabilities[pairs]))
    assert edge_aupr(probabilities, truth) == pytest.approx(average_precision_score(truth[pairs], probabilities[pairs]))


# Against gadjid, which codes a pair that is not directed as 2 and takes partially directed acyclic graphs alone: cycles
# and a pair of opposite edges, which ours may hold, it refuses. Our two-way pair is its undirected one.


@st.composite
def pair_of_partial_dags(draw: st.DrawFn, two_way: float) -> tuple[np.ndarray, np.ndarray]:
    """Over the same nodes, each with an order of its own; 2 for the share of edges that is not directed."""
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    graphs = []
    for share in rng.random(2):
        edges = np.triu(rng.random((n, n)) < share, 1)
        codes = np.where(edges & (rng.random((n, n)) < two_way), 2, edges).astype(np.int8)
        order = rng.permutation(n)
        graphs.append(codes[np.ix_(order, order)])
    return graphs[0], graphs[1]


def with_both_directions(codes: np.ndarray) -> np.ndarray:
    return (codes > 0) | (codes == 2).T


@settings(max_examples=100, deadline=None)
@given(pair_of_partial_dags(two_way=0.0))
def test_shd_agrees_with_gadjid_on_dags(graphs):
    # A reversed edge is one mistake in both.
    share, mistakes = gadjid.shd(*graphs)
    assert structure_scores(graphs[1], graphs[0]).shd == mistakes
    n_pairs = max(1, len(graphs[0]) * (len(graphs[0]) - 1) // 2)
    assert share == pytest.approx(mistakes / n_pairs)


@settings(max_examples=100, deadline=None)
@given(pair_of_partial_dags(two_way=0.4))
def test_shd_agrees_with_gadjid_on_partly_directed_graphs(graphs):
    ours = structure_scores(with_both_directions(graphs[1]), with_both_directions(graphs[0])).shd
    assert ours == gadjid.shd(*graphs)[1]
