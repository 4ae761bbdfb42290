"""The partial variational autoencoder (Ma et al. 2019): a set encoder of the observed cells. NumPy and torch alone.

Sizes and rates are those of the authors' public code (microsoft/EDDI), which the paper says it used; the random
dropping of observed cells is that of VISL, so that both learn from the same task.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from visl.experiments.methods.cells import Mixture
from visl.experiments.problem import Answer, FloatArray, Problem, Run
from visl.nets.layers import NodeLinear, uniform_parameter

STEPS = 15_000  # 300 epochs of 5000 rows; smaller tables go through as many steps

Cells = tuple[Tensor, Tensor]  # values (B, D), 0 where unseen, and observed (B, D)


@dataclass(frozen=True)
class PvaeSettings:
    embedding: int = 10
    features: int = 20  # K of the set encoder
    encoder: tuple[int, ...] = (500, 200)
    latent: int = 10
    decoder: tuple[int, ...] = (50, 100)
    variance: float = 0.02
    learning_rate: float = 1e-3
    batch_rows: int = 100
    epochs: int = 300  # of 5000 rows
    max_drop_rate: float = 0.99
    draws: int = 100


def pvae(problem: Problem, run: Run) -> Answer:
    batches = math.ceil(len(problem.train) / PvaeSettings.batch_rows)
    settings = PvaeSettings(epochs=math.ceil(STEPS / batches) if run.epochs is None else run.epochs)
    model = PartialVae(torch.from_numpy(problem.is_binary), settings, torch.Generator().manual_seed(run.seed))
    model.to(run.device)
    _train(model, _cells(problem.train, run.device), torch.Generator(run.device).manual_seed(run.seed + 1))
    draws = _asked_draws(model, problem, run)
    binary = problem.is_binary[problem.asked_column]
    deviation = np.full(len(binary), math.sqrt(settings.variance))
    mixture = Mixture(draws, deviation, binary)
    return Answer(mixture.imputation(), settings={**asdict(settings), "library": f"torch {torch.__version__}"})


class PartialVae(nn.Module):
    is_binary: Tensor  # (D,)
    continuous: Tensor  # the indices of the other columns

    def __init__(self, is_binary: Tensor, settings: PvaeSettings, rng: torch.Generator) -> None:
        super().__init__()
        D, e, K = len(is_binary), settings.embedding, settings.features
        self.settings = settings
        self.register_buffer("is_binary", is_binary)
        self.register_buffer("continuous", torch.nonzero(~is_binary)[:, 0])
        self.embedding = uniform_parameter((D, e), e, [rng])  # (1, D, e)
        self.bias = uniform_parameter((D, 1), 1, [rng])
        self.shared = _linear(e + 2, K, rng)
        self.encoder = _mlp((K, *settings.encoder, 2 * settings.latent), rng)
        self.decoder = _mlp((settings.latent, *settings.decoder, D), rng)

    def encode(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z | observed cells).  (B, D) -> (B, d), (B, d)

        Cell i gives s_i = relu(W [x_i, x_i e_i, b_i] + c), and the set relu(sum of s_i over observed i). The product is
        linear in x_i: s_i = relu(x_i U_i + V_i) with U_i = W [1, e_i, 0] and V_i = W [0, 0, b_i] + c, so that W acts
        once a column instead of once a cell.
        """
        one, none = torch.ones_like(self.bias), torch.zeros_like(self.bias)
        start = self.shared(torch.cat([none, torch.zeros_like(self.embedding), self.bias], dim=2))[0]  # V, (D, K)
        slope = self.shared(torch.cat([one, self.embedding, self.bias], dim=2))[0] - start  # U
        of_set = torch.relu(self._sum_of_cells(values, observed, start, slope))
        mean, log_variance = self.encoder(of_set[None])[0].chunk(2, dim=-1)
        return mean, log_variance.clamp(-20, 20)  # far outside what is learned; a wild first step would overflow

    def _sum_of_cells(self, values: Tensor, observed: Tensor, start: Tensor, slope: Tensor) -> Tensor:
        """sum over observed i of relu(x_i U_i + V_i).  -> (B, K)

        A binary cell is one of two rows, relu(V_i) and relu(U_i + V_i): products instead of a (B, D, K) tensor.
        """
        binary = observed * self.is_binary
        total = (binary * values) @ torch.relu(start + slope) + (binary * (1 - values)) @ torch.relu(start)
        if len(self.continuous):
            x, seen = (part.index_select(1, self.continuous) for part in (values, observed))
            start, slope = (part.index_select(0, self.continuous) for part in (start, slope))
            by_cell = torch.relu(torch.addcmul(start, x[..., None], slope))  # (B, D, K)
            total = total + torch.bmm(seen[:, None], by_cell)[:, 0]
        return total

    def decode(self, z: Tensor) -> Tensor:
        """Log-odds of the binary columns; the sigmoid of the others is their mean.  (B, d) -> (B, D)"""
        return self.decoder(z[None])[0]

    def loss(self, values: Tensor, observed: Tensor, shown: Tensor, rng: torch.Generator) -> Tensor:
        """-ELBO a row: every observed cell is scored, the encoder sees only those shown."""
        mean, log_variance = self.encode(values, shown)
        noise = torch.randn(mean.shape, generator=rng, device=mean.device)
        logits = self.decode(mean + (0.5 * log_variance).exp() * noise)
        gaussian = (values - torch.sigmoid(logits)).square() / (2 * self.settings.variance)
        bernoulli = binary_cross_entropy_with_logits(logits, values, reduction="none")
        nll = torch.where(self.is_binary, bernoulli, gaussian) * observed
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
        return (nll.sum() + kl.sum()) / len(values)

    def draws(self, values: Tensor, observed: Tensor, noise: Tensor) -> Tensor:
        """Means of all cells for S draws of z.  noise: (S, B, d) -> (S, B, D)"""
        mean, log_variance = self.encode(values, observed)
        S, B, d = noise.shape
        z = mean + (0.5 * log_variance).exp() * noise
        return torch.sigmoid(self.decode(z.view(S * B, d))).view(S, B, -1)


