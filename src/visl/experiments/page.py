"""The page of results: every experiment that has rows, its tables and its pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from visl.experiments import NAMES, find_experiment
from visl.experiments.design import Experiment, Row
from visl.experiments.rows import read_rows, row_of, rows_file
from visl.experiments.tables import NOT_RUN, of_method, was_run

HEAD = """# Results

Every figure below comes from a row of results, one for each cell (method, data set, seed), in the folder that also
holds the pictures; `visl experiment NAME --tables-only` makes the tables again from those rows. Figures are means over
data sets ± standard errors. A cell over its time limit shows as "over the limit" (a method that was over it on one
data set is not tried on others as large); (n of N) says that so many of the planned cells are finished. Data sets and
seeds are those that come first, none chosen by result."""


def write_page(folder: Path, page: Path, *, smoke: bool, data: Path | None) -> Path:
    """The page of all experiments that have rows in the folder; pictures go into the folder."""
    parts = [HEAD]
    for name in NAMES:
        experiment = find_experiment(name)
        rows = last_rows(experiment, folder, smoke=smoke)
        if rows:
            parts += sections(experiment, rows, experiment.pictures(rows, folder, data), folder, page.parent)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def last_rows(experiment: Experiment, folder: Path, *, smoke: bool) -> list[Row]:
    """For every cell that the experiment has, its last row, or one that says that it was not run; none if none was."""
    last = {row["key"]: row for row in read_rows(rows_file(folder, experiment.name))}
    cells = experiment.cells(smoke=smoke)
    if not any(cell.key in last for cell in cells):
        return []
    return [last.get(cell.key) or row_of(cell, NOT_RUN, scores={}) for cell in cells]


def sections(
    experiment: Experiment, rows: Sequence[Row], pictures: Sequence[Path], folder: Path, page_folder: Path
) -> list[str]:
    shown = [f"![{file.stem}]({Path(os.path.relpath(file, page_folder)).as_posix()})" for file in pictures]
    note = folder / f"{experiment.name}.notes.md"  # what a reader should know, written by hand
    notes = [note.read_text(encoding="utf-8").strip()] if note.exists() else []
    waiting = [name for name in experiment.names() if not was_run(of_method(rows, name))]
    if waiting:
        notes.append(f"Not run: {'; '.join(waiting)}.")
    return [f"## {experiment.title}", f"`visl experiment {experiment.name}`", *notes, *experiment.tables(rows), *shown]
