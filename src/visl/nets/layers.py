"""Small layers whose weights may be one set for all nodes of the graph, or a set of their own for each.

Every parameter of the networks has a leading dimension of K members: models that are trained side by side and never
meet. Member k's part is made from its own generator, so that it starts as it would alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, embedding_bag

SMALL_TABLE = 256  # rows
BLOCKS_TO_FILL = 264  # of 64 x 64 results: two for each processor of a large GPU

Generators = Sequence[torch.Generator]  # one for each member


def uniform_parameter(shape: tuple[int, ...], fan_in: int, rngs: Generators) -> nn.Parameter:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's own start for linear layers.  -> (K, *shape)"""
    bound = max(1, fan_in) ** -0.5
    return nn.Parameter(torch.stack([(2 * torch.rand(shape, generator=rng) - 1) * bound for rng in rngs]))


def member_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W_k + b_k for every member.  (K, ..., n_in), (K, n_in, n_out), (K, n_out) -> (K, ..., n_out)"""
    K, n_in, n_out = weight.shape
    if x.is_cuda:
        y = _MemberLinear.apply(x.reshape(K, -1, n_in), weight, bias)
    elif K == 1:  # one plain product is faster than a batch of one
        rows, matrix = x.reshape(-1, n_in), weight.view(n_in, n_out)
        y = rows @ matrix if bias is None else torch.addmm(bias.view(n_out), rows, matrix)
    else:
        rows = x.reshape(K, -1, n_in)
        y = torch.bmm(rows, weight) if bias is None else torch.baddbmm(bias[:, None], rows, weight)
    return y.view(*x.shape[:-1], n_out)


class _MemberLinear(torch.autograd.Function):
    """With gradients in a form that fills a GPU: sums over rows as products, in as many parts as it takes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        if len(weight) == 1:
            y = x[0] @ weight[0] if bias is None else torch.addmm(bias[0], x[0], weight[0])
            return y[None]
        return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias[:, None], x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x = torch.bmm(grad, weight.mT) if ctx.needs_input_grad[0] else None
        of_bias = None
        if ctx.has_bias:
            ones = grad.new_ones(1, 1, grad.shape[1]).expand(len(grad), -1, -1)
            of_bias = torch.bmm(ones, grad)[:, 0]
        return of_x, _weight_gradient(x, grad), of_bias


def _weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """x^T grad.  (K, R, n_in), (K, R, n_out) -> (K, n_in, n_out)"""
    K, R, n_in = x.shape
    n_out = grad.shape[-1]
    if K == 1:
        return (x[0].mT @ grad[0])[None]
    wanted = BLOCKS_TO_FILL // (K * -(-n_in // 64) * -(-n_out // 64))
    parts = max((p for p in range(1, max(1, wanted) + 1) if R % p == 0 and R // p >= 64), default=1)
    by_part = torch.bmm(x.reshape(K * parts, -1, n_in).mT, grad.reshape(K * parts, -1, n_out))
    return by_part if parts == 1 else by_part.view(K, parts, n_in, n_out).sum(1)


def look_up(table: Tensor, index: Tensor) -> Tensor:
    """table[index], with a gradient that is the same from run to run.  (n, d), (...) -> (..., d)"""
    if table.is_cuda and len(table) <= SMALL_TABLE:
        return _SmallLookUp.apply(table, index)
    return embedding(index, table)


class _SmallLookUp(torch.autograd.Function):
    """The gradient of a few rows that are each looked up often, as a product instead of a sort and long sums."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.n_rows = len(table)
        return embedding(index, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        rows = torch.arange(ctx.n_rows, device=index.device)
        chosen = (index.flatten()[None] == rows[:, None]).to(grad.dtype)  # (n, lookups)
        return chosen @ grad.reshape(-1, grad.shape[-1]), None


class TakeSorted(torch.autograd.Function):
    """table[index] for an index that never falls: the gradient sums neighbours.  (n, d), (c,), (n + 1,) -> (c, d)"""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(starts)
        return table.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (starts,) = ctx.saved_tensors
        return sum_neighbours(grad, starts), None, None


class SumSorted(torch.autograd.Function):
    """The reverse: sums of the rows that have the same index.  (c, d), (c,), (n + 1,) -> (n, d)"""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return sum_neighbours(rows, starts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return grad.index_select(0, index), None, None


def sum_neighbours(rows: Tensor, starts: Tensor) -> Tensor:
    """rows[starts[i] : starts[i + 1]].sum(0) for every i.  (c, d), (n + 1,) -> (n, d)"""
    every = torch.arange(len(rows), device=rows.device)
    return embedding_bag(every, rows, starts, mode="sum", include_last_offset=True)


def run_starts(index: Tensor, n: int) -> Tensor:
    """Where the run of each number from 0 to n - 1 starts in an index that never falls, and the end.  (n + 1,)"""
    if index.is_cuda:  # without asking the device
        return torch.searchsorted(index, torch.arange(n + 1, device=index.device))
    return nn.functional.pad(torch.bincount(index, minlength=n).cumsum(0), (1, 0))


class NodeLinear(nn.Module):
    """y_m = x_m W_s + b_s with s = set_of_node[m]: one linear layer for each set of nodes."""

    chooser: Tensor  # (M, sets) one-hot; a product with it is the same from run to run on a GPU, unlike an index

    def __init__(self, set_of_node: Tensor, n_in: int, n_out: int, rngs: Generators) -> None:
        super().__init__()
        self.n_sets = int(set_of_node.max()) + 1
        self.one_each = torch.equal(set_of_node, torch.arange(self.n_sets))  # node m has set m, all its own
        self.register_buffer("chooser", nn.functional.one_hot(set_of_node).float(), persistent=False)
        self.weight = uniform_parameter((self.n_sets, n_in, n_out), n_in, rngs)  # (K, sets, n_in, n_out)
        self.bias = uniform_parameter((self.n_sets, n_out), n_in, rngs)

    def forward(self, x: Tensor) -> Tensor:
        """(K, ..., M, n_in) -> (K, ..., M, n_out)"""
        K, _, n_in, n_out = self.weight.shape
        if self.n_sets == 1:
            return member_linear(x, self.weight.view(K, n_in, n_out), self.bias.view(K, n_out))
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if not self.one_each:
            weight, bias = self.chooser @ weight.flatten(2), self.chooser @ bias
        M = x.shape[-2]
        by_node = x.reshape(K, -1, M, n_in).transpose(1, 2).reshape(K * M, -1, n_in)
        y = torch.baddbmm(bias.reshape(K * M, 1, n_out), by_node, weight.reshape(K * M, n_in, n_out))
        return y.view(K, M, -1, n_out).transpose(1, 2).reshape(*x.shape[:-1], n_out)


class Mlp(nn.Module):
    """Two linear layers with a ReLU between them, shared by all nodes."""

    def __init__(self, n_in: int, n_hidden: int, n_out: int, rngs: Generators) -> None:
        super().__init__()
        one_set = torch.zeros(1, dtype=torch.long)
        self.first = NodeLinear(one_set, n_in, n_hidden, rngs)
        self.second = NodeLinear(one_set, n_hidden, n_out, rngs)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))
