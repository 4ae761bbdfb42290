"""`visl impute`: fill the gaps of a table with a fitted model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from visl.cli import options as o
from visl.cli.console import Talk, count, duration
from visl.cli.guard import guarded
from visl.errors import InputError


@guarded
def impute(
    model: o.ModelFolder,
    table: o.TableFile,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="File to write: .csv, .tsv (also .gz), .parquet, .feather."),
    ],
    draws: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Write N imputations below each other in one file, with a first column draw from 1 to N."
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Write the ends of the central interval that holds this share, such as 0.9, as two files beside "
            "FILE's name: for filled.csv, filled-lower.csv and filled-upper.csv.",
        ),
    ] = None,
    row_label: o.RowLabel = None,
    drop: o.Drop = None,
    long: o.Long = False,
    row: o.LongRow = None,
    column: o.LongColumn = None,
    value: o.LongValue = None,
    duplicates: o.Duplicates = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=o.LOG_PANEL,
            help="Fill only the pairs of row and column in this file. Without it, every missing pair is filled.",
        ),
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Fill the gaps of a table. Known cells stay exactly as they are.

    A gap gets the mean of what the model expects there, or the most probable level. Columns that the fit set aside
    come back untouched. From a long log come lines of row, column, value and, for levels, its probability.

    Example: visl impute model answers.csv --out filled.csv
    """
    talk = Talk(quiet=quiet, as_json=as_json)
    names = o.log_names(long, row, column, value, duplicates)
    _check_choice(names is not None, draws=draws, interval=interval, cells=cells)
    from visl.cli.filling import check_targets, fill_log, fill_wide, read_model

    with check_targets(out, interval, inputs=[table, cells], force=force) as targets:
        begun = time.monotonic()
        fitted = read_model(model)
        with talk.stderr.status("Filling gaps ..."):
            if names is None:
                filled = fill_wide(fitted, table, targets, draws, interval, row_label, drop or [], force=force)
            else:
                filled = fill_log(fitted, table, targets, names, cells, row_label, drop or [], force=force)
    seconds = time.monotonic() - begun
    summary = {"out": [str(path) for path in targets], **filled, "seconds": round(seconds, 3)}
    left = f" {count(filled['left'], 'gap')} in columns without an order stayed." if filled["left"] else ""
    talk.result(
        summary,
        f"Filled {count(filled['filled'], 'gap')} in {count(filled['rows'], 'row')} in {duration(seconds)}.{left}",
        f"Written: {', '.join(map(str, targets))}",
    )


def _check_choice(long: bool, *, draws: int | None, interval: float | None, cells: Path | None) -> None:
    if draws is not None and interval is not None:
        raise InputError("--draws and --interval are both given: use one of them, and run the command twice for both")
    if draws is not None and draws < 1:
        raise InputError(f"--draws {draws}: give a whole number of at least 1")
    if interval is not None and not 0 < interval < 1:
        raise InputError(f"--interval {interval:g}: give a share between 0 and 1, such as 0.9")
    if cells is not None and not long:
        raise InputError(
            "--cells asks for cells of a long log: add --long --row ROW --column COLUMN --value VALUE, or leave "
            "--cells out to fill every gap of a wide table"
        )
    if long and (draws is not None or interval is not None):
        raise InputError("--draws and --interval need a wide table: leave them out, or give the table as a wide one")
