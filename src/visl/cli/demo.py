"""`visl demo`: the embedded class of students, fitted and compared with the truth behind it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from visl.cli import options as o
from visl.cli.console import Talk, duration
from visl.cli.guard import guarded
from visl.cli.progress import TrainingProgress

MARKER = "summary.json"


@guarded
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write.")] = Path("demo"),
    epochs: Annotated[int, typer.Option(metavar="N", help="Fewer passes are quicker, and worse.")] = 200,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Try visl on its own data: a simulated class of 1000 students, and the prerequisites behind it.

    The folder gets imputed.csv, graph.graphml, graph.csv, graph.png (coloured by what is true), model, and
    summary.json with the numbers that are printed.
    """
    import json

    from visl.cli.comparing import Class, hidden_scores, structure, words
    from visl.data.files import write_table
    from visl.data.outputs import check_output, claim, write_folder_whole
    from visl.estimator import VISL
    from visl.graph.export import export_graph
    from visl.report.picture import draw_graph, picture_bytes

    talk = Talk(quiet=quiet, as_json=as_json)
    check_output(out, force, marker=MARKER)
    with claim(out):
        data = Class.load()
        talk.note(data.description)
        model = VISL(groups=str(data.topics_path), epochs=epochs, random_state=0)
        config = model._config()
        progress = TrainingProgress(talk, config.epochs)
        begun = time.monotonic()
        with progress():
            model._fit(
                data.shown,
                on_start=lambda: progress.start(len(data.shown), config.batch_size, model.model_.epochs),
                on_search=progress.on_search,
                on_epoch=progress.on_epoch,
                should_stop=progress.on_step,
                set_aside=["student"],
            )
        seconds = time.monotonic() - begun
        hidden, graph = hidden_scores(model, data), structure(model, data)
        summary = {
            "out": str(out),
            "seconds": round(seconds, 3),
            "epochs": config.epochs,
            "hidden_answers": hidden,
            "graph": graph,
        }

        def write(folder: Path) -> None:
            probabilities, names = model.edge_probabilities_.to_numpy(), list(model.edge_probabilities_.index)
            write_table(data.with_ids(model.transform(data.answers)), folder / "imputed.csv")
            for suffix in ("graphml", "csv"):
                content = export_graph(suffix, model.graph_, probabilities, names)
                (folder / f"graph.{suffix}").write_bytes(content)
            figure = draw_graph(
                model.graph_, truth=data.prerequisites, areas=data.areas, title="Learned prerequisites, and the truth"
            )
            (folder / "graph.png").write_bytes(picture_bytes(figure, "png"))
            model.save(folder / "model")
            (folder / MARKER).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

        write_folder_whole(out, write, force, marker=MARKER)
    talk.result(
        summary,
        f"Fitted {config.epochs} epochs in {duration(seconds)}.",
        "",
        *words(hidden, graph),
        "",
        f"Written: {out}/ with imputed.csv, graph.graphml, graph.csv, graph.png, model/ and {MARKER}.",
    )
