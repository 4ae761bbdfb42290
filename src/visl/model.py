"""The generative model: a batch of rows in, named loss terms or read-outs out. It never prints or saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from visl.config import Config, default_edge_probability
from visl.graph.acyclicity import dag_penalty
from visl.graph.posterior import EdgePosterior
from visl.nets.encoder import Encoder
from visl.nets.layers import uniform_parameter
from visl.nets.layout import Cells
from visl.nets.messages import MessagePassing
from visl.nets.readout import KindOutput, ReadOut
from visl.schema import Schema


@dataclass(frozen=True)
class ElboTerms:
    """Every term of the objective, for one batch."""

    nll: Tensor  # (), summed over the batch's observed cells; a gap adds nothing
    kl_latent: Tensor  # (), summed over the batch's rows
    kl_edges: Tensor  # (), once for the data set
    acyclicity: Tensor  # (), once for the data set
    n_rows: int

    def loss(self, config: Config, *, n_rows_total: int, n_groups: int, acyclicity_weight: float) -> Tensor:
        """Summed over the batch's rows, so that the gradients of batches add up to that of the whole table."""
        rows = self.nll + config.kl_latent_weight * self.kl_latent
        kl_edges_weight = config.kl_edges_weight / (n_groups if config.kl_edges_over_groups else 1)
        graph = kl_edges_weight * self.kl_edges + acyclicity_weight * self.acyclicity
        return rows + self.n_rows / n_rows_total * graph


class VislModel(nn.Module):
    """p(X | Z, G) p(Z) p(G) with the amortised posterior q(Z | X) q(G). Each part can be replaced by another."""

    noise_variance: Tensor  # (D,) spread of continuous draws about their mean, scaled values

    def __init__(self, schema: Schema, config: Config, prior: Tensor, rng: torch.Generator) -> None:
        """prior: (M, M) probabilities [from, to]"""
        super().__init__()
        M, d = len(schema.groups), config.latent_dim
        start = config.initial_edge_probability or default_edge_probability(M)
        self.schema, self.config, self.n_groups = schema, config, M
        self.edges = EdgePosterior(prior, start, config.edge_temperature)
        self.encoder = Encoder(schema, d, rng)
        self.messages = MessagePassing(d, config.message_steps, rng, keep_own=config.keep_own)
        # What tells the groups apart where networks are shared: without it only the graph does.  (M, d)
        self.group_embedding = uniform_parameter((M, d), d, rng) if config.group_embeddings else None
        self.readout = ReadOut(schema, d, config.continuous_variance, rng)
        self.register_buffer("noise_variance", torch.full((len(schema.columns),), config.continuous_variance))

    def elbo_terms(self, cells: Cells, shown: Tensor | None, rng: torch.Generator, *, backward: bool) -> ElboTerms:
        """shown: (cells,) 1 where the encoder may look; every cell is scored, the hidden ones too."""
        mean, log_variance = self.encoder(cells, shown)
        noise = torch.randn(mean.shape, generator=rng, device=mean.device, dtype=mean.dtype)
        edges = self.edges.sample(rng)
        z = self._latent(mean, log_variance, noise)
        penalised = edges if self.config.acyclicity_on == "sample" else self.edges.probabilities()
        return ElboTerms(
            nll=self._negative_log_likelihood(self.messages(z, edges, backward=backward), cells),
            kl_latent=gaussian_kl(mean, log_variance),
            kl_edges=self.edges.kl(),
            acyclicity=dag_penalty(penalised),
            n_rows=cells.n_rows,
        )

    def _negative_log_likelihood(self, z: Tensor, cells: Cells) -> Tensor:
        total = z.new_zeros(())
        for output in self.readout(z, cells.row, cells.column):
            total = total - output.likelihood.log_prob(output.units, output.column, cells.value[output.cells]).sum()
        return total

    def draw(self, cells: Cells, asked: tuple[Tensor, Tensor], noise: Tensor, edges: Tensor) -> Iterator[KindOutput]:
        """Read-outs of the asked (row, column) cells for every draw, in stage 2's form: units are (S, cells, U).

        noise: (S, B, M, d) or (S, 1, M, d) standard normal; edges: (S, M, M).
        """
        mean, log_variance = self.encoder(cells)
        z = self.messages(self._latent(mean, log_variance, noise), edges, backward=self.uses_backward)
        return self.readout(z, *asked)

    def _latent(self, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        """A draw of q(Z), as the messages start from it."""
        z = mean + noise * (0.5 * log_variance).exp()
        return z if self.group_embedding is None else z + self.group_embedding

    @property
    def uses_backward(self) -> bool:
        """Whether stage 2 took place; a single epoch is all stage 1, and its backward messages are untrained."""
        return self.config.stage_epochs[1] > 0


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, exp(log_variance)) || N(0, I)), summed over everything.  -> ()"""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
