"""From the latent vectors after message passing to the cells of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from visl.nets.layers import Generators, NodeLinear, TakeSorted, look_up, run_starts, uniform_parameter
from visl.nets.layout import Cells, Padding, for_members, group_indices, table_rows, weight_set_of_group
from visl.nets.likelihoods import LIKELIHOODS, GaussianMixture, Likelihood
from visl.schema import CATEGORICAL, CONTINUOUS, KINDS, Schema

# (cells,) rows, (cells,) columns and a number of features -> (cells, features, 2): see `LinearGuess.of_cells`
GuessAt = Callable[[Tensor, Tensor, int], Tensor]


@dataclass(frozen=True)
class KindOutput:
    """The read-out of those of the asked cells that are of one kind."""

    kind: str
    cells: Tensor  # (c,) positions among the asked cells
    column: Tensor  # (c,)
    units: Tensor  # (S, c, U)
    likelihood: Likelihood


class ReadOut(nn.Module):
    """For each group an MLP from z_m to its columns, evaluated only at the cells that are asked for.

    The last layer is `w[unit] · hidden[group] + b[unit]`, so its cost follows the asked cells. With linear guesses it
    has the cell's own as further inputs: what is linear need not pass through the networks.
    """

    group: Tensor  # (K * D,), since members have columns of their own
    kind: Tensor  # (K * D,) index into KINDS
    first_unit: Tensor  # (K * D,) of each column in the table of units of all members

    def __init__(
        self,
        schema: Schema,
        dim: int,
        variance: float,
        rngs: Generators,
        *,
        n_components: int = 1,
        with_guess: bool = False,
    ) -> None:
        """Continuous columns have a Gaussian of this variance, or a mixture of several of their own."""
        super().__init__()
        K = len(rngs)
        self.n_groups = len(schema.groups)
        kinds = [column.kind for column in schema.columns]
        present = [kind for kind in KINDS if kind in kinds]
        likelihoods: dict[str, Likelihood] = {kind: LIKELIHOODS[kind](schema, variance, K) for kind in present}
        if n_components > 1 and CONTINUOUS in present:
            likelihoods[CONTINUOUS] = GaussianMixture(schema, variance, K, n_components=n_components)
        widths = [likelihoods[column.kind].n_units(column) for column in schema.columns]
        first_unit, n_units = table_rows(schema, widths)
        self.width_of_kind = {kind: max(w for w, k in zip(widths, kinds, strict=True) if k == kind) for kind in present}
        self.first_of_kind = {kind: kinds.index(kind) for kind in present}
        self.register_buffer("group", group_indices(schema).repeat(K), persistent=False)
        self.register_buffer("kind", torch.tensor([KINDS.index(kind) for kind in kinds]).repeat(K), persistent=False)
        self.register_buffer("first_unit", for_members(first_unit, K, n_units), persistent=False)
        self.hidden = NodeLinear(weight_set_of_group(schema), dim, dim, rngs)
        self.unit_weight = uniform_parameter((n_units, dim), dim, rngs)
        self.unit_bias = uniform_parameter((n_units,), dim, rngs)
        self.guess_weight: nn.Parameter | None = None  # (K, units, 2)
        if with_guess:  # networks start from the guesses, and learn what these miss
            start = torch.zeros(n_units, 2)
            for column, first in zip(schema.columns, first_unit.tolist(), strict=True):
                weights = likelihoods[column.kind].guess_weights(column)
                start[first : first + len(weights)] = weights
            self.guess_weight = nn.Parameter(start.repeat(K, 1, 1))
        self.likelihoods = nn.ModuleDict(likelihoods)

    def forward(
        self,
        z: Tensor,
        row: Tensor,
        column: Tensor,
        padding: Padding | None = None,
        guess_at: GuessAt | None = None,
    ) -> Iterator[KindOutput]:
        """z: (K, S, B, M, d), K or S being 1; row, column: (cells,) -> the cells' units, kind by kind

        With padding, the last cell may be given several times.
        """
        hidden = torch.relu(self.hidden(z)).reshape(z.shape[1], -1, z.shape[-1])  # (S, K * B * M, d)
        node = row * self.n_groups + self.group[column]
        for kind, likelihood in self.likelihoods.items():
            assert isinstance(likelihood, Likelihood)
            if len(self.likelihoods) == 1:
                cells = torch.arange(len(column), device=column.device)
                units = self._units(hidden, node, row, column, kind, guess_at)
                yield KindOutput(kind, cells, column, units, likelihood)
                continue
            cells = _positions(self.kind[column] == KINDS.index(kind), kind, padding)
            of_cells = column[cells]
            if padding is not None:  # room to spare shows the last cell, whose column may be of another kind
                is_kind = self.kind[of_cells] == KINDS.index(kind)
                of_cells = torch.where(is_kind, of_cells, self.first_of_kind[kind])
            units = self._units(hidden, node[cells], row[cells], of_cells, kind, guess_at)
            yield KindOutput(kind, cells, of_cells, units, likelihood)

    def objective(self, z: Tensor, cells: Cells, guess_at: GuessAt | None = None) -> Tensor:
        """What training raises, of every cell; 0 for padding.  z: (K, S, B, M, d), K or S being 1 -> (S, cells)"""
        outputs = list(self(z, cells.row, cells.column, cells.padding, guess_at))
        logs = [o.likelihood.objective(o.units, o.column, cells.value[o.cells]) for o in outputs]
        log_prob = logs[0]
        if len(outputs) > 1:
            log_prob = log_prob.new_zeros(len(log_prob), len(cells.value))
            for output, log in zip(outputs, logs, strict=True):
                log_prob = log_prob.index_copy(1, output.cells, log)
        return log_prob if cells.padding is None else log_prob * cells.padding.real

    def _units(
        self, hidden: Tensor, node: Tensor, row: Tensor, column: Tensor, kind: str, guess_at: GuessAt | None
    ) -> Tensor:
        """(S, cells, width). A column narrower than the widest of its kind reads units that nobody looks at."""
        at_cell, width = _take_rows(hidden, node), self.width_of_kind[kind]  # (S, cells, d)
        weights, biases = self.unit_weight.flatten(0, 1), self.unit_bias.view(-1, 1)
        unit = self.first_unit[column][:, None] + torch.arange(width, device=column.device)
        unit = unit.clamp(max=len(biases) - 1)  # (cells, width)
        bias = look_up(biases, unit).squeeze(-1)
        if guess_at is not None:
            assert self.guess_weight is not None
            guess = guess_at(row, column, width if kind == CATEGORICAL else 1)  # a level has a guess of its own
            bias = bias + (look_up(self.guess_weight.flatten(0, 1), unit) * guess).sum(-1)
        if width == 1:
            return (at_cell * look_up(weights, unit[:, 0])).sum(-1, keepdim=True) + bias
        return torch.einsum("scd,cud->scu", at_cell, look_up(weights, unit)) + bias


def _positions(of_kind: Tensor, kind: str, padding: Padding | None) -> Tensor:
    """Where the cells of the kind are; with padding, as many as there may be, without asking the device."""
    if padding is None:
        return of_kind.nonzero().squeeze(-1)
    size, last = padding.most_of_kind[kind], len(of_kind) - 1
    return torch.nonzero_static(of_kind & padding.real, size=size, fill_value=last).squeeze(-1)


def _take_rows(table: Tensor, index: Tensor) -> Tensor:
    """table[:, index]; in training, where there is one draw, the index never falls."""
    if len(table) > 1 or not table.requires_grad:
        return table.index_select(1, index)
    taken: Tensor = TakeSorted.apply(table[0], index, run_starts(index, table.shape[1]))
    return taken[None]
