"""Message passing between the latent vectors of the groups, along the edges of a graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from visl.nets.kernels import reduction_over
from visl.nets.layers import Generators, Mlp, member_linear, uniform_parameter


class EdgeMessages(nn.Module):
    """sum_k E[k, i] MLP([z_k, z_i]) for an MLP with one hidden layer, without a matrix product on any edge.

    MLP([z_k, z_i]) = W2 relu(U z_k + V z_i + b1) + b2, so the sum is
    W2 (sum_k E[k, i] relu(U z_k + V z_i + b1)) + b2 sum_k E[k, i]: exact, not an approximation.

    There are two ways, each with an MLP of its own: along the edges, and against them. Both share every product:
    U and V of both ways are one matrix, and so are their W2.
    """

    def __init__(self, dim: int, rngs: Generators, *, relu_output: bool = False) -> None:
        super().__init__()
        self.dim, self.relu_output = dim, relu_output
        self.node = uniform_parameter((dim, 2, 2, dim), 2 * dim, rngs)  # (K, d, way, U or V, d)
        self.hidden_bias = uniform_parameter((2, dim), 2 * dim, rngs)  # b1, (K, way, d)
        self.output = uniform_parameter((2, dim, dim), dim, rngs)  # W2, (K, way, d, d)
        self.output_bias = uniform_parameter((2, dim), dim, rngs)  # b2, (K, way, d)

    def over(self, edges: Tensor, n_ways: int) -> Callable[[Tensor], Tensor]:
        """edges: (K, S, M, M) [from, to] -> z -> what each node receives, both (K, S, B, M, d)

        What depends on the graph and the weights alone is computed once for all rounds.
        """
        K, S, M, _ = edges.shape
        d, reduce_pairs = self.dim, reduction_over(edges.flatten(0, 1), n_ways)
        node: Tensor = self.node
        rest: list[Tensor] = [self.hidden_bias, self.output, self.output_bias]
        if n_ways == 1:
            node, rest = node[:, :, :1], [x[:, :1] for x in rest]
        hidden_bias, output, output_bias = rest
        node, output = node.flatten(2), output.flatten(1, 2)
        bias = nn.functional.pad(hidden_bias[:, :, None], (0, 0, 1, 0)).flatten(1)  # b1 comes with V
        weights = torch.stack([edges.sum(-2), edges.sum(-1)][:n_ways], dim=-1)  # (K, S, M, ways)
        constant = member_linear(weights, output_bias, None)[:, :, None]  # (K, S, 1, M, d)

        if self.relu_output:

            def receive_pairwise(z: Tensor) -> Tensor:
                nodes = member_linear(z, node, bias).view(K, S, -1, M, n_ways, 2, d)
                return sum_of_pairs(nodes, edges, output.view(K, n_ways, d, d), output_bias)

            return receive_pairwise

        def receive(z: Tensor) -> Tensor:
            nodes = member_linear(z, node, bias).view(K * S, -1, M, n_ways, 2, d)
            hidden = reduce_pairs(nodes).view(K, S, -1, M, n_ways * d)
            return member_linear(hidden, output, None) + constant

        return receive


def sum_of_pairs(nodes: Tensor, edges: Tensor, output: Tensor, output_bias: Tensor) -> Tensor:
    """sum_k E[k, i] relu(W2 relu(U z_k + V z_i + b1) + b2), and against the edges: here W2 acts on every edge.

    nodes: (K, S, B, M, ways, U or V, d), edges: (K, S, M, M), output: (K, ways, d, d), output_bias: (K, ways, d)
    -> (K, S, B, M, d)
    """
    total = torch.zeros_like(nodes[..., 0, 0, :])
    for way in range(nodes.shape[4]):
        sent, received = nodes[..., way, 0, :].unsqueeze(4), nodes[..., way, 1, :].unsqueeze(3)
        hidden = torch.relu(sent + received)  # (K, S, B, from, to, d)
        message = torch.relu(member_linear(hidden, output[:, way], output_bias[:, way]))
        along = edges if way == 0 else edges.transpose(-1, -2)
        total = total + torch.einsum("ksbfid,ksfi->ksbid", message, along)
    return total


class MessagePassing(nn.Module):
    """T rounds of z_i <- MLP_e2n(sum_k G[k, i] h_f(k -> i)  [+ sum_k G[i, k] h_b(i -> k)]).

    The bracket is the backward flow, child to parent, of stage 2: h_b(i -> k) = MLP_b([z_i, z_k]) is what the edge
    i -> k lets flow back from k to i. With the edges reversed it is the same sum as the forward one.

    keep_own: z_i <- z_i + MLP_e2n(...) instead, so that a node without parents still knows its own value.
    relu_output: every MLP here ends in a ReLU.
    """

    def __init__(
        self, dim: int, n_steps: int, rngs: Generators, *, keep_own: bool = False, relu_output: bool = False
    ) -> None:
        super().__init__()
        self.n_steps, self.keep_own, self.relu_output = n_steps, keep_own, relu_output
        self.edge_messages = EdgeMessages(dim, rngs, relu_output=relu_output)
        self.update = Mlp(dim, dim, dim, rngs)

    def forward(self, z: Tensor, edges: Tensor, *, backward: bool) -> Tensor:
        """z: (K, S, B, M, d) of K members and S draws, edges: (K, S, M, M) [from, to] -> (K, S, B, M, d)"""
        receive = self.edge_messages.over(edges, n_ways=2 if backward else 1)
        for _ in range(self.n_steps):
            update = self.update(receive(z))
            if self.relu_output:
                update = torch.relu(update)
            z = z + update if self.keep_own else update
        return z
