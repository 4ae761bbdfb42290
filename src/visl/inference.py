"""Draws and summaries of the cells that were not observed, by Monte Carlo over q(Z | observed cells) q(G).

The draws are shared out evenly over the members of the model, so an ensemble's answer costs what one model's does.

The draws' noise is made once and used for every row, so a row's answer depends on that row alone: not on the rows
around it nor on their order. Values are on the model's scale (see `Table`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visl.model import VislModel
from visl.nets.conditionals import POINTS
from visl.nets.layout import Cells
from visl.nets.likelihoods import gaussian_log_density
from visl.nets.readout import KindOutput
from visl.polishing import Polished, Polisher
from visl.schema import CATEGORICAL, CONTINUOUS
from visl.table import Table, mix_bits

CHAINS_OF_DRAWS = 0.5  # chains for a draw, where no whole completions are asked for: every chain gives many of them
# Rows are taken in chunks so that tensors stay near these sizes: larger ones were slower, but on GPUs.
FLOATS_AT_ONCE, FLOATS_OF_CHAINS = 1 << 20, 1 << 22
TIMES_ON_GPU = 32
KEPT_FLOATS = 1 << 26  # of distributions that are kept, since mean, quantiles and more are often asked for together


@dataclass(frozen=True)
class AskedCells:
    """Cells to predict, sorted by row."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)

    def some(self, cells: slice) -> AskedCells:
        return AskedCells(self.row[cells], self.column[cells])


@dataclass(frozen=True)
class Mixture:
    """Of C Gaussians in every draw."""

    log_weight: Tensor  # (S, c, C), of each draw they add up to 1
    mean: Tensor  # (S, c, C)
    variance: Tensor  # (S, c, C)
    noise: Tensor  # (S, c), variance that was found to be lacking

    @property
    def total_variance(self) -> Tensor:
        """(S, c, C)"""
        return self.variance + self.noise[..., None]

    @property
    def mean_of_draw(self) -> Tensor:
        """(S, c)"""
        return (self.log_weight.exp() * self.mean).sum(-1)

    @property
    def variance_of_draw(self) -> Tensor:
        """(S, c), without the noise"""
        away = (self.mean - self.mean_of_draw[..., None]).square()
        return (self.log_weight.exp() * (self.variance + away)).sum(-1)

    def quantile(self, share: float) -> Tensor:
        """(c,) of all draws together"""
        n_draws = len(self.mean)
        mean, variance, weight = (
            x.movedim(-1, 1).flatten(0, 1) for x in (self.mean, self.total_variance, self.log_weight.exp() / n_draws)
        )
        return mixture_quantile(mean, variance.sqrt(), share, weight)

    def cdf(self, value: Tensor, factor: float = 1.0) -> Tensor:
        """(c,) of all draws together at the given values, (c,); factor: of the components' deviations"""
        steps = (value[:, None] - self.mean) / (factor * self.total_variance.sqrt())
        return (self.log_weight.exp() * torch.special.ndtr(steps)).sum(-1).mean(0)

    def sample(self, uniform: Tensor) -> Tensor:
        """(S, c) from as many numbers on (0, 1): each chooses the component, and what is left of it the value there."""
        weight = self.log_weight.exp().to(uniform.dtype)
        below = weight.cumsum(-1)
        chosen = (below[..., :-1] < uniform[..., None]).sum(-1, keepdim=True)
        start, width, mean, variance = (
            x.gather(-1, chosen).squeeze(-1) for x in (below - weight, weight, self.mean, self.total_variance)
        )
        inside = ((uniform - start) / width).clamp(1e-9, 1 - 1e-9)
        return mean + variance.sqrt() * torch.special.ndtri(inside).to(mean.dtype)


