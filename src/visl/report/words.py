"""Words in a picture: fonts, line breaks, measures and ink. Text is never read as mathematics."""

from __future__ import annotations

import re
from typing import Any

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, get_font_names
from matplotlib.textpath import TextToPath

from visl.graph.export import NOT_XML

INK, MUTED = "#1F2933", "#6B7785"
WRAP_AT = 18  # characters
# Used only where installed, for scripts that matplotlib's own font lacks.
FURTHER_FONTS = ("Noto Sans", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Devanagari", "Arial Unicode MS")


def font_of(size: float, weight: str = "normal") -> FontProperties:
    installed = set(get_font_names())
    family = ["DejaVu Sans", *(name for name in FURTHER_FONTS if name in installed)]
    return FontProperties(family=family, size=size, weight=weight)


def wrap(text: str, width: int = WRAP_AT) -> list[str]:
    """Break lines after spaces, and within long words after _ - / . or anywhere; keep the lines of the text."""
    lines = NOT_XML.sub("\ufffd", text.expandtabs()).splitlines() or [""]
    return [wrapped for line in lines for wrapped in _wrap_line(line, width)]


def _wrap_line(line: str, width: int) -> list[str]:
    lines = [""]
    for piece in re.findall(rf"[^\s_\-/.]{{0,{width - 1}}}[\s_\-/.]|[^\s_\-/.]{{1,{width}}}", line):
        if len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [wrapped.rstrip() for wrapped in lines]


def line_height(font: FontProperties) -> float:
    return 1.25 * font.get_size_in_points() / 72


def text_width(line: str, font: FontProperties) -> float:
    points, _, _ = TextToPath().get_text_width_height_descent(line, font, ismath=False)
    return points / 72


def write(axes: Axes, x: float, y: float, text: str, font: FontProperties, **looks: Any) -> None:
    looks = {"ha": "center", "va": "center", "color": INK} | looks
    axes.text(x, y, text, fontproperties=font, parse_math=False, usetex=False, **looks)
