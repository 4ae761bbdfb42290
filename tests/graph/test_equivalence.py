"""Directions that all equivalent DAGs share, against a list of all of them."""

import itertools
from collections import defaultdict

import networkx as nx
import numpy as np
import pytest

from visl.graph.equivalence import compelled_edges


def all_dags(n):
    pairs = list(itertools.combinations(range(n), 2))
    for ways in itertools.product((0, 1, 2), repeat=len(pairs)):
        graph = np.zeros((n, n), bool)
        for (i, j), way in zip(pairs, ways, strict=True):
            graph[i, j], graph[j, i] = way == 1, way == 2
        if nx.is_directed_acyclic_graph(nx.from_numpy_array(graph, create_using=nx.DiGraph)):
            yield graph


def what_is_told(graph):
    """Pairs that are joined, and colliders (Verma and Pearl)."""
    joined = graph | graph.T
    colliders = {
        (a, b, c)
        for b in range(len(graph))
        for a, c in itertools.combinations(np.flatnonzero(graph[:, b]).tolist(), 2)
        if not joined[a, c]
    }
    return joined.tobytes(), frozenset(colliders)


@pytest.fixture(scope="module")
def classes():
    found = defaultdict(list)
    for graph in itertools.chain(all_dags(3), all_dags(4)):
        found[len(graph), what_is_told(graph)].append(graph)
    return list(found.values())


def test_there_are_as_many_classes_as_is_known(classes):
    assert sum(len(graphs[0]) == 3 for graphs in classes) == 11
    assert sum(len(graphs[0]) == 4 for graphs in classes) == 185


def test_compelled_edges_are_those_of_all_equivalent_graphs(classes):
    for graphs in classes:
        shared = np.logical_and.reduce(graphs)
        for graph in graphs:
            np.testing.assert_array_equal(compelled_edges(graph), shared)


def test_and_with_a_known_direction_of_those_that_have_it(classes):
    for graphs in classes:
        for graph in graphs:
            for i, j in np.argwhere(graph):
                known = np.zeros_like(graph)
                known[i, j] = True
                shared = np.logical_and.reduce([other for other in graphs if other[i, j]])
                np.testing.assert_array_equal(compelled_edges(graph, known), shared)
