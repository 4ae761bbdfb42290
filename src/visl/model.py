"""The generative model: a batch of rows in, named loss terms or read-outs out. It never prints or saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from visl.config import Config, check_together, default_edge_probability
from visl.graph.acyclicity import dag_penalty
from visl.graph.posterior import EdgePosterior
from visl.nets.encoder import Encoder
from visl.nets.layers import Generators, uniform_parameter
from visl.nets.layout import Cells
from visl.nets.messages import MessagePassing
from visl.nets.readout import KindOutput, ReadOut
from visl.schema import Schema


@dataclass(frozen=True)
class LossWeights:
    """What the members' terms count for, relative to the likelihood summed over rows and columns; each (K,)."""

    kl_latent: Tensor
    kl_edges: Tensor  # of KL(G), once for the whole table
    acyclicity: Tensor  # once for the whole table


@dataclass(frozen=True)
class GraphTerms:
    """The terms that count once for the whole data set; each (K,)."""

    kl_edges: Tensor
    acyclicity: Tensor


@dataclass(frozen=True)
class ElboTerms:
    """Every term of the objective, for one batch; each (K,), one number for each member."""

    nll: Tensor  # summed over the batch's observed cells; a gap adds nothing
    kl_latent: Tensor  # summed over the batch's rows
    graph: GraphTerms
    n_rows: int  # of each member

    def loss(self, weights: LossWeights, n_rows_total: int) -> Tensor:
        """Summed over the batch's rows, so that the gradients of batches add up to that of the whole table.  (K,)"""
        rows = self.nll + weights.kl_latent * self.kl_latent
        graph = weights.kl_edges * self.graph.kl_edges + weights.acyclicity * self.graph.acyclicity
        return rows + self.n_rows / n_rows_total * graph


class VislModel(nn.Module):
    """p(X | Z, G) p(Z) p(G) with the amortised posterior q(Z | X) q(G). Each part can be replaced by another.

    K members, one for each generator, are models of their own that are computed together. Every tensor of the state
    has the members first.
    """

    noise_variance: Tensor  # (K, D) spread of continuous draws about their mean, scaled values

    def __init__(
        self, schema: Schema, configs: Config | Sequence[Config], prior: Tensor, rngs: torch.Generator | Generators
    ) -> None:
        """prior: (M, M) or (K, M, M) probabilities [from, to]. A single config or generator is that of one member."""
        super().__init__()
        rngs = [rngs] if isinstance(rngs, torch.Generator) else rngs
        configs = [configs] * len(rngs) if isinstance(configs, Config) else configs
        check_together(configs)
        K, M, config = len(rngs), len(schema.groups), configs[0]
        d = config.latent_dim
        self.schema, self.configs, self.config, self.n_groups = schema, tuple(configs), config, M
        self.edges = EdgePosterior(
            prior.expand(K, M, M).clone(),
            torch.tensor([c.initial_edge_probability or default_edge_probability(M) for c in configs]),
            torch.tensor([c.edge_temperature for c in configs]),
            absent_below=config.absent_below,
        )
        # As if every column were a group of several: then it has networks of its own.
        form = schema if config.shared_networks else replace(schema, grouped=True)
        self.encoder = Encoder(form, d, rngs)
        self.messages = MessagePassing(
            d, config.message_steps, rngs, keep_own=config.keep_own, relu_output=config.relu_messages
        )
        # What tells the groups apart where networks are shared: without it only the graph does.  (K, M, d)
        self.group_embedding = uniform_parameter((M, d), d, rngs) if config.group_embeddings else None
        self.readout = ReadOut(form, d, config.continuous_variance, rngs)
        self.register_buffer("noise_variance", torch.full((K, len(schema.columns)), config.continuous_variance))

    @property
    def n_members(self) -> int:
        return len(self.configs)

    def members(self) -> list[VislModel]:
        """Each member as a model of its own, with copies of its tensors; a single one is this model itself."""
        if self.n_members == 1:
            return [self]
        return [self._member(k) for k in range(self.n_members)]

    def _member(self, k: int) -> VislModel:
        member = VislModel(self.schema, self.configs[k], self.edges.prior[k].cpu(), torch.Generator())
        member.to(self.noise_variance.device, self.noise_variance.dtype)
        member.load_state_dict({name: tensor[k : k + 1] for name, tensor in self.state_dict().items()})
        return member

    def forward(
        self,
        cells: Cells,
        shown: Tensor | None,
        noise: Tensor,
        uniform: Tensor,
        *,
        backward: bool,
        graph: GraphTerms | None = None,
    ) -> ElboTerms:
        """The terms of a batch's ELBO.

        shown: (cells,) 1 where the encoder may look; every cell is scored, the hidden ones too.
        noise: (K, B, M, d) standard normal, of the latent vectors; uniform: (K, M, M) on [0, 1], of the edges.
        graph: the graph's terms, if they are known already.
        """
        mean, log_variance = self.encoder(cells, shown)
        edges = self.edges.soften(uniform)
        z = self._latent(mean, log_variance, noise)
        return ElboTerms(
            nll=self._negative_log_likelihood(self.messages(z[:, None], edges[:, None], backward=backward), cells),
            kl_latent=gaussian_kl(mean, log_variance).sum((1, 2, 3)),
            graph=self.graph_terms(edges) if graph is None else graph,
            n_rows=mean.shape[1],
        )

    def graph_terms(self, edges: Tensor) -> GraphTerms:
        """edges: (K, M, M), a sample"""
        penalised = edges if self.config.acyclicity_on == "sample" else self.edges.probabilities()
        return GraphTerms(self.edges.kl(), dag_penalty(penalised))

    def frozen_graph_terms(self) -> GraphTerms | None:
        """The graph's terms where they are the same in every step, because q(G) is no longer learned; else None."""
        if self.edges.logits.requires_grad or self.config.acyclicity_on == "sample":
            return None
        return self.graph_terms(self.edges.probabilities())

    def _negative_log_likelihood(self, z: Tensor, cells: Cells) -> Tensor:
        """(K,)"""
        outputs = list(self.readout(z, cells.row, cells.column, cells.padding))
        logs = [o.likelihood.log_prob(o.units, o.column, cells.value[o.cells]).squeeze(0) for o in outputs]
        log_prob = logs[0]
        if len(outputs) > 1:
            log_prob = log_prob.new_zeros(len(cells.value))
            for output, log in zip(outputs, logs, strict=True):
                log_prob = log_prob.index_copy(0, output.cells, log)
        if cells.padding is not None:
            log_prob = log_prob * cells.padding.real
        return -log_prob.view(self.n_members, -1).sum(1)

    def draw(self, cells: Cells, asked: tuple[Tensor, Tensor], noise: Tensor, edges: Tensor) -> Iterator[KindOutput]:
        """Read-outs of the asked (row, column) cells for every draw, in stage 2's form: units are (S, cells, U).

        Of a model of one member. noise: (S, B, M, d) or (S, 1, M, d) standard normal; edges: (S, M, M).
        """
        mean, log_variance = self.encoder(cells)
        z = self._latent(mean, log_variance, noise)
        return self.readout(self.messages(z[None], edges[None], backward=self.uses_backward), *asked)

    def _latent(self, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        """A draw of q(Z), as the messages start from it."""
        z = mean + noise * (0.5 * log_variance).exp()
        return z if self.group_embedding is None else z + self.group_embedding[:, None]

    @property
    def uses_backward(self) -> bool:
        """Whether stage 2 took place; a single epoch is all stage 1, and its backward messages are untrained."""
        return self.config.stage_epochs[1] > 0


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, exp(log_variance)) || N(0, 1)) of every number."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
