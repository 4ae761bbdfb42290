"""A learned graph as a picture: boxes in layers, arrows from left to right or from top to bottom.

Steps: which arrows (`_arrows`), which layer (`_layering`), which order within a layer (`_untangle`), which place
(`_drawing`), then ink. All lengths are inches from the top left, so that boxes and type keep their size.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any, Literal

import matplotlib
import networkx as nx
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, get_font_names
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch
from matplotlib.path import Path
from matplotlib.textpath import TextToPath
from numpy.typing import ArrayLike, NDArray

from visl.errors import InputError
from visl.graph.export import NOT_XML, TEXT_EXPORTERS, Exporter, Name, Probabilities, export_graph

Edge = tuple[Name, Name]
Size = tuple[float, float]  # width, height
Box = tuple[float, float, float, float]  # centre x, centre y, width, height
Points = NDArray[np.float64]  # (n, 2)

ALL_NODES_UP_TO = 60
PROBABILITIES_UP_TO = 40
WRAP_AT = 18  # characters
DOTS_PER_INCH = 150
MOST_PIXELS = 30_000  # on a side: a very long chain gets fewer dots an inch rather than a failure
MARGIN, LINE, BLOCK_GAP = 0.3, 0.27, 0.18
LEAST_WIDTH, BENCH_WIDTH, BENCH_LABEL = 4.0, 8.0, 0.32
SLIDE = (16.0, 9.0)

# Room between boxes of a layer, between a box and a passing edge, and straight ends of each arrow.
BOX_GAP, PASSING_GAP, STUB = 0.16, 0.05, 0.12
PASSING_WIDTH, PASSING_ROOM = 0.14, 8.0  # for one edge, and for all edges that pass one layer
PORT_STEP, LEAST_PORT_STEP = 0.14, 0.09  # between arrows that meet one side of a box

# Okabe and Ito's colours: told apart with any common colour blindness.
AREA_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
BORDERS = ("-", "--", ":")  # when the colours come round again
INK, MUTED, PLAIN = "#1F2933", "#6B7785", "#52606D"
# Used only where installed, for scripts that matplotlib's own font lacks.
FURTHER_FONTS = ("Noto Sans", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Devanagari", "Arial Unicode MS")


@dataclass(frozen=True)
class Kind:
    """How an arrow is drawn, and what the legend calls it."""

    label: str
    colour: str
    line: Literal["-", "--"] = "-"


LEARNED = Kind("learned", "#2F4B66")
RIGHT = Kind("right", "#0072B2")
REVERSED = Kind("wrong direction", "#E69F00")
FALSE = Kind("not true", "#882255")
MISSING = Kind("missing", "#8C96A0", "--")


@dataclass(frozen=True)
class Bend:
    """A long edge passing a layer: it holds a place there, so that no box stands in its way."""

    edge: Edge
    layer: int


Item = Name | Bend
Pulls = dict[Item, list[tuple[Item, float]]]


@dataclass
class Layering:
    """Chains run from the earlier layer to the later, ends included, whichever way the arrow points."""

    layers: list[list[Item]]
    chains: dict[Edge, list[Item]] = field(default_factory=dict)
    before: dict[Item, list[Item]] = field(default_factory=dict)
    after: dict[Item, list[Item]] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawing:
    """A curve is a straight end, then by turns a bow between layers and a straight way through one: see `_path`."""

    width: float
    height: float
    boxes: dict[Name, Box]
    curves: dict[Edge, Points]

    def moved(self, right: float, down: float) -> Drawing:
        boxes = {name: (x + right, y + down, width, height) for name, (x, y, width, height) in self.boxes.items()}
        curves = {edge: points + (right, down) for edge, points in self.curves.items()}
        return Drawing(self.width, self.height, boxes, curves)


NOTHING = Drawing(0.0, 0.0, {}, {})


def draw_graph(
    graph: nx.DiGraph,
    *,
    truth: Collection[Edge] | None = None,
    areas: Mapping[Any, str] | None = None,
    title: str | None = None,
) -> Figure:
    """Each edge an arrow, stronger the more probable; where the true edges are given, coloured by right and wrong."""
    areas = areas or {}
    truth = None if truth is None else set(truth)
    arrows = _arrows(graph, truth)
    joined, alone = _shown(graph, arrows)
    font = _font(9.0 if len(graph) <= ALL_NODES_UP_TO else 7.0)
    labels = {name: _wrap(str(name)) for name in [*joined, *alone]}
    sizes = _box_sizes(labels, font)
    layering = _untangle(_layering(_ranks(graph, arrows, joined), arrows))
    body = _best_drawing(layering, sizes, _numbered(graph))
    bench = _bench(alone, sizes, max(body.width, BENCH_WIDTH))

    width = max(body.width, bench.width, LEAST_WIDTH) + 2 * MARGIN
    heading = _heading(graph, joined, title, width)
    legends = [_Legend(entries, width) for entries in (_area_entries(labels, areas), _kind_entries(arrows, truth))]
    blocks = [len(heading) * LINE, body.height, bench.height, *(legend.height for legend in legends)]
    tops, height = _stack(blocks)

    figure, axes = _sheet(width, height)
    body = body.moved((width - body.width) / 2, tops[1])
    bench = bench.moved((width - bench.width) / 2, tops[2])
    _write_heading(axes, heading, tops[0])
    _draw_arrows(axes, graph, arrows, body)
    _draw_boxes(axes, body.boxes | bench.boxes, labels, areas, font)
    _draw_bench_label(axes, bench, tops[2])
    for legend, top in zip(legends, tops[3:], strict=True):
        legend.draw(figure, top)
    return figure


def picture_bytes(figure: Figure, suffix: str) -> bytes:
    """The figure as a png or svg file; the same graph gives the same svg, byte for byte."""
    suffix = suffix.lower().removeprefix(".")
    if suffix not in ("png", "svg"):
        raise InputError(f"a picture cannot be written as {suffix!r}: choose one of png, svg")
    target = io.BytesIO()
    dots = min(DOTS_PER_INCH, MOST_PIXELS / max(figure.get_size_inches()))
    # Text stays text in svg: it can be searched, and edited on the slide.
    with matplotlib.rc_context({"svg.hashsalt": "visl", "svg.fonttype": "none"}):
        figure.savefig(target, format=suffix, dpi=dots, metadata={"Date": None} if suffix == "svg" else None)
    return target.getvalue()


EXPORTERS: Mapping[str, Exporter] = {
    **TEXT_EXPORTERS,
    "png": lambda graph, probabilities, names: picture_bytes(draw_graph(graph), "png"),
    "svg": lambda graph, probabilities, names: picture_bytes(draw_graph(graph), "svg"),
}


def export_graph_or_picture(
    suffix: str, graph: nx.DiGraph, probabilities: Probabilities, names: Sequence[Name]
) -> bytes:
    """The content of a file with this suffix: graphml, dot, json, csv, png or svg."""
    return export_graph(suffix, graph, probabilities, names, EXPORTERS)


# Which arrows and boxes


def _arrows(graph: nx.DiGraph, truth: Collection[Edge] | None) -> dict[Edge, Kind]:
    """The most probable first, and then the true edges that the graph lacks in either direction."""
    learned = sorted(graph.edges, key=lambda edge: -graph.edges[edge]["probability"])
    if truth is None:
        return dict.fromkeys(learned, LEARNED)
    for name in (name for edge in truth for name in edge):
        if name not in graph:
            raise InputError(f"the true edges name {name!r}, which is no group of the graph: use the graph's names")
    arrows = {edge: _judge(edge, truth) for edge in learned}
    turned = {edge[::-1] for edge, kind in arrows.items() if kind is REVERSED}
    # By the graph's order, since a set has none that lasts from run to run.
    order = {name: i for i, name in enumerate(graph)}
    missing = sorted(set(truth) - set(learned) - turned, key=lambda edge: (order[edge[0]], order[edge[1]]))
    return arrows | dict.fromkeys(missing, MISSING)


def _judge(edge: Edge, truth: Collection[Edge]) -> Kind:
    if edge in truth:
        return RIGHT
    return REVERSED if edge[::-1] in truth else FALSE


def _shown(graph: nx.DiGraph, arrows: Iterable[Edge]) -> tuple[list[Name], list[Name]]:
    """Groups with an arrow and groups without; of a large graph, none without."""
    ends = {name for edge in arrows for name in edge}
    alone = [name for name in graph if name not in ends]
    return [name for name in graph if name in ends], alone if len(graph) <= ALL_NODES_UP_TO else []


def _numbered(graph: nx.DiGraph) -> bool:
    return graph.number_of_edges() <= PROBABILITIES_UP_TO


# Layers


def _ranks(graph: nx.DiGraph, arrows: Iterable[Edge], joined: Iterable[Name]) -> dict[Name, int]:
    """The length of the longest path to each group. An arrow that would close a cycle counts for nothing."""
    acyclic: nx.DiGraph = nx.DiGraph()
    acyclic.add_nodes_from(joined)
    for source, target in arrows:
        if not nx.has_path(acyclic, target, source):
            acyclic.add_edge(source, target)
    found = {name: rank for rank, names in enumerate(nx.topological_generations(acyclic)) for name in names}
    return {name: found[name] for name in graph if name in found}


def _layering(ranks: Mapping[Name, int], arrows: Iterable[Edge]) -> Layering:
    layering = Layering([[] for _ in range(max(ranks.values(), default=-1) + 1)])
    for name, rank in ranks.items():
        layering.layers[rank].append(name)
    for edge in arrows:
        first, last = sorted(edge, key=lambda name: ranks[name])
        bends = [Bend(edge, rank) for rank in range(ranks[first] + 1, ranks[last])]
        for bend in bends:
            layering.layers[bend.layer].append(bend)
        layering.chains[edge] = [first, *bends, last]
        for item, following in pairwise(layering.chains[edge]):
            layering.after.setdefault(item, []).append(following)
            layering.before.setdefault(following, []).append(item)
    return layering


def _untangle(layering: Layering, sweeps: int = 16) -> Layering:
    """Order each layer by the mean place of its neighbours, to and fro; keep the order with the fewest crossings."""
    best, fewest = [list(layer) for layer in layering.layers], _crossings(layering)
    for sweep in range(sweeps):
        onwards = sweep % 2 == 0
        neighbours = layering.before if onwards else layering.after
        layers = layering.layers if onwards else layering.layers[::-1]
        for fixed, moving in pairwise(layers):
            _sort_by_neighbours(moving, neighbours, _positions(fixed))
        _swap_neighbours(layering)
        crossings = _crossings(layering)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layering.layers], crossings
    layering.layers = best
    return layering


def _positions(layer: Sequence[Item]) -> dict[Item, float]:
    return {item: (i + 0.5) / len(layer) for i, item in enumerate(layer)}


def _sort_by_neighbours(layer: list[Item], neighbours: Mapping[Item, list[Item]], at: Mapping[Item, float]) -> None:
    own = _positions(layer)
    wanted = {item: [at[other] for other in neighbours.get(item, [])] or [own[item]] for item in layer}
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
    for i, (item, following) in enumerate(pairwise(list(layer))):
        item = layer[i]
        if _crossings_of(item, following, layering, at) > _crossings_of(following, item, layering, at):
            layer[i], layer[i + 1] = following, item
            at[item], at[following] = at[following], at[item]
            swaps += 1
    return swaps


def _crossings_of(upper: Item, lower: Item, layering: Layering, at: Mapping[Item, float]) -> int:
    return sum(
        at[a] > at[b]
        for side in (layering.before, layering.after)
        for a in side.get(upper, [])
        for b in side.get(lower, [])
    )


def _crossings(layering: Layering) -> int:
    total = 0
    for layer, following in pairwise(layering.layers):
        at = _positions(following)
        ends = [(i, at[other]) for i, item in enumerate(layer) for other in layering.after.get(item, [])]
        here, there = np.array(ends).reshape(-1, 2).T
        total += int(((here[:, None] < here) & (there[:, None] > there)).sum())
    return total


# Places: "along" runs through the layers, "across" within one


def _best_drawing(layering: Layering, sizes: Mapping[Name, Size], numbered: bool) -> Drawing:
    """From left to right, unless that has to shrink to fit a slide and from top to bottom shrinks clearly less."""
    rightwards, downwards = (_drawing(layering, sizes, numbered, way) for way in (False, True))
    return downwards if max(1.0, 1.1 * _shrinkage(downwards)) < _shrinkage(rightwards) else rightwards


def _shrinkage(drawing: Drawing) -> float:
    return max(drawing.width / SLIDE[0], drawing.height / SLIDE[1])


def _drawing(layering: Layering, sizes: Mapping[Name, Size], numbered: bool, downwards: bool) -> Drawing:
    if not layering.layers:
        return NOTHING
    long, broad = (1, 0) if downwards else (0, 1)
    breadth = _breadths(layering, {name: size[broad] for name, size in sizes.items()})
    ports = _ports(layering, breadth)
    across = _places(layering, breadth, ports)
    room = (0.4 if downwards else 0.55) if numbered else 0.3
    starts, ends = _layer_bounds(layering, across, {name: size[long] for name, size in sizes.items()}, room)
    boxes: dict[Name, Box] = {}
    for layer, start, end in zip(layering.layers, starts, ends, strict=True):
        for name in layer:
            if not isinstance(name, Bend):
                middle, length = (start + end) / 2, sizes[name][long]
                turned = (middle, across[name], length, breadth[name])
                boxes[name] = (turned[long], turned[broad], turned[2 + long], turned[2 + broad])
    stops = _stops(layering, across, ports, boxes, starts, ends, long)
    curves = {edge: _bowed(way)[:, [long, broad]] for edge, way in stops.items()}
    extent = (ends[-1], max(across[item] + breadth[item] / 2 for item in across))
    return Drawing(extent[long], extent[broad], boxes, curves)


def _breadths(layering: Layering, breadths: Mapping[Name, float]) -> dict[Item, float]:
    """Boxes grow where many arrows meet them; passing edges share the room there is for them."""
    passing = min(PASSING_WIDTH, PASSING_ROOM / max(len(layer) for layer in layering.layers))
    found: dict[Item, float] = {}
    for item in (item for layer in layering.layers for item in layer):
        most = max(len(layering.before.get(item, [])), len(layering.after.get(item, [])))
        found[item] = passing if isinstance(item, Bend) else max(breadths[item], 0.1 + LEAST_PORT_STEP * most)
    return found


def _ports(layering: Layering, breadth: Mapping[Item, float]) -> dict[tuple[Edge, Item], float]:
    """How far from a box's centre each edge meets its side: in the order in which the edges stand in the next layer."""
    order = {item: i for layer in layering.layers for i, item in enumerate(layer)}
    sides: dict[tuple[Item, bool], list[tuple[int, Edge]]] = {}
    for edge, chain in layering.chains.items():
        sides.setdefault((chain[0], True), []).append((order[chain[1]], edge))
        sides.setdefault((chain[-1], False), []).append((order[chain[-2]], edge))
    ports = {}
    for (item, _), meeting in sides.items():
        meeting.sort(key=lambda pair: pair[0])
        step = min(PORT_STEP, 0.85 * breadth[item] / len(meeting))
        for i, (_, edge) in enumerate(meeting):
            ports[edge, item] = (i - (len(meeting) - 1) / 2) * step
    return ports


