"""The graph between single columns, and how probable each edge is: found by exact fits, without any network."""

from __future__ import annotations

import hashlib
import math
import os
from collections import ChainMap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from visl.batches import TrainingData, stream_seed
from visl.graph.equivalence import compelled_edges
from visl.graph.posterior import DecidedPosterior
from visl.group_fits import FEWEST_ROWS, ROWS_OF_A_PARENT, GroupFits
from visl.model import VislModel
from visl.screening import strongest_pairs
from visl.search import Chance, GraphClimb
from visl.standardising import as_fits_see
from visl.steps import Engine
from visl.thorough_search import ThoroughSearch

MOST_ROWS, MOST_CELLS = 5000, 2_500_000  # of the rows that are looked at: the smaller
ERRORS = 2.0  # standard errors that an edge must be worth
# Columns, and columns of tables of levels alone, up to which all pairs are tried and graphs are searched thoroughly.
MOST_SEARCHED, MOST_SEARCHED_LEVELS = 30, 100
MOST_CANDIDATES = 20  # that go best with a column, in wider tables
GROWN_TIMES = 3
REPLICATES = 40  # data sets of rows drawn with replacement, in which graphs are searched again
REPLICATES_OF_WIDE = 20
DETOURS = 10  # of them, by way of which a better graph is looked for
MOST_THREADS = 8
LIKELIER = 0.02  # of a direction's share goes to that of the best graph, which then has one where both have a half
UNSEEN = 0.1  # times that each direction counts as found beyond those
ROWS_STREAM = -3

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def fit_graph(
    model: VislModel,
    data: TrainingData,
    seeds: Sequence[int],
    engine: Engine,
    on_search: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Decide all edge probabilities, on the largest part of the data, by the first process that has it.

    on_search: told how many of the searches are done
    """
    assert isinstance(model.edges, DecidedPosterior)
    largest, found = int(np.argmax(data.sizes)), None
    if largest in data.parts:
        members = [_Member(model, data, k, seed, largest) for k, seed in enumerate(seeds)]
        found = _of_members(members, model, on_search)
    everywhere = engine.gather(found)
    probabilities = torch.tensor(next(p for p in everywhere if p is not None), dtype=model.edges.decided.dtype)
    model.edges.decided.copy_(probabilities)


class _Member:
    """What a member's graph is found from."""

    def __init__(self, model: VislModel, data: TrainingData, k: int, seed: int, part: int) -> None:
        table = data.table_of(k, part)
        most = min(MOST_ROWS, MOST_CELLS // len(model.schema.columns))
        rng = torch.Generator().manual_seed(stream_seed(seed, ROWS_STREAM, part))
        rows = torch.randperm(table.n_rows, generator=rng)[:most].sort().values
        self.values = as_fits_see(model, k, table.take_rows(rows.numpy()))  # (N, D)
        self.prior = model.edges.prior[k].cpu().double().numpy()
        self.seed = seed


def _of_members(
    members: Sequence[_Member], model: VislModel, on_search: Callable[[int, int], None]
) -> list[list[list[float]]]:
    """Every member's probabilities. Those that see the same rows share their fits, one after the other; the others are
    judged side by side, on the CPU."""
    alike: dict[bytes, list[int]] = {}
    for k, member in enumerate(members):
        alike.setdefault(hashlib.sha256(member.values.tobytes()).digest(), []).append(k)

    done = count(1)

    def one_more(of: int) -> None:
        on_search(next(done), of)

    def of_all(these: Sequence[int]) -> dict[int, list[list[float]]]:
        fits, found = GroupFits(members[these[0]].values, model.schema), {}
        for k in these:
            judge = _Judge(members[k], fits)
            of_all_members = len(members) * judge.n_searches
            found[k] = judge.probabilities(partial(one_more, of_all_members)).tolist()
        return found

    n_threads = min(MOST_THREADS, os.cpu_count() or 1, len(alike))
    if n_threads == 1:  # which an interrupt ends at once
        found = dict(ChainMap(*map(of_all, alike.values())))
    else:  # threads of a matrix product in every thread would only get in each other's way
        with ThreadPoolExecutor(n_threads) as pool, threadpool_limits(1):
            found = dict(ChainMap(*pool.map(of_all, alike.values())))
    return [found[k] for k in range(len(members))]


class _Judge:
    """The best graph in a member's rows, and what these rows and replicates of them say of its edges."""

    def __init__(self, member: _Member, fits: GroupFits) -> None:
        self.fits, self.prior = fits, member.prior
        self.required = self.prior == 1
        self.learned = (self.prior > 0) & (self.prior < 1)  # what prior knowledge leaves open
        self.values = member.values[:, fits.column]  # (N, M)
        n_groups = len(self.prior)
        self.searched = n_groups <= (MOST_SEARCHED_LEVELS if fits.tabulated else MOST_SEARCHED)
        seen = (~np.isnan(self.values)).astype(np.float32)
        self.seen_together = seen.T @ seen  # (M, M) rows
        rng = np.random.default_rng(member.seed)
        n_replicates = REPLICATES if self.searched else REPLICATES_OF_WIDE
        self.chances = [Chance.draw(len(seen), n_groups, rng) for _ in range(n_replicates)]

    @property
    def n_searches(self) -> int:
        return 1 + len(self.chances)

    def probabilities(self, on_search: Callable[[], None]) -> FloatArray:
        """(M, M); on_search: told after each"""
        graph, climb = self._best()
        on_search()
        shared = self._shared_out(graph, climb, on_search) if self.learned.any() else np.zeros(graph.shape)
        return np.where(self.required, 1.0, shared)

    def _best(self) -> tuple[BoolArray, GraphClimb]:
        """And the climb that knows its fits: along all open edges, or in a wide table along those of the graph."""
        if self.searched:
            climb = GraphClimb(self.fits.gain_of_rows, self.learned)
            return ThoroughSearch(climb, self.fits).best(self.required, self.chances[:DETOURS]), climb
        return self._grown()

    def _grown(self) -> tuple[BoolArray, GraphClimb]:
        """Edges are added along the likeliest pairs, those that there are dropped and turned; and so again, with the
        pairs that go together in what the graph leaves unexplained."""
        graph, climb = self.required, GraphClimb(self.fits.gain_of_rows, np.zeros_like(self.required))
        is_number = self.fits.is_number[self.fits.column]
        for _ in range(GROWN_TIMES):
            likely = strongest_pairs(self.values, self.fits.left(graph), is_number, MOST_CANDIDATES)
            climb = climb.narrowed(self.learned & (climb.open_ | likely))
            graph = climb.grown(graph)
            nearby = climb.narrowed(self.learned & (graph | graph.T))
            graph = nearby.climbed(graph)
        return graph, nearby

    def _shared_out(self, graph: BoolArray, climb: GraphClimb, on_search: Callable[[], None]) -> FloatArray:
        """A pair is joined as probably as its edge is worth something, and in as large a share of the replicates at
        most; each direction has its part of them.  (M, M)"""
        again = climb.climbed if self.fits.tabulated else climb.resampled
        share = np.zeros(graph.shape)
        for chance in self.chances:
            share += self._told(again(graph, chance)) / len(self.chances)
            on_search()
        share += LIKELIER * (graph * share.T - graph.T * share)
        joined, joins, n = share + share.T, graph | graph.T, len(self.chances)
        worth = self._worth_something(graph)
        exists = np.minimum(joined, np.where(joins, worth + worth.T, 0.5))
        # What no replicate joins is not quite impossible, and what hardly a row tells is as probable as it was before.
        unknown = (self.seen_together < ROWS_OF_A_PARENT) & ~joins
        before = np.minimum(1.0, self.prior + self.prior.T)
        exists = np.where(unknown, before, np.maximum(exists, before / (1 + n)))
        return np.asarray(exists * (share * n + UNSEEN) / (joined * n + 2 * UNSEEN))

    def _told(self, graph: BoolArray) -> FloatArray:
        """Tables tell no direction that another graph with the same independences turns: each has its half.

        (M, M) -> (M, M)
        """
        if not self.fits.tabulated:
            return graph.astype(float)
        told = compelled_edges(graph, known=~self.learned.T)
        return told + 0.5 * (graph & ~told) + 0.5 * (graph & ~told).T

    def _worth_something(self, graph: BoolArray) -> FloatArray:
        """(M, M): of an edge with a gain of g +- s nats a row Phi(g / s - ERRORS); 0 where there is none, 1 where rows
        are too few to judge. Counts are judged by their replicates alone."""
        result = graph.astype(float)
        for i, j in np.argwhere(graph & ~self.required & (not self.fits.tabulated)).tolist():
            mean, variance, n = self.fits.gain(j, graph[:, j], i)
            if n >= FEWEST_ROWS:
                score = mean / max(math.sqrt(variance / n), 1e-6) - ERRORS
                result[i, j] = 0.5 * (1 + math.erf(score / math.sqrt(2)))
        return result