def _train(model: PartialVae, cells: Cells, rng: torch.Generator) -> None:
    settings, (values, observed) = model.settings, cells
    optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate, fused=True)
    for _ in range(settings.epochs):
        order = torch.randperm(len(values), generator=rng, device=values.device)
        for rows in order.split(settings.batch_rows):
            shown = _drop(observed[rows], settings.max_drop_rate, rng)
            optimizer.zero_grad()
            model.loss(values[rows], observed[rows], shown, rng).backward()
            optimizer.step()


def _drop(observed: Tensor, max_rate: float, rng: torch.Generator) -> Tensor:
    """Each row's rate from U(0, max_rate); each of its cells dropped with it.  (B, D) of 0 and 1"""
    B, D = observed.shape
    rate = max_rate * torch.rand(B, 1, generator=rng, device=observed.device)
    return observed * (torch.rand(B, D, generator=rng, device=observed.device) >= rate)


@torch.no_grad()
def _asked_draws(model: PartialVae, problem: Problem, run: Run) -> np.ndarray:
    """(S, c), by parts of the test rows: S draws of all D columns of a part are 40 MB for D = 1000."""
    S, d, B = model.settings.draws, model.settings.latent, model.settings.batch_rows
    rng = torch.Generator(run.device).manual_seed(run.seed + 2)
    result = np.empty((S, len(problem.asked_row)), np.float32)
    for start in range(0, len(problem.test), B):
        values, observed = _cells(problem.test[start : start + B], run.device)
        noise = torch.randn(S, len(values), d, generator=rng, device=run.device)
        means = model.draws(values, observed, noise).cpu().numpy()
        at = np.flatnonzero((problem.asked_row >= start) & (problem.asked_row < start + B))
        result[:, at] = means[:, problem.asked_row[at] - start, problem.asked_column[at]]
    return result


def _cells(table: FloatArray, device: str) -> Cells:
    observed = ~np.isnan(table)
    values = np.where(observed, table, 0.0)
    return torch.from_numpy(values).float().to(device), torch.from_numpy(observed).float().to(device)


def _linear(n_in: int, n_out: int, rng: torch.Generator) -> NodeLinear:
    """Unlike nn.Linear it starts from a generator of its own.  (1, B, n_in) -> (1, B, n_out)"""
    return NodeLinear(torch.zeros(1, dtype=torch.long), n_in, n_out, [rng])


def _mlp(sizes: tuple[int, ...], rng: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [_linear(n_in, n_out, rng), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
