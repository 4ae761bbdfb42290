"""What kind of column this is: inferred from its values, or as the user says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visl.data.plain import plain
from visl.data.source import ColumnData, Name, shown
from visl.data.summary import MAX_LEVELS, ColumnSummary
from visl.errors import InputError
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, KINDS, ORDINAL, Column, Level

KindSetting = str | Sequence[Level]  # a kind, or the levels of an ordinal column in order


def check_kinds(kinds: Any, names: Sequence[Name]) -> dict[Name, KindSetting]:
    """kinds: None, one kind for every column, or a mapping column -> kind or list of ordered levels."""
    if kinds is None:
        return {}
    if isinstance(kinds, str):
        kinds = dict.fromkeys(names, kinds)
    if not isinstance(kinds, Mapping):
        raise InputError(f"kinds is {type(kinds).__name__}: give a mapping from column to kind, or one kind for all")
    known = set(names)
    return {name: _check_kind(name, kind, known) for name, kind in kinds.items()}


def _check_kind(name: Any, kind: Any, known: set[Name]) -> KindSetting:
    if name not in known:
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


def describe_column(column: ColumnSummary, setting: KindSetting | None, group: Name) -> Column:
    """The column's entry in the schema."""
    if not column.count:
        raise InputError(f"column {column.name!r} has no observed value: leave it out")
    kind = setting if isinstance(setting, str) else ORDINAL if setting is not None else infer_kind(column)
    if kind == CONTINUOUS:
        return _continuous(column, group)
    listed = setting is not None and not isinstance(setting, str)
    levels = _levels(column, kind) if setting is None or isinstance(setting, str) else tuple(setting)
    codes = _find_levels(column.listed, levels, numeric=column.numeric)
    _check_levels(column, kind, levels, codes, ordered=listed, explicit=setting is not None)
    if kind == BINARY and len(levels) < 2:
        kind = CATEGORICAL  # one value only, and nothing says what the other would be
    seen = set(codes.values())
    only = next(iter(seen)) if len(seen) == 1 else None
    return Column(column.name, kind, group, levels=levels, constant=only is not None, constant_level=only)


def infer_kind(column: ColumnSummary) -> str:
    if column.order is not None:
        return ORDINAL
    if column.numeric:
        return BINARY if column.values is not None and set(column.values) <= {0.0, 1.0} else CONTINUOUS
    _refuse_numbers_among_text(column)
    return BINARY if len(column.listed) == 2 else CATEGORICAL


def as_numbers(data: ColumnData) -> NDArray[np.float64]:
    """(observed,) the values as numbers, or an error that names the first that is none."""
    if data.dtype == "boolean":
        raise _is_boolean(data.name)
    if data.numeric:
        return data.values
    numbers = np.empty(len(data.values))
    for i, value in enumerate(data.values):
        number = _number(value)
        if number is None:
            raise _is_no_number(data.name, value, int(data.rows[i]))
        numbers[i] = number
    return numbers


def _is_boolean(name: Name) -> InputError:
    return InputError(
        f"column {name!r} is continuous, but holds booleans: turn them into numbers, or make the column binary"
    )


def _is_no_number(name: Name, value: Any, row: int | None) -> InputError:
    where = "" if row is None else f"row {row} "
    return InputError(
        f"column {name!r} is continuous, but {where}holds {value!r}: "
        "replace it by a number or a gap, or give the column another kind"
    )


def _continuous(column: ColumnSummary, group: Name) -> Column:
    low, high, whole = _range(column)
    if not np.isfinite(high - low):
        raise InputError(f"column {column.name!r} spans {low:g} to {high:g}, too wide for its scale: rescale it")
    return Column(column.name, CONTINUOUS, group, low=low, high=high, integer=whole, constant=low == high)


def _range(column: ColumnSummary) -> tuple[float, float, bool]:
    """The smallest and the largest value, and whether all are whole."""
    if column.dtype == "boolean":
        raise _is_boolean(column.name)
    if column.numeric:
        return column.low, column.high, column.whole
    numbers = []
    for value in column.listed:
        number = _number(value)
        if number is None:
            raise _is_no_number(column.name, value, column.row_of(value))
        numbers.append(number)
    return min(numbers), max(numbers), all(number.is_integer() for number in numbers)


