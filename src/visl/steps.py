"""One training step, and how steps are run: one after the other, or on a GPU as recorded CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from visl.batches import BatchShape, CellStore, Noise, StepInputs, hide_at_random
from visl.config import LATENT, Phase
from visl.errors import InputError
from visl.model import ElboTerms, LossWeights, VislModel

STEPS_BEFORE_RECORDING = 3  # so that libraries have set themselves up; they count like any other step
Result = TypeVar("Result")
SPARE_ROOM = 1.03  # a recorded step holds somewhat more cells than it needs now: recording again is slow


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


class Engine(Protocol):
    """What the loop needs to know about other processes that train the same model."""

    records: bool  # whether steps may be recorded
    world: int  # number of processes
    rank: int  # of this one

    def setup(self, model: VislModel) -> Callable[..., ElboTerms]:
        """The model as it is to be called."""

    def backward(self, loss: Tensor) -> None:
        """The gradients of the loss, averaged over all processes."""

    def share(self, sums: Tensor, stop: bool) -> tuple[Tensor, bool]:
        """The sum over all processes, and whether one of them wants to stop."""

    def gather(self, plain: Any) -> list[Any]:
        """Plain data (as JSON knows it) of every process, in order of rank."""

    def agree(self, prepare: Callable[[], Result]) -> Result:
        """The result of `prepare`, if it failed in no process; else an error in all of them."""


class Alone:
    """No other process."""

    records, world, rank = True, 1, 0

    def setup(self, model: VislModel) -> Callable[..., ElboTerms]:
        return model

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def share(self, sums: Tensor, stop: bool) -> tuple[Tensor, bool]:
        return sums, stop

    def gather(self, plain: Any) -> list[Any]:
        return [plain]

    def agree(self, prepare: Callable[[], Result]) -> Result:
        return prepare()


def phase_optimizer(model: VislModel, phase: Phase) -> torch.optim.AdamW:
    """Adam with a group of parameters for each learning rate, of what is learned in this phase."""
    model.requires_grad_(True)
    model.edges.requires_grad_(phase.name == LATENT)
    of_edges = set(model.edges.parameters())
    groups: dict[tuple[float, bool], list[Tensor]] = {}
    rates_of_members = [config.learning_rates() for config in model.configs]  # (networks, edges)
    same = len(set(rates_of_members)) == 1
    for parameter in (p for p in model.parameters() if p.requires_grad):
        is_edge = parameter in of_edges
        rates = [of_member[is_edge] for of_member in rates_of_members]
        for part, rate in [(parameter, rates[0])] if same else zip(_views(parameter), rates, strict=True):
            groups.setdefault((rate, is_edge), []).append(part)
    device = model.noise_variance.device
    on_gpu = device.type == "cuda"
    return torch.optim.AdamW(
        [
            # On a GPU a tensor, so that recorded steps see it change. Edges must be able to move to the end.
            {
                "params": parameters,
                "lr": torch.tensor(rate, device=device) if on_gpu else rate,
                "decays_from": None if is_edge else rate,
                "weight_decay": 0.0 if is_edge else model.config.weight_decay,
            }
            for (rate, is_edge), parameters in groups.items()
        ],
        fused=True,
        capturable=on_gpu,
    )


def decay_rates(optimizer: torch.optim.AdamW, share: float) -> None:
    """Let the networks' learning rates be this share of what they were at first."""
    for group in optimizer.param_groups:
        if group["decays_from"] is None:
            continue
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["decays_from"] * share)
        else:
            group["lr"] = group["decays_from"] * share


def _views(parameter: Tensor) -> list[Tensor]:
    """Each member's part of a parameter and of its gradient, which stays where it is from now on."""
    parameter.grad = torch.zeros_like(parameter)
    views = list(parameter.detach().unbind(0))
    for view, gradient in zip(views, parameter.grad.unbind(0), strict=True):
        view.grad = gradient
    return views


