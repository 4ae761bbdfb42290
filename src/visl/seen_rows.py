"""Rows as the equations of a model see them, and by how much better one graph predicts them than another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visl.batches import CellStore, TrainingData
from visl.group_fits import LARGEST_GAIN
from visl.model import VislModel
from visl.nets.equations import StructuralEquations
from visl.table import Table

FLOATS_AT_ONCE = 1 << 22

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


class SeenRows:
    """Some rows of a table, as the equations of a member see them."""

    def __init__(self, member: VislModel, table: Table) -> None:
        assert member.equations is not None
        self.equations: StructuralEquations = member.equations
        store = CellStore(TrainingData([table]), member.schema, 1, member.noise_variance.device)
        every = torch.arange(table.n_rows)[None]
        with torch.no_grad():
            self.cells = member.for_equations(store.batch(every.to(store.device), store.exact_shape(every)))
            self.seen = self.equations.seen(self.cells)[0].bool()  # (B, M)
            self.sent = self.equations.encoder.encode(self.cells)  # (1, B, M, d)

    def gains(self, graph: BoolArray, variants: BoolArray) -> Gains:
        """Of the graph over each variant, in every group, in the rows that see all parents of both.

        (M, M), (S, M, M) -> three of (S, M)
        """
        usable = self.usable(graph | variants)  # (S, B, M)
        gain = self._log_prob(graph[None], usable) - self._log_prob(variants, usable)
        gain = gain.clamp(-LARGEST_GAIN, LARGEST_GAIN) * usable
        n = usable.sum(1)
        mean = gain.sum(1) / n.clamp(min=1)
        variance = (gain.square().sum(1) / n.clamp(min=1) - mean.square()).clamp(min=0)
        return Gains(*(x.cpu().double().numpy() for x in (mean, variance, n)))

    def log_prob(self, graph: BoolArray) -> FloatArray:
        """Of each row's groups; NaN where a group or a parent of it is not seen.  (M, M) -> (B, M)"""
        usable = self.usable(graph)
        found = self._log_prob(graph[None], usable[None])[0]
        return torch.where(usable > 0, found, torch.nan).cpu().double().numpy()

    def dense(self) -> FloatArray:
        """(B, D), NaN in gaps"""
        values = np.full((len(self.seen), self.equations.n_columns), np.nan)
        values[self.cells.row.cpu().numpy(), self.cells.column.cpu().numpy()] = self.cells.value.cpu().numpy()
        return values

    def usable(self, graphs: BoolArray) -> Tensor:
        """1 where a group is seen with all its parents.  (..., M, M) -> (..., B, M)"""
        parents = torch.from_numpy(graphs).to(self.seen.device).float()
        return (self.seen & ((~self.seen).float() @ parents < 0.5)).to(self.sent.dtype)

    def _log_prob(self, graphs: BoolArray, usable: Tensor) -> Tensor:
        """Of every row's groups given their parents.  (1 or S, M, M), (S, B, M) -> (S, B, M)"""
        _, B, M, d = self.sent.shape
        S = len(usable)
        of_all = torch.from_numpy(graphs).to(self.sent).expand(S, M, M)
        at_once = max(1, FLOATS_AT_ONCE // max(1, B * M * d))
        parts = zip(of_all.split(at_once), usable.split(at_once), strict=True)
        return torch.cat([self._log_prob_of_some(*part) for part in parts])

    @torch.no_grad()
    def _log_prob_of_some(self, graphs: Tensor, usable: Tensor) -> Tensor:
        S, (_, B, M, d) = len(graphs), self.sent.shape
        received = self.equations.receive(self.sent[:, None].expand(1, S, B, M, d), graphs[None])
        node = self.cells.row * M + self.equations.group[self.cells.column]
        weight = usable.flatten(1)[:, node]  # a column's noise is that of the rows that can judge its parents
        each = torch.arange(S, device=node.device)[:, None].expand(S, len(node))
        log_prob = self.equations.log_prob(received, self.cells, weight, each, S)  # (S, cells)
        return log_prob.new_zeros(S, B * M).index_add(1, node, log_prob).view(S, B, M)


@dataclass(frozen=True)
class Gains:
    """Nats a row, over n rows; all of one shape."""

    mean: FloatArray
    variance: FloatArray
    n: FloatArray

    def signed(self, sign: FloatArray) -> Gains:
        return replace(self, mean=sign * self.mean)


def optimism(learned: Gains, held_out: Gains) -> float:
    """What gains are larger by in the rows that networks have learned from, on the average of all edges: one edge's own
    difference is too uncertain where few rows are held out."""
    weight = np.minimum(learned.n, held_out.n)
    return max(0.0, float((weight * (learned.mean - held_out.mean)).sum() / max(1.0, weight.sum())))


def pooled(learned: Gains, held_out: Gains, too_much: float) -> Gains:
    """All rows together; too_much: is taken off the gains of learned rows."""
    n = learned.n + held_out.n
    mean = ((learned.mean - too_much) * learned.n + held_out.mean * held_out.n) / np.maximum(n, 1)
    variance = (learned.variance * learned.n + held_out.variance * held_out.n) / np.maximum(n, 1)
    return Gains(mean, variance, n)
