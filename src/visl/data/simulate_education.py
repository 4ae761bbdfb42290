"""Simulated classes: students answer questions, questions belong to topics, topics have prerequisites.

Three models of what a student can do in a topic, all along the same graph:
- hierarchy: a topic is mastered or not, and never without all of its prerequisites;
- capped: ability is a number, at most that in each prerequisite;
- linear: ability is a weighted sum of that in the prerequisites.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visl.data.masks import mar, mcar, sigmoid
from visl.errors import InputError

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

# In alphabetical order, where about half of the edges below point forward: the order gives no direction away.
MATHS_AREAS: dict[str, str] = {
    "Addition and subtraction": "Number",
    "Angles": "Geometry",
    "Coordinates": "Geometry",
    "Enlargement": "Geometry",
    "Expressions": "Algebra",
    "Fractions": "Number",
    "Graphs of straight lines": "Algebra",
    "Linear equations": "Algebra",
    "Multiplication and division": "Number",
    "Percentages": "Number",
    "Perimeter and area": "Geometry",
    "Place value": "Number",
}
MATHS_TOPICS: tuple[str, ...] = tuple(MATHS_AREAS)
# A prerequisite of a prerequisite is not listed again: in `hierarchy` such an edge leaves no trace in the data.
MATHS_PREREQUISITES: tuple[tuple[str, str], ...] = (
    ("Place value", "Addition and subtraction"),
    ("Place value", "Coordinates"),
    ("Addition and subtraction", "Angles"),
    ("Addition and subtraction", "Multiplication and division"),
    ("Multiplication and division", "Expressions"),
    ("Multiplication and division", "Fractions"),
    ("Multiplication and division", "Perimeter and area"),
    ("Fractions", "Percentages"),
    ("Fractions", "Linear equations"),
    ("Fractions", "Enlargement"),
    ("Expressions", "Linear equations"),
    ("Angles", "Enlargement"),
    ("Perimeter and area", "Enlargement"),
    ("Coordinates", "Graphs of straight lines"),
    ("Linear equations", "Graphs of straight lines"),
)

TOPICS_PER_AREA = 4  # for unnamed topics
GENERAL_LOAD = 0.4  # share of the variance of a student's own propensity that is common to all topics
EASIEST_MASTERY, HARDEST_MASTERY = 0.85, 0.65  # chance of the own part, first topics and last of the hierarchy
SLIP, GUESS = 0.1, 0.2  # of a middling question
DIFFICULTY_SPREAD = 0.5  # standard deviation of b
DISCRIMINATION_SPREAD = 0.25  # standard deviation of log a
LOGISTIC_SLOPE = 1.7  # a of a middling question, `capped` and `linear`


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
    _check_choice("ability", ability, ABILITIES)
    _check_choice("mechanism", mechanism, MECHANISMS)
    names, areas, graph = _curriculum(topics, edges, edge_probability, rng)

    abilities = ABILITIES[ability](n_students, graph, general, rng)  # (N, M)
    topic_of_question = np.repeat(np.arange(topics), questions_per_topic)
    b, a = _question_parameters(topics * questions_per_topic, difficulties, discriminations, rng)
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


def random_prerequisites(topics: int, edge_probability: float, rng: np.random.Generator) -> BoolArray:
    """A random acyclic graph whose hidden order has nothing to do with the topics' numbers.  -> (topics, topics)"""
    if not 0 <= edge_probability <= 1:
        raise InputError(f"edge_probability {edge_probability} is no probability: give a number from 0 to 1")
    order = rng.permutation(topics)
    forward = np.triu(rng.random((topics, topics)) < edge_probability, k=1)
    return forward[np.ix_(order, order)]


def depths(edges: BoolArray) -> NDArray[np.int64]:
    """Edges on the longest way into each topic; sorting by it puts prerequisites first.  (M, M) -> (M,)"""
    depth = np.zeros(len(edges), dtype=np.int64)
    for _ in range(len(edges)):
        deeper = np.where(edges, depth[:, None] + 1, 0).max(axis=0)
        if np.array_equal(deeper, depth):
            return depth
        depth = deeper
    raise InputError("edges hold a cycle: no topic can be a prerequisite of itself; remove one edge of the cycle")


def _curriculum(
    M: int, edges: ArrayLike | None, edge_probability: float, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...], BoolArray]:
    """Names and areas of the topics, and their graph."""
    if edges is None and len(MATHS_TOPICS) == M:
        return MATHS_TOPICS, tuple(MATHS_AREAS.values()), _maths_edges()
    graph = np.asarray(random_prerequisites(M, edge_probability, rng) if edges is None else edges)
    if graph.shape != (M, M) or not np.isin(graph, (0, 1)).all():
        raise InputError(
            f"edges of shape {graph.shape}: give a ({M}, {M}) matrix of 0 and 1, or set topics to its size"
        )
    names = tuple(f"topic {m + 1}" for m in range(M))
    return names, tuple(f"area {m // TOPICS_PER_AREA + 1}" for m in range(M)), graph.astype(bool)


