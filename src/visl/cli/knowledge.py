"""What the user says of columns and edges on the command line, in the terms of the estimator."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visl.data.files import csv_records, read_json
from visl.data.groups import KnownNames, Name
from visl.errors import InputError

KIND_FORM = "write COLUMN=KIND, or COLUMN=low<middle<high for ordered levels"


def kinds_of(file: Path | None, single: Sequence[str], columns: Sequence[Name]) -> dict[Name, Any] | None:
    """Column -> kind or ordered levels; those given one by one come after the file's and so override them."""
    known = KnownNames(columns, "column")
    kinds: dict[Name, Any] = {}
    if file is not None:
        for name, kind, where in _kinds_in_file(file):
            kinds[known.need(name, where)] = _kind(kind)
    for text in single:
        name, equals, kind = text.rpartition("=")
        if not equals or not name or not kind:
            raise InputError(f"--kind {text}: {KIND_FORM}")
        kinds[known.need(name, f"--kind {text}")] = _kind(kind)
    return kinds or None


def _kinds_in_file(file: Path) -> list[tuple[Any, Any, str]]:
    if file.suffix.lower() == ".json":
        content = read_json(file)
        if not isinstance(content, dict):
            raise InputError(f'{file} holds no object: give {{"column": "kind", ...}}')
        return [(name, kind, str(file)) for name, kind in content.items()]
    records = csv_records(file)
    _, header = next(records)
    if [title.strip().lower() for title in header] != ["column", "kind"]:
        raise InputError(f"{file} starts with {', '.join(map(repr, header))}: start it with column,kind")
    return [(name, kind, f"{file}, line {line}") for line, (name, kind) in records]


def _kind(kind: Any) -> Any:
    """A kind, or a list of levels; "1<2<3" are numbers."""
    if not isinstance(kind, str) or "<" not in kind:
        return kind
    levels = kind.split("<")
    try:
        return [float(level) if "." in level else int(level) for level in levels]
    except ValueError:
        return levels


def prior_of(text: str | None) -> float | str | None:
    """A number, or the name of a file."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        if not Path(text).exists():
            raise InputError(
                f"--edge-prior {text} is neither a number nor a file: give a number from 0 to 1, or a CSV file"
            ) from None
        return text


def edges_of(option: str, single: Sequence[str], file_option: str, file: Path | None) -> list[list[str]] | str | None:
    """Pairs (from, to), or the name of a file of them."""
    if single and file is not None:
        raise InputError(f"{option} and {file_option} are both given: use one of them")
    if file is not None:
        return str(file)
    return [_edge(option, text) for text in single] or None


def _edge(option: str, text: str) -> list[str]:
    cells = next(csv.reader([text], skipinitialspace=True), [])
    if len(cells) != 2:
        raise InputError(f"{option} {text}: write FROM,TO (a name that holds a comma in quotes, as in '\"a,b\",c')")
    return [cell.strip() for cell in cells]
