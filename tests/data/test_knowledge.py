import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visl.data.knowledge import resolve_prior
from visl.errors import InputError

GROUPS = ["algebra", "geometry", "statistics"]
# [from, to], in the order of GROUPS.
TABLE = np.array([[0.0, 0.1, 0.2], [0.3, 0.0, 0.4], [0.5, 0.6, 0.0]])
NAMED = pd.DataFrame(TABLE, index=GROUPS, columns=GROUPS)
SHUFFLED = NAMED.loc[["statistics", "algebra", "geometry"], ["geometry", "statistics", "algebra"]]


def prior(edge_prior=None, forbidden=None, required=None, groups=GROUPS):
    return resolve_prior(groups, edge_prior, forbidden, required, default=0.05)


def uniform(value, M=3):
    return value * (1 - np.eye(M))


def test_numbers():
    np.testing.assert_array_equal(prior(), uniform(0.05))
    np.testing.assert_array_equal(prior(0.3), uniform(0.3))
    np.testing.assert_array_equal(prior(np.float32(0.5)), uniform(0.5))
    np.testing.assert_array_equal(prior(0), uniform(0.0))
    np.testing.assert_array_equal(prior(groups=["one"]), [[0.0]])


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        TABLE.tolist(),
        TABLE + 0.9 * np.eye(3),  # the diagonal says nothing
        TABLE + np.diag([np.nan] * 3),
        NAMED,
        SHUFFLED,
        SHUFFLED.reset_index(names="group"),
        SHUFFLED.astype("Float64").where(SHUFFLED > 0),
        pl.from_pandas(SHUFFLED.reset_index(names="group")),
        SHUFFLED.T.to_dict(),
        {a: {b: NAMED.loc[a, b] for b in GROUPS if a != b} for a in GROUPS},
    ],
)
def test_tables_of_every_kind(table):
    np.testing.assert_array_equal(prior(table), TABLE)


@pytest.mark.parametrize("label", [True, "from"])
def test_square_file(tmp_path, label):
    SHUFFLED.to_csv(tmp_path / "prior.csv", index_label=None if label is True else label)
    np.testing.assert_array_equal(prior(tmp_path / "prior.csv"), TABLE)


def test_file_of_edges(tmp_path):
    path = tmp_path / "prior.csv"
    path.write_text("to,probability,from,in_graph\ngeometry,0.7,algebra,True\nalgebra,0,statistics,False\n")
    expected = uniform(0.05)
    expected[0, 1], expected[2, 0] = 0.7, 0.0
    np.testing.assert_array_equal(prior(str(path)), expected)


def test_numbered_groups(tmp_path):
    table = pd.DataFrame(TABLE)
    np.testing.assert_array_equal(prior(table, groups=[0, 1, 2]), TABLE)
    np.testing.assert_array_equal(prior(table.reset_index(names="group"), groups=[0, 1, 2]), TABLE)
    table.to_csv(tmp_path / "prior.csv")
    np.testing.assert_array_equal(prior(tmp_path / "prior.csv", groups=[0, 1, 2]), TABLE)
    assert prior(required=[("0", 2)], groups=[0, 1, 2])[0, 2] == 1.0


def test_hard_edges(tmp_path):
    expected = TABLE.copy()
    expected[0, 1], expected[2, 0] = 1.0, 0.0
    hard = {"forbidden": [("statistics", "algebra"), ("algebra", "algebra")], "required": [["algebra", "geometry"]]}
    np.testing.assert_array_equal(prior(TABLE, **hard), expected)
    (tmp_path / "no.csv").write_text("to,from\nalgebra,statistics\n")
    (tmp_path / "yes.tsv").write_text("from\tto\nalgebra\tgeometry\n")
    np.testing.assert_array_equal(prior(TABLE, tmp_path / "no.csv", str(tmp_path / "yes.tsv")), expected)


def test_hard_edges_stand_out_of_a_uniform_number():
    only_one = prior(0.0, required=[("algebra", "geometry")])
    assert only_one[0, 1] == only_one.sum() == 1.0


@settings(deadline=None, max_examples=50)
@given(data=st.data(), M=st.integers(1, 5))
def test_order_of_names_does_not_matter(data, M):
    groups = [f"g{i}" for i in range(M)]
    # Below 1: certain edges may form cycles. Open ones are kept away from 0 and 1.
    values = st.just(0.0) | st.floats(1e-6, 1 - 1e-6)
    table = np.array(data.draw(st.lists(st.lists(values, min_size=M, max_size=M), min_size=M, max_size=M)))
    shuffled = pd.DataFrame(table, groups, groups).loc[data.draw(st.permutations(groups))]
    np.testing.assert_array_equal(prior(shuffled, groups=groups), table * (1 - np.eye(M)))


def changed(i, j, value):
    table = TABLE.copy()
    table[i, j] = value
    return table


