"""Logs of any size: how many answers, to which questions, and the files."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visl.data import simulate_log as module
from visl.data.abilities import ABILITIES
from visl.data.curriculum import depths
from visl.data.simulate_log import choose_questions, simulate_log, uneven_counts, write_shards
from visl.errors import InputError


def rng(seed=0):
    return np.random.default_rng(seed)


def small(seed=0, **changed):
    sizes = {"n_students": 50, "topics": 5, "n_questions": 20, "n_answers": 300}
    return simulate_log(**(sizes | changed), rng=rng(seed))


def all_answers(log):
    chunks = list(log.chunks())
    return [np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("student", "question", "correct")]


# How many


@settings(deadline=None)
@given(st.data())
def test_counts_sum_to_the_total_and_stay_in_bounds(data):
    n, most = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    total, seed = data.draw(st.integers(n, n * most)), data.draw(st.integers(0, 99))
    counts = uneven_counts(n, total, most, data.draw(st.sampled_from([0.0, 0.9, 3.0])), rng(seed))
    assert counts.sum() == total
    assert counts.min() >= 1
    assert counts.max() <= most


def test_equal_weights_share_equally():
    assert sorted(uneven_counts(4, 10, 9, 0.0, rng())) == [2, 2, 3, 3]


def test_students_are_as_uneven_as_in_real_logs():
    counts = simulate_log(20_000, 40, 5000, 2_660_000, rng=rng()).n_answers
    assert counts.mean() == 133
    # Log-normal, sigma .9: the median is exp(-.9^2 / 2) = .667 of the mean; 16 % are over exp(.9) = 2.46 times that.
    assert np.median(counts) == pytest.approx(0.667 * 133, rel=0.03)
    assert np.mean(counts > 2.46 * np.median(counts)) == pytest.approx(0.159, abs=0.015)
    assert counts.min() < 10
    assert counts.max() > 1000


def test_every_topic_has_questions_and_some_have_many():
    sizes = np.bincount(small(topics=100, n_questions=5000).topic_of_question)
    assert len(sizes) == 100
    assert sizes.min() >= 1
    assert sizes.max() > 4 * np.median(sizes)
    assert np.bincount(small(topics=20).topic_of_question).tolist() == [1] * 20


def test_large_graphs_stay_sparse():
    # 4 / M in M (M - 1) / 2 pairs: 2 (M - 1) edges, standard deviation sqrt(2 M).
    log = small(topics=300, n_questions=300)
    assert log.edges.sum() == pytest.approx(598, abs=4 * np.sqrt(600))
    assert depths(log.edges).max() < 30
    assert not small(edge_probability=0.0).edges.any()
    assert small(edge_probability=1.0).edges.sum() == 10
    assert small(topics=12).topics[0] == "Addition and subtraction"


# Which questions


@pytest.mark.parametrize("large_share", [0.0, 2.0])  # by a race for all, by drawing for all
def test_questions_are_drawn_by_popularity_without_repetition(monkeypatch, large_share):
    monkeypatch.setattr(module, "LARGE_SHARE", large_share)
    popularity, n = np.array([0.5, 0.3, 0.2]), 20_000
    student, question = choose_questions(np.full(n, 2), popularity, rng(1))
    assert student.tolist() == np.repeat(np.arange(n), 2).tolist()
    pairs = Counter(map(tuple, question.reshape(n, 2).tolist()))
    # First one, then the other: .5 * .3 / .5 + .3 * .5 / .7, and so on. Standard error sqrt(.25 / n) = .0035.
    expected = {(0, 1): 0.3 + 0.15 / 0.7, (0, 2): 0.2 + 0.1 / 0.8, (1, 2): 0.06 / 0.7 + 0.06 / 0.8}
    assert {pair: count / n for pair, count in pairs.items()} == pytest.approx(expected, abs=0.015)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=20), st.integers(0, 99))
def test_every_student_gets_as_many_different_questions_as_asked(counts, seed):
    popularity = np.exp(3 * rng(seed).standard_normal(12))
    student, question = choose_questions(np.array(counts), popularity / popularity.sum(), rng(seed))
    assert np.bincount(student, minlength=len(counts)).tolist() == counts
    keys = student * 12 + question
    assert (np.diff(keys) > 0).all()
    assert question.max(initial=0) < 12


# Answers


@pytest.mark.parametrize("ability", ABILITIES)
def test_blocks_of_students_make_the_log(monkeypatch, ability):
    monkeypatch.setattr(module, "STUDENTS_AT_ONCE", 7)
    log = small(ability=ability)
    assert [len(np.unique(chunk.student)) for chunk in log.chunks()] == [7] * 7 + [1]
    student, question, correct = all_answers(log)
    assert len(student) == 300
    assert (np.diff(student * 20 + question) > 0).all()
    assert np.bincount(student).tolist() == log.n_answers.tolist()
    assert 0 < correct.mean() < 1
    for again, first in zip(all_answers(log), (student, question, correct), strict=True):
        assert np.array_equal(again, first)
    assert not np.array_equal(all_answers(small(1, ability=ability))[2], correct)


def test_chance_of_a_right_answer():
    # One topic, mastered by .85: .85 * .9 + .15 * .2 = .795; standard error about sqrt(.163 / 20000) = .003.
    log = simulate_log(20_000, 1, 50, 60_000, general=False, difficulties=False, discriminations=False, rng=rng(3))
    correct = all_answers(log)[2]
    assert correct.mean() == pytest.approx(0.795, abs=0.015)


@pytest.mark.parametrize("ability", ABILITIES)
def test_all_blocks_are_of_one_school(ability):
    """What joins two topics in one block of students joins them in the next."""
    draw = small(ability=ability, edge_probability=1.0).draw_abilities
    first, second = (np.corrcoef(draw(20_000, rng(seed)).T) for seed in (1, 2))
    np.testing.assert_allclose(first, second, atol=0.04)


# Files


def test_shards_hold_the_log_whatever_their_number(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "STUDENTS_AT_ONCE", 7)
    log = small()
    tables = {}
    for shards in (1, 3, 50):
        (tmp_path / str(shards)).mkdir()
        answered = write_shards(log, tmp_path / str(shards), shards)
        files = sorted((tmp_path / str(shards)).iterdir())
        assert [file.name for file in files] == [f"part-{i:04d}.parquet" for i in range(shards)]
        parts = [pq.read_table(file) for file in files]
        students = [set(part["student"].to_pylist()) for part in parts]
        assert sum(map(len, students)) == len(set.union(*students)) == 50
        assert max(map(len, students)) - min(map(len, students)) <= 1
        tables[shards] = pa.concat_tables(parts)
        assert np.flatnonzero(answered).tolist() == sorted({q - 1 for q in tables[shards]["question"].to_pylist()})
    assert tables[1].equals(tables[3])
    assert tables[1].equals(tables[50])
    assert [str(field.type) for field in tables[1].schema] == ["int32", "int32", "int8"]
    student, question, correct = all_answers(log)
    assert tables[1].to_pydict() == {
        "student": (student + 1).tolist(),
        "question": (question + 1).tolist(),
        "correct": correct.astype(int).tolist(),
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_students": 0}, "at least 1 each"),
        ({"topics": 0}, "at least 1 each"),
        ({"n_questions": 4}, "4 questions in 5 topics: give at least one"),
        ({"n_answers": 49}, r"from 50 \(one each\) to 1000 \(all pairs\)"),
        ({"n_answers": 1001}, "1001 answers of 50 students to 20 questions"),
        ({"ability": "magic"}, "choose one of hierarchy"),
        ({"edge_probability": 2.0}, "edge_probability 2.0"),
    ],
)
def test_settings_are_checked(wrong, words):
    with pytest.raises(InputError, match=words):
        small(**wrong)


@pytest.mark.parametrize("shards", [0, 51])
def test_shards_are_checked(tmp_path, shards):
    with pytest.raises(InputError, match=f"{shards} shards of 50 students: give 1 up to"):
        write_shards(small(), tmp_path, shards)
    assert not list(tmp_path.iterdir())
