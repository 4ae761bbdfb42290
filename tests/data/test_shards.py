"""Summaries of parts of the data, merged: the schema of the whole."""

import json
import subprocess
import sys
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visl.data.codec import infer_schema
from visl.data.long import long_from_frame
from visl.data.shards import merge, row_key, schema_from_summary, summarise
from visl.data.source import read_source
from visl.errors import InputError

NAMES = ("row", "column", "value")
VALUES = {
    "numbers": st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float),
    "bits": st.sampled_from([0, 1]),
    "booleans": st.booleans(),
    "text": st.sampled_from(["yes", "no", "maybe", "0", "1", "12", "1,5"]),
    "many": st.integers(0, 99).map("v{}".format),
}
KINDS = st.sampled_from([None, "continuous", "binary", "categorical", "ordinal", [0, 1, 2], ["no", "yes", "maybe"]])


def source_of(frame):
    return read_source(long_from_frame(frame, *NAMES))


def frame_of(cells):
    return pd.DataFrame([(*at, value) for at, value in cells.items()], columns=NAMES)


def through_json(summary):
    return json.loads(json.dumps(summary, allow_nan=False))


def outcome(make):
    """A schema with its types, or that there is none."""
    try:
        schema = make()
    except InputError:
        return "refused"
    return schema, [[type(level) for level in column.levels] for column in schema.columns]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_merged_shards_give_the_schema_of_the_whole(data):
    values = VALUES[data.draw(st.sampled_from(sorted(VALUES)))]
    column = st.sampled_from(["q1", "q2", "q10"]) if data.draw(st.booleans()) else st.integers(1, 12)
    keys = st.tuples(st.integers(0, 60), column)
    cells = data.draw(st.dictionaries(keys, values, min_size=1, max_size=200))
    frame = frame_of(cells)
    names = list(frame["column"].unique())
    chosen = data.draw(KINDS)
    kinds = {names[-1]: chosen} if isinstance(chosen, list) or data.draw(st.booleans()) else chosen
    kinds = None if chosen is None else kinds
    group_of = {name: f"g{i % 2}" for i, name in enumerate(names[1:])} if data.draw(st.booleans()) else {}
    shard_of = np.array(data.draw(st.lists(st.integers(0, 3), min_size=61, max_size=61)))[frame["row"]]
    parts = [summarise(source_of(part), kinds) for _, part in frame.groupby(shard_of)]

    whole = outcome(lambda: infer_schema(source_of(frame), kinds, group_of, named=True))
    for order in (parts, parts[::-1]):
        merged = through_json(merge(map(through_json, order)))
        assert outcome(lambda: schema_from_summary(merged, kinds, group_of, named=True)) == whole  # noqa: B023
        assert merged["n_rows"] == frame["row"].nunique()
        assert sum(entry["count"] for entry in merged["columns"]) == len(frame)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_merging_is_associative_and_order_matters_only_for_appearance(data):
    values = VALUES[data.draw(st.sampled_from(sorted(VALUES)))]
    keys = st.tuples(st.integers(0, 5), st.sampled_from("abc"))
    parts = [
        summarise(source_of(frame_of(data.draw(st.dictionaries(keys, values, min_size=1, max_size=30)))))
        for _ in range(3)
    ]
    a, b, c = parts
    assert merge([merge([a, b]), c]) == merge([a, merge([b, c])]) == merge(parts)
    assert reduce(lambda x, y: merge([x, y]), parts) == merge(parts)

    def sorted_all(summary):
        columns = [
            entry | {"values": entry["values"] and sorted(entry["values"], key=str)} for entry in summary["columns"]
        ]
        return summary | {"columns": sorted(columns, key=lambda entry: entry["name"])}

    assert sorted_all(merge([c, a, b])) == sorted_all(merge([a, b, c]))


def test_a_summary_by_hand():
    frame = pd.DataFrame({"row": [1, 2, 2], "column": ["x", "x", "y"], "value": [2.5, -1.0, 0.0]})
    summary = summarise(source_of(frame))
    rest = {"dtype": "number", "order": None}
    assert summary == {
        "n_rows": 2,
        "columns": [
            {"name": "x", "count": 2, "values": [-1.0, 2.5], "low": -1.0, "high": 2.5, "whole": False} | rest,
            {"name": "y", "count": 1, "values": [0.0], "low": 0.0, "high": 0.0, "whole": True} | rest,
        ],
    }
    other = pd.DataFrame({"row": [3, 4], "column": ["z", "x"], "value": [1, 7]})
    merged = merge([summary, summarise(source_of(other))])
    assert merged["n_rows"] == 4
    assert [entry["name"] for entry in merged["columns"]] == ["x", "y", "z"]
    assert merged["columns"][0]["values"] == [-1.0, 2.5, 7.0]
    assert [entry["dtype"] for entry in merged["columns"]] == ["number", "number", "integer"]
    assert merge([summary]) == summary


