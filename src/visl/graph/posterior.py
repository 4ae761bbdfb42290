"""The posterior over directed edges: independent Bernoulli variables, some of them fixed by prior knowledge."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EdgePosterior(nn.Module):
    """q(G): every edge i -> j present with its own learned probability.

    A prior of 0 or 1 is hard: that edge's probability is exactly 0 or 1, in the posterior and in every sample. So is
    the diagonal's 0. Everything reads [from, to].
    """

    logits: nn.Parameter  # (M, M)
    prior: Tensor  # (M, M), 0 on the diagonal

    def __init__(self, prior: Tensor, initial_probability: float, temperature: float) -> None:
        super().__init__()
        M = prior.shape[-1]
        self.temperature = temperature
        prior = prior.masked_fill(torch.eye(M, dtype=torch.bool), 0.0)
        self.register_buffer("prior", prior)
        self.logits = nn.Parameter(torch.logit(torch.full((M, M), initial_probability)))

    @property
    def learned(self) -> Tensor:
        """(M, M) bool: the edges that prior knowledge leaves open."""
        return (self.prior > 0) & (self.prior < 1)

    def probabilities(self) -> Tensor:
        """(M, M) [from, to]"""
        # A learned edge is never quite certain, even where float32 would round it to 1: only knowledge is.
        return torch.where(self.learned, torch.sigmoid(self.logits).clamp(max=1 - 1e-6), self.prior)

    def adjacency(self) -> Tensor:
        """(M, M), symmetric: probability that the pair is joined in either direction."""
        absent = 1 - self.probabilities()
        return 1 - absent * absent.mT

    def sample(self, rng: torch.Generator) -> Tensor:
        """One sample of the graph, soft: every edge in [0, 1].  (M, M)"""
        logits = self.logits
        return self.soften(torch.rand(logits.shape, generator=rng, device=logits.device, dtype=logits.dtype))

    def soften(self, uniform: Tensor) -> Tensor:
        """Gumbel-softmax (for two outcomes: binary concrete) samples from uniform noise.  (..., M, M) -> (..., M, M)

        sigmoid((logit p + logistic noise) / temperature); the logistic noise is the difference of two Gumbel ones.
        """
        noise = torch.logit(uniform, eps=1e-6)
        return torch.where(self.learned, torch.sigmoid((self.logits + noise) / self.temperature), self.prior)

    def kl(self) -> Tensor:
        """KL(q(G) || p(G)), summed over the open edges; a fixed edge adds 0."""
        q, p = torch.sigmoid(self.logits), self.prior.clamp(1e-6, 1 - 1e-6)
        log_q, log_not_q = nn.functional.logsigmoid(self.logits), nn.functional.logsigmoid(-self.logits)
        kl = q * (log_q - p.log()) + (1 - q) * (log_not_q - (1 - p).log())
        return torch.where(self.learned, kl, 0.0).sum()
