"""Boxes: one for each group, with its name, in the colour of its area."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, Patch

from visl.graph.export import Name
from visl.report.places import Box, Size
from visl.report.words import line_height, text_width, write

Labels = Mapping[Name, Sequence[str]]  # the lines in each box

# Okabe and Ito's colours: told apart with any common colour blindness.
AREA_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
BORDERS = ("-", "--", ":")  # when the colours come round again
PLAIN = "#52606D"


def box_sizes(labels: Labels, font: FontProperties) -> dict[Name, Size]:
    """One width for all boxes, which reads calmer; each its own height."""
    width = max((text_width(line, font) for lines in labels.values() for line in lines), default=0.0) + 0.2
    return {name: (max(width, 0.7), 0.16 + len(lines) * line_height(font)) for name, lines in labels.items()}


def draw_boxes(
    axes: Axes, boxes: Mapping[Name, Box], labels: Labels, areas: Mapping[Any, str], font: FontProperties
) -> None:
    looks = _area_looks(labels, areas)
    for name, (x, y, width, height) in boxes.items():
        corner = (x - width / 2, y - height / 2)
        box = FancyBboxPatch(corner, width, height, "round,pad=0,rounding_size=0.07", linewidth=1.1, zorder=4)
        box.set(**looks[areas[name]] if name in areas else _box_looks(PLAIN, "-"))
        axes.add_patch(box)
        # One text a line: matplotlib spaces the lines of one text by what stands in them.
        top = y - (len(labels[name]) - 1) / 2 * line_height(font)
        for i, line in enumerate(labels[name]):
            write(axes, x, top + i * line_height(font), line, font, zorder=5)


def area_entries(names: Iterable[Name], areas: Mapping[Any, str]) -> dict[str, Artist]:
    """For the legend."""
    return {str(area): Patch(linewidth=1.1, **looks) for area, looks in _area_looks(names, areas).items()}


def _area_looks(names: Iterable[Name], areas: Mapping[Any, str]) -> dict[str, dict[str, Any]]:
    """By area, in the order in which the areas come up."""
    found = dict.fromkeys(areas[name] for name in names if name in areas)
    n = len(AREA_COLOURS)
    return {area: _box_looks(AREA_COLOURS[i % n], BORDERS[i // n % len(BORDERS)]) for i, area in enumerate(found)}


def _box_looks(colour: str, border: str) -> dict[str, Any]:
    fill = 1 - 0.16 * (1 - np.array(to_rgb(colour)))
    return {"facecolor": fill, "edgecolor": colour, "linestyle": border}
