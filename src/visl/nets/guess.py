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
    covariance: Tensor  # (K, F, F)
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
        self.register_buffer("covariance", torch.eye(F).repeat(K, 1, 1))
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
        K, F = self.mean.shape
        mean = self.mean[:, None].expand(K, len(value) // K, F).reshape(value.shape)
        covariance = self.covariance[:, None].expand(K, len(value) // K, F, F).reshape(-1, F, F)
        if own is not None:
            away = own - mean
            share = self.own_share[:, None].expand(K, len(value) // K).reshape(-1, 1, 1)
            covariance = covariance - share * away[:, :, None] * away[:, None, :]
        guess, half = condition(covariance, seen, value - mean)
        variance = covariance.diagonal(dim1=1, dim2=2)
        left = (variance - half.square().sum(1)).clamp(min=0).sqrt()
        return Guess(mean + guess, torch.maximum(left, LEAST_DEVIATION * variance.sqrt()), 1 - seen)

    def of_cells(self, guess: Guess, row: Tensor, column: Tensor, width: int) -> Tensor:
        """Mean and log of the deviation of the first features of each cell's column, 0 where it is seen.

        (cells,), (cells,) -> (cells, width, 2). A column of fewer features has those of the next, which nobody reads.
        """
        feature = self.first[column][:, None] + torch.arange(width, device=column.device)
        at = row[:, None], feature.clamp(max=self.n_features - 1)
        both = torch.stack([guess.mean[at], guess.deviation[at].log()], -1)
        return both * guess.hidden[row, self.first[column]][:, None, None]


def feature_widths(schema: Schema) -> Tensor:
    """(D,) the number of features of each column"""
    return torch.tensor([column.n_levels if column.kind == CATEGORICAL else 1 for column in schema.columns])


def condition(covariance: Tensor, seen: Tensor, away: Tensor) -> tuple[Tensor, Tensor]:
    """What the seen features tell about all, S[:, o] S[o, o]^-1 away[o], and W with W^T W = S[:, o] S[o, o]^-1 S[o, :].

    (R, F, F) or (F, F), (R, F), (R, F) -> (R, F), (R, F, F). Rows have different o, so that a gap stands in S[o, o] as
    a feature of variance 1 that nothing depends on.
    """
    F = seen.shape[-1]
    of_seen = covariance * seen[:, :, None]
    block = of_seen * seen[:, None, :] + torch.diag_embed(1 - seen)
    root, _ = torch.linalg.cholesky_ex(block)  # without a check, which a GPU would have to wait for
    both = torch.cat([of_seen, (away * seen)[:, :, None]], dim=-1)
    solved = torch.linalg.solve_triangular(root, both, upper=False)
    half = solved[..., :F]
    return (half * solved[..., F:]).sum(1), half
