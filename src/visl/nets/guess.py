"""The best linear guess of every gap: its mean and deviation given the row's seen cells, under one Gaussian of all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from visl.nets.layout import Cells
from visl.schema import CATEGORICAL, Schema

LEAST_DEVIATION = 0.01  # of a column's own: a guess is never taken for certain


@dataclass(frozen=True)
class Guess:
    """Of R rows and F features: (R, F) each."""

    mean: Tensor
    deviation: Tensor
    hidden: Tensor  # 1 where it is a gap, else 0


class LinearGuess(nn.Module):
    """x ~ N(mean, covariance) over the features of a row: a number, an index of ordered levels, 0 or 1 for a binary
    column, an indicator for each level of a categorical one.

    Members have columns of their own: column j of member k is k * D + j. Until it is fitted it knows nothing.
    """

    mean: Tensor  # (K, F)
    precision: Tensor  # (K, F, F) the inverse of the covariance
    deviation: Tensor  # (K, F) of each feature by itself
    own_share: Tensor  # (K,) what a training row's own outer product counts in the covariance
    column_of: Tensor  # (F,)
    first: Tensor  # (K * D,) the first feature of each column
    local: Tensor  # (K * D,) the column without its member
    has_indicators: Tensor  # (K * D,) bool

    def __init__(self, schema: Schema, n_members: int) -> None:
        super().__init__()
        K, widths = n_members, feature_widths(schema)
        self.n_columns, F = len(widths), int(widths.sum())
        self.register_buffer("mean", torch.zeros(K, F))
        self.register_buffer("precision", torch.eye(F).repeat(K, 1, 1))
        self.register_buffer("deviation", torch.ones(K, F))
        self.register_buffer("own_share", torch.zeros(K))
        columns = torch.arange(self.n_columns)
        of_columns = {
            "first": widths.cumsum(0) - widths,
            "local": columns,
            "has_indicators": torch.tensor([column.kind == CATEGORICAL for column in schema.columns]),
        }
        self.register_buffer("column_of", columns.repeat_interleave(widths), persistent=False)
        for name, of_column in of_columns.items():
            self.register_buffer(name, of_column.repeat(K), persistent=False)

    @property
    def n_features(self) -> int:
        return len(self.column_of)

    @property
    def is_fitted(self) -> Tensor:
        """(K,) of each member"""
        return self.own_share > 0

    def features(self, cells: Cells, shown: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Values, 0 in gaps, and which are seen, 1 or 0: (R, F) each.  shown: (cells,) 0 hides a cell; None: none"""
        R, F, D = cells.n_rows, self.n_features, self.n_columns
        seen = torch.ones_like(cells.value) if shown is None else shown.to(cells.value.dtype)
        indicates = self.has_indicators[cells.column]
        feature = self.first[cells.column] + torch.where(indicates, cells.value, 0.0).long()
        value = torch.where(indicates, 1.0, cells.value) * seen
        # A cell is there once, and padding adds 0, so no sum depends on the order of its terms.
        values = value.new_zeros(R * F).index_add(0, cells.row * F + feature, value)
        of_columns = seen.new_zeros(R * D).index_add(0, cells.row * D + self.local[cells.column], seen)
        return values.view(R, F), of_columns.view(R, D)[:, self.column_of]

    def forward(self, cells: Cells, shown: Tensor | None = None, own: Tensor | None = None) -> Guess:
        """own: (R, F), training rows with their gaps filled; each is guessed as if the fit had not seen it."""
        value, seen = self.features(cells, shown)
        K, R = len(self.mean), len(value)
        mean, least = (x[:, None].expand(K, R // K, -1).reshape(R, -1) for x in (self.mean, self.deviation))
        left_out = None if own is None else self._left_out(own - mean)
        # On a GPU, where steps are recorded, sizes cannot depend on values.
        n_gaps = self.n_features if value.is_cuda else None
        found = condition(self.precision, seen, value - mean, left_out=left_out, n_gaps=n_gaps)
        deviation = torch.zeros_like(value).scatter_add(1, found.gaps, found.root.square().sum(1).sqrt())
        return Guess(mean + found.away, torch.maximum(deviation, LEAST_DEVIATION * least), 1 - seen)

    def _left_out(self, away: Tensor) -> tuple[Tensor, Tensor]:
        """What leaving a row out of the covariance S, S - w a a^T, does to its inverse P: P + c b b^T with b = P a and

        c = w / (1 - w a^T P a).  (R, F) -> (R, F), (R,)
        """
        K, F = self.mean.shape
        of_members = away.view(K, -1, F)
        b = torch.bmm(of_members, self.precision)
        share = self.own_share[:, None]
        c = share / (1 - share * (b * of_members).sum(-1)).clamp(min=1e-3)
        return b.view(-1, F), c.flatten()

    def of_cells(self, guess: Guess, row: Tensor, column: Tensor, width: int) -> Tensor:
        """How far its mean is from that of the column, and the log of its deviation, of the first features of each
        cell's column; 0 where it is seen.

        (cells,), (cells,) -> (cells, width, 2). A column of fewer features has those of the next, which nobody reads.
        """
        feature = self.first[column][:, None] + torch.arange(width, device=column.device)
        feature = feature.clamp(max=self.n_features - 1)
        away = guess.mean[row[:, None], feature] - self.mean[(column // self.n_columns)[:, None], feature]
        both = torch.stack([away, guess.deviation[row[:, None], feature].log()], -1)
        return both * guess.hidden[row, self.first[column]][:, None, None]


def feature_widths(schema: Schema) -> Tensor:
    """(D,) the number of features of each column"""
    return torch.tensor([column.n_levels if column.kind == CATEGORICAL else 1 for column in schema.columns])


@dataclass(frozen=True)
class Conditional:
    """R rows given what is seen of them."""

    away: Tensor  # (R, F) from the mean; of seen features as given
    gaps: Tensor  # (R, n) features, among them all that are not seen
    root: Tensor  # (R, n, n) J, with J^T J their covariance, in which a seen one has variance 1 and is alone


def condition(
    precision: Tensor,
    seen: Tensor,
    away: Tensor,
    *,
    left_out: tuple[Tensor, Tensor] | None = None,
    n_gaps: int | None = None,
) -> Conditional:
    """Of the features u that are not seen, P being the precision: -P[u, u]^-1 P[u, o] away[o], covariance P[u, u]^-1.

    precision: (K, F, F), of which each serves as many rows; seen, away: (R, F). left_out: see `LinearGuess._left_out`.
    n_gaps: at least as many as a row has; None: as many as one has. Rows with fewer have seen features for the rest,
    which stand in P[u, u] alone, with variance 1.
    """
    (K, F, _), R = precision.shape, len(seen)
    n = int((1 - seen).sum(1).max()) if n_gaps is None else n_gaps
    every = torch.arange(F, device=seen.device).expand(R, F)
    gaps = every if n == F else seen.sort(dim=1, stable=True).indices[:, :n]
    is_gap = 1 - seen.gather(1, gaps)
    known = away * seen
    member = torch.arange(K, device=seen.device).repeat_interleave(R // K)
    block = precision[member[:, None, None], gaps[:, :, None], gaps[:, None, :]]  # (R, n, n)
    pull = torch.bmm(known.view(K, -1, F), precision).view(R, F)
    if left_out is not None:
        b, c = left_out
        of_gaps = b.gather(1, gaps)
        block = block + c[:, None, None] * of_gaps[:, :, None] * of_gaps[:, None, :]
        pull = pull + (c * (b * known).sum(1))[:, None] * b
    block = block * is_gap[:, :, None] * is_gap[:, None, :] + torch.diag_embed(1 - is_gap)
    factor, _ = torch.linalg.cholesky_ex(block)  # without a check, which a GPU would have to wait for
    ones = torch.eye(n, dtype=block.dtype, device=block.device).expand_as(block)
    root = torch.linalg.solve_triangular(factor, ones, upper=False)
    pull = -(pull.gather(1, gaps) * is_gap)[:, :, None]
    guess = (root.mT @ (root @ pull)).squeeze(-1)
    return Conditional(known.scatter_add(1, gaps, guess), gaps, root)
