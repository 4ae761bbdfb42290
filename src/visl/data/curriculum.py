"""Topics, the areas they belong to, and which topic is a prerequisite of which."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visl.errors import InputError

BoolArray = NDArray[np.bool_]

# In alphabetical order, where about half of the edges below point forward: the order gives no direction away.
MATHS_AREAS: dict[str, str] = {
    "Addition and subtraction": "Number",
    "Angles": "Geometry",
    "Coordinates": "Geometry",
    "Enlargement": "Geometry",
    "Expressions": "Algebra",
    "Fractions": "Number",
    "Graphs of straight lines": "Algebra",
    "Linear equations": "Algebra",
    "Multiplication and division": "Number",
    "Percentages": "Number",
    "Perimeter and area": "Geometry",
    "Place value": "Number",
}
MATHS_TOPICS: tuple[str, ...] = tuple(MATHS_AREAS)
# A prerequisite of a prerequisite is not listed again: in `hierarchy` such an edge leaves no trace in the data.
MATHS_PREREQUISITES: tuple[tuple[str, str], ...] = (
    ("Place value", "Addition and subtraction"),
    ("Place value", "Coordinates"),
    ("Addition and subtraction", "Angles"),
    ("Addition and subtraction", "Multiplication and division"),
    ("Multiplication and division", "Expressions"),
    ("Multiplication and division", "Fractions"),
    ("Multiplication and division", "Perimeter and area"),
    ("Fractions", "Percentages"),
    ("Fractions", "Linear equations"),
    ("Fractions", "Enlargement"),
    ("Expressions", "Linear equations"),
    ("Angles", "Enlargement"),
    ("Perimeter and area", "Enlargement"),
    ("Coordinates", "Graphs of straight lines"),
    ("Linear equations", "Graphs of straight lines"),
)

TOPICS_PER_AREA = 4  # for unnamed topics


def random_prerequisites(topics: int, edge_probability: float, rng: np.random.Generator) -> BoolArray:
    """A random acyclic graph whose hidden order has nothing to do with the topics' numbers.  -> (topics, topics)"""
    if not 0 <= edge_probability <= 1:
        raise InputError(f"edge_probability {edge_probability} is no probability: give a number from 0 to 1")
    order = rng.permutation(topics)
    forward = np.triu(rng.random((topics, topics)) < edge_probability, k=1)
    return forward[np.ix_(order, order)]


def depths(edges: BoolArray) -> NDArray[np.int64]:
    """Edges on the longest way into each topic; sorting by it puts prerequisites first.  (M, M) -> (M,)"""
    depth = np.zeros(len(edges), dtype=np.int64)
    for _ in range(len(edges)):
        deeper = np.where(edges, depth[:, None] + 1, 0).max(axis=0)
        if np.array_equal(deeper, depth):
            return depth
        depth = deeper
    raise InputError("edges hold a cycle: no topic can be a prerequisite of itself; remove one edge of the cycle")


def curriculum(
    M: int, edges: ArrayLike | None, edge_probability: float, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...], BoolArray]:
    """Names and areas of the topics, and their graph."""
    if edges is None and len(MATHS_TOPICS) == M:
        return MATHS_TOPICS, tuple(MATHS_AREAS.values()), _maths_edges()
    graph = np.asarray(random_prerequisites(M, edge_probability, rng) if edges is None else edges)
    if graph.shape != (M, M) or not np.isin(graph, (0, 1)).all():
        raise InputError(
            f"edges of shape {graph.shape}: give a ({M}, {M}) matrix of 0 and 1, or set topics to its size"
        )
    names = tuple(f"topic {m + 1}" for m in range(M))
    return names, tuple(f"area {m // TOPICS_PER_AREA + 1}" for m in range(M)), graph.astype(bool)


def _maths_edges() -> BoolArray:
    edges = np.zeros((len(MATHS_TOPICS), len(MATHS_TOPICS)), dtype=bool)
    for before, after in MATHS_PREREQUISITES:
        edges[MATHS_TOPICS.index(before), MATHS_TOPICS.index(after)] = True
    return edges
