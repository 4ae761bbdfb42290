"""The one operation on pairs of nodes; every other product acts on single nodes."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

from torch import Tensor

from visl.nets.kernels import cpu, plain


def pairwise_relu_sum(nodes: Tensor, edges: Tensor) -> Tensor:
    """What every node receives over its edges, along them and, if there are two ways, against them.

    nodes: (R, B, M, W, 2, h); nodes[..., 0, :] is what a node sends, nodes[..., 1, :] what it adds as the receiver.
    edges: (R, M, M) [from, to].  -> (R, B, M, W, h), with e = edges for way 0 and its transpose for way 1:

        out[r, b, i, w, :] = sum_k e[r, k, i] relu(nodes[r, b, k, w, 0, :] + nodes[r, b, i, w, 1, :])

    An edge of exactly 0 is absent: it takes no work, and its gradient is 0.
    """
    if nodes.device.type == "cuda" and has_triton():
        from visl.nets.kernels import gpu  # imports Triton

        return gpu.pairwise_relu_sum(nodes, edges)
    fused = nodes.device.type == "cpu" and cpu.available()
    return cpu.pairwise_relu_sum(nodes, edges) if fused else plain.pairwise_relu_sum(nodes, edges)


def reduction_over(edges: Tensor, n_ways: int) -> Callable[[Tensor], Tensor]:
    """`pairwise_relu_sum` over these edges, for several calls: what depends on the edges alone is done once."""
    if edges.device.type == "cuda" and has_triton():
        from visl.nets.kernels import gpu

        prepared = gpu.prepare(edges)
        return lambda nodes: gpu.pairwise_relu_sum(nodes, edges, prepared)
    if edges.device.type == "cpu" and cpu.available():
        listed = cpu.list_edges(edges, n_ways)
        return lambda nodes: cpu.pairwise_relu_sum(nodes, edges, listed)
    return lambda nodes: plain.pairwise_relu_sum(nodes, edges)


@functools.cache
def has_triton() -> bool:
    """Whether CUDA tensors have kernels of their own."""
    return importlib.util.find_spec("triton") is not None
