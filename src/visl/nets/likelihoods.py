"""p(x | read-out) for each kind of column. To add a kind, add a class and its line in LIKELIHOODS.

The read-out gives every cell `units`, (..., cells, U): U is the largest number of units any column of the kind needs,
and a column reads only its own. `column` is the index of each cell's column, k * D + j for column j of member k.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL, Column, Schema

# Of a component of a mixture, on standardised values.
START_LOG_DEVIATION = math.log(0.7)
START_MEANS = 1.0  # components start evenly between minus this and this: alike they would stay one hump for long
LOG_DEVIATION_RANGE = (math.log(1e-3), math.log(10.0))
SLOPE_OF_ODDS = 4.0  # log-odds rise by so much for each unit of a probability, where it is a half
MEAN_VARIANCE = 0.04  # of the Gaussian under which a mixture's mean is learned; less counts more


class Likelihood(nn.Module):
    discrete = True

    def __init__(self, schema: Schema, variance: float, n_members: int = 1) -> None:
        super().__init__()

    def n_units(self, column: Column) -> int:
        return 1

    def guess_weights(self, column: Column) -> Tensor:
        """What of a linear guess's distance from the column's mean, and of the logarithm of its deviation, goes into
        each unit before anything is learned.  (units, 2)"""
        return torch.tensor([[SLOPE_OF_ODDS, 0.0]]).repeat(self.n_units(column), 1)

    def log_prob(self, units: Tensor, column: Tensor, value: Tensor) -> Tensor:
        """(..., cells): log-probability, or log-density on the scaled values."""
        log_probabilities = self.log_probabilities(units, column)
        # Room to spare holds a cell of another kind, whose value is no level.
        index = value.long().clamp(0, log_probabilities.shape[-1] - 1).expand(log_probabilities.shape[:-1])
        return log_probabilities.gather(-1, index[..., None]).squeeze(-1)

    def objective(self, units: Tensor, column: Tensor, value: Tensor) -> Tensor:
        """(..., cells): what training raises."""
        return self.log_prob(units, column, value)

    def log_probabilities(self, units: Tensor, column: Tensor) -> Tensor:
        """(..., cells, levels); -inf beyond a column's own levels. Discrete kinds only."""
        raise AssertionError(f"{type(self).__name__} has no levels")

    def components(self, units: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights, means and variances of a mixture of Gaussians, each (..., cells, C). Continuous kinds only."""
        raise AssertionError(f"{type(self).__name__} has no density")


class Gaussian(Likelihood):
    """Unit: the mean of the scaled value. The variance is fixed in training."""

    discrete = False

    def __init__(self, schema: Schema, variance: float, n_members: int = 1) -> None:
        super().__init__(schema, variance, n_members)
        self.variance = variance

    def guess_weights(self, column: Column) -> Tensor:
        return torch.tensor([[1.0, 0.0]])

    def log_prob(self, units: Tensor, column: Tensor, value: Tensor) -> Tensor:
        return gaussian_log_density(value, units[..., 0], torch.as_tensor(self.variance))

    def components(self, units: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A single one; its variance is noise, which is measured after training."""
        return torch.zeros_like(units[..., :1]), units[..., :1], torch.zeros_like(units[..., :1])


class GaussianMixture(Likelihood):
    """Units of each component: its log-weight, its mean, and the logarithm of its deviation.

    So the spread may differ from row to row, and a distribution may be skewed or have several humps.
    """

    discrete = False

    def __init__(self, schema: Schema, variance: float, n_members: int = 1, *, n_components: int) -> None:
        super().__init__(schema, variance, n_members)
        self.n_components = n_components

    def n_units(self, column: Column) -> int:
        return 3 * self.n_components

    def guess_weights(self, column: Column) -> Tensor:
        of_each = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # log-weight, mean, logarithm of the deviation
        return of_each.repeat_interleave(self.n_components, 0)

    def components(self, units: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        C = self.n_components
        log_weight, mean, log_deviation = units[..., : 3 * C].split(C, dim=-1)
        mean = mean + torch.linspace(-START_MEANS, START_MEANS, C, dtype=mean.dtype, device=mean.device)
        deviation = (log_deviation + START_LOG_DEVIATION).clamp(*LOG_DEVIATION_RANGE).exp()
        return log_weight.log_softmax(-1), mean, deviation.square()

    def log_prob(self, units: Tensor, column: Tensor, value: Tensor) -> Tensor:
        log_weight, mean, variance = self.components(units)
        return (log_weight + gaussian_log_density(value[..., None], mean, variance)).logsumexp(-1)

    def objective(self, units: Tensor, column: Tensor, value: Tensor) -> Tensor:
        """The log-density, and that of the mixture's mean under a single Gaussian of fixed variance.

        The density alone cares most for rows that can be predicted well, and the mean is worse for it.
        """
        log_weight, mean, variance = self.components(units)
        log_density = (log_weight + gaussian_log_density(value[..., None], mean, variance)).logsumexp(-1)
        overall = (log_weight.exp() * mean).sum(-1)
        return log_density + gaussian_log_density(value, overall, torch.as_tensor(MEAN_VARIANCE))


class Bernoulli(Likelihood):
    """Unit: the log-odds of the second level."""

    def log_probabilities(self, units: Tensor, column: Tensor) -> Tensor:
        return torch.cat([F.logsigmoid(-units), F.logsigmoid(units)], dim=-1)


class Categorical(Likelihood):
    """Units: one score for each level."""

    n_levels: Tensor

    def __init__(self, schema: Schema, variance: float, n_members: int = 1) -> None:
        super().__init__(schema, variance, n_members)
        n_levels = torch.tensor([column.n_levels for column in schema.columns])
        self.register_buffer("n_levels", n_levels.repeat(n_members), persistent=False)

    def n_units(self, column: Column) -> int:
        return column.n_levels

    def log_probabilities(self, units: Tensor, column: Tensor) -> Tensor:
        beyond = torch.arange(units.shape[-1], device=units.device) >= self.n_levels[column][:, None]
        return units.masked_fill(beyond, -torch.inf).log_softmax(-1)


class CumulativeLogit(Likelihood):
    """Unit: a position on a line that thresholds of the column's own cut into its levels: P(x <= k) = sigma(t_k - u).

    Thresholds rise by exp(gap), so they stay in order; at the start they cut sigma into equal shares.
    """

    n_levels: Tensor

    def __init__(self, schema: Schema, variance: float, n_members: int = 1) -> None:
        super().__init__(schema, variance, n_members)
        n_levels = torch.tensor([column.n_levels for column in schema.columns])
        most = max(2, *(column.n_levels for column in schema.columns if column.kind == ORDINAL))
        cuts = torch.arange(1, most)[None] / n_levels.clamp(min=2)[:, None]  # (D, most - 1)
        start = torch.logit(cuts.clamp(max=1 - 1e-3))
        self.register_buffer("n_levels", n_levels.repeat(n_members), persistent=False)
        self.lowest = nn.Parameter(start[:, :1].repeat(n_members, 1, 1))  # (K, D, 1)
        self.gaps = nn.Parameter(start.diff(dim=1).clamp(min=1e-2).log().repeat(n_members, 1, 1))  # (K, D, most - 2)

    def guess_weights(self, column: Column) -> Tensor:
        return super().guess_weights(column) / max(1, column.n_levels - 1)  # the guess is of the level's index

    def log_probabilities(self, units: Tensor, column: Tensor) -> Tensor:
        """log P(x = k) = log(sigma(t_k - u) - sigma(t_(k-1) - u)), which factors without any loss of digits into

        log sigma(t_k - u) + log sigma(u - t_(k-1)) + log(1 - exp(t_(k-1) - t_k)),
        the first term absent at the highest level, the second at the lowest, the third at both.
        """
        rises = self.gaps.exp()
        thresholds = torch.cat([self.lowest, self.lowest + rises.cumsum(2)], dim=2).flatten(0, 1)  # (K * D, most - 1)
        cut = F.embedding(column, thresholds) - units  # (..., cells, most - 1): t_k - u
        steps = F.pad(torch.log(-torch.expm1(-rises)), (1, 1)).flatten(0, 1)
        between = F.embedding(column, steps)  # (cells, most)
        level = torch.arange(between.shape[-1], device=units.device)
        n_levels = self.n_levels[column][:, None]
        is_top = level == n_levels - 1
        not_above = F.pad(F.logsigmoid(cut), (0, 1)).masked_fill(is_top, 0.0)
        not_below = F.pad(F.logsigmoid(-cut), (1, 0))
        log_share = not_above + not_below + between.masked_fill(is_top, 0.0)
        return log_share.masked_fill(level >= n_levels, -torch.inf)


LIKELIHOODS: dict[str, type[Likelihood]] = {
    CONTINUOUS: Gaussian,
    BINARY: Bernoulli,
    CATEGORICAL: Categorical,
    ORDINAL: CumulativeLogit,
}


def gaussian_log_density(value: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * ((value - mean).square() / variance + variance.log() + math.log(2 * math.pi))
