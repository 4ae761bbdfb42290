"""Which edges of a settled graph stay, and which candidates join it: those that rows are worse predicted without."""

from __future__ import annotations

import hashlib
import math
import os
from collections import ChainMap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from visl.batches import TrainingData
from visl.graph.equivalence import compelled_edges
from visl.graph.posterior import DirectedPosterior
from visl.group_fits import FEWEST_FITTED, FEWEST_ROWS, MOST_PARENTS, ROWS_OF_A_PARENT, GroupFits
from visl.model import VislModel
from visl.nets.equations import ENOUGH_ROWS
from visl.screening import strongest_pairs
from visl.search import Chance, GraphClimb, reaches
from visl.seen_rows import Gains, SeenRows, optimism, pooled
from visl.steps import Engine
from visl.thorough_search import ThoroughSearch

MOST_ROWS, MOST_CELLS = 5000, 2_500_000  # of the learned and of the held-out rows, that are looked at: the smaller
# What an edge must be worth: more than so many nats a row, by so many standard errors. Networks of numbers are never
# quite trained to the end, and false edges still seem worth something to them. Fits are exact.
BY_NETWORKS, BY_FITS = (0.02, 3.0), (0.0, 2.0)
# In wide tables networks judge edges between levels, and what one is worth is too uncertain to ask for much: a settled
# edge goes only if it is worth less than nothing by two standard errors, or if its ends may be independent. Of those
# that stay an edge is the more probable the more it is worth, in units of so many standard errors.
WORSE, ERRORS_OF_WIDE = -2.0, 4.0
WORTH_NOTHING = 0.69  # Phi(-WORSE / ERRORS_OF_WIDE): at most as probable is there what rows cannot judge
FALSE_PAIRS = 0.05  # of the dependent pairs (Benjamini and Hochberg)
CLEARLY = (0.05, 3.0)  # nats a row, and standard errors, by which networks predict a group better if they judge it
MOST_CANDIDATES = 20  # that go best with a group, in tables that are too wide for all pairs to be tried
GROWN_TIMES = 3
REPLICATES = 40  # data sets of rows drawn with replacement, in which graphs are searched again
REPLICATES_OF_WIDE = 20
DETOURS = 10  # of them, by way of which a better graph is looked for
MOST_THREADS = 8
LIKELIER = 0.02  # of a direction's share goes to that of the best graph, which then has one where both have a half
UNSEEN = 0.1  # times that each direction counts as found beyond those

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def revise(model: VislModel, data: TrainingData, seeds: Sequence[int], engine: Engine) -> None:
    """Decide the edges of settled graphs: with a gain of g +- s nats a row, an edge has the probability

    Phi((g - least) / s - errors), see BY_NETWORKS, BY_FITS and WORSE.

    Of every group the weakest parent below 1/2 goes, one at a time, then the best candidate above 1/2 joins, until
    nothing changes. Where exact fits judge, better graphs are searched then, and a pair is at most as probable as the
    share of the replicates that join it. On the largest part of the data, by the first process that has it.
    """
    assert isinstance(model.edges, DirectedPosterior)
    largest, found = int(np.argmax(data.sizes)), None
    if largest in data.parts:
        found = _judged([_Rows(member, data, k, seeds[k], largest) for k, member in enumerate(model.members())])
    everywhere = engine.gather(found)
    probabilities = torch.tensor(next(p for p in everywhere if p is not None), dtype=model.edges.decided.dtype)
    model.edges.decided.copy_(probabilities)


def _judged(rows_of: Sequence[_Rows]) -> list[list[list[float]]]:
    """Every member's probabilities. Members that see the same rows share their fits, one after the other; the others
    are judged side by side, on the CPU."""
    alike: dict[bytes, list[int]] = {}
    for k, rows in enumerate(rows_of):
        alike.setdefault(hashlib.sha256(rows.values.tobytes()).digest(), []).append(k)

    def of_all(members: Sequence[int]) -> dict[int, list[list[float]]]:
        fits = GroupFits(rows_of[members[0]].values, rows_of[members[0]].member.schema)
        return {k: _Judge(rows_of[k], fits).probabilities().tolist() for k in members}

    if rows_of[0].member.noise_variance.is_cuda:  # threads have a stream of their own
        torch.cuda.synchronize()
    n_threads = min(MOST_THREADS, os.cpu_count() or 1, len(alike))
    # Threads of a matrix product in every thread would only get in each other's way.
    with ThreadPoolExecutor(n_threads) as pool, threadpool_limits(1 if n_threads > 1 else None):
        found = dict(ChainMap(*pool.map(of_all, alike.values())))
    return [found[k] for k in range(len(rows_of))]


