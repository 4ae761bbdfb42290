"""Which directions of a DAG all DAGs with the same independences share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]


def compelled_edges(graph: BoolArray, known: BoolArray | None = None) -> BoolArray:
    """The edges that lead the same way in every DAG that joins the same pairs, has the same colliders, and agrees with
    directions that are known; by the rules of Meek (1995).  (M, M), acyclic, [from, to] -> (M, M)

    known: edges whose direction prior knowledge tells
    """
    joined = graph | graph.T
    compelled = _colliders(graph, joined)
    if known is not None:
        compelled |= graph & known
    while True:
        found = [(a, b) for a, b in np.argwhere(graph & ~compelled) if _follows(a, b, compelled, joined)]
        if not found:
            return compelled
        compelled[tuple(np.transpose(found))] = True


def _colliders(graph: BoolArray, joined: BoolArray) -> BoolArray:
    """The edges a -> b <- c of pairs a, c that are not joined."""
    result = np.zeros_like(graph)
    for b in range(len(graph)):
        parents = np.flatnonzero(graph[:, b])
        apart = ~joined[np.ix_(parents, parents)] & ~np.eye(len(parents), dtype=bool)
        result[parents[apart.any(1)], b] = True
    return result


def _follows(a: int, b: int, compelled: BoolArray, joined: BoolArray) -> bool:
    """Whether b -> a would make a new collider or a cycle."""
    open_ = joined[a] & ~compelled[a] & ~compelled[:, a]  # neighbours of a by edges of which no direction is known
    into_b = np.flatnonzero(open_ & compelled[:, b])
    return bool(
        (compelled[:, a] & ~joined[b]).any()
        or (compelled[a] & compelled[:, b]).any()
        or (~joined[np.ix_(into_b, into_b)]).sum() > len(into_b)  # two of them that are not joined
        or (np.outer(open_ & ~joined[b], joined[a] & compelled[:, b]) & compelled).any()
    )
