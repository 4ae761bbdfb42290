"""Answers of students to questions, in the layout of the NeurIPS 2020 Education Challenge, tasks 3 and 4."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visl.errors import InputError
from visl.experiments.found_data import folder_with
from visl.experiments.problem import FloatArray, IntArray

FOLDER = "eedi_task_3_4"
ANSWER_FILES = (
    "train_data/train_task_3_4.csv",
    "test_data/test_public_task_4_more_splits.csv",
    "test_data/test_private_task_4_more_splits.csv",
)
QUESTION_FILE, SUBJECT_FILE = "metadata/question_metadata_task_3_4.csv", "metadata/subject_metadata.csv"
DOWNLOAD = (
    "the Eedi data of the NeurIPS 2020 Education Challenge, tasks 3 and 4: get the zip from the challenge's page, "
    f"unpack it, so that DIR/{FOLDER} (or DIR) holds train_data, test_data and metadata, and give --data DIR"
)


@dataclass(frozen=True)
class Topics:
    """The level-3 topics, nodes of the graph, and where they stand in the hierarchy."""

    names: tuple[str, ...]  # (M,)
    level_2: tuple[str, ...]  # (M,) name of the parent
    level_1: tuple[str, ...]  # (M,) name of the parent's parent


@dataclass(frozen=True)
class Answers:
    values: FloatArray  # (students, questions) 1 right, 0 wrong, NaN not answered; questions of a topic stand together
    topic_of: IntArray  # (questions,)
    topics: Topics


def read_answers(data: Path | None, rng: np.random.Generator) -> Answers:
    """The three files pooled, as the paper does. A question of several level-3 topics gets one of them by the rng."""
    folder = folder_with(data, FOLDER, ANSWER_FILES[0], DOWNLOAD)
    for name in (*ANSWER_FILES, QUESTION_FILE, SUBJECT_FILE):
        if not (folder / name).is_file():
            raise InputError(f"there is no {folder / name}: the download is not complete")
    students, questions, right = _read_cells(folder)
    numbers, place = np.unique(questions, return_inverse=True)
    topic_of, topics = _read_topics(folder, numbers, rng)
    order = np.argsort(topic_of, kind="stable")
    column = np.argsort(order)  # of each question by place
    names, row = np.unique(students, return_inverse=True)
    values = np.full((len(names), len(numbers)), np.nan)
    values[row, column[place]] = right
    return Answers(values, topic_of[order], topics)


def _read_cells(folder: Path) -> tuple[IntArray, IntArray, FloatArray]:
    import pandas as pd

    columns = ["QuestionId", "UserId", "IsCorrect"]
    frames = [pd.read_csv(folder / name, usecols=columns, encoding="utf-8-sig") for name in ANSWER_FILES]
    cells = pd.concat(frames).drop_duplicates(["QuestionId", "UserId"], keep="last")
    return cells["UserId"].to_numpy(), cells["QuestionId"].to_numpy(), cells["IsCorrect"].to_numpy(np.float64)


def _read_topics(folder: Path, questions: IntArray, rng: np.random.Generator) -> tuple[IntArray, Topics]:
    """Topic of each question; topics are numbered in the order of their subject's number."""
    import pandas as pd

    subjects = pd.read_csv(folder / SUBJECT_FILE, encoding="utf-8-sig").set_index("SubjectId")
    metadata = pd.read_csv(folder / QUESTION_FILE, encoding="utf-8-sig").set_index("QuestionId")["SubjectId"]
    subject_of = []
    for question in questions.tolist():
        of_level_3 = [s for s in json.loads(metadata[question]) if subjects.loc[s, "Level"] == 3]
        if not of_level_3:
            raise InputError(f"question {question} has no topic of level 3 in {QUESTION_FILE}: download it again")
        subject_of.append(of_level_3[rng.integers(len(of_level_3))] if len(of_level_3) > 1 else of_level_3[0])
    used, topic_of = np.unique(subject_of, return_inverse=True)
    topics = Topics(*(tuple(_ancestor(subjects, subject, up) for subject in used) for up in range(3)))
    return topic_of, topics


def _ancestor(subjects: Any, subject: int, up: int) -> str:
    for _ in range(up):
        subject = int(subjects.loc[subject, "ParentId"])
    return str(subjects.loc[subject, "Name"])
