"""`visl evaluate`: how well known cells are predicted when they are hidden."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visl.cli import options as o
from visl.cli.console import Talk, count, plain_table
from visl.cli.guard import guarded

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5  # best and worst columns
OVERALL_WORDS = {
    "accuracy": "accuracy of levels",
    "auroc": "AUROC of binary cells",
    "aupr": "area under precision-recall of binary cells",
    "rmse": "RMSE of numbers, on the table's scale",
    "rmse_scaled": "RMSE of numbers, each column scaled to 0-1",
    "log_likelihood": "log-likelihood of a cell",
    "coverage": "share of cells inside their 90 % interval",
}


@guarded
def evaluate(
    model: o.ModelFolder,
    table: o.TableFile,
    hide: Annotated[float, typer.Option(metavar="SHARE", help="Share of the known cells to hide.")] = 0.3,
    seed: Annotated[int, typer.Option(metavar="N", help="Which cells are hidden.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write every column's scores to this file.")
    ] = None,
    row_label: o.RowLabel = None,
    drop: o.Drop = None,
    long: o.Long = False,
    row: o.LongRow = None,
    column: o.LongColumn = None,
    value: o.LongValue = None,
    duplicates: o.Duplicates = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Hide a share of the known cells, predict them from the rest, and score the predictions.

    Give rows that were not in the fit: on its own rows the scores flatter the model.

    Example: visl evaluate model new-answers.csv --hide 0.3
    """
    talk = Talk(quiet=quiet, as_json=as_json)
    names = o.log_names(long, row, column, value, duplicates)
    from visl.cli.filling import read_model, refuse_same_file
    from visl.cli.tables import for_model, read_log, read_wide
    from visl.data.files import format_of, write_table
    from visl.data.outputs import check_output, claim

    if out is not None:
        format_of(out)
        refuse_same_file(out, [table])
        check_output(out, force)
    with claim(out) if out is not None else nullcontext():
        fitted = read_model(model)
        with talk.stderr.status("Predicting hidden cells ..."):
            if names is None:
                X: Any = for_model(fitted, read_wide(table, row_label, drop or [], fitted.set_aside_))
            else:
                X, _ = read_log(table, names, row_label, drop or [], fitted.set_aside_)
            scores = fitted.evaluate(X, hide, random_state=seed)
        if out is not None:
            write_table(scores, out, force)
    overall = scores.iloc[-1]
    summary = {
        "hide": hide,
        "seed": seed,
        "out": out,
        "overall": overall.to_dict(),
        "columns": scores.iloc[:-1].to_dict("records"),
    }
    words = [(text, float(overall[name])) for name, text in OVERALL_WORDS.items() if overall[name] == overall[name]]
    talk.result(
        summary,
        f"{count(int(overall['cells']), 'known cell')} hidden and predicted from the rest.",
        plain_table(("score", "all columns"), words),
        *_column_tables(scores.iloc[:-1]),
        *([f"Written: {out}"] if out is not None else []),
    )


def _column_tables(scores: pd.DataFrame) -> list[Any]:
    """Numbers and levels are scored differently, and so ranked apart."""
    is_number = scores["kind"] == "continuous"
    numbers = scores[is_number].sort_values("rmse_scaled", kind="stable")
    levels = scores[~is_number].sort_values("accuracy", ascending=False, kind="stable")
    wide = (("rmse", "rmse_scaled", "coverage", "log_likelihood"), numbers, "Columns of numbers")
    high = (("accuracy", "auroc", "aupr", "log_likelihood"), levels, "Columns of levels")
    return [_ranked(*part) for part in (wide, high) if len(part[1])]


def _ranked(measures: tuple[str, ...], scores: pd.DataFrame, what: str) -> Any:
    shown = list(scores[["column", "cells", *measures]].itertuples(index=False, name=None))
    title = f"{what}, best first"
    if len(shown) > 2 * SHOWN + 1:
        gap = ("...", *["" for _ in shown[0][1:]])
        title = f"{what}: the {SHOWN} best and the {SHOWN} worst of {len(shown)}"
        shown = [*shown[:SHOWN], gap, *shown[-SHOWN:]]
    titles = [name.replace("_", " ") for name in ("column", "cells", *measures)]
    return plain_table(titles, shown, title=title)
