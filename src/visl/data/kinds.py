"""What kind of column this is: inferred from its values, or as the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visl.data.plain import plain
from visl.data.source import ColumnData, Name
from visl.errors import InputError
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, KINDS, ORDINAL, Column, Level

MAX_LEVELS = 50  # more levels than this are more likely names or numbers gone wrong than categories

KindSetting = str | Sequence[Level]  # a kind, or the levels of an ordinal column in order


def check_kinds(kinds: Any, names: Sequence[Name]) -> dict[Name, KindSetting]:
    """kinds: None, one kind for every column, or a mapping column -> kind or list of ordered levels."""
    if kinds is None:
        return {}
    if isinstance(kinds, str):
        kinds = dict.fromkeys(names, kinds)
    if not isinstance(kinds, Mapping):
        raise InputError(f"kinds is {type(kinds).__name__}: give a mapping from column to kind, or one kind for all")
    return {name: _check_kind(name, kind, names) for name, kind in kinds.items()}


def _check_kind(name: Any, kind: Any, names: Sequence[Name]) -> KindSetting:
    if name not in names:
        raise InputError(f"kinds names the column {name!r}, which the table does not have")
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InputError(f"column {name!r} has the kind {kind!r}: use one of {', '.join(KINDS)}")
        return str(kind)
    levels = plain(kind) if isinstance(kind, Sequence | np.ndarray) else None
    if not isinstance(levels, list) or not all(isinstance(level, str | Real) for level in levels):
        raise InputError(f"column {name!r} has the kind {kind!r}: give a kind, or a list of levels (text or numbers)")
    if len(set(levels)) < max(2, len(levels)):
        raise InputError(f"column {name!r} has the kind {kind!r}: give a kind, or at least two different levels")
    return levels


def describe_column(data: ColumnData, setting: KindSetting | None, group: Name) -> Column:
    """The column's entry in the schema."""
    if not len(data.rows):
        raise InputError(f"column {data.name!r} has no observed value: leave it out")
    kind = setting if isinstance(setting, str) else ORDINAL if setting is not None else infer_kind(data)
    if kind == CONTINUOUS:
        return _continuous(data, group)
    listed = setting is not None and not isinstance(setting, str)
    levels = _levels(data, kind) if setting is None or isinstance(setting, str) else tuple(setting)
    _check_levels(data, kind, levels, ordered=listed, explicit=setting is not None)
    if kind == BINARY and len(levels) < 2:
        kind = CATEGORICAL  # one value only, and nothing says what the other would be
    seen = np.unique(encode_levels(data, levels))
    only = int(seen[0]) if len(seen) == 1 else None
    return Column(data.name, kind, group, levels=levels, constant=only is not None, constant_level=only)


def infer_kind(data: ColumnData) -> str:
    if data.order is not None:
        return ORDINAL
    distinct = _distinct(data)
    if data.numeric:
        return BINARY if set(distinct) <= {0.0, 1.0} else CONTINUOUS
    _refuse_numbers_among_text(data, distinct)
    return BINARY if len(distinct) == 2 else CATEGORICAL


def as_numbers(data: ColumnData) -> NDArray[np.float64]:
    """(observed,) the values as numbers, or an error that names the first that is none."""
    if data.dtype == "boolean":
        raise InputError(
            f"column {data.name!r} is continuous, but holds booleans: turn them into numbers, or make the column binary"
        )
    if data.numeric:
        return data.values
    numbers = np.empty(len(data.values))
    for i, value in enumerate(data.values):
        number = _number(value)
        if number is None:
            raise InputError(
                f"column {data.name!r} is continuous, but row {data.rows[i]} holds {value!r}: "
                "replace it by a number or a gap, or give the column another kind"
            )
        numbers[i] = number
    return numbers


def _continuous(data: ColumnData, group: Name) -> Column:
    numbers = as_numbers(data)
    low, high = float(numbers.min()), float(numbers.max())
    if not np.isfinite(high - low):
        raise InputError(f"column {data.name!r} spans {low:g} to {high:g}, too wide for its scale: rescale it")
    whole = bool((numbers == np.round(numbers)).all())
    return Column(data.name, CONTINUOUS, group, low=low, high=high, integer=whole, constant=low == high)


