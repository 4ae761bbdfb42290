"""Structural equations: each group predicted from the values of its parents in a graph, and from nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from visl.nets.encoder import CellEncoder
from visl.nets.kernels import reduction_over
from visl.nets.layers import Generators, member_linear, uniform_parameter
from visl.nets.layout import Cells, group_indices
from visl.nets.readout import ReadOut
from visl.nets.tails import LongTails
from visl.schema import CONTINUOUS, Schema

LEAST_VARIANCE = 1e-6  # of the noise of a standardised value
ENOUGH_ROWS = 0.3  # share of a group's rows that see all its parents, from which on the others do not count


class StructuralEquations(nn.Module):
    """x_i ~ p(x_i | W sum_k G[k, i] relu(f_k(x_k) + c_i)), every f and every read-out a network of its own.

    c_i tells the receivers apart. A group without parents receives nothing, and is predicted by constants. Continuous
    values come standardised, so that neither a column's unit nor its spread matters. The variance of their noise is
    that of the residuals under each graph, since what an absent parent explains becomes noise: one variance for all
    graphs would be wrong for each of them, and would make edges seem worth what they are not.

    A cell is scored in rows in which every parent of its group is seen, in the sampled graph, and those rows count for
    the others (test-wise deletion): where a parent is a gap, its own parents would seem parents of the group. But of
    many parents hardly a row has all; then the others count too, and the encoder is told which cells are gaps.
    """

    group: Tensor  # (K * D,) of each column of each member

    def __init__(self, schema: Schema, dim: int, rngs: Generators, *, n_knots: int = 0) -> None:
        super().__init__()
        K, M = len(rngs), len(schema.groups)
        own = replace(schema, grouped=True)  # networks of its own for every group
        self.n_members, self.n_groups, self.n_columns = K, M, len(schema.columns)
        self.tails = LongTails(K, self.n_columns)
        self.encoder = CellEncoder(own, dim, dim, rngs, mark_observed=True, n_knots=n_knots)
        self.receiver = uniform_parameter((M, dim), 1, rngs)  # c
        self.output = uniform_parameter((dim, dim), dim, rngs)  # W
        self.readout = ReadOut(own, dim, 1.0, rngs)
        self.register_buffer("group", group_indices(schema).repeat(K), persistent=False)

    def forward(self, cells: Cells, graphs: Tensor) -> Tensor:
        """Negative log-likelihood of each member's batch, its rows shared out over S graphs.  (K,)

        graphs: (K, S, M, M), hard
        """
        K, S, M, _ = graphs.shape
        B = cells.n_rows // K
        b = -(-B // S)  # rows of a graph; the last has fewer
        real = None if cells.padding is None else cells.padding.real.to(cells.value.dtype)
        sent = nn.functional.pad(self.encoder.encode(cells, real), (0, 0, 0, 0, 0, S * b - B))  # (K, S * b, M, d)
        received = self.receive(sent.view(K, S, b, M, -1), graphs)
        received = received.view(K, 1, S * b, M, -1)[:, :, :B]
        weight = self._weights(cells, graphs, b)
        member = cells.row // B
        graph = member * S + (cells.row - member * B) // b  # of each cell, in K * S
        log_prob = self.log_prob(received, cells, weight[None], graph[None], K * S)
        return -(log_prob.squeeze(0) * weight).view(K, -1).sum(1)

    def log_prob(self, received: Tensor, cells: Cells, weight: Tensor, graph: Tensor, n_graphs: int) -> Tensor:
        """Of standardised cells, given what their groups have received.  (K, S, B, M, d), K or S being 1 -> (S, cells)

        The residuals of a continuous column under each graph have a variance of their own.
        weight: (1 or S, cells) of each cell in it. graph: (1 or S, cells) whose it is, of n_graphs.
        """
        outputs = list(self.readout(received, cells.row, cells.column, cells.padding))
        log_prob = received.new_zeros(received.shape[1], len(cells.value))
        for o in outputs:
            value = cells.value[o.cells]
            if o.kind == CONTINUOUS:
                D = self.n_columns
                place = graph[:, o.cells] * D + o.column % D
                log = _profile_log_density((value - o.units[..., 0]).square(), weight[:, o.cells], place, n_graphs * D)
            else:
                log = o.likelihood.log_prob(o.units, o.column, value)
            log_prob = log_prob.index_copy(1, o.cells, log)
        return log_prob if cells.padding is None else log_prob * cells.padding.real

    def receive(self, sent: Tensor, graphs: Tensor) -> Tensor:
        """What each group hears from its parents.  (K, S, B, M, d), (K, S, M, M) -> (K, S, B, M, d)"""
        K, S, B, M, d = sent.shape
        receiver = self.receiver[:, None, None].expand(K, S, B, M, d)
        nodes = torch.stack([sent, receiver], dim=-2).view(K * S, B, M, 1, 2, d)
        sums = reduction_over(graphs.flatten(0, 1), 1)(nodes)
        return member_linear(sums.view(K, S, B, M, d), self.output, None)

    def seen(self, cells: Cells) -> Tensor:
        """(K, B, M): 1 where a group has an observed cell."""
        K = self.n_members
        real = cells.value.new_ones(len(cells.value)) if cells.padding is None else cells.padding.real.to(cells.value)
        node = cells.row * self.n_groups + self.group[cells.column]
        counts = real.new_zeros(cells.n_rows * self.n_groups).index_add(0, node, real)
        return (counts > 0).to(real).view(K, -1, self.n_groups)

    def _weights(self, cells: Cells, graphs: Tensor, rows_of_graph: int) -> Tensor:
        """(cells,) 0 where a parent is not seen, unless too few of the group's cells are left, which weigh as all."""
        K, S, M, _ = graphs.shape
        seen = self.seen(cells)
        B = seen.shape[1]
        gaps = nn.functional.pad(1 - seen, (0, 0, 0, S * rows_of_graph - B)).view(K, S, rows_of_graph, M)
        edges = (graphs.detach() > 0.5).to(gaps)
        complete = ((gaps @ edges).view(K, -1, M)[:, :B] < 0.5).to(gaps) * seen
        share = (complete.sum(1) / seen.sum(1).clamp(min=1))[:, None]  # (K, 1, M)
        of_complete = (share / ENOUGH_ROWS).clamp(max=1)  # of the weight, all of it if they are enough
        others = (seen - complete) * (1 - of_complete) / (1 - share).clamp(min=1e-6)
        weight = (complete * of_complete / share.clamp(min=1e-6) + others).flatten()
        of_cells = weight[cells.row * M + self.group[cells.column]]
        return of_cells if cells.padding is None else of_cells * cells.padding.real


def _profile_log_density(square: Tensor, weight: Tensor, place: Tensor, n_places: int) -> Tensor:
    """Gaussian log-density of residuals whose variance is their own weighted mean square in each place.

    square: (S, cells), weight, place: (1 or S, cells) -> (S, cells)
    """
    place, weight = place.expand(square.shape).flatten(), weight.expand(square.shape)
    sums = square.new_zeros(n_places).index_add(0, place, (square * weight).flatten())
    counts = square.new_zeros(n_places).index_add(0, place, weight.flatten())
    variance = (sums / counts.clamp(min=1e-12)).clamp(min=LEAST_VARIANCE)[place].view(square.shape)
    return -0.5 * (square / variance + variance.log() + math.log(2 * math.pi))
