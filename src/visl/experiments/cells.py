"""One cell: the data set is loaded, the method runs, its answer is scored."""

from __future__ import annotations

import gc
import platform
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import visl
from visl.experiments.design import Cell, Experiment, Row
from visl.experiments.methods import find_method
from visl.experiments.problem import Answer, FloatArray, Problem, Run, Truth
from visl.experiments.rows import DONE, FAILED, pack_edges, row_of
from visl.experiments.scores import imputation_scores, structure_record

SMOKE_EPOCHS = 2
MEBIBYTE = 1 << 20


def run_cell(
    experiment: Experiment, cell: Cell, *, data: Path | None, device: str, on_start: Callable[[], None] = lambda: None
) -> Row:
    """on_start: called when the data are there and the method begins, which is what its time limit is for."""
    run = run_of(cell, device)
    try:
        problem, truth = experiment.load(cell.data_set, data)
        method = find_method(cell.contender.method)
        start_counting(device)
        on_start()
        begun = time.monotonic()
        if cell.contender.fill is not None:
            problem = replace(problem, train=filled(problem, cell.contender.fill, run))
        answer = method(problem, run, **cell.contender.settings)
        spent = {
            "seconds": time.monotonic() - begun,
            "peak_mib": peak_mib(device),
            "device": name_of_device(device),
        }
        return done_row(experiment, cell, problem, truth, answer, **spent)
    except Exception as error:  # one method's failure must not end the others
        return failed_row(cell, error, device)


def run_of(cell: Cell, device: str) -> Run:
    return Run(seed=cell.seed, device=device, epochs=SMOKE_EPOCHS if cell.smoke else None, small=cell.smoke)


def filled(problem: Problem, method: str, run: Run) -> FloatArray:
    """The training table with its gaps filled, for methods that cannot have any."""
    gaps = np.isnan(problem.train)
    rows, columns = np.nonzero(gaps)
    asked = replace(problem, test=problem.train, asked_row=rows, asked_column=columns)
    imputation = find_method(method)(asked, run).imputation
    assert imputation is not None
    table = problem.train.copy()
    # A binary column takes the likelier level: a method for binary data cannot have shares.
    table[gaps] = np.where(problem.is_binary[columns], imputation.mean > 0.5, imputation.mean)
    return table


def done_row(
    experiment: Experiment, cell: Cell, problem: Problem, truth: Truth, answer: Answer, **circumstances_of: Any
) -> Row:
    scores: dict[str, Any] = {}
    if answer.imputation is not None and len(truth.values):
        scores |= imputation_scores(problem, truth, answer.imputation)
    structure = answer.structure
    if structure is not None and truth.edges is not None:
        scores |= structure_record(truth.edges, structure)
    kept: dict[str, Any] = {}
    if structure is not None and truth.about:
        kept["about"] = dict(truth.about)
    if structure is not None and experiment.keeps_edges(cell.data_set):
        kept["edges"] = pack_edges(structure)
    return row_of(
        cell, DONE, scores=scores, settings=answer.settings or {}, fill=cell.contender.fill, **kept,
        **circumstances_of, **circumstances(),
    )  # fmt: skip


def failed_row(cell: Cell, error: Exception, device: str, **more: Any) -> Row:
    return row_of(cell, FAILED, reason=f"{type(error).__name__}: {error}", device=device, **more, **circumstances())


def circumstances() -> dict[str, Any]:
    return {"visl": visl.__version__, "python": platform.python_version(), "finished": time.strftime("%Y-%m-%d")}


def name_of_device(device: str) -> str:
    """The GPU's own name, since a time is that of a certain one."""
    if not _is_cuda(device):
        return device
    import torch

    return torch.cuda.get_device_name(device)


def start_counting(device: str) -> None:
    """Of a GPU's memory, from here on."""
    if _is_cuda(device):
        import torch

        torch.cuda.init()  # which counting does not do by itself
        let_go(device)
        torch.cuda.reset_peak_memory_stats(device)


def let_go(device: str) -> None:
    """What ran here before, perhaps out of memory, leaves the GPU's to others."""
    if _is_cuda(device):
        import torch

        gc.collect()
        torch.cuda.empty_cache()


def peak_mib(device: str = "cpu") -> float | None:
    """Of this process, so far: the memory of the GPU if it runs on one, else its own; None: not known here."""
    if _is_cuda(device):
        import torch

        return torch.cuda.max_memory_allocated(device) / MEBIBYTE
    if (status := Path("/proc/self/status")).exists() and (
        found := re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)
    ):
        return int(found[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    # On Linux a child's begins at its parent's, so this comes second.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MEBIBYTE if sys.platform == "darwin" else peak / 1024


def _is_cuda(device: str) -> bool:
    return device.split(":")[0] == "cuda"
