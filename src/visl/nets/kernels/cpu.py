"""The pairwise reduction fused for CPUs: no pair is ever stored, memory is O(B M h), absent edges are skipped.

Numba compiles the loops; they run without the GIL on slices of the batch, one thread of our own for each of torch's.
(Numba's own thread pools abort the process when two Python threads use them at once, or after a fork.)
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WORK_PER_THREAD = 200_000  # multiply-adds, about 0.1 ms: with less, a second thread costs more than it saves


@functools.cache
def available() -> bool:
    return importlib.util.find_spec("numba") is not None


def pairwise_relu_sum(sender: Tensor, receiver: Tensor, edges: Tensor) -> Tensor:
    if sender.shape != receiver.shape or edges.shape != (*sender.shape[:-3], sender.shape[-2], sender.shape[-2]):
        raise ValueError(f"shapes do not match: {sender.shape}, {receiver.shape}, {edges.shape}")
    result: Tensor = _Fused.apply(sender, receiver, edges)
    return result


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sender: Tensor, receiver: Tensor, edges: Tensor) -> Tensor:
        ctx.save_for_backward(sender, receiver, edges)
        total = torch.empty(receiver.shape, dtype=receiver.dtype)
        nodes = [_flat(x, 3) for x in (sender, receiver, total)]
        _in_slices(_kernels()[0], nodes[0].shape, lambda i: (nodes[0], nodes[1], _flat(edges, 2), nodes[2]))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sender, receiver, edges = ctx.saved_tensors
        # Contiguous, whatever the strides of the incoming gradient: `_flat` must share their memory.
        grad_sender, grad_receiver = (torch.zeros(x.shape, dtype=grad.dtype) for x in (sender, receiver))
        a, c, g, grad_a, grad_c = (_flat(x, 3) for x in (sender, receiver, grad, grad_sender, grad_receiver))
        e = _flat(edges, 2)
        partial = np.zeros((_n_slices(a.shape), *e.shape), e.dtype)  # one for each thread, then summed
        _in_slices(_kernels()[1], a.shape, lambda i: (a, c, e, g, grad_a, grad_c, partial[i]))
        return grad_sender, grad_receiver, torch.from_numpy(partial.sum(0)).view(edges.shape)


def _flat(x: Tensor, n_dims: int) -> NDArray:
    """The last n_dims dimensions behind one for all others, contiguous; shares memory with a contiguous tensor."""
    leading = math.prod(x.shape[:-n_dims])
    return x.detach().contiguous().numpy().reshape(leading, *x.shape[-n_dims:])


def _n_slices(shape: tuple[int, ...]) -> int:
    L, B, M, h = shape
    return max(1, min(torch.get_num_threads(), L * B, L * B * M * M * h // WORK_PER_THREAD))


def _in_slices(kernel: Callable[..., None], shape: tuple[int, ...], arguments: Callable[[int], tuple]) -> None:
    """kernel(first_row, end_row, *arguments(slice)) over all L * B rows, the slices at the same time."""
    n_slices, n_rows = _n_slices(shape), shape[0] * shape[1]
    bounds = [n_rows * i // n_slices for i in range(n_slices + 1)]
    others = [_pool(os.getpid()).submit(kernel, bounds[i], bounds[i + 1], *arguments(i)) for i in range(1, n_slices)]
    kernel(0, bounds[1], *arguments(0))
    for other in others:
        other.result()


@functools.lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, so each process has its own."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="visl-kernel")


@functools.cache
def _kernels() -> tuple[Callable[..., None], Callable[..., None]]:
    from numba import njit

    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": {"reassoc", "contract", "nsz", "arcp"},
        "error_model": "numpy",
    }

    def compiled(function: Callable[..., None]) -> Callable[..., None]:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep the compiled code
            return njit(**options)(function)

    return compiled(_forward_rows), compiled(_backward_rows)


def _forward_rows(first: int, end: int, sender: Any, receiver: Any, edges: Any, total: Any) -> None:
    _, B, M, h = sender.shape
    for row in range(first, end):
        draw, b = row // B, row % B
        for i in range(M):
            to = receiver[draw, b, i]
            out = total[draw, b, i]
            out[:] = 0
            for k in range(M):
                weight = edges[draw, k, i]
                if weight != 0:
                    come = sender[draw, b, k]
                    for x in range(h):
                        out[x] += weight * max(come[x] + to[x], 0)


def _backward_rows(
    first: int, end: int, sender: Any, receiver: Any, edges: Any, grad: Any, grad_a: Any, grad_c: Any, grad_e: Any
) -> None:
    _, B, M, h = sender.shape
    for row in range(first, end):
        draw, b = row // B, row % B
        for i in range(M):
            to, g, to_receiver = receiver[draw, b, i], grad[draw, b, i], grad_c[draw, b, i]
            for k in range(M):
                weight = edges[draw, k, i]
                come, to_sender = sender[draw, b, k], grad_a[draw, b, k]
                of_edge = grad_e[draw, k, i]
                for x in range(h):
                    pre = come[x] + to[x]
                    active = g[x] if pre > 0 else 0 * g[x]
                    of_edge += pre * active
                    to_receiver[x] += weight * active
                    to_sender[x] += weight * active
                grad_e[draw, k, i] = of_edge
