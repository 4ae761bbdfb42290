import csv
from collections import Counter

import numpy as np
import pytest

from visl.data.abilities import ABILITIES
from visl.data.curriculum import MATHS_AREAS, MATHS_PREREQUISITES, MATHS_TOPICS, depths, random_prerequisites
from visl.data.demo import load_demo
from visl.data.make_demo import DEMO_SEED, write_demo
from visl.data.simulate_education import ClassData, maths_class, simulate_education
from visl.data.simulate_synthetic import simulate_synthetic
from visl.errors import InputError

CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)  # 1 -> 2 -> 3
COLLIDER = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)  # 1 -> 3 <- 2


def big_class(seed: int = 0, **settings) -> ClassData:
    return simulate_education(n_students=20_000, topics=3, rng=np.random.default_rng(seed), **settings)


# The synthetic tables


@pytest.mark.parametrize("shuffle", [True, False])
def test_values_are_sums_of_sines_up_to_noise(shuffle):
    data = simulate_synthetic(6, 20_000, np.random.default_rng(1), shuffle=shuffle)
    for i in range(6):
        parents = data.edges[:, i]
        noise = data.values[:, i] - np.sin(3 * data.values[:, parents]).sum(axis=1)
        variance = 0.01 if parents.any() else 1.0
        # The variance of n normal draws has standard error variance * sqrt(2 / n) = 1 % here.
        assert noise.var() == pytest.approx(variance, rel=0.05)
        assert abs(noise.mean()) < 4 * np.sqrt(variance / 20_000)


def test_edges_have_the_asked_probability_and_no_cycle():
    rng = np.random.default_rng(2)
    graphs = [simulate_synthetic(9, 1, rng).edges for _ in range(200)]
    # 36 pairs in 200 graphs: standard error sqrt(.25 / 7200) = .006
    assert np.sum(graphs) / (200 * 36) == pytest.approx(0.5, abs=0.024)
    assert all(depths(edges).max() < 9 for edges in graphs)


def test_shuffle_hides_the_order():
    rng = np.random.default_rng(3)
    graphs = np.array([simulate_synthetic(9, 1, rng).edges for _ in range(200)])
    forward = np.triu(graphs).sum() / graphs.sum()
    assert forward == pytest.approx(0.5, abs=0.05)
    unshuffled = simulate_synthetic(9, 1, rng, shuffle=False).edges
    assert not np.tril(unshuffled).any()


def test_synthetic_extremes_names_and_seed():
    full = simulate_synthetic(3, 4, np.random.default_rng(0), edge_probability=1.0, noise_variance=0.0, shuffle=False)
    root = full.values[:, 0]
    np.testing.assert_allclose(full.values[:, 1], np.sin(3 * root))
    np.testing.assert_allclose(full.values[:, 2], np.sin(3 * root) + np.sin(3 * np.sin(3 * root)))
    assert full.names == ("x1", "x2", "x3")
    assert not simulate_synthetic(3, 4, np.random.default_rng(0), edge_probability=0.0).edges.any()
    again = simulate_synthetic(3, 4, np.random.default_rng(0), edge_probability=1.0, noise_variance=0.0, shuffle=False)
    assert np.array_equal(full.values, again.values)


@pytest.mark.parametrize(
    "wrong", [{"n_variables": 0}, {"n_rows": 0}, {"edge_probability": 1.5}, {"noise_variance": -1.0}]
)
def test_synthetic_settings_are_checked(wrong):
    with pytest.raises(InputError):
        simulate_synthetic(**({"n_variables": 3, "n_rows": 3} | wrong), rng=np.random.default_rng(0))


# Graphs of prerequisites


def test_depths_by_hand():
    # 1 -> 2 -> 3 and 1 -> 3: the longest way to 3 has two edges.
    shortcut = CHAIN.copy()
    shortcut[0, 2] = True
    assert depths(shortcut).tolist() == [0, 1, 2]
    assert depths(CHAIN[::-1, ::-1]).tolist() == [2, 1, 0]
    assert depths(COLLIDER).tolist() == [0, 0, 1]
    assert depths(np.zeros((2, 2), dtype=bool)).tolist() == [0, 0]


@pytest.mark.parametrize("cyclic", [np.eye(1), np.eye(3)[[1, 0, 2]], np.eye(3)[[1, 2, 0]]])
def test_a_cycle_is_refused(cyclic):
    with pytest.raises(InputError, match="cycle"):
        depths(cyclic.astype(bool))


