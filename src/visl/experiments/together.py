"""Cells of VISL on a GPU, in this process: those on data sets of one shape are members of one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from visl.experiments.cells import circumstances, done_row, failed_row, name_of_device, peak_mib, run_of, start_counting
from visl.experiments.design import Cell, Experiment, Row
from visl.experiments.problem import Problem, Truth
from visl.experiments.rows import OVER, row_of

METHOD = "visl"  # the one that trains data sets side by side
Loaded = tuple[Cell, Problem, Truth]


def groups(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells of one contender on data sets of one size, in the order of their first ones."""
    found: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.contender.name, cell.data_set.size), []).append(cell)
    return list(found.values())


def run_together(
    experiment: Experiment,
    cells: Sequence[Cell],
    *,
    data: Path | None,
    device: str,
    limit_s: float,
    worth_trying: Callable[[Sequence[Cell]], Iterable[Cell]] = iter,
) -> Iterator[Row]:
    """Rows of the cells of a group. The time of a cell is that of all members side by side, whose number is kept.

    Members that cannot be trained together, for their shapes, time, memory or an error in one of them, are tried one by
    one. worth_trying: asked then, once the row of the one before has been drawn from here.
    """
    members: list[Loaded] = []
    for cell in cells:
        try:
            members.append((cell, *experiment.load(cell.data_set, data)))
        except Exception as error:
            yield failed_row(cell, error, device, limit_s=limit_s)
    if not members:
        return
    rows = _rows_of_members(experiment, members, device, limit_s)
    if rows is not None:
        yield from rows
        return
    for cell in worth_trying([cell for cell, _, _ in members]):
        yield from run_together(experiment, [cell], data=data, device=device, limit_s=limit_s)


def _rows_of_members(
    experiment: Experiment, members: Sequence[Loaded], device: str, limit_s: float
) -> list[Row] | None:
    """None: they are to be tried one by one."""
    from visl.experiments.methods.side_by_side import OverTheLimit, can_share_a_model, visl_side_by_side

    cells, problems = [cell for cell, _, _ in members], [problem for _, problem, _ in members]
    alone = len(members) == 1
    if not all(can_share_a_model(problems[0], problem) for problem in problems):
        return None
    start_counting(device)
    begun = time.monotonic()
    try:
        answers = visl_side_by_side(
            problems,
            [run_of(cell, device) for cell in cells],
            time_is_up=lambda: time.monotonic() - begun > limit_s,
            **cells[0].contender.settings,
        )
        spent = {
            "seconds": time.monotonic() - begun,
            "together": len(cells),
            "device": name_of_device(device),
            "peak_mib": peak_mib(device),
            "limit_s": limit_s,
        }
        return [
            done_row(experiment, cell, problem, truth, answer, **spent)
            for (cell, problem, truth), answer in zip(members, answers, strict=True)
        ]
    except OverTheLimit:
        over = {"limit_s": limit_s, "seconds": limit_s, "together": 1, "device": name_of_device(device)}
        return [row_of(cells[0], OVER, **over, **circumstances())] if alone else None
    except Exception as error:
        return [failed_row(cells[0], error, device, limit_s=limit_s)] if alone else None