@dataclass(frozen=True)
class Drawn:
    """Predictive distributions of those of the asked cells that are of one kind, one for each draw.

    Levels of a discrete cell, or a mixture of C Gaussians on the scaled values, with noise beyond their own variance.
    """

    kind: str
    cells: Tensor  # (c,) positions among the asked cells
    column: Tensor  # (c,)
    log_levels: Tensor | None  # (S, c, levels), -inf beyond a column's own
    mixture: Mixture | None
    states: Tensor | None = None  # (draws, c) completions of rows as wholes, of one distribution of all draws together

    @property
    def n_floats(self) -> int:
        mixture = self.mixture
        parts = () if mixture is None else (mixture.log_weight, mixture.mean, mixture.variance, mixture.noise)
        return sum(part.numel() for part in (*parts, self.log_levels, self.states) if part is not None)

    @property
    def shares(self) -> Tensor:
        """(c, levels) probabilities, all draws together; none for a continuous cell."""
        return self.cells.new_zeros(len(self.cells), 0) if self.log_levels is None else self.log_levels.exp().mean(0)

    def sample(self, uniform: Tensor) -> Tensor:
        """(S, c), one of each draw's distribution, from as many numbers on (0, 1)"""
        if self.log_levels is not None:
            below = self.log_levels.exp().double().cumsum(-1)
            return (below[..., :-1] < uniform[..., None]).sum(-1).float()
        assert self.mixture is not None
        return self.mixture.sample(uniform)

    def log_prob(self, value: Tensor) -> Tensor:
        """(S, c) at the given values, (c,)"""
        if self.log_levels is not None:
            index = value.long().expand(self.log_levels.shape[:-1])
            return self.log_levels.gather(-1, index[..., None]).squeeze(-1)
        assert self.mixture is not None
        mixture = self.mixture
        density = gaussian_log_density(value[:, None], mixture.mean, mixture.total_variance)
        return (mixture.log_weight + density).logsumexp(-1)


def _pooled(outputs: Sequence[KindOutput], members: Sequence[VislModel], order: Tensor) -> Drawn:
    """The same cells' read-outs by every member. order: (S,), where each draw is in them one after the other"""
    first = outputs[0]
    if first.likelihood.discrete:
        logs = torch.cat([member.log_levels(output) for output, member in zip(outputs, members, strict=True)])
        return Drawn(first.kind, first.cells, first.column, logs[order], None)
    of_members = [
        (*m.components(o), m.noise_variance[0, first.column].expand(o.units.shape[:2]))
        for o, m in zip(outputs, members, strict=True)
    ]
    parts = [torch.cat(part)[order] for part in zip(*of_members, strict=True)]
    return Drawn(first.kind, first.cells, first.column, None, Mixture(*parts))


