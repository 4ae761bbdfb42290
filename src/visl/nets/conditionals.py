"""What each column is given its parents, in tables: of functions that add up, and of the noise around their sum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visl.schema import CONTINUOUS, Schema

NOISE_BINS = 1 << 14
POINTS = 128  # of a number's axis, evenly far apart on the scale of the fits
MOST_COLUMNS = 30
MOST_LEVELS = 20


class Conditionals(nn.Module):
    """p(x_j | parents): a number is constant_j + sum of effect_kj(x_k) + noise of any shape; a level has logits that
    are such sums (the first level's is 0).

    A number stands at a position on its axis, 0 to POINTS - 1, between which effects are straight lines; a level is its
    own position. Everything is for K members and D columns, U the units of a column: 1, or its levels but the first.
    """

    low: Tensor  # (K, D) the first point of the axis
    step: Tensor  # (K, D) between two points
    edges: Tensor  # (K, D, POINTS + 1) of the cells around the points, on the scaled values of the table
    constant: Tensor  # (K, D, U)
    effect: Tensor  # (K, D, D, P, U) of k at each point, on j; P: points or levels
    noise: Tensor  # (K, D, NOISE_BINS) log-density of the noise, on the scale of the fits, as far as values lie apart
    noise_low: Tensor  # (K, D) the middle of the first bin
    noise_step: Tensor  # (K, D)
    parents: Tensor  # (K, D, D) bool [from, to]
    trusted: Tensor  # (K,) bool: whether gaps are drawn by them

    def __init__(self, schema: Schema, n_members: int) -> None:
        super().__init__()
        K, D = n_members, len(schema.columns)
        self.is_number = [column.kind == CONTINUOUS for column in schema.columns]
        self.n_levels = [column.n_levels for column in schema.columns]
        U = max([1, *(levels - 1 for levels in self.n_levels)])
        sizes = {
            "low": (K, D),
            "step": (K, D),
            "edges": (K, D, POINTS + 1),
            "constant": (K, D, U),
            "effect": (K, D, D, max(POINTS, U + 1), U),
            "noise": (K, D, NOISE_BINS),
            "noise_low": (K, D),
            "noise_step": (K, D),
        }
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size))
        self.noise_step.fill_(1.0)
        self.register_buffer("parents", torch.zeros((K, D, D), dtype=torch.bool))
        self.register_buffer("trusted", torch.zeros(K, dtype=torch.bool))

    @staticmethod
    def possible(schema: Schema) -> bool:
        """Single columns, numbers among them, and no table that would be too large."""
        columns = schema.columns
        single = len(schema.groups) == len(columns) <= MOST_COLUMNS
        return single and any(schema.has_numbers) and all(column.n_levels <= MOST_LEVELS for column in columns)

    def position(self, column: Tensor, value: Tensor) -> Tensor:
        """Of cells of the first member's columns, as fits see them.  (cells,), (cells,) -> (cells,)"""
        is_number = torch.tensor(self.is_number, device=value.device)[column]
        on_axis = (value - self.low[0, column]) / self.step[0, column].clamp(min=1e-12)
        return torch.where(is_number, on_axis.clamp(0, POINTS - 1), value)

    def effects(self, k: int, j: int, position: Tensor) -> Tensor:
        """Of column k on j.  (...) -> (..., U)"""
        table = self.effect[0, k, j]
        lower = position.long().clamp(0, POINTS - 2) if self.is_number[k] else position.long()
        if not self.is_number[k]:
            return table[lower]
        share = (position - lower)[..., None]
        return table[lower] * (1 - share) + table[lower + 1] * share

    def log_prob(self, j: int, units: Tensor, position: Tensor) -> Tensor:
        """Of column j at positions, given its sums.  (..., U), (...) that fit together -> (...)"""
        if self.is_number[j]:
            away = self.low[0, j] + self.step[0, j] * position - units[..., 0]
            at = away.sub_(self.noise_low[0, j]).div_(self.noise_step[0, j]).round_().clamp_(0, NOISE_BINS - 1)
            return torch.take(self.noise[0, j], at.long())
        logits = nn.functional.pad(units[..., : self.n_levels[j] - 1], (1, 0)).log_softmax(-1)
        shape = torch.broadcast_shapes(logits.shape[:-1], position.shape)
        index = position.long().expand(shape)[..., None]
        return logits.expand(*shape, logits.shape[-1]).gather(-1, index).squeeze(-1)

    def points(self, j: int) -> Tensor:
        """(P,) every position of column j"""
        return torch.arange(POINTS if self.is_number[j] else self.n_levels[j], device=self.low.device).to(self.low)

    def parents_of(self, j: int) -> list[int]:
        return self.parents[0, :, j].nonzero().flatten().tolist()

    def children_of(self, j: int) -> list[int]:
        return self.parents[0, j].nonzero().flatten().tolist()
