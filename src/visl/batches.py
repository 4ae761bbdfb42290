"""Batches of a table's rows, gathered on the training device, for all members at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visl.nets.layout import Cells, Padding
from visl.schema import KINDS, Schema
from visl.table import Table, signed_bits

NOISES = 4  # kinds of noise in a step
_COLUMN_STRIDE = signed_bits(0x9E3779B97F4A7C15)
_MIXERS = (signed_bits(0xBF58476D1CE4E5B9), signed_bits(0x94D049BB133111EB))


@dataclass(frozen=True)
class TrainingData:
    """The tables that this process trains on, one after the other.

    They are parts of one data set, which all members share: one part, or several of which other processes may hold
    some. Or, with `of_members`, each is the data set of `members_each` members that follow each other.
    """

    tables: Sequence[Table]
    of_members: bool = False
    members_each: int = 1
    parts: Sequence[int] = (0,)  # which parts of the data set the tables are
    part_sizes: Sequence[int] | None = None  # rows of every part, wherever it is; None: all parts are here
    share: tuple[int, int] = (0, 1)  # (process, processes) that all have these tables: each takes its share of a batch

    def __post_init__(self) -> None:
        if self.of_members and len({table.n_rows for table in self.tables}) > 1:
            raise AssertionError("members train on data sets of as many rows each")
        if not self.of_members and len(self.tables) != len(self.parts):
            raise AssertionError(f"{len(self.tables)} tables for parts {list(self.parts)}")

    @property
    def n_rows(self) -> int:
        """Of the data set of a member, in all processes."""
        return sum(self.sizes)

    @property
    def sizes(self) -> Sequence[int]:
        """Rows of every part."""
        if self.part_sizes is not None:
            return self.part_sizes
        return [self.tables[0].n_rows] if self.of_members else [table.n_rows for table in self.tables]

    def table_of(self, k: int, part: int) -> Table:
        """Member k's own, or this part of all members'."""
        return self.tables[k // self.members_each if self.of_members else list(self.parts).index(part)]

    def share_of_batch(self, n_rows: int) -> slice:
        """Which of a batch's rows are this process's."""
        process, processes = self.share
        return slice(n_rows * process // processes, n_rows * (process + 1) // processes)

    def n_steps(self, batch_rows: int) -> int:
        """At most as many as the largest part has rows: every step has one."""
        return min(-(-self.n_rows // batch_rows), max(self.sizes))

    def rows_of_step(self, step: int, n_steps: int) -> list[int]:
        """How many rows of every part are in this step's batch, over all processes: even shares of each part."""
        return [size * (step + 1) // n_steps - size * step // n_steps for size in self.sizes]

    def epoch_order(self, seeds: Sequence[int], epoch: int, n_steps: int) -> list[Tensor]:
        """The rows of every step's batch, (K, B) each, as positions in the tables laid one after the other.

        A member's order within a part depends on its seed, the epoch and the part alone: not on the other members,
        nor on which process holds the part.
        """
        by_member = [self._member_order(k, seed, epoch, n_steps) for k, seed in enumerate(seeds)]
        return [torch.stack(rows) for rows in zip(*by_member, strict=True)]

    def _member_order(self, k: int, seed: int, epoch: int, n_steps: int) -> list[Tensor]:
        pieces = []
        first_rows = np.cumsum([0, *(table.n_rows for table in self.tables)]).tolist()
        for i, part in enumerate(self.parts):
            size = self.sizes[part]
            rng = torch.Generator().manual_seed(stream_seed(seed, epoch, part))
            order = torch.randperm(size, generator=rng)
            order = order + first_rows[k // self.members_each if self.of_members else i]
            pieces.append([order[size * t // n_steps : size * (t + 1) // n_steps] for t in range(n_steps)])
        return [torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*pieces, strict=True)]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(rows + 1,) of the tables laid one after the other"""
        before = np.cumsum([0, *(table.n_cells for table in self.tables)])
        shifted = [table.starts[:-1] + n for table, n in zip(self.tables, before, strict=False)]
        return np.concatenate([*shifted, before[-1:]])


@dataclass(frozen=True)
class BatchShape:
    """The sizes of a batch that must be known beforehand where the device is not to be asked."""

    n_cells: int  # of each member, padding included
    most_of_kind: dict[str, int] | None = None  # see `Padding`; None: there is none

    def holds(self, other: BatchShape) -> bool:
        ours, theirs = self.most_of_kind or {}, other.most_of_kind or {}
        return self.n_cells >= other.n_cells and all(ours[kind] >= size for kind, size in theirs.items())

    def enlarged(self, factor: float) -> BatchShape:
        kinds = {kind: int(size * factor) + 1 for kind, size in (self.most_of_kind or {}).items()}
        return BatchShape(int(self.n_cells * factor) + 1, kinds)


class CellStore:
    """The cells of the training data as tensors on the device."""

    def __init__(self, data: TrainingData, schema: Schema, n_members: int, device: torch.device) -> None:
        first, several = data.tables[0], len(data.tables) > 1
        columns = np.concatenate([table.columns for table in data.tables]) if several else first.columns
        values = np.concatenate([table.values for table in data.tables]) if several else first.values
        self.n_columns, self.n_members, self.device = len(schema.columns), n_members, device
        self.starts_here = data.starts
        self.starts, self.columns, self.values = (
            torch.from_numpy(array).to(device) for array in (data.starts, columns, values)
        )
        self._counts = {"": np.diff(data.starts)}  # cells of each row, and those of each kind if there are several
        kinds = np.array([KINDS.index(column.kind) for column in schema.columns])
        for kind in np.unique(kinds) if len(np.unique(kinds)) > 1 else ():
            before = np.concatenate([[0], np.cumsum(kinds[columns] == kind)])[data.starts]
            self._counts[KINDS[kind]] = np.diff(before)

    def exact_shape(self, rows: Tensor) -> BatchShape:
        """Room for these rows, (K, B): padded if there are several members, which have different numbers of cells."""
        if len(rows) > 1:
            return self.common_shape([rows])
        return BatchShape(int(self._counts[""][rows.numpy()].sum()))

    def common_shape(self, batches: Sequence[Tensor]) -> BatchShape:
        """Room for any of these batches, and at least one cell of padding."""
        most = {
            kind: max(int(counts[rows.numpy()].sum(1).max(initial=0)) for rows in batches)
            for kind, counts in self._counts.items()
        }
        of_kind = {kind: len(batches[0]) * size for kind, size in most.items() if kind}
        return BatchShape(most[""] + 1, of_kind)

    def batch(self, rows: Tensor, shape: BatchShape) -> Cells:
        """rows: (K, B) on the device"""
        K, B = rows.shape
        if not B or not len(self.values):
            nothing = rows.flatten()[:0]
            return Cells(nothing, nothing, self.values[:0], K * B)
        first = self.starts[rows]
        ends = (self.starts[rows + 1] - first).cumsum(1)  # (K, B) cells up to the end of each row
        place = torch.arange(shape.n_cells, device=rows.device).expand(K, -1).contiguous()
        row = torch.searchsorted(ends, place, right=True)  # (K, cells), B for padding
        before = torch.nn.functional.pad(ends[:, :-1], (1, 0))
        members = torch.arange(K, device=rows.device)[:, None]
        padding, is_real = None, None
        if shape.most_of_kind is not None:
            is_real, row = row < B, row.clamp(max=B - 1)
            padding = Padding(is_real.flatten(), shape.most_of_kind)
        position = place + (first - before).gather(1, row)
        if is_real is None:
            column, value = self.columns[position].long(), self.values[position]
        else:
            position = torch.where(is_real, position, 0)
            column = torch.where(is_real, self.columns[position].long(), self.n_columns - 1)  # still in order
            value = torch.where(is_real, self.values[position], 0.0)
        if K > 1:
            row, column = row + B * members, column + self.n_columns * members
        return Cells(row.flatten(), column.flatten(), value.flatten(), K * B, padding)


@dataclass(frozen=True)
class StepInputs:
    """What a step needs besides the table: which rows, and noise. Made once for a size of batch and filled anew."""

    rows: Tensor  # (K, B) int64
    rate: Tensor  # (K, B) uniform: the share of a row's cells that is hidden, before its maximum
    key: Tensor  # (K, B) int64: which cells are hidden
    latent: Tensor  # (K, B, M, d) standard normal
    edges: Tensor  # (K, M, M) uniform
    seeds: Tensor  # (NOISES, K) int64, where noise is made on a GPU

    @classmethod
    def empty(cls, n_members: int, n_rows: int, n_groups: int, dim: int, device: torch.device) -> StepInputs:
        of_rows = (n_members, n_rows)
        return cls(
            rows=torch.empty(of_rows, dtype=torch.long, device=device),
            rate=torch.empty(of_rows, device=device),
            key=torch.empty(of_rows, dtype=torch.long, device=device),
            latent=torch.empty((*of_rows, n_groups, dim), device=device),
            edges=torch.empty((n_members, n_groups, n_groups), device=device),
            seeds=torch.empty((NOISES, n_members), dtype=torch.long, device=device),
        )

    def some(self, rows: slice) -> StepInputs:
        """Only these rows of the batch."""
        own = {name: getattr(self, name)[:, rows] for name in ("rows", "rate", "key", "latent")}
        return replace(self, **own)


class Noise:
    """A step's noise. It depends on the member's seed, the epoch, the step and the part of the data alone.

    On a GPU with kernels of its own the noise is made inside the step, from seeds (`on_device`), for one part.
    """

    def __init__(self, seeds: Sequence[int], parts: Sequence[int], *, on_device: bool) -> None:
        self.seeds, self.parts, self.on_device = seeds, parts, on_device
        self._device_seeds: Tensor | None = None  # (steps, NOISES, K)

    def start_epoch(self, epoch: int, n_steps: int, device: torch.device) -> None:
        self.epoch, self.rng = epoch, torch.Generator(device)
        if self.on_device:
            streams = [
                [[stream_seed(seed, epoch, step, noise) for seed in self.seeds] for noise in range(NOISES)]
                for step in range(n_steps)
            ]
            self._device_seeds = torch.tensor(streams).to(device)

    def prepare(self, inputs: StepInputs, rows_of_part: Sequence[int], step: int) -> None:
        """Before a step. rows_of_part: of each part that is here"""
        if self._device_seeds is not None:
            inputs.seeds.copy_(self._device_seeds[step])
            return
        for k, seed in enumerate(self.seeds):
            self.rng.manual_seed(stream_seed(seed, self.epoch, step, -1))
            inputs.edges[k].uniform_(generator=self.rng)
            first = 0
            for part, n_rows in zip(self.parts, rows_of_part, strict=True):
                here = slice(first, first + n_rows)
                self.rng.manual_seed(stream_seed(seed, self.epoch, step, part))
                inputs.rate[k, here].uniform_(generator=self.rng)
                inputs.key[k, here].random_(generator=self.rng)
                inputs.latent[k, here].normal_(generator=self.rng)
                first += n_rows

    def make(self, inputs: StepInputs) -> None:
        """In a step, on the device."""
        if self.on_device:
            from visl.nets.kernels import noise

            if inputs.latent.numel():
                noise.fill_normal(inputs.seeds[0], inputs.latent)
            noise.fill_uniform(inputs.seeds[1], inputs.edges)
            noise.fill_uniform(inputs.seeds[2], inputs.rate)
            noise.fill_bits(inputs.seeds[3], inputs.key)


def hide_at_random(cells: Cells, max_rate: Tensor, inputs: StepInputs, n_columns: int) -> Tensor:
    """1 for shown cells, 0 for hidden ones: each row has its own rate, U(0, max_rate).  (cells,)

    Which cells are hidden follows from the row's key and the column: not from the other rows, the padding or the
    member. max_rate: (K,)
    """
    keys, n_members = inputs.key, len(inputs.key)
    if n_members > 1:  # a cell's column is k * D + j: let it be j
        before = n_columns * torch.arange(n_members, device=keys.device)
        keys = keys - before[:, None] * _COLUMN_STRIDE
    bits = keys.flatten()[cells.row] + cells.column * _COLUMN_STRIDE
    for shift, mixer in zip((30, 27), _MIXERS, strict=True):
        bits = (bits ^ ((bits >> shift) & ((1 << (64 - shift)) - 1))) * mixer
    uniform = ((bits >> 40) & 0xFFFFFF).to(cells.value.dtype) * 2.0**-24
    rate = (max_rate[:, None] * inputs.rate).flatten()
    return (uniform >= rate[cells.row]).to(cells.value.dtype)


def member_seeds(seed: int, n_members: int) -> list[int]:
    """The first member has the seed itself: alone or among others it is the same model."""
    return [seed, *(stream_seed(seed, k) for k in range(1, n_members))]


def stream_seed(*numbers: int) -> int:
    """A seed from several whole numbers: different ones give unrelated streams."""
    mixed = 0
    for number in numbers:
        mixed = (mixed + number + 1) * 0x9E3779B97F4A7C15 % 2**64
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed ^= mixed >> 27
    return mixed >> 1