def _distinct(data: ColumnData) -> list[Any]:
    if data.numeric:
        return [float(value) for value in np.unique(data.values)]
    return list(dict.fromkeys(data.values))


def _levels(data: ColumnData, kind: str) -> tuple[Level, ...]:
    distinct = _distinct(data)
    if data.dtype == "boolean":
        return (False, True)
    if data.numeric:
        if kind == BINARY and set(distinct) <= {0.0, 1.0}:
            distinct = [0.0, 1.0]
        return tuple(int(value) if value.is_integer() else value for value in distinct)
    if data.order is not None:
        return data.order
    return tuple(sorted(distinct, key=None if all(isinstance(level, Real) for level in distinct) else str))


def _check_levels(data: ColumnData, kind: str, levels: tuple[Level, ...], *, ordered: bool, explicit: bool) -> None:
    if kind == BINARY and len(levels) > 2:
        row = int(data.rows[np.flatnonzero(encode_levels(data, levels) == 2)[0]])
        raise InputError(
            f"column {data.name!r} is binary, but holds a third value {levels[2]!r} in row {row} beside "
            f"{levels[0]!r} and {levels[1]!r}: correct it, or make the column categorical or ordinal"
        )
    known_order = ordered or data.order is not None or all(isinstance(level, Real) for level in levels)
    if kind == ORDINAL and not known_order:
        raise InputError(
            f"column {data.name!r} is ordinal, but the order of its levels ({', '.join(map(repr, levels[:5]))}) is "
            f"not known: list them from lowest to highest in place of the kind (--kind '{data.name}=low<middle<high')"
        )
    if ordered and (encode_levels(data, levels) < 0).any():
        cell = int(np.flatnonzero(encode_levels(data, levels) < 0)[0])
        raise InputError(
            f"column {data.name!r} holds {data.shown(cell)} in row {data.rows[cell]}, which is not among its "
            f"levels {list(levels)!r}: add it to them, or correct it"
        )
    if len(levels) > MAX_LEVELS and not explicit:
        raise InputError(
            f"column {data.name!r} has {len(levels)} different values such as {levels[0]!r}: if it is a row label or "
            f"free text leave it out, if it really is categorical say so with kinds (--kind {data.name}=categorical)"
        )


def encode_levels(data: ColumnData, levels: tuple[Level, ...]) -> NDArray[np.float32]:
    """(observed,) index of each value's level, -1 where it is none of them."""
    index: dict[Any, int] = {level: i for i, level in enumerate(levels)}
    if data.numeric:
        distinct, inverse = np.unique(data.values, return_inverse=True)
        codes = np.array([index.get(value, -1) for value in distinct.tolist()], np.float32)
        return codes[inverse]
    # A column of numbers in one table may be text in another: compare as the levels are written.
    numeric_levels = all(not isinstance(level, str) for level in levels)
    found = {v: index.get(v, index.get(_number(v), -1) if numeric_levels else -1) for v in dict.fromkeys(data.values)}
    return np.array([found[v] for v in data.values], np.float32)


def _refuse_numbers_among_text(data: ColumnData, distinct: list[Any]) -> None:
    """A stray word makes a file's whole column text; say so instead of taking its numbers for categories."""
    if data.dtype == "category":
        return
    words = [value for value in distinct if _number(value) is None]
    with_commas = [value for value in words if _number(str(value).replace(",", ".")) is not None]
    if 2 * len(with_commas) > len(distinct):
        raise InputError(
            f"column {data.name!r} holds numbers with decimal commas, such as {with_commas[0]!r}: write decimal points"
        )
    if words and 2 * len(words) < len(distinct):
        row = int(data.rows[list(data.values).index(words[0])])
        raise InputError(
            f"column {data.name!r} holds the text {words[0]!r} in row {row} among numbers: replace it by a number or "
            f"a gap, or say with kinds (--kind {data.name}=categorical) that the column is categorical"
        )


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None
