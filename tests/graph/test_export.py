import csv
import io
import json
import re

import networkx as nx
import numpy as np
import pytest

from visl.errors import InputError
from visl.graph.export import TEXT_EXPORTERS, export_graph, to_csv, to_dot, to_graphml, to_json

NASTY = ['say "hi"', "back\\slash", "ends in \\", "two\nlines", "commas, and; more", "naïve 分数 ∑", "a & <b> &amp; c"]


def chain(names):
    """Each name points to the next; the last is isolated."""
    M = len(names)
    probabilities = np.full((M, M), 0.125)
    np.fill_diagonal(probabilities, 0.0)
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    for i in range(M - 2):
        probabilities[i, i + 1] = 0.75
        graph.add_edge(names[i], names[i + 1], probability=0.75, adjacency=0.875)
    return graph, probabilities


def test_graphml_round_trip_keeps_names_and_attributes():
    graph, _ = chain(NASTY)
    read = nx.read_graphml(io.BytesIO(to_graphml(graph)))
    assert list(read.nodes) == NASTY
    assert dict(read.edges) == dict(graph.edges)
    assert read.is_directed()


def test_graphml_of_numbered_groups():
    graph, _ = chain([3, 1, 2])
    read = nx.read_graphml(io.BytesIO(to_graphml(graph)), node_type=int)
    assert list(read.nodes) == [3, 1, 2]
    assert read.edges[3, 1] == {"probability": 0.75, "adjacency": 0.875}


def test_graphml_refuses_what_xml_cannot_hold():
    graph, _ = chain(["a", "b\x00", "c"])
    with pytest.raises(InputError, match=r"b\\x00.*rename"):
        to_graphml(graph)


@pytest.mark.parametrize(
    ("name", "identifier", "label"),
    [
        ("plain", '"plain"', '"plain"'),
        (7, '"7"', '"7"'),
        ('say "hi"', r'"say \"hi\""', r'"say \"hi\""'),
        ("ends in \\", r'"ends in \\"', r'"ends in \\"'),
        (r"\N", r'"\\N"', r'"\\N"'),
        ("two\nlines", r'"two\nlines"', r'"two\nlines"'),
        ("a & b", '"a & b"', '"a &amp; b"'),
        ("naïve 分数", '"naïve 分数"', '"naïve 分数"'),
    ],
)
def test_dot_quotes_names(name, identifier, label):
    graph = nx.DiGraph()
    graph.add_node(name)
    assert f"  {identifier} [label={label}];\n" in to_dot(graph)


def test_dot_keeps_each_statement_on_one_line_with_balanced_quotes():
    graph, _ = chain(NASTY)
    statements = to_dot(graph).splitlines()[3:-1]
    assert len(statements) == len(NASTY) + graph.number_of_edges()
    for statement in statements:
        outside_strings = re.sub(r'"(?:[^"\\]|\\.)*"', "", statement)
        assert '"' not in outside_strings
        assert statement.endswith("];")


def test_dot_shows_the_probability():
    graph, _ = chain(["a", "b", "c"])
    edge = '"a" -> "b" [label="0.75", penwidth=2.38, probability="0.75", adjacency="0.875"];'
    assert edge in to_dot(graph)


def test_json_has_exactly_these_keys():
    names = ["a", "分数", "c"]
    graph, probabilities = chain(names)
    text = to_json(graph, probabilities, names)
    assert "分数" in text
    assert json.loads(text) == {
        "directed": True,
        "nodes": [{"id": "a"}, {"id": "分数"}, {"id": "c"}],
        "edges": [{"from": "a", "to": "分数", "probability": 0.75, "adjacency": 0.875}],
        "probabilities": [[0.0, 0.75, 0.125], [0.125, 0.0, 0.125], [0.125, 0.125, 0.0]],
    }


def test_json_takes_numpy_integers_and_networkx_reads_it():
    names = list(np.arange(3))
    graph, probabilities = chain(names)
    content = json.loads(to_json(graph, probabilities.astype(np.float32), names))
    read = nx.node_link_graph(content, multigraph=False, source="from", target="to", edges="edges")
    assert list(read.nodes) == [0, 1, 2]
    assert read.edges[0, 1] == {"probability": 0.75, "adjacency": 0.875}


def test_csv_lists_all_ordered_pairs():
    names = ["b", "a", "c"]
    graph, probabilities = chain(names)
    assert to_csv(graph, probabilities, names).splitlines() == [
        "from,to,probability,in_graph",
        "b,a,0.75,true",
        "b,c,0.125,false",
        "a,b,0.125,false",
        "a,c,0.125,false",
        "c,b,0.125,false",
        "c,a,0.125,false",
    ]


def test_csv_round_trips_nasty_names():
    graph, probabilities = chain(NASTY)
    rows = list(csv.DictReader(io.StringIO(to_csv(graph, probabilities, NASTY), newline="")))
    pairs = [(row["from"], row["to"]) for row in rows]
    assert pairs == [(a, b) for a in NASTY for b in NASTY if a != b]
    assert [pair for pair, row in zip(pairs, rows, strict=True) if row["in_graph"] == "true"] == list(graph.edges)


@pytest.mark.parametrize("write", [to_json, to_csv])
def test_names_must_fit_the_table(write):
    graph, probabilities = chain(["a", "b", "c"])
    with pytest.raises(InputError, match="2 names"):
        write(graph, probabilities, ["a", "b"])


@pytest.mark.parametrize("suffix", ["graphml", ".dot", "JSON", ".csv"])
def test_suffix_chooses_the_format(suffix):
    graph, probabilities = chain(["a", "é"])
    content = export_graph(suffix, graph, probabilities, ["a", "é"])
    assert content == TEXT_EXPORTERS[suffix.strip(".").lower()](graph, probabilities, ["a", "é"])
    assert "é" in content.decode()


def test_unknown_suffix_lists_the_known_ones():
    graph, probabilities = chain(["a", "b"])
    with pytest.raises(InputError, match="'xlsx': choose one of graphml, dot, json, csv"):
        export_graph("xlsx", graph, probabilities, ["a", "b"])
