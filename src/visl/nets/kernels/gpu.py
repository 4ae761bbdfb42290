"""The pairwise reduction fused for GPUs: no pair is ever stored, memory is O(B M h + M^2), one addition order.

Triton compiles the kernels, which is why this module is imported only where there are CUDA tensors and Triton.
Nothing here waits for the device or looks at values on the host, so that calls can be captured in CUDA graphs.

"Own" nodes x are those a program computes for, "other" nodes y those it loops over: for the sums and the receivers'
gradients x receives and y sends, for the senders' gradients the reverse. Weights are kept both ways round,
both[r, 0] = edges[r] and both[r, 1] its transpose, so that the weight of (y, x) is always both[r, side, y, x], with
neighbouring x next to each other in memory: the side is the way for receivers, the other one for senders. Rows of M
nodes are padded to P, a multiple of 16: threads load four numbers at once only where they know them aligned.

Many nodes come in two forms, launched after each other, one of which has nothing to do: blocks of own nodes with many
edges loop over all other nodes; those with few edges are left to one program for each node and its list of edges.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

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
            _turn_kernel[(R * n * n,)](edges, both, M, _padded(M), n, BX=32, **_OPTIONS)
            if listed:
                block = min(_power(M), 1024)
                _list_kernel[(R * 2 * M,)](both, lists, counts, M, _padded(M), BY=block, **_OPTIONS)
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
    _forward_kernel[(R * B * W * n_features * n_own,)](*arguments, n_own, n_features, **shared, **_sizes(blocks))
    if prepared.listed:
        n_rows, n_features = -(-B // rows.own), -(-h // rows.features)
        grid = (R * W * M * n_features * n_rows,)
        _forward_list_kernel[grid](*arguments, n_rows, n_features, **shared, **_sizes(rows))
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
    _backward_kernel[(2 * R * B * W * n_features * n_own,)](*arguments, n_own, n_features, **shared, **_sizes(blocks))
    if prepared.listed:
        n_rows, n_features = -(-B // rows.own), -(-h // rows.features)
        grid = (2 * R * W * M * n_features * n_rows,)
        _backward_list_kernel[grid](*arguments, n_rows, n_features, **shared, **_sizes(rows))
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
    _edges_few_kernel[(R * B * n_depth * n_spans,)](
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
    _edges_kernel[grid](*across, *counted, *parts, n_own, n_other, **flags, **_sizes(blocks))
    if prepared.listed:
        _edges_list_kernel[(R * n_rows * n_depth * M,)](nodes, grad, *counted, *parts, **shared, **_sizes(listed))
    return partial


def _across(nodes: Tensor, grad: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor]:
    """(R, B, W, 2, h, P) and (R, B, W, h, P), where neighbouring nodes lie next to each other in memory instead of the
    features of one node; undefined for models without a dense block
    """
    R, B, M, W, _, h = nodes.shape
    P = _padded(M)
    nodes_across, grad_across = nodes.new_empty((R, B, W, 2, h, P)), grad.new_empty((R, B, W, h, P))
    n_own, n_features = -(-M // 32), -(-h // 32)
    _across_kernel[(R * B * W * 3 * n_features * n_own,)](  # 3: sender, receiver and gradient
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


# In the kernels: r, b, w, h as everywhere; s the side of `both`; offsets that can pass 2^31 are 64 bit.


@triton.jit
def _relu(x):
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)  # a missing number must not go unnoticed


@triton.jit
def _is_dense(counts, r, s, x, M, SHARE: tl.constexpr, GROUP: tl.constexpr):
    """Whether x's block of GROUP own nodes has more than one edge in SHARE."""
    first = x // GROUP * GROUP
    block = first + tl.arange(0, GROUP)
    present = tl.sum(tl.load(counts + (r * 2 + s) * M + block, mask=block < M, other=0), 0)
    return present * SHARE > tl.minimum(M - first, GROUP) * M


@triton.jit
def _add_received(total, receiver, senders, weights, in_x, in_h, CAREFUL: tl.constexpr):
    """total, receiver: (x, h); the pointers of one other node, senders: (h), weights: (x)."""
    e = tl.load(weights, mask=in_x, other=0.0)
    a = tl.load(senders, mask=in_h, other=0.0)
    term = e[:, None] * _relu(a[None, :] + receiver)
    if CAREFUL:
        term = tl.where((e != 0)[:, None], term, 0.0)
    return total + term


