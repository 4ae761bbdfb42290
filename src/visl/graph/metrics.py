"""Scores of a predicted graph against the true one. Edges read [from, to]; the diagonal is never looked at.

Structure scores count unordered pairs of nodes, each of one type: not joined, ->, <- or <->. Where a precision, a
recall, an F1 or the causal accuracy would be 0/0 it is 0, with one exception: an empty prediction of an empty truth
is perfect, and all of them are 1.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visl.errors import InputError
from visl.measures import auroc, average_precision

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class StructureScores:
    adjacency_recall: float  # of the pairs joined in truth, the share joined in the prediction
    adjacency_precision: float
    adjacency_f1: float
    orientation_recall: float  # of the pairs joined in truth, the share predicted with the right type
    orientation_precision: float
    orientation_f1: float
    causal_accuracy: float  # of the true directed edges (a <-> holds two), the share predicted
    shd: int  # pairs that are missing, extra or of the wrong type

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


def structure_scores(predicted: ArrayLike, truth: ArrayLike) -> StructureScores:
    """Both (nodes, nodes), boolean or 0/1; either may hold both directions of a pair."""
    predicted, truth = _edges(predicted, "predicted"), _edges(truth, "truth")
    _check_same_shape(predicted, truth, "predicted")
    types, true_types = _pair_types(predicted), _pair_types(truth)
    n_joined, n_truly_joined = _count(types), _count(true_types)
    same_adjacency = _count((types > 0) & (true_types > 0))
    same_type = _count((types == true_types) & (true_types > 0))
    both_empty = n_joined == 0 and n_truly_joined == 0

    adjacency = _recall_precision_f1(same_adjacency, n_truly_joined, n_joined)
    orientation = _recall_precision_f1(same_type, n_truly_joined, n_joined)
    causal_accuracy = 1.0 if both_empty else _ratio(_count(predicted & truth), _count(truth))
    return StructureScores(*adjacency, *orientation, causal_accuracy, _count(types != true_types))


def edge_auroc(probabilities: ArrayLike, truth: ArrayLike) -> float:
    """P(a true edge has a higher probability than a pair that is none), a tie counting half; over ordered pairs.

    NaN where it is undefined: the truth has no edge, or every edge.
    """
    return auroc(*ordered_pairs(probabilities, truth))


def edge_aupr(probabilities: ArrayLike, truth: ArrayLike) -> float:
    """Average precision, over ordered pairs, which a method of few different probabilities does not gain from.

    Not the trapezoid that `measures.aupr` is for cells. NaN where the truth has no edge.
    """
    return average_precision(*ordered_pairs(probabilities, truth))


def ordered_pairs(probabilities: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Both without the diagonal, flat.  (M, M) -> (M (M - 1),)"""
    scores, edges = np.asarray(probabilities, dtype=np.float64), _edges(truth, "truth")
    _check_same_shape(scores, edges, "probabilities")
    off_diagonal = ~np.eye(len(edges), dtype=bool)
    if not np.isfinite(scores[off_diagonal]).all():
        raise InputError("probabilities hold NaN or infinity: give a number for every ordered pair")
    return scores[off_diagonal], edges[off_diagonal]


def _edges(matrix: ArrayLike, name: str) -> BoolArray:
    """Checked, as booleans, without the diagonal."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(f"{name} has shape {values.shape}: give a square matrix of edges [from, to]")
    if not np.isin(values, (0, 1)).all():
        raise InputError(f"{name} holds other values than 0 and 1: compare probabilities with a threshold first")
    return values.astype(bool) & ~np.eye(len(values), dtype=bool)


def _check_same_shape(matrix: NDArray[np.generic], truth: BoolArray, name: str) -> None:
    if matrix.shape != truth.shape:
        raise InputError(f"{name} has shape {matrix.shape} and truth {truth.shape}: give both for the same nodes")


def _pair_types(edges: BoolArray) -> NDArray[np.int64]:
    """For each pair i < j: 0 not joined, 1 i -> j, 2 i <- j, 3 <->.  (M, M) -> (M (M - 1) / 2,)"""
    upper = np.triu_indices(len(edges), k=1)
    return edges[upper].astype(np.int64) + 2 * edges.T[upper]


def _count(mask: NDArray[np.generic]) -> int:
    return int(np.count_nonzero(mask))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _recall_precision_f1(right: int, n_true: int, n_predicted: int) -> tuple[float, float, float]:
    if n_true == 0 and n_predicted == 0:
        return 1.0, 1.0, 1.0
    # 2 R P / (R + P) with R = right / n_true and P = right / n_predicted
    return _ratio(right, n_true), _ratio(right, n_predicted), _ratio(2 * right, n_true + n_predicted)
