import json

import networkx as nx
import pytest

from visl import VISL
from visl.cli import comparing
from visl.cli.comparing import Class, words
from visl.data.demo import Demo
from visl.data.files import read_table


@pytest.fixture
def small_class(run, tmp_path_factory, monkeypatch) -> Demo:
    """A demo of 40 students, for speed."""
    folder = tmp_path_factory.mktemp("small") / "class"
    assert run("simulate", "education", "--out", folder, "--students", 40).exit_code == 0
    small = Demo(*(folder / f"{name}.csv" for name in ("answers", "topics", "areas", "prerequisites")))
    monkeypatch.setattr(comparing, "load_demo", lambda: small)
    return small


def test_leaves_a_folder_of_results(run, small_class, tmp_path):
    result = run("demo", "--out", tmp_path / "demo", "--epochs", 2)
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert names == ["graph.csv", "graph.graphml", "graph.png", "imputed.csv", "model", "summary.json"]
    answers, imputed = read_table(small_class.answers_path), read_table(tmp_path / "demo" / "imputed.csv")
    assert not imputed.isna().any(axis=None)
    assert imputed["student"].equals(answers["student"])
    known = answers.notna()
    assert (imputed[known] == answers[known])[known].fillna(True).all(axis=None)
    assert nx.is_directed_acyclic_graph(nx.read_graphml(tmp_path / "demo" / "graph.graphml"))
    assert VISL.load(tmp_path / "demo" / "model").set_aside_ == ["student"]
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert summary["graph"]["true_edges"] == 15
    assert f"{summary['hidden_answers']['accuracy']:.3f}" in result.stdout
    assert f"{summary['graph']['edge_auroc']:.3f}" in result.stdout
    assert "40 students, 60 questions in 12 maths topics" in result.stderr


def test_hidden_answers_are_a_tenth_and_stay_hidden():
    data = Class.load()
    assert data.answers.shape == (1000, 60)
    n_known = int(data.answers.notna().to_numpy().sum())
    assert data.hidden.sum() == pytest.approx(0.1 * n_known, rel=0.1)
    assert not data.shown.notna().to_numpy()[data.hidden].any()
    assert int(data.shown.notna().to_numpy().sum()) == n_known - data.hidden.sum()


def test_words_say_what_was_not_found():
    hidden = {"count": 10, "accuracy": 0.5, "auroc": 0.5, "baseline_accuracy": 0.6, "baseline_auroc": 0.7}
    nothing = {"edges": 0, "true_edges": 15, "edge_auroc": 0.5}
    assert any("no prerequisite was found" in line for line in words(hidden, nothing))
    some = {
        "edges": 4,
        "true_edges": 15,
        "pairs": 66,
        "joined_right": 3,
        "directed_right": 2,
        "adjacency_precision": 0.75,
        "adjacency_recall": 0.2,
        "edge_auroc": 0.6,
    }
    text = "\n".join(words(hidden, some))
    assert "3 of 4 (75%; of pairs drawn by chance: 23%)" in text
    assert "3 of 15 (20%)" in text
    assert "2 of 3 (a coin gets half)" in text


def test_other_folders_are_not_replaced(refused, tmp_path):
    (tmp_path / "x.txt").write_text("mine")
    assert "never replaced" in refused("demo", "--out", tmp_path, "--force")
