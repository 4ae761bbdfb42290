"""Every column against every other, and by itself on the diagonal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from visl.errors import InputError
from visl.experiments.pictures.style import COLOURS, NORMAL, SMALL, blank_figure, label, quiet
from visl.experiments.problem import BoolArray, FloatArray
from visl.report.words import INK

MOST_COLUMNS, MOST_POINTS = 9, 800
BAR, POINT = "#9CB4C8", COLOURS[0]


def pair_plot(
    values: FloatArray, names: Sequence[str], is_binary: BoolArray | None = None, title: str | None = None
) -> Figure:
    """Rows of panels share y, columns share x; gaps (NaN) are left out.  values: (N, D), at most 9 columns

    Two binary columns meet as a table of shares; a binary and a continuous one as points spread around 0 and 1.
    """
    D = values.shape[1]
    if D > MOST_COLUMNS:
        raise InputError(f"{D} columns: choose at most {MOST_COLUMNS}, as more panels cannot be read")
    binary = np.zeros(D, dtype=bool) if is_binary is None else is_binary
    side = 1.75 if D <= 5 else 1.25
    figure = blank_figure(side * D + 0.5, side * D + 0.5, title)
    panels = figure.subplots(D, D, squeeze=False)
    limits = [_limits(values[:, j], bool(binary[j])) for j in range(D)]
    for (row, column), axes in np.ndenumerate(panels):
        if row == column:
            _alone(axes, values[:, row], bool(binary[row]))
        elif binary[row] and binary[column]:
            _shares(axes, values[:, column], values[:, row])
        else:
            _points(axes, values[:, [column, row]], binary[[column, row]])
        axes.set(xlim=limits[column], ylim=limits[row])
        _ticks(axes, (bool(binary[column]), bool(binary[row])), outer=(row == D - 1, column == 0))
        label(axes, str(names[column]) if row == D - 1 else "", str(names[row]) if column == 0 else "", size=NORMAL)
    figure.align_labels(panels)
    return figure


def _limits(values: FloatArray, binary: bool) -> tuple[float, float]:
    seen = values[np.isfinite(values)]
    if binary or not seen.size:
        return -0.5, 1.5
    low, high = float(seen.min()), float(seen.max())
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _alone(axes: Axes, values: FloatArray, binary: bool) -> None:
    """A histogram; of a binary column the share of each value, written on it. The panel keeps its row's y."""
    seen = values[np.isfinite(values)]
    axes = axes.twinx()
    axes.set_axis_off()
    if not binary:
        axes.hist(seen, bins=24, color=BAR)
    elif seen.size:
        shares = np.array([np.mean(seen == 0), np.mean(seen == 1)])
        axes.bar([0, 1], shares, width=0.6, color=BAR)
        axes.set_ylim(0, 1.25)
        for x, share in enumerate(shares):
            axes.text(x, share + 0.04, f"{share:.0%}", ha="center", fontsize=SMALL, color=INK)


def _points(axes: Axes, xy: FloatArray, binary: BoolArray) -> None:
    """(N, 2); evenly spaced rows where there are too many, and the same spread in every run."""
    xy = xy[np.isfinite(xy).all(1)]
    xy = xy[np.linspace(0, len(xy) - 1, min(len(xy), MOST_POINTS)).astype(int)]
    spread = 0.6 * ((np.arange(len(xy)) * 0.618034) % 1 - 0.5)
    x, y = (xy + spread[:, None] * binary).T
    axes.scatter(x, y, s=5, alpha=0.35, color=POINT, linewidths=0)


def _shares(axes: Axes, x: FloatArray, y: FloatArray) -> None:
    """Of all rows that have both: four cells, darker and written the larger."""
    both = np.isfinite(x) & np.isfinite(y)
    shares = (
        np.array([[np.mean((y[both] == b) & (x[both] == a)) for a in (0, 1)] for b in (0, 1)]) if both.any() else None
    )
    if shares is None:
        return
    white, blue = np.ones(3), np.array(to_rgb(POINT))
    depth = 0.6 * shares[..., None] / shares.max()
    axes.imshow(white + depth * (blue - white), extent=(-0.5, 1.5, -0.5, 1.5), origin="lower")
    axes.set_aspect("auto")
    for (b, a), share in np.ndenumerate(shares):
        axes.text(a, b, f"{share:.0%}", ha="center", va="center", fontsize=SMALL, color=INK)


def _ticks(axes: Axes, binary: tuple[bool, bool], outer: tuple[bool, bool]) -> None:
    """Numbers at the left and at the bottom alone."""
    quiet(axes)
    for axis, is_binary, at_edge in zip((axes.xaxis, axes.yaxis), binary, outer, strict=True):
        if is_binary:
            axis.set_ticks([0, 1])
        else:
            axis.set_major_locator(MaxNLocator(3))
        if not at_edge:
            axis.set_ticklabels([])
