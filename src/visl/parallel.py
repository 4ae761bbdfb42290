"""Training in several processes, on one machine or more, through Lightning Fabric.

Every process holds some parts of the rows and a copy of the model, and they average their gradients at every step. A
step's batch and its noise do not depend on how many processes there are, so neither does the model that comes out.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
import logging
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, distributed, nn

from visl.errors import InputError, ReportedElsewhere
from visl.model import ElboTerms, GraphTerms, VislModel
from visl.steps import Result, find_device

PROCESS_LOST = 3  # exit code
LAUNCHED = "VISL_LAUNCHED"  # environment variable of processes that `launch` has started


def under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(devices: int, words: Sequence[str]) -> int:
    """Run `visl WORDS` in so many processes of this machine, as torchrun does, and wait. Their exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):  # the processes speak for themselves
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ[LAUNCHED] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=devices,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.5,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "visl", *words)
    except ChildFailedError as error:
        _, first = error.get_first_failure()  # the others were then told to end
        return PROCESS_LOST if first.exitcode < 0 else int(first.exitcode)
    except SignalException as error:
        return 128 + error.sigval
    return 0


class Parallel:
    """An `Engine` of several processes."""

    records = False  # gradients are averaged between the passes of a step

    def __init__(self, fabric: Any) -> None:
        self.fabric, self.world, self.rank = fabric, int(fabric.world_size), int(fabric.global_rank)

    @classmethod
    def join(cls, device: str, devices: int | None, num_nodes: int | None) -> Parallel:
        """Join the processes that torchrun or `launch` has started; what the user says of them must be true."""
        cls.check_installed()
        from lightning_fabric import Fabric

        for name in ("lightning.fabric", "lightning_fabric"):  # its greeting says nothing to our users
            logging.getLogger(name).setLevel(logging.WARNING)
        devices, num_nodes = _torchrun_sizes(devices, num_nodes)
        accelerator = device if device in ("auto", "cpu") else find_device(device).type
        try:
            fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=num_nodes, strategy="ddp")
        except Exception as error:
            raise InputError(f"{devices} devices of {device!r} cannot be used here: {error}") from error
        fabric.launch()
        atexit.register(_leave)
        return cls(fabric)

    @staticmethod
    def check_installed() -> None:
        if importlib.util.find_spec("lightning_fabric") is None:
            raise InputError("training in several processes needs Lightning Fabric: pip install 'visl[parallel]'")

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    # -- what the training loop asks for

    def setup(self, model: VislModel) -> Callable[..., ElboTerms]:
        gc.collect()  # an earlier stage's wrapping must be gone: its hooks would wait for gradients
        wrapped = self.fabric.setup_module(_Terms(model))

        def terms(*arguments: Any, **named: Any) -> ElboTerms:
            batch = _Batch(arguments, named)
            nll, kl_latent, *graph = wrapped(batch).unbind(0)
            return ElboTerms(nll, kl_latent, GraphTerms(*graph), n_rows=batch.n_rows)

        return terms

    def backward(self, loss: Tensor) -> None:
        self.fabric.backward(loss)

    def share(self, sums: Tensor, stop: bool) -> tuple[Tensor, bool]:
        together = torch.cat([sums.flatten(), sums.new_tensor([float(stop)])])
        together = self.fabric.all_reduce(together, reduce_op="sum")
        return together[:-1].view(sums.shape), bool(together[-1] > 0)

    # -- what comes before and after

    def gather(self, plain: Any) -> list[Any]:
        """Plain data (as JSON knows it) of every process, in order of rank."""
        content = torch.frombuffer(bytearray(json.dumps(plain).encode()), dtype=torch.uint8).to(self.fabric.device)
        sizes = [int(size) for size in self._gather(torch.tensor([len(content)], device=content.device))]
        padded = nn.functional.pad(content, (0, max(sizes) - len(content)))
        rows = zip(self._gather(padded), sizes, strict=True)
        return [json.loads(row[:size].cpu().numpy().tobytes()) for row, size in rows]

    def _gather(self, x: Tensor) -> list[Tensor]:
        everywhere = [torch.empty_like(x) for _ in range(self.world)]
        try:
            distributed.all_gather(everywhere, x)
        except RuntimeError as error:
            if self.is_first:
                raise InputError("another process has ended before training began: see what it says") from error
            raise ReportedElsewhere from error
        return everywhere

    def agree(self, prepare: Callable[[], Result]) -> Result:
        """The result of `prepare`, if it failed in no process. Else the first process says what went wrong."""
        result, error = None, None
        try:
            result = prepare()
        except ReportedElsewhere:
            raise
        except Exception as failure:
            error = failure
        message = None if error is None else str(error) or type(error).__name__
        messages = [message for message in self.gather(message) if message is not None]
        if messages and not self.is_first:
            raise ReportedElsewhere
        if error is not None:
            raise error
        if messages:
            raise InputError(messages[0])
        return result  # type: ignore[return-value]


def _leave() -> None:
    """However the process ends: threads that still wait for others would abort it."""
    if distributed.is_initialized():
        with suppress(RuntimeError):
            distributed.destroy_process_group()


class _Batch:
    """The model's arguments as one that Fabric leaves as it is, and what of its result is no tensor."""

    def __init__(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.arguments, self.named, self.n_rows = arguments, named, 0


class _Terms(nn.Module):
    """The model's terms as one tensor, (terms, K)."""

    def __init__(self, model: VislModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: _Batch) -> Tensor:
        terms: ElboTerms = self.model(*batch.arguments, **batch.named)
        batch.n_rows = terms.n_rows
        graph = terms.graph
        return torch.stack([terms.nll, terms.kl_latent, graph.kl_edges, graph.acyclicity])


def _torchrun_sizes(devices: int | None, num_nodes: int | None) -> tuple[int, int]:
    """Processes of this machine, and machines, as torchrun has them."""
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    machines = int(os.environ["WORLD_SIZE"]) // here
    for name, said, found in (("--devices", devices, here), ("--num-nodes", num_nodes, machines)):
        if said not in (None, found):
            raise InputError(f"{name} is {said}, but torchrun has started {found}: leave {name} out")
    return here, machines
