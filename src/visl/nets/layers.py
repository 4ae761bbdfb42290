"""Small layers whose weights may be one set for all nodes of the graph, or a set of their own for each.

Every parameter of the networks has a leading dimension of K members: models that are trained side by side and never
meet. Member k's part is made from its own generator, so that it starts as it would alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Generators = Sequence[torch.Generator]  # one for each member


def uniform_parameter(shape: tuple[int, ...], fan_in: int, rngs: Generators) -> nn.Parameter:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's own start for linear layers.  -> (K, *shape)"""
    bound = max(1, fan_in) ** -0.5
    return nn.Parameter(torch.stack([(2 * torch.rand(shape, generator=rng) - 1) * bound for rng in rngs]))


def member_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W_k + b_k for every member.  (K, ..., n_in), (K, n_in, n_out), (K, n_out) -> (K, ..., n_out)"""
    K, n_in, n_out = weight.shape
    if K == 1:  # one plain product is faster than a batch of one
        rows, matrix = x.reshape(-1, n_in), weight.view(n_in, n_out)
        y = rows @ matrix if bias is None else torch.addmm(bias.view(n_out), rows, matrix)
    else:
        rows = x.reshape(K, -1, n_in)
        y = torch.bmm(rows, weight) if bias is None else torch.baddbmm(bias[:, None], rows, weight)
    return y.view(*x.shape[:-1], n_out)


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
