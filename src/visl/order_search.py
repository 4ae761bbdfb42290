"""The graph of causes and effects in a wide table: an order of its columns, each the effect of some of those before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visl.effects import Causes, Effect
from visl.search import reaches

# A column that has c effects among n others has one more with probability (EFFECTS + c) / (NO_EFFECTS + n): causes of
# many are taken for a cause of one more sooner than columns that have no effect. The cost of an edge is -log of it ...
EFFECTS, NO_EFFECTS = 0.2, 1.2
# ... or less where columns that are alike have that edge: two are, by what they share of their effects (or of their
# causes), and one that is the same in all counts for this part of what is known of the column itself.
ALIKE = 0.75
LEAST_COST = 1.0  # nats: of candidates that tell nothing, some seem worth a little
FIRST_COST = 4.0  # nats an edge, before anything is known of effects
MOST_SWEEPS = 15
PLACES = 2  # of the best for a column, that are looked at exactly ...
NEARLY = 3.0  # ... if at first glance they lose no more nats than this
LEAST_MOVE = 1e-3  # nats

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def worth_of_all(effects: Sequence[Effect], open_: BoolArray) -> FloatArray:
    """(M, M): of each column as a cause of each other, beside all others that may be, nats; 0 where it is none."""
    M = len(effects)
    result, cost = np.zeros((M, M)), np.full(M, FIRST_COST)
    for j, effect in enumerate(effects):
        if effect.varies:
            causes = effect.eliminated(np.flatnonzero(open_[:, j]).tolist(), cost)
            result[list(causes), j] = effect.worth(causes)
    return result


def edge_costs(graph: BoolArray) -> FloatArray:
    """(M, M) nats of each edge, by what this graph says of edges from columns that are alike, and to such columns."""
    M, n_effects = len(graph), graph.sum(1)
    share = (EFFECTS + np.maximum(n_effects - 0.5, 0)) / (NO_EFFECTS + M - 1)  # each counts itself by half
    of_cause = np.repeat(share[:, None], M, axis=1)
    edges = graph.astype(float)
    return np.maximum(LEAST_COST, -np.log((_as_alike(edges, of_cause) + _as_alike(edges.T, of_cause.T).T) / 2))


def _as_alike(edges: FloatArray, share: FloatArray) -> FloatArray:
    """(M, M) the probability of each edge of a row, as often as rows that are alike have it; the edge itself is left
    out where two are compared."""
    result, n_edges = share.copy(), edges.sum(1)
    shared = edges @ edges.T
    for k in range(len(edges)):
        others = np.flatnonzero(shared[k])
        others = others[others != k]
        theirs = edges[others]
        both = shared[k, others, None] - edges[k] * theirs
        either = (n_edges[k] - edges[k]) + (n_edges[others, None] - theirs) - both
        alike = ALIKE * np.square(both / (either + 1))
        result[k] = (share[k] + (alike * theirs).sum(0)) / (1 + alike.sum(0))
    return result


class OrderSearch:
    """Columns are moved to other places of the order for as long as the rows become more probable.

    Each column's causes are found from above, among all before it: what is worth least goes first.
    """

    def __init__(self, effects: Sequence[Effect], open_: BoolArray, required: BoolArray, priority: FloatArray) -> None:
        """open_: (M, M) the edges that may be; required: (M, M); priority: (M,) those with more come first"""
        self.effects, self.open_, self.required = effects, open_, required
        self.cost = np.full(open_.shape, FIRST_COST)  # (M, M) nats of each edge
        self.order = _in_order(required, priority)
        self.moves = [j for j in self.order if effects[j].varies]
        self.causes: list[Causes] = [()] * len(effects)
        self.loss = np.zeros(len(effects))  # with the cost of causes
        self._find_all()

    def graph(self) -> BoolArray:
        result = self.required.copy()
        for j, causes in enumerate(self.causes):
            result[list(causes), j] = True
        return result

    def worth(self) -> FloatArray:
        """(M, M) nats that each edge is worth beyond its cost; 0 where there is none"""
        result = np.zeros(self.open_.shape)
        for j, causes in enumerate(self.causes):
            result[list(causes), j] = self.effects[j].worth(causes) - self.cost[list(causes), j]
        return result

    def lost_if_turned(self) -> FloatArray:
        """(M, M) nats that each edge would lose if it led the other way, all others as they are; inf if it cannot.

        What is brought about by one column alone could as well bring that one about.
        """
        graph, result = self.graph(), np.full(self.open_.shape, np.inf)
        from_to = reaches(graph)
        further = (graph.astype(int) @ from_to) > 0  # whether a way leads there beside the edge
        for i, j in np.argwhere(graph & self.open_ & self.open_.T & ~further).tolist():
            turned = self._loss(i, _with(self.causes[i], j)) + self._loss(j, _but(self.causes[j], i))
            result[i, j] = max(0.0, turned - self.loss[i] - self.loss[j])
        return result

    def run(self, rng: np.random.Generator) -> BoolArray:
        for _ in range(MOST_SWEEPS):
            self.cost = edge_costs(self.graph())
            self._find_all()
            if not sum(self._move(j) for j in rng.permutation(self.moves).tolist()):
                break
        return self.graph()

    def _find_all(self) -> None:
        for place, j in enumerate(self.order):
            self.causes[j], self.loss[j] = self._found(j, self.order[:place])

    def _found(self, j: int, before: Sequence[int]) -> tuple[Causes, float]:
        effect = self.effects[j]
        if not effect.varies:
            return (), 0.0
        cost = np.where(self.required[:, j], -np.inf, self.cost[:, j])
        causes = effect.eliminated([k for k in before if self.open_[k, j] or self.required[k, j]], cost)
        return causes, self._loss(j, causes)

    def _loss(self, j: int, causes: Causes) -> float:
        return self.effects[j].fit(causes).loss + float(self.cost[list(causes), j].sum())

    def _move(self, j: int) -> bool:
        """To the best of other places, if there is a better one."""
        place = self.order.index(j)
        values = self._values_of_places(j, place)
        for other in np.argsort(-values)[:PLACES].tolist():
            if values[other] < -NEARLY:
                break
            if self._moved(j, place, other):
                return True
        return False

    def _values_of_places(self, j: int, place: int) -> FloatArray:
        """(M,) nats gained, roughly, if column j stands there; -inf where it cannot."""
        values = np.full(len(self.order), -np.inf)
        gained, causes, loss = 0.0, self.causes[j], float(self.loss[j])
        for other in range(place - 1, -1, -1):  # those that it passes may be its effects, but no causes of it
            k = self.order[other]
            if self.required[k, j]:
                break
            if self.open_[j, k] and self.effects[k].varies:
                gained += max(0.0, self._gain(j, k, self.causes[k]))
            if k in causes:
                causes = _but(causes, k)
                loss = self._loss(j, causes)
            values[other] = gained - loss + self.loss[j]
        gained, causes, loss = 0.0, self.causes[j], float(self.loss[j])
        for other in range(place + 1, len(self.order)):  # the other way round
            k = self.order[other]
            if self.required[j, k]:
                break
            if j in self.causes[k]:
                gained += self.loss[k] - self._loss(k, _but(self.causes[k], j))
            if self.open_[k, j] and self._gain(k, j, causes) > 0:
                causes = _with(causes, k)
                loss = self._loss(j, causes)
            values[other] = gained - loss + self.loss[j]
        return values

    def _gain(self, cause: int, j: int, causes: Causes) -> float:
        return self.effects[j].gain_of(cause, causes) - float(self.cost[cause, j])

    def _moved(self, j: int, place: int, other: int) -> bool:
        """Whether column j has been moved, because that is better."""
        order = [k for k in self.order if k != j]
        order.insert(other, j)
        found = {}
        for at in range(min(place, other), max(place, other) + 1):
            k = order[at]
            passed = other < place and self.open_[j, k] and self.effects[k].varies
            if k == j or (j in self.causes[k] if other > place else passed and self._gain(j, k, self.causes[k]) > 0):
                found[k] = self._found(k, order[:at])
        if sum(self.loss[k] - loss for k, (_, loss) in found.items()) <= LEAST_MOVE:
            return False
        self.order = order
        for k, (causes, loss) in found.items():
            self.causes[k], self.loss[k] = causes, loss
        return True


def _with(causes: Causes, k: int) -> Causes:
    return tuple(sorted((*causes, k)))


def _but(causes: Causes, k: int) -> Causes:
    return tuple(cause for cause in causes if cause != k)


def _in_order(required: BoolArray, priority: FloatArray) -> list[int]:
    """All columns, those with more priority first, but causes that are required before their effects."""
    left, order = np.argsort(-priority, kind="stable").tolist(), []
    while left:
        order.append(next(j for j in left if not required[left, j].any()))
        left.remove(order[-1])
    return order
