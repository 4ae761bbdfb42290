"""What students can do in each topic, and how likely they answer a question right.

Three models of what a student can do in a topic, all along the same graph:
- hierarchy: a topic is mastered or not, and never without all of its prerequisites;
- capped: ability is a number, at most that in each prerequisite;
- linear: ability is a weighted sum of that in the prerequisites.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from visl.data.curriculum import BoolArray, depths

FloatArray = NDArray[np.float64]
# (students, rng) -> (students, topics): may be asked again and again, for more students of the same school.
Draw = Callable[[int, np.random.Generator], FloatArray]

GENERAL_LOAD = 0.4  # share of the variance of a student's own propensity that is common to all topics
EASIEST_MASTERY, HARDEST_MASTERY = 0.85, 0.65  # chance of the own part, first topics and last of the hierarchy
SLIP, GUESS = 0.1, 0.2  # of a middling question
DIFFICULTY_SPREAD = 0.5  # standard deviation of b
DISCRIMINATION_SPREAD = 0.25  # standard deviation of log a
LOGISTIC_SLOPE = 1.7  # a of a middling question, `capped` and `linear`


def _mastery(edges: BoolArray, general: bool, rng: np.random.Generator) -> Draw:
    """mastered = own propensity above the topic's threshold, and every prerequisite mastered; 0 or 1."""
    depth = depths(edges)
    chances = EASIEST_MASTERY + (HARDEST_MASTERY - EASIEST_MASTERY) * depth / max(depth.max(), 1)
    thresholds = [NormalDist().inv_cdf(1 - chance) for chance in chances]
    before = _prerequisites_first(edges, depth)

    def draw(n_students: int, rng: np.random.Generator) -> FloatArray:
        mastered = _own_propensities(n_students, len(edges), general, rng) > thresholds
        for topic, prerequisites in before:
            mastered[:, topic] &= mastered[:, prerequisites].all(axis=1)
        return mastered.astype(np.float64)

    return draw


def _capped(edges: BoolArray, general: bool, rng: np.random.Generator) -> Draw:
    """theta = min(own theta, theta of every prerequisite)"""
    before = _prerequisites_first(edges, depths(edges))

    def draw(n_students: int, rng: np.random.Generator) -> FloatArray:
        theta = _own_propensities(n_students, len(edges), general, rng)
        for topic, prerequisites in before:
            theta[:, topic] = np.minimum(theta[:, topic], theta[:, prerequisites].min(axis=1, initial=np.inf))
        return theta

    return draw


def _linear(edges: BoolArray, general: bool, rng: np.random.Generator) -> Draw:
    """theta = sum over prerequisites of weight * theta + general + own noise, scaled to variance 1."""
    M = len(edges)
    weights = np.where(edges, rng.uniform(0.5, 1.0, (M, M)), 0.0)
    # Each theta is a unit vector of loadings on M own noises and, last, the common factor.
    loadings = np.hstack([np.eye(M), np.full((M, 1), float(general))])
    for topic in np.argsort(depths(edges), kind="stable"):
        loadings[topic] += weights[:, topic] @ loadings
        loadings[topic] /= np.linalg.norm(loadings[topic])
    return lambda n_students, rng: rng.standard_normal((n_students, M + 1)) @ loadings.T


def _prerequisites_first(edges: BoolArray, depth: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """Each topic with its prerequisites, in an order in which these have had their own turn."""
    return [(int(topic), np.flatnonzero(edges[:, topic])) for topic in np.argsort(depth, kind="stable")]


def _own_propensities(n_students: int, M: int, general: bool, rng: np.random.Generator) -> FloatArray:
    """sqrt(load) * general + sqrt(1 - load) * own noise, standard normal.  -> (students, topics)"""
    load = GENERAL_LOAD if general else 0.0
    common = rng.standard_normal((n_students, 1))
    return np.sqrt(load) * common + np.sqrt(1 - load) * rng.standard_normal((n_students, M))


def question_parameters(
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


ABILITIES: dict[str, Callable[[BoolArray, bool, np.random.Generator], Draw]] = {
    "hierarchy": _mastery,
    "capped": _capped,
    "linear": _linear,
}
# (ability in the question's topic, b, a) -> logit of a right answer; any shapes that broadcast.
ANSWER_LOGITS: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "hierarchy": _slip_guess_logits,
    "capped": _logistic_logits,
    "linear": _logistic_logits,
}
