"""From a row's observed cells to the Gaussian posterior of its latent vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

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
from visl.schema import Schema

LOG_VARIANCE_RANGE = (-15.0, 8.0)  # keeps exp() in range whatever the input; never reached in a healthy fit


class Encoder(nn.Module):
    """For each group an MLP (two linear layers, ReLU between) from its cells to mean and log-variance of z_m.

    The first layer of group m is `b[m] + sum over columns i in m of x_i W[i]`, with a constant c_i in place of a gap:
    `b[m] + sum_i c_i W[i] + sum over observed (x_i - c_i) W[i]`. So M networks of different widths are one table W
    and a sum over the observed cells, and the cost follows the observed cells alone.

    Members have columns of their own: column j of member k is k * D + j.
    """

    first_row: Tensor  # (K * D,) of each column in the weight table of all members
    one_hot: Tensor  # (K * D,) bool
    constant: Tensor  # (K * D,) what a gap enters as
    group: Tensor  # (K * D,)
    group_starts: Tensor  # (K * M + 1,) columns of group m of member k are group_starts[k * M + m : ... + 1]

    def __init__(self, schema: Schema, dim: int, rngs: Generators) -> None:
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
        self.output = NodeLinear(weight_set, dim, 2 * dim, rngs)

    def forward(self, cells: Cells, shown: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(Z), each (K, B, M, d).  shown: (cells,) 0 hides a cell, None shows all."""
        pre = self._first_layer(cells, shown) + self._all_missing()
        mean, log_variance = self.output(torch.relu(pre)).chunk(2, dim=-1)
        return mean, log_variance.clamp(*LOG_VARIANCE_RANGE)

    def _first_layer(self, cells: Cells, shown: Tensor | None) -> Tensor:
        """sum over shown cells of (x - c) W, in (K, B, M, d)"""
        one_hot = self.one_hot[cells.column]
        table_row = self.first_row[cells.column] + torch.where(one_hot, cells.value, 0.0).long()
        weight = torch.where(one_hot, 1.0, cells.value - self.constant[cells.column]).to(self.inputs.dtype)
        if shown is not None:
            weight = weight * shown
        bag = cells.row * self.n_groups + self.group[cells.column]
        starts = run_starts(bag, cells.n_rows * self.n_groups)
        table = self.inputs.flatten(0, 1)
        if table.is_cuda and len(table) <= SMALL_TABLE:
            sums = SumSorted.apply(look_up(table, table_row) * weight[:, None], bag, starts)
        else:
            sums = embedding_bag(
                table_row, table, starts, mode="sum", per_sample_weights=weight, include_last_offset=True
            )
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
