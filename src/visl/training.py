"""One plain training loop in two stages, which can stop after any step and go on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from visl.config import Config
from visl.errors import InputError
from visl.model import ElboTerms, VislModel
from visl.nets.layout import Cells
from visl.table import Table

ONE_THREAD_BELOW = 100_000  # floats of a batch's latent vectors, B * M * d
TERMS = ("loss", "nll", "kl_latent", "kl_edges", "acyclicity")


class Interrupted(Exception):
    """Training was asked to stop; `state` is where to go on."""

    def __init__(self, state: TrainingState) -> None:
        super().__init__("training was interrupted")
        self.state = state


@dataclass
class TrainingState:
    """All that changes in training besides the model's own tensors."""

    epoch: int = 0  # of the whole run, both stages
    step: int = 0  # batches of this epoch already done
    sums: list[float] = field(default_factory=lambda: [0.0] * len(TERMS))  # of this epoch's terms so far
    history: list[dict[str, float]] = field(default_factory=list)
    rng_state: Tensor | None = None  # of the noise
    optimizer: dict[str, Any] | None = None  # Adam's state dict

    @property
    def at_start(self) -> bool:
        return self.epoch == 0 and self.step == 0


def find_device(name: str) -> torch.device:
    """The named device, "auto" being a GPU if there is one, after checking that it can be used."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used here ({reason}): use 'auto' or 'cpu'") from error
    return device


class DeviceTable:
    """A table's cells as tensors on the training device; batches of rows are gathered there."""

    def __init__(self, table: Table, device: torch.device) -> None:
        self.n_rows = table.n_rows
        self.starts = torch.from_numpy(table.starts).to(device)
        self.columns = torch.from_numpy(table.columns).to(device)
        self.values = torch.from_numpy(table.values).to(device)

    def batch(self, rows: Tensor) -> Cells:
        first, counts = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        batch_row = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        before = counts.cumsum(0) - counts  # cells of the batch that precede each row's
        position = torch.arange(len(batch_row), device=rows.device) + (first - before)[batch_row]
        return Cells(batch_row, self.columns[position].long(), self.values[position], len(rows))


def hide_at_random(cells: Cells, max_rate: float, rng: torch.Generator) -> Tensor:
    """1 for shown cells, 0 for hidden ones: each row draws its own rate from U(0, max_rate).  (cells,)"""
    device = cells.value.device
    rate = max_rate * torch.rand(cells.n_rows, generator=rng, device=device)
    return (torch.rand(len(cells.row), generator=rng, device=device) >= rate[cells.row]).to(cells.value.dtype)


def train(
    model: VislModel,
    table: Table,
    config: Config,
    *,
    seed: int,
    state: TrainingState | None = None,
    on_epoch: Callable[[dict[str, float]], None] = lambda record: None,
    should_stop: Callable[[TrainingState], bool] = lambda state: False,
) -> list[dict[str, float]]:
    """Train the model in place and return its history: one record of every loss term for each epoch.

    `should_stop` is asked after every step; True ends in `Interrupted`, whose state, with the model's tensors, goes on
    to exactly where an uninterrupted run would have ended.
    """
    device = next(model.parameters()).device
    data, state = DeviceTable(table, device), state or TrainingState()
    rng = torch.Generator(device).manual_seed(seed)
    if state.rng_state is not None:
        rng.set_state(state.rng_state)
    optimizer: torch.optim.Adam | None = None
    floats = config.batch_rows(data.n_rows) * model.n_groups * config.latent_dim
    with _threads_for(floats):
        for epoch in range(state.epoch, config.epochs):
            stage = 1 if epoch < config.stage_epochs[0] else 2
            # Stage 2 freezes q(G) and starts a fresh optimiser.
            if optimizer is None or (stage == 2 and epoch == config.stage_epochs[0] and state.step == 0):
                optimizer = _stage_optimizer(model, stage, config, state)
            _run_epoch(model, data, config, optimizer, rng, state, seed, stage, should_stop)
            record = _close_epoch(state, stage, data.n_rows, config)
            on_epoch(record)
    return state.history


