"""A climb that looks further than the next edge: by way of other data sets, and by whole sets of parents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from visl.group_fits import FEWEST_ROWS, MOST_PARENTS, GroupFits
from visl.search import PARENT_COST, Chance, GraphClimb, reaches

ROWS_OF_A_CANDIDATE = 15  # of a set of parents that is only looked at

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class ThoroughSearch:
    """Parents may tell something only together. Of a sum's waves no part shows one: such sets are found from above, by
    letting a number have all parents that it may have and dropping, one after the other, what is worth least.
    """

    def __init__(self, climb: GraphClimb, fits: GroupFits) -> None:
        self.climb, self.fits = climb, fits
        numbers = fits.is_number[fits.column] & climb.open_.any(0)
        self.numbers: list[int] = np.flatnonzero(numbers).tolist()
        self._known: dict[tuple[int, bytes], int | None] = {}

    def best(self, graph: BoolArray, detours: Sequence[Chance]) -> BoolArray:
        """The best graph that is found from this one, by way of a better graph of another data set of the kind, or of
        edges that are turned with all parents of their ends."""
        best, tried = self.settled(graph), set[bytes]()
        for chance in detours:
            best = self._better(best, self.settled(self.climb.climbed(best, chance)))
        while (step := self._next(best, self._with_parents_turned(best), tried)) is not None:
            best = self._better(best, self.settled(step))
        return best

    def settled(self, graph: BoolArray) -> BoolArray:
        """Climb until neither an edge nor a set of parents is better, or has been tried already: with gaps one graph
        may be better than another in some rows, and worse in others."""
        graph, tried = self.climb.climbed(graph), set[bytes]()
        while (step := self._next(graph, self._with_other_parents(graph), tried)) is not None:
            graph = self.climb.climbed(step)
        return graph

    def _next(self, graph: BoolArray, steps: Iterator[BoolArray], tried: set[bytes]) -> BoolArray | None:
        """The first that is better than this graph and has not been tried."""
        for step in steps:
            if (step != graph).any() and step.tobytes() not in tried and self._better(graph, step) is step:
                tried.add(step.tobytes())
                return step
        return None

    def _with_other_parents(self, graph: BoolArray) -> Iterator[BoolArray]:
        """Of one number."""
        may_be = self.climb.open_ & ~reaches(graph).T
        for j in self.numbers:
            step = graph.copy()
            step[:, j] = self._eliminated(j, graph, may_be[:, j] & ~graph[:, j])
            yield step

    def _with_parents_turned(self, graph: BoolArray) -> Iterator[BoolArray]:
        """An edge i -> j leads the other way, and both have the parents of both, but for those not worth their cost:
        so nothing is lost that could be told before, and where parents act together they must move together."""
        open_ = self.climb.open_
        numbers = np.isin(np.arange(len(graph)), self.numbers)
        for i, j in np.argwhere(graph & open_ & open_.T & numbers & numbers[:, None]).tolist():
            step, of_both = graph.copy(), graph[:, i] | graph[:, j]
            step[:, i] |= of_both & open_[:, i]
            step[:, j] |= of_both & open_[:, j]
            step[i, j], step[j, i] = False, True
            if step[:, [i, j]].sum(0).max() <= MOST_PARENTS and not reaches(step).diagonal().any():
                for end in (i, j):
                    step[:, end] = self._without_the_weak(end, step[:, end])
                yield step

    def _eliminated(self, j: int, graph: BoolArray, further: BoolArray) -> BoolArray:
        """(M,) j's parents and as many further ones as rows can tell of, without those not worth their cost."""
        return self._without_the_weak(j, self._widest(j, graph, further))

    def _without_the_weak(self, j: int, parents: BoolArray) -> BoolArray:
        while (weakest := self._weakest(j, parents)) is not None:
            parents = parents.copy()
            parents[weakest] = False
        return parents

    def _weakest(self, j: int, parents: BoolArray) -> int | None:
        """The parent that is worth least, and not its cost."""
        key = j, parents.tobytes()
        if key not in self._known:  # whichever graph led here
            droppable = np.flatnonzero(parents & self.climb.open_[:, j]).tolist()
            worth = [self._worth(i, j, parents) for i in droppable]
            least = int(np.argmin(worth)) if worth else 0
            self._known[key] = droppable[least] if worth and worth[least] < PARENT_COST else None
        return self._known[key]

    def _widest(self, j: int, graph: BoolArray, further: BoolArray) -> BoolArray:
        """(M,) first of all those that are worth most by themselves."""
        now = graph[:, j]
        others = np.flatnonzero(further)
        worth = [self.climb.worth(i, j, graph) for i in others.tolist()]
        seldom_seen_last = [w.gain.sum() if w.seen.any() else -np.inf for w in worth]
        others = others[np.argsort(seldom_seen_last)[::-1]][: max(0, MOST_PARENTS - int(now.sum()))]
        for n in range(len(others), 0, -1):
            widest = now.copy()
            widest[others[:n]] = True
            if self._n_seen(j, widest) >= max(FEWEST_ROWS, ROWS_OF_A_CANDIDATE * int(widest.sum())):
                return widest
        return now

    def _worth(self, i: int, j: int, parents: BoolArray) -> float:
        return float(np.nansum(self.fits.gain_of_each_row(j, parents, i)))

    def _n_seen(self, j: int, parents: BoolArray) -> int:
        """Rows that see it and these parents."""
        columns = [self.fits.column[m] for m in (j, *np.flatnonzero(parents).tolist())]
        return int((~np.isnan(self.fits.values[:, columns])).all(1).sum())

    def _better(self, one: BoolArray, other: BoolArray) -> BoolArray:
        """Where their groups differ in their parents, in the rows that see those of both."""
        gained = -PARENT_COST * (int(other.sum()) - int(one.sum()))
        for j in np.flatnonzero((one != other).any(0)).tolist():
            before, after = (self.fits.log_prob(j, graph[:, j]) for graph in (one, other))
            gained += float(np.nansum(after - before))
        return other if gained > 0 else one
