"""The posterior over directed edges, some of them fixed by prior knowledge."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visl.graph.acyclicity import project_to_dag

GONE = 1e-3
TINY = 1e-20  # an edge that is absent, yet not for the kernels, which give none to an edge of exactly 0


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


class DirectedPosterior(nn.Module):
    """q(G) in which i -> j and j -> i exclude each other:

    p_ij = sigmoid(existence_ij) sigmoid(orientation_ij - orientation_ji)

    Samples are hard graphs whose gradient is that of their soft form (straight-through). Where `decided` is not
    negative the probability is no longer learned: it is that number, and edges are drawn with it independently.

    A prior of 0 or 1 is hard, as in `EdgePosterior`; a required edge also rules out its reverse.
    """

    existence: nn.Parameter  # (K, M, M)
    orientation: nn.Parameter  # (K, M, M)
    prior: Tensor  # (K, M, M), 0 on the diagonal and against required edges
    decided: Tensor  # (K, M, M)

    def __init__(self, prior: Tensor, initial_existence: Tensor, *, dropout: float) -> None:
        """prior: (K, M, M); initial_existence: (K,); dropout: share of the edges that samples leave out"""
        super().__init__()
        M = prior.shape[-1]
        self.dropout = dropout
        closed = torch.eye(M, dtype=torch.bool) | (prior.mT == 1)
        self.register_buffer("prior", prior.masked_fill(closed, 0.0))
        self.register_buffer("decided", torch.full_like(prior, -1.0))
        self.existence = nn.Parameter(torch.logit(initial_existence)[:, None, None].repeat(1, M, M))
        self.orientation = nn.Parameter(torch.zeros_like(self.existence))

    @property
    def learned(self) -> Tensor:
        """(K, M, M) bool: the edges that prior knowledge leaves open."""
        return (self.prior > 0) & (self.prior < 1)

    def probabilities(self) -> Tensor:
        """(K, M, M) [from, to]"""
        now = torch.where(self.decided >= 0, self.decided, self.found())
        return torch.where(self.learned, now.clamp(max=1 - 1e-6), self.prior)

    def found(self) -> Tensor:
        """(K, M, M) what was learned by gradients, whatever has been decided since."""
        return torch.sigmoid(self.existence) * torch.sigmoid(self.orientation - self.orientation.mT)

    def adjacency(self) -> Tensor:
        """(K, M, M), symmetric: probability that the pair is joined in either direction."""
        probabilities = self.probabilities()
        return probabilities + probabilities.mT

    def soften(self, uniform: Tensor) -> Tensor:
        """Graphs, 0 or 1 at every edge, from uniform noise.  (..., K, M, M), the same

        A pair needs two numbers: the one above the diagonal chooses its direction, the one below whether it is joined.
        An absent edge that is still learned is not quite 0: then kernels give it its gradient. One that has become as
        improbable as GONE is, and takes no more work.
        """
        upper = torch.logit(uniform, eps=1e-6).triu(1)
        lower = torch.logit(uniform, eps=1e-6).tril(-1)
        direction = torch.sigmoid(self.orientation - self.orientation.mT + upper - upper.mT)
        kept = torch.sigmoid(self.existence) * (1 - self.dropout)
        joined = torch.sigmoid(torch.logit(kept, eps=1e-6) + lower + lower.mT)
        soft = direction * joined
        absent = torch.where(self.found() < GONE, 0.0, TINY)
        hard = torch.where((direction > 0.5) & (joined > 0.5), 1.0, absent)
        drawn = (uniform < self.decided).to(soft.dtype)
        sample = torch.where(self.decided >= 0, drawn, hard + (soft - soft.detach()))
        return torch.where(self.learned, sample, self.prior)

    @staticmethod
    def choose_graph(probabilities: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
        """Acyclic: a pair is joined if p_ij + p_ji is above the threshold, in the likelier direction.  (M, M), the same

        Pairs are joined from the most to the least probable; one that would close a cycle is left out.
        """
        pair = probabilities + probabilities.T
        likelier = (probabilities > probabilities.T) | np.triu(probabilities == probabilities.T, k=1)
        return project_to_dag(np.where((pair > threshold) & likelier, probabilities, 0.0), 0.0)

    edges_above = choose_graph  # its two directions are one question

    def settle(self, dropout: float) -> None:
        """From now on the graph is the most probable one. Samples leave out this share of its edges, and join as large
        a share of the pairs that are two edges apart: a parent may have been taken for its own parent.
        """
        graphs = self.most_probable()
        further = (graphs.astype(int) @ graphs > 0) & ~graphs
        share = np.where(graphs, 1 - dropout, np.where(further, 0.5, 0.0))
        self.decided.copy_(torch.from_numpy(np.where(self.learned.cpu().numpy(), share, graphs)))

    def most_probable(self) -> NDArray[np.bool_]:
        """(K, M, M), acyclic: by what was learned, whatever has been decided since."""
        with torch.no_grad():
            found = torch.where(self.learned, self.found(), self.prior).cpu().double().numpy()
        return np.stack([self.choose_graph(p, 0.5) for p in found])

    def kl(self) -> Tensor:
        """KL(q(G) || p(G)) as if edges were independent, summed over the open ones.  (K,)"""
        q, p = self.probabilities().clamp(1e-6, 1 - 1e-6), self.prior.clamp(1e-6, 1 - 1e-6)
        kl = q * (q.log() - p.log()) + (1 - q) * ((1 - q).log() - (1 - p).log())
        return torch.where(self.learned, kl, 0.0).sum((-2, -1))
