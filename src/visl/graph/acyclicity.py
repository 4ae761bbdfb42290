"""Acyclicity: the penalty that training lowers, and the projection of edge probabilities onto an acyclic graph."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def dag_penalty(edges: Tensor) -> Tensor:
    """0 for an acyclic graph, else positive: tr(exp(E∘E)) - M.  (..., M, M) -> (...)"""
    walks = torch.matrix_exp(edges.square()).diagonal(dim1=-2, dim2=-1)
    return walks.sum(-1) - edges.shape[-1]


def project_to_dag(probabilities: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
    """The acyclic graph of the most probable edges.  (M, M) [from, to] -> (M, M)

    Edges above the threshold are added from the most to the least probable, skipping each that would close a cycle
    with those already there; ties go by position. Edges of probability 1 come first, so required edges always stay.
    """
    M = len(probabilities)
    chosen = np.zeros((M, M), bool)
    reaches = np.eye(M, dtype=bool)  # reaches[i, j]: a path leads from i to j, or i = j
    senders, receivers = np.nonzero(probabilities > threshold)
    order = np.argsort(-probabilities[senders, receivers], kind="stable")
    for i, j in zip(senders[order], receivers[order], strict=True):
        if reaches[j, i]:
            continue
        chosen[i, j] = True
        if not reaches[i, j]:
            reaches |= np.outer(reaches[:, i], reaches[j, :])
    return chosen


def find_cycle(edges: NDArray[np.bool_]) -> list[int] | None:
    """The nodes of one directed cycle in order, or None.  (M, M) [from, to]"""
    state = [0] * len(edges)  # 0 unseen, 1 on the current path, 2 done
    for root in range(len(edges)):
        if state[root]:
            continue
        path, pending = [root], [iter(np.flatnonzero(edges[root]))]
        state[root] = 1
        while path:
            child = next(pending[-1], None)
            if child is None:
                state[path.pop()] = 2
                pending.pop()
            elif state[child] == 1:
                return path[path.index(int(child)) :]
            elif state[child] == 0:
                state[child] = 1
                path.append(int(child))
                pending.append(iter(np.flatnonzero(edges[child])))
    return None
