"""What must be known of a column to say what it is: small, however long the column, and summaries of parts add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visl.data.source import ColumnData, Name, is_numeric
from visl.errors import InputError

MAX_LEVELS = 50  # more levels than this are more likely names or numbers gone wrong than categories


@dataclass(frozen=True)
class ColumnSummary:
    name: Name
    dtype: str  # as in ColumnData
    count: int  # of observed values
    # Each once; numbers ascending, others by first appearance. None: numbers, too many to list.
    values: tuple[Any, ...] | None = ()
    low: float = 0.0  # of numbers, and
    high: float = 0.0
    whole: bool = True  # every number is
    order: tuple[Any, ...] | None = None  # all levels of an ordered categorical column
    data: ColumnData | None = field(default=None, compare=False, repr=False)  # to tell rows; None in a part elsewhere

    @property
    def numeric(self) -> bool:
        return is_numeric(self.dtype)

    @property
    def listed(self) -> tuple[Any, ...]:
        """All values, where these are needed."""
        if self.values is None:
            raise InputError(
                f"the summary of column {self.name!r} does not list its values, since it took them for numbers: "
                "summarise it with the same kinds"
            )
        return self.values

    def row_of(self, value: Any) -> int | None:
        """The first row that holds the value, None if it is not known."""
        if self.data is None:
            return None
        if self.numeric:
            cells = np.flatnonzero(self.data.values == value)
            return int(self.data.rows[cells[0]]) if len(cells) else None
        cell = next((i for i, other in enumerate(self.data.values) if other == value), None)
        return None if cell is None else int(self.data.rows[cell])

    def first_of(self, values: Sequence[Any]) -> Any:
        """The one of these values that comes first in the table, as far as that is known."""
        return values[0] if self.data is None else min(values, key=lambda value: self.row_of(value) or 0)


def summarise_column(data: ColumnData, *, list_all: bool = False) -> ColumnSummary:
    """list_all: list numbers however many they are, since they are levels."""
    if not data.numeric:
        values = tuple(dict.fromkeys(data.values.tolist()))
        return ColumnSummary(data.name, data.dtype, len(data.rows), values, order=data.order, data=data)
    if not len(data.rows):
        return ColumnSummary(data.name, data.dtype, 0, data=data)
    distinct = _distinct(data.values)
    return ColumnSummary(
        data.name,
        data.dtype,
        len(data.rows),
        tuple(distinct.tolist()) if list_all or len(distinct) <= MAX_LEVELS + 1 else None,
        float(distinct[0]),
        float(distinct[-1]),
        bool((distinct == np.round(distinct)).all()),
        data=data,
    )


def _distinct(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """As np.unique, which takes several times as long."""
    ascending = np.sort(numbers)
    return ascending[np.append(True, ascending[1:] != ascending[:-1])]


def join(first: ColumnSummary, second: ColumnSummary) -> ColumnSummary:
    """The summary of both parts of a column together."""
    if not second.count or not first.count:  # a part without values has no type of its own
        return first if first.count or not second.count else second
    if first.order != second.order:
        raise InputError(
            f"column {first.name!r} has other ordered levels in one part of the data than in another: "
            "declare the same levels, in the same order, everywhere"
        )
    return ColumnSummary(
        first.name,
        _joint_dtype(first, second),
        first.count + second.count,
        _joint_values(first, second),
        min(first.low, second.low),
        max(first.high, second.high),
        first.whole and second.whole,
        first.order,
    )


def _joint_dtype(first: ColumnSummary, second: ColumnSummary) -> str:
    dtypes = {first.dtype, second.dtype}
    if dtypes == {"integer", "number"}:
        return "number"
    if len(dtypes) > 1:
        raise InputError(
            f"column {first.name!r} is of type {first.dtype} in one part of the data and of type {second.dtype} in "
            "another: write it the same way everywhere"
        )
    return first.dtype


def _joint_values(first: ColumnSummary, second: ColumnSummary) -> tuple[Any, ...] | None:
    if first.values is None or second.values is None:
        return None
    values = dict.fromkeys(first.values + second.values)
    return tuple(sorted(values) if first.numeric else values)
