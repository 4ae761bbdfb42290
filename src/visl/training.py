"""One plain training loop, phase by phase, which can stop after any step and go on from there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visl.batches import CellStore, Noise, StepInputs, TrainingData
from visl.causes import find_causes
from visl.config import IMPUTE, Config, Phase
from visl.errors import InputError
from visl.fitted_graph import fit_graph
from visl.held_back import seen_by_networks
from visl.linear_fit import LinearFit
from visl.model import LossWeights, VislModel
from visl.nets.kernels import has_triton
from visl.standardising import standardise
from visl.steps import Alone, Engine, StepRunner, decay_rates, phase_optimizer
from visl.table import Table

ONE_THREAD_BELOW = 100_000  # floats of a batch's latent vectors, K * B * M * d
OTHERS_LOST = re.compile(r"gloo|nccl|connection|socket|store|timed? ?out", re.IGNORECASE)  # in torch's words
TERMS = ("loss", "nll", "kl_latent", "kl_edges", "acyclicity")


class Interrupted(Exception):
    """Training was asked to stop, or (`lost`) another process has gone; `state` is where to go on."""

    def __init__(self, state: TrainingState, lost: str | None = None) -> None:
        super().__init__("training was interrupted")
        self.state, self.lost = state, lost


@dataclass
class TrainingState:
    """All that changes in training besides the model's own tensors. Noise follows from seed, epoch and step."""

    epoch: int = 0  # of the whole run, both stages
    step: int = 0  # batches of this epoch already done
    sums: list[list[float]] | None = None  # of this epoch's terms so far, for each member
    history: list[dict[str, float]] = field(default_factory=list)
    optimizer: dict[str, Any] | None = None  # Adam's state dict; None: a fresh one

    @property
    def at_start(self) -> bool:
        return self.epoch == 0 and self.step == 0


def train(
    model: VislModel,
    data: Table | TrainingData,
    *,
    seeds: Sequence[int],
    state: TrainingState | None = None,
    on_search: Callable[[int, int], None] = lambda done, of: None,
    on_epoch: Callable[[dict[str, float]], None] = lambda record: None,
    should_stop: Callable[[TrainingState], bool] = lambda state: False,
    keep: Callable[[Callable[[], TrainingState]], None] = lambda snapshot: None,
    engine: Engine | None = None,
) -> list[dict[str, float]]:
    """Train the model in place and return its history: one record of every loss term for each epoch.

    seeds: one for each member. `on_search` is told how many searches of the graph are done, if fits find it.
    `should_stop` is asked after every step; True ends in `Interrupted`, whose state, with the model's tensors, goes on
    to exactly where an uninterrupted run would have ended. `keep` is called after every step and may take a snapshot of
    that state, against the worst.
    """
    data = TrainingData([data]) if isinstance(data, Table) else data
    state = state or TrainingState()
    run = _Run(model, data, seeds, state, engine or Alone(), on_search)
    with run.surroundings():
        while state.epoch < model.epochs:
            run.start_phase_if_due()
            run.epoch(should_stop, keep)
            on_epoch(run.close_epoch())
    return state.history


