"""The pairwise reduction fused for CPUs: no pair is ever stored, memory is O(R B M W h), absent edges are skipped.

The loops of `simd` run without the GIL on slices of the columns, one thread of our own for each of torch's. (Numba's
own thread pools abort the process when two Python threads use them at once, or after a fork.)
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from types import ModuleType

WORK_PER_THREAD = 1_000_000  # multiply-adds, about 0.1 ms: with less, a second thread costs more than it saves


@functools.cache
def available() -> bool:
    return importlib.util.find_spec("numba") is not None


@functools.cache
def _simd() -> ModuleType:
    """Imported at the first use, because Numba is not needed where the plain form serves."""
    from visl.nets.kernels import simd

    return simd


Listed = tuple[NDArray, NDArray, NDArray, int]  # index, weight and count of the edges present, and their number


def pairwise_relu_sum(nodes: Tensor, edges: Tensor, listed: Listed | None = None) -> Tensor:
    """listed: what `list_edges` gives for these edges and as many ways."""
    R, _, M, W, roles, _ = nodes.shape
    if edges.shape != (R, M, M) or W > 2 or roles != 2 or edges.dtype != nodes.dtype:
        raise ValueError(f"do not match: {nodes.shape} {nodes.dtype}, {edges.shape} {edges.dtype}")
    result: Tensor = _Fused.apply(nodes, edges, list_edges(edges, W) if listed is None else listed)
    return result


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, nodes: Tensor, edges: Tensor, listed: Listed) -> Tensor:
        R, B, M, W, _, h = nodes.shape
        ctx.save_for_backward(nodes)
        *ctx.listed, n_edges = listed
        ctx.work = n_edges * B * h
        total = torch.empty(R, B, M, W, h, dtype=nodes.dtype)
        arguments = (_array(nodes), *ctx.listed, total.numpy()[..., None, :])
        _in_slices(_simd().forward, _bounds(nodes, ctx.work), lambda i: arguments)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        of_nodes, of_edges, _ = ctx.needs_input_grad
        (nodes,), (index, weight, count) = ctx.saved_tensors, ctx.listed
        bounds = _bounds(nodes, ctx.work)
        # Contiguous, whatever the strides of nodes; what is not wanted is empty.
        grad_nodes = torch.empty(nodes.shape if of_nodes else (0,) * nodes.ndim, dtype=nodes.dtype)
        partial = np.zeros((len(bounds) - 1, *(weight.shape if of_edges else (0,) * weight.ndim)), weight.dtype)
        arguments = (_array(nodes), *ctx.listed, _array(grad)[..., None, :], grad_nodes.numpy())
        _in_slices(_simd().backward, bounds, lambda i: (*arguments, partial[i]))
        return grad_nodes if of_nodes else None, _spread(index, count, partial) if of_edges else None, None


def _array(x: Tensor) -> NDArray:
    return x.detach().contiguous().numpy()


def list_edges(edges: Tensor, n_ways: int) -> Listed:
    """See `simd.list_edges`."""
    R, M, _ = edges.shape
    tile = _simd().TILE
    shape = (R, n_ways, -(-M // tile), M, tile)
    index, weight, count = np.empty(shape, np.int32), np.empty(shape, _dtype(edges)), np.empty(shape[:-1], np.int32)
    return index, weight, count, _simd().list_edges(_array(edges), index, weight, count)


def _spread(index: NDArray, count: NDArray, partial: NDArray) -> Tensor:
    """The reverse of `list_edges`, summed over the slices in their order. -> (R, M, M)"""
    R, _, _, M, _ = index.shape
    edges = np.zeros((R, M, M), partial.dtype)
    _simd().spread_edges(index, count, partial, edges)
    return torch.from_numpy(edges)


def _dtype(x: Tensor) -> Any:
    return {torch.float32: np.float32, torch.float64: np.float64}[x.dtype]


def _bounds(nodes: Tensor, work: int) -> list[int]:
    """Of the slices that run at the same time, in chunks of columns."""
    R, B, h = nodes.shape[0], nodes.shape[1], nodes.shape[-1]
    n_chunks = R * -(-B * h * nodes.element_size() // _simd().CHUNK)
    n_slices = max(1, min(torch.get_num_threads(), n_chunks, work // WORK_PER_THREAD))
    return [n_chunks * i // n_slices for i in range(n_slices + 1)]


def _in_slices(kernel: Callable[..., None], bounds: list[int], arguments: Callable[[int], tuple]) -> None:
    """kernel(start, end, *arguments(slice)) for all slices, the first one on this thread."""
    others = [
        _pool(os.getpid()).submit(kernel, bounds[i], bounds[i + 1], *arguments(i)) for i in range(1, len(bounds) - 1)
    ]
    kernel(bounds[0], bounds[1], *arguments(0))
    for other in others:
        other.result()


@functools.lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, so each process has its own."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="visl-kernel")
