"""The posterior over directed edges: independent Bernoulli variables, some of them fixed by prior knowledge."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EdgePosterior(nn.Module):
    """q(G): every edge i -> j present with its own learned probability, in each of K members.

    A prior of 0 or 1 is hard: that edge's probability is exactly 0 or 1, in the posterior and in every sample. So is
    the diagonal's 0. Everything reads [from, to].
    """

    logits: nn.Parameter  # (K, M, M)
    prior: Tensor  # (K, M, M), 0 on the diagonal
    temperature: Tensor  # (K, 1, 1)

    def __init__(
        self, prior: Tensor, initial_probability: Tensor, temperature: Tensor, *, absent_below: float = 0.0
    ) -> None:
        """prior: (K, M, M); initial_probability, temperature: (K,)"""
        super().__init__()
        M = prior.shape[-1]
        self.absent_below = absent_below
        self.register_buffer("prior", prior.masked_fill(torch.eye(M, dtype=torch.bool), 0.0))
        self.register_buffer("temperature", temperature[:, None, None], persistent=False)
        self.logits = nn.Parameter(torch.logit(initial_probability)[:, None, None].repeat(1, M, M))

    @property
    def learned(self) -> Tensor:
        """(K, M, M) bool: the edges that prior knowledge leaves open."""
        return (self.prior > 0) & (self.prior < 1)

    def probabilities(self) -> Tensor:
        """(K, M, M) [from, to]"""
        # A learned edge is never quite certain, even where float32 would round it to 1: only knowledge is.
        return torch.where(self.learned, torch.sigmoid(self.logits).clamp(max=1 - 1e-6), self.prior)

    def adjacency(self) -> Tensor:
        """(K, M, M), symmetric: probability that the pair is joined in either direction."""
        absent = 1 - self.probabilities()
        return 1 - absent * absent.mT

    def soften(self, uniform: Tensor) -> Tensor:
        """Gumbel-softmax (for two outcomes: binary concrete) samples from uniform noise.  (..., K, M, M), the same

        sigmoid((logit p + logistic noise) / temperature); the logistic noise is the difference of two Gumbel ones.
        An edge that comes out below `absent_below` is absent, exactly 0.
        """
        noise = torch.logit(uniform, eps=1e-6)
        soft = torch.sigmoid((self.logits + noise) / self.temperature)
        if self.absent_below > 0:
            soft = torch.where(soft < self.absent_below, 0.0, soft)
        return torch.where(self.learned, soft, self.prior)

    def kl(self) -> Tensor:
        """KL(q(G) || p(G)), summed over the open edges; a fixed edge adds 0.  (K,)"""
        q, p = torch.sigmoid(self.logits), self.prior.clamp(1e-6, 1 - 1e-6)
        log_q, log_not_q = nn.functional.logsigmoid(self.logits), nn.functional.logsigmoid(-self.logits)
        kl = q * (log_q - p.log()) + (1 - q) * (log_not_q - (1 - p).log())
        return torch.where(self.learned, kl, 0.0).sum((-2, -1))
