"""Wide tables of causes and effects, such as injuries and symptoms: their graph is searched without any network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray

from visl.additive_logits import RIDGE, SMOOTHNESS, log_prob_of_others
from visl.batches import TrainingData
from visl.effects import Effect
from visl.graph.posterior import DecidedPosterior
from visl.group_fits import ROWS_OF_A_PARENT
from visl.model import VislModel
from visl.nets.kernels.cpu import available
from visl.noisy_or import NoisyOr
from visl.order_search import OrderSearch, worth_of_all
from visl.schema import BINARY, Schema
from visl.steps import Engine
from visl.strongest_cause import StrongestCause, rounded
from visl.table import Table

FEWEST_COLUMNS, MOST_COLUMNS = 101, 500
MOST_ROWS, MOST_CELLS = 5000, 1_000_000  # that are looked at: the smaller
COMMONEST = 0.4  # share of the cells that are present, above which columns have too many causes to look through
# Standard errors of a covariance: what is clear, and what a pair needs for one to be tried as a cause of the other.
CLEARLY, LEAST_TOGETHER = 4.0, 1.0
MOST_AGAINST = 0.01  # of the pairs that clearly go together, in the other way
LARGEST_HAZARD = 20.0
IMPOSSIBLE = 1e-12
FILLINGS = 2  # times that gaps are filled anew
SEARCHES = 8  # from orders that differ by chance ...
APART = 0.3  # ... in the logarithm of what columns are worth as causes
N_SEARCHES = SEARCHES + 1  # since the first is made in both forms
# An edge that a search finds has the probability sigmoid((w - JUST) / UNIT), if it is worth w nats beyond its cost. Its
# direction has the share sigmoid(t / UNIT) of it, if t nats are lost when it is turned.
JUST, UNIT = 1.0, 1.5
UNFOUND = 0.02  # of its prior probability is left to an edge that no search finds

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def find_causes(
    model: VislModel,
    data: TrainingData,
    seeds: Sequence[int],
    engine: Engine,
    on_search: Callable[[int, int], None] = lambda done, of: None,
) -> bool:
    """Decide all edge probabilities, if the table is one of causes and effects. On the largest part of the data, by the
    first process that has it.

    on_search: told how many of the searches are done
    """
    if not possible(model.schema) or not isinstance(model.edges, DecidedPosterior):
        return False
    largest, found = int(np.argmax(data.sizes)), None
    if largest in data.parts:
        prior = model.edges.prior.cpu().double().numpy()
        done, n_searches = count(1), len(seeds) * N_SEARCHES
        found = [
            _of_member(data.table_of(k, largest), prior[k], seed, lambda: on_search(next(done), n_searches))
            for k, seed in enumerate(seeds)
        ]
    of_members = next(f for f in engine.gather(found) if f is not None)
    if any(probabilities is None for probabilities in of_members):
        return False
    model.edges.decided.copy_(torch.tensor(of_members, dtype=model.edges.decided.dtype))
    return True


def possible(schema: Schema) -> bool:
    """Narrower tables are counted, and groups of several columns are not searched."""
    single = len(schema.groups) == len(schema.columns)
    binary = all(column.kind == BINARY for column in schema.columns)
    return single and binary and FEWEST_COLUMNS <= len(schema.columns) <= MOST_COLUMNS and available()


def _of_member(table: Table, prior: FloatArray, seed: int, on_search: Callable[[], None]) -> list[list[float]] | None:
    some = np.random.default_rng(seed).permutation(table.n_rows)[: min(MOST_ROWS, MOST_CELLS // len(prior))]
    values, observed = table.take_rows(np.sort(some)).to_dense()
    found = probabilities(np.where(observed, values, np.nan), prior, seed, on_search)
    return None if found is None else found.tolist()


def probabilities(
    values: FloatArray, prior: FloatArray, seed: int, on_search: Callable[[], None] = lambda: None
) -> FloatArray | None:
    """(N, M) of 0, 1 and NaN, (M, M) -> (M, M); None: columns are not causes and effects of each other.

    on_search: told after each
    """
    gaps = Gaps(values)
    together = associations(gaps.filled)
    if gaps.filled.mean() > COMMONEST or not go_together(together):
        return None
    varies = np.array([effect.varies for effect in gaps.effects])
    required, open_ = prior == 1, (prior > 0) & (prior < 1) & varies[:, None] & varies & (together > LEAST_TOGETHER)
    gaps.fill(open_)
    forms = [Searches(effects, open_, required, seed, on_search) for effects in (gaps.effects, gaps.strongest())]
    first, further = in_better_form(forms)
    if not _are_effects(gaps, first):
        return None
    searches = [first, *(further(k) for k in range(1, SEARCHES))]
    result = np.mean([_told_by(search) for search in searches], axis=0)
    seen, pair = gaps.seen.astype(np.float32), result + result.T
    unknown = (seen.T @ seen < ROWS_OF_A_PARENT) & (pair == 0)
    before = prior / np.maximum(1.0, prior + prior.T)  # a user may give both directions of a pair more than half
    result += np.where(unknown, 1.0, UNFOUND) * before * (1 - pair)
    return np.where(required, 1.0, np.where(required.T | (prior == 0), 0.0, result))


class Searches:
    """From orders that differ by chance, of effects of one form."""

    def __init__(
        self,
        effects: Sequence[Effect],
        open_: BoolArray,
        required: BoolArray,
        seed: int = 0,
        on_search: Callable[[], None] = lambda: None,
    ) -> None:
        self.effects, self.open_, self.required, self.seed, self.on_search = effects, open_, required, seed, on_search
        self.worth = worth_of_all(effects, open_).sum(1)  # (M,) of each column as a cause

    def __call__(self, k: int) -> OrderSearch:
        rng = np.random.default_rng([self.seed, k])
        priority = self.worth * np.exp(APART * rng.standard_normal(len(self.worth)))
        search = OrderSearch(self.effects, self.open_, self.required, priority)
        search.run(rng)
        self.on_search()
        return search


def in_better_form(forms: Sequence[Searches]) -> tuple[OrderSearch, Searches]:
    """Any of the causes may bring an effect about, or the strongest that is present decides: as the rows have it.

    The first search of the better form, and its others.
    """
    return min(((searches(0), searches) for searches in forms), key=lambda found: float(found[0].loss.sum()))


def _told_by(search: OrderSearch) -> FloatArray:
    """(M, M) probabilities of what it found"""
    exists = search.graph() * _sigmoid((search.worth() - JUST) / UNIT)
    as_found = _sigmoid(search.lost_if_turned() / UNIT)
    return exists * as_found + (exists * (1 - as_found)).T


class Gaps:
    """What enters for gaps as causes: at first the mean of a column, then what the others of the row make probable.

    Of the effect at hand nothing is told to its own causes, else each would seem to bring it about.
    """

    def __init__(self, values: FloatArray) -> None:
        self.values, self.seen = values, ~np.isnan(values)
        means = np.nansum(values, axis=0) / np.maximum(self.seen.sum(0), 1)
        self.filled = np.where(self.seen, values, means)
        self.instead: list[dict[int, FloatArray]] = [{} for _ in values.T]  # (N,) for some causes of each effect
        self.effects = self._noisy_ors()

    def _noisy_ors(self) -> list[NoisyOr]:
        effects = []
        for column, instead in zip(self.values.T, self.instead, strict=True):
            others = self.filled.copy() if instead else self.filled
            for k, of_cause in instead.items():
                others[:, k] = of_cause
            effects.append(NoisyOr(column, others))
        return effects

    def strongest(self) -> list[StrongestCause]:
        """The same effects in the other form."""
        others = rounded(self.filled)
        return [
            StrongestCause(column, others, {k: rounded(x) for k, x in instead.items()})
            for column, instead in zip(self.values.T, self.instead, strict=True)
        ]

    def fill(self, open_: BoolArray) -> None:
        """By columns that are worth something as causes of each other; again, once more is known of those."""
        for _ in range(0 if self.seen.all() else FILLINGS):
            leak, weights = self._weights(worth_of_all(self.effects, open_))
            before, hazard = self.filled, leak + self.filled @ weights  # (N, M)
            self.filled = self._filled(hazard, np.arange(len(weights)))
            for j, of_j in enumerate(weights):
                told = np.flatnonzero((of_j > 0) & ~self.seen.all(0))
                without = self._filled(hazard[:, told] - np.outer(before[:, j], of_j[told]), told)
                self.instead[j] = dict(zip(told.tolist(), without.T, strict=True))
            self.effects = self._noisy_ors()

    def _weights(self, worth: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(M,) leaks and (M, M) weights of each column as a cause of each other, given all others."""
        leak, weights = np.zeros(len(worth)), np.zeros(worth.shape)
        for j, effect in enumerate(self.effects):
            if effect.varies:
                causes = np.flatnonzero(worth[:, j] > 0)
                found = effect.fit(tuple(causes.tolist())).weights
                leak[j], weights[causes, j] = found[0], found[1:]
            else:
                leak[j] = LARGEST_HAZARD if effect.n_present else 0.0
        return leak, weights

    def _filled(self, hazard: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
        """(N, columns)"""
        return np.where(self.seen[:, columns], self.values[:, columns], -np.expm1(-np.maximum(hazard, 0.0)))


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def associations(filled: FloatArray) -> FloatArray:
    """(M, M) covariances of all pairs, in standard errors; 0 on the diagonal"""
    away = filled - filled.mean(0)
    spread = np.sqrt(np.square(away).mean(0))
    together = away.T @ away / np.maximum(np.outer(spread, spread), 1e-12) / np.sqrt(len(filled))
    np.fill_diagonal(together, 0.0)
    return np.asarray(together)


def go_together(associations: FloatArray) -> bool:
    """Where causes only bring effects about, no pair of columns goes against each other, but by chance."""
    return bool((associations < -CLEARLY).sum() <= MOST_AGAINST * (associations > CLEARLY).sum())


def _are_effects(gaps: Gaps, search: OrderSearch) -> bool:
    """Whether effects tell columns better than logits that are sums do, in the rows that see them and all causes."""
    better = 0.0
    for j, causes in enumerate(search.causes):
        of_j = np.array(causes, np.intp)
        whole = gaps.seen[:, j] & gaps.seen[:, of_j].all(1)
        if not causes or not whole.any():
            continue
        values, level = gaps.values[np.ix_(np.flatnonzero(whole), of_j)], gaps.values[whole, j].astype(np.intp)
        X = np.concatenate([np.ones((len(values), 1)), values], axis=1)
        penalty = RIDGE * np.eye(X.shape[1])
        by_logits = max(float(log_prob_of_others(X, level, 2, s * penalty).sum()) for s in SMOOTHNESS)
        present = search.effects[j].present_given(causes, values).clip(IMPOSSIBLE, 1 - IMPOSSIBLE)
        by_causes = float(np.log(np.where(level == 1, present, 1 - present)).sum())
        # Each weight seems worth a nat more in the rows that it is fitted to.
        better += by_causes - X.shape[1] * whole.sum() / gaps.seen[:, j].sum() - by_logits
    return better >= 0