def _places(
    layering: Layering, breadth: Mapping[Item, float], ports: Mapping[tuple[Edge, Item], float], rounds: int = 12
) -> dict[Item, float]:
    """The centre of each item across: the straightest edges found, in the layers' order, without overlap."""
    before, after = _pulls(layering, ports)
    at = {item: place for layer in layering.layers for item, place in _stacked(layer, breadth).items()}
    best, least = dict(at), _unevenness(after, at)
    for sides in [(before,), (after,), (before, after)] * rounds:
        for layer in layering.layers[::-1] if sides == (after,) else layering.layers:
            wanted = [_median_pull(item, sides, at) for item in layer]
            weights = [4.0 if isinstance(item, Bend) else 1.0 for item in layer]
            at.update(zip(layer, _spread(wanted, _distances(layer, breadth), weights), strict=True))
        if _unevenness(after, at) < least:
            best, least = dict(at), _unevenness(after, at)
    first = min(best[item] - breadth[item] / 2 for item in best)
    return {item: place - first for item, place in best.items()}


def _pulls(layering: Layering, ports: Mapping[tuple[Edge, Item], float]) -> tuple[Pulls, Pulls]:
    """Where each neighbour before, and each after, would have an item stand for the edge to be straight."""
    before: Pulls = {}
    after: Pulls = {}
    for edge, chain in layering.chains.items():
        for item, following in pairwise(chain):
            shift = ports.get((edge, item), 0.0) - ports.get((edge, following), 0.0)
            before.setdefault(following, []).append((item, shift))
            after.setdefault(item, []).append((following, -shift))
    return before, after


