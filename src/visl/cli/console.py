"""What commands say. Results go to stdout, everything on the way to them to stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # Rich would end the program with exit code 1


class Talk:
    """The voice of one command: `quiet` leaves only errors and JSON, `as_json` only JSON on stdout."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self._stdout = _Console(markup=False, highlight=False, emoji=False)
        self.stderr = _Console(markup=False, highlight=False, emoji=False, stderr=True, quiet=quiet)

    def note(self, *parts: RenderableType) -> None:
        """On the way to a result."""
        for part in parts:
            self.stderr.print(part)

    def notice(self, text: str) -> None:
        if not self.quiet:
            notice_line(text)

    def result(self, summary: Mapping[str, Any], *parts: RenderableType) -> None:
        """The end of a command: the summary for programs, or the parts for people."""
        if self.as_json:
            typer.echo(json.dumps(_plain(summary), ensure_ascii=False, indent=2, allow_nan=False))
        elif not self.quiet:
            for part in parts:
                self._stdout.print(part, soft_wrap=isinstance(part, str))


def error_line(text: str) -> None:
    typer.echo(f"{typer.style('Error:', fg=typer.colors.RED, bold=True)} {text}", err=True)


def notice_line(text: str) -> None:
    typer.echo(f"{typer.style('Notice:', fg=typer.colors.YELLOW)} {text}", err=True)


def plain_table(titles: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> Table:
    """Columns of numbers, which are given as numbers, align right. Without titles, a list of facts."""
    style = {"title_justify": "left", "title_style": "bold", "show_header": any(titles), "pad_edge": False}
    table = Table(box=box.SIMPLE_HEAD if any(titles) else None, title=title, **style)  # type: ignore[arg-type]
    rows = [list(row) for row in rows]
    for k, name in enumerate(titles):
        is_number = any(isinstance(row[k], int | float) for row in rows)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def edge_table(
    edges: Sequence[tuple[Any, Any, float, float, float]], *, title: str | None = None, spread: bool = False
) -> Table:
    """(from, to, probability, adjacency, spread) of each edge; spread: whether to show the last."""
    titles = ("from", "to", "probability", "either way", "spread")
    shown = 5 if spread else 4
    return plain_table(titles[:shown], [edge[:shown] for edge in edges], title=title)


def count(number: int, thing: str) -> str:
    """1 row, 2 rows, 1,000 rows"""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def listed(names: Sequence[Any], most: int = 3) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def named(thing: str, names: Sequence[Any]) -> str:
    """the column 'x', or the columns 'x', 'y'"""
    return f"{thing if len(names) == 1 else thing + 's'} {listed([repr(name) for name in names])}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """What JSON can hold: no NaN, no numbers of NumPy, no paths."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)
