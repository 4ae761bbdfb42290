"""From a row's observed cells to the Gaussian posterior of its latent vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from visl.nets.layers import NodeLinear, uniform_parameter
from visl.nets.layout import (
    MISSING_CONSTANT,
    ONE_HOT,
    Cells,
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
    """

    first_row: Tensor  # (D,) of each column in the weight table
    one_hot: Tensor  # (D,) bool
    constant: Tensor  # (D,) what a gap enters as
    group: Tensor  # (D,)
    weight_set: Tensor  # (M,) which bias and output layer serves each group
    group_starts: Tensor  # (M + 1,) columns of group m are group_starts[m]:group_starts[m + 1]

    def __init__(self, schema: Schema, dim: int, rng: torch.Generator) -> None:
        super().__init__()
        self.n_groups = len(schema.groups)
        first_row, n_rows = table_rows(schema, [input_width(column) for column in schema.columns])
        group, weight_set = group_indices(schema), weight_set_of_group(schema)
        counts = torch.bincount(group, minlength=self.n_groups)
        self.register_buffer("first_row", first_row, persistent=False)
        self.register_buffer("one_hot", torch.tensor([c.kind in ONE_HOT for c in schema.columns]), persistent=False)
        self.register_buffer(
            "constant", torch.tensor([MISSING_CONSTANT.get(c.kind, 0.0) for c in schema.columns]), persistent=False
        )
        self.register_buffer("group", group, persistent=False)
        self.register_buffer(
            "group_starts", torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]), persistent=False
        )
        fan_in = max(1, round(n_rows / (int(weight_set.max()) + 1)))  # mean number of inputs of a network
        self.inputs = uniform_parameter((n_rows, dim), fan_in, rng)
        self.input_bias = uniform_parameter((int(weight_set.max()) + 1, dim), fan_in, rng)
        self.register_buffer("weight_set", weight_set, persistent=False)
        self.output = NodeLinear(weight_set, dim, 2 * dim, rng)

    def forward(self, cells: Cells, shown: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(Z), each (B, M, d).  shown: (cells,) 0 hides a cell, None shows all of them."""
        pre = self._first_layer(cells, shown) + self._all_missing()
        mean, log_variance = self.output(torch.relu(pre)).chunk(2, dim=-1)
        return mean, log_variance.clamp(*LOG_VARIANCE_RANGE)

    def _first_layer(self, cells: Cells, shown: Tensor | None) -> Tensor:
        """sum over shown cells of (x - c) W, in (B, M, d)"""
        one_hot = self.one_hot[cells.column]
        table_row = self.first_row[cells.column] + torch.where(one_hot, cells.value, 0.0).long()
        weight = torch.where(one_hot, 1.0, cells.value - self.constant[cells.column]).to(self.inputs.dtype)
        if shown is not None:
            weight = weight * shown
        B, M = cells.n_rows, self.n_groups
        bag = cells.row * M + self.group[cells.column]
        ends = torch.bincount(bag, minlength=B * M).cumsum(0)
        starts = torch.cat([ends.new_zeros(1), ends])
        sums = embedding_bag(
            table_row, self.inputs, starts, mode="sum", per_sample_weights=weight, include_last_offset=True
        )
        return sums.view(B, M, -1)

    def _all_missing(self) -> Tensor:
        """The first layer of a row without any observed cell: b + sum_i c_i W[i].  (M, d)"""
        constants = embedding_bag(
            self.first_row,
            self.inputs,
            self.group_starts,
            mode="sum",
            per_sample_weights=self.constant.to(self.inputs.dtype),
            include_last_offset=True,
        )
        return constants + embedding(self.weight_set, self.input_bias)
