"""The one operation on pairs of nodes; every other product acts on single nodes."""

from __future__ import annotations

from torch import Tensor

from visl.nets.kernels import cpu, plain


def pairwise_relu_sum(sender: Tensor, receiver: Tensor, edges: Tensor) -> Tensor:
    """S[.., b, i, :] = sum_k E[.., k, i] relu(sender[.., b, k, :] + receiver[.., b, i, :])

    sender, receiver: (..., B, M, h); edges: (..., M, M) [from, to] -> (..., B, M, h).
    """
    fused = sender.device.type == "cpu" and cpu.available()
    return cpu.pairwise_relu_sum(sender, receiver, edges) if fused else plain.pairwise_relu_sum(sender, receiver, edges)
