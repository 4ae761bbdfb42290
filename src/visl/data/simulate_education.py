"""Simulated classes: students answer questions, questions belong to topics, topics have prerequisites."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visl.data.abilities import ABILITIES, ANSWER_LOGITS, FloatArray, question_parameters
from visl.data.curriculum import BoolArray, curriculum
from visl.data.masks import mar, mcar, sigmoid
from visl.errors import InputError


@dataclass(frozen=True)
class ClassData:
    answers: FloatArray  # (students, questions), 1 right and 0 wrong, complete
    observed: BoolArray  # (students, questions)
    questions: tuple[str, ...]
    topic_of_question: NDArray[np.int64]  # (questions,), index into topics
    topics: tuple[str, ...]
    areas: tuple[str, ...]  # of each topic
    edges: BoolArray  # (topics, topics), [prerequisite, topic]
    abilities: FloatArray  # (students, topics); 0/1 in the hierarchy model


def maths_class(seed: int) -> ClassData:
    """The demo's class: 1000 students, 12 named topics of 5 questions, a mastery hierarchy, 60 % missing (MCAR)."""
    return simulate_education(rng=np.random.default_rng(seed))


def simulate_education(
    n_students: int = 1000,
    topics: int = 12,
    questions_per_topic: int = 5,
    missing: float = 0.6,
    ability: str = "hierarchy",
    general: bool = True,
    difficulties: bool = True,
    discriminations: bool = True,
    mechanism: str = "mcar",
    edges: ArrayLike | None = None,
    edge_probability: float = 0.2,
    *,
    rng: np.random.Generator,
) -> ClassData:
    """A class of students. Without `edges`, 12 topics are the maths catalogue; any other number has a random graph.

    ability: "hierarchy", "capped" or "linear". general: abilities share a common factor.
    difficulties, discriminations: questions differ in b, in a. mechanism: "mcar" or "mar".
    edges: (topics, topics), [prerequisite, topic], acyclic. edge_probability: of the random graph only.
    """
    if min(n_students, topics, questions_per_topic) < 1:
        raise InputError(f"{n_students} students, {topics} topics of {questions_per_topic} questions: at least 1 each")
    check_choice("ability", ability, ABILITIES)
    check_choice("mechanism", mechanism, MECHANISMS)
    names, areas, graph = curriculum(topics, edges, edge_probability, rng)

    abilities = ABILITIES[ability](graph, general, rng)(n_students, rng)  # (N, M)
    topic_of_question = np.repeat(np.arange(topics), questions_per_topic)
    b, a = question_parameters(topics * questions_per_topic, difficulties, discriminations, rng)
    chance = sigmoid(ANSWER_LOGITS[ability](abilities[:, topic_of_question], b, a))  # (N, Q)
    answers = (rng.random(chance.shape) < chance).astype(np.float64)
    return ClassData(
        answers=answers,
        observed=MECHANISMS[mechanism](answers, missing, rng),
        questions=tuple(f"{_slug(name)}-{k + 1}" for name in names for k in range(questions_per_topic)),
        topic_of_question=topic_of_question,
        topics=names,
        areas=areas,
        edges=graph,
        abilities=abilities,
    )


def _slug(topic: str) -> str:
    return topic.lower().replace(" ", "-")


def check_choice(setting: str, choice: str, known: dict[str, Callable]) -> None:
    if choice not in known:
        raise InputError(f"{setting} {choice!r} is unknown: choose one of {', '.join(known)}")


MECHANISMS: dict[str, Callable[[FloatArray, float, np.random.Generator], BoolArray]] = {
    "mcar": lambda answers, rate, rng: mcar(answers.shape, rate, rng),
    "mar": mar,
}
