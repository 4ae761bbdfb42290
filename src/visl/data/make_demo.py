"""Writes the demo's files, which ship with the package: `python -m visl.data.make_demo`."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from visl.data.demo import load_demo
from visl.data.simulate_education import ClassData, maths_class

DEMO_SEED = 2022


def write_demo(folder: Path) -> None:
    data = maths_class(DEMO_SEED)
    _write(folder / "answers.csv", ["student", *data.questions], _answer_rows(data))
    _write(folder / "topics.csv", ["question", "topic"], zip(data.questions, _topic_names(data), strict=True))
    _write(folder / "areas.csv", ["topic", "area"], zip(data.topics, data.areas, strict=True))
    _write(folder / "prerequisites.csv", ["from", "to"], _named_edges(data))


def _answer_rows(data: ClassData) -> Iterable[list[str]]:
    """One row a student: an id, then 0, 1 or nothing for each question."""
    for n, (answers, observed) in enumerate(zip(data.answers, data.observed, strict=True), start=1):
        yield [f"s{n:04d}", *(str(int(a)) if seen else "" for a, seen in zip(answers, observed, strict=True))]


def _topic_names(data: ClassData) -> list[str]:
    return [data.topics[m] for m in data.topic_of_question]


def _named_edges(data: ClassData) -> list[tuple[str, str]]:
    return [(data.topics[i], data.topics[j]) for i, j in zip(*data.edges.nonzero(), strict=True)]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    write_demo(load_demo().answers_path.parent)
