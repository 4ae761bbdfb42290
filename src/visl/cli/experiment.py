"""`visl experiment`: how VISL compares, measured again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from visl.cli import options as o
from visl.cli.console import Talk, count, duration, error_line, listed
from visl.cli.guard import INTERRUPTED, TERMINATED, Terminated, guarded
from visl.errors import InputError

if TYPE_CHECKING:
    from visl.experiments.design import Cell, Experiment

HOW_PANEL = "How it runs"
SOME_FAILED = 1  # exit code
MOST_NAMED = 40  # of the names that a misspelt one is answered with


@guarded
def experiment(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="synthetic, gaps, rounds, neuropathic, eedi, scaling, mixed, sachs, networks or ablation; "
            "or all: each one whose data are there.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Folder of downloaded data. Without it, experiments that need some say what to download.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the rows, the pictures and the page.")
    ] = Path("results"),
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="Where the page of tables goes. Without this: DIR/results.md."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", metavar="METHOD", help="Run only this method, by its name in the tables. Repeat for more."
        ),
    ] = None,
    data_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--data-set", metavar="NAME", help="Run only this data set, such as 'D=5, seed 0'. Repeat for more."
        ),
    ] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Try it on small data, in a minute or two. Results go into DIR/smoke.")
    ] = False,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Run nothing: write the page again from the rows in DIR.")
    ] = False,
    limit: Annotated[
        float,
        typer.Option(
            "--limit",
            metavar="MINUTES",
            rich_help_panel=HOW_PANEL,
            help="Time that each cell is given, the same for every method.",
        ),
    ] = 30.0,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", rich_help_panel=HOW_PANEL, help="Cells that run at the same time.")
    ] = 1,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="loky|threading|dask|ray",
            rich_help_panel=HOW_PANEL,
            help="Where cells run: in processes (loky) or threads here, or on a Dask or Ray cluster.",
        ),
    ] = "loky",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            rich_help_panel=HOW_PANEL,
            help="Address of a running Dask or Ray cluster. Without this, one is started here.",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="cpu|cuda|auto",
            rich_help_panel=HOW_PANEL,
            help="Where networks train. On a GPU, VISL takes data sets of one shape side by side.",
        ),
    ] = "cpu",
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Run an experiment of the paper, or one beside it: every method on every data set, with the paper's figures.

    A cell is one method on one data set. Each finished one is a row in DIR/NAME.jsonl, and the same command goes on
    where it was interrupted. Methods whose libraries are not installed are left out: pip install 'visl\\[baselines]'
    brings them. The exit code is 1 if any cell failed.

    Example: visl experiment synthetic --jobs 4
    """
    talk = Talk(quiet=quiet, as_json=as_json)
    from visl.experiments import NAMES, find_experiment
    from visl.experiments.page import write_page
    from visl.experiments.rows import DONE, FAILED, OVER
    from visl.experiments.runner import BACKENDS, How, run_experiment

    chosen = [find_experiment(each) for each in (NAMES if name == "all" else [name])]
    _check(limit, jobs, backend, BACKENDS)
    how = How(data, _device(device), 60 * limit, jobs, backend, scheduler, isolated=not smoke)
    folder = out / "smoke" if smoke else out
    page = page or folder / "results.md"
    _check_places(folder, page)
    rows: list[dict[str, Any]] = []
    if tables_only:
        _check_rows(folder, smoke)
    else:
        plans = _plans(chosen, data, smoke, methods, data_sets, talk)
        with _keeping_rows():
            for each, cells in plans:
                with _showing(talk, each.name) as (on_start, on_row):
                    rows += run_experiment(each, cells, folder, how, on_start=on_start, on_row=on_row)
    written = write_page(folder, page, smoke=smoke, data=data)
    counts = {status: sum(row["status"] == status for row in rows) for status in (DONE, OVER, FAILED)}
    failures = [f"{row['method']} on {row['data_set']}: {row.get('reason')}" for row in rows if row["status"] == FAILED]
    talk.result(
        {"page": written, "out": folder, "cells": counts, "failures": failures},
        *([] if tables_only else [f"{count(len(rows), 'cell')}: {_counted(counts)}."]),
        *(f"Failed: {failure}" for failure in failures),
        f"Written: {written}",
    )
    if failures:
        error_line(f"{count(len(failures), 'cell')} failed; the same command tries again")
        raise typer.Exit(SOME_FAILED)


def _check(limit: float, jobs: int, backend: str, backends: tuple[str, ...]) -> None:
    if limit <= 0:
        raise InputError(f"--limit {limit:g} leaves no time: give minutes above 0")
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: give at least 1")
    if backend not in backends:
        raise InputError(f"--backend {backend}: use one of {', '.join(backends)}")


def _check_places(folder: Path, page: Path) -> None:
    """Before hours of work."""
    if page.is_dir():
        raise InputError(f"the page {page} is a folder: give the name of a file to --page")
    for place in (folder, page.parent):
        there = next(each for each in (place, *place.parents) if each.exists())
        if not there.is_dir():
            raise InputError(f"{there} is a file, and a folder is to be written there: choose another name")
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"folder {there} is not writable: choose another folder")


def _check_rows(folder: Path, smoke: bool) -> None:
    from visl.experiments import NAMES, find_experiment
    from visl.experiments.page import last_rows

    if not any(last_rows(find_experiment(name), folder, smoke=smoke) for name in NAMES):
        raise InputError(
            f"no rows of results in {folder}: choose another --out, or run an experiment first, without --tables-only"
        )


def _plans(
    chosen: Sequence[Experiment],
    data: Path | None,
    smoke: bool,
    methods: Sequence[str] | None,
    data_sets: Sequence[str] | None,
    talk: Talk,
) -> list[tuple[Experiment, list[Cell]]]:
    """The cells of each experiment. Of several experiments, those that cannot run are left out, with a notice each."""
    from visl.experiments.runner import plan

    several = len(chosen) > 1
    names = {of.name: (of.names(), [each.name for each in of.data_sets(smoke)]) for of in chosen}
    if several:
        _refuse_unknown("method", methods, [name for its_methods, _ in names.values() for name in its_methods])
        _refuse_unknown("data set", data_sets, [name for _, its_sets in names.values() for name in its_sets])
    plans = []
    for of in chosen:
        known_methods, known_sets = names[of.name]
        its_methods = _known(methods, known_methods) if several else methods
        its_sets = _known(data_sets, known_sets) if several else data_sets
        if its_methods == [] or its_sets == []:
            lacking = "methods" if its_methods == [] else "data sets"
            talk.notice(f"{of.name} is left out: it has none of the {lacking} that were named")
            continue
        try:
            cells = plan(of, data, smoke=smoke, contenders=its_methods, data_sets=its_sets, on_notice=talk.notice)
        except InputError as error:
            if not several or of.download is None:
                raise
            talk.notice(f"{of.name} is left out: {error}")
        else:
            plans.append((of, cells))
    if several and not any(cells for _, cells in plans):
        raise InputError("no experiment is left to run: see the notices, or name one to learn what it needs")
    return plans


def _known(names: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    lowered = {name.lower() for name in known}
    return None if names is None else [name for name in names if name.lower() in lowered]


def _refuse_unknown(thing: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    """What no experiment has is misspelt."""
    for name in names or ():
        if not _known([name], known):
            some = listed([repr(each) for each in dict.fromkeys(known)], most=MOST_NAMED)
            raise InputError(f"{name!r} is no {thing} of any experiment: use any of {some}")


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