def _median_pull(item: Item, sides: Iterable[Pulls], at: Mapping[Item, float]) -> float:
    places = [at[other] + shift for side in sides for other, shift in side.get(item, [])]
    return float(np.median(places)) if places else at[item]


def _unevenness(after: Pulls, at: Mapping[Item, float]) -> float:
    """A kink within a long edge disturbs more than a slope between two boxes."""
    return sum(
        (1, 2, 8)[isinstance(item, Bend) + isinstance(other, Bend)] * abs(at[other] + shift - at[item])
        for item, pulls in after.items()
        for other, shift in pulls
    )


def _stacked(layer: Sequence[Item], breadth: Mapping[Item, float]) -> dict[Item, float]:
    centres = np.concatenate([[0.0], np.cumsum(_distances(layer, breadth))])
    return dict(zip(layer, (centres - centres[-1] / 2).tolist(), strict=True))


def _distances(layer: Sequence[Item], breadth: Mapping[Item, float]) -> list[float]:
    """Least distance of the centres of each two that stand side by side."""
    gaps = (BOX_GAP, PASSING_GAP, 0.0)
    return [(breadth[a] + breadth[b]) / 2 + gaps[isinstance(a, Bend) + isinstance(b, Bend)] for a, b in pairwise(layer)]


def _spread(wanted: Sequence[float], distances: Sequence[float], weights: Sequence[float]) -> list[float]:
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