class Imputer:
    """Predicts cells of a table with a trained model."""

    def __init__(self, model: VislModel, *, n_draws: int, seed: int, polish: bool = True) -> None:
        """polish: whether the model's conditionals redraw what networks have drawn, if it trusts them"""
        M, d = model.n_groups, model.config.latent_dim
        self.device, self.n_draws, self.schema = model.noise_variance.device, n_draws, model.schema
        # In float64 on the CPU: matrix products round differently with a row's place in the batch, and in float32 that
        # would show, and could flip a level. GPUs keep float32.
        on_cpu = self.device.type == "cpu"
        self.dtype, self._scale = (torch.float64, 1) if on_cpu else (torch.float32, TIMES_ON_GPU)
        self.n_groups, self.dim = M, d
        columns = enumerate(model.schema.columns)
        self._certain = {j: code for j, column in columns if (code := column.certain_code) is not None}
        # On the CPU whatever the device, so that a model gives the same draws when it is loaded elsewhere.
        rng = torch.Generator().manual_seed(seed)
        self.noise = torch.randn((n_draws, 1, M, d), generator=rng).to(self.device, self.dtype)
        uniform = torch.rand((n_draws, M, M), generator=rng).to(self.device, self.dtype)
        # Draws go to the members in turn.
        members = [copy.deepcopy(model)] if model.n_members == 1 else model.members()[:n_draws]
        self.draws_of_member = [torch.arange(k, n_draws, len(members)) for k in range(len(members))]
        self.draw_order = torch.cat(self.draws_of_member).argsort().to(self.device)
        with torch.no_grad():  # in the precision that was trained
            edges = [m.edges.soften(uniform[draws]) for m, draws in zip(members, self.draws_of_member, strict=True)]
        self.edges = [e.to(self.dtype) for e in edges]
        self.members = [member.to(self.dtype) for member in members]
        self._known: tuple[Table, AskedCells, list[tuple[slice, Drawn]]] | None = None
        self.polisher = Polisher(self.members, self.draws_of_member) if polish and model.polishes else None

    def point(self, table: Table, asked: AskedCells) -> NDArray[np.float32]:
        """(cells,) mean of a continuous cell, most probable level of a discrete one."""

        def best(output: Drawn, chunk: slice) -> Tensor:
            if output.mixture is None:
                return output.shares.argmax(-1).float()
            return output.mixture.mean_of_draw.mean(0)

        return self._with_constants(asked, self._collect(table, asked, best))

    def probabilities(self, table: Table, asked: AskedCells) -> NDArray[np.float32]:
        """(cells, levels) of discrete cells; 0 beyond a column's own levels and for continuous cells."""
        most = max((column.n_levels for column in self.schema.columns), default=0)

        def padded(output: Drawn, chunk: slice) -> Tensor:
            shares = output.shares[:, :most]
            return torch.nn.functional.pad(shares, (0, most - shares.shape[-1]))

        shares = self._collect(table, asked, padded, width=(most,))
        for j, code in self._certain.items():
            if self.schema.columns[j].levels:
                shares[asked.column == j] = np.eye(most, dtype=np.float32)[int(code)]
        return shares

    def log_prob(self, table: Table, asked: AskedCells, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(cells,) log of the predictive probability, or density on the scaled values, at the given values."""
        truth = torch.from_numpy(values)

        def at_truth(output: Drawn, chunk: slice) -> Tensor:
            value = truth[chunk].to(self.device, self.dtype)[output.cells]
            n_distributions = self.n_draws if output.states is None else 1
            return output.log_prob(value).logsumexp(0) - np.log(n_distributions)

        return self._collect(table, asked, at_truth)

    def confidence(self, table: Table, asked: AskedCells, temperatures: Sequence[float]) -> NDArray[np.float32]:
        """(cells, temperatures) of discrete cells: the probability of the likeliest level, had logarithms been divided
        by each of these; 0 for continuous cells."""

        def of_likeliest(output: Drawn, chunk: slice) -> Tensor:
            if output.log_levels is None:
                return torch.zeros(len(output.cells), len(temperatures))
            divided = ((output.log_levels / t).softmax(-1).mean(0).amax(-1) for t in temperatures)
            return torch.stack(list(divided), -1)

        return self._collect(table, asked, of_likeliest, width=(len(temperatures),))

    def quantile(self, table: Table, asked: AskedCells, share: float) -> NDArray[np.float32]:
        """(cells,) the value below which this share lies; NaN for categorical cells, whose levels have no order."""

        def at_share(output: Drawn, chunk: slice) -> Tensor:
            if output.kind == CATEGORICAL:
                return torch.full_like(output.shares[:, 0], torch.nan)
            if output.mixture is None:
                below = output.shares.cumsum(-1)
                return (below < share - 1e-6).sum(-1).clamp(max=below.shape[-1] - 1).float()
            return output.mixture.quantile(share)

        return self._with_constants(asked, self._collect(table, asked, at_share))

    def cdf(
        self, table: Table, asked: AskedCells, values: NDArray, factors: Sequence[float] = (1.0,)
    ) -> NDArray[np.float32]:
        """(cells, factors): the share at or below the given values; NaN for categorical cells.

        factors: what the deviations of a continuous cell's components are multiplied by, to try others.
        """
        at = torch.from_numpy(np.asarray(values, np.float64))

        def up_to(output: Drawn, chunk: slice) -> Tensor:
            value = at[chunk].to(self.device, self.dtype)[output.cells]
            if output.mixture is not None:
                return torch.stack([output.mixture.cdf(value, factor) for factor in factors], -1)
            levels = torch.arange(output.shares.shape[-1], device=self.device)
            share = (output.shares * (levels <= value[:, None])).sum(-1)
            share = torch.full_like(share, torch.nan) if output.kind == CATEGORICAL else share
            return share[:, None].expand(-1, len(factors))

        return self._collect(table, asked, up_to, width=(len(factors),))

    def sample(self, table: Table, asked: AskedCells) -> NDArray[np.float32]:
        """(draws, cells): independent completions. Each draw is one graph for all rows.

        A row takes the common draws of Z in an order of its own and has noise of its own, both made from the row's
        content: so rows are independent of each other within a draw, as multiple imputation needs, and a row's draws
        still do not depend on its neighbours. Copies of a row get different draws, in their order of appearance.
        """
        streams = _row_streams(table)
        order = np.argsort(_bits(streams, np.arange(self.n_draws)), axis=0)  # (draws, rows)

        def drawn(output: Drawn, chunk: slice) -> Tensor:
            if output.states is not None:
                return output.states.T
            cells = output.cells.cpu().numpy() + chunk.start
            uniform = _uniforms(streams[asked.row[cells]], asked.column[cells], self.n_draws)  # (draws, c)
            return output.sample(torch.from_numpy(uniform).to(self.device)).T

        draws = self._collect(table, asked, drawn, width=(self.n_draws,), draw_order=torch.from_numpy(order))
        return self._with_constants(asked, draws).T

    def _with_constants(self, asked: AskedCells, codes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cells of a column in which only one value was ever seen hold that value.  (cells, ...) -> (cells, ...)"""
        for j, code in self._certain.items():
            codes[asked.column == j] = code
        return codes

    def moments(self, table: Table, asked: AskedCells) -> NDArray[np.float32]:
        """(cells, 2): mean and variance of a continuous cell, without its noise; 0 for discrete cells."""

        def both(output: Drawn, chunk: slice) -> Tensor:
            mixture = output.mixture
            if mixture is None:
                return torch.zeros(len(output.cells), 2)
            variance = mixture.mean_of_draw.var(0, correction=0) + mixture.variance_of_draw.mean(0)
            return torch.stack([mixture.mean_of_draw.mean(0), variance], -1)

        return self._collect(table, asked, both, width=(2,))

    def _collect(
        self,
        table: Table,
        asked: AskedCells,
        summary: Callable[[Drawn, slice], Tensor],
        width: tuple[int, ...] = (),
        draw_order: Tensor | None = None,
    ) -> NDArray[np.float32]:
        """(cells, *width): the summary of every asked cell's read-out, over all chunks of rows and all kinds."""
        result = np.zeros((len(asked), *width), np.float32)
        with torch.no_grad():
            for chunk, output in self._outputs(table, asked, draw_order):
                result[chunk][output.cells.cpu().numpy()] = summary(output, chunk).cpu().numpy()
        return result

    def _outputs(self, table: Table, asked: AskedCells, draw_order: Tensor | None) -> Iterator[tuple[slice, Drawn]]:
        """Predictions of the asked cells, chunk by chunk of the rows that have any, kind by kind.

        draw_order: (draws, rows), of completions of the rows as wholes
        """
        if draw_order is None and self._known is not None and self._known[0] is table and self._known[1] is asked:
            yield from self._known[2]
            return
        found = (self._chunks_of_networks if self.polisher is None else self._polished_chunks)(table, asked, draw_order)
        if draw_order is not None:
            yield from found
            return
        kept: list[tuple[slice, Drawn]] = []
        floats = 0
        for chunk, output in found:
            floats += output.n_floats
            kept.append((chunk, output))
            if floats > KEPT_FLOATS:
                kept.clear()
            yield chunk, output
        if floats <= KEPT_FLOATS:
            self._known = table, asked, kept

    def _chunks_of_networks(
        self, table: Table, asked: AskedCells, draw_order: Tensor | None
    ) -> Iterator[tuple[slice, Drawn]]:
        for rows, chunk in self._chunks(asked, self._rows_at_once(self.n_draws)):
            for output in self._of_networks(table.take_rows(rows), rows, asked.some(chunk), draw_order):
                yield chunk, output

    def _polished_chunks(
        self, table: Table, asked: AskedCells, draw_order: Tensor | None
    ) -> Iterator[tuple[slice, Drawn]]:
        n_draws = math.ceil(CHAINS_OF_DRAWS * self.n_draws) if draw_order is None else self.n_draws
        streams = table.row_keys() if draw_order is None else _row_streams(table)
        for rows, chunk in self._chunks(asked, max(1, self._scale * FLOATS_OF_CHAINS // (n_draws * POINTS))):
            some = None if draw_order is None else draw_order[:, rows]
            for output in self._polished(table.take_rows(rows), rows, asked.some(chunk), some, streams[rows], n_draws):
                yield chunk, output

    def _of_networks(
        self,
        table: Table,
        rows: NDArray[np.int64],
        asked: AskedCells,
        draw_order: Tensor | None,
        n_draws: int | None = None,
    ) -> Iterator[Drawn]:
        """Of the asked cells, which lie in these rows, whose table this is; of the first draws."""
        cells = self._cells(table)
        position = self._tensor(np.searchsorted(rows, asked.row)), self._tensor(asked.column)
        noise = self.noise if draw_order is None else _reordered(self.noise, draw_order[:, rows])
        draws_of_member = [draws[draws < (n_draws or self.n_draws)] for draws in self.draws_of_member]
        with_draws = [x for x in zip(self.members, draws_of_member, self.edges, strict=True) if len(x[1])]
        of_members = [
            member.draw(cells, position, noise[draws], edges[: len(draws)]) for member, draws, edges in with_draws
        ]
        order = torch.cat([draws for _, draws, _ in with_draws]).argsort().to(self.device)
        for outputs in zip(*of_members, strict=True):
            yield _pooled(outputs, [member for member, _, _ in with_draws], order)

    def _polished(
        self,
        table: Table,
        rows: NDArray[np.int64],
        asked: AskedCells,
        draw_order: Tensor | None,
        streams: NDArray[np.uint64],
        n_draws: int,
    ) -> Iterator[Drawn]:
        """Of the asked cells, by chains that start from what networks draw for all gaps of these rows."""
        assert self.polisher is not None
        D = len(self.schema.columns)
        seen = np.zeros((table.n_rows, D), bool)
        seen[table.row_of_cell, table.columns] = True
        gaps = AskedCells(*np.nonzero(~seen))
        uniform = self._tensor(_uniforms(streams[gaps.row], gaps.column, n_draws))
        start = torch.zeros(n_draws, len(gaps), dtype=self.dtype, device=self.device)
        for some, chunk in self._chunks(gaps, self._rows_at_once(n_draws)):
            for output in self._of_networks(table.take_rows(some), some, gaps.some(chunk), draw_order, n_draws):
                here = output.cells + chunk.start
                start[:, here] = output.sample(uniform[:, here]).to(self.dtype)
        n_sweeps = self.polisher.n_sweeps
        further = _uniforms(streams[gaps.row], gaps.column + D, n_sweeps * n_draws).reshape(n_sweeps, n_draws, -1)
        position = self._tensor(gaps.row), self._tensor(gaps.column)
        found = self.polisher.polished(self._cells(table), position, start, self._tensor(further).to(self.dtype))
        place = np.searchsorted(gaps.row * D + gaps.column, np.searchsorted(rows, asked.row) * D + asked.column)
        yield from self._kinds_of(found, self._tensor(place), self._tensor(asked.column))

    def _kinds_of(self, found: Polished, place: Tensor, column: Tensor) -> Iterator[Drawn]:
        """place: (cells,) of the asked cells among the gaps; column: (cells,) theirs"""
        assert self.polisher is not None
        kinds = np.array([column.kind for column in self.schema.columns])
        for kind in np.unique(kinds[column.cpu().numpy()]).tolist():
            cells = self._tensor(np.flatnonzero(kinds[column.cpu().numpy()] == kind))
            of_kind = column[cells]
            log_share = found.share[place[cells]].log()[None]
            states = found.value[:, place[cells]]
            if kind != CONTINUOUS:
                yield Drawn(kind, cells, of_kind, log_share, None, states)
                continue
            mean, variance = self.polisher.bins(of_kind)
            mixture = Mixture(log_share[..., :POINTS], mean[None], variance[None], torch.zeros_like(mean[None, :, 0]))
            yield Drawn(kind, cells, of_kind, None, mixture, states)

    def _rows_at_once(self, n_draws: int) -> int:
        """Of networks; it depends on the model alone."""
        widest = max(self.n_groups, len(self.schema.columns))
        return max(1, self._scale * FLOATS_AT_ONCE // (n_draws * widest * self.dim))

    @staticmethod
    def _chunks(asked: AskedCells, n_rows: int) -> Iterator[tuple[NDArray[np.int64], slice]]:
        """So many rows that have asked cells, and the slice of those."""
        rows, first = np.unique(asked.row, return_index=True)
        ends = np.append(first[1:], len(asked))
        for i in range(0, len(rows), n_rows):
            yield rows[i : i + n_rows], slice(first[i], ends[min(i + n_rows, len(rows)) - 1])

    def _cells(self, table: Table) -> Cells:
        row, column = self._tensor(table.row_of_cell), self._tensor(table.columns).long()
        return Cells(row, column, self._tensor(table.values).to(self.dtype), table.n_rows)

    def _tensor(self, array: NDArray) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def mixture_quantile(means: Tensor, deviation: Tensor, share: float, weight: Tensor | None = None) -> Tensor:
    """Quantile of a mixture of Gaussians, by bisection.  means: (P, c), deviation: (P, c) or (c,) -> (c,)

    weight: (P, c), adding up to 1; None: all alike
    """
    weight = torch.full_like(means, 1 / len(means)) if weight is None else weight
    low, high = (means - 8 * deviation).amin(0), (means + 8 * deviation).amax(0)
    for _ in range(40):
        middle = (low + high) / 2
        # Between distant components the share is the same over a stretch: take its left end, whatever the rounding.
        below = (weight * torch.special.ndtr((middle - means) / deviation)).sum(0) < share - 1e-9
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def _reordered(noise: Tensor, order: Tensor) -> Tensor:
    """noise: (S, 1, M, d), order: (S, B) -> (S, B, M, d): row b's draw s uses the noise of draw order[s, b]"""
    return noise[order.to(noise.device), 0]


def _row_streams(table: Table) -> NDArray[np.uint64]:
    """(N,) a key of each row's content, made different for copies of a row."""
    keys = table.row_keys()
    order = np.argsort(keys, kind="stable")
    is_first = np.append(True, np.diff(keys[order]) != 0)
    first_of_run = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
    copies = np.empty(len(keys), np.uint64)
    copies[order] = (np.arange(len(keys)) - first_of_run).astype(np.uint64)
    return mix_bits(keys ^ mix_bits(copies))


def _bits(streams: NDArray[np.uint64], counters: NDArray) -> NDArray[np.uint64]:
    """Random bits of each stream at each counter.  (n,), (S,) -> (S, n)"""
    return mix_bits(streams[None, :] ^ mix_bits(counters.astype(np.uint64))[:, None])


def _uniforms(streams: NDArray[np.uint64], columns: NDArray[np.int64], n_draws: int) -> NDArray[np.float64]:
    """(n_draws, cells) in (0, 1), from each cell's row and column alone."""
    bits = _bits(mix_bits(streams ^ columns.astype(np.uint64)), np.arange(n_draws))
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
