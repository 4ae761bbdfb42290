"""Simulated logs of a whole school system: far more students and questions than a table of all pairs could hold.

The students and answers are those of `simulate_education`; the answers are made for some students at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visl.data.abilities import ABILITIES, ANSWER_LOGITS, Draw, FloatArray, question_parameters
from visl.data.curriculum import BoolArray, curriculum
from visl.data.masks import sigmoid
from visl.data.simulate_education import check_choice
from visl.errors import InputError

STUDENTS_AT_ONCE = 2000  # the answers depend on it: each block of students has a generator of its own
PREREQUISITES_PER_TOPIC = 2.0  # on average, in a large random graph ...
MOST_EDGE_PROBABILITY = 0.2  # ... and in a small one, this probability of each edge
# Standard deviations of logarithms. A mean of 133 answers goes with 2 to 4,000 in 119,000 students.
ACTIVITY_SPREAD = 0.9  # of the answers that students give
POPULARITY_SPREAD = 0.8  # of the answers that questions get
TOPIC_SIZE_SPREAD = 0.7  # of the questions that topics have
LARGE_SHARE = 0.25  # of all questions: who answers more is dealt with by himself

LOG_TYPES = pa.schema([("student", pa.int32()), ("question", pa.int32()), ("correct", pa.int8())])


@dataclass(frozen=True)
class Answers:
    """The answers of some students, sorted by student and question, each pair once. Students and questions from 0."""

    student: NDArray[np.int64]  # (answers,)
    question: NDArray[np.int64]
    correct: NDArray[np.bool_]


@dataclass(frozen=True)
class SimulatedLog:
    """All but the answers themselves: `chunks` makes them, the same ones each time."""

    topics: tuple[str, ...]
    areas: tuple[str, ...]  # of each topic
    edges: BoolArray  # (topics, topics), [prerequisite, topic]
    topic_of_question: NDArray[np.int64]  # (questions,), ascending
    popularity: FloatArray  # (questions,), sums to 1
    difficulty: FloatArray  # (questions,), b
    discrimination: FloatArray  # (questions,), a
    n_answers: NDArray[np.int64]  # (students,)
    ability: str
    draw_abilities: Draw
    seeds: tuple[np.random.SeedSequence, ...]  # of each block of STUDENTS_AT_ONCE students

    @property
    def n_students(self) -> int:
        return len(self.n_answers)

    def chunks(self) -> Iterator[Answers]:
        """The answers of one block of students after the other."""
        for block, seed in enumerate(self.seeds):
            yield self._chunk(block * STUDENTS_AT_ONCE, np.random.default_rng(seed))

    def _chunk(self, first: int, rng: np.random.Generator) -> Answers:
        counts = self.n_answers[first : first + STUDENTS_AT_ONCE]
        abilities = self.draw_abilities(len(counts), rng)  # (students of the block, topics)
        student, question = choose_questions(counts, self.popularity, rng)
        ability = abilities[student, self.topic_of_question[question]]
        logits = ANSWER_LOGITS[self.ability](ability, self.difficulty[question], self.discrimination[question])
        return Answers(first + student, question, rng.random(len(student)) < sigmoid(logits))


def simulate_log(
    n_students: int = 5000,
    topics: int = 40,
    n_questions: int = 1000,
    n_answers: int = 250_000,
    ability: str = "hierarchy",
    general: bool = True,
    difficulties: bool = True,
    discriminations: bool = True,
    edge_probability: float | None = None,
    *,
    rng: np.random.Generator,
) -> SimulatedLog:
    """A log of exactly n_answers answers. 12 topics are the maths catalogue; any other number has a random graph.

    Few students give many answers, few questions get many, few topics have many questions. Settings as in
    `simulate_education`. edge_probability: None is 0.2, or less where it would be over two prerequisites a topic.
    """
    if min(n_students, topics) < 1:
        raise InputError(f"{n_students} students, {topics} topics: at least 1 each")
    if n_questions < topics:
        raise InputError(f"{n_questions} questions in {topics} topics: give at least one question for each topic")
    check_choice("ability", ability, ABILITIES)
    if edge_probability is None:
        edge_probability = min(MOST_EDGE_PROBABILITY, 2 * PREREQUISITES_PER_TOPIC / topics)
    names, areas, graph = curriculum(topics, None, edge_probability, rng)
    sizes = uneven_counts(topics, n_questions, n_questions, TOPIC_SIZE_SPREAD, rng)
    popularity = _uneven(n_questions, POPULARITY_SPREAD, rng)
    b, a = question_parameters(n_questions, difficulties, discriminations, rng)
    return SimulatedLog(
        topics=names,
        areas=areas,
        edges=graph,
        topic_of_question=np.repeat(np.arange(topics), sizes),
        popularity=popularity / popularity.sum(),
        difficulty=b,
        discrimination=a,
        n_answers=_answers_of_students(n_students, n_questions, n_answers, rng),
        ability=ability,
        draw_abilities=ABILITIES[ability](graph, general, rng),
        seeds=tuple(np.random.SeedSequence(rng.integers(2**63)).spawn(-(-n_students // STUDENTS_AT_ONCE))),
    )


def write_shards(log: SimulatedLog, folder: Path, shards: int) -> BoolArray:
    """Write part-0000.parquet, ... of about as many students each; which questions were answered.  -> (questions,)

    The columns are student and question, numbered from 1, and correct, 0 or 1. A student is in one file only.
    """
    check_shards(shards, log.n_students)
    ends = log.n_students * np.arange(1, shards + 1) // shards  # the first student that is not in the file
    answered = np.zeros(len(log.topic_of_question), bool)
    with ExitStack() as files:
        writers = [
            files.enter_context(pq.ParquetWriter(folder / f"part-{i:04d}.parquet", LOG_TYPES)) for i in range(shards)
        ]
        for answers in log.chunks():
            answered[answers.question] = True
            table = _arrow(answers)
            bounds = [0, *np.searchsorted(answers.student, ends).tolist()]
            for writer, start, end in zip(writers, bounds[:-1], bounds[1:], strict=True):
                if start < end:
                    writer.write_table(table.slice(start, end - start))
    return answered


def check_shards(shards: int, n_students: int) -> None:
    if not 1 <= shards <= n_students:
        raise InputError(f"{shards} shards of {n_students} students: give 1 up to the number of students")


def _arrow(answers: Answers) -> pa.Table:
    arrays = [
        pa.array((answers.student + 1).astype(np.int32)),
        pa.array((answers.question + 1).astype(np.int32)),
        pa.array(answers.correct.astype(np.int8)),
    ]
    return pa.Table.from_arrays(arrays, schema=LOG_TYPES)


# -- how many


def uneven_counts(n: int, total: int, most: int, spread: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """n whole numbers from 1 to `most` that sum to `total`, in proportion to log-normal numbers.  -> (n,)"""
    if not n <= total <= n * most:
        raise InputError(f"{total} cannot be shared out over {n} with 1 to {most} each")
    weights = _uneven(n, spread, rng)
    low, high = 0.0, most / weights.min()
    for _ in range(100):  # the largest scale that does not give more than the total
        middle = (low + high) / 2
        too_many = _counts(weights * middle, most).sum() > total
        low, high = (low, middle) if too_many else (middle, high)
    counts = _counts(weights * low, most)
    # At that scale the next number is due to grow by one; where many are due at once, some of them do.
    while (left := total - int(counts.sum())) > 0:
        free = np.flatnonzero(counts < most)
        counts[rng.choice(free, min(left, len(free)), replace=False)] += 1
    return counts


def _counts(shares: FloatArray, most: int) -> NDArray[np.int64]:
    return np.clip(np.floor(shares), 1, most).astype(np.int64)


def _uneven(n: int, spread: float, rng: np.random.Generator) -> FloatArray:
    return np.exp(spread * rng.standard_normal(n))


def _answers_of_students(N: int, Q: int, n_answers: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if not N <= n_answers <= N * Q:
        raise InputError(
            f"{n_answers} answers of {N} students to {Q} questions: give from {N} (one each) to {N * Q} (all pairs)"
        )
    return uneven_counts(N, n_answers, Q, ACTIVITY_SPREAD, rng)


# -- which questions


def choose_questions(
    counts: NDArray[np.int64], popularity: FloatArray, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """counts[n] different questions for each student n, drawn one after the other in proportion to their popularity.

    -> student and question of each pair, sorted. Takes memory for the pairs, never for students x questions.
    """
    Q = len(popularity)
    is_large = counts > LARGE_SHARE * Q
    large = [n * Q + _race(int(counts[n]), popularity, rng) for n in np.flatnonzero(is_large)]
    keys = np.concatenate([_draw_until_different(np.where(is_large, 0, counts), popularity, rng), *large])
    keys.sort()
    student, question = np.divmod(keys, Q)
    return student, question


def _draw_until_different(
    counts: NDArray[np.int64], popularity: FloatArray, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Sorted keys, student * questions + question. What was drawn before is drawn again, as often as needed."""
    Q = len(popularity)
    upper = np.cumsum(popularity)
    keys = np.zeros(0, np.int64)
    lacking = counts
    while lacking.any():
        students = np.repeat(np.arange(len(counts)), lacking)
        questions = np.searchsorted(upper, rng.random(len(students)) * upper[-1], side="right")
        keys = np.sort(np.concatenate([keys, students * Q + np.minimum(questions, Q - 1)]))
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
        lacking = counts - np.bincount(keys // Q, minlength=len(counts))
    return keys


def _race(count: int, popularity: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """The first `count` questions to arrive, each after an exponential time: the same law as drawing them in turn."""
    arrival = rng.standard_exponential(len(popularity)) / popularity
    return np.argpartition(arrival, count - 1)[:count]
