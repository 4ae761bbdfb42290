import random
import re
import struct
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from visl.errors import InputError
from visl.report.across import spread
from visl.report.picture import draw_graph, export_graph_or_picture, picture_bytes
from visl.report.words import wrap

LINES = {"solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":"}  # as older versions of matplotlib call them


def graph_of(names, *edges):
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    for source, target, probability in edges:
        graph.add_edge(source, target, probability=probability, adjacency=min(1.0, probability + 0.05))
    return graph


def random_dag(n, n_edges, seed=0):
    rng = random.Random(seed)
    names = [f"group {i}" for i in range(n)]
    graph = graph_of(names)
    while graph.number_of_edges() < n_edges:
        i, j = sorted(rng.sample(range(n), 2))
        graph.add_edge(names[i], names[j], probability=rng.uniform(0.5, 1.0), adjacency=1.0)
    return graph


def patches(figure, kind):
    return [patch for patch in figure.axes[0].patches if type(patch) is kind]


def corners(box):
    return box.get_x(), box.get_y(), box.get_x() + box.get_width(), box.get_y() + box.get_height()


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def svg_text(figure):
    root = ElementTree.fromstring(picture_bytes(figure, "svg"))
    return "".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))


def squeezed(text):
    return re.sub(r"\s", "", text)


def test_png_has_the_figures_size_at_150_dots_an_inch():
    figure = draw_graph(random_dag(5, 5))
    content = picture_bytes(figure, "png")
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = struct.unpack(">II", content[16:24])
    assert pixels == pytest.approx(figure.get_size_inches() * 150, abs=1)


@pytest.mark.filterwarnings("ignore:Glyph")  # the font may lack it; the svg's reader need not
def test_svg_holds_every_name_literally():
    names = [
        "price $x^2$ and $",
        "under_score_",
        "two\nlines",
        "<a> & 'b'",
        "分数",
        "a name of sixty characters " * 2,
        7,
    ]
    graph = graph_of(names, (names[0], names[1], 0.9), (names[1], names[2], 0.8), (names[0], 7, 0.7))
    shown = squeezed(svg_text(draw_graph(graph, title="costs $5 or $6")))
    for name in [*names, "costs $5 or $6", "no edge"]:
        assert squeezed(str(name)) in shown


def test_svg_is_the_same_each_time():
    first, second = (picture_bytes(draw_graph(random_dag(12, 15), title="t"), "svg") for _ in range(2))
    assert first == second


def test_control_characters_do_not_break_the_svg():
    assert "a\ufffdb" in svg_text(draw_graph(graph_of(["a\x00b"])))


@pytest.mark.parametrize(("n", "n_edges"), [(2, 1), (12, 20), (30, 60), (70, 90)])
def test_one_arrow_an_edge_and_one_box_a_group(n, n_edges):
    graph = random_dag(n, n_edges)
    figure = draw_graph(graph)
    assert len(patches(figure, FancyArrowPatch)) == n_edges
    shown = n if n <= 60 else n - len(list(nx.isolates(graph)))
    assert len(patches(figure, FancyBboxPatch)) == shown


@pytest.mark.parametrize("seed", range(3))
def test_no_arrow_runs_through_a_box_and_no_boxes_overlap(seed):
    figure = draw_graph(random_dag(25, 45, seed))
    boxes = np.array([corners(box) for box in patches(figure, FancyBboxPatch)])
    inner = boxes + np.array([0.02, 0.02, -0.02, -0.02])
    for arrow in patches(figure, FancyArrowPatch):
        for polygon in arrow.get_path().to_polygons(closed_only=False):
            low, high = polygon[:, None] > inner[:, :2], polygon[:, None] < inner[:, 2:]
            assert not (low & high).all(-1).any()
    apart = (boxes[:, None, :2] >= boxes[None, :, 2:]).any(-1)
    assert (apart | apart.T | np.eye(len(boxes), dtype=bool)).all()