class _Rows:
    """Those that a member has learned from, and those that it has not; all together in the order of the table."""

    def __init__(self, member: VislModel, data: TrainingData, k: int, seed: int, part: int) -> None:
        self.member, self.seed = member, seed
        table = data.table_of(k, part)
        # Any of them, wherever they stand in the table.
        most = min(MOST_ROWS, MOST_CELLS // len(member.schema.columns))
        places = [rows(k, seed, part)[:most].sort().values for rows in (data.learned_rows, data.held_out_rows)]
        self.learned, self.held_out = (SeenRows(member, table.take_rows(rows.numpy())) for rows in places)
        self.order = torch.cat(places).argsort().numpy()  # (N,) where they are among the learned and the held-out ones
        self.is_held_out = self.order >= len(places[0])
        self.values = np.concatenate([self.learned.dense(), self.held_out.dense()])[self.order]  # (N, D)

    def log_prob_by_networks(self, graph: BoolArray) -> FloatArray:
        """(N, M)"""
        return np.concatenate([rows.log_prob(graph) for rows in (self.learned, self.held_out)])[self.order]


class _Judge:
    """The settled graph of one member, the rows that it has learned from, and those that it has not.

    Networks know many graphs a little. What a column is worth beside others that tell nearly the same, they know too
    roughly: there exact fits judge (`GroupFits`), if they predict the group as well as networks. Where there are levels
    alone, fits need neither networks nor a settled graph.
    """

    def __init__(self, rows: _Rows, fits: GroupFits) -> None:
        member = rows.member
        assert isinstance(member.edges, DirectedPosterior)
        self.rows, self.fits = rows, fits
        self.learned, self.held_out = rows.learned, rows.held_out
        with torch.no_grad():
            self.found = member.edges.found()[0].cpu().double().numpy()
        self.too_much: float | None = None  # of the settled graph's edges, which are judged first
        self.graph = member.edges.most_probable()[0]
        self.candidates = member.edges.decided[0].cpu().numpy() > 0
        self.prior = member.edges.prior[0].cpu().double().numpy()
        self.required = self.prior == 1
        self.learned_edges = member.edges.learned[0].cpu().numpy()  # which prior knowledge leaves open
        self.searched = self.fits.tabulated or len(self.graph) < FEWEST_FITTED
        seen = (~np.isnan(rows.values)).astype(np.float32)
        self.seen_together = (seen.T @ seen)[np.ix_(self.fits.column, self.fits.column)]  # (M, M) rows
        rng = np.random.default_rng(rows.seed)
        n_replicates = REPLICATES if self.searched else REPLICATES_OF_WIDE
        self.chances = [Chance.draw(len(seen), len(self.graph), rng) for _ in range(n_replicates)]
        self.by_fits, numbers = self._judged_by_fits(), np.array(member.schema.has_numbers)  # (M,)
        # (M, M) of each edge: how many nats, and by how many standard errors
        self.least, self.errors = (
            np.where(self.by_fits, f, n * np.ones_like(self.found)) for f, n in zip(BY_FITS, BY_NETWORKS, strict=True)
        )
        self.between_levels = ~(numbers | numbers[:, None] | self.by_fits)
        self.least[self.between_levels] = 0.0
        # Of many levels each tells little beside the others: they were found by rows with gaps too, which cannot judge.
        n_seen = sum(rows.seen.sum(0).cpu().numpy() for rows in (self.learned, self.held_out))  # (M,)
        self.fewest = np.where(self.between_levels, np.maximum(FEWEST_ROWS, ENOUGH_ROWS * n_seen), FEWEST_ROWS)
        # Fits start from all candidates where rows suffice, since several may be worth something only together.
        widest = np.where(self._rows_for(self.graph), self.graph, False)
        widest = np.where(self._rows_for(self.candidates), self.candidates, widest)
        self.start = np.where(self.by_fits, widest & (not self.fits.alone), self.graph) | self.required
        stay = self.fits.wide & self.start & self.between_levels
        if stay.any():
            stay &= self.fits.dependent(stay, FALSE_PAIRS, n_pairs=int(self.between_levels.sum()) // 2)
        self.errors[stay] = WORSE
        self.unit = np.where(stay, ERRORS_OF_WIDE, 1.0)

    def _judged_by_fits(self) -> BoolArray:
        """(M,) whether fits predict a group, given its parents in the settled graph, as well as networks or nearly so.

        In held-out rows, or in all if hardly one has all parents.
        """
        if self.fits.alone:
            return self.fits.possible
        networks, is_held_out = self.rows.log_prob_by_networks(self.graph), self.rows.is_held_out
        result: BoolArray = self.fits.possible & (self.graph.sum(0) <= MOST_PARENTS)
        least, errors = CLEARLY
        for j in np.flatnonzero(result):
            better = networks[:, j] - self.fits.log_prob(int(j), self.graph[:, j])
            seen = ~np.isnan(better)
            better = better[seen & is_held_out] if (seen & is_held_out).sum() >= FEWEST_ROWS else better[seen]
            error = better.std() / np.sqrt(len(better)) if len(better) >= FEWEST_ROWS else np.inf
            result[j] = error < np.inf and better.mean() <= max(least, errors * error)
        return result

    def _rows_for(self, graph: BoolArray) -> BoolArray:
        """(M,) whether a group has rows enough for fits of all its parents, and not too many parents."""
        n_rows = sum(rows.usable(graph).sum(0).cpu().numpy() for rows in (self.learned, self.held_out))
        n_parents = graph.sum(0)
        return np.asarray((n_rows >= ROWS_OF_A_PARENT * n_parents) & (n_parents <= MOST_PARENTS))

    def probabilities(self) -> FloatArray:
        """(M, M)"""
        graph = self._grown(self._revised())
        climb = GraphClimb(self.fits.gain_of_rows, self._open(graph))
        graph = self._searched(climb, graph)
        if self.fits.tabulated:
            return self._shared_out(graph.astype(float), graph, climb)
        others = self.candidates & ~graph & ~reaches(graph).T
        score = np.where(graph, self._scores(graph, graph), self._scores(graph, others))
        result = self.found * np.where(self.found + self.found.T > 0.5, 0.5, 1.0)  # outside, and no pair is joined
        judged = (graph | self.candidates) & np.isfinite(score)
        result[judged] = _probability((score / self.unit)[judged])
        as_found = graph & ~judged
        as_found = as_found | as_found.T
        result[as_found] = self.found[as_found]
        unsure = as_found & self.between_levels & self.fits.wide
        pair = np.maximum(self.found + self.found.T, 1e-9)
        result[unsure] = (self.found * np.minimum(1.0, WORTH_NOTHING / pair))[unsure]
        other_way = ~graph & (graph.T | (self.candidates.T & ~self.candidates))
        result = np.minimum(result, np.where(other_way, 1 - result.T, 1.0))
        shared = np.where(as_found, result, self._shared_out(result, graph, climb))
        return np.where(self.required, 1.0, shared)

    def _grown(self, graph: BoolArray) -> BoolArray:
        """Where fits alone find a graph that is too wide for all pairs to be tried: edges are added along the likeliest
        ones, those that there are dropped and turned; and so again, with the pairs that go together in what the graph
        leaves unexplained."""
        if self.searched or not self.fits.alone:
            return graph
        climb = GraphClimb(self.fits.gain_of_rows, np.zeros_like(graph))
        values, is_number = self.rows.values[:, self.fits.column], self.fits.is_number[self.fits.column]
        for _ in range(GROWN_TIMES):
            likely = strongest_pairs(values, self.fits.left(graph), is_number, MOST_CANDIDATES)
            climb = climb.narrowed(self.learned_edges & (climb.open_ | likely))
            graph = climb.grown(graph)
            graph = climb.narrowed(self._open(graph)).climbed(graph)
        return graph

    def _open(self, graph: BoolArray) -> BoolArray:
        """(M, M) the edges to groups that fits judge, among which better ones are looked for."""
        return self.learned_edges & self.by_fits & (self.searched | graph | graph.T)

    def _searched(self, climb: GraphClimb, graph: BoolArray) -> BoolArray:
        """A better graph, if only nearby where there are many groups."""
        if not self.searched or not climb.open_.any():
            return climb.climbed(graph)
        return ThoroughSearch(climb, self.fits).best(graph, self.chances[:DETOURS])

    def _shared_out(self, result: FloatArray, graph: BoolArray, climb: GraphClimb) -> FloatArray:
        """Between groups that fits judge, a pair is joined in as large a share of the replicates at most, and each
        direction has its part of them.  (M, M) -> (M, M)"""
        between = self.by_fits & self.by_fits[:, None]
        if not climb.open_.any():
            return result
        again = climb.climbed if self.fits.tabulated else climb.resampled
        share = np.mean([self._told(again(graph, chance)) for chance in self.chances], axis=0)
        share += LIKELIER * (graph * share.T - graph.T * share)
        joined = share + share.T
        of_edge, joins = np.where(graph, result, 0.0), graph | graph.T
        exists = np.minimum(joined, np.where(joins, of_edge + of_edge.T, 0.5))
        # What no replicate joins is not quite impossible, and what hardly a row tells is as probable as it was before.
        unknown = (self.seen_together < ROWS_OF_A_PARENT) & ~joins
        before = np.minimum(1.0, self.prior + self.prior.T)
        n = len(self.chances)
        exists = np.where(unknown, before, np.maximum(exists, before / (1 + n)))
        direction = (share * n + UNSEEN) / (joined * n + 2 * UNSEEN)
        return np.where(between, exists * direction, result)

    def _told(self, graph: BoolArray) -> FloatArray:
        """Tables tell no direction that another graph with the same independences turns: each has its half.

        (M, M) -> (M, M)
        """
        if not self.fits.tabulated:
            return graph.astype(float)
        told = compelled_edges(graph, known=~self.learned_edges.T)
        return told + 0.5 * (graph & ~told) + 0.5 * (graph & ~told).T

    def _revised(self) -> BoolArray:
        """Only groups whose parents have changed are judged again, and what has joined and left again is out."""
        graph = self.start
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
        for i, j, gains in (
            self._gains_by_networks(graph, asked & ~self.by_fits),
            self._gains_by_fits(graph, asked & self.by_fits),
        ):
            error = np.sqrt(gains.variance / np.maximum(gains.n, 1)).clip(1e-6)
            found = (gains.mean - self.least[i, j]) / error - self.errors[i, j]
            scores[i, j] = np.where(gains.n >= self.fewest[i, j], found, np.inf)
        return scores

    def _gains_by_fits(self, graph: BoolArray, asked: BoolArray) -> tuple[IntArray, IntArray, Gains]:
        """The asked edges, from and to, and what each is worth."""
        i, j = np.nonzero(asked)
        gains = [self.fits.gain(to, graph[:, to], sender) for sender, to in zip(i.tolist(), j.tolist(), strict=True)]
        return i, j, Gains(*np.array(gains).reshape(-1, 3).T)

    def _gains_by_networks(self, graph: BoolArray, asked: BoolArray) -> tuple[IntArray, IntArray, Gains]:
        """The same, by networks."""
        # (S, M): the s-th asked sender to every group, -1 where there are fewer
        n_asked = asked.sum(0)
        ordered = np.argsort(~asked, axis=0, kind="stable")[: n_asked.max()]
        sender = np.where(np.arange(len(ordered))[:, None] < n_asked, ordered, -1)
        s, j = np.nonzero(sender >= 0)
        i = sender[s, j]
        if not len(i):
            nothing = np.zeros(0)
            return i, j, Gains(nothing, nothing, nothing)
        variants = np.repeat(graph[None], len(ordered), 0)  # the s-th changes the s-th asked edge of every group
        variants[s, i, j] ^= True
        sign = np.where(graph[i, j], 1.0, -1.0)  # of presence over absence
        learned, held_out = (
            Gains(*(x[s, j] for x in (g.mean, g.variance, g.n))).signed(sign)
            for g in (rows.gains(graph, variants) for rows in (self.learned, self.held_out))
        )
        if self.too_much is None:  # the same for all that comes
            self.too_much = optimism(learned, held_out)
        return i, j, pooled(learned, held_out, self.too_much)


def _groups_of(edges: BoolArray) -> BoolArray:
    """(M, M) -> (M,): those to which an edge leads."""
    return np.asarray(edges.any(axis=0))


def _probability(score: FloatArray) -> FloatArray:
    return 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(score / math.sqrt(2)))
