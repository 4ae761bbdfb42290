"""`visl fit`: learn a model from a table with gaps."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visl.cli import options as o
from visl.cli.console import Talk, error_line
from visl.cli.guard import EXIT_CODES, INTERRUPTED, guarded
from visl.cli.progress import StopSignals, TrainingProgress
from visl.errors import InputError

if TYPE_CHECKING:
    from visl.estimator import VISL

KNOWLEDGE, TRAINING = "What you know beforehand", "The model and its training"


@guarded
def fit(
    table: o.TableFile,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Folder to write the model to.")],
    groups: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=o.TABLE_PANEL,
            help="CSV or JSON with the group of each column (question, topic). Groups are the nodes of the graph; "
            "without this, every column is one.",
        ),
    ] = None,
    row_label: o.RowLabel = None,
    drop: o.Drop = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="COLUMN=KIND",
            rich_help_panel=o.TABLE_PANEL,
            help="Say that a column is continuous, binary, categorical or ordinal, or list its ordered levels: "
            "mood=bad<fine<good. Repeat for more.",
        ),
    ] = None,
    kinds: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=o.TABLE_PANEL, help="CSV (column,kind) or JSON with such kinds."),
    ] = None,
    long: o.Long = False,
    row: o.LongRow = None,
    column: o.LongColumn = None,
    value: o.LongValue = None,
    duplicates: o.Duplicates = None,
    edge_prior: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|FILE",
            rich_help_panel=KNOWLEDGE,
            help="Prior probability of every edge, or a CSV file of them: from,to,probability, or a table of groups "
            "by groups.",
        ),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(metavar="FROM,TO", rich_help_panel=KNOWLEDGE, help="An edge that never appears. Repeat for more."),
    ] = None,
    forbidden_edges: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=KNOWLEDGE, help="CSV file (from,to) of edges that never appear."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM,TO", rich_help_panel=KNOWLEDGE, help="An edge that always appears. Repeat for more."
        ),
    ] = None,
    required_edges: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=KNOWLEDGE, help="CSV file (from,to) of edges that always appear."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=TRAINING,
            help="Where settings that are not given come from: default, paper-synthetic, paper-neuropathic or "
            "paper-eedi.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=TRAINING, help="Passes over the table, both stages.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=TRAINING, help="Rows in one step.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="NUMBER", rich_help_panel=TRAINING, help="Size of the steps.")
    ] = None,
    latent_dim: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=TRAINING, help="Numbers that describe a group in one row."),
    ] = None,
    message_steps: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=TRAINING, help="Rounds of messages along the edges.")
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=TRAINING, help="Monte-Carlo draws behind an imputation."),
    ] = None,
    edge_threshold: Annotated[
        float,
        typer.Option(metavar="NUMBER", rich_help_panel=TRAINING, help="The graph holds edges more probable than this."),
    ] = 0.5,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=TRAINING, help="The same seed gives the same model; 0 if not given."),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=TRAINING, help="auto, cpu, cuda or another of torch's.")
    ] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where an interrupted fit with the same options stopped.")
    ] = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Learn a model from a table with gaps: how to fill them, and a graph between groups of columns.

    What kind each column is gets inferred and shown before training starts. Ctrl-C leaves a checkpoint beside the
    model, and --resume goes on from it.

    Example: visl fit answers.csv --id student --groups topics.csv --out model
    """
    from visl.cli.fitting import describe_table, summarise
    from visl.cli.knowledge import edges_of, kinds_of, prior_of
    from visl.cli.tables import check_labels, read_log, read_wide
    from visl.data.outputs import claim

    talk = Talk(quiet=quiet, as_json=as_json)
    names = o.log_names(long, row, column, value, duplicates)
    settings: dict[str, Any] = {
        "groups": None if groups is None else str(groups),
        "edge_prior": prior_of(edge_prior),
        "forbidden_edges": edges_of("--forbid", forbid or [], "--forbidden-edges", forbidden_edges),
        "required_edges": edges_of("--require", require or [], "--required-edges", required_edges),
        "preset": preset,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "latent_dim": latent_dim,
        "message_steps": message_steps,
        "n_draws": draws,
        "edge_threshold": edge_threshold,
        "random_state": 0 if seed is None and not resume else seed,
        "device": device,
    }
    checkpoint = _check_outputs(out, resume=resume, force=force)
    with claim(out):
        X: Any
        if names is None:
            wide = read_wide(table, row_label, drop or [])
            X, set_aside = wide.modelled, wide.set_aside
            settings["kinds"] = kinds_of(kinds, kind or [], list(X.columns))
            for notice in check_labels(wide, settings["kinds"] or {}):
                talk.notice(notice)
            known_cells = int(X.notna().to_numpy().sum())
        else:
            X, set_aside = read_log(table, names, row_label, drop or [])
            settings["kinds"] = kinds_of(kinds, kind or [], X.column_ids.tolist())
            known_cells = X.n_cells
        begun = time.monotonic()
        model = _fit(
            talk,
            settings,
            X,
            set_aside,
            checkpoint,
            resume=resume,
            show=lambda fitted: describe_table(talk, fitted, table, known_cells),
        )
        model.save(out, overwrite=force)
        shutil.rmtree(checkpoint, ignore_errors=True)
    summarise(talk, model, table, out, names, known_cells, time.monotonic() - begun)


def _check_outputs(out: Path, *, resume: bool, force: bool) -> Path:
    """Where a checkpoint is, or would be; everything is refused now that would be refused after the training."""
    from visl.data.outputs import check_output
    from visl.store import MODEL_FILE

    checkpoint = Path(f"{out}.checkpoint")
    check_output(out, force, marker=MODEL_FILE)
    check_output(checkpoint, True, marker=MODEL_FILE)
    exists = (checkpoint / MODEL_FILE).is_file()
    if resume and not exists:
        raise InputError(f"there is no checkpoint {checkpoint} to resume from: start afresh without --resume")
    if exists and not (resume or force):
        raise InputError(
            f"an interrupted fit left the checkpoint {checkpoint}: go on from it with --resume, or pass --force to "
            "start afresh"
        )
    return checkpoint


def _fit(
    talk: Talk,
    settings: dict[str, Any],
    X: Any,
    set_aside: list[Any],
    checkpoint: Path,
    *,
    resume: bool,
    show: Any,
) -> VISL:
    from visl.estimator import VISL
    from visl.training import Interrupted, TrainingState

    model = VISL(**settings)
    config = model._config()
    signals, progress = StopSignals(), TrainingProgress(talk, config.epochs)

    def on_start() -> None:
        show(model)
        signals.worth_keeping = True
        progress.start(model.n_rows_, config.batch_size)

    def should_stop(state: TrainingState) -> bool:
        return progress.on_step(state) or signals.received is not None

    try:
        with signals(), progress():
            return model._fit(
                X,
                on_start=on_start,
                on_epoch=progress.on_epoch,
                should_stop=should_stop,
                checkpoint=checkpoint if resume else None,
                set_aside=set_aside,
            )
    except Interrupted as stop:
        model._save_checkpoint(checkpoint, stop.state)
        error_line(
            f"interrupted in epoch {stop.state.epoch + 1} of {config.epochs}; the checkpoint is {checkpoint}. "
            f"Go on with:\n  {_again()}"
        )
        raise typer.Exit(EXIT_CODES.get(signals.received or 0, INTERRUPTED)) from None


def _again() -> str:
    """This command once more, going on."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return f"visl {shlex.join(words)} --resume"