@triton.jit
def _received(receiver, senders, node, weights, P, M, in_x, in_h, CAREFUL: tl.constexpr, UNROLL: tl.constexpr):
    total = tl.zeros_like(receiver)
    whole = M // UNROLL * UNROLL
    for first in range(0, whole, UNROLL):
        for u in tl.static_range(UNROLL):
            y = first + u
            total = _add_received(total, receiver, senders + y * node, weights + y * P, in_x, in_h, CAREFUL)
    for y in range(whole, M):
        total = _add_received(total, receiver, senders + y * node, weights + y * P, in_x, in_h, CAREFUL)
    return total


@triton.jit
def _forward_kernel(
    nodes, both, lists, counts, out, B, M, P, H, n_own, n_features,
    W: tl.constexpr, LISTED: tl.constexpr, SHARE: tl.constexpr, GROUP: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """out for BX own nodes and BH features of one row and way."""
    pid = tl.program_id(0)
    x0, pid = pid % n_own * BX, pid // n_own
    h0, pid = pid % n_features * BH, pid // n_features
    w, row = pid % W, pid // W
    r = row // B
    dense = True
    if LISTED:
        dense = _is_dense(counts, r, w, x0, M, SHARE, GROUP)
    if dense:
        x, h = x0 + tl.arange(0, BX), h0 + tl.arange(0, BH)
        in_x, in_h = x < M, h < H
        inside = in_x[:, None] & in_h[None, :]
        node = W * 2 * H
        senders = nodes + row.to(tl.int64) * M * node + w * 2 * H + h
        receiver = tl.load(senders[None, :] + H + x[:, None] * node, mask=inside, other=0.0)
        weights = both + (r * 2 + w).to(tl.int64) * M * P + x
        total = _received(receiver, senders, node, weights, P, M, in_x, in_h, False, UNROLL)
        # Absent edges add 0 times what is sent, which is wrong (NaN) only where that is not finite: then once more.
        if tl.max(tl.where(total == total, 0, 1)) > 0:
            total = _received(receiver, senders, node, weights, P, M, in_x, in_h, True, UNROLL)
        to = out + row.to(tl.int64) * M * W * H + w * H
        tl.store(to + x[:, None] * (W * H) + h[None, :], total, mask=inside)


@triton.jit
def _add_listed(total, receiver, senders, node, weights, listed, inside):
    """total, receiver, senders: (b, h), for one listed node."""
    y = tl.load(listed).to(tl.int32)
    a = tl.load(senders + y * node, mask=inside, other=0.0)
    return total + tl.load(weights + y) * _relu(a + receiver)


@triton.jit
def _forward_list_kernel(
    nodes, both, lists, counts, out, B, M, P, H, n_rows, n_features,
    W: tl.constexpr, LISTED: tl.constexpr, SHARE: tl.constexpr, GROUP: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """out for one own node with few edges, BX rows and BH features."""
    pid = tl.program_id(0)
    b0, pid = pid % n_rows * BX, pid // n_rows
    h0, pid = pid % n_features * BH, pid // n_features
    x, pid = pid % M, pid // M
    w, r = pid % W, pid // W
    if not _is_dense(counts, r, w, x, M, SHARE, GROUP):
        b, h = b0 + tl.arange(0, BX), h0 + tl.arange(0, BH)
        inside = (b < B)[:, None] & (h < H)[None, :]
        node = W * 2 * H
        row = (r * B + b).to(tl.int64) * M
        senders = nodes + (row * node)[:, None] + (w * 2 * H + h)[None, :]
        receiver = tl.load(senders + x * node + H, mask=inside, other=0.0)
        own = (r * 2 + w).to(tl.int64) * M + x
        turned = both + ((r * 2 + 1 - w).to(tl.int64) * M + x) * P
        n = tl.load(counts + own)
        listed = lists + own * M
        whole = n // UNROLL * UNROLL
        total = tl.zeros_like(receiver)
        for first in range(0, whole, UNROLL):
            for u in tl.static_range(UNROLL):
                total = _add_listed(total, receiver, senders, node, turned, listed + first + u, inside)
        for j in range(whole, n):
            total = _add_listed(total, receiver, senders, node, turned, listed + j, inside)
        to = out + (row * (W * H))[:, None] + (x * (W * H) + w * H + h)[None, :]
        tl.store(to, total, mask=inside)


@triton.jit
def _add_to_receiver(total, below, senders, weights, in_x, in_h):
    """below: minus what the receivers add, (x, h); the pair is active where the sender is above it."""
    e = tl.load(weights, mask=in_x, other=0.0)
    a = tl.load(senders, mask=in_h, other=0.0)
    return total + e[:, None] * (a[None, :] > below).to(total.dtype)


@triton.jit
def _add_to_sender(total, below, receivers, grads, weights, in_x, in_h):
    """below: minus what the own nodes send, (x, h); the pair is active where the receiver is above it."""
    e = tl.load(weights, mask=in_x, other=0.0)
    c = tl.load(receivers, mask=in_h, other=0.0)
    g = tl.load(grads, mask=in_h, other=0.0)
    # A product instead of a choice: half the processors' lanes can choose, all of them can multiply.
    return total + e[:, None] * (g[None, :] * (c[None, :] > below).to(total.dtype))


@triton.jit
def _backward_kernel(
    nodes, grad, both, lists, counts, out, B, M, P, H, n_own, n_features,
    W: tl.constexpr, LISTED: tl.constexpr, SHARE: tl.constexpr, GROUP: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The nodes' gradient for BX own nodes and BH features of one row and way, as senders or as receivers."""
    pid = tl.program_id(0)
    receives, pid = pid % 2, pid // 2
    x0, pid = pid % n_own * BX, pid // n_own
    h0, pid = pid % n_features * BH, pid // n_features
    w, row = pid % W, pid // W
    r = row // B
    s = tl.where(receives == 1, w, 1 - w)
    dense = True
    if LISTED:
        dense = _is_dense(counts, r, s, x0, M, SHARE, GROUP)
    if dense:
        x, h = x0 + tl.arange(0, BX), h0 + tl.arange(0, BH)
        in_x, in_h = x < M, h < H
        inside = in_x[:, None] & in_h[None, :]
        node, of_grad = W * 2 * H, W * H
        start = row.to(tl.int64) * M
        senders = nodes + start * node + w * 2 * H + h
        grads = grad + start * of_grad + w * H + h
        own = x[:, None] * node + receives * H
        below = -tl.load(senders[None, :] + own, mask=inside, other=0.0)
        weights = both + (r * 2 + s).to(tl.int64) * M * P + x
        total = tl.zeros_like(below)
        whole = M // UNROLL * UNROLL
        if receives == 1:
            for first in range(0, whole, UNROLL):
                for u in tl.static_range(UNROLL):
                    y = first + u
                    total = _add_to_receiver(total, below, senders + y * node, weights + y * P, in_x, in_h)
            for y in range(whole, M):
                total = _add_to_receiver(total, below, senders + y * node, weights + y * P, in_x, in_h)
            total = total * tl.load(grads[None, :] + x[:, None] * of_grad, mask=inside, other=0.0)
        else:
            receivers = senders + H
            for first in range(0, whole, UNROLL):
                for u in tl.static_range(UNROLL):
                    y = first + u
                    to, g = receivers + y * node, grads + y * of_grad
                    total = _add_to_sender(total, below, to, g, weights + y * P, in_x, in_h)
            for y in range(whole, M):
                to, g = receivers + y * node, grads + y * of_grad
                total = _add_to_sender(total, below, to, g, weights + y * P, in_x, in_h)
        tl.store(out + start * node + w * 2 * H + h[None, :] + own, total, mask=inside)


@triton.jit
def _add_listed_to_receiver(total, below, senders, node, weights, listed, inside):
    y = tl.load(listed).to(tl.int32)
    a = tl.load(senders + y * node, mask=inside, other=0.0)
    return total + tl.load(weights + y) * (a > below).to(total.dtype)


@triton.jit
def _add_listed_to_sender(total, below, receivers, node, grads, of_grad, weights, listed, inside):
    y = tl.load(listed).to(tl.int32)
    c = tl.load(receivers + y * node, mask=inside, other=0.0)
    g = tl.load(grads + y * of_grad, mask=inside, other=0.0)
    return total + tl.load(weights + y) * (g * (c > below).to(total.dtype))


@triton.jit
def _backward_list_kernel(
    nodes, grad, both, lists, counts, out, B, M, P, H, n_rows, n_features,
    W: tl.constexpr, LISTED: tl.constexpr, SHARE: tl.constexpr, GROUP: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The nodes' gradient for one own node with few edges, BX rows and BH features, as sender or as receiver."""
    pid = tl.program_id(0)
    receives, pid = pid % 2, pid // 2
    b0, pid = pid % n_rows * BX, pid // n_rows
    h0, pid = pid % n_features * BH, pid // n_features
    x, pid = pid % M, pid // M
    w, r = pid % W, pid // W
    s = tl.where(receives == 1, w, 1 - w)
    if not _is_dense(counts, r, s, x, M, SHARE, GROUP):
        b, h = b0 + tl.arange(0, BX), h0 + tl.arange(0, BH)
        inside = (b < B)[:, None] & (h < H)[None, :]
        node, of_grad = W * 2 * H, W * H
        row = (r * B + b).to(tl.int64) * M
        place = (row * node)[:, None] + (w * 2 * H + h)[None, :]
        grads = grad + (row * of_grad)[:, None] + (w * H + h)[None, :]
        mine = x * node + receives * H
        below = -tl.load(nodes + place + mine, mask=inside, other=0.0)
        others = nodes + place + (1 - receives) * H
        own = (r * 2 + s).to(tl.int64) * M + x
        turned = both + ((r * 2 + 1 - s).to(tl.int64) * M + x) * P
        n = tl.load(counts + own)
        listed = lists + own * M
        whole = n // UNROLL * UNROLL
        total = tl.zeros_like(below)
        if receives == 1:
            for first in range(0, whole, UNROLL):
                for u in tl.static_range(UNROLL):
                    total = _add_listed_to_receiver(total, below, others, node, turned, listed + first + u, inside)
            for j in range(whole, n):
                total = _add_listed_to_receiver(total, below, others, node, turned, listed + j, inside)
            total = total * tl.load(grads + x * of_grad, mask=inside, other=0.0)
        else:
            for first in range(0, whole, UNROLL):
                for u in tl.static_range(UNROLL):
                    j = listed + first + u
                    total = _add_listed_to_sender(total, below, others, node, grads, of_grad, turned, j, inside)
            for j in range(whole, n):
                total = _add_listed_to_sender(total, below, others, node, grads, of_grad, turned, listed + j, inside)
        tl.store(out + place + mine, total, mask=inside)


@triton.jit
def _add_to_edges(total, nodes, grads, H, P, k, i, in_k, in_i, ALONG: tl.constexpr):
    """total: (k, i), of one row, way and feature; along the edges k sends and i receives, against them i sends."""
    if ALONG:
        a = tl.load(nodes + k, mask=in_k, other=0.0)
        c = tl.load(nodes + H * P + i, mask=in_i, other=0.0)
        g = tl.load(grads + i, mask=in_i, other=0.0)
        total += g[None, :] * _relu(a[:, None] + c[None, :])
    else:
        a = tl.load(nodes + i, mask=in_i, other=0.0)
        c = tl.load(nodes + H * P + k, mask=in_k, other=0.0)
        g = tl.load(grads + k, mask=in_k, other=0.0)
        total += g[:, None] * _relu(a[None, :] + c[:, None])
    return total


@triton.jit
def _edges_kernel(
    nodes, grad, both, lists, counts, partial, B, M, P, H, n_rows, n_depth, rows, depth, n_own, n_other,
    LISTED: tl.constexpr, W: tl.constexpr, SHARE: tl.constexpr, GROUP: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The gradient of BH x BX edges [from, to], of `rows` rows and `depth` features; nodes, grad: see `_across`."""
    pid = tl.program_id(0)
    i0, pid = pid % n_own * BX, pid // n_own
    k0, pid = pid % n_other * BH, pid // n_other
    chunk, r = pid, pid // (n_rows * n_depth)  # chunk: among those of all models
    d0, pid = pid % n_depth * depth, pid // n_depth
    b0 = pid % n_rows * rows
    i, k = i0 + tl.arange(0, BX), k0 + tl.arange(0, BH)
    in_i, in_k = i < P, k < M  # what is computed for the padding is never used
    inside = in_k[:, None] & in_i[None, :]
    dense = True
    if LISTED:
        dense = _is_dense(counts, r, 0, i0, M, SHARE, GROUP)
    e = tl.load(both + r.to(tl.int64) * 2 * M * P + k[:, None] * P + i[None, :], mask=inside, other=0.0)
    # Zeros, but made from the weights: so the sums are laid out in threads as the weights are, four in a row to each.
    total = tl.where(e == e, 0.0, e)
    if dense:
        end = tl.minimum(d0 + depth, H)
        whole = d0 + (end - d0) // UNROLL * UNROLL
        for b in range(b0, tl.minimum(b0 + rows, B)):
            row = (r * B + b).to(tl.int64) * (W * H) * P
            for w in tl.static_range(W):
                at, of = nodes + row * 2 + w * 2 * H * P, grad + row + w * H * P
                for first in range(d0, whole, UNROLL):
                    for u in tl.static_range(UNROLL):
                        d = (first + u) * P
                        total = _add_to_edges(total, at + d, of + d, H, P, k, i, in_k, in_i, w == 0)
                for last in range(whole, end):
                    d = last * P
                    total = _add_to_edges(total, at + d, of + d, H, P, k, i, in_k, in_i, w == 0)
    # Zeros too: the lists of this block's edges, if it has few, are written over them.
    total = tl.where(e != 0, total, 0.0)
    tl.store(partial + chunk.to(tl.int64) * M * P + k[:, None] * P + i[None, :], total, mask=inside)


@triton.jit
def _edges_few_kernel(
    nodes, grad, both, partial, B, M, P, H, n_depth, n_spans, span,
    W: tl.constexpr, BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The gradient of the edges from `span` nodes to all BX nodes, of one row and BH features."""
    pid = tl.program_id(0)
    k0, chunk = pid % n_spans * span, pid // n_spans
    h0, row = chunk % n_depth * BH, chunk // n_depth
    i, h = tl.arange(0, BX), h0 + tl.arange(0, BH)
    in_i, in_h = i < M, h < H
    inside = in_i[:, None] & in_h[None, :]
    node, of_grad = W * 2 * H, W * H
    at, of = nodes + row.to(tl.int64) * M * node + h, grad + row.to(tl.int64) * M * of_grad + h
    here, there = i[:, None] * node, i[:, None] * of_grad
    c = tl.load(at[None, :] + H + here, mask=inside, other=0.0)
    g = tl.load(of[None, :] + there, mask=inside, other=0.0)
    a1 = c
    if W == 2:
        a1 = tl.load(at[None, :] + 2 * H + here, mask=inside, other=0.0)
    weights = both + (row // B).to(tl.int64) * 2 * M * P + i
    to = partial + chunk.to(tl.int64) * M * M + i
    for k in range(k0, tl.minimum(k0 + span, M)):
        a = tl.load(at + k * node, mask=in_h, other=0.0)
        total = g * _relu(a[None, :] + c)
        if W == 2:  # against the edge i sends and k receives
            c1 = tl.load(at + 3 * H + k * node, mask=in_h, other=0.0)
            g1 = tl.load(of + H + k * of_grad, mask=in_h, other=0.0)
            total += g1[None, :] * _relu(a1 + c1[None, :])
        e = tl.load(weights + k * P, mask=in_i, other=0.0)
        tl.store(to + k * M, tl.where(e != 0, tl.sum(total, 1), 0.0), mask=in_i)


@triton.jit
def _edges_list_kernel(
    nodes, grad, both, lists, counts, partial, B, M, P, H, n_rows, n_depth, rows, depth,
    W: tl.constexpr, SHARE: tl.constexpr, GROUP: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The gradient of the few edges to one node, BX at a time, of `rows` rows and `depth` features."""
    pid = tl.program_id(0)
    x, pid = pid % M, pid // M
    chunk, r = pid, pid // (n_rows * n_depth)
    d0, pid = pid % n_depth * depth, pid // n_depth
    b0 = pid % n_rows * rows
    if not _is_dense(counts, r, 0, x, M, SHARE, GROUP):
        node, of_grad = W * 2 * H, W * H
        own = (r * 2).to(tl.int64) * M + x
        n = tl.load(counts + own)
        end = tl.minimum(d0 + depth, H)
        for first in range(0, n, BX):
            place = first + tl.arange(0, BX)
            live = place < n
            y = tl.load(lists + own * M + place, mask=live, other=0).to(tl.int32)
            total = tl.zeros([BX, BH], dtype=nodes.dtype.element_ty)
            for b in range(b0, tl.minimum(b0 + rows, B)):
                row = (r * B + b).to(tl.int64) * M
                for h0 in range(d0, end, BH):
                    h = h0 + tl.arange(0, BH)
                    in_h = h < end
                    inside = live[:, None] & in_h[None, :]
                    at = nodes + row * node + h
                    of = grad + row * of_grad + h
                    a = tl.load(at[None, :] + y[:, None] * node, mask=inside, other=0.0)
                    c = tl.load(at + H + x * node, mask=in_h, other=0.0)
                    g = tl.load(of + x * of_grad, mask=in_h, other=0.0)
                    total += g[None, :] * _relu(a + c[None, :])
                    if W == 2:  # against the edge x sends and y receives
                        a1 = tl.load(at + 2 * H + x * node, mask=in_h, other=0.0)
                        c1 = tl.load(at[None, :] + 3 * H + y[:, None] * node, mask=inside, other=0.0)
                        g1 = tl.load(of[None, :] + H + y[:, None] * of_grad, mask=inside, other=0.0)
                        total += g1 * _relu(a1[None, :] + c1)
            tl.store(partial + chunk.to(tl.int64) * M * P + y * P + x, tl.sum(total, 1), mask=live)


@triton.jit
def _across_kernel(
    nodes, grad, counts, nodes_across, grad_across, B, M, P, H, n_own, n_features,
    LISTED: tl.constexpr, W: tl.constexpr, SHARE: tl.constexpr,
    BX: tl.constexpr, BH: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """(M, h) -> (h, P) of the sender, the receiver or the gradient of one row and way, if any block may be dense."""
    pid = tl.program_id(0)
    x0, pid = pid % n_own * BX, pid // n_own
    h0, pid = pid % n_features * BH, pid // n_features
    part, pid = pid % 3, pid // 3
    w, row = pid % W, pid // W
    needed = True
    if LISTED:
        most = tl.zeros([BM], dtype=tl.int32)
        for first in range(0, M, BM):
            block = first + tl.arange(0, BM)
            most = tl.maximum(most, tl.load(counts + row // B * 2 * M + block, mask=block < M, other=0))
        needed = tl.max(most, 0) * SHARE > M  # a dense block has at least one node that is dense by itself
    if needed:
        x, h = x0 + tl.arange(0, BX), h0 + tl.arange(0, BH)
        inside = (x < M)[:, None] & (h < H)[None, :]
        turned = (h < H)[:, None] & (x < M)[None, :]
        way = row.to(tl.int64) * W + w
        if part < 2:
            of = nodes + row.to(tl.int64) * M * (W * 2 * H) + (w * 2 + part) * H
            values = tl.load(of + x[:, None] * (W * 2 * H) + h[None, :], mask=inside, other=0.0)
            to = nodes_across + (way * 2 + part) * H * P
            tl.store(to + h[:, None] * P + x[None, :], tl.trans(values), mask=turned)
        else:
            of = grad + row.to(tl.int64) * M * (W * H) + w * H
            values = tl.load(of + x[:, None] * (W * H) + h[None, :], mask=inside, other=0.0)
            to = grad_across + way * H * P
            tl.store(to + h[:, None] * P + x[None, :], tl.trans(values), mask=turned)


@triton.jit
def _turn_kernel(edges, both, M, P, n, BX: tl.constexpr):
    """BX x BX edges, as they are and transposed."""
    pid = tl.program_id(0)
    i, pid = pid % n * BX + tl.arange(0, BX), pid // n
    k, r = pid % n * BX + tl.arange(0, BX), (pid // n).to(tl.int64)
    inside = (k < M)[:, None] & (i < M)[None, :]
    turned = (i < M)[:, None] & (k < M)[None, :]
    values = tl.load(edges + r * M * M + k[:, None] * M + i[None, :], mask=inside, other=0.0)
    to = both + r * 2 * M * P
    tl.store(to + k[:, None] * P + i[None, :], values, mask=inside)
    tl.store(to + M * P + i[:, None] * P + k[None, :], tl.trans(values), mask=turned)


@triton.jit
def _list_kernel(both, lists, counts, M, P, BY: tl.constexpr):
    """The other nodes of one own node on one side: those not 0 in its row on the other side."""
    own = tl.program_id(0)  # (R, 2, M)
    x, pid = own % M, own // M
    s, r = pid % 2, pid // 2
    row = both + ((r * 2 + 1 - s).to(tl.int64) * M + x) * P
    found = 0
    for first in range(0, M, BY):
        y = first + tl.arange(0, BY)
        present = (tl.load(row + y, mask=y < M, other=0.0) != 0).to(tl.int32)
        place = found + tl.cumsum(present, 0) - present
        tl.store(lists + own.to(tl.int64) * M + place, y.to(lists.dtype.element_ty), mask=present != 0)
        found += tl.sum(present, 0)
    tl.store(counts + own, found)
