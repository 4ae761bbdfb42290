"""The program `visl`: its commands and its own options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

import visl
from visl.cli.demo import demo
from visl.cli.evaluate import evaluate
from visl.cli.experiment import experiment
from visl.cli.fit import fit
from visl.cli.graph import graph
from visl.cli.impute import impute
from visl.cli.info import info
from visl.cli.simulate import simulate
from visl.cli.tune import tune

app = typer.Typer(
    name="visl",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (fit, impute, graph, evaluate, info, tune, experiment):
    app.command()(command)
app.add_typer(simulate, name="simulate")
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"visl {visl.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Fill the gaps of a table, and learn how groups of its columns depend on each other.

    Start with `visl demo`, or with your own table: `visl fit table.csv --out model`, then
    `visl impute model table.csv --out filled.csv` and `visl graph model --out graph.png`.
    """


def main(args: Sequence[str] | None = None) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # a name that the terminal cannot show must not end the program
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(args=args, prog_name="visl")
