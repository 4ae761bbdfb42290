"""The generative model: a batch of rows in, named loss terms or read-outs out. It never prints or saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from visl.config import IMPUTE, Config, Phase, check_together, default_edge_probability
from visl.graph.acyclicity import dag_penalty
from visl.graph.posterior import DecidedPosterior, EdgePosterior
from visl.group_fits import counts, fits_find_graph
from visl.nets.conditionals import Conditionals
from visl.nets.encoder import Encoder
from visl.nets.guess import Guess, LinearGuess, feature_widths
from visl.nets.layers import Generators, uniform_parameter
from visl.nets.layout import Cells
from visl.nets.messages import MessagePassing
from visl.nets.readout import GuessAt, KindOutput, ReadOut
from visl.nets.tails import LongTails
from visl.schema import Schema

# Between few columns messages find what is linear by themselves, and a linear guess misleads them; with many features
# its work, which grows with their cube, would take most of the time.
FEWEST_FEATURES, MOST_FEATURES = 20, 400


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

    centre: Tensor  # (K, D) of the scaled values, which all networks see standardised by it ...
    spread: Tensor  # (K, D) ... and this
    deviation_scale: Tensor  # (K, D) what deviations of mixtures are multiplied by: see `calibration`
    noise_variance: Tensor  # (K, D) of continuous draws, scaled values, beyond that of their components
    level_temperature: Tensor  # (K,) what logarithms of levels' probabilities are divided by: see `calibration`

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
        prior = prior.expand(K, M, M).clone()
        self.tails: LongTails | None = None  # of the columns, as exact fits see them; None: the graph is learned
        self.edges: EdgePosterior | DecidedPosterior
        if fits_graph(schema, config):
            self.edges, self.tails = DecidedPosterior(prior), LongTails(K, len(schema.columns))
        else:
            at_first = torch.tensor([c.initial_edge_probability or default_edge_probability(M) for c in configs])
            temperature = torch.tensor([c.edge_temperature for c in configs])
            self.edges = EdgePosterior(prior, at_first, temperature, absent_below=config.absent_below)
        self.guess: LinearGuess | None = None
        n_features = int(feature_widths(schema).sum())
        if config.linear_guess and self.fitted and FEWEST_FEATURES <= n_features <= MOST_FEATURES:
            self.guess = LinearGuess(schema, K)
        # As if every column were a group of several: then it has networks of its own.
        form = schema if config.shared_networks else replace(schema, grouped=True)
        self.encoder = Encoder(
            form, d, rngs, mark_observed=config.mark_observed, n_knots=config.n_knots, guess=self.guess
        )
        self.messages = MessagePassing(
            d, config.message_steps, rngs, keep_own=config.keep_own, relu_output=config.relu_messages
        )
        # What tells the groups apart where networks are shared: without it only the graph does.  (K, M, d)
        self.group_embedding = uniform_parameter((M, d), d, rngs) if config.group_embeddings else None
        self.readout = ReadOut(
            form,
            d,
            config.continuous_variance,
            rngs,
            n_components=config.mixture_components,
            with_guess=self.guess is not None,
        )
        # Fitted after training: see `conditional_fit`.
        self.conditionals: Conditionals | None = None
        if self.fitted and config.polishing_sweeps and Conditionals.possible(schema):
            self.conditionals = Conditionals(schema, K)
        D = len(schema.columns)
        noise = config.continuous_variance if config.mixture_components == 1 else 0.0
        self.register_buffer("centre", torch.zeros(K, D))
        self.register_buffer("spread", torch.ones(K, D))
        self.register_buffer("deviation_scale", torch.ones(K, D))
        self.register_buffer("noise_variance", torch.full((K, D), noise))
        self.register_buffer("level_temperature", torch.ones(K))

    @property
    def n_members(self) -> int:
        return len(self.configs)

    @property
    def standardises(self) -> bool:
        """Whether networks see standardised values; fits always do, since variances would tell directions."""
        return self.config.standardise or self.fitted

    @property
    def fitted(self) -> bool:
        """Whether exact fits find the graph; else stage 1 learns it."""
        return isinstance(self.edges, DecidedPosterior)

    @property
    def form(self) -> dict[str, bool]:
        """How the graph is found, as `Config.stage_epochs` asks for it.

        Levels alone are soon learned in stage 2, and so is what linear guesses miss.
        """
        return {"fitted": self.fitted, "soon": self.fitted and (counts(self.schema) or self.guess is not None)}

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.config.phases(**self.form)

    @property
    def epochs(self) -> int:
        """Of training, all phases."""
        return self.phases[-1].end

    def members(self) -> list[VislModel]:
        """Each member as a model of its own, with copies of its tensors; a single one is this model itself."""
        if self.n_members == 1:
            return [self]
        return [self.some(slice(k, k + 1)) for k in range(self.n_members)]

    def some(self, members: slice) -> VislModel:
        """These members as a model of their own, with copies of their tensors."""
        configs = self.configs[members]
        model = VislModel(self.schema, configs, self.edges.prior[members].cpu(), [torch.Generator()] * len(configs))
        model.to(self.noise_variance.device, self.noise_variance.dtype)
        model.load_state_dict({name: tensor[members] for name, tensor in self.state_dict().items()})
        return model

    def forward(
        self,
        cells: Cells,
        shown: Tensor | None,
        noise: Tensor,
        uniform: Tensor,
        *,
        phase: Phase,
        graph: GraphTerms | None = None,
        own: Tensor | None = None,
    ) -> ElboTerms:
        """The terms of a batch's objective, the ELBO.

        shown: (cells,) 1 where the encoder may look; every cell is scored, the hidden ones too.
        noise: (K, B, M, d) standard normal, of the latent vectors; uniform: (K, M, M) on [0, 1], of the edges.
        graph: the graph's terms, if they are known already; own: (K * B, F), see `LinearGuess`.
        """
        cells, backward = self.standardised(cells), phase.name == IMPUTE
        guess = self.guess(cells, shown, own) if self.guess is not None and backward else None
        mean, log_variance = self.encoder(cells, shown, guess)
        edges = self.edges.soften(uniform)
        z = self._latent(mean, log_variance, noise)
        along = self._message_weights(edges) if backward else edges
        z = self.messages(z[:, None], along[:, None], backward=backward)
        return ElboTerms(
            nll=-self.readout.objective(z, cells, self._guess_at(guess)).view(self.n_members, -1).sum(1),
            kl_latent=gaussian_kl(mean, log_variance).sum((1, 2, 3)),
            graph=self.graph_terms(edges) if graph is None else graph,
            n_rows=mean.shape[1],
        )

    def standardised(self, cells: Cells, member: int | None = None) -> Cells:
        """As the networks see them, or the given member's, of a batch of its own; discrete cells stay as they are."""
        centre, spread = (x.flatten() if member is None else x[member] for x in (self.centre, self.spread))
        centre, spread = centre[cells.column], spread[cells.column]
        return replace(cells, value=(cells.value - centre) / spread)

    def for_fits(self, cells: Cells) -> Cells:
        """As exact fits see them."""
        assert self.tails is not None
        return self.tails(self.standardised(cells))

    def components(self, output: KindOutput) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights, means and variances of continuous read-outs, on the scaled values; each (S, cells, C)."""
        log_weight, mean, variance = output.likelihood.components(output.units)
        of_columns = (self.centre, self.spread, self.deviation_scale)
        centre, spread, scale = (x.flatten()[output.column][:, None] for x in of_columns)
        return log_weight, centre + spread * mean, (spread * scale).square() * variance

    def log_levels(self, output: KindOutput) -> Tensor:
        """Log-probabilities of discrete read-outs, (S, cells, levels), of a model of one member."""
        logs = output.likelihood.log_probabilities(output.units, output.column)
        return (logs / self.level_temperature).log_softmax(-1)

    def graph_terms(self, edges: Tensor) -> GraphTerms:
        """edges: (K, M, M), a sample"""
        probabilities = self.edges.probabilities()
        penalised = edges if self.config.acyclicity_on == "sample" else probabilities
        return GraphTerms(self.edges.kl(), dag_penalty(penalised))

    def frozen_graph_terms(self) -> GraphTerms | None:
        """The graph's terms where they are the same in every step, because q(G) is no longer learned; else None."""
        if any(p.requires_grad for p in self.edges.parameters()) or self.config.acyclicity_on == "sample":
            return None
        return self.graph_terms(self.edges.probabilities())

    def draw(self, cells: Cells, asked: tuple[Tensor, Tensor], noise: Tensor, edges: Tensor) -> Iterator[KindOutput]:
        """Read-outs of the asked (row, column) cells for every draw, in stage 2's form: units are (S, cells, U).

        Of a model of one member. noise: (S, B, M, d) or (S, 1, M, d) standard normal; edges: (S, M, M).
        """
        cells = self.standardised(cells)
        guess = self.guess(cells) if self.guess is not None and self.uses_backward else None
        mean, log_variance = self.encoder(cells, guess=guess)
        z = self._latent(mean, log_variance, noise)
        along = self._message_weights(edges) if self.uses_backward else edges
        z = self.messages(z[None], along[None], backward=self.uses_backward)
        return self.readout(z, *asked, guess_at=self._guess_at(guess))

    def _guess_at(self, guess: Guess | None) -> GuessAt | None:
        return None if guess is None or self.guess is None else partial(self.guess.of_cells, guess)

    def _message_weights(self, edges: Tensor) -> Tensor:
        """Along which pairs messages run in stage 2: edges, and weakly pairs that none joins.  (..., M, M), the same

        A pair that no edge joins may still tell about each other: through a common cause that is no column, or an edge
        too weak to be seen. Both ways have messages, so either direction serves. A linear guess tells all that at once.
        """
        weight: float | Tensor = self.config.unjoined_weight
        if not weight:
            return edges
        if self.guess is not None:
            weight = weight * (~self.guess.is_fitted)[:, None, None]
        pairs = torch.ones_like(edges).triu(1)
        return edges + weight * pairs * (1 - edges).clamp(min=0) * (1 - edges.mT).clamp(min=0)

    def _latent(self, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        """A draw of q(Z), as the messages start from it."""
        z = mean + noise * (0.5 * log_variance).exp()
        return z if self.group_embedding is None else z + self.group_embedding[:, None]

    @property
    def polishes(self) -> bool:
        """Whether gaps are drawn anew by the fits of every member's graph."""
        return self.conditionals is not None and bool(self.conditionals.trusted.all())

    @property
    def uses_backward(self) -> bool:
        """Whether there is a stage 2, in which its networks are trained."""
        return self.phases[-1].stage == 2


def fits_graph(schema: Schema, config: Config) -> bool:
    """Whether exact fits find the graph."""
    return config.structure != "latent" and fits_find_graph(schema)


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, exp(log_variance)) || N(0, 1)) of every number."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
