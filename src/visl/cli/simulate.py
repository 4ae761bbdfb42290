"""`visl simulate`: tables with gaps from a known graph, to try things out on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visl.cli import options as o
from visl.cli.console import Talk, count
from visl.cli.guard import guarded
from visl.cli.simulating import (
    MARKER,
    Ability,
    Mechanism,
    Missing,
    NoDifficulties,
    NoDiscriminations,
    NoGeneral,
    OutFolder,
    Seed,
    Students,
    Topics,
    edge_frame,
    model_settings,
    notice_fixed_graph,
    write_simulation,
)

if TYPE_CHECKING:
    import pandas as pd

simulate = typer.Typer(
    no_args_is_help=True, help="Make a table with gaps from a known graph, to try things out on.", add_completion=False
)


@simulate.command()
@guarded
def education(
    out: OutFolder,
    students: Students = 1000,
    topics: Topics = 12,
    questions: Annotated[int, typer.Option(metavar="N", help="Questions in each topic.")] = 5,
    missing: Missing = 0.6,
    mechanism: Mechanism = "mcar",
    ability: Ability = "hierarchy",
    no_general: NoGeneral = False,
    no_difficulties: NoDifficulties = False,
    no_discriminations: NoDiscriminations = False,
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
    from visl.data.simulate_education import simulate_education

    talk = Talk(quiet=quiet, as_json=as_json)
    check_output(out, force, marker=MARKER)
    notice_fixed_graph(talk, topics, edge_probability)
    model = model_settings(ability, no_general, no_difficulties, no_discriminations)
    data = simulate_education(
        students,
        topics,
        questions,
        missing,
        mechanism=mechanism,
        **model,
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
        "prerequisites.csv": edge_frame(data.topics, data.edges),
        "complete.csv": pd.concat([ids, complete], axis=1),
    }
    settings = {
        "simulation": "education",
        "students": students,
        "topics": topics,
        "questions": questions,
        "missing": missing,
        "mechanism": mechanism,
        **model,
        "edge_probability": edge_probability,
        "seed": seed,
    }
    write_simulation(out, lambda folder: files, settings, force=force)
    talk.result(
        {"out": out, **settings, "files": list(files), "edges": int(data.edges.sum()), "cells": len(log)},
        f"{count(students, 'student')} gave {count(len(log), 'answer')} to {count(len(data.questions), 'question')} in "
        f"{count(topics, 'topic')}, which have {count(int(data.edges.sum()), 'prerequisite')}.",
        f"Written: {out}, with {', '.join(files)}. Next:",
        f"  visl fit {out}/answers.csv --id student --groups {out}/topics.csv --out model",
    )


@simulate.command()
@guarded
def log(
    out: OutFolder,
    students: Students = 5000,
    topics: Topics = 40,
    questions: Annotated[int, typer.Option(metavar="N", help="Questions in all, spread unevenly over topics.")] = (
        1000
    ),
    answers: Annotated[int, typer.Option(metavar="N", help="Answers in all, spread unevenly over students.")] = (
        250_000
    ),
    shards: Annotated[int, typer.Option(metavar="N", help="Files to write; a student is in one of them only.")] = 1,
    ability: Ability = "hierarchy",
    no_general: NoGeneral = False,
    no_difficulties: NoDifficulties = False,
    no_discriminations: NoDiscriminations = False,
    edge_probability: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Of each edge of a random graph. If not given, 0.2, or what makes two prerequisites a topic if less.",
        ),
    ] = None,
    seed: Seed = 0,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """A class as in `education`, of any size: only the answers that were given are ever made.

    The folder gets log/part-0000.parquet and so on (student, question, correct), topics.csv and areas.csv, and, as the
    truth behind them, prerequisites.csv (the graph). The Eedi challenge has --students 119000 --topics 388 --questions
    27600 --answers 15900000.
    """
    import numpy as np
    import pandas as pd

    from visl.data.outputs import check_output
    from visl.data.simulate_log import check_shards, simulate_log, write_shards

    talk = Talk(quiet=quiet, as_json=as_json)
    check_output(out, force, marker=MARKER)
    notice_fixed_graph(talk, topics, edge_probability)
    model = model_settings(ability, no_general, no_difficulties, no_discriminations)
    data = simulate_log(
        students,
        topics,
        questions,
        answers,
        **model,
        edge_probability=edge_probability,
        rng=np.random.default_rng(seed),
    )
    check_shards(shards, students)
    settings = {
        "simulation": "log",
        "students": students,
        "topics": topics,
        "questions": questions,
        "answers": answers,
        "shards": shards,
        **model,
        "edge_probability": edge_probability,
        "seed": seed,
    }

    def write(folder: Path) -> dict[str, pd.DataFrame]:
        (folder / "log").mkdir()
        # A group of a question that nobody answered would name a column that the log does not have.
        answered = np.flatnonzero(write_shards(data, folder / "log", shards))
        topic_names = np.array(data.topics)[data.topic_of_question[answered]]
        return {
            "topics.csv": pd.DataFrame({"question": answered + 1, "topic": topic_names}),
            "areas.csv": pd.DataFrame({"topic": data.topics, "area": data.areas}),
            "prerequisites.csv": edge_frame(data.topics, data.edges),
        }

    files = write_simulation(out, write, settings, force=force)
    n_edges, n_answered = int(data.edges.sum()), len(files["topics.csv"])
    talk.result(
        {"out": out, **settings, "files": ["log", *files], "edges": n_edges, "answered": n_answered, "cells": answers},
        f"{count(students, 'student')} gave {count(answers, 'answer')} to {count(n_answered, 'question')} in "
        f"{count(topics, 'topic')}, which have {count(n_edges, 'prerequisite')}.",
        f"Written: {out}, with {', '.join(['log', *files])}. Next:",
        f"  visl fit {out}/log --long --row student --column question --value correct --groups {out}/topics.csv "
        "--out model",
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
        "edges.csv": edge_frame(data.names, data.edges),
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
    write_simulation(out, lambda folder: files, settings, force=force)
    talk.result(
        {"out": out, **settings, "files": list(files), "edges": int(data.edges.sum()), "cells": int(observed.sum())},
        f"{count(rows, 'row')} of {count(variables, 'column')}, whose graph has "
        f"{count(int(data.edges.sum()), 'edge')}.",
        f"Written: {out}, with {', '.join(files)}. Next:",
        f"  visl fit {out}/table.csv --out model",
    )
