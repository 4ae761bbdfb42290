"""A learned graph as a picture: boxes in layers, arrows from left to right or from top to bottom.

Which arrows (`arrows`), which layer and order (`layers`), which place (`across` a layer, then `places` on paper), then
ink. All lengths are inches from the top left, so that boxes and type keep their size.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import networkx as nx
from matplotlib.figure import Figure

from visl.errors import InputError
from visl.graph.export import TEXT_EXPORTERS, Exporter, Name, Probabilities, export_graph
from visl.report.arrows import arrow_kinds, draw_arrows, kind_entries, write_probabilities
from visl.report.boxes import area_entries, box_sizes, draw_boxes
from visl.report.layers import Edge, in_layers
from visl.report.places import bench, best_drawing
from visl.report.sheet import MARGIN, Heading, Legend, blank_sheet, draw_rule, stack
from visl.report.words import font_of, wrap

ALL_NODES_UP_TO = 60
PROBABILITIES_UP_TO = 40
LEAST_WIDTH, BENCH_WIDTH = 4.0, 8.0
DOTS_PER_INCH = 150
MOST_PIXELS = 30_000  # on a side: a very long chain gets fewer dots an inch rather than a failure


def draw_graph(
    graph: nx.DiGraph,
    *,
    truth: Collection[Edge] | None = None,
    areas: Mapping[Any, str] | None = None,
    title: str | None = None,
    numbered: bool = True,
) -> Figure:
    """Each edge an arrow, stronger the more probable; where the true edges are given, coloured by right and wrong.

    numbered: write the probabilities, unless there are too many.
    """
    areas = areas or {}
    kinds = arrow_kinds(graph, None if truth is None else set(truth))
    joined, alone = _shown(graph, kinds)
    font = font_of(9.0 if len(graph) <= ALL_NODES_UP_TO else 7.0)
    labels = {name: wrap(str(name)) for name in [*joined, *alone]}
    sizes = box_sizes(labels, font)
    numbered = numbered and graph.number_of_edges() <= PROBABILITIES_UP_TO
    body = best_drawing(in_layers(joined, kinds), sizes, numbered)
    rest = bench(alone, sizes, max(body.width, BENCH_WIDTH))

    width = max(body.width, rest.width, LEAST_WIDTH) + 2 * MARGIN
    heading = Heading(title, _notes(graph, joined), width)
    legends = [Legend(entries, width) for entries in (area_entries(labels, areas), kind_entries(kinds.values()))]
    tops, height = stack([heading.height, body.height, rest.height, *(legend.height for legend in legends)])

    figure, axes = blank_sheet(width, height)
    body = body.moved((width - body.width) / 2, tops[1])
    rest = rest.moved((width - rest.width) / 2, tops[2])
    heading.draw(axes, tops[0])
    draw_arrows(axes, graph, kinds, body.curves)
    if numbered:
        write_probabilities(axes, graph, body.curves)
    draw_boxes(axes, body.boxes | rest.boxes, labels, areas, font)
    if alone:
        draw_rule(axes, "no edge", tops[2])
    for legend, top in zip(legends, tops[3:], strict=True):
        legend.draw(figure, top)
    return figure


def _shown(graph: nx.DiGraph, arrows: Iterable[Edge]) -> tuple[list[Name], list[Name]]:
    """Groups with an arrow and groups without; of a large graph, none without."""
    ends = {name for edge in arrows for name in edge}
    alone = [name for name in graph if name not in ends]
    return [name for name in graph if name in ends], alone if len(graph) <= ALL_NODES_UP_TO else []


def _notes(graph: nx.DiGraph, joined: Collection[Name]) -> list[str]:
    notes = []
    if not graph.number_of_edges():
        notes.append("no edge above the threshold")
    if len(graph) > ALL_NODES_UP_TO:
        notes.append(f"{len(graph)} groups, of which the {len(joined)} with an edge are shown")
    return notes


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
