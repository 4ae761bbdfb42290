"""Places on paper: where each box stands and how each edge runs, in inches from the top left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from visl.graph.export import Name
from visl.report.across import BOX_GAP, Across, place_across
from visl.report.layers import Bend, Edge, Layering

Size = tuple[float, float]  # width, height
Box = tuple[float, float, float, float]  # centre x, centre y, width, height
Points = NDArray[np.float64]  # (n, 2)

SLIDE: Size = (16.0, 9.0)
STUB = 0.12  # the straight ends of each arrow
BENCH_LABEL = 0.32


@dataclass(frozen=True)
class Drawing:
    """A curve's points: where it leaves a box, four of a cubic bow for each gap between layers, where it ends."""

    width: float
    height: float
    boxes: dict[Name, Box]
    curves: dict[Edge, Points]

    def moved(self, right: float, down: float) -> Drawing:
        boxes = {name: (x + right, y + down, width, height) for name, (x, y, width, height) in self.boxes.items()}
        curves = {edge: points + (right, down) for edge, points in self.curves.items()}
        return Drawing(self.width, self.height, boxes, curves)

    def mirrored(self) -> Drawing:
        """Right becomes down."""
        boxes = {name: (y, x, height, width) for name, (x, y, width, height) in self.boxes.items()}
        curves = {edge: points[:, ::-1] for edge, points in self.curves.items()}
        return Drawing(self.height, self.width, boxes, curves)

    @property
    def shrinkage(self) -> float:
        """By how much it has to shrink to fit a slide; below 1 if it fits as it is."""
        return max(self.width / SLIDE[0], self.height / SLIDE[1])


NOTHING = Drawing(0.0, 0.0, {}, {})


def best_drawing(layering: Layering, sizes: Mapping[Name, Size], numbered: bool) -> Drawing:
    """From left to right, unless that has to shrink to fit a slide and from top to bottom shrinks clearly less."""
    if not layering.layers:
        return NOTHING
    rightwards = _rightwards(layering, sizes, 0.55 if numbered else 0.3)
    mirrored = {name: (height, width) for name, (width, height) in sizes.items()}
    downwards = _rightwards(layering, mirrored, 0.4 if numbered else 0.3).mirrored()
    return downwards if max(1.0, 1.1 * downwards.shrinkage) < rightwards.shrinkage else rightwards


def _rightwards(layering: Layering, sizes: Mapping[Name, Size], least_gap: float) -> Drawing:
    across = place_across(layering, {name: height for name, (_, height) in sizes.items()})
    starts, ends = _layer_bounds(layering, across, sizes, least_gap)
    boxes = {
        name: ((start + end) / 2, across.centre[name], sizes[name][0], across.breadth[name])
        for layer, start, end in zip(layering.layers, starts, ends, strict=True)
        for name in layer
        if not isinstance(name, Bend)
    }
    return Drawing(ends[-1], across.extent, boxes, _curves(layering, across, boxes, starts, ends))


def _layer_bounds(
    layering: Layering, across: Across, sizes: Mapping[Name, Size], least_gap: float
) -> tuple[list[float], list[float]]:
    """Where each layer starts and ends; steeper edges get more room between two layers."""
    starts, ends = [0.0], []
    for layer in layering.layers:
        ends.append(starts[-1] + max(sizes[item][0] for item in layer if not isinstance(item, Bend)))
        rises = [abs(across.centre[item] - across.centre[other]) for item in layer for other in layering.after[item]]
        starts.append(ends[-1] + 2 * STUB + min(max(0.35 * max(rises, default=0.0), least_gap), 2.0))
    return starts[:-1], ends


def _curves(
    layering: Layering, across: Across, boxes: Mapping[Name, Box], starts: Sequence[float], ends: Sequence[float]
) -> dict[Edge, Points]:
    """Level through each layer, and between two layers a bow that is level where it starts and ends."""
    layer_of = {item: rank for rank, layer in enumerate(layering.layers) for item in layer}
    curves = {}
    for edge, chain in layering.chains.items():
        backwards = edge[0] != chain[0]
        first, last = (boxes[name] for name in (edge[::-1] if backwards else edge))
        levels = [across.level(edge, item) for item in chain]
        points = [(first[0] + first[2] / 2, levels[0])]
        for rank, (here, there) in enumerate(pairwise(levels), start=layer_of[chain[0]]):
            start, end = ends[rank] + STUB, starts[rank + 1] - STUB
            middle = (start + end) / 2
            points += [(start, here), (middle, here), (middle, there), (end, there)]
        points.append((last[0] - last[2] / 2, levels[-1]))
        curves[edge] = np.array(points[::-1] if backwards else points)
    return curves


def bench(alone: Sequence[Name], sizes: Mapping[Name, Size], room: float) -> Drawing:
    """Groups without an edge, in rows as wide as the room, below the line that says so."""
    if not alone:
        return NOTHING
    width, height = np.max([sizes[name] for name in alone], axis=0).tolist()
    width, height = width + BOX_GAP, height + BOX_GAP
    columns = min(len(alone), max(1, int((room + BOX_GAP) / width)))
    boxes: dict[Name, Box] = {}
    for i, name in enumerate(alone):
        row, column = divmod(i, columns)
        x, y = (column + 0.5) * width - BOX_GAP / 2, (row + 0.5) * height - BOX_GAP / 2
        boxes[name] = (x, BENCH_LABEL + y, *sizes[name])
    rows = ceil(len(alone) / columns)
    return Drawing(columns * width - BOX_GAP, BENCH_LABEL + rows * height - BOX_GAP, boxes, {})
