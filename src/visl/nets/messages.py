"""Message passing between the latent vectors of the groups, along the edges of a graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visl.nets.kernels import pairwise_relu_sum
from visl.nets.layers import Mlp, uniform_parameter


class EdgeMessages(nn.Module):
    """sum_k E[k, i] MLP([z_k, z_i]) for an MLP with one hidden layer, without a matrix product on any edge.

    MLP([z_k, z_i]) = W2 relu(U z_k + V z_i + b1) + b2, so the sum is
    W2 (sum_k E[k, i] relu(U z_k + V z_i + b1)) + b2 sum_k E[k, i]: exact, not an approximation.
    """

    def __init__(self, dim: int, rng: torch.Generator) -> None:
        super().__init__()
        self.from_sender = uniform_parameter((dim, dim), 2 * dim, rng)  # U
        self.from_receiver = uniform_parameter((dim, dim), 2 * dim, rng)  # V
        self.hidden_bias = uniform_parameter((dim,), 2 * dim, rng)  # b1
        self.output = uniform_parameter((dim, dim), dim, rng)  # W2
        self.output_bias = uniform_parameter((dim,), dim, rng)  # b2

    def forward(self, z: Tensor, edges: Tensor) -> Tensor:
        """z: (..., B, M, d), edges: (..., M, M) [from, to] -> what each node receives, (..., B, M, d)"""
        hidden = pairwise_relu_sum(z @ self.from_sender, z @ self.from_receiver + self.hidden_bias, edges)
        total_weight = edges.sum(-2)[..., None, :, None]  # (..., 1, M, 1)
        return hidden @ self.output + total_weight * self.output_bias


class MessagePassing(nn.Module):
    """T rounds of z_i <- MLP_e2n(sum_k G[k, i] h_f(k -> i)  [+ sum_k G[i, k] h_b(i -> k)]).

    The bracket is the backward flow, child to parent, of stage 2: h_b(i -> k) = MLP_b([z_i, z_k]) is what the edge
    i -> k lets flow back from k to i. With the edges reversed it is the same sum as the forward one.

    keep_own: z_i <- z_i + MLP_e2n(...) instead, so that a node without parents still knows its own value.
    """

    def __init__(self, dim: int, n_steps: int, rng: torch.Generator, *, keep_own: bool = False) -> None:
        super().__init__()
        self.n_steps, self.keep_own = n_steps, keep_own
        self.forward_messages = EdgeMessages(dim, rng)
        self.backward_messages = EdgeMessages(dim, rng)
        self.update = Mlp(dim, dim, dim, rng)

    def forward(self, z: Tensor, edges: Tensor, *, backward: bool) -> Tensor:
        """z: (..., B, M, d), edges: (..., M, M) [from, to] -> (..., B, M, d)"""
        for _ in range(self.n_steps):
            received = self.forward_messages(z, edges)
            if backward:
                received = received + self.backward_messages(z, edges.mT)
            z = z + self.update(received) if self.keep_own else self.update(received)
        return z