A_G, G_A = ("algebra", "geometry"), ("geometry", "algebra")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge_prior": 1.5}, "edge_prior has the probability 1.5: give a number from 0 to 1"),
        ({"edge_prior": True}, "edge_prior has the probability True"),
        ({"edge_prior": changed(0, 1, -0.1)}, "edge 'algebra' -> 'geometry' has the probability -0.1"),
        ({"edge_prior": changed(2, 0, np.nan)}, "edge 'statistics' -> 'algebra' has the probability nan"),
        ({"edge_prior": TABLE[:2]}, r"edge_prior has shape \(2, 3\): give \(3, 3\)"),
        ({"edge_prior": object()}, "edge_prior is a object: give a number, a table"),
        ({"edge_prior": NAMED.iloc[:2]}, "edge_prior has no entry for 'statistics' -> 'algebra'"),
        ({"edge_prior": NAMED.iloc[:, 1:]}, "edge_prior has no entry for 'geometry' -> 'algebra'"),
        ({"edge_prior": NAMED.rename(columns={"algebra": "algebr"})}, "no group 'algebr': did you mean 'algebra'"),
        ({"edge_prior": NAMED.rename(index={"algebra": "algebr"})}, "no group 'algebr': did you mean 'algebra'"),
        ({"edge_prior": {"algebra": 0.5}}, "'algebra' has 0.5: give {from: {to: probability"),
        ({"edge_prior": changed(1, 1, 1.0)}, "'geometry' -> 'geometry' is an edge from a group to itself"),
        ({"edge_prior": 1}, "the required edges form a cycle"),
        ({"edge_prior": "none.csv"}, "file none.csv does not exist"),
        ({"forbidden": [("algebra", "geomety")]}, "forbidden: there is no group 'geomety': did you mean 'geometry'"),
        ({"required": [("x", "geometry")]}, "required: there is no group 'x'"),
        ({"required": [("algebra", "algebra")]}, "'algebra' -> 'algebra' is an edge from a group to itself"),
        ({"required": [("algebra",)]}, r"required: \('algebra',\) is no pair"),
        ({"required": ["ab"]}, "required: 'ab' is no pair"),
        ({"required": {"algebra": "geometry"}}, "required is a dict: give a list of pairs"),
        ({"forbidden": [A_G], "required": [A_G]}, "edge 'algebra' -> 'geometry' is both forbidden and required"),
        ({"edge_prior": changed(0, 1, 0.0), "required": [A_G]}, "is required, and edge_prior gives it probability 0"),
        ({"edge_prior": changed(0, 1, 1.0), "forbidden": [A_G]}, "is forbidden, and edge_prior gives it probability 1"),
        ({"required": [A_G, G_A]}, "form a cycle, algebra -> geometry -> algebra: leave out one"),
        ({"edge_prior": changed(0, 1, 1.0), "required": [G_A]}, "form a cycle, algebra -> geometry -> algebra"),
    ],
)
def test_bad_knowledge_is_named(given, message):
    with pytest.raises(InputError, match=message):
        prior(**given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from,to,probability\nalgebra,geometry,2\n", "line 2: edge 'algebra' -> 'geometry' has the probability '2'"),
        ("from,to,probability\nalgebra,geometry,\n", "line 2: edge 'algebra' -> 'geometry' has the probability ''"),
        ("from,to,probability\nalgebra,geomety,0\n", "line 2: there is no group 'geomety': did you mean"),
        ("from,to,probability\nalgebra,algebra,0.5\n", "line 2: 'algebra' -> 'algebra' is an edge from a group to i"),
        ("from,to,probability\nalgebra,geometry,0\nalgebra,geometry,0\n", "line 3: .*is listed twice"),
        ("source,target,p\nalgebra,geometry,0\n", "has the columns 'source', 'target', 'p': give from,to,probability"),
        (",algebra,geometry\nalgebra,,0.5\ngeometry,0.5,\n", "no entry for 'algebra' -> 'statistics'"),
        (",algebra,algebra\nalgebra,,0.5\ngeometry,0.5,\n", "column 'algebra' is there twice"),
    ],
)
def test_bad_prior_files_are_named(tmp_path, text, message):
    (tmp_path / "prior.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        prior(tmp_path / "prior.csv")


def test_bad_edge_files_are_named(tmp_path):
    (tmp_path / "edges.csv").write_text("algebra,geometry\n")
    with pytest.raises(InputError, match="required edges. starts with 'algebra', 'geometry': start it with from,to"):
        prior(required=tmp_path / "edges.csv")
    (tmp_path / "edges.csv").write_text("from,to\nalgebra,geomety\n")
    with pytest.raises(InputError, match="edges.csv, line 2: there is no group 'geomety': did you mean 'geometry'"):
        prior(forbidden=tmp_path / "edges.csv")
