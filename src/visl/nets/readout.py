"""From the latent vectors after message passing to the cells of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from visl.nets.layers import NodeLinear, uniform_parameter
from visl.nets.layout import group_indices, table_rows, weight_set_of_group
from visl.nets.likelihoods import LIKELIHOODS, Likelihood
from visl.schema import KINDS, Schema


@dataclass(frozen=True)
class KindOutput:
    """The read-out of those of the asked cells that are of one kind."""

    kind: str
    cells: Tensor  # (c,) positions among the asked cells
    column: Tensor  # (c,)
    units: Tensor  # (..., c, U)
    likelihood: Likelihood


class ReadOut(nn.Module):
    """For each group an MLP from z_m to its columns, evaluated only at the cells that are asked for.

    The last layer is `w[unit] · hidden[group] + b[unit]`, so its cost follows the asked cells.
    """

    group: Tensor  # (D,)
    kind: Tensor  # (D,) index into KINDS
    first_unit: Tensor  # (D,) of each column in the table of units

    def __init__(self, schema: Schema, dim: int, variance: float, rng: torch.Generator) -> None:
        super().__init__()
        self.n_groups = len(schema.groups)
        kinds = [column.kind for column in schema.columns]
        widths = [LIKELIHOODS[column.kind].n_units(column) for column in schema.columns]
        first_unit, n_units = table_rows(schema, widths)
        self.width_of_kind = {kind: max(w for w, k in zip(widths, kinds, strict=True) if k == kind) for kind in kinds}
        self.register_buffer("group", group_indices(schema), persistent=False)
        self.register_buffer("kind", torch.tensor([KINDS.index(kind) for kind in kinds]), persistent=False)
        self.register_buffer("first_unit", first_unit, persistent=False)
        self.hidden = NodeLinear(weight_set_of_group(schema), dim, dim, rng)
        self.unit_weight = uniform_parameter((n_units, dim), dim, rng)
        self.unit_bias = uniform_parameter((n_units,), dim, rng)
        present = [kind for kind in KINDS if kind in kinds]
        self.likelihoods = nn.ModuleDict({kind: LIKELIHOODS[kind](schema, variance) for kind in present})

    def forward(self, z: Tensor, row: Tensor, column: Tensor) -> Iterator[KindOutput]:
        """z: (..., B, M, d); row, column: (cells,) -> the cells' units, kind by kind"""
        hidden = torch.relu(self.hidden(z)).flatten(-3, -2)  # (..., B * M, d)
        node = row * self.n_groups + self.group[column]
        for kind, likelihood in self.likelihoods.items():
            if len(self.likelihoods) == 1:
                cells = torch.arange(len(column), device=column.device)
            else:
                cells = (self.kind[column] == KINDS.index(kind)).nonzero().squeeze(-1)
            if len(cells):
                assert isinstance(likelihood, Likelihood)
                units = self._units(hidden, node[cells], column[cells], self.width_of_kind[kind])
                yield KindOutput(kind, cells, column[cells], units, likelihood)

    def _units(self, hidden: Tensor, node: Tensor, column: Tensor, width: int) -> Tensor:
        """(..., cells, width). A column narrower than the widest of its kind reads units that nobody looks at."""
        at_cell = _take_rows(hidden, node)  # (..., cells, d)
        unit = self.first_unit[column][:, None] + torch.arange(width, device=column.device)
        unit = unit.clamp(max=len(self.unit_bias) - 1)
        weight, bias = embedding(unit, self.unit_weight), embedding(unit, self.unit_bias[:, None]).squeeze(-1)
        if width == 1:
            return (at_cell * weight[:, 0]).sum(-1, keepdim=True) + bias
        return torch.einsum("...cd,cud->...cu", at_cell, weight) + bias


def _take_rows(table: Tensor, index: Tensor) -> Tensor:
    """table[..., index, :]; in training through `embedding`, whose gradient is the same from run to run on a GPU."""
    return embedding(index, table) if table.dim() == 2 else table.index_select(-2, index)
