"""DAG-GNN (Yu et al. 2019) for groups of columns and missing values, as the paper adapts it. NumPy and torch alone.

H = MLP_m(x of group m), Z = (I - A^T) H, H' = (I - A^T)^-1 Z, x' = MLP'_m(H'), with A[from, to]: h_j = sum_i A_ij h_i
+ z_j. As in the authors' public code Z is its own mean (no noise, unit variance), so that the KL term is |Z|^2 / 2:
A is the linear structural model of the encodings that leaves the smallest rest, and A = sinh(3 a) of the parameter a.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from visl.experiments.problem import Answer, BoolArray, FloatArray, IntArray, Problem, Run, Structure
from visl.nets.layers import NodeLinear


@dataclass(frozen=True)
class DagGnnSettings:
    """The public code's, but for the limit on solves, which keeps 57 groups of 948 columns at minutes on a GPU."""

    latent: int = 1
    hidden: int = 64
    learning_rate: float = 3e-3
    batch_rows: int = 100
    epochs: int = 300  # a solve: training between two changes of the Lagrangian's weights
    max_solves: int = 24
    tolerance: float = 1e-8  # of the acyclicity term
    max_penalty: float = 1e20
    threshold: float = 0.3


def dag_gnn_groups(problem: Problem, run: Run) -> Answer:
    settings = DagGnnSettings(epochs=DagGnnSettings.epochs if run.epochs is None else run.epochs)
    layout = _layout(problem.group_of)
    model = DagGnn(problem, layout, settings, torch.Generator().manual_seed(run.seed)).to(run.device)
    values, observed = (part.to(run.device) for part in _by_group(problem, layout))
    left = _solve(model, values, observed, settings, torch.Generator(run.device).manual_seed(run.seed + 1))
    weights = model.edge_weights().detach().abs().double().cpu().numpy()
    structure = Structure(weights > settings.threshold, weights / max(1.0, weights.max(initial=0.0)))
    record = {**asdict(settings), "acyclicity": left, "library": f"torch {torch.__version__}"}
    return Answer(structure=structure, settings=record)


class DagGnn(nn.Module):
    """Values enter as (B, M, w), w the width of the widest group, 0 beyond a group's own columns."""

    is_binary: Tensor  # (M, w)
    off_diagonal: Tensor  # (M, M)

    def __init__(self, problem: Problem, layout: IntArray, settings: DagGnnSettings, rng: torch.Generator) -> None:
        super().__init__()
        M, w = layout.shape
        # Variables that are groups of their own share one network, as in the public code.
        network_of = torch.zeros(M, dtype=torch.long) if problem.variable_wise else torch.arange(M)
        sizes = (w, settings.hidden, settings.latent, settings.hidden, w)
        self.layers = nn.ModuleList(NodeLinear(network_of, sizes[i], sizes[i + 1], [rng]) for i in range(4))
        self.raw = nn.Parameter(torch.zeros(M, M))
        self.register_buffer("is_binary", torch.from_numpy(_padded(problem.is_binary, layout)))
        self.register_buffer("off_diagonal", 1 - torch.eye(M))

    def edge_weights(self) -> Tensor:
        """A, (M, M) [from, to]"""
        return torch.sinh(3 * self.raw) * self.off_diagonal

    def loss(self, values: Tensor, observed: Tensor, weights: Tensor) -> Tensor:
        """-ELBO a row, but for constants; observed cells alone are scored.  (B, M, w), (B, M, w), (M, M) -> ()"""
        first, second, third, fourth = self.layers
        encoded = second(torch.relu(first(values[None])))[0]  # H, (B, M, d)
        z = unexplained(encoded, weights)
        # (I - A^T)^-1 Z is H again: without noise in Z the two passes cancel exactly, so no system is solved.
        out = fourth(torch.relu(third(encoded[None])))[0]  # (B, M, w)
        bernoulli = binary_cross_entropy_with_logits(out, values, reduction="none")
        nll = torch.where(self.is_binary, bernoulli, 0.5 * (values - out).square()) * observed
        return (nll.sum() + 0.5 * z.square().sum()) / len(values)


def unexplained(encoded: Tensor, weights: Tensor) -> Tensor:
    """Z = (I - A^T) H: z_j = h_j - sum_i A_ij h_i.  (B, M, d), (M, M) -> (B, M, d)"""
    return encoded - torch.einsum("ij,bid->bjd", weights, encoded)