class _Run:
    def __init__(
        self,
        model: VislModel,
        data: TrainingData,
        seeds: Sequence[int],
        state: TrainingState,
        engine: Engine,
        on_search: Callable[[int, int], None],
    ) -> None:
        if len(seeds) != model.n_members:
            raise AssertionError(f"{len(seeds)} seeds for {model.n_members} members")
        self.model, self.data, self.seeds, self.state, self.engine = model, data, seeds, state, engine
        self.config, self.phases, self.on_search = model.config, model.phases, on_search
        self.device = model.noise_variance.device
        on_device = self.device.type == "cuda" and has_triton() and engine.records and len(data.parts) == 1
        self.noise = Noise(seeds, data.parts, on_device=on_device)
        self.batch_rows = self.config.batch_rows(data.n_rows)
        self.sums = torch.zeros(len(TERMS), model.n_members, dtype=torch.float64, device=self.device)
        self.totals = self.sums  # those of all processes
        self.weights = LossWeights(*(torch.zeros(model.n_members, device=self.device) for _ in range(3)))
        self.max_rate = self._of_members(lambda config: config.drop_rate(fitted=model.fitted))
        self.optimizer: torch.optim.AdamW | None = None
        self.runner: StepRunner | None = None
        self._inputs: dict[int, StepInputs] = {}

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        floats = self.model.n_members * self.batch_rows * self.model.n_groups * self.config.latent_dim
        on_gpu = self.device.type == "cuda"
        with _threads_for(floats), _side_stream() if on_gpu else nullcontext():
            yield

    @property
    def phase(self) -> Phase:
        return next(phase for phase in self.phases if self.state.epoch < phase.end)

    @property
    def _at_new_phase(self) -> bool:
        """Before its first step."""
        return self.state.epoch == self.phase.first and self.state.step == 0

    def start_phase_if_due(self) -> None:
        """Each phase learns other things, with a fresh optimiser."""
        if self.runner is not None and not self._at_new_phase:
            return
        if self.state.at_start:
            standardise(self.model, self.data, self.engine)
            self._find_graph()
        imputing = self.phase.name == IMPUTE
        seen = seen_by_networks(self.model, self.data) if imputing else self.data  # the graph is learned from all cells
        self.cells = CellStore(seen, self.model.schema, self.model.n_members, self.device)
        filled = self._rows_for_guess() if imputing else None
        self.n_steps = self.data.n_steps(self.batch_rows)
        self.n_passes = -(-self.config.epoch_steps // self.n_steps) if self.model.fitted else 1
        self.runner, self._inputs = None, {}  # and what it holds of the other processes
        self.optimizer = phase_optimizer(self.model, self.phase)
        if self.state.optimizer is not None:  # perhaps from another device: its numbers count, not its settings
            ours = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": self.state.optimizer["state"], "param_groups": ours})
            self.state.optimizer = None
        self.runner = StepRunner(
            self.model, self.optimizer, self.cells, self.noise, self.weights, self.max_rate, self.sums, self.engine,
            phase=self.phase, n_rows_total=self.data.n_rows, filled=filled,
        )  # fmt: skip

    def _find_graph(self) -> None:
        """Where no network is needed for it."""
        if not self.model.fitted or not bool(self.model.edges.learned.any()):
            return
        if not find_causes(self.model, self.data, self.seeds, self.engine, self.on_search):
            fit_graph(self.model, self.data, self.seeds, self.engine, self.on_search)

    def _rows_for_guess(self) -> Tensor | None:
        """What linear guesses of the training rows need; they are fitted first, if that is due."""
        if self.model.guess is None:
            return None
        fit = LinearFit(self.model, self.cells, self.data, self.engine)
        if self._at_new_phase:
            fit.fit()
        return fit.filled()

    def epoch(
        self,
        should_stop: Callable[[TrainingState], bool],
        keep: Callable[[Callable[[], TrainingState]], None] = lambda snapshot: None,
    ) -> None:
        assert self.runner is not None
        assert self.optimizer is not None
        state, n_steps = self.state, self.n_steps * self.n_passes
        decay_rates(self.optimizer, self.config.learning_rate_share(state.epoch, **self.model.form))
        order = [
            rows
            for i in range(self.n_passes)
            for rows in self.data.epoch_order(self.seeds, state.epoch * self.n_passes + i, self.n_steps)
        ]
        self.runner.make_room(order)
        self.noise.start_epoch(state.epoch, n_steps, self.device)
        on_device = torch.cat(order, dim=1).to(self.device).split([rows.shape[1] for rows in order], dim=1)
        self._set_weights()
        self.sums.zero_()
        if state.sums is not None and self.engine.rank == 0:  # those of all processes together
            self.sums.copy_(torch.tensor(state.sums, dtype=torch.float64))
        self.totals = self.sums
        while state.step < n_steps:
            rows, rows_of_parts = order[state.step], self.data.rows_of_step(state.step % self.n_steps, self.n_steps)
            inputs = self._inputs_for(on_device[state.step])
            here = [rows_of_parts[part] for part in self.data.parts]
            self.noise.prepare(inputs, here, state.step)
            if self.data.share[1] > 1:
                own = self.data.share_of_batch(rows.shape[1])
                inputs, rows = inputs.some(own), rows[:, own]
            with self._watching_others():
                self.runner.step(inputs, rows, n_rows_everywhere=sum(rows_of_parts))
                state.step += 1
                self.totals, stop = self.engine.share(self.sums, should_stop(state))
            if stop:
                raise Interrupted(self.snapshot())
            keep(self.snapshot)

    @contextmanager
    def _watching_others(self) -> Iterator[None]:
        """Where another process has gone, the model is what it was after the last whole step.

        (If it goes just after a step, the epoch's record lacks that step of the others.)
        """
        try:
            yield
        except RuntimeError as error:
            if self.engine.world == 1 or not OTHERS_LOST.search(str(error)):
                raise
            # "[file:line] what happened. What programmers should do about it."
            reason = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip()).split(". ")[0].splitlines()[0]
            raise Interrupted(self.snapshot(), lost=reason) from error

    def snapshot(self) -> TrainingState:
        """The state, complete with what lives on the device."""
        assert self.optimizer is not None
        sums = self.totals.tolist() if self.state.step else None
        optimizer = None if self._at_new_phase else self.optimizer.state_dict()
        for group in optimizer["param_groups"] if optimizer else ():
            group["lr"] = float(group["lr"])
        return replace(self.state, sums=sums, history=list(self.state.history), optimizer=optimizer)

    def close_epoch(self) -> dict[str, float]:
        """Turn the epoch's sums into its record of means per row, and move on to the next epoch."""
        state, config = self.state, self.config
        means = self.totals.cpu().numpy() / (self.data.n_rows * self.n_passes)  # (terms, K)
        if not np.isfinite(means).all():
            raise InputError(
                f"training diverged in epoch {state.epoch + 1}: the loss is no longer finite. "
                f"Lower learning_rate (now {config.learning_rate:g})"
            )
        record = {
            "stage": self.phase.stage,
            "epoch": state.epoch + 1,
            **dict(zip(TERMS, means.mean(1).tolist(), strict=True)),
            "edges": self.model.edges.probabilities().detach().sum((-2, -1)).mean().item(),  # expected, now
            "acyclicity_weight": config.acyclicity_weight_at(state.epoch, fitted=self.model.fitted),
        }
        if self.model.n_members > 1:
            record["loss_spread"] = float(means[0].std())
        state.history.append(record)
        state.epoch, state.step, state.sums = state.epoch + 1, 0, None
        return record

    def _inputs_for(self, rows: Tensor) -> StepInputs:
        K, B = rows.shape
        if B not in self._inputs:
            self._inputs[B] = StepInputs.empty(K, B, self.model.n_groups, self.config.latent_dim, self.device)
        self._inputs[B].rows.copy_(rows)
        return self._inputs[B]

    def _set_weights(self) -> None:
        epoch, M, fitted = self.state.epoch, self.model.n_groups, self.model.fitted
        has_numbers = bool(any(self.model.schema.has_numbers))
        self.weights.kl_latent.copy_(
            self._of_members(lambda c: c.kl_latent_weight_at(epoch, fitted=fitted, has_numbers=has_numbers))
        )
        self.weights.kl_edges.copy_(
            self._of_members(lambda c: c.kl_edges_weight / (M if c.kl_edges_over_groups else 1))
        )
        self.weights.acyclicity.copy_(self._of_members(lambda c: c.acyclicity_weight_at(epoch, fitted=fitted)))

    def _of_members(self, number: Callable[[Config], float]) -> Tensor:
        return torch.tensor([number(config) for config in self.model.configs], device=self.device)


@contextmanager
def _side_stream() -> Iterator[None]:
    """CUDA graphs cannot be recorded on the stream that everything else waits for."""
    outside, inside = torch.cuda.current_stream(), torch.cuda.Stream()
    inside.wait_stream(outside)
    try:
        with torch.cuda.stream(inside):
            yield
    finally:
        inside.synchronize()


@contextmanager
def _threads_for(floats: int) -> Iterator[None]:
    """Steps on small tensors run on one thread: more gain little, and lose much where other programs use the cores."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if floats < ONE_THREAD_BELOW else before)
        yield
    finally:
        torch.set_num_threads(before)
