import json

import networkx as nx
import pandas as pd
import pytest

from visl import VISL


def test_prints_edges(run, model):
    result = run("graph", model, "--threshold", 0.01)
    assert result.exit_code == 0, result.output
    assert "more probable than 0.01 between 5 groups" in result.stdout
    assert "probability" in result.stdout
    nothing = run("graph", model, "--threshold", 0.99)
    assert "0 edges more probable than 0.99" in nothing.stdout
    assert "The most probable edge is" in nothing.stdout


def test_graph_files_agree_with_the_model(run, model, tmp_path):
    for name in ("g.graphml", "g.dot", "g.json", "g.csv", "g.png", "g.svg"):
        result = run("graph", model, "--threshold", 0.01, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert name in result.stdout
    probabilities = VISL.load(model).edge_probabilities_
    pairs = pd.read_csv(tmp_path / "g.csv")
    assert len(pairs) == 5 * 4
    for source, target, probability, _ in pairs.itertuples(index=False):
        assert probability == pytest.approx(probabilities.loc[source, target])
    graph = nx.read_graphml(tmp_path / "g.graphml")
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.number_of_edges() == int(pairs["in_graph"].sum()) > 0
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "g.svg").read_bytes()
    assert len(json.loads((tmp_path / "g.json").read_text())["nodes"]) == 5


def test_threshold_outside(refused, model):
    assert "edge_threshold is 2.0" in refused("graph", model, "--threshold", 2)


def test_unknown_format_is_refused(refused, model, tmp_path):
    message = refused("graph", model, "--out", tmp_path / "g.xyz")
    assert "g.xyz" in message
    assert ".graphml" in message


def test_existing_file_is_kept_without_force(run, refused, model, tmp_path):
    (tmp_path / "g.csv").write_text("mine")
    assert "--force" in refused("graph", model, "--out", tmp_path / "g.csv")
    assert (tmp_path / "g.csv").read_text() == "mine"
    assert run("graph", model, "--out", tmp_path / "g.csv", "--force").exit_code == 0
    assert (tmp_path / "g.csv").read_text().startswith("from,to")


def test_info(run, model):
    result = run("info", model)
    assert result.exit_code == 0, result.output
    assert "40 rows of 5 columns" in result.stdout
    for word in ("who", "default", "weights.safetensors", "categorical", "ordinal"):
        assert word in result.stdout
    summary = json.loads(run("info", model, "--json").stdout)
    assert summary["kinds"]["score"] == "ordinal"
    assert summary["settings"]["latent_dim"] == 4
    assert set(summary["files"]) == {"visl-model.json", "weights.safetensors"}
    assert run("info", model, "--quiet").output == ""
