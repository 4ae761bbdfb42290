"""The graph in which exact fits predict rows best: climbed to by adding, dropping and turning edges one at a time."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PARENT_COST = 5.0  # nats, in all rows together, that an edge must be worth: of many candidates some seem worth a little
LEAST_STEP = 0.1  # nats
LEANING = 8.0  # nats by which the two directions of an edge differ by chance of the fits, beyond that of the rows
MOST_FLIPS = 4  # of one edge: with gaps one graph may be better in some rows and another in others, round and round
KEPT_SETS = 8  # of parents of each group, whose gains are remembered ...
KEPT_NUMBERS = 1 << 26  # ... or fewer, but one at least, if that is more than so many numbers

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Edge = tuple[int, int]

# (group, its parents (M,), one more group or one of them) -> (N,) nats that this one is worth to each row beside the
# others; NaN where a row has a gap, everywhere if rows are too few.
Gain = Callable[[int, BoolArray, int], FloatArray]


@dataclass(frozen=True)
class _Worth:
    """Of one parent of a group."""

    gain: FloatArray  # (N,), 0 where not seen
    seen: BoolArray  # (N,)


@dataclass(frozen=True)
class Chance:
    """Another data set of the same kind: rows drawn with replacement, and directions that come out a bit differently.

    Of graphs that tell the same, which fits prefer is chance that their rows do not show.
    """

    weights: FloatArray  # (N,) of the rows
    leaning: FloatArray  # (M, M) nats that are added for an edge: 0 or less, and 0 one way or the other

    @classmethod
    def draw(cls, n_rows: int, n_groups: int, rng: np.random.Generator) -> Chance:
        weights = rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows)).astype(float)
        apart = np.triu(LEANING * rng.standard_normal((n_groups, n_groups)), 1)
        return cls(weights, np.minimum(0.0, apart - apart.T))


class GraphClimb:
    def __init__(self, gain: Gain, open_: BoolArray) -> None:
        """open_: (M, M), the edges that may be added, dropped and, if their reverse is among them, turned"""
        self.gain, self.open_ = gain, open_
        self._known: list[OrderedDict[bytes, dict[int, _Worth]]] = [OrderedDict() for _ in range(len(open_))]

    def narrowed(self, open_: BoolArray) -> GraphClimb:
        """One over fewer edges, which shares what is known of them."""
        result = GraphClimb(self.gain, open_)
        result._known = self._known
        return result

    def grown(self, graph: BoolArray) -> BoolArray:
        """Only add edges, the best first, as long as one is worth its cost.  (M, M), acyclic -> (M, M)

        Beside more parents an edge is mostly worth less, so each is looked at again only when it comes first.
        """
        graph, from_to, n_parents_of = graph.copy(), reaches(graph), graph.sum(0)
        asked = [(-np.inf, -1, i, j) for i, j in np.argwhere(self.open_ & ~graph).tolist()]
        while asked:
            _, n_parents, i, j = heapq.heappop(asked)
            if from_to[j, i]:
                continue
            if n_parents != n_parents_of[j]:
                worth = self.worth(i, j, graph).gain.sum() - PARENT_COST
                if worth > LEAST_STEP:
                    heapq.heappush(asked, (-worth, int(n_parents_of[j]), i, j))
                continue
            graph[i, j] = True
            n_parents_of[j] += 1
            from_to |= np.outer(from_to[:, i] | (np.arange(len(graph)) == i), from_to[j] | (np.arange(len(graph)) == j))
        return graph

    def climbed(self, graph: BoolArray, chance: Chance | None = None) -> BoolArray:
        """Take the best step, until none is worth more than LEAST_STEP.  (M, M), acyclic -> (M, M)"""
        passed, flips, way = {graph.tobytes()}, np.zeros(graph.shape, int), _Way(self, chance)
        while True:
            better = [(value, edges) for value, edges in way.steps(graph) if value > LEAST_STEP]
            for _, edges in sorted(better, reverse=True):
                step = _flipped(graph, edges)
                if step.tobytes() not in passed and all(flips[edge] < MOST_FLIPS for edge in edges):
                    break
            else:
                return graph
            passed.add(step.tobytes())
            way.forget({j for _, j in edges})
            flips += step != graph
            graph = step

    def worth(self, i: int, j: int, graph: BoolArray) -> _Worth:
        """Of i to j."""
        sets, parents = self._known[j], graph[:, j]
        key = parents.tobytes()
        known = sets.setdefault(key, {})
        sets.move_to_end(key)
        if i not in known:
            gain = self.gain(j, parents, i)
            if len(sets) > max(1, min(KEPT_SETS, KEPT_NUMBERS // (len(gain) * int(self.open_.sum())))):
                sets.popitem(last=False)
            known[i] = _Worth(np.nan_to_num(gain), ~np.isnan(gain))
        return known[i]


class _Way:
    """The steps of one climb: edges that are flipped, and the nats gained. Those of groups whose parents have not
    changed are known."""

    def __init__(self, climb: GraphClimb, chance: Chance | None) -> None:
        self.climb, self.chance = climb, chance
        self._changes: dict[int, FloatArray] = {}
        self._turns: dict[Edge, tuple[float, list[Edge]]] = {}

    def forget(self, groups: set[int]) -> None:
        """Their parents have changed."""
        for j in groups:
            self._changes.pop(j, None)
        self._turns = {edge: turn for edge, turn in self._turns.items() if groups.isdisjoint(edge)}

    def steps(self, graph: BoolArray) -> Iterator[tuple[float, list[Edge]]]:
        """All that end in an acyclic graph."""
        open_, from_to = self.climb.open_, reaches(graph)
        for j in np.flatnonzero(open_.any(0)).tolist():
            if j not in self._changes:
                self._changes[j] = self._changes_of(j, graph)
            for i in np.flatnonzero((self._changes[j] > LEAST_STEP) & ~from_to[j]).tolist():
                yield float(self._changes[j][i]), [(i, j)]
        further = (graph.astype(np.float32) @ from_to) > 0  # whether a way leads there beside the edge
        for i, j in np.argwhere(graph & open_ & open_.T & ~further).tolist():
            if (i, j) not in self._turns:
                self._turns[i, j] = self._turn(i, j, graph)
            yield self._turns[i, j]

    def _changes_of(self, j: int, graph: BoolArray) -> FloatArray:
        """(M,) of each open edge to j, added or dropped."""
        result = np.full(len(graph), -np.inf)
        for i in np.flatnonzero(self.climb.open_[:, j]).tolist():
            result[i] = self._change(i, j, graph)
        return result

    def _change(self, i: int, j: int, graph: BoolArray) -> float:
        """Of an edge that is added if it is absent, else dropped."""
        worth = self.climb.worth(i, j, graph)
        if not worth.seen.any():
            return -np.inf
        gained = self._total(worth.gain) + self._leaning(i, j) - PARENT_COST
        return -gained if graph[i, j] else gained

    def _turn(self, i: int, j: int, graph: BoolArray) -> tuple[float, list[Edge]]:
        """Of i -> j into j -> i, in the rows that see the parents of both. What either no longer needs then is dropped
        at once: in the wrong order of two groups, edges to both may be needed."""
        now, then = self.climb.worth(i, j, graph), self.climb.worth(j, i, graph)
        seen = now.seen & then.seen
        edges = [(i, j), (j, i)]
        if not seen.any():
            return -np.inf, edges
        value = self._total((then.gain - now.gain) * seen) + self._leaning(j, i) - self._leaning(i, j)
        step = _flipped(graph, edges)
        while value > -PARENT_COST * int(step[:, [i, j]].sum()):  # else drops cannot make up for it
            ends = [(k, end) for end in (i, j) for k in np.flatnonzero(step[:, end]).tolist()]
            drops = [(self._change(k, end, step), (k, end)) for k, end in ends if self.climb.open_[k, end]]
            gained, edge = max(drops, default=(0.0, (i, j)))
            if gained <= 0:
                break
            value, step = value + gained, _flipped(step, [edge])
            edges.append(edge)
        return value, edges

    def _total(self, gain: FloatArray) -> float:
        return float(gain.sum() if self.chance is None else gain @ self.chance.weights)

    def _leaning(self, i: int, j: int) -> float:
        return 0.0 if self.chance is None else float(self.chance.leaning[i, j])


def _flipped(graph: BoolArray, edges: list[Edge]) -> BoolArray:
    """With those edges that were absent, without those that were there."""
    result = graph.copy()
    for edge in edges:
        result[edge] = not result[edge]
    return result


def reaches(graph: BoolArray) -> BoolArray:
    """(M, M) whether a path leads from one group to another."""
    result = graph.copy()
    for k in range(len(graph)):
        result |= np.outer(result[:, k], result[k])
    return result
