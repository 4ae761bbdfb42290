"""A training step's noise on a GPU, for all members in one launch each: counter-based, from one seed a member.

Imported only where there are CUDA tensors and Triton. Nothing waits for the device, so it can be captured in graphs.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

BLOCK = 1024


def fill_normal(seeds: Tensor, out: Tensor) -> None:
    """seeds: (K,) int64; out: (K, ...) standard normal"""
    _launch(_normal_kernel, seeds, out)


def fill_uniform(seeds: Tensor, out: Tensor) -> None:
    """seeds: (K,) int64; out: (K, ...) uniform on [0, 1)"""
    _launch(_uniform_kernel, seeds, out)


def fill_bits(seeds: Tensor, out: Tensor) -> None:
    """seeds: (K,) int64; out: (K, ...) int64, all bits random"""
    _launch(_bits_kernel, seeds, out)


def _launch(kernel, seeds: Tensor, out: Tensor) -> None:
    n = out[0].numel()
    if n:
        with torch.cuda.device_of(out):
            kernel[(len(out), triton.cdiv(n, BLOCK))](seeds, out, n, BLOCK=BLOCK, num_warps=4)


@triton.jit
def _place(seeds, n, BLOCK: tl.constexpr):
    member = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return tl.load(seeds + member), at, member.to(tl.int64) * n + at, at < n


@triton.jit
def _normal_kernel(seeds, out, n, BLOCK: tl.constexpr):
    seed, at, to, inside = _place(seeds, n, BLOCK)
    tl.store(out + to, tl.randn(seed, at), mask=inside)


@triton.jit
def _uniform_kernel(seeds, out, n, BLOCK: tl.constexpr):
    seed, at, to, inside = _place(seeds, n, BLOCK)
    tl.store(out + to, tl.rand(seed, at), mask=inside)


@triton.jit
def _bits_kernel(seeds, out, n, BLOCK: tl.constexpr):
    seed, at, to, inside = _place(seeds, n, BLOCK)
    high, low, _, _ = tl.randint4x(seed, at)
    bits = (high.to(tl.uint32, bitcast=True).to(tl.int64) << 32) | low.to(tl.uint32, bitcast=True).to(tl.int64)
    tl.store(out + to, bits, mask=inside)
