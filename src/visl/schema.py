"""What each column is: its kind, its levels, its scale and its group."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

CONTINUOUS, BINARY, CATEGORICAL, ORDINAL = "continuous", "binary", "categorical", "ordinal"
KINDS = (CONTINUOUS, BINARY, CATEGORICAL, ORDINAL)

Level = str | float | int | bool


@dataclass(frozen=True)
class Column:
    """One column. In a Table its values are scaled to [0, 1] if continuous, else they are the index of their level."""

    name: str | int
    kind: str
    group: str | int
    levels: tuple[Level, ...] = ()  # of a discrete column, in order; empty if continuous
    low: float = 0.0  # continuous: smallest and
    high: float = 1.0  # largest observed value in training, mapped to 0 and 1
    integer: bool = False  # continuous: every value seen was whole, so results are rounded
    constant: bool = False  # only one value was seen in training ...
    constant_level: int | None = None  # ... and of a discrete column it is this level (its index)

    @property
    def n_levels(self) -> int:
        return len(self.levels)

    @property
    def certain_code(self) -> float | None:
        """What every gap of a constant column holds, on the model's scale; None if the column varies."""
        return float(self.constant_level or 0) if self.constant else None

    @property
    def span(self) -> float:
        """What one unit of the scaled value is worth; 1 for a constant column."""
        return (self.high - self.low) or 1.0


@dataclass(frozen=True)
class Schema:
    """All columns, in the model's own order, and the names of the groups: the nodes of the graph."""

    columns: tuple[Column, ...]
    groups: tuple[str | int, ...]
    grouped: bool  # False: the variable-wise form, in which networks are shared by columns of a kind

    @cached_property
    def group_of(self) -> tuple[int, ...]:
        """Index of each column's group."""
        index = {group: m for m, group in enumerate(self.groups)}
        return tuple(index[column.group] for column in self.columns)

    @cached_property
    def has_numbers(self) -> tuple[bool, ...]:
        """Of each group, whether a column of it is continuous."""
        groups = {column.group for column in self.columns if column.kind == CONTINUOUS}
        return tuple(group in groups for group in self.groups)

    @cached_property
    def position(self) -> dict[str | int, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    def with_columns(self, columns: tuple[Column, ...]) -> Schema:
        return replace(self, columns=columns)

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [asdict(column) | {"levels": list(column.levels)} for column in self.columns],
            "groups": list(self.groups),
            "grouped": self.grouped,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schema:
        columns = tuple(Column(**{**entry, "levels": tuple(entry["levels"])}) for entry in data["columns"])
        return cls(columns, tuple(data["groups"]), bool(data["grouped"]))
