import json

import pandas as pd
import pytest

from visl.data.files import read_table

EDUCATION = [
    "answers.csv",
    "areas.csv",
    "complete.csv",
    "log.csv",
    "prerequisites.csv",
    "simulation.json",
    "topics.csv",
]


def test_education_files_agree(classroom):
    assert sorted(path.name for path in classroom.iterdir()) == EDUCATION
    answers, complete = read_table(classroom / "answers.csv"), read_table(classroom / "complete.csv")
    log, topics = read_table(classroom / "log.csv"), read_table(classroom / "topics.csv")
    assert answers.shape == complete.shape == (60, 7)
    assert not complete.isna().any(axis=None)
    known = answers.notna()
    assert (answers[known] == complete[known])[known].fillna(True).all(axis=None)
    assert len(log) == int(known.sum().sum()) - 60  # less the students' names
    wide = log.pivot(index="student", columns="question", values="correct").reindex(
        index=answers["student"], columns=list(answers.columns[1:])
    )
    pd.testing.assert_frame_equal(
        wide.astype("Int64"), answers.set_index("student").astype("Int64"), check_names=False, check_column_type=False
    )
    assert topics["question"].tolist() == list(answers.columns[1:])
    assert topics["topic"].nunique() == 3
    assert json.loads((classroom / "simulation.json").read_text())["students"] == 60


def test_twelve_topics_are_named(run, tmp_path):
    arguments = ("--students", 20, "--no-general", "--no-difficulties", "--no-discriminations", "--mechanism", "mar")
    result = run("simulate", "education", "--out", tmp_path / "c", *arguments, "--edge-probability", 0.5)
    assert result.exit_code == 0, result.output
    assert "--edge-probability changes nothing" in result.stderr
    edges = read_table(tmp_path / "c" / "prerequisites.csv")
    assert ("Fractions", "Percentages") in list(zip(edges["from"], edges["to"], strict=True))
    assert len(edges) == 15


LOG = ("--students", 40, "--topics", 4, "--questions", 30, "--answers", 200)


def test_log_files_agree(run, tmp_path):
    result = run("simulate", "log", "--out", tmp_path / "l", *LOG, "--shards", 3, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    files = ["areas.csv", "log", "prerequisites.csv", "simulation.json", "topics.csv"]
    assert sorted(path.name for path in (tmp_path / "l").iterdir()) == files
    log = pd.concat([read_table(tmp_path / "l" / "log" / f"part-{i:04d}.parquet") for i in range(3)])
    assert list(log.columns) == ["student", "question", "correct"]
    assert len(log) == said["cells"] == 200
    assert sorted(log["student"].unique()) == list(range(1, 41))
    assert not log.duplicated(["student", "question"]).any()
    topics, areas = read_table(tmp_path / "l" / "topics.csv"), read_table(tmp_path / "l" / "areas.csv")
    assert topics["question"].tolist() == sorted(log["question"].unique())
    assert len(topics) == said["answered"] <= 30
    assert set(topics["topic"]) <= set(areas["topic"]) == {"topic 1", "topic 2", "topic 3", "topic 4"}
    assert len(read_table(tmp_path / "l" / "prerequisites.csv")) == said["edges"]
    assert json.loads((tmp_path / "l" / "simulation.json").read_text())["shards"] == 3


def test_a_folder_of_a_log_can_be_fitted(run, tmp_path, log_options):
    run("simulate", "log", "--out", tmp_path / "l", *LOG, "--shards", 3)
    groups = ("--groups", tmp_path / "l" / "topics.csv")
    fast = ("--epochs", 1, "--latent-dim", 4, "--draws", 2)
    result = run("fit", tmp_path / "l" / "log", *log_options, *groups, "--out", tmp_path / "model", *fast, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 40


def test_same_seed_same_log(run, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("simulate", "log", "--out", tmp_path / name, *LOG, "--seed", seed)
    a, b, c = (read_table(tmp_path / name / "log" / "part-0000.parquet") for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)


def test_synthetic(run, tmp_path):
    result = run("simulate", "synthetic", "--out", tmp_path / "s", "--rows", 50, "--variables", 4, "--json")
    assert json.loads(result.stdout)["files"] == ["table.csv", "edges.csv", "complete.csv"]
    table, complete = read_table(tmp_path / "s" / "table.csv"), read_table(tmp_path / "s" / "complete.csv")
    assert table.shape == complete.shape == (50, 4)
    assert 0.1 < table.isna().to_numpy().mean() < 0.5
    known = table.notna()
    assert (table[known] == complete[known])[known].fillna(True).all(axis=None)


def test_same_seed_same_files(run, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("simulate", "synthetic", "--out", tmp_path / name, "--rows", 20, "--seed", seed)
    a, b, c = ((tmp_path / name / "table.csv").read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["education", "--ability", "magic"], "choose one of hierarchy, capped, linear"),
        (["education", "--mechanism", "magic"], "choose one of mcar, mar"),
        (["education", "--students", "0"], "at least 1"),
        (["log", "--shards", "0"], "0 shards of 5000 students"),
        (["log", "--answers", "1"], "give from 5000 (one each)"),
        (["log", "--questions", "39"], "at least one question for each topic"),
        (["log", "--students", "0"], "at least 1"),
        (["synthetic", "--mechanism", "magic"], "choose one of mcar, mar"),
        (["synthetic", "--missing", "1.5"], "rate 1.5"),
        (["synthetic", "--edge-probability", "2"], "edge_probability 2"),
    ],
)
def test_bad_settings(refused, tmp_path, arguments, word):
    assert word in refused("simulate", *arguments, "--out", tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_only_own_folders_are_replaced(run, refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    message = refused("simulate", "synthetic", "--out", tmp_path / "mine", "--force")
    assert "never replaced" in message
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    for rows in (10, 20):
        assert run("simulate", "synthetic", "--out", tmp_path / "s", "--rows", rows, "--force").exit_code == 0
    assert len(read_table(tmp_path / "s" / "table.csv")) == 20
    assert "--force" in refused("simulate", "synthetic", "--out", tmp_path / "s")
