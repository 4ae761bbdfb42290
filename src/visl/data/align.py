"""New tables matched to the columns a model was fitted on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from visl.data.long import LongLog, find_ids
from visl.data.source import Name, Source
from visl.errors import InputError

NAMES_DIFFER = "The feature names should match those that were passed during fit.\n"  # scikit-learn's words


def all_text(names: Sequence[Name]) -> bool:
    return all(isinstance(name, str) for name in names)


def match_table(source: Source, columns: list[Name], *, named: bool) -> Source:
    """Columns matched by name where both sides have names, else by position.  named: the model was fitted with names"""
    if named and all_text(source.names):
        missing = [name for name in columns if name not in set(source.names)]
        if missing:
            raise InputError(
                f"{NAMES_DIFFER}Feature names seen at fit time, yet now missing: {_some(missing)}. "
                "Add them, with gaps if they are not known"
            )
        _refuse_extra([name for name in source.names if name not in set(columns)])
        return source
    if len(source.names) != len(columns):
        raise InputError(f"X has {len(source.names)} features, but VISL is expecting {len(columns)} features as input")
    if all_text(source.names) and not named:
        warnings.warn("X has feature names, but VISL was fitted without feature names", stacklevel=5)
    return _renamed(source, columns)


def match_log(source: Source, log: LongLog, columns: list[Name]) -> Source:
    """A log names only the columns that somebody answered, and may write numbers as text."""
    position = find_ids(np.array(columns, object), log.column_ids)
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