def test_random_prerequisites_do_not_follow_the_numbers():
    rng = np.random.default_rng(4)
    graphs = np.array([random_prerequisites(8, 0.3, rng) for _ in range(300)])
    assert graphs.sum() / (300 * 28) == pytest.approx(0.3, abs=0.02)
    assert np.triu(graphs).sum() / graphs.sum() == pytest.approx(0.5, abs=0.05)
    assert all(depths(edges).max() < 8 for edges in graphs)


def test_the_maths_catalogue():
    assert len(MATHS_TOPICS) == 12
    assert list(MATHS_TOPICS) == sorted(MATHS_TOPICS)
    assert set(MATHS_AREAS) == set(MATHS_TOPICS)
    assert Counter(MATHS_AREAS.values()) == {"Number": 5, "Geometry": 4, "Algebra": 3}
    assert len(set(MATHS_PREREQUISITES)) == 15
    assert sum(before < after for before, after in MATHS_PREREQUISITES) == 8  # of 15 in alphabetical order


def test_no_edge_of_the_catalogue_follows_from_the_others():
    edges = maths_class(0).edges.astype(int)
    detours = sum(np.linalg.matrix_power(edges, length) for length in range(2, 12))
    assert not ((edges > 0) & (detours > 0)).any()


# Abilities


@pytest.mark.parametrize("edges", [None, CHAIN, COLLIDER])
def test_nobody_masters_a_topic_without_its_prerequisites(edges):
    data = simulate_education(topics=3 if edges is not None else 12, edges=edges, rng=np.random.default_rng(5))
    assert set(np.unique(data.abilities)) == {0.0, 1.0}
    for before, after in np.argwhere(data.edges):
        assert not (data.abilities[:, after] > data.abilities[:, before]).any()


def test_chances_of_mastery_without_a_common_factor():
    # Own chances .85, .75, .65 along the chain, independent: .85, .85 * .75, .85 * .75 * .65.
    mastery = big_class(edges=CHAIN, general=False).abilities.mean(axis=0)
    np.testing.assert_allclose(mastery, [0.85, 0.6375, 0.414375], atol=0.015)
    # Collider: only the last topic is deeper, at .85 * .85 * .65.
    mastery = big_class(edges=COLLIDER, general=False).abilities.mean(axis=0)
    np.testing.assert_allclose(mastery, [0.85, 0.85, 0.469625], atol=0.015)


def test_ability_is_capped_by_every_prerequisite():
    data = simulate_education(ability="capped", rng=np.random.default_rng(6))
    for before, after in np.argwhere(data.edges):
        assert (data.abilities[:, after] <= data.abilities[:, before]).all()
    # A cap is not a copy: in about half of the students the own ability of a first follower is the lower one.
    chain = big_class(edges=CHAIN, ability="capped", general=False).abilities
    assert (chain[:, 1] < chain[:, 0]).mean() == pytest.approx(0.5, abs=0.015)


@pytest.mark.parametrize("general", [True, False])
def test_linear_abilities_have_variance_one(general):
    data = big_class(edges=CHAIN, ability="linear", general=general)
    np.testing.assert_allclose(data.abilities.var(axis=0), 1.0, atol=0.05)
    # Without a common factor the first two topics correlate by w / sqrt(w^2 + 1), w in [.5, 1]: .45 to .71.
    if not general:
        assert 0.42 < np.corrcoef(data.abilities.T)[0, 1] < 0.73


@pytest.mark.parametrize(("ability", "load"), [("capped", 0.4), ("linear", 0.5)])
def test_general_ability_joins_topics_without_edges(ability, load):
    none = np.zeros((3, 3))
    joined = np.corrcoef(big_class(edges=none, ability=ability).abilities.T)[0, 1]
    apart = np.corrcoef(big_class(edges=none, ability=ability, general=False).abilities.T)[0, 1]
    assert joined == pytest.approx(load, abs=0.03)
    assert apart == pytest.approx(0.0, abs=0.03)


# Answers


def test_slip_and_guess_of_middling_questions():
    data = big_class(edges=CHAIN, difficulties=False, discriminations=False)
    mastered = data.abilities[:, data.topic_of_question] > 0
    assert data.answers[mastered].mean() == pytest.approx(0.9, abs=0.01)
    assert data.answers[~mastered].mean() == pytest.approx(0.2, abs=0.01)


