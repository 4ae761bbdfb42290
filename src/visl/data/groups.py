"""Which group each column is in: the nodes of the graph."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from visl.data.files import csv_records, read_json
from visl.data.outputs import PathLike
from visl.errors import InputError

Name = str | int
Pair = tuple[Any, Any, str]  # column, group, and where that is written

COLUMN_HEADERS = ("column", "question", "item", "variable")
GROUP_HEADERS = ("group", "topic")
FORMS = 'give {"column": "group", ...} or {"group": ["column", ...], ...}'


class KnownNames:
    """Names of columns or groups; "0" finds 0, since files hold only text."""

    def __init__(self, names: Iterable[Name], what: str) -> None:
        self.what = what
        self._names = {name: name for name in names}
        self._as_text = {str(name): name for name in self._names if not isinstance(name, str)}

    def find(self, entry: Any) -> Name | None:
        if isinstance(entry, bool) or not isinstance(entry, str | Integral):
            return None
        key = entry if isinstance(entry, str) else int(entry)
        return self._names.get(key, self._as_text.get(str(key)) if isinstance(key, str) else None)

    def need(self, entry: Any, where: str) -> Name:
        found = self.find(entry)
        if found is None:
            raise InputError(f"{where}: there is no {self.what} {entry!r}: {self._suggestion(entry)}")
        return found

    def _suggestion(self, entry: Any) -> str:
        close = difflib.get_close_matches(str(entry), [str(name) for name in self._names], n=1)
        if close:
            return f"did you mean {close[0]!r}?"
        shown = ", ".join(repr(name) for name in list(self._names)[:5])
        return f"use one of {shown}{', ...' if len(self._names) > 5 else ''}"


def resolve_groups(groups: Any, columns: Sequence[Name]) -> dict[Name, Name]:
    """The group of every column that is in one; any other column is its own group.

    groups: None, a mapping column -> group or group -> columns, or a JSON, CSV or TSV file of either.
    """
    if groups is None:
        return {}
    known = KnownNames(columns, "column")
    group_of: dict[Name, Name] = {}
    for entry, group, where in _pairs(groups, known):
        column = known.need(entry, where)
        group = _check_group_name(group, column, where)
        if column in group_of:
            raise _listed_twice(column, group_of[column], group, where)
        group_of[column] = group
    _refuse_shared_names(columns, group_of)
    return group_of


def _pairs(groups: Any, known: KnownNames) -> list[Pair]:
    if isinstance(groups, Mapping):
        return _pairs_of_mapping(groups, "groups")
    if not isinstance(groups, str | os.PathLike):
        raise InputError(f"groups is a {type(groups).__name__}: {FORMS}, or the name of a JSON or CSV file")
    if Path(groups).suffix.lower() != ".json":
        return _pairs_of_csv(groups, known)
    content = read_json(groups)
    if not isinstance(content, Mapping):
        raise InputError(f"{groups} holds no object: {FORMS}")
    return _pairs_of_mapping(content, str(groups))


def _pairs_of_mapping(mapping: Mapping[Any, Any], where: str) -> list[Pair]:
    is_list = {key: isinstance(value, list | tuple | set | frozenset) for key, value in mapping.items()}
    if not any(is_list.values()):
        return [(column, group, where) for column, group in mapping.items()]
    for key, value in mapping.items():
        if not is_list[key]:
            raise InputError(f"{where}: {key!r} has {value!r} where others have lists: {FORMS}, not both")
        if not value:
            raise InputError(f"{where}: group {key!r} is empty: list its columns, or remove it")
    return [(column, group, where) for group, members in mapping.items() for column in members]


def _pairs_of_csv(path: PathLike, known: KnownNames) -> list[Pair]:
    records = csv_records(path)
    _, header = next(records)
    if len(header) != 2:
        raise InputError(f"{path} has {len(header)} columns: give two, column and group")
    rows = [(first, second, f"{path}, line {line}") for line, (first, second) in records]
    if not rows:
        raise InputError(f"{path} has no rows: give a line for each column that is in a group")
    columns_first = _columns_come_first(header, rows, known)
    _refuse_missing_header(path, header, known, columns_first)
    return rows if columns_first else [(second, first, where) for first, second, where in rows]


def _columns_come_first(header: Sequence[str], rows: Sequence[Pair], known: KnownNames) -> bool:
    """By the entries; if neither side is all columns of the table, by the header, and then by the better side."""
    found = [sum(known.find(row[side]) is not None for row in rows) for side in (0, 1)]
    if len(rows) in found:
        return found[0] == len(rows)
    titles = [title.strip().lower() for title in header]
    if titles[0] in COLUMN_HEADERS or titles[1] in GROUP_HEADERS:
        return True
    if titles[1] in COLUMN_HEADERS or titles[0] in GROUP_HEADERS:
        return False
    return found[0] >= found[1]


def _refuse_missing_header(path: PathLike, header: Sequence[str], known: KnownNames, columns_first: bool) -> None:
    """A file that starts with its first pair would lose it."""
    title = header[0 if columns_first else 1]
    if title.strip().lower() not in COLUMN_HEADERS and known.find(title) is not None:
        raise InputError(f"{path}: the first line names the column {title!r}: put a line column,group above it")


def _check_group_name(group: Any, column: Name, where: str) -> Name:
    if isinstance(group, str) and group.strip():
        return str(group)
    if isinstance(group, Integral) and not isinstance(group, bool):
        return int(group)
    raise InputError(
        f"{where}: column {column!r} has the group {group!r}: name it by text or a whole number, or remove the entry"
    )


def _listed_twice(column: Name, group: Name, other: Name, where: str) -> InputError:
    if group == other:
        return InputError(f"{where}: column {column!r} is listed twice in group {group!r}: keep one")
    return InputError(f"{where}: column {column!r} is in two groups, {group!r} and {other!r}: keep one")


def _refuse_shared_names(columns: Sequence[Name], group_of: Mapping[Name, Name]) -> None:
    """Two nodes of one graph cannot have one name."""
    groups = {str(group): group for group in group_of.values()}
    for column in columns:
        if column not in group_of and str(column) in groups:
            raise InputError(
                f"column {column!r} is in no group, and a group is named {groups[str(column)]!r} too: "
                "put the column into that group, or rename the group"
            )
    twins = [name for name, count in Counter(map(str, set(group_of.values()))).items() if count > 1]
    if twins:
        raise InputError(f"groups {int(twins[0])!r} and {twins[0]!r} cannot be told apart: rename one")
