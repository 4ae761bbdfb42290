"""What an imputer of the comparison says about single cells beyond their mean. NumPy and torch alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from visl.experiments.problem import TAILS, BoolArray, FloatArray, Imputation
from visl.inference import mixture_quantile
from visl.measures import bernoulli_log_likelihood

CELLS_AT_ONCE = 20_000  # so that S = 100 draws of them, in float64, stay at 16 MB


@dataclass(frozen=True)
class Mixture:
    """p(x) = mean over S draws of N(x; draw, deviation^2), of a binary cell of Bernoulli(x; draw).

    An object rather than a closure, so that an answer can go to another process.
    """

    draws: NDArray[np.float32]  # (S, c)
    deviation: FloatArray  # (c,), of binary cells not read
    is_binary: BoolArray  # (c,)

    def imputation(self) -> Imputation:
        mean = self.draws.mean(axis=0, dtype=np.float64)
        low, high = (self._quantile(mean, share) for share in TAILS)
        return Imputation(mean, low, high, self.log_density)

    def log_density(self, values: FloatArray) -> FloatArray:
        """(c,) -> (c,)"""
        result = np.empty(len(values))
        for at in self._parts():
            result[at] = self._log_density_of(at, values[at])
        return result

    def _log_density_of(self, at: slice, values: FloatArray) -> FloatArray:
        draws, deviation = self.draws[:, at].astype(np.float64), self.deviation[at]
        exponent = -0.5 * ((values - draws) / deviation) ** 2  # (S, cells)
        highest = exponent.max(axis=0)
        mean_of_exp = np.exp(exponent - highest).mean(axis=0)
        continuous = highest + np.log(mean_of_exp) - np.log(deviation) - 0.5 * math.log(2 * math.pi)
        binary = bernoulli_log_likelihood(draws.mean(axis=0), values > 0.5)
        return np.where(self.is_binary[at], binary, continuous)

    def _quantile(self, mean: FloatArray, share: float) -> FloatArray:
        """The value below which this share lies: of a binary cell 0 while P(0) reaches it, else 1."""
        result = (1 - mean < share).astype(np.float64)
        for at in self._parts():
            draws, deviation = torch.from_numpy(self.draws[:, at]).double(), torch.from_numpy(self.deviation[at])
            if not self.is_binary[at].all():
                found = mixture_quantile(draws, deviation, share).numpy()
                result[at] = np.where(self.is_binary[at], result[at], found)
        return result

    def _parts(self) -> list[slice]:
        c = len(self.is_binary)
        return [slice(at, min(at + CELLS_AT_ONCE, c)) for at in range(0, c, CELLS_AT_ONCE)]