def test_logistic_answers_of_middling_questions():
    data = big_class(edges=CHAIN, ability="linear", difficulties=False, discriminations=False)
    theta = data.abilities[:, data.topic_of_question]
    near_one = np.abs(theta - 1) < 0.1
    assert data.answers[near_one].mean() == pytest.approx(1 / (1 + np.exp(-1.7)), abs=0.01)


def test_difficulties_and_discriminations_vary_the_questions():
    def spread(**settings) -> float:
        data = big_class(edges=np.zeros((3, 3)), questions_per_topic=20, general=False, **settings)
        rates = [data.answers[data.abilities[:, m] == 0][:, data.topic_of_question == m].mean(axis=0) for m in range(3)]
        return float(np.std(rates))

    # Sampling alone: sqrt(.2 * .8 / 3000) = .007
    assert spread(difficulties=False, discriminations=False) < 0.015
    assert spread(difficulties=True, discriminations=False) > 0.04
    assert spread(difficulties=False, discriminations=True) > 0.04


def test_gaps_by_either_mechanism():
    mcar = big_class(missing=0.6)
    assert 1 - mcar.observed.mean() == pytest.approx(0.6, abs=0.005)
    assert not mcar.observed.all(axis=0).any()
    mar = big_class(missing=0.6, mechanism="mar")
    assert 1 - mar.observed.mean() == pytest.approx(0.6, abs=0.005)
    assert mar.observed.all(axis=0).sum() == 4  # 3 topics of 5 questions: round(.3 * 15) drivers


def test_names_and_shapes_of_an_unnamed_class():
    data = simulate_education(n_students=7, topics=5, questions_per_topic=2, rng=np.random.default_rng(0))
    assert data.answers.shape == data.observed.shape == (7, 10)
    assert data.abilities.shape == (7, 5)
    assert data.topics == ("topic 1", "topic 2", "topic 3", "topic 4", "topic 5")
    assert data.areas == ("area 1", "area 1", "area 1", "area 1", "area 2")
    assert data.questions[:3] == ("topic-1-1", "topic-1-2", "topic-2-1")
    assert data.topic_of_question.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("ability", ABILITIES)
def test_same_seed_same_class(ability):
    first, again, other = (simulate_education(ability=ability, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(first.answers, again.answers)
    assert np.array_equal(first.observed, again.observed)
    assert not np.array_equal(first.answers, other.answers)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ability": "magic"},
        {"mechanism": "mnar"},
        {"missing": 1.0},
        {"n_students": 0},
        {"topics": 4, "edge_probability": -0.1},
        {"topics": 2, "edges": CHAIN},
        {"topics": 3, "edges": 0.5 * CHAIN},
        {"topics": 3, "edges": CHAIN | CHAIN.T},
    ],
)
def test_class_settings_are_checked(wrong):
    with pytest.raises(InputError):
        simulate_education(**wrong, rng=np.random.default_rng(0))


# The demo


def test_shipped_demo_is_what_the_simulator_makes(tmp_path):
    write_demo(tmp_path)
    shipped = load_demo()
    for path in (shipped.answers_path, shipped.topics_path, shipped.areas_path, shipped.prerequisites_path):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_demo_files_read_back():
    data, shipped = maths_class(DEMO_SEED), load_demo()
    with shipped.answers_path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ["student", "addition-and-subtraction-1"]
    assert (len(rows), len(header)) == (1000, 61)
    assert (rows[0][0], rows[-1][0]) == ("s0001", "s1000")
    cells = np.array([row[1:] for row in rows])
    assert np.array_equal(cells != "", data.observed)
    assert np.array_equal(cells[data.observed].astype(float), data.answers[data.observed])

    with shipped.topics_path.open(newline="") as file:
        topic_of = {row["question"]: row["topic"] for row in csv.DictReader(file)}
    assert list(topic_of) == header[1:]
    assert topic_of["fractions-1"] == "Fractions"
    with shipped.areas_path.open(newline="") as file:
        assert {row["topic"]: row["area"] for row in csv.DictReader(file)} == MATHS_AREAS
    with shipped.prerequisites_path.open(newline="") as file:
        assert {(row["from"], row["to"]) for row in csv.DictReader(file)} == set(MATHS_PREREQUISITES)
