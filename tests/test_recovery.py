"""A known graph is found again. Slow: whole fits with the default preset."""

import numpy as np
import pandas as pd
import pytest

from visl import VISL, simulate_education
from visl.graph.metrics import edge_auroc


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_prerequisites_of_a_small_class_are_joined_and_a_lone_topic_is_not(seed: int) -> None:
    edges = np.zeros((4, 4), bool)
    edges[2, 0] = edges[0, 3] = True  # topic 3 -> topic 1 -> topic 4; topic 2 stands alone
    data = simulate_education(
        topics=4, questions_per_topic=6, missing=0.3, general=False, edges=edges, rng=np.random.default_rng(seed)
    )
    answers = pd.DataFrame(np.where(data.observed, data.answers, np.nan), columns=data.questions)
    groups = {question: data.topics[k] for question, k in zip(data.questions, data.topic_of_question, strict=True)}
    model = VISL(groups=groups, random_state=seed, epochs=150).fit(answers)
    probability = model.edge_probabilities_.loc[list(data.topics), list(data.topics)].to_numpy()
    joined = 1 - (1 - probability) * (1 - probability.T)
    assert min(joined[2, 0], joined[0, 3]) > 0.9
    assert max(joined[1, [0, 2, 3]]) < 0.7
    assert model.graph_.number_of_edges() >= 2


@pytest.mark.slow
def test_the_demo_class_is_learned_better_than_by_chance() -> None:
    from visl.data.simulate_education import maths_class

    data = maths_class(5)  # not the demo's own seed
    rng = np.random.default_rng(0)
    hidden = data.observed & (rng.random(data.observed.shape) < 0.1)
    answers = pd.DataFrame(np.where(data.observed & ~hidden, data.answers, np.nan), columns=data.questions)
    groups = {question: data.topics[k] for question, k in zip(data.questions, data.topic_of_question, strict=True)}
    model = VISL(groups=groups, random_state=0).fit(answers)
    probability = model.edge_probabilities_.loc[list(data.topics), list(data.topics)].to_numpy()
    assert edge_auroc(probability, data.edges) > 0.6
    shares = model.predict_proba(answers)
    right = np.stack([shares[question].iloc[:, 1] for question in data.questions], axis=1)[hidden] > 0.5
    majority = np.broadcast_to(answers.mean().to_numpy(), hidden.shape)[hidden] > 0.5
    truth = data.answers[hidden] == 1
    assert (right == truth).mean() > (majority == truth).mean() + 0.08
