"""Options that several commands share, and what they mean together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from visl.errors import InputError

TABLE_PANEL = "The table"
LOG_PANEL = "Long logs: one line for each known cell"
SAY_PANEL = "What is said"

Force = Annotated[bool, typer.Option("--force", help="Replace an output that is already there.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", rich_help_panel=SAY_PANEL, help="Say nothing but errors (and the JSON).")
]
AsJson = Annotated[
    bool, typer.Option("--json", rich_help_panel=SAY_PANEL, help="Print the result as JSON, and nothing else.")
]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `visl fit` wrote.")]
TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, TSV (also .gz), Parquet or Feather; empty cells are gaps. A long log (--long) may be a folder of "
        "Parquet files.",
    ),
]
RowLabel = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        rich_help_panel=TABLE_PANEL,
        help="Column that labels the rows, such as student. It is set aside, and comes back in filled tables.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="COLUMN",
        rich_help_panel=TABLE_PANEL,
        help="Leave a column out of the model; it comes back untouched in filled tables. Repeat for more.",
    ),
]
Long = Annotated[bool, typer.Option("--long", rich_help_panel=LOG_PANEL, help="TABLE is a long log.")]
LongRow = Annotated[
    str | None,
    typer.Option("--row", metavar="COLUMN", rich_help_panel=LOG_PANEL, help="Its column of rows, such as student."),
]
LongColumn = Annotated[
    str | None,
    typer.Option(
        "--column", metavar="COLUMN", rich_help_panel=LOG_PANEL, help="Its column of columns, such as question."
    ),
]
LongValue = Annotated[
    str | None,
    typer.Option("--value", metavar="COLUMN", rich_help_panel=LOG_PANEL, help="Its column of values, such as correct."),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        "--duplicates",
        metavar="first|last|mean",
        rich_help_panel=LOG_PANEL,
        help="Which value a repeated cell gets. Without this, a repeated cell is an error.",
    ),
]


@dataclass(frozen=True)
class LogNames:
    """The columns of a long log."""

    row: str
    column: str
    value: str
    duplicates: str | None


def log_names(
    long: bool, row: str | None, column: str | None, value: str | None, duplicates: str | None
) -> LogNames | None:
    """None: the table is wide."""
    given = {"--row": row, "--column": column, "--value": value}
    if long:
        missing = [option for option, name in given.items() if name is None]
        if missing or row is None or column is None or value is None:
            raise InputError(
                f"--long needs {' and '.join(missing)} too: name the columns of the log, "
                "as in --long --row student --column question --value correct"
            )
        return LogNames(row, column, value, duplicates)
    for option, name in {**given, "--duplicates": duplicates}.items():
        if name is not None:
            raise InputError(f"{option} {name} is for long logs: add --long, or leave it out")
    return None
