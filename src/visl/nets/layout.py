"""Where the columns of a schema sit in the encoder's and the read-out's weight tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from visl.schema import BINARY, CATEGORICAL, ORDINAL, Column, Schema

ONE_HOT = (CATEGORICAL, ORDINAL)  # kinds that enter the encoder one-hot
MISSING_CONSTANT = {BINARY: 0.5}  # what a gap enters as; 0 for every other kind (paper)


@dataclass(frozen=True)
class Padding:
    """What makes the shapes of a batch known beforehand: every member has as many cells, the last of them not real.

    Cells that are not real count for nothing; there is at least one in each member.
    """

    real: Tensor  # (cells,) bool
    most_of_kind: Mapping[str, int]  # as many real cells of a kind as there may be in all members; empty: one kind only


@dataclass(frozen=True)
class Cells:
    """Some cells of a batch, sorted by row and, within a row, by column.

    With K members the rows of member k follow those of member k - 1, and its columns are k * D ... k * D + D - 1.
    """

    row: Tensor  # (cells,) in 0 .. n_rows - 1
    column: Tensor  # (cells,)
    value: Tensor  # (cells,) scaled value, or index of the level
    n_rows: int  # of all members together
    padding: Padding | None = None  # always there with several members


def for_members(rows: Tensor, n_members: int, n_rows: int) -> Tensor:
    """Positions in a table of n_rows, (D,), as positions in the members' tables one after the other.  (K * D,)"""
    return (rows + n_rows * torch.arange(n_members)[:, None]).flatten()


def group_indices(schema: Schema) -> Tensor:
    """(D,) the group of each column. Columns of a group stand together, so that a batch's cells are sorted by group."""
    groups = torch.tensor(schema.group_of)
    if (groups.diff() < 0).any():
        raise AssertionError("the columns of a schema are not in the order of its groups")
    return groups


def weight_set_of_group(schema: Schema) -> Tensor:
    """(M,) which weight set serves each group: its own, or in the variable-wise form one for each kind."""
    if schema.grouped:
        return torch.arange(len(schema.groups))
    kinds = [column.kind for column in schema.columns]
    present = list(dict.fromkeys(sorted(kinds)))
    return torch.tensor([present.index(kind) for kind in kinds])


def table_rows(schema: Schema, widths: list[int]) -> tuple[Tensor, int]:
    """First row of each column, (D,), in a weight table in which column i takes widths[i] rows, and its length.

    Group-wise, each column has rows of its own. Variable-wise, the columns of a kind share theirs: as many as the
    widest of them needs.
    """
    owner: list[int | str] = [i if schema.grouped else column.kind for i, column in enumerate(schema.columns)]
    needed: dict[int | str, int] = {}
    for key, width in zip(owner, widths, strict=True):
        needed[key] = max(needed.get(key, 0), width)
    first, total = {}, 0
    for key, width in needed.items():
        first[key], total = total, total + width
    return torch.tensor([first[key] for key in owner]), total


def input_width(column: Column) -> int:
    return column.n_levels if column.kind in ONE_HOT else 1
