"""A level as a sum of smooth functions of other columns, one for each and each level, on the scale of logits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visl.smooth import Basis, roughness

MOST_PIECES = 8  # of a spline: a level tells less of a curve than a number
ROWS_OF_A_PIECE = 50  # at least
SMOOTHNESS = (1.0, 0.1)  # nats for half a squared second difference of coefficients; the better one is taken ...
RIDGE = 0.1  # ... and this part of it for a squared coefficient: levels told with certainty have finite logits
MOST_STEPS = 30  # of Newton's method
SETTLED = 1e-3  # nats that a step still gains, below which it has ended
TOGETHER = 5  # logits, up to which they are solved for together; of more each is, given the others
TOLD_NUMBERS = 1 << 23  # of rows' log-probabilities that are remembered

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class AdditiveLogits:
    """log P(x_j = l) / P(x_j = 0) = constant + sum over columns k of f_kl(x_k), every row predicted by the others.

    f_kl is a cubic spline of a number, or a value for each level. A row without itself has its logits a Newton step
    away from those of all rows, which is exact but for the curvature of one row: with H the Hessian, p its
    probabilities, W = diag(p) - p p' and A the block x' H^-1 x of each pair of logits, they are
    logits - A (I - W A)^-1 (y - p). Of many levels only each logit's own block of the Hessian counts: the others are
    as small as these levels' shares, and all together grow with the square of their number.
    """

    def __init__(self, values: FloatArray, n_levels: Sequence[int]) -> None:
        """values: (N, D), NaN in gaps; n_levels: 0 of numbers"""
        self.values, self.n_levels = values, n_levels
        self.n_pieces = int(min(MOST_PIECES, max(1, len(values) // ROWS_OF_A_PIECE)))
        self._has_gaps = np.asarray(np.isnan(values).any(axis=0))
        self._bases: dict[int, FloatArray] = {}  # of the columns that were given so far
        self._known: OrderedDict[tuple[int, tuple[int, ...], tuple[int, ...]], FloatArray] = OrderedDict()

    def log_prob(self, column: int, given: Sequence[int], also_seen: Sequence[int] = ()) -> FloatArray:
        """(N,) of each row, from those that see all of these columns; NaN of the others."""
        key = column, tuple(given), tuple(k for k in also_seen if self._has_gaps[k])
        if key not in self._known:
            self._known[key] = self._solved(*key)
            if len(self._known) > TOLD_NUMBERS // len(self.values):
                self._known.popitem(last=False)
        return self._known[key]

    def _solved(self, column: int, given: tuple[int, ...], also_seen: tuple[int, ...]) -> FloatArray:
        seen = ~np.asarray(np.isnan(self.values[:, [column, *given, *also_seen]]).any(1))
        result = np.full(len(seen), np.nan)
        if seen.any():
            result[seen] = self._best(column, given, seen)[1]
        return result

    def functions(self, column: int, given: Sequence[int]) -> list[FloatArray]:
        """The constant, (1, levels - 1), and the coefficients of each column's functions, (functions, levels - 1)."""
        seen = ~np.asarray(np.isnan(self.values[:, [column, *given]]).any(1))
        coefficients = self._best(column, tuple(given), seen)[0]
        sizes = np.cumsum([1, *(self._basis(k).shape[1] for k in given)])
        return np.split(coefficients, sizes[:-1])

    def _best(self, column: int, given: tuple[int, ...], seen: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients and log-probabilities of these rows, by the strength with which they are best predicted."""
        X = np.concatenate([np.ones((int(seen.sum()), 1)), *(self._basis(k)[seen] for k in given)], axis=1)
        level = self.values[seen, column].astype(int)
        n_levels, penalty = max(2, self.n_levels[column]), self._penalty(given)
        found: list[tuple[FloatArray, FloatArray]] = []
        for strength in SMOOTHNESS[: None if given else 1]:
            start = found[-1][0] if found else None  # the next minimum is near
            found.append(fit_and_log_prob(X, level, n_levels, strength * penalty, start))
        return max(found, key=lambda both: float(both[1].sum()))

    def basis_of(self, column: int) -> Basis:
        """As a function of the column's values."""
        return Basis.of(self.values[:, column], None if self.n_levels[column] else self.n_pieces)

    def _basis(self, column: int) -> FloatArray:
        """(N, functions)"""
        if column not in self._bases:
            self._bases[column] = self.basis_of(column)(self.values[:, column])
        return self._bases[column]

    def _penalty(self, given: Sequence[int]) -> FloatArray:
        """(F, F)"""
        ends = np.cumsum([1, *(self._basis(k).shape[1] for k in given)])
        result = RIDGE * np.eye(ends[-1])
        for k, first, end in zip(given, ends, ends[1:], strict=False):
            result[first:end, first:end] += roughness(end - first, not self.n_levels[k])
        return result


def log_prob_of_others(X: FloatArray, level: NDArray[np.intp], n_levels: int, penalty: FloatArray) -> FloatArray:
    """(N,) see `fit_and_log_prob`"""
    return fit_and_log_prob(X, level, n_levels, penalty)[1]


def fit_and_log_prob(
    X: FloatArray, level: NDArray[np.intp], n_levels: int, penalty: FloatArray, start: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Coefficients, (F, levels - 1), of a penalised logistic regression, and the log-probability of each row's level by
    one on the other rows, (N,).

    X: (N, F), penalty: (F, F) of the coefficients of each of the n_levels - 1 logits; start: (F, levels - 1), from
    where the minimum is looked for
    """
    F, K = X.shape[1], n_levels - 1
    y = (level[:, None] == np.arange(1, n_levels)).astype(float)  # (N, K)
    coefficients, value = np.zeros((F, K)) if start is None else start, -np.inf
    n_blocks = 1 if K <= TOGETHER else K
    penalties = np.kron(np.eye(K // n_blocks), penalty)  # of a block
    step = np.zeros_like(coefficients)
    for _ in range(MOST_STEPS):
        coefficients, gained, value = _uphill(X, y, penalty, coefficients, step, value)
        p = _probabilities(X @ coefficients)
        inverse = np.linalg.inv(_information(X, p, n_blocks) + penalties)
        if gained < SETTLED:
            break
        slope = X.T @ (y - p) - penalty @ coefficients
        step = (inverse @ slope.T.reshape(n_blocks, -1, 1)).reshape(K, F).T
    return coefficients, _log_prob(X @ coefficients - _own_share(X, y - p, p, inverse), y)


def _own_share(X: FloatArray, away: FloatArray, p: FloatArray, inverse: FloatArray) -> FloatArray:
    """What each row's own level adds to its logits, (N, K): A (I - W A)^-1 (y - p), block by block."""
    (N, F), K, n_blocks = X.shape, p.shape[1], len(inverse)
    S = K // n_blocks  # logits of a block
    spread = (inverse.reshape(n_blocks * S * F * S, F) @ X.T).reshape(n_blocks, S, F, S, N)
    A = np.einsum("nf,bkfln->bnkl", X, spread, optimize=True)  # (blocks, N, S, S)
    q = p.reshape(N, n_blocks, S).swapaxes(0, 1)
    W = q[..., None] * (np.eye(S) - q[..., None, :])
    of_blocks = away.reshape(N, n_blocks, S, 1).swapaxes(0, 1)
    return np.asarray((A @ np.linalg.solve(np.eye(S) - W @ A, of_blocks)).swapaxes(0, 1).reshape(N, K))


def _uphill(
    X: FloatArray, y: FloatArray, penalty: FloatArray, start: FloatArray, step: FloatArray, before: float
) -> tuple[FloatArray, float, float]:
    """The coefficients after the step, or as small a part of it that is better, what it gained, and the new value."""
    for part in (1.0, 0.5, 0.25, 0.125):
        coefficients = start + part * step
        roughness = float(np.einsum("fk,fg,gk->", coefficients, penalty, coefficients))
        value = float(_log_prob(X @ coefficients, y).sum()) - 0.5 * roughness
        if value >= before:
            return coefficients, value - before, value
    return start, 0.0, before


def _information(X: FloatArray, p: FloatArray, n_blocks: int) -> FloatArray:
    """Hessian of the negative log-likelihood, (blocks, S F, S F) of the S logits of each block; p: (N, K)."""
    F, S = X.shape[1], p.shape[1] // n_blocks
    result = np.empty((n_blocks, S, F, S, F))
    for b in range(n_blocks):
        for k in range(S):
            for m in range(k, S):
                weight = p[:, b * S + k] * ((k == m) - p[:, b * S + m])
                result[b, k, :, m] = (X * weight[:, None]).T @ X
                result[b, m, :, k] = result[b, k, :, m].T
    return result.reshape(n_blocks, S * F, S * F)


def _probabilities(logits: FloatArray) -> FloatArray:
    """(N, K) of all levels but the first"""
    top = np.maximum(logits.max(1, keepdims=True), 0)
    odds = np.exp(logits - top)
    return np.asarray(odds / (np.exp(-top) + odds.sum(1, keepdims=True)))


def _log_prob(logits: FloatArray, y: FloatArray) -> FloatArray:
    """(N,) of the level that y shows; none is the first."""
    top = np.maximum(logits.max(1), 0)
    total = np.log(np.exp(-top) + np.exp(logits - top[:, None]).sum(1)) + top
    return np.asarray((logits * y).sum(1) - total)
