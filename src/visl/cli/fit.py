"""`visl fit`: learn a model from a table with gaps."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
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
    from visl.parallel import Parallel
    from visl.steps import Engine
    from visl.training import Interrupted, TrainingState

PROCESSES = r"Several processes (pip install 'visl\[parallel]')"  # square brackets are Rich's markup
SECONDS_BETWEEN_CHECKPOINTS = 300.0


@guarded
def fit(
    table: o.TableFile,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Folder to write the model to.")],
    groups: o.Groups = None,
    row_label: o.RowLabel = None,
    drop: o.Drop = None,
    kind: o.Kind = None,
    kinds: o.Kinds = None,
    long: o.Long = False,
    row: o.LongRow = None,
    column: o.LongColumn = None,
    value: o.LongValue = None,
    duplicates: o.Duplicates = None,
    edge_prior: o.EdgePrior = None,
    forbid: o.Forbid = None,
    forbidden_edges: o.ForbiddenEdges = None,
    require: o.Require = None,
    required_edges: o.RequiredEdges = None,
    preset: o.Preset = None,
    epochs: o.Epochs = None,
    batch_size: o.BatchSize = None,
    learning_rate: o.LearningRate = None,
    latent_dim: o.LatentDim = None,
    message_steps: o.MessageSteps = None,
    draws: o.Draws = None,
    members: o.Members = None,
    edge_threshold: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", rich_help_panel=o.TRAINING, help="The graph holds edges more probable than this."
        ),
    ] = 0.5,
    seed: o.Seed = None,
    device: o.Device = "auto",
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=PROCESSES,
            help="Processes on this machine, one for each GPU or each share of the cores. A long log in a folder of "
            "Parquet files is shared out between them: none reads all of it.",
        ),
    ] = None,
    num_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=PROCESSES,
            help="Machines. Start the command on each with torchrun: torchrun --nnodes N ... -m visl fit ...",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where an interrupted fit with the same options stopped.")
    ] = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Learn a model from a table with gaps: how to fill them, and a graph between groups of columns.

    What kind each column is gets inferred and shown before training starts. Ctrl-C leaves a checkpoint beside the
    model, and a long fit also writes one every few minutes; --resume goes on from it.

    Example: visl fit answers.csv --id student --groups topics.csv --out model
    """
    from visl.cli.fitting import describe_table, summarise
    from visl.cli.learning import knowledge_of, read_to_learn
    from visl.data.outputs import claim
    from visl.steps import Alone

    engine = _engine(device, devices, num_nodes)
    is_first = engine is None or engine.rank == 0
    talk = Talk(quiet=quiet or not is_first, as_json=as_json and is_first)
    names = o.log_names(long, row, column, value, duplicates)
    settings: dict[str, Any] = {
        **knowledge_of(groups, edge_prior, forbid, forbidden_edges, require, required_edges),
        "preset": preset,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "latent_dim": latent_dim,
        "message_steps": message_steps,
        "n_draws": draws,
        "n_members": members,
        "edge_threshold": edge_threshold,
        "random_state": 0 if seed is None and not resume else seed,
        "device": device if engine is None else str(engine.fabric.device),
    }
    together = engine or Alone()
    checkpoint = together.agree(lambda: _check_outputs(out, resume=resume, force=force))
    with ExitStack() as claimed:
        together.agree(lambda: claimed.enter_context(claim(out)) if is_first else None)
        given = read_to_learn(talk, table, names, row_label, drop, kinds, kind, engine)
        settings["kinds"] = given.kinds
        begun = time.monotonic()
        model = _fit(
            talk,
            settings,
            given.X,
            given.set_aside,
            checkpoint,
            resume=resume,
            show=lambda fitted: describe_table(talk, fitted, table, given.known_cells),
            engine=together,
        )
        seconds = time.monotonic() - begun
        if is_first:
            model.save(out, overwrite=force)
            shutil.rmtree(checkpoint, ignore_errors=True)
    summarise(talk, model, table, out, names, given.known_cells, seconds)


def _engine(device: str, devices: int | None, num_nodes: int | None) -> Parallel | None:
    """The other processes, if there are to be any. The one that only starts them ends here."""
    from visl.parallel import Parallel, launch, under_torchrun

    for option, number in (("--devices", devices), ("--num-nodes", num_nodes)):
        if number is not None and number < 1:
            raise InputError(f"{option} is {number}: give a whole number of at least 1")
    if under_torchrun():
        return Parallel.join(device, devices, num_nodes)
    if num_nodes not in (None, 1):
        raise InputError(
            f"--num-nodes {num_nodes} needs torchrun on each machine: torchrun --nnodes {num_nodes} --nproc-per-node "
            f"{devices or 1} --rdzv-backend c10d --rdzv-endpoint HOST:PORT -m visl fit ..."
        )
    if devices is None:
        return None
    Parallel.check_installed()
    code = launch(devices, sys.argv[1:])
    raise typer.Exit(code)


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
    engine: Engine,
) -> VISL:
    from visl.estimator import VISL
    from visl.parallel import PROCESS_LOST, under_torchrun
    from visl.training import Interrupted

    model = VISL(**settings)
    config = model._config()
    signals, progress = StopSignals(once=under_torchrun()), TrainingProgress(talk, config.epochs)

    def on_start() -> None:
        show(model)
        progress.start(model.n_rows_, config.batch_rows(model.n_rows_), model.model_.epochs)

    def on_search(done: int, of: int) -> None:
        progress.on_search(done, of)
        signals.worth_keeping = done == of

    def should_stop(state: TrainingState) -> bool:
        signals.worth_keeping = True
        return progress.on_step(state) or signals.received is not None

    kept_at = time.monotonic()

    def keep(snapshot: Callable[[], TrainingState]) -> None:
        nonlocal kept_at
        if engine.rank == 0 and time.monotonic() - kept_at > SECONDS_BETWEEN_CHECKPOINTS:
            model._save_checkpoint(checkpoint, snapshot())
            kept_at = time.monotonic()

    with signals(), progress():
        try:
            return model._fit(
                X,
                on_start=on_start,
                on_search=on_search,
                on_epoch=progress.on_epoch,
                should_stop=should_stop,
                checkpoint=checkpoint if resume else None,
                set_aside=set_aside,
                keep=keep,
                engine=engine,
            )
        except Interrupted as interruption:
            stop = interruption
            if engine.rank == 0:
                model._save_checkpoint(checkpoint, stop.state)
    _tell(stop, checkpoint, model.model_.epochs, engine.rank)
    raise typer.Exit(PROCESS_LOST if stop.lost else EXIT_CODES.get(signals.received or 0, INTERRUPTED))


def _tell(stop: Interrupted, checkpoint: Path, epochs: int, rank: int) -> None:
    """What happened, and how to go on."""
    where = f"in epoch {stop.state.epoch + 1} of {epochs}"
    lost = f"lost another process ({stop.lost})"
    if rank == 0:
        happened = lost if stop.lost else "interrupted"
        error_line(f"{happened} {where}; the checkpoint is {checkpoint}. Go on with:\n  {_again()}")
    elif stop.lost:
        error_line(f"process {rank} {lost} {where}; if that was the first one, its last checkpoint is {checkpoint}")


def _again() -> str:
    """This command once more, going on."""
    from visl.parallel import LAUNCHED, under_torchrun

    words = [word for word in sys.argv[1:] if word != "--resume"]
    by_torchrun = under_torchrun() and LAUNCHED not in os.environ
    return f"{'torchrun ... -m visl' if by_torchrun else 'visl'} {shlex.join(words)} --resume"
