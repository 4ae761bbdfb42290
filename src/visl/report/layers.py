"""The layers of a directed graph: which layer each box stands in, and in which order, for few crossings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx
import numpy as np

from visl.graph.export import Name

Edge = tuple[Name, Name]


@dataclass(frozen=True)
class Bend:
    """A long edge passing a layer: it holds a place there, so that no box stands in its way."""

    edge: Edge
    layer: int


Item = Name | Bend


@dataclass
class Layering:
    """Chains run from the earlier layer to the later, ends included, whichever way the arrow points."""

    layers: list[list[Item]]
    chains: dict[Edge, list[Item]] = field(default_factory=dict)
    before: defaultdict[Item, list[Item]] = field(default_factory=lambda: defaultdict(list))
    after: defaultdict[Item, list[Item]] = field(default_factory=lambda: defaultdict(list))


def in_layers(names: Iterable[Name], edges: Collection[Edge]) -> Layering:
    """Names and edges in layers; of edges that close a cycle, those that come last run backwards."""
    layering = _layering(_ranks(names, edges), edges)
    _untangle(layering)
    return layering


def _ranks(names: Iterable[Name], edges: Iterable[Edge]) -> dict[Name, int]:
    """The length of the longest path to each name. An edge that would close a cycle counts for nothing."""
    acyclic: nx.DiGraph = nx.DiGraph()
    acyclic.add_nodes_from(names)
    for source, target in edges:
        if not nx.has_path(acyclic, target, source):
            acyclic.add_edge(source, target)
    found = {name: rank for rank, layer in enumerate(nx.topological_generations(acyclic)) for name in layer}
    return {name: found[name] for name in acyclic}


def _layering(ranks: Mapping[Name, int], edges: Iterable[Edge]) -> Layering:
    layering = Layering([[] for _ in range(max(ranks.values(), default=-1) + 1)])
    for name, rank in ranks.items():
        layering.layers[rank].append(name)
    for edge in edges:
        first, last = sorted(edge, key=lambda name: ranks[name])
        bends = [Bend(edge, rank) for rank in range(ranks[first] + 1, ranks[last])]
        for bend in bends:
            layering.layers[bend.layer].append(bend)
        layering.chains[edge] = [first, *bends, last]
        for item, following in pairwise(layering.chains[edge]):
            layering.after[item].append(following)
            layering.before[following].append(item)
    return layering


def _untangle(layering: Layering, sweeps: int = 16) -> None:
    """Order each layer by the mean place of its neighbours, to and fro; keep the order with the fewest crossings."""
    best, fewest = [list(layer) for layer in layering.layers], _crossings(layering)
    for sweep in range(sweeps):
        onwards = sweep % 2 == 0
        neighbours = layering.before if onwards else layering.after
        for fixed, moving in pairwise(layering.layers if onwards else layering.layers[::-1]):
            _sort_by_neighbours(moving, neighbours, _positions(fixed))
        _swap_neighbours(layering)
        crossings = _crossings(layering)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layering.layers], crossings
    layering.layers = best


def _positions(layer: Sequence[Item]) -> dict[Item, float]:
    return {item: (i + 0.5) / len(layer) for i, item in enumerate(layer)}


def _sort_by_neighbours(layer: list[Item], neighbours: Mapping[Item, list[Item]], at: Mapping[Item, float]) -> None:
    own = _positions(layer)
    wanted = {item: [at[other] for other in neighbours[item]] or [own[item]] for item in layer}
    layer.sort(key=lambda item: sum(wanted[item]) / len(wanted[item]))


def _swap_neighbours(layering: Layering, rounds: int = 4) -> None:
    """Swap two that stand side by side wherever that undoes crossings: means alone leave such pairs."""
    at = {item: place for layer in layering.layers for item, place in _positions(layer).items()}
    for _ in range(rounds):
        swaps = [_swap_in_layer(layer, layering, at) for layer in layering.layers]
        if not any(swaps):
            return


def _swap_in_layer(layer: list[Item], layering: Layering, at: dict[Item, float]) -> int:
    swaps = 0
    for i in range(len(layer) - 1):
        item, following = layer[i : i + 2]
        if _crossings_of(item, following, layering, at) > _crossings_of(following, item, layering, at):
            layer[i : i + 2] = following, item
            at[item], at[following] = at[following], at[item]
            swaps += 1
    return swaps


def _crossings_of(upper: Item, lower: Item, layering: Layering, at: Mapping[Item, float]) -> int:
    return sum(at[a] > at[b] for side in (layering.before, layering.after) for a in side[upper] for b in side[lower])


def _crossings(layering: Layering) -> int:
    total = 0
    for layer, following in pairwise(layering.layers):
        at = _positions(following)
        ends = [(i, at[other]) for i, item in enumerate(layer) for other in layering.after[item]]
        here, there = np.array(ends).T
        total += int(((here[:, None] < here) & (there[:, None] > there)).sum())
    return total
