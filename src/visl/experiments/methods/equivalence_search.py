"""Greedy equivalence search (Chickering 2002): the best insertion of an edge while one raises the score, then the best
deletion. It moves between classes of DAGs that no data can tell apart, each written as one partly directed graph.

An operator's gain depends on few sets around its pair, so after a step only the pairs whose sets changed are scored
again; whether a path forbids an insertion is asked only of the candidate with the highest gain.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from visl.experiments.methods.patterns import Pattern
from visl.experiments.problem import BoolArray

Score = Callable[[int, frozenset[int]], float]  # of a node given its parents
Candidate = tuple[float, int, int, tuple[int, ...], int]  # -gain, from, to, the set that goes with it, stamp

_LEAST_GAIN = 1e-9  # less is rounding


def greedy_equivalence_search(score: Score, n_nodes: int) -> BoolArray:
    """-> (n_nodes, n_nodes), [from, to]; an undirected edge has both."""
    remembered = _Remembered(score)
    pattern = _Insertions(remembered, n_nodes).run()
    while (best := _best_deletion(pattern, remembered)) is not None:
        pattern = pattern.after_deletion(*best)
    return pattern.edges()


class _Remembered:
    """Scores are asked for again and again."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._known: dict[tuple[int, frozenset[int]], float] = {}

    def gain(self, source: int, target: int, others: frozenset[int]) -> float:
        """Of `source` as one more parent of `target`."""
        return self._of(target, others | {source}) - self._of(target, others)

    def _of(self, node: int, parents: frozenset[int]) -> float:
        key = (node, parents)
        if key not in self._known:
            self._known[key] = self._score(node, parents)
        return self._known[key]


class _Insertions:
    def __init__(self, scores: _Remembered, n_nodes: int) -> None:
        self._scores, self._n_nodes = scores, n_nodes
        self._pattern = Pattern.without_edges(n_nodes)
        self._queue: list[Candidate] = []
        self._stamps = np.zeros((n_nodes, n_nodes), dtype=np.int64)  # of the pair's candidates that still hold

    def run(self) -> Pattern:
        self._score_again((i, j) for i in range(self._n_nodes) for j in range(self._n_nodes))
        while (best := self._best()) is not None:
            before = self._pattern
            self._pattern = before.after_insertion(*best)
            self._score_again(self._touched(before, best[0], best[1]))
        return self._pattern

    def _best(self) -> tuple[int, int, tuple[int, ...]] | None:
        """The highest gain that no path forbids; forbidden ones wait, for the path may go."""
        waiting: list[Candidate] = []
        found = None
        while self._queue and found is None:
            candidate = heapq.heappop(self._queue)
            _, source, target, turned, stamp = candidate
            if stamp != self._stamps[source, target]:
                continue
            blocked = self._pattern.shared_neighbours(source, target) | set(turned)
            if self._pattern.has_path(target, source, blocked):
                waiting.append(candidate)
            else:
                found = source, target, turned
        for candidate in waiting:
            heapq.heappush(self._queue, candidate)
        return found

    def _score_again(self, pairs: Iterable[tuple[int, int]]) -> None:
        for source, target in pairs:
            self._stamps[source, target] += 1
            if source != target and source not in self._pattern.adjacent(target):
                self._score_pair(source, target)

    def _score_pair(self, source: int, target: int) -> None:
        pattern, stamp = self._pattern, int(self._stamps[source, target])
        shared = pattern.shared_neighbours(source, target)
        if not pattern.is_clique(shared):
            return
        free = sorted(pattern.neighbours[target] - pattern.adjacent(source))
        for turned in _cliques(pattern, shared, free):
            others = frozenset(shared | set(turned) | pattern.parents[target])
            gain = self._scores.gain(source, target, others)
            if gain > _LEAST_GAIN:
                heapq.heappush(self._queue, (-gain, source, target, turned, stamp))

    def _touched(self, before: Pattern, source: int, target: int) -> set[tuple[int, int]]:
        """Pairs whose candidates may differ: around nodes with other neighbours or parents than before, around nodes
        that see the new edge close a triangle, and from its two ends."""
        after, nodes = self._pattern, range(self._n_nodes)
        changed = {
            i for i in nodes if after.neighbours[i] != before.neighbours[i] or after.parents[i] != before.parents[i]
        }
        changed |= {i for i in nodes if source in after.neighbours[i] and target in after.neighbours[i]}
        return {(i, j) for j in changed for i in nodes} | {(i, j) for i in (source, target) for j in nodes}


def _best_deletion(pattern: Pattern, scores: _Remembered) -> tuple[int, int, tuple[int, ...]] | None:
    best, best_gain = None, _LEAST_GAIN
    for source, target in pattern.pairs():
        shared = pattern.shared_neighbours(source, target)
        for kept in _cliques(pattern, set(), sorted(shared)):
            others = frozenset((set(kept) | pattern.parents[target]) - {source})
            gain = -scores.gain(source, target, others)
            if gain > best_gain:
                best, best_gain = (source, target, tuple(sorted(shared - set(kept)))), gain
    return best


def _cliques(pattern: Pattern, core: set[int], free: list[int]) -> Iterator[tuple[int, ...]]:
    """Every subset of `free`, the empty one too, that together with `core` is all joined."""
    grown: list[tuple[int, ...]] = [()]
    while grown:
        clique = grown.pop()
        yield clique
        for node in free:
            if (not clique or node > clique[-1]) and core.union(clique) <= pattern.adjacent(node):
                grown.append((*clique, node))
