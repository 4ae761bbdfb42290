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
# Nats by which the two directions of an edge may differ by chance of the fits, beyond that of the rows: of straight
# lines with normal noise they do by up to 7 as a standard deviation, and by 27 in one of a hundred pairs.
LEANING = 24.0
MOST_FLIPS = 4  # of one edge: with gaps one graph may be better in some rows and another in others, round and round
TURNS_OF_A_GROUP = 2  # edges that are turned for each, on the way to another start
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
    seed: int  # of the way to another start

    @classmethod
    def draw(cls, n_rows: int, n_groups: int, rng: np.random.Generator) -> Chance:
        weights = rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows)).astype(float)
        apart = np.triu(LEANING * rng.standard_normal((n_groups, n_groups)), 1)
        return cls(weights, np.minimum(0.0, apart - apart.T), int(rng.integers(1 << 31)))


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
        return self._climbed(graph, chance)[0]

    def resampled(self, graph: BoolArray, chance: Chance) -> BoolArray:
        """The better end of two climbs: from this graph, and from a random one that tells the same independences.

        To lead another way, a chain of straight lines must turn all its edges, one after the other: few climbs get from
        one end to the other, and without another start it would seem as if its direction were known.
        """
        other, so_far = self._equivalent(graph, chance)
        near, of_near = self._climbed(graph, chance)
        far, of_far = self._climbed(other, chance)
        return far if so_far + of_far > of_near else near

    def _equivalent(self, graph: BoolArray, chance: Chance) -> tuple[BoolArray, float]:
        """Edges i -> j are turned, drawn at random, where the other parents of j are those of i: then, and only then,
        the independences stay (Chickering 1995). The graph, and the nats that were gained on the way."""
        rng, way, value = np.random.default_rng(chance.seed), _Way(self, chance), 0.0
        for _ in range(TURNS_OF_A_GROUP * len(graph)):
            senders, receivers = np.nonzero(graph & self.open_ & self.open_.T)
            covered = np.flatnonzero((graph[:, senders] ^ graph[:, receivers]).sum(0) == 1)
            if not len(covered):
                break
            edge = rng.choice(covered)
            i, j = int(senders[edge]), int(receivers[edge])
            gained = way.turned(i, j, graph)
            if gained > -np.inf:
                value, graph = value + gained, _flipped(graph, [(i, j), (j, i)])
        return graph, value

    def _climbed(self, graph: BoolArray, chance: Chance | None) -> tuple[BoolArray, float]:
        """And the nats that were gained."""
        passed, flips, way, total = {graph.tobytes()}, np.zeros(graph.shape, int), _Way(self, chance), 0.0
        while True:
            steps = sorted((s for s in way.steps(graph) if s[0] > LEAST_STEP), reverse=True)
            possible = ((gained, edges, _flipped(graph, edges)) for gained, edges in steps if _may_flip(flips, edges))
            best = next((p for p in possible if p[2].tobytes() not in passed), None)
            if best is None:
                return graph, total
            gained, edges, step = best
            passed.add(step.tobytes())
            way.forget({j for _, j in edges})
            flips += step != graph
            graph, total = step, total + gained

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
        value, edges = self.turned(i, j, graph), [(i, j), (j, i)]
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

    def turned(self, i: int, j: int, graph: BoolArray) -> float:
        """What is gained by that alone."""
        now, then = self.climb.worth(i, j, graph), self.climb.worth(j, i, graph)
        seen = now.seen & then.seen
        if not seen.any():
            return -np.inf
        return self._total((then.gain - now.gain) * seen) + self._leaning(j, i) - self._leaning(i, j)

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


def _may_flip(flips: NDArray[np.intp], edges: list[Edge]) -> bool:
    return all(flips[edge] < MOST_FLIPS for edge in edges)


def reaches(graph: BoolArray) -> BoolArray:
    """(M, M) whether a path leads from one group to another."""
    result = graph.copy()
    for k in range(len(graph)):
        result |= np.outer(result[:, k], result[k])
    return result
