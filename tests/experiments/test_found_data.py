"""Public data as they are downloaded, in tiny made-up folders of the same layout; relations between topics."""

import shutil

import numpy as np
import pandas as pd
import pytest

from experiment_helpers import write_class, write_eedi, write_neuropathic
from visl.errors import InputError
from visl.experiments import eedi, neuropathic
from visl.experiments.eedi_data import Topics, read_answers
from visl.experiments.problem import Problem
from visl.experiments.relations import Relation, by_topic, describe, share_inside, union

NAN = np.nan
# Question 5 has one topic, 1 another; 7 has two: the generator decides.
QUESTIONS = {5: [3, 32, 71, 209], 1: [3, 49, 81, 101], 7: [3, 32, 71, 209, 210], 9: [3, 49, 81, 101]}
FILES = [
    ([(5, 40, 1), (1, 40, 0), (9, 12, 1)], "AnswerId"),
    ([(7, 12, 0)], "AnswerValue"),
    ([(5, 12, 0), (1, 40, 1)], "AnswerValue"),  # the second answer of student 40 to question 1
]


class Always:
    """In place of a generator: of several topics, always this one."""

    def __init__(self, k: int) -> None:
        self.k = k

    def integers(self, n: int) -> int:
        assert n == 2
        return self.k


@pytest.fixture
def folder(tmp_path):
    write_eedi(tmp_path / "eedi_task_3_4", FILES, QUESTIONS)
    return tmp_path


def test_answers_of_three_files_by_hand(folder):
    answers = read_answers(folder, Always(1))
    # Topics in the order of their numbers, questions of one topic side by side: 101 (1, 9), 209 (5), 210 (7).
    assert answers.topics.names == ("Linear equations", "Adding fractions", "Ordering fractions")
    assert answers.topics.level_2 == ("Equations", "Fractions", "Fractions")
    assert answers.topics.level_1 == ("Algebra", "Number", "Number")
    assert answers.topic_of.tolist() == [0, 0, 1, 2]
    assert answers.values == pytest.approx(np.array([[NAN, 1, 0, 0], [1, NAN, 1, NAN]]), nan_ok=True)


def test_a_question_of_two_topics_gets_one(folder):
    answers = read_answers(folder, Always(0))
    assert answers.topics.names == ("Linear equations", "Adding fractions")
    assert answers.topic_of.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("place", ["eedi_task_3_4", ".", "eedi_task_3_4/data", "data"])
def test_where_a_zip_may_have_been_unpacked(tmp_path, place):
    write_eedi(tmp_path / place, FILES, QUESTIONS)
    assert read_answers(tmp_path, Always(1)).values.shape == (2, 4)


def test_what_is_missing_is_said(folder):
    with pytest.raises(InputError, match=r"needs the Eedi data .*get the zip.*give --data DIR"):
        read_answers(None, Always(1))
    with pytest.raises(InputError, match=r"no train_data/train_task_3_4\.csv in .*nor in .*needs the Eedi data"):
        read_answers(folder / "elsewhere", Always(1))
    for name in (
        "test_data/test_private_task_4_more_splits.csv",
        "metadata/question_metadata_task_3_4.csv",
        "metadata/subject_metadata.csv",
    ):
        part = shutil.copytree(folder, folder.with_name("part"), dirs_exist_ok=True)
        (part / "eedi_task_3_4" / name).unlink()
        with pytest.raises(InputError, match=f"there is no .*{name}: the download is not complete"):
            read_answers(part, Always(1))


def test_a_question_without_a_topic_is_named(tmp_path):
    write_eedi(tmp_path, FILES, {**QUESTIONS, 9: [3, 49]})
    with pytest.raises(InputError, match="question 9 has no topic of level 3"):
        read_answers(tmp_path, Always(1))


def test_splits_of_the_students(tmp_path):
    """The same questions and topics in all; 80 % train, 10 % test, and a further run has the first split."""
    write_class(tmp_path, n_students=200)
    first, second, further = eedi.data_sets(False)[0], eedi.data_sets(False)[1], eedi.data_sets(False)[-1]
    problem, truth = eedi.load(first, tmp_path)
    assert problem.train.shape == (160, 8)
    assert problem.test.shape == (20, 8)
    assert problem.group_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(np.unique(truth.values)) == {0, 1}
    assert truth.about["names"] == ("Linear equations", "Sequences", "Adding fractions", "Ordering fractions")
    same, _ = eedi.load(further, tmp_path)
    other, _ = eedi.load(second, tmp_path)
    assert np.array_equal(problem.train, same.train, equal_nan=True)
    assert not np.array_equal(problem.train, other.train, equal_nan=True)


# Relations


TOPICS = Topics(("a", "b", "c"), ("A", "A", "C"), ("x", "x", "x"))


