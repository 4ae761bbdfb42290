"""Made-up data in the layout of the public ones, and rows of results."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from visl.experiments.design import Cell, Contender, DataSet, Row
from visl.experiments.eedi_data import ANSWER_FILES, QUESTION_FILE, SUBJECT_FILE
from visl.experiments.rows import DONE, row_of

SUBJECTS = """SubjectId,Name,ParentId,Level
3,Maths,NULL,0
32,Number,3,1
49,Algebra,3,1
71,Fractions,32,2
81,Equations,49,2
209,Adding fractions,71,3
210,Ordering fractions,71,3
101,Linear equations,81,3
102,Sequences,81,3
"""


def write_eedi(
    folder: Path,
    answers: Sequence[tuple[Sequence[tuple[int, ...]], str]],
    questions: dict[int, list[int]],
    subjects: str = SUBJECTS,
) -> None:
    """answers: of each of the three files, lines (question, student, right) and the header's further column"""
    for name, (lines, further) in zip(ANSWER_FILES, answers, strict=True):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [f"{question},{student},2,{right}" for question, student, right in lines]
        file.write_text("\n".join([f"QuestionId,UserId,{further},IsCorrect", *rows]) + "\n", encoding="utf-8")
    (folder / SUBJECT_FILE).parent.mkdir()
    (folder / SUBJECT_FILE).write_text(subjects, encoding="utf-8-sig")
    listed = [f'{question},"{topics}"' for question, topics in questions.items()]
    table = "\n".join(["QuestionId,SubjectId", *listed]) + "\n"
    (folder / QUESTION_FILE).write_text(table, encoding="utf-8")


def write_class(folder: Path, n_students: int = 120) -> Path:
    """Eight questions of four topics; students differ in one ability, and a quarter of the answers is missing."""
    rng = np.random.default_rng(0)
    topic = [209, 210, 101, 102]
    questions = {question: [3, topic[question % 4]] for question in range(8)}
    ability = rng.standard_normal(n_students)
    lines = [
        (question, student, int(ability[student] + rng.logistic() > 0))
        for student in range(n_students)
        for question in questions
        if rng.random() > 0.25
    ]
    thirds = [lines[k::3] for k in range(3)]
    write_eedi(folder / "eedi_task_3_4", [(third, "AnswerValue") for third in thirds], questions)
    return folder


def write_neuropathic(folder: Path, n_rows: int = 1100) -> Path:
    """Five columns: a -> b -> c, d -> c, and e, which is always 0; one data set."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list("abcde")
    edges = pd.DataFrame(np.zeros((5, 5), int), index=names, columns=names)
    edges.loc["a", "b"] = edges.loc["b", "c"] = edges.loc["d", "c"] = 1
    edges.to_csv(folder / "true_dag.csv")
    rng = np.random.default_rng(1)
    a, d, flips = rng.random(n_rows) < 0.5, rng.random(n_rows) < 0.4, rng.random((2, n_rows)) < 0.1
    b = a ^ flips[0]
    c = (b | d) ^ flips[1]
    values = pd.DataFrame(np.stack([a, b, c, d, np.zeros(n_rows)], axis=1).astype(int), columns=names)
    values.to_csv(folder / "simulated_1.csv.gz", index=False)
    return folder


def made_up_cell(
    method: str = "Mean", data_set: str = "first", *, size: int = 5, label: str = "", seed: int = 0
) -> Cell:
    return Cell("made up", DataSet(data_set, size, {"seed": seed}, label), Contender(method, method.lower()), seed)


def row(method: str, data_set: str, status: str = DONE, *, label: str = "", size: int = 5, **more: object) -> Row:
    """more: scores, and what `row_of` takes"""
    known = {"scores", "seconds", "limit_s", "reason", "fill", "together", "device", "peak_mib"}
    scores = {name: value for name, value in more.items() if name not in known}
    rest = {"seconds": 1.0, "limit_s": 60.0} | {name: value for name, value in more.items() if name in known}
    if status == DONE:
        rest.setdefault("scores", scores)
    return row_of(made_up_cell(method, data_set, size=size, label=label), status, **rest)


def write_mixed(folder: Path, n_rows: int = 60) -> None:
    """The smallest of the tables alone: numbers, a yes or no, three words, a name in every row, a constant."""
    rng = np.random.default_rng(0)
    x = rng.random(n_rows)
    table = pd.DataFrame(
        {
            "x": x,
            "y": np.where(np.arange(n_rows) % 10 == 0, np.nan, 2 * x),
            "yes": (x > 0.5).astype(int),
            "colour": np.array(["red", "green", "blue"])[np.arange(n_rows) % 3],
            "name": [f"boat {i}" for i in range(n_rows)],
            "constant": 7,
        }
    )
    folder.mkdir(parents=True)
    table.to_csv(folder / "yacht.csv.gz", index=False)


def write_sachs(folder: Path, n_rows: int = 150) -> None:
    rng = np.random.default_rng(0)
    names = ["Raf", "Mek", "Erk"]
    raf = rng.standard_normal(n_rows)
    values = np.stack([raf, np.sin(2 * raf) + 0.1 * rng.standard_normal(n_rows), rng.standard_normal(n_rows)], axis=1)
    folder.mkdir(parents=True)
    pd.DataFrame(values, columns=names).to_csv(folder / "sachs_observational_853x11.csv", index=False)
    edges = pd.DataFrame([[0, 1, 0], [0, 0, 1], [0, 0, 0]], index=names, columns=names)
    edges.to_csv(folder / "dag_17_edges_grandag.csv")


NETWORK = """network unknown {
}
variable rain {
  type discrete [ 2 ] { yes, no };
}
variable grass {
  type discrete [ 3 ] { <5, 5-12, 12+ };
}
variable sprinkler {
  type discrete [ 2 ] { yes, no };
}
probability ( rain ) {
  table 0.25, 0.75;
}
probability ( grass | rain, sprinkler ) {
  (yes, yes) 0.1, 0.2, 0.7;
  (no, yes) 0.2, 0.3, 0.5;
  (yes, no) 0.0, 0.0, 1.0;
  (no, no) 1.0, 0.0, 0.0;
}
probability ( sprinkler | rain ) {
  (yes) 0.0, 1.0;
  (no) 0.5, 0.5;
}
"""


def write_network(folder: Path, text: str = NETWORK, name: str = "asia") -> None:
    folder.mkdir(parents=True)
    (folder / f"{name}.bif.gz").write_bytes(gzip.compress(text.encode()))
