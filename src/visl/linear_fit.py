"""The Gaussian behind `LinearGuess`, fitted to the training rows and their gaps by expectation-maximisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visl.batches import CellStore, TrainingData
from visl.model import VislModel
from visl.nets.guess import condition
from visl.steps import Engine

MOST_ROWS = 20_000  # of a larger table as many are taken, evenly
MOST_ROUNDS = 15
SETTLED = 1e-3  # largest change of a correlation in a round, below which the fit has ended
ROWS_OF_A_FEATURE = 2  # with fewer there is no fit: the guess of a gap stays 0, its deviation 1
PRIOR_ROWS_OF_A_FEATURE = 0.25  # uncorrelated features count like so many rows for each, or so many times as many, ...
TIMES = (1.0, 4.0, 16.0)
HIDDEN = 0.3  # ... whichever guesses this share of every third row best, fitted to the others ...
NEARLY = 1.01  # ... or nearly so, with fewer
FAR = 3.0
FLOATS_AT_ONCE = 1 << 22


class LinearFit:
    """Fits the guess of every member, and fills the rows that members train on."""

    def __init__(self, model: VislModel, cells: CellStore, data: TrainingData, engine: Engine) -> None:
        assert model.guess is not None
        self.guess, self.model, self.cells, self.data = model.guess, model, cells, data
        shared = data.of_members or data.share[1] > 1  # every process has all the rows
        self.gather: Callable[[Any], list[Any]] = (lambda plain: [plain]) if shared else engine.gather

    @property
    def _possible(self) -> bool:
        return self.data.n_rows >= ROWS_OF_A_FEATURE * self.guess.n_features

    def fit(self) -> None:
        if not self._possible:
            return
        for members, rows in self._data_sets():
            mean, covariance, own_share = self._fitted(members.start, rows[:: 1 + len(rows) // MOST_ROWS])
            self.guess.mean[members], self.guess.own_share[members] = mean, own_share
            self.guess.precision[members] = torch.linalg.inv(covariance)
            self.guess.deviation[members] = covariance.diagonal().sqrt()

    def filled(self) -> Tensor | None:
        """(rows, F) of the tables laid one after the other; None where no row counts."""
        if not self._possible or max(self.data.sizes) > MOST_ROWS:
            return None
        parts = []
        for members, rows in self._data_sets():
            k = members.start
            mean, precision = self.guess.mean[k].double(), self.guess.precision[k : k + 1].double()
            for value, seen in self._blocks(k, rows):
                parts.append((mean + condition(precision, seen, value - mean).away).to(self.guess.mean.dtype))
        return torch.cat(parts)

    def _data_sets(self) -> Iterator[tuple[slice, Tensor]]:
        """The members of each, and its rows here."""
        counts, K = [table.n_rows for table in self.data.tables], self.guess.mean.shape[0]
        if not self.data.of_members:
            counts = [sum(counts)]
        each, ends = K // len(counts), np.cumsum(counts).tolist()
        for i, (n, end) in enumerate(zip(counts, ends, strict=True)):
            yield slice(i * each, (i + 1) * each), torch.arange(end - n, end)

    def _blocks(self, k: int, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Features of these rows as member k sees them, and which are seen; some rows at a time."""
        F = self.guess.n_features
        for some in rows.split(max(1, FLOATS_AT_ONCE // (F * F))):
            here = some[None]
            cells = self.cells.batch(here.to(self.cells.device), self.cells.exact_shape(here))
            value, seen = self.guess.features(self.model.standardised(cells, member=k))
            yield value.double(), seen.double()

    def _fitted(self, k: int, rows: Tensor) -> tuple[Tensor, Tensor, float]:
        """Mean and covariance, and what a row counts in it."""
        is_judge = torch.arange(len(rows)) % 3 == 2
        errors = [self._error(k, self._given(k, rows[~is_judge], times), rows[is_judge]) for times in TIMES]
        return self._given(k, rows, next(t for t, e in zip(TIMES, errors, strict=True) if e <= NEARLY * min(errors)))

    def _error(self, k: int, fitted: tuple[Tensor, Tensor, float], rows: Tensor) -> float:
        """Mean square of what it guesses wrong in these rows, in deviations of each feature: of a few that are far
        outside at most FAR."""
        mean, covariance, _ = fitted
        scale, precision = covariance.diagonal().sqrt(), torch.linalg.inv(covariance)[None]
        rng = torch.Generator().manual_seed(0)

        def wrong(value: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
            shown = seen * (torch.rand(seen.shape, generator=rng) >= HIDDEN).to(seen)
            guess = mean + condition(precision, shown, value - mean).away
            away = ((guess - value) / scale).clamp(-FAR, FAR)
            return (away.square() * (seen - shown)).sum(0), (seen - shown).sum(0)

        square, n = self._sums(wrong, k, rows)
        return float(square.sum() / n.sum().clamp(min=1))

    def _given(self, k: int, rows: Tensor, times: float) -> tuple[Tensor, Tensor, float]:
        """The same, with a prior of so many times as many rows."""
        mean, covariance, n = self._start(k, rows)
        kept = n / (n + times * PRIOR_ROWS_OF_A_FEATURE * len(mean))
        for _ in range(MOST_ROUNDS):
            before = correlation(covariance)
            total, square = self._sums(partial(_expected, mean, torch.linalg.inv(covariance)), k, rows)
            mean = total[0] / n
            raw = square / n - mean[:, None] * mean
            covariance = kept * raw + (1 - kept) * torch.diag_embed(_positive(raw.diagonal()))
            if (correlation(covariance) - before).abs().max() < SETTLED:
                break
        return mean, covariance, kept / n

    def _start(self, k: int, rows: Tensor) -> tuple[Tensor, Tensor, float]:
        """Mean and variances of what is seen, and the number of rows."""
        every = self._sums(
            lambda value, seen: (torch.ones_like(seen).sum(0), seen.sum(0), value.sum(0), value.square().sum(0)),
            k,
            rows,
        )
        n, seen, total, square = (sums[0] for sums in every)
        mean = total / seen.clamp(min=1)
        variance = square / seen.clamp(min=1) - mean.square()
        return mean, torch.diag_embed(_positive(variance)), max(1.0, float(n[0]))

    def _sums(self, of_block: Callable[[Tensor, Tensor], tuple[Tensor, ...]], k: int, rows: Tensor) -> list[Tensor]:
        """Of the rows of all processes: what `of_block` gives for the values and the seen features of some of them,
        (n, F) each."""
        blocks = [[torch.atleast_2d(part) for part in of_block(*block)] for block in self._blocks(k, rows)]
        sums = [torch.stack(parts).sum(0) for parts in zip(*blocks, strict=True)]
        together = np.sum(self.gather(torch.cat(sums).tolist()), axis=0)
        return list(torch.from_numpy(together).to(sums[0]).split([len(part) for part in sums]))


def _expected(mean: Tensor, precision: Tensor, value: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of features and of their products over these rows, in expectation over their gaps: (F,), (F, F)."""
    found, F = condition(precision[None], seen, value - mean), len(mean)
    filled = mean + found.away
    is_gap = 1 - seen.gather(1, found.gaps)
    left = (found.root.mT @ found.root) * is_gap[:, :, None]  # of a seen feature nothing is left
    place = found.gaps[:, :, None] * F + found.gaps[:, None, :]
    products = (filled.T @ filled).flatten().index_add(0, place.flatten(), left.flatten())
    return filled.sum(0), products.view(F, F)


def _positive(variance: Tensor) -> Tensor:
    """That of a feature that never changes is taken for 1."""
    return torch.where(variance > 1e-9, variance, 1.0)


def correlation(covariance: Tensor) -> Tensor:
    deviation = covariance.diagonal().sqrt()
    return covariance / (deviation[:, None] * deviation)
