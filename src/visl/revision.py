"""Which edges of a settled graph stay, and which candidates join it: those that held-out rows are worse without."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visl.batches import CellStore, TrainingData
from visl.graph.posterior import DirectedPosterior
from visl.model import VislModel
from visl.nets.equations import StructuralEquations
from visl.steps import Engine

MOST_ROWS = 2000  # held-out rows that are looked at
FLOATS_AT_ONCE = 1 << 22
LEAST_GAIN = 0.002  # nats a row: what an edge may seem worth by the networks' imperfect training alone
STANDARD_ERRORS = 3.0  # by which its gain must be above that
FEWEST_ROWS = 20  # what fewer rows would have to judge stays as it is
LARGEST_GAIN = 1.0  # nats that one row may count for: a few rows far outside must not decide

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def revise(model: VislModel, data: TrainingData, seeds: Sequence[int], engine: Engine) -> None:
    """Decide the edges of settled graphs: with a gain of g +- s nats a held-out row, an edge has the probability

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


class _Judge:
    """The settled graph of one member, and the rows that it has not learned from."""

    def __init__(self, member: VislModel, data: TrainingData, k: int, seed: int, part: int) -> None:
        assert member.equations is not None
        assert isinstance(member.edges, DirectedPosterior)
        self.equations: StructuralEquations = member.equations
        table = data.tables[k if data.of_members else list(data.parts).index(part)]
        rows = data.held_out_rows(k, seed, part)[:MOST_ROWS]  # any of them, wherever they stand in the table
        held_out = table.take_rows(rows.sort().values.numpy())
        store = CellStore(TrainingData([held_out]), member.schema, 1, member.noise_variance.device)
        every = torch.arange(held_out.n_rows)[None]
        with torch.no_grad():
            self.cells = member.standardised(store.batch(every.to(store.device), store.exact_shape(every)))
            self.seen = self.equations.seen(self.cells)[0].bool()  # (B, M)
            self.sent = self.equations.encoder.encode(self.cells)  # (1, B, M, d)
            self.found = member.edges.found()[0].cpu().double().numpy()
        share = member.edges.decided[0].cpu().numpy()
        self.graph, self.candidates = share > 0.5, share > 0
        self.required = (member.edges.prior[0] == 1).cpu().numpy()

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
        graph = self.graph | self.required
        for _ in range(2 * len(graph)):
            graph = self._without_the_weak(graph)
            joins = self._extreme(self._scores(graph, self.candidates & ~graph), largest=True)
            if not joins.any():
                break
            graph = graph | joins
        return self._without_the_weak(graph)

    def _without_the_weak(self, graph: BoolArray) -> BoolArray:
        while (leaves := self._extreme(self._scores(graph, graph & ~self.required), largest=False)).any():
            graph = graph & ~leaves
        return graph

    def _extreme(self, scores: FloatArray, *, largest: bool) -> BoolArray:
        """(M, M): of every group the best candidate above the bound, or the weakest parent below it."""
        signed = np.where(np.isfinite(scores), scores if largest else -scores, -np.inf)
        place, best = signed.argmax(0), signed.max(0)
        chosen = np.zeros(scores.shape, bool)
        passes = best > (STANDARD_ERRORS if largest else -STANDARD_ERRORS)
        chosen[place[passes], np.flatnonzero(passes)] = True
        return chosen

    def _scores(self, graph: BoolArray, asked: BoolArray) -> FloatArray:
        """(M, M): by how many standard errors the gain of each asked edge is above the least, given the other parents.

        inf: not asked, or not to be judged
        """
        scores = np.full(graph.shape, np.inf)
        places = [np.flatnonzero(asked[:, j]) for j in range(len(graph))]
        n_variants = max(map(len, places))
        if not n_variants:
            return scores
        variants = np.repeat(graph[None], n_variants, 0)  # the s-th changes the s-th asked edge of every group
        for j, senders in enumerate(places):
            for s, i in enumerate(senders):
                variants[s, i, j] = ~graph[i, j]
        both = torch.from_numpy(graph | variants).to(self.seen.device)  # (S, M, M): parents that must be seen
        usable = (self.seen & ((~self.seen).float() @ both.float() < 0.5)).float()  # (S, B, M)
        # (S, B, M) of the graph as it is over the variant
        gain = self._log_prob(graph[None], usable) - self._log_prob(variants, usable)
        n = usable.sum(1)  # (S, M)
        for j, senders in enumerate(places):
            for s, i in enumerate(senders):
                if n[s, j] >= FEWEST_ROWS:
                    of_edge = gain[s, :, j] if graph[i, j] else -gain[s, :, j]
                    of_edge = of_edge.clamp(-LARGEST_GAIN, LARGEST_GAIN)
                    scores[i, j] = _standard_errors(of_edge[usable[s, :, j] > 0])
        return scores

    def _log_prob(self, graphs: BoolArray, usable: Tensor) -> Tensor:
        """Of every row's groups given their parents.  (1 or S, M, M), (S, B, M) -> (S, B, M)"""
        _, B, M, d = self.sent.shape
        S = len(usable)
        of_all = torch.from_numpy(graphs).to(self.sent).expand(S, M, M)
        at_once = max(1, FLOATS_AT_ONCE // (B * M * d))
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


def _standard_errors(gains: Tensor) -> float:
    error = gains.std(correction=0) / math.sqrt(len(gains))
    return float((gains.mean() - LEAST_GAIN) / error.clamp(min=1e-6))


def _probability(score: FloatArray) -> FloatArray:
    return 0.5 * (1 + np.vectorize(math.erf, otypes=[float])((score - STANDARD_ERRORS) / math.sqrt(2)))
