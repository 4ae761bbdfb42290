"""Acyclicity: the penalty that training lowers, and the projection of edge probabilities onto an acyclic graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def dag_penalty(edges: Tensor) -> Tensor:
    """0 for an acyclic graph, else positive: tr(exp(E∘E)) - M.  (..., M, M) in [0, 1] -> (...)"""
    penalty: Tensor = _TraceExpm1.apply(edges.square())
    return penalty


class _TraceExpm1(torch.autograd.Function):
    """tr(exp(A) - I), whose gradient is exp(A) transposed: one exponential serves both passes."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        walks = matrix_expm1(a)
        ctx.save_for_backward(walks)
        return walks.diagonal(dim1=-2, dim2=-1).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (walks,) = ctx.saved_tensors
        return grad[..., None, None] * (walks.mT + torch.eye(walks.shape[-1], dtype=walks.dtype, device=walks.device))


def matrix_expm1(a: Tensor) -> Tensor:
    """exp(A) - I of a matrix of non-negative entries up to 1, small ones to their last digit.  (..., M, M)

    Taylor series of degree 8 for A / 2^s, then s times exp(2A) - I = 2 X + X X with X = exp(A) - I. Unlike
    torch.matrix_exp it never asks a GPU for a number: there, s follows from the size alone.
    """
    largest = a.shape[-1] if a.is_cuda else float(a.sum(-1).max()) if a.numel() else 0.0
    small = 0.5 if a.dtype == torch.float32 else 1 / 16  # the first term left out is small^9 / 9!
    squarings = max(0, math.ceil(math.log2(max(largest, small) / small))) if math.isfinite(largest) else 0
    b = a / 2.0**squarings
    b2 = b @ b
    b3, b4 = b2 @ b, b2 @ b2
    high = (b / 120).add_(b2, alpha=1 / 720).add_(b3, alpha=1 / 5040).add_(b4, alpha=1 / 40320)
    x = (b4 @ high).add_(b).add_(b2, alpha=1 / 2).add_(b3, alpha=1 / 6).add_(b4, alpha=1 / 24)
    for _ in range(squarings):
        x = (x @ x).add_(x, alpha=2.0)
    return x


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