def _layer_bounds(
    layering: Layering, across: Mapping[Item, float], lengths: Mapping[Name, float], room: float
) -> tuple[list[float], list[float]]:
    """Where each layer starts and ends along; steeper edges get more room between two layers."""
    starts, ends = [0.0], []
    for layer in layering.layers:
        ends.append(starts[-1] + max(lengths[item] for item in layer if not isinstance(item, Bend)))
        slopes = [abs(across[item] - across[other]) for item in layer for other in layering.after.get(item, [])]
        starts.append(ends[-1] + 2 * STUB + min(max(0.35 * max(slopes, default=0.0), room), 2.0))
    return starts[:-1], ends


def _stops(
    layering: Layering,
    across: Mapping[Item, float],
    ports: Mapping[tuple[Edge, Item], float],
    boxes: Mapping[Name, Box],
    starts: Sequence[float],
    ends: Sequence[float],
    long: int,
) -> dict[Edge, list[tuple[float, float]]]:
    """(along, across) wherever an edge leaves or meets a box, enters or leaves a gap between layers."""
    layer_of = {item: rank for rank, layer in enumerate(layering.layers) for item in layer}
    found = {}
    for edge, chain in layering.chains.items():
        level = [across[item] + ports.get((edge, item), 0.0) for item in chain]
        first, last = (boxes[name] for name in (edge if edge[0] == chain[0] else edge[::-1]))
        stops = [(first[long] + first[2 + long] / 2, level[0])]
        for i, (item, following) in enumerate(pairwise(chain)):
            stops.append((ends[layer_of[item]] + STUB, level[i]))
            stops.append((starts[layer_of[following]] - STUB, level[i + 1]))
        stops.append((last[long] - last[2 + long] / 2, level[-1]))
        found[edge] = stops if edge[0] == chain[0] else stops[::-1]
    return found