def test_stronger_arrows_for_more_probable_edges():
    figure = draw_graph(graph_of("abc", ("a", "b", 0.6), ("b", "c", 0.9)))
    strong, weak = patches(figure, FancyArrowPatch)
    assert strong.get_linewidth() > weak.get_linewidth()
    assert strong.get_alpha() > weak.get_alpha()
    assert {"0.60", "0.90"} <= set(words(figure))


def test_no_probabilities_among_many_arrows():
    assert not [word for word in words(draw_graph(random_dag(20, 41))) if re.fullmatch(r"\d\.\d\d", word)]


def test_truth_tells_four_cases_apart():
    graph = graph_of("abcd", ("a", "b", 0.9), ("c", "b", 0.8), ("a", "d", 0.7))
    figure = draw_graph(graph, truth={("a", "b"), ("b", "c"), ("c", "d")})
    arrows = patches(figure, FancyArrowPatch)
    assert len(arrows) == 4  # the reversed edge is not drawn a second time as missing
    assert len({to_hex(arrow.get_edgecolor()) for arrow in arrows}) == 4
    assert [LINES.get(arrow.get_linestyle(), arrow.get_linestyle()) for arrow in arrows] == ["-", "-.", ":", "--"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["right", "wrong direction", "not true", "missing"]


def test_truth_may_close_cycles_with_the_graph():
    graph = graph_of("abc", ("a", "b", 0.9), ("b", "c", 0.8))
    assert len(patches(draw_graph(graph, truth={("c", "a")}), FancyArrowPatch)) == 3


def test_truth_with_an_unknown_group_is_refused():
    with pytest.raises(InputError, match="'z'.*no group"):
        draw_graph(graph_of("ab"), truth={("a", "z")})


def test_areas_colour_boxes_and_make_a_legend():
    figure = draw_graph(graph_of("abc", ("a", "b", 0.9)), areas={"a": "_x $1$", "b": "y", "c": "y"})
    colours = [to_hex(box.get_edgecolor()) for box in patches(figure, FancyBboxPatch)]
    assert colours[0] != colours[1] == colours[2]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["_x $1$", "y"]
    assert "_x $1$" in svg_text(figure)


@pytest.mark.parametrize("n", [0, 3, 70])
def test_empty_graph_says_so(n):
    figure = draw_graph(graph_of(range(n)))
    assert "no edge above the threshold" in words(figure)
    assert picture_bytes(figure, ".PNG")


def test_large_graph_says_what_it_leaves_out():
    figure = draw_graph(graph_of(range(61), (0, 1, 0.9)), title="Large")
    assert " ".join(words(figure)).startswith("Large 61 groups, of which the 2 with an edge are shown")
    assert len(patches(figure, FancyBboxPatch)) == 2


def test_wrapped_lines():
    assert wrap("fractions and decimals", 13) == ["fractions and", "decimals"]
    assert wrap("linear_equations", 10) == ["linear_", "equations"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("a\nb") == ["a", "b"]


def test_spread_keeps_distances_with_least_movement():
    assert spread([0.0, 0.0], [1.0], [1.0, 1.0]) == pytest.approx([-0.5, 0.5])
    assert spread([0.0, 0.0], [1.0], [3.0, 1.0]) == pytest.approx([-0.25, 0.75])
    assert spread([0.0, 5.0, 4.0], [1.0, 1.0], [1.0, 1.0, 1.0]) == pytest.approx([0.0, 4.0, 5.0])


def test_pictures_join_the_text_formats():
    graph, table = graph_of("ab", ("a", "b", 0.9)), np.array([[0.0, 0.9], [0.05, 0.0]])
    assert export_graph_or_picture("png", graph, table, ["a", "b"])[1:4] == b"PNG"
    assert b"<svg" in export_graph_or_picture("svg", graph, table, ["a", "b"])
    assert export_graph_or_picture("csv", graph, table, ["a", "b"]).startswith(b"from,to")
    with pytest.raises(InputError, match="graphml, dot, json, csv, png, svg"):
        export_graph_or_picture("pdf", graph, table, ["a", "b"])
    with pytest.raises(InputError, match="png, svg"):
        picture_bytes(draw_graph(graph), "pdf")
