"""Message passing as the formula reads, an MLP on every concatenated pair: what the package is measured against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from visl.nets import messages
from visl.nets.kernels import plain
from visl.nets.messages import EdgeMessages


def _naive_over(self: EdgeMessages, edges: Tensor, n_ways: int) -> Callable[[Tensor], Tensor]:
    """As `EdgeMessages.over`, for one member and one draw."""
    weights = [edges[0, 0], edges[0, 0].mT][:n_ways]

    def receive(z: Tensor) -> Tensor:
        _, _, B, M, d = z.shape
        senders, receivers = z[0, 0, :, :, None].expand(B, M, M, d), z[0, 0, :, None].expand(B, M, M, d)
        received = []
        for way, weight in enumerate(weights):
            pairs = torch.cat([senders, receivers], dim=-1)
            first = torch.cat([self.node[0, :, way, 0], self.node[0, :, way, 1]])  # (2d, d)
            message = torch.relu(pairs @ first + self.hidden_bias[0, way]) @ self.output[0, way]
            message = message + self.output_bias[0, way]
            received.append((message * weight[None, :, :, None]).sum(1))
        return sum(received)[None, None]

    return receive


@contextmanager
def form(name: str) -> Iterator[None]:
    """Message passing in the named form: "naive", "factored" (plain PyTorch, all pairs at once) or "fused"."""
    over, reduction = EdgeMessages.over, messages.reduction_over
    try:
        if name == "naive":
            EdgeMessages.over = _naive_over  # type: ignore[method-assign]
        elif name == "factored":
            messages.reduction_over = lambda edges, n_ways: lambda nodes: plain.pairwise_relu_sum(nodes, edges)
        yield
    finally:
        EdgeMessages.over, messages.reduction_over = over, reduction  # type: ignore[method-assign]
