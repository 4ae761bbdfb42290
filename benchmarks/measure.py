"""Training steps of any size, timed side by side, and their memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.naive import form
from visl.batches import TrainingData
from visl.config import build_config
from visl.model import VislModel
from visl.schema import BINARY, CONTINUOUS, Column, Schema
from visl.steps import Alone
from visl.table import Table
from visl.training import TrainingState, _Run


@dataclass(frozen=True)
class Case:
    """A training step; with backward messages unless `stage` is 1."""

    groups: int  # M
    rows: int  # B, of a batch
    dim: int  # d
    rounds: int  # T
    members: int = 1
    columns: int | None = None  # of all groups together; None: one in each
    observed: float = 0.7
    stage: int = 2
    form: str = "fused"
    record: bool = True  # on a GPU: CUDA graphs
    present: float | None = None  # share of edges that are likely; None: the start of training
    device: str = "cpu"
    steps: int = 6  # of an epoch, which is the unit that is timed

    def __str__(self) -> str:
        return f"M = {self.groups}, B = {self.rows}, d = {self.dim}, T = {self.rounds}"


def build(case: Case) -> _Run:
    M, D = case.groups, case.columns or case.groups
    kind = CONTINUOUS if case.columns is None else BINARY
    levels = () if kind == CONTINUOUS else (0, 1)
    group_of = [j * M // D for j in range(D)]
    columns = tuple(
        Column(f"c{j:05d}", kind, f"g{m:04d}", levels=levels, low=0.0, high=1.0) for j, m in enumerate(group_of)
    )
    schema = Schema(columns, tuple(f"g{m:04d}" for m in range(M)), grouped=case.columns is not None)
    settings = {"latent_dim": case.dim, "message_steps": case.rounds, "batch_size": case.rows}
    config = build_config("paper-synthetic", epochs=1000, initial_edge_probability=min(0.5, 3 / M**0.5), **settings)
    rngs = [torch.Generator().manual_seed(k) for k in range(case.members)]
    model = VislModel(schema, config, torch.full((M, M), 0.05), rngs).to(case.device)
    if case.present is not None:
        likely = torch.rand(model.edges.logits.shape, generator=rngs[0]) < case.present
        model.edges.absent_below = 1e-4
        with torch.no_grad():
            model.edges.logits.copy_(torch.where(likely, 4.0, -12.0))
    engine = Alone()
    engine.records = case.record
    state = TrainingState(epoch=0 if case.stage == 1 else 500)
    return _Run(model, TrainingData([_table(case, D, kind)]), list(range(case.members)), state, engine)


def _table(case: Case, D: int, kind: str) -> Table:
    """As many batches as steps; each row has about its share of the cells."""
    rng, n_rows = np.random.default_rng(0), case.rows * case.steps
    counts = np.maximum(1, rng.binomial(D, case.observed, n_rows))
    columns = np.concatenate([np.sort(rng.choice(D, count, replace=False)) for count in counts])
    values = rng.random(len(columns))
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Table(
        starts, columns.astype(np.int32), (values if kind == CONTINUOUS else values > 0.5).astype(np.float32), D
    )


def stepper(case: Case) -> Callable[[], float]:
    """A function that runs some steps and gives the seconds of one."""
    run = build(case)

    def steps() -> float:
        with form(case.form), run.surroundings():
            run.start_phase_if_due()
            start = time.perf_counter()
            run.epoch(lambda state: False)
            run.close_epoch()  # waits for the device
            return (time.perf_counter() - start) / case.steps

    steps()  # compiles, warms up, records
    return steps


def side_by_side(cases: dict[str, Case], seconds: float) -> dict[str, float]:
    """Median time of a step of each case, measured in turn."""
    runs = {name: stepper(case) for name, case in cases.items()}
    times: dict[str, list[float]] = {name: [] for name in cases}
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or min(map(len, times.values())) < 2:
        for name, run in runs.items():
            times[name].append(run())
    return {name: statistics.median(values) for name, values in times.items()}


def peak_memory(case: Case) -> float:
    """MiB that training takes at most, over what the program has when it has been loaded; in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.measure", json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    return float(done.stdout) if done.returncode == 0 else float("nan")


def _report_memory(case: Case) -> None:
    if case.device == "cuda":
        stepper(case)()
        print(torch.cuda.max_memory_allocated() / 2**20)
        return
    stepper(Case(3, 4, 4, 1, form=case.form))  # so that compiled code does not count
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew; a child's would start with its parent's
    stepper(case)()
    print(_memory("VmHWM") - before)


def _memory(name: str) -> float:
    """MiB, as Linux counts them"""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    _report_memory(Case(**json.loads(sys.argv[1])))
