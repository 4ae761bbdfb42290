"""What the simulations share: their options, and the folder that they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visl.cli.console import Talk

if TYPE_CHECKING:
    import pandas as pd

MARKER = "simulation.json"

OutFolder = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write.")]
Missing = Annotated[float, typer.Option(metavar="SHARE", help="Share of cells that are missing.")]
Mechanism = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="mcar: gaps fall anywhere. mar: some columns have none, and decide on the others' gaps.",
    ),
]
Ability = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="hierarchy: a topic is mastered only with all its prerequisites. capped: ability is at most that in "
        "the weakest prerequisite. linear: ability is a weighted sum of that in the prerequisites.",
    ),
]
NoGeneral = Annotated[
    bool, typer.Option("--no-general", help="Students have no general ability that shows in all topics.")
]
NoDifficulties = Annotated[bool, typer.Option("--no-difficulties", help="Questions are all as hard.")]
NoDiscriminations = Annotated[
    bool, typer.Option("--no-discriminations", help="Questions all tell strong from weak students as well.")
]
Students = Annotated[int, typer.Option(metavar="N", help="How many students.")]
Topics = Annotated[
    int, typer.Option(metavar="N", help="How many topics. 12 are a named maths curriculum, else they are random.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed gives the same files.")]


def model_settings(ability: str, no_general: bool, no_difficulties: bool, no_discriminations: bool) -> dict[str, Any]:
    """Of students and questions, by the names they have in Python and in simulation.json."""
    return {
        "ability": ability,
        "general": not no_general,
        "difficulties": not no_difficulties,
        "discriminations": not no_discriminations,
    }


def notice_fixed_graph(talk: Talk, topics: int, edge_probability: float | None) -> None:
    from visl.data.curriculum import MATHS_TOPICS

    if edge_probability is not None and topics == len(MATHS_TOPICS):
        talk.notice(f"{topics} topics have the graph of the maths curriculum: --edge-probability changes nothing")


def edge_frame(names: Any, edges: Any) -> pd.DataFrame:
    import pandas as pd

    pairs = [(names[i], names[j]) for i, j in zip(*edges.nonzero(), strict=True)]
    return pd.DataFrame(pairs, columns=["from", "to"])


def write_simulation(
    out: Path, make: Callable[[Path], dict[str, pd.DataFrame]], settings: dict[str, Any], *, force: bool
) -> dict[str, pd.DataFrame]:
    """The folder, whole or not at all.  make: writes what is no frame itself, and gives the frames by file name"""
    import json

    from visl.data.files import write_table
    from visl.data.outputs import claim, write_folder_whole

    frames: dict[str, pd.DataFrame] = {}

    def write(folder: Path) -> None:
        frames.update(make(folder))
        for name, frame in frames.items():
            write_table(frame, folder / name)
        (folder / MARKER).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    with claim(out):
        write_folder_whole(out, write, force, marker=MARKER)
    return frames
