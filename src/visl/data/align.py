"""New tables matched to the columns a model was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from visl.data.long import LongLog, find_ids
from visl.data.source import Name, Source
from visl.errors import InputError, warn_user

NAMES_DIFFER = "The feature names should match those that were passed during fit.\n"  # scikit-learn's words


def all_text(names: Sequence[Name]) -> bool:
    return all(isinstance(name, str) for name in names)


def match_table(source: Source, columns: list[Name], *, has_names: bool) -> Source:
    """The source with the fitted name on each of its columns, which stay in their places.

    By name whenever both sides have names of their own; by position if X is an array (not has_names), or if one side is
    only numbered 0, 1, ... and the names differ.
    """
    names = source.names
    if has_names:
        position = find_ids(_objects(columns), _objects(names))
        if (position >= 0).all() and len(set(position.tolist())) == len(columns) == len(names):
            return _renamed(source, [columns[at] for at in position])
        if not _is_numbered(names) and not _is_numbered(columns):
            _refuse_missing([name for at, name in enumerate(columns) if at not in set(position.tolist())])
            _refuse_extra([name for name, at in zip(names, position, strict=True) if at < 0])
    if len(names) != len(columns):
        raise InputError(f"X has {len(names)} features, but VISL is expecting {len(columns)} features as input")
    if has_names and all_text(names):
        warn_user("X has feature names, but VISL was fitted without feature names")
    return _renamed(source, columns)


def _is_numbered(names: list[Name]) -> bool:
    return names == list(range(len(names)))


def _refuse_missing(missing: list[Name]) -> None:
    if missing:
        raise InputError(
            f"{NAMES_DIFFER}Feature names seen at fit time, yet now missing: {_some(missing)}. "
            "Add them, with gaps if they are not known"
        )


def _objects(names: list[Name]) -> NDArray:
    array = np.empty(len(names), object)
    array[:] = names
    return array


def match_log(source: Source, log: LongLog, columns: list[Name]) -> Source:
    """A log names only the columns that somebody answered, and may write numbers as text."""
    position = find_ids(_objects(columns), log.column_ids)
    _refuse_extra([name for name, at in zip(source.names, position, strict=True) if at < 0])
    return _renamed(source, [columns[at] for at in position])


def _renamed(source: Source, names: list[Name]) -> Source:
    renamed = tuple(replace(column, name=name) for column, name in zip(source.columns, names, strict=True))
    return Source(source.n_rows, renamed)


def _refuse_extra(extra: list[Name]) -> None:
    if extra:
        raise InputError(f"{NAMES_DIFFER}Feature names unseen at fit time: {_some(extra)}. Leave them out")


def _some(names: list[Name], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
