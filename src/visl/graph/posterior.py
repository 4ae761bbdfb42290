"""The posterior over directed edges, some of them fixed by prior knowledge."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visl.graph.acyclicity import project_to_dag


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

    @staticmethod
    def choose_graph(probabilities: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
        """The acyclic graph of edges above the threshold.  (M, M) -> (M, M)"""
        return project_to_dag(probabilities, threshold)

    @staticmethod
    def edges_above(probabilities: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
        """Each for itself, both directions of a pair if both are: what the paper's tables score."""
        return probabilities > threshold

    def kl(self) -> Tensor:
        """KL(q(G) || p(G)), summed over the open edges; a fixed edge adds 0.  (K,)"""
        q, p = torch.sigmoid(self.logits), self.prior.clamp(1e-6, 1 - 1e-6)
        log_q, log_not_q = nn.functional.logsigmoid(self.logits), nn.functional.logsigmoid(-self.logits)
        kl = q * (log_q - p.log()) + (1 - q) * (log_not_q - (1 - p).log())
        return torch.where(self.learned, kl, 0.0).sum((-2, -1))


class DecidedPosterior(nn.Module):
    """q(G) in which i -> j and j -> i exclude each other: a pair is joined with p_ij + p_ji. Not learned by gradients,
    but decided by exact fits; until then, and where prior knowledge is hard, it is the prior. A required edge also
    rules out its reverse. (Samples, along which messages run, draw each direction for itself.)
    """

    prior: Tensor  # (K, M, M), 0 on the diagonal and against required edges
    decided: Tensor  # (K, M, M)

    def __init__(self, prior: Tensor) -> None:
        """prior: (K, M, M)"""
        super().__init__()
        closed = torch.eye(prior.shape[-1], dtype=torch.bool) | (prior.mT == 1)
        self.register_buffer("prior", prior.masked_fill(closed, 0.0))
        self.register_buffer("decided", self.prior.clone())

    @property
    def learned(self) -> Tensor:
        """(K, M, M) bool: the edges that prior knowledge leaves open."""
        return (self.prior > 0) & (self.prior < 1)

    def probabilities(self) -> Tensor:
        """(K, M, M) [from, to]"""
        return torch.where(self.learned, self.decided.clamp(max=1 - 1e-6), self.prior)

    def adjacency(self) -> Tensor:
        """(K, M, M), symmetric: probability that the pair is joined in either direction."""
        probabilities = self.probabilities()
        return probabilities + probabilities.mT

    def soften(self, uniform: Tensor) -> Tensor:
        """Graphs, 0 or 1 at every edge, drawn independently, from uniform noise.  (..., K, M, M), the same"""
        drawn = (uniform < self.decided).to(self.prior.dtype)
        return torch.where(self.learned, drawn, self.prior)

    @staticmethod
    def choose_graph(probabilities: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
        """Acyclic: a pair is joined if p_ij + p_ji is above the threshold, in the likelier direction.  (M, M), the same

        Pairs are joined from the most to the least probable; one that would close a cycle is left out.
        """
        pair = probabilities + probabilities.T
        likelier = (probabilities > probabilities.T) | np.triu(probabilities == probabilities.T, k=1)
        return project_to_dag(np.where((pair > threshold) & likelier, probabilities, 0.0), 0.0)

    edges_above = choose_graph  # its two directions are one question

    def kl(self) -> Tensor:
        """KL(q(G) || p(G)) as if edges were independent, summed over the open ones.  (K,)"""
        q, p = self.probabilities().clamp(1e-6, 1 - 1e-6), self.prior.clamp(1e-6, 1 - 1e-6)
        kl = q * (q.log() - p.log()) + (1 - q) * ((1 - q).log() - (1 - p).log())
        return torch.where(self.learned, kl, 0.0).sum((-2, -1))