class _Cycles(torch.autograd.Function):
    """tr((I + B / M)^M) - M of B >= 0 in float64, with gradient ((I + B / M)^(M - 1))^T: one power serves both."""

    @staticmethod
    def forward(ctx: Any, b: Tensor) -> Tensor:
        M = len(b)
        one_step = torch.eye(M, dtype=b.dtype, device=b.device) + b / M
        power = torch.linalg.matrix_power(one_step, M - 1)
        ctx.save_for_backward(power)
        return (power * one_step.T).sum() - M

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (power,) = ctx.saved_tensors
        return grad * power.T


def acyclicity(weights: Tensor) -> Tensor:
    """h(A) = tr((I + A∘A / M)^M) - M, 0 for a graph without cycles.  (M, M) -> ()

    In float64: in float32 the tolerance of 1e-8 would drown in M.
    """
    h: Tensor = _Cycles.apply(weights.double().square())
    return h


def _solve(model: DagGnn, values: Tensor, observed: Tensor, settings: DagGnnSettings, rng: torch.Generator) -> float:
    """Minimises loss + multiplier h + penalty h^2 / 2 until h is within tolerance; the h that is left.

    After each solve the penalty grows tenfold while h has not fallen to a quarter; once it has, the multiplier follows.
    """
    optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate, fused=True)
    multiplier, penalty, before, h = 0.0, 1.0, math.inf, math.inf
    for _ in range(settings.max_solves):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(settings.learning_rate, penalty)
        for _ in range(settings.epochs):
            _epoch(model, values, observed, multiplier, penalty, settings.batch_rows, optimizer, rng)
        h = float(acyclicity(model.edge_weights().detach()))
        if h <= settings.tolerance:
            break
        if h > 0.25 * before and penalty < settings.max_penalty:
            penalty *= 10
        else:
            multiplier += penalty * h
            before = h
    return h


def _epoch(
    model: DagGnn,
    values: Tensor,
    observed: Tensor,
    multiplier: float,
    penalty: float,
    batch_rows: int,
    optimizer: torch.optim.Optimizer,
    rng: torch.Generator,
) -> None:
    for rows in torch.randperm(len(values), generator=rng, device=values.device).split(batch_rows):
        optimizer.zero_grad()
        weights = model.edge_weights()
        h = acyclicity(weights)
        loss = model.loss(values[rows], observed[rows], weights)
        (loss + multiplier * h + 0.5 * penalty * h * h).backward()
        optimizer.step()


def _learning_rate(start: float, penalty: float) -> float:
    """Smaller as the penalty grows: start / log10(penalty), from 1e-4 to 1e-2."""
    return min(1e-2, max(1e-4, start / max(math.log10(penalty), 1e-10)))


def _layout(group_of: IntArray) -> IntArray:
    """The columns of each group, -1 beyond its own.  (D,) -> (M, w)"""
    counts = np.bincount(group_of)
    layout = np.full((len(counts), counts.max()), -1)
    order = np.argsort(group_of, kind="stable")
    starts = np.cumsum(counts) - counts
    layout[group_of[order], np.arange(len(order)) - starts[group_of[order]]] = order
    return layout


def _padded(of_columns: BoolArray | FloatArray, layout: IntArray) -> Any:
    """(..., D) -> (..., M, w), 0 beyond a group's own columns."""
    return np.where(layout >= 0, of_columns[..., layout], np.zeros((), of_columns.dtype))


def _by_group(problem: Problem, layout: IntArray) -> tuple[Tensor, Tensor]:
    """Values and observed of the training rows.  (N, M, w), (N, M, w)

    Continuous columns get mean 0 and variance 1 (a unit of the Gaussian's variance is then one of the data, and the
    threshold on A has a meaning); a gap enters as 0, and in a binary column as .5.
    """
    observed = ~np.isnan(problem.train)
    binary = problem.is_binary
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, problem.train, 0.0).sum(axis=0) / count
    centred = np.where(observed, problem.train - mean, 0.0)
    deviation = np.sqrt((centred**2).sum(axis=0) / count)
    scaled = centred / np.where(deviation > 0, deviation, 1.0)
    values = np.where(binary, np.where(observed, problem.train, 0.5), scaled)
    return tuple(torch.from_numpy(_padded(part, layout)).float() for part in (values, observed))  # type: ignore[return-value]
