"""From a row's observed cells to the Gaussian posterior of its latent vectors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from visl.nets.guess import Guess, LinearGuess
from visl.nets.layers import SMALL_TABLE, Generators, NodeLinear, SumSorted, look_up, run_starts, uniform_parameter
from visl.nets.layout import (
    MISSING_CONSTANT,
    ONE_HOT,
    Cells,
    for_members,
    group_indices,
    input_width,
    table_rows,
    weight_set_of_group,
)
from visl.schema import CONTINUOUS, Schema

LOG_VARIANCE_RANGE = (-15.0, 8.0)  # keeps exp() in range whatever the input; never reached in a healthy fit


class CellEncoder(nn.Module):
    """For each group an MLP (two linear layers, ReLU between) from its cells to a vector.

    The first layer of group m is `b[m] + sum over columns i in m of x_i W[i]`, with a constant c_i in place of a gap:
    `b[m] + sum_i c_i W[i] + sum over observed (x_i - c_i) W[i]`. So M networks of different widths are one table W
    and a sum over the observed cells, and the cost follows the observed cells alone.

    mark_observed: each observed cell also adds a vector of its column, so that no value looks like a gap.
    n_knots: a continuous cell also adds a curve of its value, linear between vectors at so many knots of its column.
    It starts at 0, its knots at quantiles of the data (see `standardising`). Bends are then learned at once, where the
    bend of a ReLU would have to move there first.

    Members have columns of their own: column j of member k is k * D + j.
    """

    first_row: Tensor  # (K * D,) of each column in the weight table of all members
    one_hot: Tensor  # (K * D,) bool
    constant: Tensor  # (K * D,) what a gap enters as
    group: Tensor  # (K * D,)
    mark: Tensor  # (K * D,) of each column in the table of marks
    group_starts: Tensor  # (K * M + 1,) columns of group m of member k are group_starts[k * M + m : ... + 1]

    def __init__(
        self,
        schema: Schema,
        dim: int,
        n_out: int,
        rngs: Generators,
        *,
        mark_observed: bool = False,
        n_knots: int = 0,
    ) -> None:
        super().__init__()
        K, self.n_groups = len(rngs), len(schema.groups)
        first_row, n_rows = table_rows(schema, [input_width(column) for column in schema.columns])
        group, weight_set = group_indices(schema), weight_set_of_group(schema)
        n_sets = int(weight_set.max()) + 1
        counts = torch.bincount(group, minlength=self.n_groups).repeat(K)
        one_hot = torch.tensor([column.kind in ONE_HOT for column in schema.columns])
        constant = torch.tensor([MISSING_CONSTANT.get(column.kind, 0.0) for column in schema.columns])
        self.register_buffer("first_row", for_members(first_row, K, n_rows), persistent=False)
        self.register_buffer("one_hot", one_hot.repeat(K), persistent=False)
        self.register_buffer("constant", constant.repeat(K), persistent=False)
        self.register_buffer("group", group.repeat(K), persistent=False)
        self.register_buffer("group_starts", nn.functional.pad(counts.cumsum(0), (1, 0)), persistent=False)
        self._no_constants = not constant.any()
        fan_in = max(1, round(n_rows / n_sets))  # mean number of inputs of a network
        self.inputs = uniform_parameter((n_rows, dim), fan_in, rngs)
        self.input_bias = uniform_parameter((n_sets, dim), fan_in, rngs)
        self.output = NodeLinear(weight_set, dim, n_out, rngs)
        self.marks: nn.Parameter | None = None  # (K, marks, d)
        if mark_observed:
            mark, n_marks = table_rows(schema, [1] * len(schema.columns))
            self.register_buffer("mark", for_members(mark, K, n_marks), persistent=False)
            self.marks = uniform_parameter((n_marks, dim), fan_in, rngs)
        self.curves: Curves | None = None
        if n_knots and any(column.kind == CONTINUOUS for column in schema.columns):
            self.curves = Curves(schema, n_knots, dim, K)

    def encode(self, cells: Cells, shown: Tensor | None = None, more: Tensor | None = None) -> Tensor:
        """(K, B, M, n_out).  shown: (cells,) 0 hides a cell, None shows all; more: (K, B, M, d) into the first layer"""
        first = self._first_layer(cells, shown) + self._all_missing()
        return self.output(torch.relu(first if more is None else first + more))

    def _first_layer(self, cells: Cells, shown: Tensor | None) -> Tensor:
        """sum over shown cells of (x - c) W, in (K, B, M, d)"""
        one_hot = self.one_hot[cells.column]
        table_row = self.first_row[cells.column] + torch.where(one_hot, cells.value, 0.0).long()
        weight = torch.where(one_hot, 1.0, cells.value - self.constant[cells.column]).to(self.inputs.dtype)
        if shown is not None:
            weight = weight * shown
        bag = cells.row * self.n_groups + self.group[cells.column]
        starts = run_starts(bag, cells.n_rows * self.n_groups)
        sums = _weighted_sums(self.inputs.flatten(0, 1), table_row, weight, bag, starts)
        if self.marks is not None:
            every = torch.ones_like(weight) if shown is None else shown.to(weight.dtype)
            sums = sums + _weighted_sums(self.marks.flatten(0, 1), self.mark[cells.column], every, bag, starts)
        if self.curves is not None:
            for index, weight in self.curves.ends(cells, shown):
                sums = sums + _weighted_sums(self.curves.values.flatten(0, 1), index, weight, bag, starts)
        return sums.view(len(self.inputs), -1, self.n_groups, sums.shape[-1])

    def _all_missing(self) -> Tensor:
        """The first layer of a row without any observed cell: b + sum_i c_i W[i].  (K, 1, M, d)"""
        bias = self.output.chooser @ self.input_bias  # (K, M, d)
        if self._no_constants:
            return bias[:, None]
        constants = embedding_bag(
            self.first_row,
            self.inputs.flatten(0, 1),
            self.group_starts,
            mode="sum",
            per_sample_weights=self.constant.to(self.inputs.dtype),
            include_last_offset=True,
        )
        return (constants.view(bias.shape) + bias)[:, None]


class Curves(nn.Module):
    """For every continuous column a curve into d dimensions, linear between knots."""

    knots: Tensor  # (K, D, T) values at which each column's curve may bend, rising
    column: Tensor  # (K * D,) of each continuous column its number among them, -1 for the others

    def __init__(self, schema: Schema, n_knots: int, dim: int, n_members: int) -> None:
        super().__init__()
        continuous = torch.tensor([column.kind == CONTINUOUS for column in schema.columns])
        number = torch.where(continuous, continuous.cumsum(0) - 1, -1)
        n = int(continuous.sum())
        members = torch.arange(n_members)[:, None]
        placed = torch.where(continuous, number + n * members, -1).flatten()
        self.register_buffer("column", placed, persistent=False)
        even = torch.linspace(0, 1, n_knots)
        self.register_buffer("knots", even.repeat(n_members, len(schema.columns), 1))
        self.values = nn.Parameter(torch.zeros(n_members, n * n_knots, dim))

    def ends(self, cells: Cells, shown: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of `values` and their weights, (cells,) each: the knot below every value, then the one above."""
        T = self.knots.shape[-1]
        knots = self.knots.flatten(0, 1)[cells.column]  # (cells, T)
        above = (knots <= cells.value[:, None]).sum(1).clamp(1, T - 1)
        low, high = (knots.gather(1, place[:, None]).squeeze(1) for place in (above - 1, above))
        share = ((cells.value - low) / (high - low).clamp(min=1e-9)).clamp(0, 1)
        column = self.column[cells.column]
        counts = (column >= 0).to(share) if shown is None else (column >= 0) * shown
        first = column.clamp(min=0) * T
        for place, weight in ((above - 1, 1 - share), (above, share)):
            yield first + place, (counts * weight).to(self.values.dtype)


