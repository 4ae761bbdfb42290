"""Conditionals fitted to the training rows, given the most probable graph."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from visl.additive import AdditiveFits
from visl.additive_logits import AdditiveLogits
from visl.densities import Density
from visl.model import VislModel
from visl.nets.conditionals import NOISE_BINS, POINTS, Conditionals
from visl.nets.tails import drawn_out
from visl.schema import CONTINUOUS
from visl.standardising import as_fits_see
from visl.table import Table

MOST_ROWS = 10_000
BEYOND = 0.02  # of its range a column's axis goes on
FEWEST_ROWS = 20  # that see a column; and that see its parents too, or it has none

FloatArray = NDArray[np.float64]


def fit_conditionals(model: VislModel, table: Table) -> bool:
    """Of every member, in place; whether there are rows enough of every column."""
    assert model.conditionals is not None
    n_seen = np.bincount(table.columns, minlength=table.n_columns)
    if n_seen.min() < FEWEST_ROWS:
        return False
    table = table.take_rows(np.arange(0, table.n_rows, 1 + table.n_rows // MOST_ROWS))
    for k, member in enumerate(model.members()):
        assert member.conditionals is not None
        _Fit(member, table).fill(member.conditionals)
        for name, buffer in model.conditionals.named_buffers():
            buffer[k] = getattr(member.conditionals, name)[0]
    return True


class _Fit:
    def __init__(self, member: VislModel, table: Table) -> None:
        self.member = member
        self.values = as_fits_see(member, 0, table)
        probabilities = member.edges.probabilities()[0].detach().cpu().double().numpy()
        self.graph = member.edges.choose_graph(probabilities, 0.5)
        numbers = [column.kind == CONTINUOUS for column in member.schema.columns]
        self.additive = AdditiveFits(self.values, numbers)
        self.logits = AdditiveLogits(self.values, [column.n_levels for column in member.schema.columns])

    def fill(self, found: Conditionals) -> None:
        for j in range(len(found.is_number)):
            if found.is_number[j]:
                self._lay_axis(found, j)
        for j in range(len(found.is_number)):
            parents = np.flatnonzero(self.graph[:, j]).tolist()
            if self._n_seen([j, *parents]) < FEWEST_ROWS:
                parents = []
            found.parents[0, parents, j] = True
            (self._fill_number if found.is_number[j] else self._fill_level)(found, j, parents)

    def _n_seen(self, columns: list[int]) -> int:
        return int((~np.isnan(self.values[:, columns])).all(1).sum())

    def _lay_axis(self, found: Conditionals, j: int) -> None:
        seen = self.values[:, j][~np.isnan(self.values[:, j])]
        low, high = seen.min(), seen.max()
        margin = BEYOND * max(high - low, 1e-6)
        low, high = low - margin, high + margin
        step = (high - low) / (POINTS - 1)
        found.low[0, j], found.step[0, j] = low, step
        edges = low + step * (np.arange(POINTS + 1) - 0.5)
        assert self.member.tails is not None
        tails = self.member.tails.numbers()
        standardised = drawn_out(np.asarray(edges, np.float64), *(float(x[0, j]) for x in tails))
        spread, centre = float(self.member.spread[0, j]), float(self.member.centre[0, j])
        found.edges[0, j] = torch.from_numpy(centre + spread * standardised)

    def _fill_number(self, found: Conditionals, j: int, parents: list[int]) -> None:
        constant, coefficients, residuals = self.additive.functions(j, parents)
        found.constant[0, j, 0] = constant
        for k, of_k in zip(parents, coefficients, strict=True):
            at = self._at(found, k)
            found.effect[0, k, j, : len(at), 0] = torch.from_numpy(self.additive.bases[k](at) @ of_k)
        widest = POINTS * float(found.step[0, j])
        away = np.linspace(-widest, widest, NOISE_BINS)
        found.noise[0, j] = torch.from_numpy(np.log(Density.of(residuals).at(away, len(residuals))))
        found.noise_low[0, j], found.noise_step[0, j] = away[0], away[1] - away[0]

    def _fill_level(self, found: Conditionals, j: int, parents: list[int]) -> None:
        constant, *coefficients = self.logits.functions(j, parents)
        n_units = constant.shape[1]
        found.constant[0, j, :n_units] = torch.from_numpy(constant[0])
        for k, of_k in zip(parents, coefficients, strict=True):
            at = self._at(found, k)
            found.effect[0, k, j, : len(at), :n_units] = torch.from_numpy(self.logits.basis_of(k)(at) @ of_k)

    @staticmethod
    def _at(found: Conditionals, k: int) -> FloatArray:
        """(P,) values at the positions of column k, as fits see them"""
        points = found.points(k).cpu().double().numpy()
        return float(found.low[0, k]) + float(found.step[0, k]) * points if found.is_number[k] else points
