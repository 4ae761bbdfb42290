"""Kinds and levels: what is inferred, what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from visl.data.kinds import check_kinds, describe_column, encode_levels
from visl.data.source import read_source
from visl.data.summary import summarise_column
from visl.errors import InputError
from visl.schema import Column, Schema


def described(values: Any, kind: Any = None) -> Column:
    data = read_source(pd.DataFrame({"c": values})).columns[0]
    setting = check_kinds(None if kind is None else {"c": kind}, ["c"]).get("c")
    return describe_column(summarise_column(data, list_all=True), setting, "c")


@pytest.mark.parametrize(
    "levels", [pd.cut(np.arange(6.0), 3), pd.Categorical(pd.date_range("2020-01-01", periods=6)), pd.cut([1, 2], 2)]
)
def test_levels_that_are_neither_text_nor_numbers_are_refused(levels: Any) -> None:
    with pytest.raises(InputError, match=r"'c' has the level .*\.astype\(str\)"):
        described(levels)


def test_ordinal_needs_a_known_order() -> None:
    with pytest.raises(InputError, match="'c' is ordinal, but the order.*lowest to highest.*--kind"):
        described(pd.Categorical(["low", "high", "mid"]), "ordinal")
    assert described(pd.Categorical([10, 9, 2, 10]), "ordinal").levels == (2, 9, 10)
    assert described(pd.Categorical(["b", "a"], categories=["b", "a"], ordered=True), "ordinal").levels == ("b", "a")


@pytest.mark.parametrize(
    ("values", "kind", "level"),
    [
        ([1, 1, None], None, 1),
        ([True, True, None], None, 1),
        ([3, 3, None], [1, 2, 3], 2),
        (["a", "a", None], None, 0),
    ],
)
def test_a_constant_column_knows_its_level(values: Any, kind: Any, level: int) -> None:
    column = described(pd.Series(values, dtype=object), kind)
    assert column.constant
    assert column.constant_level == level
    assert column.certain_code == level
    schema = Schema((column,), ("c",), grouped=False)
    assert Schema.from_json(schema.to_json()) == schema


def test_levels_may_be_given_as_ranges_and_arrays() -> None:
    assert check_kinds({"c": range(3)}, ["c"]) == {"c": [0, 1, 2]}
    levels: Any = check_kinds({"c": np.array([1, 2])}, ["c"])["c"]
    assert [type(level) for level in levels] == [int, int]


@pytest.mark.parametrize("kind", [[[1], [2]], [None, 1], 5, [1, 1]])
def test_levels_that_are_none_are_refused(kind: Any) -> None:
    with pytest.raises(InputError, match="column 'c' has the kind"):
        check_kinds({"c": kind}, ["c"])


def test_booleans_are_no_continuous_column() -> None:
    with pytest.raises(InputError, match="'c' is continuous, but holds booleans.*binary"):
        described(pd.array([True, None], dtype="boolean"), "continuous")


def test_a_level_is_found_as_it_is_before_it_is_read_as_a_number() -> None:
    data = read_source(pd.DataFrame({"c": pd.Categorical(["1", "2", "x"])})).columns[0]
    assert encode_levels(data, ("1", "2")).tolist() == [0, 1, -1]
    assert encode_levels(data, (2, 1)).tolist() == [1, 0, -1]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pd.arrays.SparseArray([0.0, 1.0]), "'c' is sparse.*dense"),
        (np.array([1j, 2j]), "'c' holds the complex number"),
    ],
)
def test_types_that_are_no_numbers_are_refused(values: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        described(values)


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ([0, 7, 1, 5, 5], "binary", "third value 5 in row 3 beside 0 and 1"),
        ([0.5, 9, 2, 1], [1, 2], "holds 0.5 in row 0, which is not among its levels"),
        ([2, 9, 1, 0.5], [1, 2], "holds 9 in row 1, which"),
        (["b", "z", "a"], ["a", "b"], "holds 'z' in row 1, which"),
        (["1", "2", "three", "4"], None, "the text 'three' in row 2 among numbers"),
        (["1", "x", "y"], "continuous", "but row 1 holds 'x'"),
        (["1,5", "2,5", "x"], None, "decimal commas, such as '1,5'"),
        ([f"v{i}" for i in range(51)], None, "has 51 different values such as 'v0'"),
        ([1e308, -1e308], None, r"spans -1e\+308 to 1e\+308, too wide"),
        ([None, None], None, "has no observed value"),
    ],
)
def test_what_is_wrong_and_where_is_named(values: Any, kind: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        described(values, kind)


def test_a_third_level_that_nobody_has_is_named_without_a_row() -> None:
    with pytest.raises(InputError, match="third value 'c' beside 'a' and 'b'"):
        described(pd.Categorical(["a", "b"], categories=["a", "b", "c"], ordered=True), "binary")


def test_numbers_beyond_the_list_need_the_kind_to_be_levels() -> None:
    data = read_source(pd.DataFrame({"c": np.arange(52.0)})).columns[0]
    assert describe_column(summarise_column(data), None, "c").kind == "continuous"
    assert describe_column(summarise_column(data, list_all=True), "ordinal", "c").n_levels == 52
    with pytest.raises(InputError, match="'c' does not list its values.*same kinds"):
        describe_column(summarise_column(data), "ordinal", "c")
