"""The demo's files: a simulated class, written by `visl.data.make_demo`."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    answers_path: Path  # student, then a column a question: 0, 1 or empty
    topics_path: Path  # question, topic
    areas_path: Path  # topic, area
    prerequisites_path: Path  # from, to: the true graph of the simulation


def load_demo() -> Demo:
    folder = Path(str(files("visl.data.demo")))
    return Demo(
        answers_path=folder / "answers.csv",
        topics_path=folder / "topics.csv",
        areas_path=folder / "areas.csv",
        prerequisites_path=folder / "prerequisites.csv",
    )
