"""Which edges of a settled graph stay, and which candidates join it: those that rows are worse predicted without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visl.batches import CellStore, TrainingData
from visl.graph.posterior import DirectedPosterior
from visl.model import VislModel
from visl.nets.equations import StructuralEquations
from visl.schema import CONTINUOUS
from visl.steps import Engine
from visl.table import Table

MOST_ROWS = 2000  # of the learned and of the held-out rows, that are looked at
FLOATS_AT_ONCE = 1 << 22
# What an edge must be worth to a column of numbers or of levels: by so many standard errors more than so many nats a
# row, which it may seem worth by the networks' imperfect training alone. Curves fit levels without that.
LEAST_GAIN = {True: 0.02, False: 0.001}  # of numbers: True
STANDARD_ERRORS = {True: 3.0, False: 0.0}
FEWEST_ROWS = 20  # what fewer rows would have to judge stays as it is
LARGEST_GAIN = 1.0  # nats that one row may count for: a few rows far outside must not decide

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def revise(model: VislModel, data: TrainingData, seeds: Sequence[int], engine: Engine) -> None:
    """Decide the edges of settled graphs: with a gain of g +- s nats a row, an edge has the probability

    Phi((g - LEAST_GAIN) / s - STANDARD_ERRORS).

    Of every group the weakest parent below 1/2 goes, one at a time, then the best candidate above 1/2 joins, until
    nothing changes. On the largest part of the data, by the first process that has it.
    """
    assert isinstance(model.edges, DirectedPosterior)
    largest, found = int(np.argmax(data.sizes)), None
    if largest in data.parts:
        members = zip(model.members(), seeds, strict=True)
        found = [_Judge(m, data, k, seed, largest).probabilities().tolist() for k, (m, seed) in enumerate(members)]
    everywhere = engine.gather(found)
    probabilities = torch.tensor(next(p for p in everywhere if p is not None), dtype=model.edges.decided.dtype)
    model.edges.decided.copy_(probabilities)


class _Rows:
    """Some rows of a table, as the equations of a member see them."""

    def __init__(self, member: VislModel, table: Table) -> None:
        assert member.equations is not None
        self.equations: StructuralEquations = member.equations
        store = CellStore(TrainingData([table]), member.schema, 1, member.noise_variance.device)
        every = torch.arange(table.n_rows)[None]
        with torch.no_grad():
            self.cells = member.standardised(store.batch(every.to(store.device), store.exact_shape(every)))
            self.seen = self.equations.seen(self.cells)[0].bool()  # (B, M)
            self.sent = self.equations.encoder.encode(self.cells)  # (1, B, M, d)

    def gains(self, graph: BoolArray, variants: BoolArray) -> Gains:
        """Of the graph over each variant, in every group, in the rows that see all parents of both.

        (M, M), (S, M, M) -> three of (S, M)
        """
        both = torch.from_numpy(graph | variants).to(self.seen.device)
        usable = (self.seen & ((~self.seen).float() @ both.float() < 0.5)).float()  # (S, B, M)
        gain = self._log_prob(graph[None], usable) - self._log_prob(variants, usable)
        gain = gain.clamp(-LARGEST_GAIN, LARGEST_GAIN) * usable
        n = usable.sum(1)
        mean = gain.sum(1) / n.clamp(min=1)
        variance = (gain.square().sum(1) / n.clamp(min=1) - mean.square()).clamp(min=0)
        return Gains(*(x.cpu().double().numpy() for x in (mean, variance, n)))

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


class _Judge:
    """The settled graph of one member, the rows that it has learned from, and those that it has not."""

    def __init__(self, member: VislModel, data: TrainingData, k: int, seed: int, part: int) -> None:
        assert isinstance(member.edges, DirectedPosterior)
        table = data.tables[k if data.of_members else list(data.parts).index(part)]
        held_out = data.held_out_rows(k, seed, part)
        learned = data.learned_rows(k, seed, part)
        # Any of them, wherever they stand in the table.
        self.learned, self.held_out = (
            _Rows(member, table.take_rows(rows[:MOST_ROWS].sort().values.numpy())) for rows in (learned, held_out)
        )
        with torch.no_grad():
            self.found = member.edges.found()[0].cpu().double().numpy()
        self.too_much: float | None = None  # of the settled graph's edges, which are judged first
        share = member.edges.decided[0].cpu().numpy()
        self.graph, self.candidates = share > 0.5, share > 0
        self.required = (member.edges.prior[0] == 1).cpu().numpy()
        of_numbers = np.zeros(len(share), bool)
        of_numbers[
            [m for c, m in zip(member.schema.columns, member.schema.group_of, strict=True) if c.kind == CONTINUOUS]
        ] = True
        # (M,) of the edges to each group
        self.least, self.errors = (
            np.where(of_numbers, rule[True], rule[False]) for rule in (LEAST_GAIN, STANDARD_ERRORS)
        )

    def probabilities(self) -> FloatArray:
        """(M, M)"""
        graph = self._revised()
        score = np.where(graph, self._scores(graph, graph), self._scores(graph, self.candidates & ~graph))
        result = self.found * np.where(self.found + self.found.T > 0.5, 0.5, 1.0)  # outside, and no pair is joined
        judged = self.candidates & np.isfinite(score)
        result[judged] = _probability(score[judged])
        as_found = graph & ~judged
        as_found = as_found | as_found.T
        result[as_found] = self.found[as_found]
        against = np.where(self.candidates.T & ~self.candidates, 1 - result.T, 1.0)
        return np.where(self.required, 1.0, np.minimum(result, against))

    def _revised(self) -> BoolArray:
        """Only groups whose parents have changed are judged again, and what has joined and left again is out."""
        graph: BoolArray = self.graph | self.required
        changed: BoolArray = np.ones(len(graph), bool)
        open_ = self.candidates.copy()
        while True:
            graph = self._without_the_weak(graph, changed)
            joins = self._extreme(self._scores(graph, open_ & ~graph & changed), largest=True)
            if not joins.any():
                return graph
            graph, changed, open_ = graph | joins, _groups_of(joins), open_ & ~joins

    def _without_the_weak(self, graph: BoolArray, changed: BoolArray) -> BoolArray:
        while (leaves := self._extreme(self._scores(graph, graph & ~self.required & changed), largest=False)).any():
            graph, changed = graph & ~leaves, _groups_of(leaves)
        return graph

    def _extreme(self, scores: FloatArray, *, largest: bool) -> BoolArray:
        """(M, M): of every group the best candidate above the bound, or the weakest parent below it."""
        signed = np.where(np.isfinite(scores), scores if largest else -scores, -np.inf)
        place, best = signed.argmax(0), signed.max(0)
        chosen = np.zeros(scores.shape, bool)
        passes = best > 0
        chosen[place[passes], np.flatnonzero(passes)] = True
        return chosen

    def _scores(self, graph: BoolArray, asked: BoolArray) -> FloatArray:
        """(M, M): by how many standard errors each asked edge's gain, given the other parents, is above what is needed.

        inf: not asked, or not to be judged
        """
        scores = np.full(graph.shape, np.inf)
        # (S, M): the s-th asked sender to every group, -1 where there are fewer
        n_asked = asked.sum(0)
        if not n_asked.any():
            return scores
        ordered = np.argsort(~asked, axis=0, kind="stable")[: n_asked.max()]
        sender = np.where(np.arange(len(ordered))[:, None] < n_asked, ordered, -1)
        s, j = np.nonzero(sender >= 0)
        i = sender[s, j]
        variants = np.repeat(graph[None], len(ordered), 0)  # the s-th changes the s-th asked edge of every group
        variants[s, i, j] ^= True
        sign = np.where(graph[i, j], 1.0, -1.0)  # of presence over absence
        learned, held_out = (
            Gains(*(x[s, j] for x in (g.mean, g.variance, g.n))).signed(sign)
            for g in (rows.gains(graph, variants) for rows in (self.learned, self.held_out))
        )
        if self.too_much is None:  # the same for all that comes
            self.too_much = optimism(learned, held_out)
        gains = pooled(learned, held_out, self.too_much)
        error = np.sqrt(gains.variance / np.maximum(gains.n, 1)).clip(1e-6)
        found = (gains.mean - self.least[j]) / error - self.errors[j]
        scores[i, j] = np.where(gains.n >= FEWEST_ROWS, found, np.inf)
        return scores


def _groups_of(edges: BoolArray) -> BoolArray:
    """(M, M) -> (M,): those to which an edge leads."""
    return np.asarray(edges.any(axis=0))


def _probability(score: FloatArray) -> FloatArray:
    return 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(score / math.sqrt(2)))
