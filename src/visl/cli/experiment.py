"""`visl experiment`: how VISL compares, measured again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from visl.cli import options as o
from visl.cli.console import Talk, count, duration, error_line
from visl.cli.guard import INTERRUPTED, TERMINATED, Terminated, guarded
from visl.errors import InputError

HOW_PANEL = "How it runs"


@guarded
def experiment(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="synthetic, gaps, rounds, neuropathic, eedi, scaling, or all of them: all."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder of downloaded data; without it, says what to download."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of results: rows, pictures, page.")
    ] = Path("results"),
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="The page of tables; DIR/results.md if not given.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", metavar="METHOD", help="Only this method. Repeat for more.")
    ] = None,
    data_sets: Annotated[
        list[str] | None, typer.Option("--data-set", metavar="NAME", help="Only this data set. Repeat for more.")
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A small trial, in a minute or two, into DIR/smoke.")] = False,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Run nothing: make the page again from the rows that are there.")
    ] = False,
    limit: Annotated[
        float, typer.Option("--limit", metavar="MINUTES", rich_help_panel=HOW_PANEL, help="For each cell, any method.")
    ] = 30.0,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", rich_help_panel=HOW_PANEL, help="Cells at a time.")] = 1,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="loky|threading|dask|ray",
            rich_help_panel=HOW_PANEL,
            help="Where joblib runs cells: processes here, or a cluster.",
        ),
    ] = "loky",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="ADDRESS", rich_help_panel=HOW_PANEL, help="Of a running Dask or Ray cluster."
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="cpu|cuda|auto",
            rich_help_panel=HOW_PANEL,
            help="On a GPU, VISL trains data sets of one shape side by side.",
        ),
    ] = "cpu",
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Run an experiment of the paper, or one beside it: every method on every data set, with the paper's figures.

    Every finished cell is one row in DIR/NAME.jsonl; the same command goes on where it was interrupted. Baselines need
    pip install 'visl[baselines]'.

    Example: visl experiment synthetic --jobs 4
    """
    talk = Talk(quiet=quiet, as_json=as_json)
    from visl.experiments import NAMES, find_experiment
    from visl.experiments.page import write_page
    from visl.experiments.runner import BACKENDS, How, plan, run_experiment

    chosen = [find_experiment(each) for each in (NAMES if name == "all" else [name])]
    _check(limit, jobs, backend, BACKENDS)
    how = How(data, _device(device), 60 * limit, jobs, backend, scheduler, isolated=not smoke)
    folder = out / "smoke" if smoke else out
    rows: list[dict[str, Any]] = []
    if not tables_only:
        wanted: dict[str, Any] = {
            "smoke": smoke,
            "contenders": methods,
            "data_sets": data_sets,
            "on_notice": talk.notice,
        }
        plans = [(each, plan(each, data, **wanted)) for each in chosen]
        with _keeping_rows():
            for each, cells in plans:
                with _showing(talk, each.name) as (on_start, on_row):
                    rows += run_experiment(each, cells, folder, how, on_start=on_start, on_row=on_row)
    written = write_page(folder, page or folder / "results.md", smoke=smoke, data=data)
    counts = {status: sum(row["status"] == status for row in rows) for status in ("done", "over the limit", "failed")}
    failures = [
        f"{row['method']} on {row['data_set']}: {row.get('reason')}" for row in rows if row["status"] == "failed"
    ]
    talk.result(
        {"page": written, "out": folder, "cells": counts, "failures": failures},
        *([] if tables_only else [f"{count(len(rows), 'cell')}: {_counted(counts)}."]),
        *(f"Failed: {failure}" for failure in failures),
        f"Written: {written}",
    )


def _check(limit: float, jobs: int, backend: str, backends: tuple[str, ...]) -> None:
    if limit <= 0:
        raise InputError(f"--limit {limit:g} leaves no time: give minutes above 0")
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: give at least 1")
    if backend not in backends:
        raise InputError(f"--backend {backend}: use one of {', '.join(backends)}")


def _device(name: str) -> str:
    """Checked, before any cell fails for want of it."""
    if name == "cpu":
        return name
    from visl.steps import find_device

    return str(find_device(name))


@contextmanager
def _keeping_rows() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        error_line("interrupted; finished cells are kept, and the same command goes on with the others")
        raise typer.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from None


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in counts.items() if number)


@contextmanager
def _showing(talk: Talk, name: str) -> Iterator[tuple[Callable[[int, int], None], Callable[[dict[str, Any]], None]]]:
    """A bar of cells in a terminal, a line for each elsewhere."""
    bar = Progress(
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=talk.stderr,
        disable=talk.quiet or not talk.stderr.is_terminal,
    )
    task = bar.add_task("", total=None)
    done = total = 0

    def on_start(already: int, cells: int) -> None:
        nonlocal done, total
        done, total = already, cells
        bar.update(task, completed=already, total=cells)
        if already:
            talk.note(f"{name}: {already} of {count(cells, 'cell')} are there already")

    def on_row(row: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        spent = f" in {duration(row['seconds'])}" if row.get("seconds") else ""
        words = f"{row['method']} on {row['data_set']}: {row['status']}{spent}"
        bar.update(task, completed=done, description=words)
        if bar.disable:
            talk.note(f"{name} {done}/{total}: {words}")

    with bar:
        yield on_start, on_row
