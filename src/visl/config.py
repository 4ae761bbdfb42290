"""Every number of the model, its training and its inference, with a name and a source.

Sources: "paper" is the VISL paper; "authors" the weights of its authors' public code, which the paper does not print;
"ours" a choice of this package, with its measurement in docs/decisions/.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from visl.errors import InputError


def check_whole_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} is {value!r}: give a whole number of at least 1")


def _check_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    bounds = (
        (least, lambda limit: value >= limit, "at least"),
        (above, lambda limit: value > limit, "above"),
        (most, lambda limit: value <= limit, "at most"),
        (below, lambda limit: value < limit, "below"),
    )
    try:
        broken = [] if math.isfinite(value) else ["finite"]
        broken += [f"{words} {limit:g}" for limit, holds, words in bounds if limit is not None and not holds(limit)]
    except (TypeError, ValueError):
        broken = ["a number"]
    if broken:
        raise InputError(f"{name} is {value!r}: it must be {' and '.join(broken)}")


STRUCTURES = ("auto", "latent")
SLOWEST = 0.003  # a learning rate that has decayed ends at this share of its start


@dataclass(frozen=True)
class Phase:
    """Epochs in which the same things are learned, in the same way."""

    name: str  # see `Config.phases`
    first: int  # epoch of the whole run
    end: int  # the epoch after its last

    @property
    def stage(self) -> int:
        """1: the graph is learned; 2: it is used to fill gaps."""
        return 2 if self.name == IMPUTE else 1


LATENT, IMPUTE = "latent", "impute"


@dataclass(frozen=True)
class Config:
    # -- size of the model
    latent_dim: int = 32  # d of every z_m, and the width of every hidden layer (paper: 256 to 15; ours: a laptop's)
    message_steps: int = 3  # T, rounds of message passing (paper)
    unjoined_weight: float = 0.3  # in stage 2, of messages between groups that no edge joins (ours); 0: none (paper)
    linear_guess: bool = True  # with single columns, and many of them, gaps start from a Gaussian of all columns (ours)
    keep_own: bool = True  # messages are added to a group's own vector (ours), else they replace it (paper)
    group_embeddings: bool = True  # each group adds a vector of its own to z (ours); the paper has none
    relu_messages: bool = False  # a ReLU after the last layer of messages and updates too (authors): far slower
    mark_observed: bool = True  # the encoder is told which cells are gaps (ours), else only what enters for them
    standardise: bool = True  # networks see values less their column's mean, in units of its deviation (ours)
    n_knots: int = 24  # places where the curve of a continuous value may bend at once (ours); 0: none (paper)
    shared_networks: bool = False  # without groups one encoder and one read-out serve all columns (paper's short form)

    # -- how the graph is found
    # "latent": stage 1 learns it from the paper's latent vectors; "auto": exact fits find it, without any network, if
    # every group is a single column (ours), else as "latent".
    structure: str = "auto"

    # -- prior and posterior
    edge_prior: float = 0.05  # prior probability of each edge (paper)
    initial_edge_probability: float | None = None  # None: `default_edge_probability`, falls with the number of groups
    edge_temperature: float = 0.5  # of the Gumbel-softmax samples of the graph (paper)
    absent_below: float = 1e-4  # a sampled edge below this is absent, and costs no work (ours); 0: none is (paper)
    mixture_components: int = (
        5  # a continuous value is a mixture of so many Gaussians (ours); 1: a single one, with ...
    )
    continuous_variance: float = 0.02  # ... this variance, on values scaled to [0, 1] (paper)

    # -- weights of the loss, relative to the likelihood summed over rows and columns
    kl_latent_weight: float = 1e-5  # (ours; authors: 0.001)
    # The same in stage 2 of the latent form, if there are only levels: networks learn them by heart without it (ours).
    # None, or with numbers, which have to be told exactly, or where fits find the graph: as in stage 1.
    kl_imputing_weight: float | None = 0.3
    kl_edges_weight: float = 1.0  # of KL(G), once for the whole table (the ELBO's own)
    kl_edges_over_groups: bool = False  # divide that weight by the number of groups (authors, with weight 50)
    acyclicity_weight: float = 5.0  # once for the whole table (ours; authors: 50)
    acyclicity_start_epoch: int = 5  # the acyclicity term is off before this epoch (authors) ...
    acyclicity_ramp: float = 0.1  # ... and grows linearly over this share of the epochs (authors)
    acyclicity_on: str = "probabilities"  # "probabilities" (authors) or "sample" (paper)

    # -- training
    n_members: int = 1  # models from different seeds, trained side by side, whose predictions are pooled (ours)
    epochs: int = 300  # half of them for each stage (paper); see `stage_epochs` (ours)
    batch_size: int = 100  # rows (paper) ...
    min_batches: int = 10  # ... but fewer in a small table, so that a pass over it has this many steps (ours)
    epoch_steps: int = 40  # of an epoch, at least, where fits find the graph: small tables are passed over again (ours)
    learning_rate: float = 3e-3  # Adam (ours; paper: 1e-3)
    edge_learning_rate: float | None = 0.03  # of the edge posterior (ours); None: learning_rate (paper)
    weight_decay: float = 0.0  # of networks, in stage 2 and in the paper's stage 1, decoupled from Adam's steps (ours)
    decay_learning_rates: bool = True  # of networks, along half a cosine in each stage (ours); constant (paper)
    # Each row hides a share U(0, this) of its observed cells from the encoder (authors: 0.99). None: 0.99 in the latent
    # form, which then needs its graph, and 0.7 where fits find it and networks only have gaps to fill (ours).
    max_drop_rate: float | None = None

    # -- inference
    n_draws: int = 30  # Monte-Carlo draws of (Z, G) behind an imputation (paper: 100; ours: a laptop's)
    # Passes over the gaps of a row in which each is drawn anew given all others, by exact fits of the graph (ours),
    # where hidden cells show that this is better; 0: networks alone fill gaps.
    polishing_sweeps: int = 60
    # Share of the levels, but not many, that networks do not see in stage 2: they tell how sure predicted levels may be
    # (ours).
    hold_back: float = 0.05
    # Spread of continuous draws from hidden cells (ours): their residuals where a value is a single Gaussian, else
    # continuous_variance; how many of them lie in their intervals where it is a mixture.
    calibrate_noise: bool = True

    def __post_init__(self) -> None:
        for name in (
            "latent_dim", "message_steps", "epoch_steps", "mixture_components", "n_members", "epochs", "batch_size",
            "min_batches", "n_draws",
        ):  # fmt: skip
            check_whole_number(name, getattr(self, name))
        for name in ("edge_temperature", "continuous_variance", "learning_rate"):
            _check_number(name, getattr(self, name), above=0.0)
        for name in (
            "kl_latent_weight", "kl_edges_weight", "acyclicity_weight", "acyclicity_start_epoch", "weight_decay",
        ):  # fmt: skip
            _check_number(name, getattr(self, name), least=0.0)
        for name in ("acyclicity_ramp", "edge_prior", "absent_below", "unjoined_weight", "hold_back"):
            _check_number(name, getattr(self, name), least=0.0, most=1.0)
        for name in ("n_knots", "polishing_sweeps"):
            if getattr(self, name):
                check_whole_number(name, getattr(self, name))
        if self.structure not in STRUCTURES:
            raise InputError(f"structure is {self.structure!r}: use one of {', '.join(map(repr, STRUCTURES))}")
        if self.edge_learning_rate is not None:
            _check_number("edge_learning_rate", self.edge_learning_rate, above=0.0)
        if self.kl_imputing_weight is not None:
            _check_number("kl_imputing_weight", self.kl_imputing_weight, least=0.0)
        if self.max_drop_rate is not None:
            _check_number("max_drop_rate", self.max_drop_rate, least=0.0, most=1.0)
        if self.initial_edge_probability is not None:
            _check_number("initial_edge_probability", self.initial_edge_probability, above=0.0, below=1.0)
        if self.acyclicity_on not in ("probabilities", "sample"):
            raise InputError(f"acyclicity_on is {self.acyclicity_on!r}: use 'probabilities' or 'sample'")

    def stage_epochs(self, *, fitted: bool, soon: bool = False) -> tuple[int, int]:
        """Epochs of stage 1 (graph learned) and stage 2 (graph frozen, backward messages); a single one is stage 1.

        fitted: exact fits find the graph, and stage 1 takes no epoch. soon: networks have little to learn in stage 2.
        """
        if fitted:
            return 0, max(1, self.epochs // 3 if soon else 2 * self.epochs // 3)
        return self.epochs - self.epochs // 2, self.epochs // 2

    def phases(self, *, fitted: bool, soon: bool = False) -> tuple[Phase, ...]:
        """One for each stage; one without an epoch is left out."""
        first, second = self.stage_epochs(fitted=fitted, soon=soon)
        phases = (Phase(LATENT, 0, first), Phase(IMPUTE, first, first + second))
        return tuple(phase for phase in phases if phase.first < phase.end)

    def drop_rate(self, *, fitted: bool) -> float:
        if self.max_drop_rate is not None:
            return self.max_drop_rate
        return 0.7 if fitted else 0.99

    def learning_rates(self) -> tuple[float, float]:
        """Of the networks, and of the edge posterior."""
        return self.learning_rate, self.edge_learning_rate or self.learning_rate

    def learning_rate_share(self, epoch: int, *, fitted: bool, soon: bool = False) -> float:
        """What is left of the learning rates in this epoch of the whole run."""
        if not self.decay_learning_rates:
            return 1.0
        first, second = self.stage_epochs(fitted=fitted, soon=soon)
        done = epoch / first if epoch < first else (epoch - first) / second
        return SLOWEST + (1 - SLOWEST) * 0.5 * (1 + math.cos(math.pi * done))

    def batch_rows(self, n_rows: int) -> int:
        """Rows of a batch in a table of this many."""
        return min(self.batch_size, math.ceil(n_rows / self.min_batches))

    def kl_latent_weight_at(self, epoch: int, *, fitted: bool, has_numbers: bool) -> float:
        """In this epoch of the whole run."""
        first, _ = self.stage_epochs(fitted=False)
        if fitted or has_numbers or epoch < first or self.kl_imputing_weight is None:
            return self.kl_latent_weight
        return self.kl_imputing_weight

    def acyclicity_weight_at(self, epoch: int, *, fitted: bool = False) -> float:
        """Weight in this epoch of the whole run, counted from 0, for the whole table."""
        if fitted:
            return 0.0
        first, _ = self.stage_epochs(fitted=False)
        start = min(self.acyclicity_start_epoch, first // 10)  # a short run must not miss it
        ramp_epochs = max(1.0, self.acyclicity_ramp * self.epochs)
        grown = (epoch - start + 1) / ramp_epochs
        return self.acyclicity_weight * min(1.0, max(0.0, grown))


def check_known(settings: Iterable[str]) -> None:
    known = sorted(field.name for field in fields(Config))
    for setting in settings:
        if setting not in known:
            raise InputError(f"unknown setting {setting!r}: use one of {', '.join(known)}")


# Numbers in which models that are trained side by side may differ; sizes and lengths they share.
OF_A_MEMBER = (
    "edge_prior",
    "initial_edge_probability",
    "edge_temperature",
    "kl_latent_weight",
    "kl_imputing_weight",
    "kl_edges_weight",
    "acyclicity_weight",
    "learning_rate",
    "edge_learning_rate",
    "max_drop_rate",
)


def check_together(configs: Sequence[Config]) -> None:
    """Refuse configurations that cannot be trained side by side."""
    for field in fields(Config):
        values = {getattr(config, field.name) for config in configs}
        if len(values) > 1 and field.name not in OF_A_MEMBER:
            raise InputError(
                f"models with {field.name} of {' and '.join(map(repr, sorted(values, key=str)))} cannot be trained "
                f"side by side: fit them one by one, or let them differ only in {', '.join(OF_A_MEMBER)}"
            )


def default_edge_probability(n_groups: int) -> float:
    """Where every edge probability starts: 0.5, as in the paper, falling as 3 / sqrt(M) for large M.

    The acyclicity term starts near exp(p^2 M); p^2 M <= 9 keeps it in range at any M, and gives the 0.2 that the
    paper found necessary at M = 222.
    """
    return min(0.5, 3.0 / max(1, n_groups) ** 0.5)


# What the three experiments of the paper share: the authors' weights, and the paper's variance as the spread of draws.
_PAPER = Config(
    structure="latent",
    unjoined_weight=0.0,
    linear_guess=False,
    mark_observed=False,
    kl_latent_weight=0.001,
    kl_imputing_weight=None,
    n_knots=0,
    polishing_sweeps=0,
    hold_back=0.0,
    mixture_components=1,
    decay_learning_rates=False,
    keep_own=False,
    group_embeddings=False,
    absent_below=0.0,
    kl_edges_weight=50.0,
    kl_edges_over_groups=True,
    acyclicity_weight=50.0,
    epochs=300,
    learning_rate=1e-3,
    min_batches=1,
    standardise=False,
    shared_networks=True,
    max_drop_rate=0.99,
    n_draws=100,
    edge_learning_rate=None,
    calibrate_noise=False,
)

PRESETS: dict[str, Config] = {
    "default": Config(),
    # Time is no object.
    "best": Config(latent_dim=64, epochs=400, n_members=5, n_draws=100, polishing_sweeps=120),
    # Paper, section 5.1 and appendix C.
    "paper-synthetic": replace(_PAPER, latent_dim=256, initial_edge_probability=0.5),
    # Paper, section 5.2: a smaller model, smaller batches, more epochs.
    "paper-neuropathic": replace(
        _PAPER, latent_dim=32, batch_size=25, epochs=1000, initial_edge_probability=0.2, n_draws=10
    ),
    # Paper, section 5.3: as neuropathic, with d, T and the learning rate from its Bayesian optimisation.
    "paper-eedi": replace(
        _PAPER,
        latent_dim=15,
        message_steps=8,
        learning_rate=1e-4,
        batch_size=25,
        epochs=1000,
        initial_edge_probability=0.2,
        n_draws=10,
    ),
}


def build_config(preset: str | None = None, **settings: Any) -> Config:
    """The preset (None: "default") with every setting that is not None put in its place."""
    name = "default" if preset is None else preset
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}: use one of {', '.join(map(repr, PRESETS))}")
    check_known(settings)
    given = {key: value for key, value in settings.items() if value is not None}
    if "batch_size" in given:  # the user's word is taken as it is
        given.setdefault("min_batches", 1)
    return replace(PRESETS[name], **given)
