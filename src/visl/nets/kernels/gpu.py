"""The pairwise reduction fused for GPUs: no pair is ever stored, memory is O(B M h + M^2), one addition order.

Triton compiles the kernels, which is why this module is imported only where there are CUDA tensors and Triton.
Nothing here waits for the device or looks at values on the host, so that calls can be captured in CUDA graphs.

Here are the sizes and the launches; `gpu_kernels` is what Triton compiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from visl.nets.kernels import gpu_kernels as triton_code

LISTS_FROM = 128  # nodes: with fewer, lists of edges cost more than they save
DENSE_SHARE = 8  # a block with more than one edge in so many is dense
FEW = 64  # nodes: up to here the edges' gradient sums one row after the other, without rearranging the nodes
PROGRAMS = 1056  # enough to fill a large GPU: 132 processors, 8 programs each
TILE = 2048  # own nodes x features of a program for the nodes: 16 of each thread

_OPTIONS = {"num_warps": 4, "num_stages": 1, "enable_fp_fusion": True}  # fused: not every version does so by default


@dataclass(frozen=True)
class Blocks:
    """Sizes of a program's tile (powers of two), pairs in flight, and its threads in units of 32.

    Either size is best below 32 * warps: then every thread loads just what it needs, with nothing exchanged.
    """

    own: int
    features: int  # for the edges' gradient: the nodes of the other axis
    unroll: int
    warps: int


def forward_blocks(M: int, h: int) -> Blocks:
    features = min(_power(h), 64)
    return Blocks(_block(M, min(64, max(16, TILE // features))), features, 4, 4)


def backward_blocks(M: int, h: int) -> Blocks:
    return forward_blocks(M, h)


def edge_blocks(M: int, h: int) -> Blocks:
    side = _block(M, 64)
    return Blocks(side, side, 2, {16: 1, 32: 2, 64: 4}[side])


def few_blocks(M: int, h: int) -> Blocks:
    """For the edges' gradient with few nodes: all of them are one program's own."""
    own = max(16, _power(M))
    return Blocks(own, min(_power(h), 1024 // own), 1, 4)


def row_blocks(B: int, h: int) -> Blocks:
    """For one own node with its list of edges; `own` counts rows of the batch."""
    features = min(_power(h), 64)
    return Blocks(min(_power(B), max(1, 1024 // features)), features, 4, 4)


def list_blocks(h: int) -> Blocks:
    """For the gradients of one own node's listed edges; `own` counts edges."""
    return Blocks(16, min(_power(h), 64), 1, 4)


