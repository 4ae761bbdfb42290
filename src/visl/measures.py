"""How good predictions are, of cells and of edges alike. What is undefined, as a mean of nothing, is NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visl.errors import InputError

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

LEAST_MASS = 1e-9  # of a value: with less it is a point
LEAST_PROBABILITY = 1e-6  # what a certain but wrong prediction is taken to have given the truth


def rmse(prediction: ArrayLike, truth: ArrayLike) -> float:
    predicted, true = _same_shape(prediction, truth)
    return _mean((predicted - true) ** 2) ** 0.5


def accuracy(prediction: ArrayLike, truth: ArrayLike) -> float:
    predicted, true = _same_shape(prediction, truth)
    return _mean(predicted == true)


def interval_coverage(low: ArrayLike, high: ArrayLike, truth: ArrayLike) -> float:
    """Share of the truth that lies inside its interval, ends included."""
    lows, true = _same_shape(low, truth)
    highs, _ = _same_shape(high, truth)
    return _mean((lows <= true) & (true <= highs))


def inside_shares(below: ArrayLike, up_to: ArrayLike, level: float) -> FloatArray:
    """Which share of the truth's own probability lies in the central interval of this level, of each cell.

    below, up_to: P(X < truth) and P(X <= truth). A value that many cells have may hold more probability than an end of
    the interval cuts off: the interval then covers more than its level, by nature. Here such a value counts for the
    part of [below, up_to] between (1 - level) / 2 and (1 + level) / 2, whose mean over cells is the level if the
    probabilities are right.
    """
    low, high = _same_shape(below, up_to)
    ends = (1 - level) / 2, (1 + level) / 2
    mass = high - low
    inside = np.clip(high, *ends) - np.clip(low, *ends)
    is_point = mass < LEAST_MASS
    at_point = (ends[0] <= low) & (high <= ends[1])
    return np.where(is_point, at_point, inside / np.where(is_point, 1.0, mass))


def shared_coverage(below: ArrayLike, up_to: ArrayLike, level: float) -> float:
    """Coverage of intervals where a value at an end counts for its share inside: see `inside_shares`."""
    return _mean(inside_shares(below, up_to, level))


def tie_bounds(known: ArrayLike, asked: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Between which numbers lies what is taken for each asked value: the middles to the values next to it.

    A value that is not known twice or more is itself alone.  known: (n,), asked: (c,) -> (c,), (c,)
    """
    values, counts = np.unique(np.asarray(known, np.float64), return_counts=True)
    wanted = np.asarray(asked, np.float64)
    if not values.size:
        return wanted, wanted
    ends = np.concatenate([[-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]])
    at = np.searchsorted(values, wanted).clip(max=len(values) - 1)
    is_tie = (values[at] == wanted) & (counts[at] > 1)
    return np.where(is_tie, ends[at], wanted), np.where(is_tie, ends[at + 1], wanted)


def calibration_error(confidence: ArrayLike, right: ArrayLike, n_bins: int = 10) -> float:
    """Expected calibration error: |mean confidence - share right| in equal bins of confidence, weighted by cells."""
    sure, hit = _same_shape(confidence, right)
    if not sure.size:
        return float("nan")
    bins = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, sure - hit, minlength=n_bins)
    return float(np.abs(gaps).sum() / sure.size)


def mean_log_likelihood(log_probabilities: ArrayLike) -> float:
    """Nats a cell, of the log probabilities or densities that the cells' true values were given."""
    return _mean(np.asarray(log_probabilities, dtype=np.float64))


def bernoulli_log_likelihood(probability: ArrayLike, truth: ArrayLike) -> FloatArray:
    """log p(truth) of each cell, by its probability of 1.

    Clipped: one wrong certainty is not minus infinity, and a regression that leaves [0, 1] counts as certain.
    """
    scores, positive = _scores_and_classes(probability, truth)
    of_truth = np.where(positive, scores, 1 - scores)
    return np.log(np.clip(of_truth, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))


def auroc(score: ArrayLike, truth: ArrayLike) -> float:
    """P(a positive has a higher score than a negative), a tie counting half; NaN unless there are both."""
    scores, positive = _scores_and_classes(score, truth)
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    # Mann-Whitney: sum of the positives' ranks, less the least that it could be, over the number of comparisons.
    wins = _mean_ranks(scores)[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(wins / (n_positive * n_negative))


def aupr(score: ArrayLike, truth: ArrayLike) -> float:
    """Trapezoid under the precision-recall curve, which is what the paper prints; NaN without a positive.

    Straight lines between its points flatter a method of few different scores: see `average_precision`.
    """
    recall, precision = precision_recall_curve(score, truth)
    return _area(recall, (precision[1:] + precision[:-1]) / 2)


def average_precision(score: ArrayLike, truth: ArrayLike) -> float:
    """Sum over thresholds k of (recall_k - recall_(k-1)) * precision_k; NaN without a positive."""
    recall, precision = precision_recall_curve(score, truth)
    return _area(recall, precision[1:])


def roc_curve(score: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """False positive rate and true positive rate, from (0, 0) to (1, 1), a point for each different score."""
    hits, chosen, positive = _found(score, truth)
    n_positive = int(positive.sum())
    false_rate = _shares(chosen - hits, positive.size - n_positive)
    return np.append(0.0, false_rate), np.append(0.0, _shares(hits, n_positive))


def precision_recall_curve(score: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Recall and precision, from (0, 1), where nothing is chosen yet, to recall 1; a point for each different score."""
    hits, chosen, positive = _found(score, truth)
    return np.append(0.0, _shares(hits, int(positive.sum()))), np.append(1.0, hits / chosen)


def _found(score: ArrayLike, truth: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], BoolArray]:
    """By falling score: positives chosen so far, all chosen so far, and the truth. Equal scores enter together."""
    scores, positive = _scores_and_classes(score, truth)
    order = np.argsort(-scores, kind="stable")
    last_of_tie = np.append(np.diff(scores[order]) != 0, True)[: scores.size]
    chosen = np.flatnonzero(last_of_tie) + 1
    return np.cumsum(positive[order])[last_of_tie], chosen, positive


def _area(edges: FloatArray, heights: FloatArray) -> float:
    """Of columns that stand between the edges."""
    return float(np.diff(edges) @ heights) if heights.size else float("nan")


def _mean_ranks(scores: FloatArray) -> FloatArray:
    """Ranks from 1, equal scores sharing the mean of theirs."""
    _, position, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    return (last_rank - (counts - 1) / 2)[position]


def _shares(counts: NDArray[np.int64], total: int) -> FloatArray:
    return counts / total if total else np.full(len(counts), np.nan)


def _mean(values: FloatArray | BoolArray) -> float:
    return float(values.mean()) if values.size else float("nan")


def _same_shape(prediction: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Checked, since NumPy would stretch one to the other and score pairs that do not belong together."""
    predicted, true = np.asarray(prediction, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if predicted.shape != true.shape:
        raise InputError(f"predictions have shape {predicted.shape} and truth {true.shape}: give one for each")
    return predicted, true


def _scores_and_classes(score: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, BoolArray]:
    scores, true = _same_shape(score, truth)
    if scores.ndim != 1:
        raise InputError(f"scores have shape {scores.shape}: give them flat")
    if not np.isin(true, (0, 1)).all():
        raise InputError("truth holds other values than 0 and 1: give a class for every score")
    if not np.isfinite(scores).all():
        raise InputError("scores hold NaN or infinity: give a number for every cell")
    return scores, true == 1
