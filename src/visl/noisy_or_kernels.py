"""The loops of noisy-or fits, compiled. Weights are moved one at a time, by Newton's method within their bounds."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LEAST_LEAK, LARGEST_WEIGHT = 1e-4, 20.0
LARGEST_FALL = 0.25  # to this part of a weight, in one step
SWEEPS, STEPS_OF_A_WEIGHT, STEPS_ALONE = 60, 2, 25
SMALL, SETTLED = 1e-3, 1e-3  # share of a weight that a step still moves it; nats that a sweep still gains


@njit(cache=True, fastmath=True, nogil=True)
def _loss(present: FloatArray, absent: FloatArray, weights: FloatArray, hazard: FloatArray) -> float:
    result = 0.0
    for n in range(len(hazard)):
        result -= math.log(-math.expm1(-hazard[n]))
    for k in range(len(weights)):
        result += absent[k] * weights[k]
    return result


@njit(cache=True, fastmath=True, nogil=True)
def _slope(x: FloatArray, absent: float, hazard: FloatArray, ahead: float) -> tuple[float, float]:
    """Of the loss, and its own slope, at a weight that is `ahead` of the one in the hazard."""
    slope, curvature = absent, 1e-9
    for n in range(len(x)):
        if x[n] > 0:
            stays = math.exp(-hazard[n] - ahead * x[n])
            odds = stays / (1 - stays)
            slope -= x[n] * odds
            curvature += x[n] * x[n] * odds * (1 + odds)
    return slope, curvature


@njit(cache=True, fastmath=True, nogil=True)
def _moved(x: FloatArray, absent: float, hazard: FloatArray, weight: float, ahead: float, least: float) -> float:
    """The weight after a step of Newton's, where the hazard has another that it is `ahead` of.

    From below steps fall short of the minimum; from above they go too far, where the loss grows beyond all bounds.
    """
    slope, curvature = _slope(x, absent, hazard, ahead)
    new = min(weight - slope / curvature, LARGEST_WEIGHT)
    if new >= weight * LARGEST_FALL:
        return new
    at_least, _ = _slope(x, absent, hazard, ahead + least - weight)
    return least if at_least >= 0 else max(new, weight * LARGEST_FALL)


@njit(cache=True, fastmath=True, nogil=True)
def fit(present: FloatArray, absent: FloatArray, weights: FloatArray) -> float:
    """The least loss, to which the weights are moved in place.

    present: (p, n) what enters in each row where the effect is present, first a 1 for the leak; absent: (p,) sums over
    the rows where it is absent; weights: (p,)
    """
    p, n = present.shape
    hazard = np.zeros(n)
    for k in range(p):
        for i in range(n):
            hazard[i] += weights[k] * present[k, i]
    loss = _loss(present, absent, weights, hazard)
    for sweep in range(SWEEPS):
        before = loss
        for k in range(p):
            least = LEAST_LEAK if k == 0 else 0.0
            for _ in range(STEPS_OF_A_WEIGHT):
                moved = _moved(present[k], absent[k], hazard, weights[k], 0.0, least) - weights[k]
                weights[k] += moved
                for i in range(n):
                    hazard[i] += moved * present[k, i]
                if abs(moved) < SMALL * (weights[k] + SMALL):
                    break
        loss = _loss(present, absent, weights, hazard)
        if sweep > 0 and before - loss < SETTLED:
            break
    return loss


@njit(cache=True, fastmath=True, nogil=True)
def gain_of_one(x: FloatArray, absent: float, hazard: FloatArray) -> float:
    """Nats that one more cause gains, if all others keep their weights.  (n,), its sum over the other rows, (n,)"""
    weight = 0.0
    for _ in range(STEPS_ALONE):
        moved = _moved(x, absent, hazard, weight, weight, 0.0) - weight
        weight += moved
        if abs(moved) < SMALL * (weight + SMALL):
            break
    gain = -absent * weight
    for n in range(len(x)):
        if x[n] > 0:
            gain += math.log(math.expm1(-hazard[n] - weight * x[n]) / math.expm1(-hazard[n]))
    return gain
