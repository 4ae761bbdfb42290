"""The sheet around the drawing: blocks one below the other, a heading above them and legends below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from visl.report.words import INK, MUTED, font_of, text_width, wrap, write

MARGIN, LINE, BLOCK_GAP = 0.3, 0.27, 0.18  # inches


def blank_sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """Measured in inches from the top left."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def stack(heights: Sequence[float]) -> tuple[list[float], float]:
    """Where each block starts from the top, and the height of them all with margins; empty blocks take no room."""
    tops, top = [], MARGIN
    for height in heights:
        tops.append(top)
        top += height + (BLOCK_GAP if height else 0.0)
    return tops, max(top - BLOCK_GAP, MARGIN) + MARGIN


class Heading:
    """Title and notes, in as many lines as they need."""

    def __init__(self, title: str | None, notes: Sequence[str], width: float) -> None:
        characters = int((width - 2 * MARGIN) / 0.105)
        self.title = wrap(title, characters) if title else []
        self.notes = [line for note in notes for line in wrap(note, characters)]
        self.height = (len(self.title) + len(self.notes)) * LINE

    def draw(self, axes: Axes, top: float) -> None:
        lines = [(line, font_of(12.0, "bold"), INK) for line in self.title]
        lines += [(line, font_of(10.0), MUTED) for line in self.notes]
        for i, (line, font, colour) in enumerate(lines):
            write(axes, axes.get_xlim()[1] / 2, top + (i + 0.5) * LINE, line, font, color=colour)


def draw_rule(axes: Axes, label: str, top: float) -> None:
    """A label, and a thin line from it to the right margin."""
    font, right, y = font_of(8.5), axes.get_xlim()[1] - MARGIN, top + LINE / 2
    write(axes, MARGIN, y, label, font, ha="left", color=MUTED)
    axes.add_line(Line2D([MARGIN + text_width(label, font) + 0.1, right], [y, y], color="#CBD2D9", linewidth=0.8))


class Legend:
    """One strip of entries, in as many rows as they need."""

    def __init__(self, entries: Mapping[str, Artist], width: float) -> None:
        self.entries = entries
        self.font = font_of(8.5)
        widest = max((text_width(label, self.font) for label in entries), default=0.0) + 0.65
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
