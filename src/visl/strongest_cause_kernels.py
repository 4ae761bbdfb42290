"""The loops of fits in which the strongest cause decides, compiled.

x: (N, p) the probability that each cause is present, from the strongest to the weakest; y: (N,) whether the effect is;
rates: (p + 1,), the last one the leak's. A row comes to its first cause with certainty, and to each next one with the
probability that none before is present.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

LEAST_RATE, LEAST_LEAK = 1e-3, 1e-4
LEFT = 1e-3  # a probability of coming to the next cause that no longer counts
FEW, OF_THEM = 1.0, 0.3  # rows, and how many of them have the effect, that are added where rates are compared
STEPS, SETTLED = 10, 1e-2  # of expectation maximisation; nats that a step still gains
STEPS_ALONE, NEARLY = 5, 0.01


@njit(cache=True, nogil=True)
def _rate(present: float, rows: float, least: float) -> float:
    return min(max(present / max(rows, 1e-9), least), 1 - LEAST_RATE)


@njit(cache=True, nogil=True)
def _shared_out(x: FloatArray, y: bool, rates: DoubleArray, shares: DoubleArray) -> float:
    """The probability of what a row shows, and into shares, (p + 1,), those of it that end at each cause or at none.
    x: (p,)"""
    p, left, total = len(x), 1.0, 0.0
    for t in range(p + 1):
        ends = left * x[t] if t < p else left
        left -= ends
        shares[t] = ends * (rates[t] if y else 1 - rates[t])
        total += shares[t]
        if left < LEFT:
            shares[t + 1 :] = 0.0
            break
    for t in range(p + 1):
        shares[t] /= total
    return total


@njit(cache=True, nogil=True)
def _ordered(x: FloatArray, y: BoolArray, rates: DoubleArray) -> IntArray:
    """First the cause whose rows have the effect most often, then the one of the rows that are left, and so on."""
    N, p = x.shape
    left, used, order = np.ones(N), np.zeros(p, np.bool_), np.zeros(p, np.intp)
    rows, present = np.zeros(p), np.zeros(p)
    for i in range(N):
        for k in range(p):
            rows[k] += x[i, k]
            present[k] += x[i, k] * y[i]
    for t in range(p):
        best, highest = -1, -1.0
        for k in range(p):
            often = (present[k] + OF_THEM) / (rows[k] + FEW)
            if not used[k] and often > highest:
                best, highest = k, often
        used[best], order[t] = True, best
        here, here_present = 0.0, 0.0
        for i in range(N):
            if x[i, best] > 0 and left[i] > LEFT:
                ends = left[i] * x[i, best]
                left[i] -= ends
                here += ends
                here_present += ends * y[i]
                for k in range(p):
                    rows[k] -= ends * x[i, k]
                    present[k] -= ends * x[i, k] * y[i]
        rates[t] = _rate(here_present, here, LEAST_RATE)
    rates[p] = _rate((left * y).sum(), left.sum(), LEAST_LEAK)
    return order


@njit(cache=True, nogil=True)
def _settled(x: FloatArray, y: BoolArray, rates: DoubleArray) -> float:
    """The loss at the rates that make the rows most probable, to which they are moved in place."""
    N, p = x.shape
    rows, present, shares, before = np.zeros(p + 1), np.zeros(p + 1), np.zeros(p + 1), np.inf
    for step in range(STEPS):
        rows[:], present[:], loss = 0.0, 0.0, 0.0
        for i in range(N):
            loss -= math.log(_shared_out(x[i], y[i], rates, shares))
            for t in range(p + 1):
                rows[t] += shares[t]
                present[t] += shares[t] * y[i]
        if before - loss < SETTLED or step == STEPS - 1:
            break
        before = loss
        for t in range(p + 1):
            rates[t] = _rate(present[t], rows[t], LEAST_RATE if t < p else LEAST_LEAK)
    return loss


@njit(cache=True, nogil=True)
def fit(x: FloatArray, y: BoolArray) -> tuple[IntArray, DoubleArray, float]:
    """Of causes in any order: theirs from the strongest on, the rates in that order, the loss."""
    rates = np.zeros(x.shape[1] + 1)
    order = _ordered(x, y, rates)
    loss = _settled(x[:, order], y, rates)
    return order, rates, loss


@njit(cache=True, nogil=True)
def _loss_of(present: float, rows: float) -> float:
    if present <= 1e-9 or present >= rows - 1e-9:
        return 0.0
    return -(present * math.log(present / rows) + (rows - present) * math.log(1 - present / rows))


@njit(cache=True, nogil=True)
def worth_of_each(x: FloatArray, y: BoolArray, rates: DoubleArray) -> DoubleArray:
    """(p,) nats that are lost, roughly, if the rows that end at a cause go on to those after it."""
    N, p = x.shape
    rows, present, shares, onwards = np.zeros(p + 1), np.zeros(p + 1), np.zeros(p + 1), np.zeros(p + 1)
    moved, moved_present = np.zeros((p, p + 1)), np.zeros((p, p + 1))
    for i in range(N):
        _shared_out(x[i], y[i], rates, shares)
        for t in range(p + 1):
            rows[t] += shares[t]
            present[t] += shares[t] * y[i]
            if t < p and shares[t] > LEFT:
                _shared_out(x[i, t + 1 :], y[i], rates[t + 1 :], onwards)
                for u in range(t + 1, p + 1):
                    goes = shares[t] * onwards[u - t - 1]
                    moved[t, u] += goes
                    moved_present[t, u] += goes * y[i]
    result = np.zeros(p)
    for t in range(p):
        result[t] = -_loss_of(present[t], rows[t])
        for u in range(t + 1, p + 1):
            then = _loss_of(present[u] + moved_present[t, u], rows[u] + moved[t, u])
            result[t] += then - _loss_of(present[u], rows[u])
    return result


@njit(cache=True, nogil=True)
def coming_to(x: FloatArray, rates: DoubleArray) -> tuple[FloatArray, FloatArray]:
    """(N, p + 1) the probability that a row comes to each cause, and the effect's if it does."""
    N, p = x.shape
    left, onwards = np.ones((N, p + 1), np.float32), np.zeros((N, p + 1), np.float32)
    for i in range(N):
        for t in range(p):
            left[i, t + 1] = left[i, t] * (1 - x[i, t])
        onwards[i, p] = rates[p]
        for t in range(p - 1, -1, -1):
            onwards[i, t] = x[i, t] * rates[t] + (1 - x[i, t]) * onwards[i, t + 1]
    return left, onwards


@njit(cache=True, nogil=True)
def gain_of_one(x: FloatArray, y: BoolArray, left: FloatArray, onwards: FloatArray, rates: DoubleArray) -> float:
    """Nats that one more cause gains, x: (N,), where its own rate puts it, if all others keep theirs."""
    N, p = len(y), len(rates) - 1
    rows, present, gain = 0.0, 0.0, 0.0
    for i in range(N):
        rows += x[i]
        present += x[i] * y[i]
    rate = _rate(present, rows, LEAST_RATE)
    for _ in range(STEPS_ALONE):
        place = 0
        while place < p and rates[place] > rate:
            place += 1
        rows, present, gain = 0.0, 0.0, 0.0
        for i in range(N):
            ends = left[i, place] * x[i]
            if ends > LEFT:
                before = onwards[i, 0]
                then = min(max(before + ends * (rate - onwards[i, place]), 1e-9), 1 - 1e-9)
                gain += math.log(then / before) if y[i] else math.log((1 - then) / (1 - before))
                share = ends * rate / then if y[i] else ends * (1 - rate) / (1 - then)
                rows += share
                present += share * y[i]
        found = _rate(present, rows, LEAST_RATE)
        if abs(found - rate) < NEARLY * rate:
            break
        rate = found
    return gain
