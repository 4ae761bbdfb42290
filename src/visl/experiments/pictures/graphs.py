"""A learned graph beside the true one. Edges read [from, to]."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from visl.errors import InputError
from visl.experiments.pictures.style import NORMAL, SMALL, blank_figure, label
from visl.experiments.problem import BoolArray, FloatArray, Structure
from visl.report.picture import draw_graph
from visl.report.words import INK, MUTED, font_of

NAMES_UP_TO = 30  # nodes; more names than that cannot be read beside each other
NO_EDGE = "#E4E7EB"  # the diagonal
# From white, so that the few probable edges of a sparse graph stand out, to a blue that is near black in grey.
SHADES = LinearSegmentedColormap.from_list("shades", ["#FFFFFF", "#9CC9E8", "#0072B2", "#08263F"])


def edge_heat_map(
    probabilities: FloatArray, truth: BoolArray, names: Sequence[str] | None = None, title: str | None = None
) -> Figure:
    """Edge probabilities and true edges side by side, nodes in the order given; many nodes are numbered, not named."""
    if probabilities.shape != truth.shape:
        raise InputError(f"probabilities {probabilities.shape}, truth {truth.shape}: give both for the same nodes")
    M = len(truth)
    side = float(np.clip(0.3 * M, 3.2, 6.5))
    figure = blank_figure(2 * side + 1.6, side + 1.0, title)
    left, right = figure.subplots(1, 2)
    image = _heat(left, probabilities, SHADES, float(max(1.0, np.nanmax(probabilities, initial=0.0))))
    _heat(right, truth.astype(np.float64), ListedColormap(["#FFFFFF", INK]), 1.0)
    label(left, "to", "from", "probability of an edge")
    label(right, "to", "from", f"true edges ({int(truth.sum())})")
    bar = figure.colorbar(image, ax=left, fraction=0.046, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=SMALL)
    for axes in (left, right):
        _name_ticks(axes, names, M)
    return figure


def _heat(axes: Axes, values: NDArray[np.float64], shades: Colormap, most: float) -> AxesImage:
    """Each cell a square of its own colour: smoothing would wash single edges out."""
    diagonal = np.eye(len(values), dtype=bool)
    shown = np.ma.masked_array(values, mask=diagonal)
    image = axes.imshow(shown, cmap=shades.with_extremes(bad=NO_EDGE), vmin=0.0, vmax=most, interpolation="nearest")
    axes.spines[:].set_color(MUTED)
    return image


def _name_ticks(axes: Axes, names: Sequence[str] | None, M: int) -> None:
    axes.tick_params(colors=MUTED, labelsize=SMALL, width=0.6)
    if M > NAMES_UP_TO:
        every = 25 if M <= 300 else 100
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(range(every - 1, M, every), [str(i) for i in range(every, M + 1, every)])
        return
    shown = [str(name) for name in names] if names is not None else [str(i + 1) for i in range(M)]
    upright = max(map(len, shown)) > 3
    axes.set_xticks(range(M), shown, rotation=90 if upright else 0, parse_math=False)
    axes.set_yticks(range(M), shown, parse_math=False)
    # Lines between the cells, so that a reader can count them.
    axes.set_xticks(np.arange(M + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(M + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=NO_EDGE, linewidth=0.6)
    axes.tick_params(which="both", length=0)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_fontproperties(font_of(SMALL if M > 12 else NORMAL - 0.5))


def predicted_graph(
    structure: Structure, truth: BoolArray, names: Sequence[str] | None = None, title: str | None = None
) -> Figure:
    """Right, wrongly directed, untrue and missing edges, as in the report; read best up to some twenty nodes."""
    M = len(truth)
    shown = [str(name) for name in names] if names is not None else [str(i + 1) for i in range(M)]
    strength = structure.probabilities
    graph = nx.DiGraph()
    graph.add_nodes_from(shown)
    for i, j in zip(*np.nonzero(structure.edges & ~np.eye(M, dtype=bool)), strict=True):
        graph.add_edge(shown[i], shown[j], probability=1.0 if strength is None else float(strength[i, j]))
    true_edges = {(shown[i], shown[j]) for i, j in zip(*np.nonzero(truth), strict=True)}
    return draw_graph(graph, truth=true_edges, title=title, numbered=strength is not None)
