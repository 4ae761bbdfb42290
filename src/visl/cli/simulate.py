"""`visl simulate`: tables with gaps from a known graph, to try things out on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visl.cli import options as o
from visl.cli.console import Talk, count
from visl.cli.guard import guarded

if TYPE_CHECKING:
    import pandas as pd

MARKER = "simulation.json"

simulate = typer.Typer(
    no_args_is_help=True, help="Make a table with gaps from a known graph, to try things out on.", add_completion=False
)
OutFolder = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write.")]
Missing = Annotated[float, typer.Option(metavar="SHARE", help="Share of cells that are missing.")]
Mechanism = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="mcar: gaps fall anywhere. mar: some columns have none, and decide on the others' gaps.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed gives the same files.")]


@simulate.command()
@guarded
def education(
    out: OutFolder,
    students: Annotated[int, typer.Option(metavar="N", help="How many students.")] = 1000,
    topics: Annotated[
        int, typer.Option(metavar="N", help="How many topics. 12 are a named maths curriculum, else they are random.")
    ] = 12,
    questions: Annotated[int, typer.Option(metavar="N", help="Questions in each topic.")] = 5,
    missing: Missing = 0.6,
    mechanism: Mechanism = "mcar",
    ability: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="hierarchy: a topic is mastered only with all its prerequisites. capped: ability is at most that in "
            "the weakest prerequisite. linear: ability is a weighted sum of that in the prerequisites.",
        ),
    ] = "hierarchy",
    no_general: Annotated[
        bool, typer.Option("--no-general", help="Students have no general ability that shows in all topics.")
    ] = False,
    no_difficulties: Annotated[bool, typer.Option("--no-difficulties", help="Questions are all as hard.")] = False,
    no_discriminations: Annotated[
        bool, typer.Option("--no-discriminations", help="Questions all tell strong from weak students as well.")
    ] = False,
    edge_probability: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Of each edge of a random graph; 0.2 if not given.")
    ] = None,
    seed: Seed = 0,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """A class: students answer questions, questions belong to topics, topics have prerequisites.

    The folder gets answers.csv and log.csv (the same answers, wide and long), topics.csv and areas.csv, and, as the
    truth behind them, prerequisites.csv (the graph) and complete.csv (no gaps).
    """
    import numpy as np
    import pandas as pd

    from visl.data.outputs import check_output
    from visl.data.simulate_education import MATHS_TOPICS, simulate_education

    talk = Talk(quiet=quiet, as_json=as_json)
    check_output(out, force, marker=MARKER)
    if edge_probability is not None and topics == len(MATHS_TOPICS):
        talk.notice(f"{topics} topics have the graph of the maths curriculum: --edge-probability changes nothing")
    data = simulate_education(
        students,
        topics,
        questions,
        missing,
        ability,
        not no_general,
        not no_difficulties,
        not no_discriminations,
        mechanism,
        edge_probability=0.2 if edge_probability is None else edge_probability,
        rng=np.random.default_rng(seed),
    )
    ids = pd.Series([f"s{n:0{max(4, len(str(students)))}d}" for n in range(1, students + 1)], name="student")
    complete = pd.DataFrame(data.answers.astype(int), columns=list(data.questions)).astype("Int8")
    answers = complete.where(data.observed)
    rows, columns = data.observed.nonzero()
    log = pd.DataFrame(
        {
            "student": ids.to_numpy()[rows],
            "question": np.array(data.questions)[columns],
            "correct": data.answers[rows, columns].astype(int),
        }
    )
    topic_names = np.array(data.topics)
    files = {
        "answers.csv": pd.concat([ids, answers], axis=1),
        "log.csv": log,
        "topics.csv": pd.DataFrame({"question": data.questions, "topic": topic_names[data.topic_of_question]}),
        "areas.csv": pd.DataFrame({"topic": data.topics, "area": data.areas}),
        "prerequisites.csv": _edges(data.topics, data.edges),
        "complete.csv": pd.concat([ids, complete], axis=1),
    }
    settings = {
        "simulation": "education",
        "students": students,
        "topics": topics,
        "questions": questions,
        "missing": missing,
        "mechanism": mechanism,
        "ability": ability,
        "general": not no_general,
        "difficulties": not no_difficulties,
        "discriminations": not no_discriminations,
        "edge_probability": edge_probability,
        "seed": seed,
    }
    _write(out, files, settings, force=force)
    talk.result(
        {"out": out, **settings, "files": list(files), "edges": int(data.edges.sum()), "cells": len(log)},
        f"{count(students, 'student')} gave {count(len(log), 'answer')} to {count(len(data.questions), 'question')} in "
        f"{count(topics, 'topic')}, which have {count(int(data.edges.sum()), 'prerequisite')}.",
        f"Written: {out}, with {', '.join(files)}. Next:",
        f"  visl fit {out}/answers.csv --id student --groups {out}/topics.csv --out model",
    )


@simulate.command()
@guarded
def synthetic(
    out: OutFolder,
    variables: Annotated[int, typer.Option(metavar="N", help="How many columns.")] = 5,
    rows: Annotated[int, typer.Option(metavar="N", help="How many rows.")] = 2000,
    missing: Missing = 0.3,
    mechanism: Mechanism = "mcar",
    edge_probability: Annotated[float, typer.Option(metavar="NUMBER", help="Of each edge of the random graph.")] = 0.5,
    seed: Seed = 0,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Numbers: each column is a sum of sines of its parents in a random graph, plus noise.

    The folder gets table.csv and, as the truth behind it, edges.csv (the graph) and complete.csv (no gaps).
    """
    import numpy as np
    import pandas as pd

    from visl.data.outputs import check_output
    from visl.data.simulate_education import MECHANISMS
    from visl.data.simulate_synthetic import simulate_synthetic
    from visl.errors import InputError

    talk = Talk(quiet=quiet, as_json=as_json)
    check_output(out, force, marker=MARKER)
    if mechanism not in MECHANISMS:
        raise InputError(f"mechanism {mechanism!r} is unknown: choose one of {', '.join(MECHANISMS)}")
    rng = np.random.default_rng(seed)
    data = simulate_synthetic(variables, rows, rng, edge_probability)
    observed = MECHANISMS[mechanism](data.values, missing, rng)
    complete = pd.DataFrame(data.values, columns=list(data.names))
    files = {
        "table.csv": complete.where(observed),
        "edges.csv": _edges(data.names, data.edges),
        "complete.csv": complete,
    }
    settings = {
        "simulation": "synthetic",
        "variables": variables,
        "rows": rows,
        "missing": missing,
        "mechanism": mechanism,
        "edge_probability": edge_probability,
        "seed": seed,
    }
    _write(out, files, settings, force=force)
    talk.result(
        {"out": out, **settings, "files": list(files), "edges": int(data.edges.sum()), "cells": int(observed.sum())},
        f"{count(rows, 'row')} of {count(variables, 'column')}, whose graph has "
        f"{count(int(data.edges.sum()), 'edge')}.",
        f"Written: {out}, with {', '.join(files)}. Next:",
        f"  visl fit {out}/table.csv --out model",
    )


def _edges(names: Any, edges: Any) -> pd.DataFrame:
    import pandas as pd

    pairs = [(names[i], names[j]) for i, j in zip(*edges.nonzero(), strict=True)]
    return pd.DataFrame(pairs, columns=["from", "to"])


def _write(out: Path, files: dict[str, pd.DataFrame], settings: dict[str, Any], *, force: bool) -> None:
    import json

    from visl.data.files import write_table
    from visl.data.outputs import claim, write_folder_whole

    def write(folder: Path) -> None:
        for name, frame in files.items():
            write_table(frame, folder / name)
        (folder / MARKER).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    with claim(out):
        write_folder_whole(out, write, force, marker=MARKER)
