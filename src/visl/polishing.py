"""Gaps drawn again and again, each given all other cells of its row: Gibbs sampling under a member's conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from visl.model import VislModel
from visl.nets.conditionals import POINTS, Conditionals
from visl.nets.layout import Cells

SETTLING = 0.1  # share of the sweeps whose distributions do not count


@dataclass(frozen=True)
class Polished:
    """Of the gaps of some rows."""

    value: Tensor  # (C, gaps) where each chain ended
    share: Tensor  # (gaps, P) the probability of each position, mean over chains and sweeps; 0 beyond a column's own


class Polisher:
    """What members have drawn for gaps, drawn anew by each member's own conditionals."""

    def __init__(self, members: Sequence[VislModel], draws_of_member: Sequence[Tensor]) -> None:
        self.members, self.draws_of_member = members, draws_of_member
        self.n_sweeps = members[0].config.polishing_sweeps

    def polished(self, cells: Cells, gaps: tuple[Tensor, Tensor], start: Tensor, uniform: Tensor) -> Polished:
        """Of the gaps (row, column) of all rows. start: (S, gaps) values; uniform: (T, S, gaps), see `Chains`."""
        row, column = gaps
        value, share = torch.empty_like(start), start.new_zeros(())
        for member, of_member in zip(self.members, self.draws_of_member, strict=True):
            draws = of_member[of_member < len(start)]
            if not len(draws):
                continue
            found = self._chains(member, cells, gaps, start[draws]).polished(uniform[:, draws])
            value[draws] = self._values(member, column, found.value)
            share = share + found.share * (len(draws) / len(start))
        return Polished(value, share)

    def bins(self, column: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the cells around every point of these columns' axes.  (cells,) -> (cells, POINTS)"""
        c = self.members[0].conditionals
        assert c is not None
        edges = c.edges[0][column]
        return (edges[:, 1:] + edges[:, :-1]) / 2, edges.diff(dim=1).square() / 12

    @staticmethod
    def _chains(member: VislModel, cells: Cells, gaps: tuple[Tensor, Tensor], start: Tensor) -> Chains:
        c, (row, column) = member.conditionals, gaps
        assert c is not None
        position = start.new_zeros(len(start), cells.n_rows, len(c.is_number))
        position[:, cells.row, cells.column] = c.position(cells.column, member.for_fits(cells).value)
        drawn = member.for_fits(replace(cells, row=row, column=column, value=start))
        position[:, row, column] = c.position(column, drawn.value)
        return Chains(c, position, row, column)

    @staticmethod
    def _values(member: VislModel, column: Tensor, position: Tensor) -> Tensor:
        """At positions of these columns, (S, cells), on the scaled values; levels are their own."""
        c = member.conditionals
        assert c is not None
        place = (position + 0.5).clamp(0, POINTS)
        lower = place.long().clamp(max=POINTS - 1)
        left, right = (c.edges[0][column.expand_as(lower), lower + side] for side in (0, 1))
        is_number = torch.tensor(c.is_number, device=column.device)[column]
        return torch.where(is_number, left + (place - lower) * (right - left), position)


class Chains:
    """C chains of R rows. Rows do not meet: what is drawn in one depends on its own cells and random numbers alone."""

    def __init__(self, conditionals: Conditionals, start: Tensor, row: Tensor, column: Tensor) -> None:
        """start: (C, R, D) positions of all cells, of gaps where chains begin; row, column: (gaps,)"""
        self.conditionals, self.position = conditionals, start.clone()
        self.row, self.column = row, column
        self.gaps_of: dict[int, Tensor] = {j: (column == j).nonzero().flatten() for j in column.unique().tolist()}

    def polished(self, uniform: Tensor) -> Polished:
        """uniform: (T, C, gaps) on (0, 1), for T sweeps"""
        T, C, n = uniform.shape
        share = uniform.new_zeros(n, self.conditionals.effect.shape[3])
        first, rng = int(SETTLING * T), torch.Generator().manual_seed(0)
        for t, of_sweep in enumerate(uniform):
            # Always in the same order they would settle slowly. It does not depend on which columns have gaps.
            order = torch.randperm(self.position.shape[2], generator=rng).tolist()
            for j in (j for j in order if j in self.gaps_of):
                found = self._redraw(j, of_sweep[:, self.gaps_of[j]])
                if t >= first:
                    share[self.gaps_of[j], : found.shape[-1]] += found.sum(0)
        return Polished(self.position[:, self.row, self.column], share / (C * (T - first)))

    def _redraw(self, j: int, uniform: Tensor) -> Tensor:
        """Draw column j's gaps anew from their conditional distribution, (C, gaps of j, P)."""
        rows = self.row[self.gaps_of[j]]
        here = self.position[:, rows]  # (C, n, D)
        share = self._log_shares(j, here).softmax(-1)
        below = share.cumsum(-1)
        # Rounding may leave the last sum a little below 1.
        chosen = (below < uniform[..., None] * below[..., -1:]).sum(-1).clamp(max=share.shape[-1] - 1)
        self.position[:, rows, j] = self._within(j, chosen, share, below, uniform)
        return share

    def _within(self, j: int, chosen: Tensor, share: Tensor, below: Tensor, uniform: Tensor) -> Tensor:
        """A number lies anywhere in the cell around its point: where, what is left of the random number says."""
        if not self.conditionals.is_number[j]:
            return chosen.to(share.dtype)
        of_chosen, up_to = (x.gather(-1, chosen[..., None]).squeeze(-1) for x in (share, below))
        inside = (uniform * below[..., -1] - (up_to - of_chosen)) / of_chosen.clamp(min=1e-300)
        return (chosen + inside.clamp(0, 1) - 0.5).clamp(0, share.shape[-1] - 1)

    def _log_shares(self, j: int, here: Tensor) -> Tensor:
        """(C, n, P), but for a constant: log p(x_j | parents) + sum of log p(x_c | its parents) over the children c"""
        c = self.conditionals
        points = c.points(j)
        result = c.log_prob(j, self._sum(j, here)[..., None, :], points)
        for child in c.children_of(j):
            others = self._sum(child, here, but=j)[..., None, :]
            result = result + c.log_prob(child, others + c.effects(j, child, points), here[..., child, None])
        return result

    def _sum(self, j: int, here: Tensor, but: int = -1) -> Tensor:
        """(C, n, U) of the effects on j"""
        c = self.conditionals
        result = c.constant[0, j].expand(*here.shape[:-1], -1)
        for k in c.parents_of(j):
            if k != but:
                result = result + c.effects(k, j, here[..., k])
        return result
