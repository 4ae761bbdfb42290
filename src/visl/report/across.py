"""Where the boxes and long edges of each layer stand within it: straight edges, and no overlap. Lengths are inches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median

import numpy as np

from visl.graph.export import Name
from visl.report.layers import Bend, Edge, Item, Layering

BOX_GAP, PASSING_GAP = 0.16, 0.05  # between two boxes, and between a box and a passing edge
PASSING_WIDTH, PASSING_ROOM = 0.14, 8.0  # for one edge, and for all edges that pass one layer
PORT_STEP, LEAST_PORT_STEP = 0.14, 0.09  # between arrows that meet one side of a box

Ports = dict[tuple[Edge, Item], float]
Pulls = defaultdict[Item, list[tuple[Item, float]]]


@dataclass(frozen=True)
class Across:
    """Centre and breadth of each item, and how far from a box's centre each edge meets it."""

    centre: Mapping[Item, float]
    breadth: Mapping[Item, float]
    ports: Ports

    @property
    def extent(self) -> float:
        return max(self.centre[item] + self.breadth[item] / 2 for item in self.centre)

    def level(self, edge: Edge, item: Item) -> float:
        return self.centre[item] + self.ports.get((edge, item), 0.0)


def place_across(layering: Layering, box_breadths: Mapping[Name, float]) -> Across:
    breadth = _breadths(layering, box_breadths)
    ports = _ports(layering, breadth)
    return Across(_centres(layering, breadth, ports), breadth, ports)


def _breadths(layering: Layering, box_breadths: Mapping[Name, float]) -> dict[Item, float]:
    """Boxes grow where many arrows meet them; passing edges share the room there is for them."""
    passing = min(PASSING_WIDTH, PASSING_ROOM / max(len(layer) for layer in layering.layers))
    found: dict[Item, float] = {}
    for item in (item for layer in layering.layers for item in layer):
        most = max(len(layering.before[item]), len(layering.after[item]))
        found[item] = passing if isinstance(item, Bend) else max(box_breadths[item], 0.1 + LEAST_PORT_STEP * most)
    return found


def _ports(layering: Layering, breadth: Mapping[Item, float]) -> Ports:
    """How far from a box's centre each edge meets its side: in the order in which the edges stand in the next layer."""
    order = {item: i for layer in layering.layers for i, item in enumerate(layer)}
    sides: defaultdict[tuple[Item, bool], list[tuple[int, Edge]]] = defaultdict(list)
    for edge, chain in layering.chains.items():
        sides[chain[0], True].append((order[chain[1]], edge))
        sides[chain[-1], False].append((order[chain[-2]], edge))
    ports = {}
    for (item, _), meeting in sides.items():
        meeting.sort(key=lambda pair: pair[0])
        step = min(PORT_STEP, 0.85 * breadth[item] / len(meeting))
        for i, (_, edge) in enumerate(meeting):
            ports[edge, item] = (i - (len(meeting) - 1) / 2) * step
    return ports


def _centres(layering: Layering, breadth: Mapping[Item, float], ports: Ports, rounds: int = 12) -> dict[Item, float]:
    """The straightest edges found, in the layers' order and without overlap; the first box starts at 0."""
    before, after = _pulls(layering, ports)
    onwards, back = layering.layers, layering.layers[::-1]
    at = dict.fromkeys(breadth, 0.0)
    best, least = at, inf
    for layers, sides in [(onwards, (before,)), (back, (after,)), (onwards, (before, after))] * rounds:
        for layer in layers:
            wanted = [_median_pull(item, sides, at) for item in layer]
            weights = [4.0 if isinstance(item, Bend) else 1.0 for item in layer]
            at.update(zip(layer, spread(wanted, _distances(layer, breadth), weights), strict=True))
        unevenness = _unevenness(after, at)
        if unevenness < least:
            best, least = dict(at), unevenness
    first = min(best[item] - breadth[item] / 2 for item in best)
    return {item: place - first for item, place in best.items()}


def _pulls(layering: Layering, ports: Ports) -> tuple[Pulls, Pulls]:
    """Where each neighbour before, and each after, would have an item stand for the edge to be straight."""
    before: Pulls = defaultdict(list)
    after: Pulls = defaultdict(list)
    for edge, chain in layering.chains.items():
        for item, following in pairwise(chain):
            shift = ports.get((edge, item), 0.0) - ports.get((edge, following), 0.0)
            before[following].append((item, shift))
            after[item].append((following, -shift))
    return before, after


def _median_pull(item: Item, sides: Iterable[Pulls], at: Mapping[Item, float]) -> float:
    return median([at[other] + shift for side in sides for other, shift in side[item]] or [at[item]])


def _unevenness(after: Pulls, at: Mapping[Item, float]) -> float:
    """A kink within a long edge disturbs more than a slope between two boxes."""
    return sum(
        (1, 2, 8)[_bends(item, other)] * abs(at[other] + shift - at[item])
        for item, pulls in after.items()
        for other, shift in pulls
    )


def _distances(layer: Sequence[Item], breadth: Mapping[Item, float]) -> list[float]:
    """Least distance of the centres of each two that stand side by side."""
    gaps = (BOX_GAP, PASSING_GAP, 0.0)
    return [(breadth[a] + breadth[b]) / 2 + gaps[_bends(a, b)] for a, b in pairwise(layer)]


def _bends(a: Item, b: Item) -> int:
    return isinstance(a, Bend) + isinstance(b, Bend)


def spread(wanted: Sequence[float], distances: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Least squares to the wanted places under least distances: isotonic regression, by pooling neighbours."""
    offsets = np.concatenate([[0.0], np.cumsum(distances)])
    pools: list[tuple[float, float, int]] = []  # mean, weight, length
    for place, weight in zip((np.array(wanted) - offsets).tolist(), weights, strict=True):
        pools.append((place, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean_a, weight_a, length_a), (mean_b, weight_b, length_b) = pools[-2:]
            total = weight_a + weight_b
            pools[-2:] = [((mean_a * weight_a + mean_b * weight_b) / total, total, length_a + length_b)]
    means = np.repeat([mean for mean, _, _ in pools], [length for _, _, length in pools])
    return (means + offsets).tolist()
