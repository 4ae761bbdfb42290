"""`visl graph`: the learned graph as a file, a picture or a table in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visl.cli import options as o
from visl.cli.console import Talk, count, edge_table
from visl.cli.guard import guarded


@guarded
def graph(
    model: o.ModelFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write: .graphml, .dot, .json, .csv (all pairs of groups), .png or .svg. Without this, the "
            "edges are printed.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Keep edges more probable than this; if not given, the fit's threshold."),
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Show the learned graph, or write it to a file.

    The graph never has a cycle. Each edge carries its probability, and the probability that the two groups are
    joined either way.

    Example: visl graph model --out graph.png
    """
    from visl.cli.filling import read_model
    from visl.cli.fitting import edge_records, edges_of, nearest_edge
    from visl.data.outputs import check_output, claim, write_whole
    from visl.errors import InputError
    from visl.report.picture import EXPORTERS, export_graph_or_picture

    talk = Talk(quiet=quiet, as_json=as_json)
    if out is not None:
        if out.suffix.lower().removeprefix(".") not in EXPORTERS:
            raise InputError(f"{out}: a graph is written as .{', .'.join(EXPORTERS)}: choose one of these endings")
        check_output(out, force)
    fitted = read_model(model)
    if threshold is not None:
        fitted.edge_threshold = threshold
        fitted._config()  # checks the threshold
        fitted._finish([])
    if out is not None:
        names = list(fitted.edge_probabilities_.index)
        with claim(out):
            content = export_graph_or_picture(out.suffix, fitted.graph_, fitted.edge_probabilities_.to_numpy(), names)
            write_whole(out, content, force)
    edges = edges_of(fitted)
    summary = {
        "out": out,
        "groups": fitted.groups_,
        "threshold": fitted.edge_threshold,
        "edges": edge_records(fitted),
    }
    found = (
        f"{count(len(edges), 'edge')} more probable than {fitted.edge_threshold:g} between "
        f"{count(len(fitted.groups_), 'group')}"
    )
    if out is not None:
        talk.result(summary, f"Written: {out} ({found})")
    else:
        talk.result(
            summary,
            f"{found}.",
            edge_table(edges, spread=fitted.model_.n_members > 1) if edges else nearest_edge(fitted),
        )