def test_long_columns_have_short_summaries():
    frame = pd.DataFrame({"row": np.arange(2000), "column": "x", "value": np.linspace(0, 1, 2000)})
    halves = [summarise(source_of(part)) for part in (frame[:1000], frame[1000:])]
    merged = merge(halves)
    assert merged["columns"][0]["values"] is None
    assert len(json.dumps(merged)) < 300
    whole = infer_schema(source_of(frame), None, {}, named=True)
    assert schema_from_summary(merged, None, {}, named=True) == whole
    with pytest.raises(InputError, match="'x' does not list its values.*same kinds"):
        schema_from_summary(merged, {"x": "ordinal"}, {}, named=True)
    by_kind = merge(summarise(source_of(part), {"x": "ordinal", "elsewhere": "binary"}) for part in (frame[::2], frame))
    assert schema_from_summary(by_kind, {"x": "ordinal"}, {}, named=True).columns[0].n_levels == 2000


def test_frames_in_parts():
    mood = pd.CategoricalDtype(["bad", "fine", "good"], ordered=True)
    frame = pd.DataFrame(
        {
            "mood": pd.Series(["bad", "good", None, None, "fine"], dtype=mood),
            "late": [None, None, 1.5, 2.5, None],
            "smoker": pd.array([None, None, True, False, None], dtype="boolean"),
            "colour": pd.Series(["red", None, None, "blue", "red"], dtype=object),
        }
    )
    merged = merge(summarise(read_source(part)) for part in (frame[:2], frame[2:4], frame[4:]))
    for named in (True, False):
        whole = infer_schema(read_source(frame), None, {}, named=named)
        assert schema_from_summary(through_json(merged), None, {}, named=named) == whole


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ([0, 1, 5], "binary", "third value 5 beside 0 and 1"),
        ([2, 1, 9], [1, 2], "holds 9, which is not among"),
        (["1", "2", "three", "4"], None, "the text 'three' among numbers"),
        (["1", "2", "x"], "continuous", "continuous, but holds 'x'"),
        ([f"v{i:02}" for i in range(51)], None, "has 51 different values such as 'v00'"),
        ([1e308, -1e308], None, "too wide"),
        ([None, None], None, "no observed value"),
    ],
)
def test_errors_are_those_of_the_whole_without_rows(values, kind, words):
    frame = pd.DataFrame({"x": values})
    kinds = None if kind is None else {"x": kind}
    merged = merge(summarise(read_source(part), kinds) for part in (frame[:1], frame[1:]))
    with pytest.raises(InputError, match=words):
        schema_from_summary(merged, kinds, {}, named=True)
    with pytest.raises(InputError):
        infer_schema(read_source(frame), kinds, {}, named=True)
    with pytest.raises(InputError, match="kinds names the column 'q'"):
        schema_from_summary(merged, {"q": "binary"}, {}, named=True)


def test_parts_that_cannot_be_one_table_are_refused():
    number, text = (summarise(read_source(pd.DataFrame({"x": values}))) for values in ([1.0, 2.0], ["a", "b"]))
    with pytest.raises(InputError, match="'x' is of type number in one part of the data and of type text in another"):
        merge([number, text])
    orders = [pd.Categorical(["a"], categories=levels, ordered=True) for levels in (["a", "b"], ["b", "a"])]
    with pytest.raises(InputError, match="'x' has other ordered levels in one part"):
        merge(summarise(read_source(pd.DataFrame({"x": order}))) for order in orders)
    with pytest.raises(InputError, match="no summaries to merge"):
        merge([])


def test_keys_of_rows():
    numbers = np.arange(100_000)
    assert len(np.unique(row_key(numbers))) == len(numbers)
    assert row_key(numbers.astype(np.int32)).tolist() == row_key(numbers).tolist()
    text = np.array([f"s{i}" for i in range(1000)], object)
    assert len(np.unique(row_key(text))) == 1000
    assert row_key(text[::-1]).tolist() == row_key(text)[::-1].tolist()
    assert (row_key(text).dtype, row_key(numbers).dtype) == (np.uint64, np.uint64)
    assert row_key(np.array([-1])) != row_key(np.array([1]))


def test_keys_are_the_same_in_every_process():
    code = (
        "import numpy as np; from visl.data.shards import row_key; "
        "print([*map(int, row_key(np.array(['ann', 'bé'], object))), int(row_key(np.array([7]))[0])])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    own = [*map(int, row_key(np.array(["ann", "bé"], object))), int(row_key(np.array([7]))[0])]
    assert json.loads(said) == own
