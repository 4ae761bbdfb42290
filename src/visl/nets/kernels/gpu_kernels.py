"""The kernels that `gpu` launches, in Triton's language.

"Own" nodes x are those a program computes for, "other" nodes y those it loops over: for the sums and the receivers'
gradients x receives and y sends, for the senders' gradients the reverse. Weights are kept both ways round,
both[r, 0] = edges[r] and both[r, 1] its transpose, so that the weight of (y, x) is always both[r, side, y, x], with
neighbouring x next to each other in memory: the side is the way for receivers, the other one for senders. Rows of M
nodes are padded to P, a multiple of 16: threads load four numbers at once only where they know them aligned.

Many nodes come in two forms, launched after each other, one of which has nothing to do: blocks of own nodes with many
edges loop over all other nodes; those with few edges are left to one program for each node and its list of edges.

r, b, w, h as everywhere; s the side of `both`; offsets that can pass 2^31 are 64 bit.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


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
def forward_kernel(
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
def forward_list_kernel(
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
def backward_kernel(
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
def backward_list_kernel(
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
def edges_kernel(
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
def edges_few_kernel(
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
def edges_list_kernel(
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
def across_kernel(
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
def turn_kernel(edges, both, M, P, n, BX: tl.constexpr):
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
def list_kernel(both, lists, counts, M, P, BY: tl.constexpr):
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
