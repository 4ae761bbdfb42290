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
KNOWLEDGE, TRAINING = "What you know beforehand", "The model and its training"

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

# Of the commands that learn a model.
Groups = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=TABLE_PANEL,
        help="CSV or JSON with the group of each column (question, topic). Groups are the nodes of the graph; "
        "without this, every column is one.",
    ),
]
Kind = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        rich_help_panel=TABLE_PANEL,
        help="Say that a column is continuous, binary, categorical or ordinal, or list its ordered levels: "
        "mood=bad<fine<good. Repeat for more.",
    ),
]
Kinds = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=TABLE_PANEL, help="CSV (column,kind) or JSON with such kinds."),
]
EdgePrior = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|FILE",
        rich_help_panel=KNOWLEDGE,
        help="Prior probability of every edge, or a CSV file of them: from,to,probability, or a table of groups "
        "by groups.",
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(metavar="FROM,TO", rich_help_panel=KNOWLEDGE, help="An edge that never appears. Repeat for more."),
]
ForbiddenEdges = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=KNOWLEDGE, help="CSV file (from,to) of edges that never appear."),
]
Require = Annotated[
    list[str] | None,
    typer.Option(metavar="FROM,TO", rich_help_panel=KNOWLEDGE, help="An edge that always appears. Repeat for more."),
]
RequiredEdges = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=KNOWLEDGE, help="CSV file (from,to) of edges that always appear."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        rich_help_panel=TRAINING,
        help="Where settings that are not given come from: default, best (ten times as long), paper-synthetic, "
        "paper-neuropathic, paper-eedi, or a preset file, such as the best.json of `visl tune`.",
    ),
]
Epochs = Annotated[
    int | None, typer.Option(metavar="N", rich_help_panel=TRAINING, help="Passes over the table, both stages.")
]
BatchSize = Annotated[int | None, typer.Option(metavar="N", rich_help_panel=TRAINING, help="Rows in one step.")]
LearningRate = Annotated[
    float | None, typer.Option(metavar="NUMBER", rich_help_panel=TRAINING, help="Size of the steps.")
]
LatentDim = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=TRAINING, help="Numbers that describe a group in one row."),
]
MessageSteps = Annotated[
    int | None, typer.Option(metavar="N", rich_help_panel=TRAINING, help="Rounds of messages along the edges.")
]
Draws = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=TRAINING, help="Monte-Carlo draws behind an imputation."),
]
Members = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=TRAINING,
        help="Models from different seeds, trained side by side: edge probabilities are their means, with the "
        "spread between them, and gaps are filled by all of them.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=TRAINING, help="The same seed gives the same model; 0 if not given."),
]
Device = Annotated[
    str, typer.Option(metavar="NAME", rich_help_panel=TRAINING, help="auto, cpu, cuda or another of torch's.")
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
