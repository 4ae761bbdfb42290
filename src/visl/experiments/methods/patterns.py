"""A partly directed graph that stands for all DAGs with the same independences (a CPDAG)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from visl.experiments.problem import BoolArray

Sets = list[set[int]]


class Pattern:
    """`parents` by directed edges, `neighbours` by undirected ones. Never changed once made."""

    def __init__(self, neighbours: Sets, parents: Sets) -> None:
        self.neighbours, self.parents = neighbours, parents
        self.children = _reversed(parents)
        self._adjacent = [neighbours[i] | parents[i] | self.children[i] for i in range(len(parents))]

    @classmethod
    def without_edges(cls, n_nodes: int) -> Pattern:
        return cls([set() for _ in range(n_nodes)], [set() for _ in range(n_nodes)])

    def adjacent(self, node: int) -> set[int]:
        return self._adjacent[node]

    def shared_neighbours(self, source: int, target: int) -> set[int]:
        """Neighbours of the target that are joined with the source."""
        return self.neighbours[target] & self._adjacent[source]

    def is_clique(self, nodes: set[int]) -> bool:
        return all(nodes - {node} <= self._adjacent[node] for node in nodes)

    def has_path(self, start: int, end: int, blocked: set[int]) -> bool:
        """Along undirected edges and arrows, around the blocked nodes."""
        seen, ahead = {start} | blocked, [start]
        while ahead:
            node = ahead.pop()
            following = (self.neighbours[node] | self.children[node]) - seen
            if end in following:
                return True
            seen |= following
            ahead.extend(following)
        return False

    def pairs(self) -> Iterator[tuple[int, int]]:
        """(i, j) for i -> j; both orders for an undirected edge."""
        for node in range(len(self.parents)):
            for other in sorted(self.neighbours[node] | self.parents[node]):
                yield other, node

    def edges(self) -> BoolArray:
        """[from, to]"""
        matrix = np.zeros((len(self.parents), len(self.parents)), dtype=bool)
        for source, target in self.pairs():
            matrix[source, target] = True
        return matrix

    def after_insertion(self, source: int, target: int, turned: Iterable[int]) -> Pattern:
        """source -> target; undirected edges between `turned` and the target now point at it."""
        neighbours, parents = _copy(self.neighbours), _copy(self.parents)
        parents[target].add(source)
        for node in turned:
            _direct(neighbours, parents, node, target)
        return _completed(neighbours, parents)

    def after_deletion(self, source: int, target: int, turned: Iterable[int]) -> Pattern:
        """Without the edge; undirected edges from its ends to `turned` now point at those."""
        neighbours, parents = _copy(self.neighbours), _copy(self.parents)
        neighbours[source].discard(target)
        neighbours[target].discard(source)
        parents[target].discard(source)
        for node in turned:
            _direct(neighbours, parents, target, node)
            if node in neighbours[source]:
                _direct(neighbours, parents, source, node)
        return _completed(neighbours, parents)


def _completed(neighbours: Sets, parents: Sets) -> Pattern:
    """The pattern of the DAGs that agree with a partly directed graph."""
    order = _direct_all(neighbours, parents)
    return _pattern_of_dag(parents, order)


def _direct_all(neighbours: Sets, parents: Sets) -> list[int]:
    """Gives every undirected edge a direction, in place, with no new collider and no cycle (Dor and Tarsi 1992).

    Takes away nodes that can be last, one after the other.  -> an order of causes
    """
    children, left = _reversed(parents), set(range(len(parents)))
    current, taken = _copy(parents), []
    waiting = deque(range(len(parents)))
    while waiting:
        node = waiting.popleft()
        if node not in left or children[node] or not _can_be_last(node, neighbours, current, children):
            continue
        around = neighbours[node] | current[node]
        for neighbour in sorted(neighbours[node]):
            _direct(neighbours, parents, neighbour, node)
        for parent in current[node]:
            children[parent].discard(node)
        left.discard(node)
        taken.append(node)
        waiting.extend(sorted(around))
    if left:
        raise RuntimeError("no DAG agrees with this graph: an operator was not valid")
    return taken[::-1]


def _can_be_last(node: int, neighbours: Sets, parents: Sets, children: Sets) -> bool:
    """Each undirected neighbour is joined with all others around the node."""
    around = neighbours[node] | parents[node]
    return all(around - {n} <= neighbours[n] | parents[n] | children[n] for n in neighbours[node])


def _pattern_of_dag(parents: Sets, order: list[int]) -> Pattern:
    """Chickering 1995: an edge is compelled, or can be turned in another DAG of the class."""
    place = {node: at for at, node in enumerate(order)}
    compelled: Sets = [set() for _ in parents]
    neighbours: Sets = [set() for _ in parents]
    for target in order:
        known = _compelled_parents(target, parents, compelled, place)
        compelled[target] |= known
        for source in parents[target] - known:
            neighbours[target].add(source)
            neighbours[source].add(target)
    return Pattern(neighbours, compelled)


def _compelled_parents(target: int, parents: Sets, compelled: Sets, place: dict[int, int]) -> set[int]:
    """Given those of all nodes before the target; its last parent decides about all the others."""
    if not parents[target]:
        return set()
    last = max(parents[target], key=place.__getitem__)
    others = parents[target] - {last}
    meets_compelled = not compelled[last] <= others
    is_collider = not others <= parents[last]
    return parents[target] if meets_compelled or is_collider else compelled[last]


def _direct(neighbours: Sets, parents: Sets, source: int, target: int) -> None:
    neighbours[source].discard(target)
    neighbours[target].discard(source)
    parents[target].add(source)


def _copy(sets: Sets) -> Sets:
    return [set(members) for members in sets]


def _reversed(parents: Sets) -> Sets:
    children: Sets = [set() for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            children[parent].add(node)
    return children
