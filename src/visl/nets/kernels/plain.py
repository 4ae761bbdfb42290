"""The pairwise reduction in plain PyTorch: the fallback on every device, and what the fused kernels are tested by."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_relu_sum(sender: Tensor, receiver: Tensor, edges: Tensor) -> Tensor:
    """Holds all pairs at once: O(B M^2 h) memory."""
    pairs = torch.relu(sender[..., :, None, :] + receiver[..., None, :, :])  # (..., B, from, to, h)
    return torch.einsum("...bkih,...ki->...bih", pairs, edges)
