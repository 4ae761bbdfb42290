"""What the pictures have in common: ink, type, how methods are told apart, and the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from visl.report.picture import picture_bytes
from visl.report.words import INK, MUTED, font_of

SMALL, NORMAL, LARGE = 7.5, 9.0, 11.0  # points
# Okabe and Ito's colours, less the yellow, which a thin line on white loses.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
MARKERS = ("o", "s", "D", "v", "P", "X", "<", ">", "*", "h", "p")
LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))


@dataclass(frozen=True)
class Look:
    """Of one method: colour, mark and line differ, so that no reader depends on one of them."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]


def look_of(i: int) -> Look:
    """Of the i-th method; 7, 11 and 5 have no common divisor, so the first 385 all differ."""
    return Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], LINES[i % len(LINES)])


def blank_figure(width: float, height: float, title: str | None = None) -> Figure:
    """In inches; room is made for labels and legends when it is drawn."""
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    if title:
        figure.suptitle(title, fontproperties=font_of(LARGE, "bold"), color=INK, parse_math=False)
    return figure


def label(axes: Axes, x: str = "", y: str = "", title: str = "", size: float = NORMAL) -> None:
    """Names come from users: never read as mathematics."""
    font = font_of(size)
    for text, words in ((axes.xaxis.label, x), (axes.yaxis.label, y), (axes.title, title)):
        text.set(text=words, fontproperties=font, color=INK, parse_math=False)


def quiet(axes: Axes, size: float = SMALL) -> None:
    """Frame and ticks that stand back behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(which="both", colors=MUTED, labelsize=size, width=0.6)
    axes.tick_params(which="minor", length=0)


def save(figure: Figure, path: str | Path) -> None:
    """As png or svg, by the file's suffix."""
    path = Path(path)
    path.write_bytes(picture_bytes(figure, path.suffix))
