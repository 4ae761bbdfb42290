"""Densities of residuals whose noise may have any shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_VARIANCE = 1e-6
BINS = 1024
TAIL_SHARE, TAILS = 0.1, 4.0  # of a Student distribution in the noise of a column, and its degrees of freedom

FloatArray = NDArray[np.float64]


def log_densities(residuals: FloatArray) -> FloatArray:
    """Of residuals whose noise may have any shape: each by a kernel estimate from the others, and for a part by a
    distribution with long tails, where others are far. NaN stays NaN.
    """
    result = np.full(len(residuals), np.nan)
    seen = ~np.isnan(residuals)
    r = residuals[seen]
    if len(r) > 1:
        result[seen] = np.log(Density.of(r).of_others(r))
    return result


@dataclass(frozen=True)
class Density:
    """Of residuals, in BINS bins: by Gaussian kernels of Silverman's width, and by a Student distribution."""

    first: float  # the middle of the first bin
    bin: float
    kernels: FloatArray  # (BINS,) how many residuals there are at the middle of each, times their kernels
    own: float  # what a residual counts there for itself
    square: float  # scale of the Student distribution, squared

    @classmethod
    def of(cls, r: FloatArray) -> Density:
        lowest, low, high, highest = np.quantile(r, [0.001, 0.25, 0.75, 0.999]).tolist()
        deviation = float(r.std())
        spread = min(deviation, (high - low) / 1.34) or deviation
        width = max(0.9 * spread * len(r) ** -0.2, math.sqrt(LEAST_VARIANCE))
        start, step = lowest - 4 * width, (highest - lowest + 8 * width) / BINS
        place = (r - start) / step
        counts = np.bincount(place[(place >= 0) & (place < BINS)].astype(np.intp), minlength=BINS)
        away = np.arange(-BINS, BINS + 1) * step / width
        kernel = np.exp(-0.5 * away[np.abs(away) < 5] ** 2) / (width * math.sqrt(2 * math.pi))
        smooth = np.convolve(counts, kernel)[len(kernel) // 2 :][:BINS]
        return cls(start + step / 2, step, smooth, float(kernel.max()), _student_square(r))

    def of_others(self, r: FloatArray) -> FloatArray:
        """(N,) of each of these residuals, by the others"""
        others = np.asarray(np.maximum(self._kernels(r) - self.own, 0.0), np.float64) / (len(r) - 1)
        return self._mixed(others, r)

    def at(self, away: FloatArray, n: int) -> FloatArray:
        """Anywhere, by all n residuals."""
        return self._mixed(self._kernels(away) / n, away)

    def _kernels(self, r: FloatArray) -> FloatArray:
        """Straight lines between the bins' middles, 0 outside."""
        place = (r - self.first) / self.bin
        inside = (place >= 0) & (place <= BINS - 1)
        lower = np.where(inside, place, 0.0).astype(np.intp).clip(max=BINS - 2)
        rise = self.kernels[1:] - self.kernels[:-1]
        return np.where(inside, self.kernels[lower] + (place - lower) * rise[lower], 0.0)

    def _mixed(self, kernels: FloatArray, r: FloatArray) -> FloatArray:
        gammas = math.lgamma((TAILS + 1) / 2) - math.lgamma(TAILS / 2)
        top = math.exp(gammas) / math.sqrt(TAILS * math.pi * self.square)
        falls = 1 + r * r / (TAILS * self.square)
        student = top / (falls * falls * np.sqrt(falls))  # to the power of (TAILS + 1) / 2
        return np.asarray((1 - TAIL_SHARE) * kernels + TAIL_SHARE * student)


def _student_square(r: FloatArray) -> float:
    """The scale, squared, with which residuals are most probable under a Student distribution with TAILS degrees.

    Each weighs (TAILS + 1) / (TAILS + r^2 / square), and the square is the mean of the weighed squares.
    """
    squares = r * r
    result = max(float(np.median(squares)), LEAST_VARIANCE)
    for _ in range(20):
        before, weights = result, 1 / (TAILS * result + squares)
        result = max((TAILS + 1) * result * (1 - TAILS * result * float(weights.mean())), LEAST_VARIANCE)
        if abs(result - before) < 1e-4 * before:
            break
    return result