def _power(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _block(M: int, largest: int) -> int:
    """The largest block, from 16 on, that fills at most a seventh more than the best one does."""
    sizes = [size for size in (64, 32, 16) if size <= max(16, min(largest, _power(M)))]
    filled = {size: -(-M // size) * size for size in sizes}
    return next(size for size in sizes if 7 * filled[size] <= 8 * min(filled.values()))


@dataclass(frozen=True)
class Prepared:
    """What every call with the same edges needs of them; see `prepare`."""

    both: Tensor  # (R, 2, M, P): the edges and their transpose
    lists: Tensor  # (R, 2, M own, M): the other nodes with an edge, those of `counts` first, the rest undefined
    counts: Tensor  # (R, 2, M own)
    listed: bool  # with few nodes there are no lists and counts


def prepare(edges: Tensor) -> Prepared:
    """Worth doing once for many calls with the same edges (which must not change in between)."""
    R, M, _ = edges.shape
    edges = edges.detach().contiguous()
    both = edges.new_empty((R, 2, M, _padded(M)))
    listed = M >= LISTS_FROM
    lists = edges.new_empty((R, 2, M, M if listed else 0), dtype=torch.int16 if M < 2**15 else torch.int32)
    counts = edges.new_empty((R, 2, M if listed else 0), dtype=torch.int32)
    if edges.numel():
        with torch.cuda.device_of(edges):
            n = -(-M // 32)
            triton_code.turn_kernel[(R * n * n,)](edges, both, M, _padded(M), n, BX=32, **_OPTIONS)
            if listed:
                block = min(_power(M), 1024)
                triton_code.list_kernel[(R * 2 * M,)](both, lists, counts, M, _padded(M), BY=block, **_OPTIONS)
    return Prepared(both, lists, counts, listed)


def _padded(M: int) -> int:
    return -(-M // 16) * 16


def pairwise_relu_sum(nodes: Tensor, edges: Tensor, prepared: Prepared | None = None) -> Tensor:
    if nodes.ndim != 6 or nodes.shape[3] not in (1, 2) or nodes.shape[4] != 2:
        raise ValueError(f"nodes must be (R, B, M, 1 or 2, 2, h), not {tuple(nodes.shape)}")
    if edges.shape != (nodes.shape[0], nodes.shape[2], nodes.shape[2]):
        raise ValueError(f"shapes do not match: {tuple(nodes.shape)}, {tuple(edges.shape)}")
    if nodes.dtype != edges.dtype or nodes.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"nodes and edges must both be float32 or float64, not {nodes.dtype}, {edges.dtype}")
    if nodes.device != edges.device:
        raise ValueError(f"nodes and edges must be on one device, not {nodes.device}, {edges.device}")
    result: Tensor = _Fused.apply(nodes, edges, prepare(edges) if prepared is None else prepared)
    return result


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, nodes: Tensor, edges: Tensor, prepared: Prepared) -> Tensor:
        nodes = nodes.contiguous()
        ctx.save_for_backward(nodes, edges)
        ctx.prepared = prepared
        with torch.cuda.device_of(nodes):
            return _forward(nodes, prepared)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (nodes, edges), prepared = ctx.saved_tensors, ctx.prepared
        grad = grad.contiguous()
        with torch.cuda.device_of(nodes):
            of_nodes = _nodes_gradient(nodes, grad, prepared) if ctx.needs_input_grad[0] else None
            of_edges = _edges_gradient(nodes, grad, edges, prepared) if ctx.needs_input_grad[1] else None
        return of_nodes, of_edges, None


def _forward(nodes: Tensor, prepared: Prepared) -> Tensor:
    R, B, M, W, _, h = nodes.shape
    out = nodes.new_empty((R, B, M, W, h))
    if not out.numel():
        return out
    blocks, rows = forward_blocks(M, h), row_blocks(B, h)
    arguments = (nodes, prepared.both, prepared.lists, prepared.counts, out, B, M, _padded(M), h)
    shared = {"W": W, "LISTED": prepared.listed, "SHARE": DENSE_SHARE, "GROUP": blocks.own}
    n_own, n_features = -(-M // blocks.own), -(-h // blocks.features)
    triton_code.forward_kernel[(R * B * W * n_features * n_own,)](
        *arguments, n_own, n_features, **shared, **_sizes(blocks)
    )
    if prepared.listed:
        n_rows, n_features = -(-B // rows.own), -(-h // rows.features)
        grid = (R * W * M * n_features * n_rows,)
        triton_code.forward_list_kernel[grid](*arguments, n_rows, n_features, **shared, **_sizes(rows))
    return out


def _nodes_gradient(nodes: Tensor, grad: Tensor, prepared: Prepared) -> Tensor:
    """As in the forward pass, with twice the programs: each own node as the receiver and as the sender."""
    R, B, M, W, _, h = nodes.shape
    out = torch.empty_like(nodes)
    if not out.numel():
        return out
    blocks, rows = backward_blocks(M, h), row_blocks(B, h)
    arguments = (nodes, grad, prepared.both, prepared.lists, prepared.counts, out, B, M, _padded(M), h)
    shared = {"W": W, "LISTED": prepared.listed, "SHARE": DENSE_SHARE, "GROUP": blocks.own}
    n_own, n_features = -(-M // blocks.own), -(-h // blocks.features)
    triton_code.backward_kernel[(2 * R * B * W * n_features * n_own,)](
        *arguments, n_own, n_features, **shared, **_sizes(blocks)
    )
    if prepared.listed:
        n_rows, n_features = -(-B // rows.own), -(-h // rows.features)
        grid = (2 * R * W * M * n_features * n_rows,)
        triton_code.backward_list_kernel[grid](*arguments, n_rows, n_features, **shared, **_sizes(rows))
    return out


def _edges_gradient(nodes: Tensor, grad: Tensor, edges: Tensor, prepared: Prepared) -> Tensor:
    """Every program sums over some rows and features; their sums are then added in a fixed order."""
    if not nodes.numel():
        return torch.zeros_like(edges)
    M = nodes.shape[2]
    parts = _edges_in_rows if M <= FEW and not prepared.listed else _edges_in_blocks
    partial = parts(nodes, grad, prepared)[..., :M]  # (R, parts, M, M)
    return partial[:, 0] if partial.shape[1] == 1 else partial.sum(1)


def _edges_in_rows(nodes: Tensor, grad: Tensor, prepared: Prepared) -> Tensor:
    R, B, M, W, _, h = nodes.shape
    blocks = few_blocks(M, h)
    n_depth = -(-h // blocks.features)
    span = -(-M // min(M, -(-PROGRAMS // (R * B * n_depth))))  # senders in one program
    n_spans = -(-M // span)
    partial = nodes.new_empty((R, B * n_depth, M, M))
    triton_code.edges_few_kernel[(R * B * n_depth * n_spans,)](
        *(nodes, grad, prepared.both, partial, B, M, _padded(M), h, n_depth, n_spans, span), W=W, **_sizes(blocks)
    )
    return partial


def _edges_in_blocks(nodes: Tensor, grad: Tensor, prepared: Prepared) -> Tensor:
    R, B, M, W, _, h = nodes.shape
    blocks, listed = edge_blocks(M, h), list_blocks(h)
    n_own, n_other = -(-M // blocks.own), -(-M // blocks.features)
    rows, depth = _chunks(B, h, R * n_own * n_other, blocks.unroll)
    n_rows, n_depth = -(-B // rows), -(-h // depth)
    partial = nodes.new_empty((R, n_rows * n_depth, M, _padded(M)))
    shared = {"W": W, "SHARE": DENSE_SHARE, "GROUP": blocks.own}
    counted = (prepared.both, prepared.lists, prepared.counts, partial, B, M, _padded(M), h)
    parts = (n_rows, n_depth, rows, depth)
    grid = (R * n_rows * n_depth * n_own * n_other,)
    across, flags = _across(nodes, grad, prepared), {"LISTED": prepared.listed} | shared
    triton_code.edges_kernel[grid](*across, *counted, *parts, n_own, n_other, **flags, **_sizes(blocks))
    if prepared.listed:
        triton_code.edges_list_kernel[(R * n_rows * n_depth * M,)](
            nodes, grad, *counted, *parts, **shared, **_sizes(listed)
        )
    return partial


def _across(nodes: Tensor, grad: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor]:
    """(R, B, W, 2, h, P) and (R, B, W, h, P), where neighbouring nodes lie next to each other in memory instead of the
    features of one node; undefined for models without a dense block
    """
    R, B, M, W, _, h = nodes.shape
    P = _padded(M)
    nodes_across, grad_across = nodes.new_empty((R, B, W, 2, h, P)), grad.new_empty((R, B, W, h, P))
    n_own, n_features = -(-M // 32), -(-h // 32)
    triton_code.across_kernel[(R * B * W * 3 * n_features * n_own,)](  # 3: sender, receiver and gradient
        *(nodes, grad, prepared.counts, nodes_across, grad_across, B, M, P, h, n_own, n_features),
        **{"LISTED": prepared.listed, "W": W, "SHARE": DENSE_SHARE},
        **{"BX": 32, "BH": 32, "BM": min(_power(M), 1024)},
        **_OPTIONS,
    )
    return nodes_across, grad_across


def _chunks(B: int, h: int, n_tiles: int, unroll: int) -> tuple[int, int]:
    """Rows and features of one program's sum, such that the programs fill the GPU and not many more partial sums."""
    wanted = -(-PROGRAMS // n_tiles)
    rows = -(-B // min(B, wanted))
    n_depth = min(-(-h // 32), -(-wanted // -(-B // rows)))
    return rows, -(-h // (n_depth * unroll)) * unroll


def _sizes(blocks: Blocks) -> dict[str, int]:
    sizes = {"BX": blocks.own, "BH": blocks.features, "UNROLL": blocks.unroll}
    return _OPTIONS | sizes | {"num_warps": blocks.warps}
