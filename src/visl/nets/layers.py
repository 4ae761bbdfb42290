"""Small layers whose weights may be one set for all nodes of the graph, or a set of their own for each."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def uniform_parameter(shape: tuple[int, ...], fan_in: int, rng: torch.Generator) -> nn.Parameter:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's own start for linear layers, from an explicit generator."""
    bound = max(1, fan_in) ** -0.5
    return nn.Parameter((2 * torch.rand(shape, generator=rng) - 1) * bound)


class NodeLinear(nn.Module):
    """y_m = x_m W_s + b_s with s = set_of_node[m]: one linear layer for each set of nodes."""

    set_of_node: Tensor  # (M,)

    def __init__(self, set_of_node: Tensor, n_in: int, n_out: int, rng: torch.Generator) -> None:
        super().__init__()
        self.n_sets = int(set_of_node.max()) + 1
        self.one_each = torch.equal(set_of_node, torch.arange(self.n_sets))  # node m has set m, all its own
        self.register_buffer("set_of_node", set_of_node, persistent=False)
        self.weight = uniform_parameter((self.n_sets, n_in, n_out), n_in, rng)
        self.bias = uniform_parameter((self.n_sets, n_out), n_in, rng)

    def forward(self, x: Tensor) -> Tensor:
        """(..., M, n_in) -> (..., M, n_out)"""
        if self.n_sets == 1:
            return x @ self.weight[0] + self.bias[0]
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if not self.one_each:
            weight = nn.functional.embedding(self.set_of_node, weight.flatten(1)).unflatten(1, weight.shape[1:])
            bias = nn.functional.embedding(self.set_of_node, bias)
        M, n_in = x.shape[-2:]
        by_node = x.reshape(-1, M, n_in).transpose(0, 1)  # (M, rows, n_in)
        return torch.baddbmm(bias[:, None], by_node, weight).transpose(0, 1).reshape(*x.shape[:-1], -1)


class Mlp(nn.Module):
    """Two linear layers with a ReLU between them, shared by all nodes."""

    def __init__(self, n_in: int, n_hidden: int, n_out: int, rng: torch.Generator) -> None:
        super().__init__()
        one_set = torch.zeros(1, dtype=torch.long)
        self.first = NodeLinear(one_set, n_in, n_hidden, rng)
        self.second = NodeLinear(one_set, n_hidden, n_out, rng)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))