def _bowed(stops: Sequence[tuple[float, float]]) -> Points:
    """Every second way between stops becomes a bow, level where it starts and ends: (along, across) of each point."""
    points = list(stops[:2])
    for (along_a, across_a), (along_b, across_b), after in zip(stops[1::2], stops[2::2], stops[3::2], strict=False):
        middle = (along_a + along_b) / 2
        points += [(middle, across_a), (middle, across_b), (along_b, across_b), after]
    return np.array(points)


def _path(points: Points) -> Path:
    bows = (len(points) - 2) // 4
    return Path(points, [Path.MOVETO, Path.LINETO, *[Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO] * bows])


def _on_bows(points: Points, times: ArrayLike) -> Points:
    """Points of the first and the last bow at these times, which run from 0 to 1."""
    t = np.asarray(times)[:, None]
    found = []
    for start in sorted({1, len(points) - 5}):
        a, b, c, d = points[start : start + 4]
        found.append(a * (1 - t) ** 3 + 3 * b * t * (1 - t) ** 2 + 3 * c * t**2 * (1 - t) + d * t**3)
    return np.concatenate(found)


def _bench(alone: Sequence[Name], sizes: Mapping[Name, Size], room: float) -> Drawing:
    """Groups without an edge, in rows as wide as the room, below the line that says so."""
    if not alone:
        return NOTHING
    width, height = np.max([sizes[name] for name in alone], axis=0) + BOX_GAP
    columns = min(len(alone), max(1, int((room + BOX_GAP) / width)))
    boxes = {}
    for i, name in enumerate(alone):
        row, column = divmod(i, columns)
        centre = np.array([(column + 0.5) * width, (row + 0.5) * height]) - BOX_GAP / 2
        boxes[name] = (float(centre[0]), float(centre[1]) + BENCH_LABEL, *sizes[name])
    rows = ceil(len(alone) / columns)
    return Drawing(columns * width - BOX_GAP, BENCH_LABEL + rows * height - BOX_GAP, boxes, {})


