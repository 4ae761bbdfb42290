"""Pictures of a search for settings: how it went, which settings mattered, and what each value gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from visl.report.words import INK, MUTED, font_of

BLUE, ORANGE, GRID = "#0072B2", "#D55E00", "#E4E7EB"
LOG_FROM = 50.0  # times the smallest value: then the axis has more than one power of ten
PANEL_WIDTH, PANEL_HEIGHT, PANELS_IN_ROW = 3.4, 3.1, 3  # inches
TICKS_UP_TO = 10  # values of a setting that are each named on the axis


def draw_history(trials: pd.DataFrame, metric: str, *, maximize: bool) -> Figure:
    """Every trial's score, and the best so far. trials: columns trial, state, score, in order"""
    figure = _sheet(7.0, 4.0)
    axes = _axes(figure, (1, 1, 1), x="trial", y=_words(metric))
    _dots(axes, trials, trials["trial"])
    finished = trials[trials["state"] == "finished"]
    best = finished["score"].cummax() if maximize else finished["score"].cummin()
    ends = [*finished["trial"], trials["trial"].max()] if len(finished) else []
    axes.plot(ends, [*best, *best.tail(1)], color=ORANGE, drawstyle="steps-post", label="best so far", zorder=2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, axes)
    return figure


def draw_importances(importances: Mapping[str, float]) -> Figure:
    """The share of each setting in the variance of the scores."""
    ordered = sorted(importances.items(), key=lambda item: item[1])
    figure = _sheet(7.0, 1.3 + 0.42 * max(1, len(ordered)))
    axes = _axes(figure, (1, 1, 1), x="share of the variance of the scores (fANOVA)", y="")
    if not ordered:
        axes.set_axis_off()
        font = font_of(10.0)
        axes.text(0.5, 0.5, "too few finished trials to say", ha="center", color=MUTED, fontproperties=font)
        return figure
    names, shares = [_words(name) for name, _ in ordered], [share for _, share in ordered]
    axes.barh(names, shares, color=BLUE, height=0.6, zorder=2)
    for position, share in enumerate(shares):
        axes.text(share + 0.01, position, f"{share:.2f}", va="center", color=INK, fontproperties=font_of(9.0))
    axes.set_xlim(0, 1.08)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelcolor=INK)
    return figure


def draw_slices(trials: pd.DataFrame, settings: Sequence[str], metric: str) -> Figure:
    """The scores over the values of each setting, whatever the others were."""
    across = min(PANELS_IN_ROW, len(settings))
    down = ceil(len(settings) / across)
    figure = _sheet(max(5.0, PANEL_WIDTH * across), PANEL_HEIGHT * down + 0.4)
    first: Axes | None = None
    for k, name in enumerate(settings):
        axes = _axes(
            figure, (down, across, k + 1), x=_words(name), y=_words(metric) if k % across == 0 else "", share=first
        )
        first = first or axes
        known = trials.dropna(subset=["score"])
        _dots(axes, known, _on_axis(axes, known[name]))
    if first is not None:
        _legend(figure, first)
    return figure


def _dots(axes: Axes, trials: pd.DataFrame, x: Any) -> None:
    """Finished trials are full, those that ended early are hollow."""
    for state, fill in (("finished", BLUE), ("pruned", "white")):
        at = (trials["state"] == state).to_numpy()
        if at.any():
            y = trials["score"].to_numpy()[at]
            axes.scatter(np.asarray(x)[at], y, s=34, facecolor=fill, edgecolor=BLUE, label=state, zorder=3, alpha=0.9)


def _on_axis(axes: Axes, values: pd.Series) -> Any:
    """Where the values lie; the axis is logarithmic where they spread, and one of names where they are no numbers."""
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    if numbers.isna().any() or values.map(lambda value: isinstance(value, bool | np.bool_)).any():
        shown = ["none" if pd.isna(value) else str(value) for value in values]
        levels = sorted(set(shown))
        axes.set_xticks(range(len(levels)), levels)
        axes.set_xlim(-0.5, len(levels) - 0.5)
        return [levels.index(level) for level in shown]
    distinct = np.unique(numbers)
    if len(distinct) and distinct[0] > 0 and distinct[-1] / distinct[0] >= LOG_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    if 1 < len(distinct) <= TICKS_UP_TO and _apart(distinct):
        axes.set_xticks(distinct, [f"{value:g}" for value in distinct])
    return numbers


def _apart(distinct: np.ndarray) -> bool:
    """Whether labels at these values stay clear of each other."""
    places = np.log10(distinct) if distinct[0] > 0 and distinct[-1] / distinct[0] >= LOG_FROM else distinct
    longest = max(len(f"{value:g}") for value in distinct)
    return bool(np.diff(places).min() / (places[-1] - places[0]) > 0.022 * (longest + 1))


def _sheet(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), facecolor="white", layout="constrained")


def _axes(figure: Figure, place: tuple[int, int, int], *, x: str, y: str, share: Axes | None = None) -> Axes:
    axes = figure.add_subplot(*place, sharey=share)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelsize=8.5)
    for label, setter in ((x, axes.set_xlabel), (y, axes.set_ylabel)):
        setter(label, color=INK, fontproperties=font_of(9.5), parse_math=False)
    return axes


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside upper right", ncols=3, frameon=False, prop=font_of(8.5), labelcolor=INK
        )


def _words(name: str) -> str:
    return name.replace("_", " ").replace("rmse", "RMSE")
