"""A learned graph as text or bytes, in the formats that other programs read. Nothing here touches the disk."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visl.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

Name = str | int
Probabilities = NDArray[np.floating]  # (M, M), [from, to]
Exporter = Callable[["nx.DiGraph", Probabilities, Sequence[Name]], bytes]

# Characters that XML 1.0 cannot hold, not even escaped.
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_graphml(graph: nx.DiGraph) -> bytes:
    """GraphML, UTF-8: read by networkx, Gephi, yEd, Cytoscape and igraph."""
    import networkx as nx

    for name in graph:
        if NOT_XML.search(str(name)):
            raise InputError(f"group {name!r} has a control character, which GraphML cannot hold: rename it")
    target = io.BytesIO()
    # Not write_graphml: that one writes through lxml where it is installed, in another layout.
    nx.write_graphml_xml(graph, target)
    return target.getvalue()


def to_dot(graph: nx.DiGraph) -> str:
    """Graphviz's language; an edge's label and width show its probability."""
    lines = ["digraph visl {", "  rankdir=LR;", '  node [shape=box, style="rounded"];']
    lines += [f"  {_dot_id(name)} [label={_dot_label(name)}];" for name in graph]
    for source, target, edge in graph.edges(data=True):
        probability, adjacency = edge["probability"], edge["adjacency"]
        # probability and adjacency are no attributes of Graphviz, which passes on what it does not know.
        shown = f'label="{probability:.2f}", penwidth={0.5 + 2.5 * probability:.2f}'
        kept = f"probability={_dot_number(probability)}, adjacency={_dot_number(adjacency)}"
        kept += f", spread={_dot_number(edge['spread'])}" if "spread" in edge else ""
        lines.append(f"  {_dot_id(source)} -> {_dot_id(target)} [{shown}, {kept}];")
    return "\n".join([*lines, "}"]) + "\n"


def to_json(graph: nx.DiGraph, probabilities: Probabilities, names: Sequence[Name]) -> str:
    """Nodes in the order of the table, the graph's edges, and the whole table of edge probabilities [from, to]."""
    _check_table(probabilities, names)
    content = {
        "directed": True,
        "nodes": [{"id": _plain(name)} for name in names],
        "edges": [
            {
                "from": _plain(source),
                "to": _plain(target),
                "probability": float(edge["probability"]),
                "adjacency": float(edge["adjacency"]),
                **({"spread": float(edge["spread"])} if "spread" in edge else {}),
            }
            for source, target, edge in graph.edges(data=True)
        ],
        "probabilities": np.asarray(probabilities, dtype=float).tolist(),
    }
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def to_csv(graph: nx.DiGraph, probabilities: Probabilities, names: Sequence[Name]) -> str:
    """One line for each ordered pair of groups, by from and then to, in the order of the names."""
    _check_table(probabilities, names)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["from", "to", "probability", "in_graph"])
    for i, source in enumerate(names):
        for j, sink in enumerate(names):
            if i != j:
                in_graph = "true" if graph.has_edge(source, sink) else "false"
                writer.writerow([source, sink, float(probabilities[i, j]), in_graph])
    return target.getvalue()


TEXT_EXPORTERS: Mapping[str, Exporter] = {
    "graphml": lambda graph, probabilities, names: to_graphml(graph),
    "dot": lambda graph, probabilities, names: to_dot(graph).encode(),
    "json": lambda graph, probabilities, names: to_json(graph, probabilities, names).encode(),
    "csv": lambda graph, probabilities, names: to_csv(graph, probabilities, names).encode(),
}


def export_graph(
    suffix: str,
    graph: nx.DiGraph,
    probabilities: Probabilities,
    names: Sequence[Name],
    exporters: Mapping[str, Exporter] = TEXT_EXPORTERS,
) -> bytes:
    """The content of a file with this suffix, with or without its dot. visl.report.picture adds png and svg."""
    exporter = exporters.get(suffix.lower().removeprefix("."))
    if exporter is None:
        raise InputError(f"a graph cannot be written as {suffix!r}: choose one of {', '.join(exporters)}")
    return exporter(graph, probabilities, names)


def _check_table(probabilities: Probabilities, names: Sequence[Name]) -> None:
    M = len(names)
    if probabilities.shape != (M, M):
        raise InputError(
            f"{M} names need a table of edge probabilities of shape {(M, M)}, not {probabilities.shape}: "
            "pass both from the same model"
        )


def _plain(name: Name) -> Name:
    """json knows no NumPy integers."""
    return int(name) if isinstance(name, Integral) else name


def _dot_number(number: float) -> str:
    """Quoted, because Graphviz reads no exponent in a bare number."""
    return f'"{float(number)!r}"'


def _dot_id(name: Name) -> str:
    """Graphviz itself unescapes only the quote; doubling each backslash keeps different names different."""
    escaped = str(name).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _dot_label(name: Name) -> str:
    """In a label \\r would align a line to the right, and &eacute; would turn into é."""
    return _dot_id(re.sub("\r\n?", "\n", str(name)).replace("&", "&amp;"))