# Words


def _font(size: float, weight: str = "normal") -> FontProperties:
    installed = set(get_font_names())
    family = ["DejaVu Sans", *(name for name in FURTHER_FONTS if name in installed)]
    return FontProperties(family=family, size=size, weight=weight)


def _wrap(text: str, width: int = WRAP_AT) -> str:
    """Break lines after spaces, and within long words after _ - / . or anywhere; keep the lines of the text."""
    lines = NOT_XML.sub("\ufffd", text.expandtabs()).splitlines() or [""]
    return "\n".join(wrapped for line in lines for wrapped in _wrap_line(line, width))


def _wrap_line(line: str, width: int) -> list[str]:
    pieces = [part for piece in re.findall(r"[^\s_\-/.]*[\s_\-/.]?", line) for part in _cut(piece, width)]
    lines = [""]
    for piece in pieces:
        if len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [wrapped.rstrip() for wrapped in lines]


def _cut(piece: str, width: int) -> list[str]:
    return [piece[i : i + width] for i in range(0, len(piece), width)]


def _box_sizes(labels: Mapping[Name, str], font: FontProperties) -> dict[Name, Size]:
    """One width for all boxes, which reads calmer; each its own height."""
    lines = [line for label in labels.values() for line in label.split("\n")]
    width = max((_text_width(line, font) for line in lines), default=0.0) + 0.2
    lines_of = {name: 1 + label.count("\n") for name, label in labels.items()}
    return {name: (max(width, 0.7), 0.16 + n * _line_height(font)) for name, n in lines_of.items()}