@dataclass
class _Recording:
    """The step for one size of batch."""

    shape: BatchShape
    n_done: int = 0
    graph: torch.cuda.CUDAGraph | None = None


class StepRunner:
    def __init__(
        self,
        model: VislModel,
        optimizer: torch.optim.AdamW,
        cells: CellStore,
        noise: Noise,
        weights: LossWeights,
        max_rate: Tensor,
        sums: Tensor,
        engine: Engine,
        *,
        phase: Phase,
        n_rows_total: int,
        filled: Tensor | None = None,
    ) -> None:
        """sums: (terms, K), to which every step adds its own; max_rate: (K,); filled: (rows, F), see `LinearFit`"""
        self.model, self.optimizer, self.cells, self.noise = model, optimizer, cells, noise
        self.weights, self.sums, self.filled = weights, sums, filled
        self.max_rate, self.phase, self.n_rows_total, self.engine = max_rate, phase, n_rows_total, engine
        self.terms_of, self.graph = engine.setup(model), model.frozen_graph_terms()
        self.keeps_gradients = any(not p.requires_grad for group in optimizer.param_groups for p in group["params"])
        self.records = cells.device.type == "cuda" and engine.records
        self._recordings: dict[int, _Recording] = {}
        self._room: BatchShape | None = None

    def make_room(self, batches: Sequence[Tensor]) -> None:
        """Before an epoch: the common size of its batches, where steps are recorded."""
        if not self.records:
            return
        needed = self.cells.common_shape(batches)
        if self._room is None or not self._room.holds(needed):
            self._room = needed.enlarged(SPARE_ROOM)
            self._recordings.clear()

    def step(self, inputs: StepInputs, rows: Tensor, n_rows_everywhere: int) -> None:
        """One step on the batch of `inputs`, whose rows are also here: (K, B) on the CPU."""
        if self._room is None:
            self._compute(inputs, self.cells.exact_shape(rows), n_rows_everywhere)
            return
        recording = self._recordings.setdefault(rows.shape[1], _Recording(self._room))
        if recording.n_done < STEPS_BEFORE_RECORDING:
            self._compute(inputs, recording.shape, n_rows_everywhere)
        else:
            if recording.graph is None:
                recording.graph = self._record(inputs, recording.shape, n_rows_everywhere)
            recording.graph.replay()
        recording.n_done += 1

    def _record(self, inputs: StepInputs, shape: BatchShape, n_rows: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        if not self.keeps_gradients:
            self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self._compute(inputs, shape, n_rows)
        return graph

    def _compute(self, inputs: StepInputs, shape: BatchShape, n_rows_everywhere: int) -> None:
        self.noise.make(inputs)
        cells = self.cells.batch(inputs.rows, shape)
        shown = hide_at_random(cells, self.max_rate, inputs, self.cells.n_columns)
        if cells.padding is not None:
            shown = shown * cells.padding.real
        self.optimizer.zero_grad(set_to_none=not self.keeps_gradients)
        noise = (inputs.latent, inputs.edges)
        own = None if self.filled is None else self.filled[inputs.rows.flatten()]
        terms = self.terms_of(cells, shown, *noise, phase=self.phase, graph=self.graph, own=own)
        loss = terms.loss(self.weights, self.n_rows_total)
        # Processes average their gradients; members do not meet.
        self.engine.backward(loss.sum() * (self.engine.world / n_rows_everywhere))
        self.optimizer.step()
        self.sums += _summed_terms(loss, terms)


def _summed_terms(loss: Tensor, terms: ElboTerms) -> Tensor:
    """(terms, K); the data set's are weighted by the batch's rows, so that an epoch's sum / N is a mean."""
    of_rows = [loss, terms.nll, terms.kl_latent]
    of_data = [terms.graph.kl_edges, terms.graph.acyclicity]
    return torch.stack([*of_rows, *(term * terms.n_rows for term in of_data)]).detach().double()
