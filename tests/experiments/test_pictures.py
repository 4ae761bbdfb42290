import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch

from visl.data.simulate_synthetic import simulate_synthetic
from visl.errors import InputError
from visl.experiments.pictures import (
    edge_curves,
    edge_heat_map,
    pair_plot,
    predicted_graph,
    ranking_curves,
    running_times,
    save,
)
from visl.experiments.pictures.style import look_of
from visl.experiments.problem import Structure
from visl.report.arrows import FALSE, MISSING, REVERSED, RIGHT

LINES = {"solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":"}  # as older versions of matplotlib call them


@pytest.fixture(scope="module")
def data():
    return simulate_synthetic(5, 300, np.random.default_rng(0))


@pytest.fixture(autouse=True)
def no_window():
    yield
    assert plt.get_fignums() == []


def graph(n_nodes, *edges):
    matrix = np.zeros((n_nodes, n_nodes), dtype=bool)
    for start, end in edges:
        matrix[start, end] = True
    return matrix


def words(texts):
    return [text.get_text() for text in texts]


def drawn(figure):
    """As a file would have it; fails where a layout has no room."""
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    return figure


# Heat map


def test_heat_map_shows_what_it_is_given(data):
    probabilities = np.random.default_rng(1).random((5, 5))
    figure = drawn(edge_heat_map(probabilities, data.edges, data.names, "Title"))
    left, right, bar = figure.axes
    off_diagonal = ~np.eye(5, dtype=bool)
    for axes, expected in ((left, probabilities), (right, data.edges)):
        shown = axes.images[0].get_array()
        np.testing.assert_array_equal(shown.data, expected)
        np.testing.assert_array_equal(shown.mask, ~off_diagonal)
        assert axes.get_xlabel() == "to"  # columns of the array, which imshow puts along x
        assert axes.get_ylabel() == "from"
        assert words(axes.get_xticklabels()) == words(axes.get_yticklabels()) == list(data.names)
    assert left.images[0].get_clim() == right.images[0].get_clim() == (0, 1)
    assert right.get_title() == f"true edges ({data.edges.sum()})"
    assert figure.get_suptitle() == "Title"
    assert type(figure.canvas) is FigureCanvasBase


def test_heat_map_of_many_nodes_has_numbers_for_names():
    truth = np.triu(np.random.default_rng(2).random((222, 222)) < 0.02, 1)
    figure = drawn(edge_heat_map(truth * 0.9, truth, [f"a very long name {i}" for i in range(222)]))
    left = figure.axes[0]
    assert words(left.get_xticklabels()) == ["25", "50", "75", "100", "125", "150", "175", "200"]
    assert left.get_xticks()[0] == 24  # the 25th node
    # Each cell must be as large as a dot of the file, or single edges vanish: 150 to the inch.
    assert left.get_position().width * figure.get_figwidth() * 150 / 222 > 2


def test_heat_map_of_strengths_reaches_the_largest():
    figure = edge_heat_map(np.array([[0, 3.5], [0.2, 0]]), graph(2, (0, 1)))
    assert figure.axes[0].images[0].get_clim() == (0, 3.5)
    assert words(figure.axes[0].get_xticklabels()) == ["1", "2"]


def test_heat_map_needs_the_same_nodes():
    with pytest.raises(InputError, match="same nodes"):
        edge_heat_map(np.zeros((3, 3)), graph(2))


# Predicted graph


def classes(figure):
    """How many arrows have each pair of colour and line."""
    arrows = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    looks = [
        (to_hex(arrow.get_edgecolor()).upper(), LINES.get(arrow.get_linestyle(), arrow.get_linestyle()))
        for arrow in arrows
    ]
    return {kind.label: looks.count((kind.colour, kind.line)) for kind in (RIGHT, REVERSED, FALSE, MISSING)}


def test_edges_of_each_class():
    truth = graph(6, (0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    # 01 and 12 right, 12 in both directions; 32 wrong way; 02 and 05 untrue; 34 and 45 missing.
    edges = graph(6, (0, 1), (1, 2), (2, 1), (3, 2), (0, 2), (0, 5))
    figure = drawn(predicted_graph(Structure(edges, edges * 0.8), truth, list("abcdef")))
    assert classes(figure) == {"right": 2, "wrong direction": 2, "not true": 2, "missing": 2}
    assert words(figure.legends[0].get_texts()) == ["right", "wrong direction", "not true", "missing"]
    shown = words(figure.axes[0].texts)
    assert set("abcdef") <= set(shown)
    assert shown.count("0.80") == 6


def test_classes_differ_in_colour_and_in_line():
    kinds = (RIGHT, REVERSED, FALSE, MISSING)
    assert len({kind.colour for kind in kinds}) == len({kind.line for kind in kinds}) == 4


def test_edges_without_probabilities_have_no_numbers():
    edges = graph(3, (0, 1), (1, 2))
    assert set(words(predicted_graph(Structure(edges), edges).axes[0].texts)) == {"1", "2", "3"}


# Pair plot


def test_pair_plot_of_numbers(data):
    figure = drawn(pair_plot(data.values[:, :3], data.names[:3]))
    panels = np.array(figure.axes[:9]).reshape(3, 3)
    assert len(figure.axes) == 9 + 3  # and the histograms, on scales of their own
    np.testing.assert_array_equal(panels[2, 0].collections[0].get_offsets(), data.values[:, [0, 2]])
    assert [axes.get_xlabel() for axes in panels[2]] == list(data.names[:3])
    assert [axes.get_ylabel() for axes in panels[:, 0]] == list(data.names[:3])
    assert panels[0, 1].get_xlim() == panels[2, 1].get_xlim() == panels[1, 0].get_ylim()
    for histogram in figure.axes[9:]:
        assert sum(bar.get_height() for bar in histogram.patches) == 300


def test_pair_plot_of_binary_columns_and_gaps():
    # a: 0 0 1 1 gap;  b: 0 1 1 1 1;  c: numbers
    values = np.array([[0, 0, 0.1], [0, 1, 0.2], [1, 1, 0.3], [1, 1, 0.4], [np.nan, 1, 0.5]])
    figure = drawn(pair_plot(values, list("abc"), np.array([True, True, False])))
    panels = np.array(figure.axes[:9]).reshape(3, 3)
    # Rows from b = 0: (a, b) = 00, 10, then 01, 11; of the four rows without a gap.
    assert words(panels[1, 0].texts) == ["25%", "0%", "25%", "50%"]
    assert words(figure.axes[9].texts) == ["50%", "50%"]
    assert words(figure.axes[10].texts) == ["20%", "80%"]
    x, y = panels[2, 0].collections[0].get_offsets().T
    np.testing.assert_array_equal(y, [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(np.round(x), [0, 0, 1, 1])
    assert len(set(x)) == 4  # spread, so that equal cells do not hide each other


def test_pair_plot_thins_rows_and_refuses_many_columns():
    figure = pair_plot(np.random.default_rng(0).random((5000, 2)), ["a", "b"])
    assert len(figure.axes[1].collections[0].get_offsets()) == 800
    with pytest.raises(InputError, match="at most 9"):
        pair_plot(np.zeros((3, 10)), list("abcdefghij"))


# Running times


TIMES = {"fast": {4: 1.0, 8: 2.0, 16: 4.0}, "slow": {4: 50.0, 8: np.inf, 16: np.inf}, "never": {16: 500.0}}


def test_running_times_mark_what_was_stopped():
    figure = drawn(running_times(TIMES, limit=100))
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("number of variables", "running time")
    assert words(axes.get_xticklabels()) == ["4", "8", "16"]
    assert words(axes.get_yticklabels()) == ["1 s", "10 s", "1 min"]
    *methods, border = (line for line in axes.lines if line.get_markerfacecolor() != "white")
    assert [dict(zip(*line.get_data(), strict=True)) for line in methods] == [TIMES["fast"], {4: 50.0}, {}]
    assert list(border.get_ydata()) == [100, 100]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    places = [(line.get_xdata()[0], line.get_ydata()[0], line.get_color()) for line in hollow]
    slow, never = look_of(1).colour, look_of(2).colour
    assert places == [(8, 100, slow), (16, 100, slow), (16, 100, never)]
    legend = ["fast", "slow", "never", "limit: 100 s", "hollow: over the limit"]
    assert words(figure.legends[0].get_texts()) == legend


def test_methods_stopped_at_one_size_do_not_hide_each_other():
    figure = drawn(running_times(TIMES, limit=100))
    marks = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white" and 16 in line.get_xdata()]
    heights = [line.get_transform().transform((16, 100))[1] for line in marks]
    assert heights[1] - heights[0] > 5
    assert heights[1] < figure.axes[0].bbox.y1


def test_equal_times_still_have_numbers_on_the_axis():
    figure = running_times({"a": {4: 20.0, 8: 21.0}}, limit=25)
    assert words(figure.axes[0].get_yticklabels()) == ["10 s", "1 min"]


def test_looks_of_methods_differ():
    looks = [look_of(i) for i in range(11)]
    assert len(set(looks)) == len({look.marker for look in looks}) == 11


# Curves


def test_ranking_curves():
    truth = [1, 0, 1, 0, 0]
    figure = drawn(ranking_curves({"good": [0.9, 0.1, 0.6, 0.6, 0.2], "$x$": [0.5] * 5}, truth))
    roc, recall = figure.axes
    assert (roc.get_xlabel(), roc.get_ylabel()) == ("false positive rate", "true positive rate (recall)")
    assert (recall.get_xlabel(), recall.get_ylabel()) == ("recall", "precision")
    np.testing.assert_allclose(roc.lines[0].get_data(), [[0, 0, 1 / 3, 2 / 3, 1], [0, 0.5, 1, 1, 1]])
    np.testing.assert_allclose(recall.lines[0].get_data(), [[0, 0.5, 1, 1, 1], [1, 1, 2 / 3, 0.5, 0.4]])
    np.testing.assert_allclose(recall.lines[2].get_ydata(), [0.4, 0.4])
    assert words(figure.legends[0].get_texts()) == [
        "good   AUROC .917   AUPR .917   average precision .833",
        "$x$   AUROC .500   AUPR .700   average precision .400",
        "chance   AUROC .500   share of positives .400",
    ]


def test_curves_of_edges_leave_the_diagonal_out():
    truth = graph(3, (0, 1), (1, 2))
    probabilities = np.where(truth, 0.9, 0.1) + np.eye(3)
    roc = edge_curves({"VISL": probabilities}, truth).axes[0]
    np.testing.assert_array_equal(roc.lines[0].get_data(), [[0, 0, 1], [0, 1, 1]])


def test_curves_need_both_classes():
    with pytest.raises(InputError, match="one class"):
        edge_curves({"VISL": np.zeros((3, 3))}, graph(3))


# Files


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_save(tmp_path, suffix, start):
    path = tmp_path / f"times.{suffix}"
    save(running_times(TIMES, limit=100), path)
    assert path.read_bytes().startswith(start)
    with pytest.raises(InputError, match="png, svg"):
        save(running_times(TIMES, limit=100), tmp_path / "times.gif")
