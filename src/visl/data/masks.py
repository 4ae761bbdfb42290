"""Gaps in a table: which cells are seen. `observed` is True where a cell is seen; randomness is an argument."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visl.errors import InputError

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

# sigma(-40) and 1 - sigma(40) are below the spacing of float64 around 1: no rate needs an intercept outside.
INTERCEPT_BOUND = 40.0
BISECTIONS = 60  # 80 / 2**60 is below 1e-16


def mcar(shape: int | tuple[int, ...], rate: float, rng: np.random.Generator) -> BoolArray:
    """Missing completely at random: every cell is missing with probability `rate`, whatever the values."""
    _check_rate(rate)
    return rng.random(shape) >= rate


def mar(values: ArrayLike, rate: float, rng: np.random.Generator, drivers: float = 0.3) -> BoolArray:
    """Missing at random: some columns, the drivers, are always seen and decide how likely the others are missing.

    P(cell (n, j) is missing) = sigma(s_nj + b_j) for every column j that is no driver; s_j is a random combination
    of the drivers with mean 0 and variance 1 over the rows, and b_j gives each such column the same expected share,
    so that the share over the whole table, drivers included, is `rate`.

    values: complete, (rows, columns). drivers: the share of columns that drive; at least one, never all.
    """
    _check_rate(rate)
    table = _complete_table(values)
    N, D = table.shape
    is_driver = _choose_drivers(D, drivers, rng)
    K = int(is_driver.sum())
    if rate * D >= D - K:
        raise InputError(
            f"rate {rate} cannot be reached: with {K} of {D} columns always observed it must stay below "
            f"{(D - K) / D:.4g}; lower the rate, or the share of drivers"
        )
    observed = np.ones((N, D), dtype=bool)
    if rate > 0:
        scores = _random_combinations(table[:, is_driver], D - K, rng)  # (N, D - K)
        missing = sigmoid(scores + _intercepts(scores, rate * D / (D - K)))
        observed[:, ~is_driver] = rng.random(missing.shape) >= missing
    return observed


def hide(observed: BoolArray, rate: float, rng: np.random.Generator) -> BoolArray:
    """Hide each observed cell with probability `rate`; what stays observed. The hidden: `observed & ~hide(...)`."""
    _check_rate(rate)
    return observed & (rng.random(observed.shape) >= rate)


def _check_rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise InputError(f"rate {rate} is no share of missing cells: give a number from 0 up to, not including, 1")


def _complete_table(values: ArrayLike) -> FloatArray:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise InputError(f"values of shape {table.shape}: MAR gaps need a table of rows and at least two columns")
    if not np.isfinite(table).all():
        raise InputError("values hold NaN or infinity: MAR gaps are made in a complete table, fill or drop them first")
    return table


def _choose_drivers(D: int, share: float, rng: np.random.Generator) -> BoolArray:
    """-> (columns,), True for between 1 and D - 1 columns."""
    if not 0 < share < 1:
        raise InputError(f"drivers {share} is no share of columns: give a number between 0 and 1")
    count = min(max(round(share * D), 1), D - 1)
    is_driver = np.zeros(D, dtype=bool)
    is_driver[rng.choice(D, count, replace=False)] = True
    return is_driver


def _random_combinations(drivers: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """(rows, drivers) -> (rows, count), each column a random direction of the drivers."""
    weights = rng.standard_normal((drivers.shape[1], count))
    return _standardise(_standardise(drivers) @ weights)


def _standardise(table: FloatArray) -> FloatArray:
    """Mean 0 and variance 1 over the rows; a constant column becomes 0."""
    centred = table - table.mean(axis=0)
    deviation = centred.std(axis=0)
    # Rounding leaves a constant column a deviation near 1e-16 of its size: that is no variation.
    varies = deviation > 1e-12 * np.maximum(np.abs(table).max(axis=0), 1e-300)
    return np.where(varies, centred, 0.0) / np.where(varies, deviation, 1.0)


def _intercepts(scores: FloatArray, target: float) -> FloatArray:
    """The b_j with mean over the rows of sigma(s_nj + b_j) = target, by bisection.  (rows, J) -> (J,)"""
    bound = INTERCEPT_BOUND + np.abs(scores).max()
    low, high = np.full(scores.shape[1], -bound), np.full(scores.shape[1], bound)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_many = sigmoid(scores + middle).mean(axis=0) > target
        low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
    return (low + high) / 2


def sigmoid(x: FloatArray) -> FloatArray:
    # By tanh, since exp(-x) would overflow for large negative x.
    return 0.5 + 0.5 * np.tanh(0.5 * x)