def _weighted_sums(table: Tensor, index: Tensor, weight: Tensor, bag: Tensor, starts: Tensor) -> Tensor:
    """sum of weight * table[index] over the entries of each bag.  (n, d), (c,), (c,), (c,), (bags + 1,) -> (bags, d)"""
    if table.is_cuda and len(table) <= SMALL_TABLE:
        return SumSorted.apply(look_up(table, index) * weight[:, None], bag, starts)
    return embedding_bag(index, table, starts, mode="sum", per_sample_weights=weight, include_last_offset=True)


class Encoder(CellEncoder):
    """The mean and log-variance of every z_m."""

    group_of_feature: Tensor  # (F,)

    def __init__(
        self,
        schema: Schema,
        dim: int,
        rngs: Generators,
        *,
        mark_observed: bool = False,
        n_knots: int = 0,
        guess: LinearGuess | None = None,
    ) -> None:
        """guess: whose guesses enter in place of gaps; None: none do"""
        super().__init__(schema, dim, 2 * dim, rngs, mark_observed=mark_observed, n_knots=n_knots)
        self.guesses: nn.Parameter | None = None  # (K, F, 2, d) weights of each feature's mean and deviation
        if guess is not None:
            self.guesses = uniform_parameter((guess.n_features, 2, dim), 2, rngs)
            self.register_buffer("group_of_feature", group_indices(schema)[guess.column_of], persistent=False)

    def forward(self, cells: Cells, shown: Tensor | None = None, guess: Guess | None = None) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(Z), each (K, B, M, d).  shown: (cells,) 0 hides a cell, None shows all."""
        of_gaps = None if guess is None else self._of_gaps(guess)
        mean, log_variance = self.encode(cells, shown, of_gaps).chunk(2, dim=-1)
        return mean, log_variance.clamp(*LOG_VARIANCE_RANGE)

    def _of_gaps(self, guess: Guess) -> Tensor:
        """What the guesses of a group's gaps add to its first layer.  (K, B, M, d)"""
        assert self.guesses is not None
        K, F, _, d = self.guesses.shape
        R = len(guess.mean)
        pairs = torch.stack([guess.mean, guess.deviation], -1) * guess.hidden[..., None]  # (R, F, 2)
        member = torch.arange(R, device=pairs.device) // (R // K)
        entry = torch.arange(2 * F, device=pairs.device)
        bag = torch.arange(R, device=pairs.device)[:, None] * self.n_groups + self.group_of_feature
        bag = bag.repeat_interleave(2, dim=1).flatten()
        sums = _weighted_sums(
            self.guesses.view(K * 2 * F, d),
            (member[:, None] * 2 * F + entry).flatten(),
            pairs.flatten().to(self.guesses.dtype),
            bag,
            run_starts(bag, R * self.n_groups),
        )
        return sums.view(K, -1, self.n_groups, d)
