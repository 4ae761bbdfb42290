"""`visl tune`: find good settings of the model for a table."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from visl.cli import options as o
from visl.cli.console import Talk, count, error_line
from visl.cli.guard import EXIT_CODES, INTERRUPTED, guarded
from visl.cli.progress import StopSignals

SEARCH, STUDY = "The search", "The study"


@guarded
def tune(
    table: o.TableFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder for the study, its pictures and the best settings (best.json)."
        ),
    ],
    trials: Annotated[
        int,
        typer.Option(metavar="N", rich_help_panel=SEARCH, help="Trials in all, of all runs and workers."),
    ] = 39,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            rich_help_panel=SEARCH,
            help="A setting of visl.config to vary, and its range or its values: learning_rate=1e-4..1e-2 (a wide "
            "range is searched on the log scale) or latent_dim=8,16,32. Repeat for more. Without this: latent_dim, "
            "message_steps and learning_rate, with the paper's values.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=SEARCH,
            help="accuracy (of levels), rmse (of numbers, scaled to 0-1), error (mean over columns of RMSE / standard "
            "deviation, or of the share of wrong levels) or log_likelihood. Without this: accuracy if all columns are "
            "of levels, rmse if all are of numbers, else error.",
        ),
    ] = None,
    validation: Annotated[
        float, typer.Option(metavar="SHARE", rich_help_panel=SEARCH, help="Share of the rows to set aside for scoring.")
    ] = 0.1,
    hide: Annotated[
        float,
        typer.Option(
            metavar="SHARE", rich_help_panel=SEARCH, help="Share of their known cells to hide and to predict."
        ),
    ] = 0.3,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune/--no-prune",
            rich_help_panel=SEARCH,
            help="End a trial early when it lags behind the median of the others.",
        ),
    ] = True,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            rich_help_panel=STUDY,
            help="Keep the study in this database (postgresql://..., mysql://..., sqlite:///...), which several "
            "workers may share, rather than in DIR/study.db.",
        ),
    ] = None,
    study: Annotated[
        str,
        typer.Option(metavar="NAME", rich_help_panel=STUDY, help="Name of the study, if a database holds several."),
    ] = "visl",
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
    seed: o.Seed = None,
    device: o.Device = "auto",
    force: Annotated[
        bool, typer.Option("--force", help="Start afresh: forget the trials of the study that is there.")
    ] = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Find good settings for a table by Bayesian optimisation (pip install 'visl\\[tune]').

    Some rows are set aside, and each trial is scored on how well it predicts hidden cells of theirs. Ctrl-C loses
    only the trial that runs: the same command goes on with the study. Processes that are started with the same --out
    or --storage share the trials between them. The best settings go into DIR/best.json, for `visl fit --preset`.

    Example: visl tune answers.csv --id student --groups topics.csv --out tuned
    """
    from visl.tune import check_installed

    check_installed()
    from visl.cli.fitting import describe_table
    from visl.cli.learning import knowledge_of, read_to_learn
    from visl.cli.tuning import (
        BEST_FILE,
        STUDY_FILE,
        TRIALS_FILE,
        TuningProgress,
        describe_search,
        fit_words,
        summarise,
        write_results,
    )
    from visl.config import check_whole_number
    from visl.data.outputs import check_output
    from visl.estimator import VISL
    from visl.training import Interrupted
    from visl.tune.space import parse_space
    from visl.tune.study import sqlite_url
    from visl.tune.tuner import Tuner

    talk = Talk(quiet=quiet, as_json=as_json)
    names = o.log_names(long, row, column, value, duplicates)
    check_whole_number("trials", trials)
    space = None if not vary else parse_space(vary)
    check_output(out, True, marker=STUDY_FILE if storage is None else TRIALS_FILE)
    given = read_to_learn(talk, table, names, row_label, drop, kinds, kind)
    estimator = VISL(
        **knowledge_of(groups, edge_prior, forbid, forbidden_edges, require, required_edges),
        kinds=given.kinds,
        preset=preset,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        latent_dim=latent_dim,
        message_steps=message_steps,
        n_draws=draws,
        n_members=members,
        random_state=seed or 0,
        device=device,
    )
    tuner = Tuner(estimator, given.X, vary=space, metric=metric, validation=validation, hide=hide, prune=prune)
    if storage is None:
        out.mkdir(exist_ok=True)
    tuner.open(storage or sqlite_url(out / STUDY_FILE), study, afresh=force)
    out.mkdir(exist_ok=True)
    tuner.whole.set_aside_ = given.set_aside
    describe_table(talk, tuner.whole, table, given.known_cells)
    describe_search(talk, tuner)
    signals, begun = StopSignals(), time.monotonic()
    progress, stopped = TuningProgress(talk, signals, tuner), False
    with signals(), progress():
        signals.worth_keeping = True
        try:
            tuner.run(trials, progress)
        except Interrupted:
            stopped = True
    tuned, written = write_results(out, tuner)
    if stopped:
        done = int(tuned.trials["state"].isin(("finished", "pruned")).sum())
        again = shlex.join([word for word in sys.argv[1:] if word != "--force"])
        error_line(f"interrupted; {count(done, 'trial')} of {trials} kept. Go on with:\n  visl {again}")
        raise typer.Exit(EXIT_CODES.get(signals.received or 0, INTERRUPTED))
    for_fit = {
        "--id": row_label,
        "--groups": groups,
        "--drop": drop,
        "--kind": kind,
        "--kinds": kinds,
        "--long": long,
        "--row": row,
        "--column": column,
        "--value": value,
        "--duplicates": duplicates,
        "--edge-prior": edge_prior,
        "--forbid": forbid,
        "--forbidden-edges": forbidden_edges,
        "--require": require,
        "--required-edges": required_edges,
        "--seed": seed,
        "--device": device if device != "auto" else None,
    }
    summarise(talk, tuner, tuned, written, fit_words(table, for_fit, out / BEST_FILE), time.monotonic() - begun)