def test_union_and_mean_probability_by_hand():
    first = np.array([[0.9, 0.4, 0.0], [0.1, 0.9, 0.36], [0.0, 0.35, 0.9]])
    second = np.array([[0.9, 0.2, 0.0], [0.0, 0.9, 0.80], [0.0, 0.35, 0.9]])
    found = union([first > 0.35, second > 0.35], [first, second])
    # The diagonal is no relation, and 0.35 is not over the threshold.
    assert [(r.sender, r.receiver, r.runs) for r in found] == [(1, 2, 2), (0, 1, 1)]
    assert [r.probability for r in found] == pytest.approx([0.58, 0.3])
    assert union([first > 0.95], [first]) == []


def test_shares_and_counts_by_hand():
    relations = [Relation(0, 1, 0.9, 1), Relation(1, 2, 0.8, 1), Relation(0, 2, 0.7, 1), Relation(1, 0, 0.6, 1)]
    assert share_inside(relations, TOPICS.level_2) == 0.5
    assert share_inside(relations, TOPICS.level_1) == 1
    assert by_topic(relations, TOPICS.level_2) == {("A", "A"): 2, ("A", "C"): 2}
    assert np.isnan(share_inside([], TOPICS.level_1))
    assert describe(TOPICS, 2) == "c (C, x)"


# Neuropathic pain


def test_neuropathic_data_by_hand(tmp_path):
    write_neuropathic(tmp_path / "neuropathic_pain")
    data_set = neuropathic.data_sets(False)[0]
    problem, truth = neuropathic.load(data_set, tmp_path)
    assert problem.train.shape == (1000, 5)
    assert problem.test.shape == (100, 5)
    assert np.argwhere(truth.edges).tolist() == [[0, 1], [1, 2], [3, 2]]
    assert problem.kinds == ("binary",) * 5
    # Every patient is in one part: column sums add up to those of the file, less what is hidden.
    whole = pd.read_csv(tmp_path / "neuropathic_pain" / "simulated_1.csv.gz").to_numpy()
    hidden = np.bincount(problem.asked_column, weights=truth.values, minlength=5)
    assert (problem.train.sum(0) + np.nansum(problem.test, axis=0) + hidden).tolist() == whole.sum(0).tolist()


def test_a_small_trial_keeps_columns_that_vary(tmp_path):
    write_neuropathic(tmp_path)
    problem, truth = neuropathic.load(neuropathic.data_sets(True)[0], tmp_path)
    assert problem.train.shape == (200, 4)
    assert np.argwhere(truth.edges).tolist() == [[0, 1], [1, 2], [3, 2]]


def test_neuropathic_files_that_are_wrong(tmp_path):
    first, second = neuropathic.data_sets(False)[:2]
    with pytest.raises(InputError, match=r"needs the neuropathic data sets: put true_dag\.csv"):
        neuropathic.load(first, None)
    with pytest.raises(InputError, match=r"there is no true_dag\.csv in .*neuropathic_pain nor in"):
        neuropathic.load(first, tmp_path)
    write_neuropathic(tmp_path)
    with pytest.raises(InputError, match=r"simulated_2\.csv\.gz: the download is not complete"):
        neuropathic.load(second, tmp_path)
    values = pd.read_csv(tmp_path / "simulated_1.csv.gz")
    values[list("bacde")].to_csv(tmp_path / "simulated_2.csv.gz", index=False)
    with pytest.raises(InputError, match="other names across than the graph has"):
        neuropathic.load(second, tmp_path)
    values.replace({0: "no"}).to_csv(tmp_path / "simulated_2.csv.gz", index=False)
    with pytest.raises(InputError, match="does not hold a table of numbers"):
        neuropathic.load(second, tmp_path)
    (tmp_path / "true_dag.csv").write_text(",a,b\na,0,1\nc,0,0\n")
    with pytest.raises(InputError, match="other names down than across"):
        neuropathic.load(first, tmp_path)
    (tmp_path / "true_dag.csv").write_text(",a,b\na,0,yes\nb,0,0\n")
    with pytest.raises(InputError, match="does not hold a table of numbers"):
        neuropathic.load(first, tmp_path)


def test_what_constant_columns_leave_to_be_found():
    """0 -> 1, 1 -> 2, 2 -> 3; column 3 is constant: recall 2/3, precision 1, F1 4/5."""
    train = np.array([[0, 1, 0, 1], [1, 0, 1, 1], [1, 1, NAN, NAN]])
    edges = np.zeros((4, 4), bool)
    edges[[0, 1, 2], [1, 2, 3]] = True
    nothing = np.zeros(0, int)
    problem = Problem(train, train[:0], nothing, nothing, ("binary",) * 4, np.arange(4))
    found = neuropathic.ceiling(problem, edges)
    assert found == {"constant": 1, "hidden_edges": 1, "orientation_f1": pytest.approx(0.8)}
    train[0, 3] = 0
    assert neuropathic.ceiling(problem, edges) == {"constant": 0, "hidden_edges": 0, "orientation_f1": 1}
