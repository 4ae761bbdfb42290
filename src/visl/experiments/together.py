"""Cells on a GPU, in this process: those of VISL on data sets of one shape are members of one model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from visl.experiments.cells import circumstances, done_row, run_cell, run_of
from visl.experiments.design import Cell, Experiment, Row
from visl.experiments.rows import FAILED, OVER, row_of


def run_together(
    experiment: Experiment, cells: Sequence[Cell], *, data: Path | None, device: str, limit_s: float
) -> Iterator[Row]:
    """Rows of the cells. The time of a cell of VISL is that of all members side by side, whose number is kept."""
    for cell in cells:
        if cell.contender.method != "visl":
            yield {**run_cell(experiment, cell, data=data, device=device), "limit_s": limit_s}
    for group in _side_by_side([cell for cell in cells if cell.contender.method == "visl"]):
        yield from _run_group(experiment, group, data, device, limit_s)


def _side_by_side(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of cells of one contender on data sets of one size."""
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.contender.name, cell.data_set.size), []).append(cell)
    return list(groups.values())


def _run_group(
    experiment: Experiment, cells: list[Cell], data: Path | None, device: str, limit_s: float
) -> Iterator[Row]:
    import torch

    from visl.experiments.methods.side_by_side import OverTheLimit, can_share_a_model, visl_side_by_side

    loaded = [experiment.load(cell.data_set, data) for cell in cells]
    problems = [problem for problem, _ in loaded]
    if not all(can_share_a_model(problems[0], problem) for problem in problems):
        for cell in cells:
            yield from _run_group(experiment, [cell], data, device, limit_s)
        return
    runs = [run_of(cell, device) for cell in cells]
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    begun = time.monotonic()
    try:
        answers = visl_side_by_side(
            problems, runs, time_is_up=lambda: time.monotonic() - begun > limit_s, **cells[0].contender.settings
        )
    except OverTheLimit:
        for cell in cells:
            yield row_of(cell, OVER, limit_s=limit_s, seconds=limit_s, together=len(cells), device=device)
        return
    except Exception as error:
        for cell in cells:
            yield row_of(cell, FAILED, limit_s=limit_s, reason=f"{type(error).__name__}: {error}", **circumstances())
        return
    spent = {
        "seconds": time.monotonic() - begun,
        "together": len(cells),
        "device": torch.cuda.get_device_name() if on_gpu else device,
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if on_gpu else None,
        "limit_s": limit_s,
    }
    for cell, (problem, truth), answer in zip(cells, loaded, answers, strict=True):
        yield done_row(experiment, cell, problem, truth, answer, **spent)