@contextmanager
def _threads_for(floats: int) -> Iterator[None]:
    """Steps on small tensors run on one thread: more gain little, and lose much where other programs use the cores."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if floats < ONE_THREAD_BELOW else before)
        yield
    finally:
        torch.set_num_threads(before)


def _stage_optimizer(model: VislModel, stage: int, config: Config, state: TrainingState) -> torch.optim.Adam:
    model.edges.requires_grad_(stage == 1)
    model.messages.backward_messages.requires_grad_(stage == 2)
    of_edges = set(model.edges.parameters())
    networks = [p for p in model.parameters() if p.requires_grad and p not in of_edges]
    edges = {
        "params": [p for p in of_edges if p.requires_grad],
        "lr": config.edge_learning_rate or config.learning_rate,
    }
    groups: list[dict[str, Any]] = [{"params": networks}, edges] if edges["params"] else [{"params": networks}]
    optimizer = torch.optim.Adam(groups, lr=config.learning_rate, fused=True)
    if state.optimizer is not None:
        optimizer.load_state_dict(state.optimizer)
        state.optimizer = None
    return optimizer


def _run_epoch(
    model: VislModel,
    data: DeviceTable,
    config: Config,
    optimizer: torch.optim.Adam,
    rng: torch.Generator,
    state: TrainingState,
    seed: int,
    stage: int,
    should_stop: Callable[[TrainingState], bool],
) -> None:
    order = _epoch_order(data.n_rows, seed, state.epoch).to(data.values.device)
    batches = order.split(config.batch_rows(data.n_rows))
    sums = torch.tensor(state.sums, dtype=torch.float64, device=order.device)
    for rows in batches[state.step :]:
        cells = data.batch(rows)
        shown = hide_at_random(cells, config.max_drop_rate, rng)
        terms = model.elbo_terms(cells, shown, rng, backward=stage == 2)
        loss = terms.loss(
            config,
            n_rows_total=data.n_rows,
            n_groups=model.n_groups,
            acyclicity_weight=config.acyclicity_weight_at(state.epoch),
        )
        optimizer.zero_grad(set_to_none=True)
        (loss / terms.n_rows).backward()
        optimizer.step()
        sums += _summed_terms(loss, terms)
        state.step += 1
        if should_stop(state):
            state.sums = sums.tolist()
            state.rng_state, state.optimizer = rng.get_state(), optimizer.state_dict()
            raise Interrupted(state)
    state.sums = sums.tolist()


def _epoch_order(n_rows: int, seed: int, epoch: int) -> Tensor:
    """The rows in this epoch's order, which depends on nothing but the seed and the epoch."""
    return torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))


def _summed_terms(loss: Tensor, terms: ElboTerms) -> Tensor:
    """In the order of TERMS; the data set's are weighted by the batch's rows, so that an epoch's sum / N is a mean."""
    of_rows = [loss, terms.nll, terms.kl_latent]
    of_data = [terms.kl_edges * terms.n_rows, terms.acyclicity * terms.n_rows]
    return torch.stack([*of_rows, *of_data]).detach().double()


def _close_epoch(state: TrainingState, stage: int, n_rows: int, config: Config) -> dict[str, float]:
    """Turn the epoch's sums into its record of means per row, and move on to the next epoch."""
    means = {name: total / n_rows for name, total in zip(TERMS, state.sums, strict=True)}
    if not all(abs(value) < float("inf") for value in means.values()):
        raise InputError(
            f"training diverged in epoch {state.epoch + 1}: the loss is no longer finite. "
            f"Lower learning_rate (now {config.learning_rate:g})"
        )
    weight = config.acyclicity_weight_at(state.epoch)
    record = {"stage": stage, "epoch": state.epoch + 1, **means, "acyclicity_weight": weight}
    state.history.append(record)
    state.epoch, state.step, state.sums = state.epoch + 1, 0, [0.0] * len(TERMS)
    return record
