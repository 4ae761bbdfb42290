"""Arrows: one for each edge, stronger the more probable, coloured by right and wrong where the truth is given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import networkx as nx
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from numpy.typing import ArrayLike

from visl.errors import InputError
from visl.report.layers import Edge
from visl.report.places import Points
from visl.report.words import MUTED, font_of, write


@dataclass(frozen=True)
class Kind:
    """How an arrow is drawn, and what the legend calls it."""

    label: str
    colour: str
    line: Literal["-", "--", "-.", ":"] = "-"  # one each, for readers who do not tell the colours apart


LEARNED = Kind("learned", "#2F4B66")
RIGHT = Kind("right", "#0072B2")
REVERSED = Kind("wrong direction", "#E69F00", "-.")
FALSE = Kind("not true", "#882255", ":")
MISSING = Kind("missing", "#8C96A0", "--")


def arrow_kinds(graph: nx.DiGraph, truth: Collection[Edge] | None) -> dict[Edge, Kind]:
    """The most probable first, and then the true edges that the graph lacks in either direction."""
    learned = sorted(graph.edges, key=lambda edge: -graph.edges[edge]["probability"])
    if truth is None:
        return dict.fromkeys(learned, LEARNED)
    for name in (name for edge in truth for name in edge):
        if name not in graph:
            raise InputError(f"the true edges name {name!r}, which is no group of the graph: use the graph's names")
    kinds = {edge: _judge(edge, truth) for edge in learned}
    missing = [edge for edge in truth if edge not in kinds and kinds.get(edge[::-1]) is not REVERSED]
    # By the graph's order, since a set has none that lasts from run to run.
    order = {name: i for i, name in enumerate(graph)}
    missing.sort(key=lambda edge: (order[edge[0]], order[edge[1]]))
    return kinds | dict.fromkeys(missing, MISSING)


def _judge(edge: Edge, truth: Collection[Edge]) -> Kind:
    if edge in truth:
        return RIGHT
    return REVERSED if edge[::-1] in truth else FALSE


def kind_entries(kinds: Collection[Kind]) -> dict[str, Artist]:
    """For the legend, which learned edges without a truth do not need."""
    found = [kind for kind in (RIGHT, REVERSED, FALSE, MISSING) if kind in kinds]
    return {kind.label: Line2D([], [], color=kind.colour, linestyle=kind.line, linewidth=2) for kind in found}


def draw_arrows(axes: Axes, graph: nx.DiGraph, kinds: Mapping[Edge, Kind], curves: Mapping[Edge, Points]) -> None:
    for edge, kind in kinds.items():
        strength = 0.4 if kind is MISSING else float(np.clip(graph.edges[edge]["probability"], 0.0, 1.0))
        arrow = FancyArrowPatch(
            path=_path(curves[edge]),
            arrowstyle="-|>",
            mutation_scale=8 + 5 * strength,
            linewidth=0.6 + 1.8 * strength,
            alpha=0.9 if kind is MISSING else 0.3 + 0.65 * strength,
            color=kind.colour,
            linestyle=kind.line,
            zorder=1 + strength,
        )
        axes.add_patch(arrow)


def _path(curve: Points) -> Path:
    bow = [Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    return Path(curve, [Path.MOVETO, *bow * ((len(curve) - 2) // 4), Path.LINETO])


def write_probabilities(axes: Axes, graph: nx.DiGraph, curves: Mapping[Edge, Points]) -> None:
    """Each on its own arrow, where it covers fewest of the other arrows and none of the other numbers."""
    font, half = font_of(6.5), np.array([0.15, 0.065])
    back = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
    along = {edge: _on_bows(curve, np.linspace(0, 1, 25)) for edge, curve in curves.items()}
    written = nothing = np.empty((0, 2))
    for edge in graph.edges:
        others = np.concatenate([nothing, *(points for other, points in along.items() if other != edge)])
        options = _on_bows(curves[edge], (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74))
        costs = [10 * _within(written, option, 2 * half) + _within(others, option, half) for option in options]
        x, y = place = options[np.argmin(costs)]
        written = np.vstack([written, place])
        write(axes, x, y, f"{graph.edges[edge]['probability']:.2f}", font, color=MUTED, bbox=back, zorder=3)


def _on_bows(curve: Points, times: ArrayLike) -> Points:
    """Points of the first and the last bow at these times, which run from 0 to 1."""
    t = np.asarray(times)[:, None]
    found = []
    for start in sorted({1, len(curve) - 5}):
        a, b, c, d = curve[start : start + 4]
        found.append(a * (1 - t) ** 3 + 3 * b * t * (1 - t) ** 2 + 3 * c * t**2 * (1 - t) + d * t**3)
    return np.concatenate(found)


def _within(points: Points, centre: Points, half: Points) -> int:
    return int((np.abs(points - centre) < half).all(-1).sum())