def _line_height(font: FontProperties) -> float:
    return 1.25 * font.get_size_in_points() / 72


def _text_width(line: str, font: FontProperties) -> float:
    points, _, _ = TextToPath().get_text_width_height_descent(line, font, ismath=False)
    return points / 72


def _heading(graph: nx.DiGraph, joined: Sequence[Name], title: str | None, width: float) -> list[tuple[str, bool]]:
    """Lines, and whether each belongs to the title."""
    characters = int((width - 2 * MARGIN) / 0.105)
    lines = [(line, True) for line in _wrap(title, characters).split("\n")] if title else []
    notes = []
    if not graph.number_of_edges():
        notes.append("no edge above the threshold")
    if len(graph) > ALL_NODES_UP_TO:
        notes.append(f"{len(graph)} groups, of which the {len(joined)} with an edge are shown")
    return lines + [(line, False) for note in notes for line in _wrap(note, characters).split("\n")]


# Ink


def _stack(heights: Sequence[float]) -> tuple[list[float], float]:
    """Where each block starts from the top, and the height of them all with margins; empty blocks take no room."""
    tops, top = [], MARGIN
    for height in heights:
        tops.append(top)
        top += height + (BLOCK_GAP if height else 0.0)
    return tops, max(top - BLOCK_GAP, MARGIN) + MARGIN