def _maths_edges() -> BoolArray:
    edges = np.zeros((len(MATHS_TOPICS), len(MATHS_TOPICS)), dtype=bool)
    for before, after in MATHS_PREREQUISITES:
        edges[MATHS_TOPICS.index(before), MATHS_TOPICS.index(after)] = True
    return edges


def _own_propensities(n_students: int, M: int, general: bool, rng: np.random.Generator) -> FloatArray:
    """sqrt(load) * general + sqrt(1 - load) * own noise, standard normal.  -> (students, topics)"""
    load = GENERAL_LOAD if general else 0.0
    common = rng.standard_normal((n_students, 1))
    return np.sqrt(load) * common + np.sqrt(1 - load) * rng.standard_normal((n_students, M))


def _mastery(n_students: int, edges: BoolArray, general: bool, rng: np.random.Generator) -> FloatArray:
    """mastered = own propensity above the topic's threshold, and every prerequisite mastered."""
    depth = depths(edges)
    chances = EASIEST_MASTERY + (HARDEST_MASTERY - EASIEST_MASTERY) * depth / max(depth.max(), 1)
    thresholds = [NormalDist().inv_cdf(1 - chance) for chance in chances]
    mastered = _own_propensities(n_students, len(edges), general, rng) > thresholds  # (N, M)
    for topic in np.argsort(depth, kind="stable"):
        mastered[:, topic] &= mastered[:, edges[:, topic]].all(axis=1)
    return mastered.astype(np.float64)


def _capped(n_students: int, edges: BoolArray, general: bool, rng: np.random.Generator) -> FloatArray:
    """theta = min(own theta, theta of every prerequisite)"""
    theta = _own_propensities(n_students, len(edges), general, rng)
    for topic in np.argsort(depths(edges), kind="stable"):
        theta[:, topic] = np.minimum(theta[:, topic], theta[:, edges[:, topic]].min(axis=1, initial=np.inf))
    return theta


def _linear(n_students: int, edges: BoolArray, general: bool, rng: np.random.Generator) -> FloatArray:
    """theta = sum over prerequisites of weight * theta + general + own noise, scaled to variance 1."""
    M = len(edges)
    weights = np.where(edges, rng.uniform(0.5, 1.0, (M, M)), 0.0)
    # Each theta is a unit vector of loadings on M own noises and, last, the common factor.
    loadings = np.hstack([np.eye(M), np.full((M, 1), float(general))])
    for topic in np.argsort(depths(edges), kind="stable"):
        loadings[topic] += weights[:, topic] @ loadings
        loadings[topic] /= np.linalg.norm(loadings[topic])
    return rng.standard_normal((n_students, M + 1)) @ loadings.T


def _question_parameters(
    Q: int, difficulties: bool, discriminations: bool, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Difficulty b around 0 and discrimination a around 1, (questions,) each; drawn even if not used, so that a
    switch leaves the other draws as they are."""
    b, log_a = DIFFICULTY_SPREAD * rng.standard_normal(Q), DISCRIMINATION_SPREAD * rng.standard_normal(Q)
    return b * difficulties, np.exp(log_a * discriminations)


def _slip_guess_logits(mastered: FloatArray, b: FloatArray, a: FloatArray) -> FloatArray:
    """logit(1 - SLIP) if mastered, logit(GUESS) if not, their distance times a, both lower by b."""
    high, low = np.log((1 - SLIP) / SLIP), np.log(GUESS / (1 - GUESS))
    return (high + low) / 2 + a * (high - low) * (mastered - 0.5) - b


def _logistic_logits(theta: FloatArray, b: FloatArray, a: FloatArray) -> FloatArray:
    """Two-parameter logistic model: slope * a * (theta - b)"""
    return LOGISTIC_SLOPE * a * (theta - b)


def _slug(topic: str) -> str:
    return topic.lower().replace(" ", "-")


def _check_choice(setting: str, choice: str, known: dict[str, Callable]) -> None:
    if choice not in known:
        raise InputError(f"{setting} {choice!r} is unknown: choose one of {', '.join(known)}")


ABILITIES: dict[str, Callable[[int, BoolArray, bool, np.random.Generator], FloatArray]] = {
    "hierarchy": _mastery,
    "capped": _capped,
    "linear": _linear,
}
ANSWER_LOGITS: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "hierarchy": _slip_guess_logits,
    "capped": _logistic_logits,
    "linear": _logistic_logits,
}
MECHANISMS: dict[str, Callable[[FloatArray, float, np.random.Generator], BoolArray]] = {
    "mcar": lambda answers, rate, rng: mcar(answers.shape, rate, rng),
    "mar": mar,
}
