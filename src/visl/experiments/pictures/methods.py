"""Methods side by side: how they rank edges or cells, and how long they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike

from visl import measures
from visl.errors import InputError
from visl.experiments.pictures.style import SMALL, Look, blank_figure, label, look_of, quiet
from visl.graph.metrics import ordered_pairs
from visl.report.words import INK, MUTED, font_of

LegendPlace = Literal["outside lower center", "outside right upper"]

TIMES = {"0.01 s": 0.01, "0.1 s": 0.1, "1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600, "1 h": 3600, "10 h": 36000}
TIMES |= {"100 h": 360000, "1000 h": 3600000}


def edge_curves(probabilities: Mapping[str, ArrayLike], truth: ArrayLike, title: str | None = None) -> Figure:
    """By method, (M, M) [from, to]: how well probabilities tell true edges from other ordered pairs."""
    flat = {name: ordered_pairs(matrix, truth) for name, matrix in probabilities.items()}
    is_edge = next(iter(flat.values()))[1]
    return ranking_curves({name: scores for name, (scores, _) in flat.items()}, is_edge, title)


def ranking_curves(scores: Mapping[str, ArrayLike], truth: ArrayLike, title: str | None = None) -> Figure:
    """ROC and precision-recall curves, one line a method, with what chance would give.  each: (n,); truth: 0 or 1"""
    true = np.asarray(truth)
    share = float(np.mean(true))
    if not 0 < share < 1:
        raise InputError("the truth holds one class only: curves need positives and negatives")
    figure = blank_figure(8.6, 4.6 + 0.18 * (len(scores) + 1) + (0.3 if title else 0.0), title)
    roc, recall = figure.subplots(1, 2)
    lines = [_draw_curves(roc, recall, np.asarray(score), true, look_of(i)) for i, score in enumerate(scores.values())]
    roc.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, zorder=1)
    (chance,) = recall.plot([0, 1], [share, share], color=MUTED, linewidth=0.8, zorder=1)
    for axes in (roc, recall):
        quiet(axes)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.03), box_aspect=1)
    label(roc, "false positive rate", "true positive rate (recall)", "ROC")
    label(recall, "recall", "precision", "precision and recall")
    entries = [_areas(name, np.asarray(score), true) for name, score in scores.items()]
    _legend(
        figure,
        [*lines, chance],
        [*entries, f"chance   AUROC .500   share of positives {_short(share)}"],
        "outside lower center",
    )
    return figure


def _draw_curves(roc: Axes, recall: Axes, score: np.ndarray, truth: np.ndarray, look: Look) -> Line2D:
    """Marks where there are few points, as of a method with a handful of different scores."""
    curves = (roc, measures.roc_curve(score, truth)), (recall, measures.precision_recall_curve(score, truth))
    for axes, (x, y) in curves:
        marker = look.marker if len(x) <= 12 else ""
        (line,) = axes.plot(x, y, color=look.colour, linestyle=look.line, linewidth=1.6, marker=marker, markersize=4)
    return line


def _areas(name: str, score: np.ndarray, truth: np.ndarray) -> str:
    areas = {
        "AUROC": measures.auroc(score, truth),
        "AUPR": measures.aupr(score, truth),
        "average precision": measures.average_precision(score, truth),
    }
    return "   ".join([name, *(f"{measure} {_short(value)}" for measure, value in areas.items())])


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def running_times(
    seconds: Mapping[str, Mapping[int, float]], limit: float, title: str | None = None, size_name: str = "variables"
) -> Figure:
    """By method and size, both axes logarithmic. A run over the limit, or infinite, is a hollow mark at the limit.

    seconds: by method, by size
    """
    figure = blank_figure(7.6, 4.6, title)
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    stopped: Counter[int] = Counter()
    lines = [_draw_times(axes, times, limit, look_of(i), stopped) for i, times in enumerate(seconds.values())]
    border = axes.axhline(limit, color=INK, linewidth=0.9, linestyle=(0, (6, 3)), zorder=1)
    label(axes, f"number of {size_name}", "running time")
    _make_room(axes, limit, max(stopped.values(), default=0))
    _time_ticks(axes, sorted({size for times in seconds.values() for size in times}))
    hollow = Line2D([], [], color=MUTED, marker="o", markersize=6, markerfacecolor="white", linestyle="")
    _legend(
        figure,
        [*lines, border, hollow],
        [*seconds, f"limit: {_duration(limit)}", "hollow: over the limit"],
        "outside right upper",
    )
    return figure


def _draw_times(axes: Axes, times: Mapping[int, float], limit: float, look: Look, stopped: Counter[int]) -> Line2D:
    done = {size: time for size, time in sorted(times.items()) if time <= limit}
    (line,) = axes.plot(
        list(done), list(done.values()), color=look.colour, linestyle=look.line, marker=look.marker, markersize=5
    )
    for size in sorted(set(times) - set(done)):
        # Methods stopped at the same size stand above each other, or the last would hide the rest.
        up = ScaledTranslation(0, 8 * stopped[size] / 72, axes.figure.dpi_scale_trans)
        stopped[size] += 1
        axes.plot(
            [size],
            [limit],
            color=look.colour,
            marker=look.marker,
            markersize=6,
            markerfacecolor="white",
            linestyle="",
            transform=axes.transData + up,
            zorder=4,
        )
    return line


def _make_room(axes: Axes, limit: float, most_stopped: int) -> None:
    """Above the limit, for the marks that stand on it."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, limit * (limit / low) ** (0.04 + 0.03 * most_stopped)))


def _duration(seconds: float) -> str:
    unit, words = next((unit, words) for unit, words in ((3600, "h"), (60, "min"), (0, "s")) if seconds >= 2 * unit)
    return f"{seconds / (unit or 1):g} {words}"


def _time_ticks(axes: Axes, sizes: list[int]) -> None:
    quiet(axes)
    axes.grid(axis="y", color="#E4E7EB", linewidth=0.6)
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes, [str(size) for size in sizes])
    low, high = axes.get_ylim()
    if sum(low <= time <= high for time in TIMES.values()) < 2:  # all times alike: the axis still needs numbers
        low = max((time for time in TIMES.values() if time < low), default=low)
        high = min((time for time in TIMES.values() if time > high), default=high)
        axes.set_ylim(low, high)
    shown = {words: time for words, time in TIMES.items() if low <= time <= high}
    axes.set_yticks(list(shown.values()), list(shown))
    axes.yaxis.set_minor_locator(NullLocator())


def _legend(figure: Figure, handles: list[Line2D], words: list[str], place: LegendPlace) -> None:
    """Outside of the data."""
    legend = figure.legend(handles, words, loc=place, frameon=False, prop=font_of(SMALL + 0.5), handlelength=3.2)
    for text in legend.get_texts():
        text.set(color=INK, parse_math=False)