def _sheet(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _write(axes: Axes, x: float, y: float, text: str, font: FontProperties, **looks: Any) -> None:
    looks = {"ha": "center", "va": "center", "color": INK} | looks
    axes.text(x, y, text, fontproperties=font, parse_math=False, usetex=False, **looks)


def _write_heading(axes: Axes, heading: Sequence[tuple[str, bool]], top: float) -> None:
    for i, (line, is_title) in enumerate(heading):
        font = _font(12.0, "bold") if is_title else _font(10.0)
        colour = INK if is_title else MUTED
        _write(axes, axes.get_xlim()[1] / 2, top + (i + 0.5) * LINE, line, font, color=colour)


def _draw_arrows(axes: Axes, graph: nx.DiGraph, arrows: Mapping[Edge, Kind], drawing: Drawing) -> None:
    for edge, kind in arrows.items():
        strength = 0.4 if kind is MISSING else float(np.clip(graph.edges[edge]["probability"], 0.0, 1.0))
        arrow = FancyArrowPatch(
            path=_path(drawing.curves[edge]),
            arrowstyle="-|>",
            mutation_scale=8 + 5 * strength,
            linewidth=0.6 + 1.8 * strength,
            alpha=0.3 + 0.65 * strength if kind is not MISSING else 0.9,
            color=kind.colour,
            linestyle=kind.line,
            zorder=1 + strength,
        )
        axes.add_patch(arrow)
    if _numbered(graph):
        _write_probabilities(axes, graph, drawing)


def _write_probabilities(axes: Axes, graph: nx.DiGraph, drawing: Drawing) -> None:
    """Each on its own arrow, where it covers fewest of the other arrows and none of the other numbers."""
    font, half = _font(6.5), np.array([0.15, 0.065])
    along = {edge: _on_bows(points, np.linspace(0, 1, 25)) for edge, points in drawing.curves.items()}
    written: list[Points] = []
    for edge in graph.edges:
        others = np.concatenate([np.empty((0, 2)), *(points for other, points in along.items() if other != edge)])
        options = _on_bows(drawing.curves[edge], (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74))
        costs = [
            10 * _within(np.array(written).reshape(-1, 2), option, 2 * half) + _within(others, option, half)
            for option in options
        ]
        place = options[int(np.argmin(costs))]
        written.append(place)
        back = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        _write(
            axes, place[0], place[1], f"{graph.edges[edge]['probability']:.2f}", font, color=MUTED, bbox=back, zorder=3
        )


def _within(points: Points, centre: Points, half: Points) -> int:
    return int((np.abs(points - centre) < half).all(-1).sum())


def _draw_boxes(
    axes: Axes, boxes: Mapping[Name, Box], labels: Mapping[Name, str], areas: Mapping[Any, str], font: FontProperties
) -> None:
    looks = _area_looks(labels, areas)
    for name, (x, y, width, height) in boxes.items():
        corner = (x - width / 2, y - height / 2)
        box = FancyBboxPatch(corner, width, height, "round,pad=0,rounding_size=0.07", linewidth=1.1, zorder=4)
        box.set(**looks.get(areas.get(name), _box_looks(PLAIN, "-")))
        axes.add_patch(box)
        lines = labels[name].split("\n")
        # One text a line: matplotlib spaces the lines of one text by what stands in them.
        for i, line in enumerate(lines):
            _write(axes, x, y + (i - (len(lines) - 1) / 2) * _line_height(font), line, font, zorder=5)


def _draw_bench_label(axes: Axes, bench: Drawing, top: float) -> None:
    if not bench.boxes:
        return
    font, right, y = _font(8.5), axes.get_xlim()[1] - MARGIN, top + LINE / 2
    _write(axes, MARGIN, y, "no edge", font, ha="left", color=MUTED)
    axes.add_line(Line2D([MARGIN + _text_width("no edge", font) + 0.1, right], [y, y], color="#CBD2D9", linewidth=0.8))


def _area_looks(names: Iterable[Name], areas: Mapping[Any, str]) -> dict[str | None, dict[str, Any]]:
    """By area, in the order in which the areas come up."""
    found = dict.fromkeys(areas[name] for name in names if name in areas)
    n = len(AREA_COLOURS)
    return {area: _box_looks(AREA_COLOURS[i % n], BORDERS[i // n % len(BORDERS)]) for i, area in enumerate(found)}


def _box_looks(colour: str, border: str) -> dict[str, Any]:
    fill = 1 - 0.16 * (1 - np.array(to_rgb(colour)))
    return {"facecolor": fill, "edgecolor": colour, "linestyle": border}


def _area_entries(names: Iterable[Name], areas: Mapping[Any, str]) -> dict[str, Artist]:
    return {str(area): Patch(linewidth=1.1, **looks) for area, looks in _area_looks(names, areas).items()}


def _kind_entries(arrows: Mapping[Edge, Kind], truth: Collection[Edge] | None) -> dict[str, Artist]:
    if truth is None:
        return {}
    kinds = [kind for kind in (RIGHT, REVERSED, FALSE, MISSING) if kind in arrows.values()]
    return {kind.label: Line2D([], [], color=kind.colour, linestyle=kind.line, linewidth=2) for kind in kinds}


class _Legend:
    """One strip of entries under the drawing, in as many rows as they need."""

    def __init__(self, entries: Mapping[str, Artist], width: float) -> None:
        self.entries = entries
        self.font = _font(8.5)
        widest = max((_text_width(label, self.font) for label in entries), default=0.0) + 0.65
        self.columns = min(max(1, int((width - 2 * MARGIN) / widest)), max(1, len(entries)))
        self.height = 0.22 * ceil(len(entries) / self.columns)

    def draw(self, figure: Figure, top: float) -> None:
        if not self.entries:
            return
        legend = figure.legend(
            list(self.entries.values()),
            ["." for _ in self.entries],  # set below: a label that starts with _ would be left out
            loc="upper center",
            bbox_to_anchor=(0.5, 1 - top / figure.get_figheight()),
            ncols=self.columns,
            frameon=False,
            prop=self.font,
            borderpad=0,
            borderaxespad=0,
        )
        for text, label in zip(legend.get_texts(), self.entries, strict=True):
            text.set_parse_math(False)
            text.set_text(label)
            text.set_color(INK)