def _levels(column: ColumnSummary, kind: str) -> tuple[Level, ...]:
    if column.dtype == "boolean":
        return (False, True)
    if column.numeric:
        distinct = column.listed
        if kind == BINARY and set(distinct) <= {0.0, 1.0}:
            distinct = (0.0, 1.0)
        return tuple(int(value) if value.is_integer() else value for value in distinct)
    if column.order is not None:
        return column.order
    only_numbers = all(isinstance(level, Real) for level in column.listed)
    return tuple(sorted(column.listed, key=None if only_numbers else str))


def _check_levels(
    column: ColumnSummary,
    kind: str,
    levels: tuple[Level, ...],
    codes: Mapping[Any, int],
    *,
    ordered: bool,
    explicit: bool,
) -> None:
    """codes: the level of each value, -1 where it has none"""
    name = column.name
    if kind == BINARY and len(levels) > 2:
        raise InputError(
            f"column {name!r} is binary, but holds a third value {levels[2]!r}{_in_row(column, levels[2])} beside "
            f"{levels[0]!r} and {levels[1]!r}: correct it, or make the column categorical or ordinal"
        )
    known_order = ordered or column.order is not None or all(isinstance(level, Real) for level in levels)
    if kind == ORDINAL and not known_order:
        raise InputError(
            f"column {name!r} is ordinal, but the order of its levels ({', '.join(map(repr, levels[:5]))}) is "
            f"not known: list them from lowest to highest in place of the kind (--kind '{name}=low<middle<high')"
        )
    strangers = [value for value, code in codes.items() if code < 0]
    if ordered and strangers:
        first = column.first_of(strangers)
        raise InputError(
            f"column {name!r} holds {shown(first)}{_in_row(column, first)}, which is not among its "
            f"levels {list(levels)!r}: add it to them, or correct it"
        )
    if len(levels) > MAX_LEVELS and not explicit:
        raise InputError(
            f"column {name!r} has {len(levels)} different values such as {levels[0]!r}: if it is a row label or "
            f"free text leave it out, if it really is categorical say so with kinds (--kind {name}=categorical)"
        )


def _in_row(column: ColumnSummary, value: Any) -> str:
    row = column.row_of(value)
    return "" if row is None else f" in row {row}"


def encode_levels(data: ColumnData, levels: tuple[Level, ...]) -> NDArray[np.float32]:
    """(observed,) index of each value's level, -1 where it is none of them."""
    if data.numeric and levels == (0, 1):  # most columns of a log
        return np.where((data.values == 0) | (data.values == 1), data.values, -1).astype(np.float32)
    if data.numeric:
        distinct, inverse = np.unique(data.values, return_inverse=True)
        found = _find_levels(distinct.tolist(), levels, numeric=True)
        return np.array(list(found.values()), np.float32)[inverse]
    found = _find_levels(dict.fromkeys(data.values), levels, numeric=False)
    return np.array([found[value] for value in data.values], np.float32)


def _find_levels(values: Iterable[Any], levels: tuple[Level, ...], *, numeric: bool) -> dict[Any, int]:
    """Index of the level of each different value, -1 where it has none."""
    index: dict[Any, int] = {level: i for i, level in enumerate(levels)}
    if numeric or any(isinstance(level, str) for level in levels):
        return {value: index.get(value, -1) for value in values}
    # A column of numbers in one table may be text in another: compare as the levels are written.
    return {value: index.get(value, index.get(_number(value), -1)) for value in values}


def _refuse_numbers_among_text(column: ColumnSummary) -> None:
    """A stray word makes a file's whole column text; say so instead of taking its numbers for categories."""
    if column.dtype == "category":
        return
    name, distinct = column.name, column.listed
    words = [value for value in distinct if _number(value) is None]
    with_commas = [value for value in words if _number(str(value).replace(",", ".")) is not None]
    if 2 * len(with_commas) > len(distinct):
        raise InputError(
            f"column {name!r} holds numbers with decimal commas, such as {with_commas[0]!r}: write decimal points"
        )
    if words and 2 * len(words) < len(distinct):
        raise InputError(
            f"column {name!r} holds the text {words[0]!r}{_in_row(column, words[0])} among numbers: replace it by a "
            f"number or a gap, or say with kinds (--kind {name}=categorical) that the column is categorical"
        )


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None
