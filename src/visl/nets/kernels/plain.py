"""The pairwise reduction in plain PyTorch: the fallback on every device, and what the fused kernels are tested by."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_relu_sum(nodes: Tensor, edges: Tensor) -> Tensor:
    """Holds all pairs at once: O(B M^2 h) memory."""
    present = torch.where(edges != 0, edges, 0.0)  # the gradient of an absent edge is 0
    ways = [present, present.mT][: nodes.shape[3]]
    return torch.stack([_one_way(nodes[:, :, :, way], weights) for way, weights in enumerate(ways)], dim=3)


def _one_way(nodes: Tensor, edges: Tensor) -> Tensor:
    """(R, B, M, 2, h), (R, M, M) -> (R, B, M, h)"""
    sender, receiver = nodes.unbind(3)
    pairs = torch.relu(sender[:, :, :, None] + receiver[:, :, None])  # (R, B, from, to, h)
    return torch.einsum("rbkih,rki->rbih", pairs, edges)
