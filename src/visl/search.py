"""The graph in which exact fits predict rows best: climbed to by adding, dropping and turning edges one at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PARENT_COST = 5.0  # nats, in all rows together, that an edge must be worth: of many candidates some seem worth a little
LEAST_STEP = 0.1  # nats
JITTER = 3.0  # nats by which the fit of a group to given parents is uncertain beyond the chance of its rows
KEPT_SETS = 8  # of parents of each group, whose gains are remembered

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

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
    """Another data set of the same kind: rows drawn with replacement, and fits that come out a little differently."""

    weights: FloatArray  # (N,) of the rows
    number: int  # of the data set

    def jitter(self, group: int, parents: BoolArray) -> float:
        """Of the fit of a group to parents, (M,): the same whenever it is asked for."""
        return JITTER * float(np.random.default_rng([self.number, group, *np.packbits(parents)]).standard_normal())


class GraphClimb:
    def __init__(self, gain: Gain, open_: BoolArray) -> None:
        """open_: (M, M), the edges that may be added, dropped and, if their reverse is among them, turned"""
        self.gain, self.open_ = gain, open_
        self._known: list[OrderedDict[bytes, dict[int, _Worth]]] = [OrderedDict() for _ in range(len(open_))]

    def climbed(self, graph: BoolArray, chance: Chance | None = None) -> BoolArray:
        """Take the best step, until none is worth more than LEAST_STEP.  (M, M), acyclic -> (M, M)"""
        passed = {graph.tobytes()}
        while True:
            steps = [*self._changed(graph, chance), *self._turned(graph, chance)]
            new = [(value, step) for value, step in steps if value > LEAST_STEP and step.tobytes() not in passed]
            if not new:
                return graph
            graph = max(new, key=lambda one: one[0])[1]
            passed.add(graph.tobytes())

    def _changed(self, graph: BoolArray, chance: Chance | None) -> Iterator[tuple[float, BoolArray]]:
        """Acyclic graphs with an edge more or less, and the nats gained."""
        for i, j in np.argwhere(self.open_ & ~reaches(graph).T).tolist():
            value = self._value_of_change(i, j, graph, chance)
            if value > LEAST_STEP:
                yield value, _with(graph, i, j, not graph[i, j])

    def _turned(self, graph: BoolArray, chance: Chance | None) -> Iterator[tuple[float, BoolArray]]:
        """Acyclic graphs with an edge turned, in the rows that see the parents of both its ends. What these no longer
        need then is dropped at once: in the wrong order of two groups, edges to both may be needed."""
        for i, j in np.argwhere(graph & self.open_ & self.open_.T).tolist():
            now, then = self._worth(i, j, graph), self._worth(j, i, graph)
            value = _total((then.gain - now.gain) * (now.seen & then.seen), chance)
            value += _jitter(j, i, graph, chance) - _jitter(i, j, graph, chance)
            step = _with(_with(graph, i, j, False), j, i, True)
            hopeless = value < -PARENT_COST * int(step[:, [i, j]].sum())
            if hopeless or not (now.seen & then.seen).any() or reaches(step)[i, i]:
                continue
            while True:
                parents = [
                    (k, end) for end in (i, j) for k in np.flatnonzero(step[:, end] & self.open_[:, end]).tolist()
                ]
                drops = [(self._value_of_change(k, end, step, chance), k, end) for k, end in parents]
                gained, k, end = max(drops, default=(0.0, 0, 0))
                if gained <= 0:
                    break
                value, step = value + gained, _with(step, k, end, False)
            yield value, step

    def _value_of_change(self, i: int, j: int, graph: BoolArray, chance: Chance | None) -> float:
        """Nats gained if an edge that is absent is added, or one that is there is dropped."""
        worth = self._worth(i, j, graph)
        if not worth.seen.any():
            return -np.inf
        gained = _total(worth.gain, chance) + _jitter(i, j, graph, chance) - PARENT_COST
        return -gained if graph[i, j] else gained

    def _worth(self, i: int, j: int, graph: BoolArray) -> _Worth:
        """Of i to j."""
        sets, parents = self._known[j], graph[:, j]
        key = parents.tobytes()
        known = sets.setdefault(key, {})
        sets.move_to_end(key)
        if len(sets) > KEPT_SETS:
            sets.popitem(last=False)
        if i not in known:
            gain = self.gain(j, parents, i)
            known[i] = _Worth(np.nan_to_num(gain), ~np.isnan(gain))
        return known[i]


def _total(gain: FloatArray, chance: Chance | None) -> float:
    return float(gain.sum() if chance is None else gain @ chance.weights)


def _jitter(i: int, j: int, graph: BoolArray, chance: Chance | None) -> float:
    """Of what i is worth to j."""
    if chance is None:
        return 0.0
    with_it, without = (_with(graph, i, j, present)[:, j] for present in (True, False))
    return chance.jitter(j, with_it) - chance.jitter(j, without)


def _with(graph: BoolArray, i: int, j: int, present: bool) -> BoolArray:
    changed = graph.copy()
    changed[i, j] = present
    return changed


def reaches(graph: BoolArray) -> BoolArray:
    """(M, M) whether a path leads from one group to another."""
    result = graph.copy()
    for k in range(len(graph)):
        result |= np.outer(result[:, k], result[k])
    return result
