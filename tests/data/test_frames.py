"""Filled cells in the user's own columns: the right place, the right dtype, nothing else changed."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from visl import VISL, InputError, long_from_frame

SMALL: dict[str, Any] = {"epochs": 2, "latent_dim": 4, "n_draws": 5, "random_state": 0, "device": "cpu"}


def numbers(columns: list[Any], rows: int = 20) -> pd.DataFrame:
    """Column k lies about 100 k, so that a swap shows."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, len(columns))) + 100 * np.arange(len(columns))
    return pd.DataFrame(np.where(rng.random(values.shape) < 0.2, np.nan, values), columns=columns)


def assert_same_filled(model: VISL, frame: pd.DataFrame, other: pd.DataFrame) -> None:
    filled = model.transform(other)
    assert list(filled) == list(other)
    pd.testing.assert_frame_equal(filled[list(frame)], model.transform(frame))
    seen = other.notna()
    pd.testing.assert_frame_equal(filled[seen], other[seen])


# -- the place


def test_numbered_columns_in_another_order() -> None:
    frame = numbers([10, 20, 30])
    assert_same_filled(VISL(**SMALL).fit(frame), frame, frame[[30, 10, 20]])


def test_a_model_of_an_array_and_a_numbered_frame() -> None:
    frame = numbers([0, 1, 2])
    assert_same_filled(VISL(**SMALL).fit(frame.to_numpy()), frame, frame[[2, 0, 1]])


@pytest.mark.parametrize("names", [["a", "b", "c"], [7, 8, 9]])
def test_a_model_of_a_log_and_a_wide_frame(names: list[Any]) -> None:
    frame = numbers(names)
    log = frame.reset_index().melt("index", var_name="item").dropna().astype({"item": object})
    model = VISL(**SMALL).fit(long_from_frame(log.infer_objects(), "index", "item", "value"))
    assert_same_filled(model, frame, frame[names[::-1]])
    if names[0] == 7:  # a file may have them as text
        assert_same_filled(model, frame, frame)
        text = frame[names[::-1]].rename(columns=str)
        np.testing.assert_array_equal(model.transform(text), model.transform(frame)[names[::-1]])
    with pytest.raises(InputError, match="missing: .*'?(c|9)'?"):
        model.transform(frame.rename(columns={names[2]: "other"}))


def test_other_numbers_for_names_are_refused() -> None:
    model = VISL(**SMALL).fit(numbers([10, 20, 30]))
    with pytest.raises(InputError, match="missing: 30"):
        model.transform(numbers([10, 20, 40]))
    assert model.transform(numbers([0, 1, 2])).shape == (20, 3)  # by position


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_set_output_keeps_the_names_on_their_columns(library: str, convert: Any) -> None:
    frame = numbers(["a", "b", "c"]).assign(word=["x", None, "y", "z"] * 5)
    model = VISL(**SMALL).set_output(transform=library).fit(frame)
    filled = model.transform(convert(frame[["word", "c", "b", "a"]]))
    assert type(filled).__module__.startswith(library)
    assert list(filled.columns) == ["a", "b", "c", "word"]
    plain = VISL(**SMALL).fit(frame).transform(frame)
    for name in frame:
        assert filled[name].to_list() == plain[name].to_list()


# -- the dtype


def small_integers(kind: str) -> Any:
    values = [0, 255, None, 250, 254, 3] * 10
    if kind == "polars":
        return pl.DataFrame({"n": pl.Series(values, dtype=pl.UInt8), "x": np.linspace(0, 1, 60)})
    if kind == "pyarrow":
        return pa.table({"n": pa.array(values, pa.uint8()), "x": np.linspace(0, 1, 60)})
    return pd.DataFrame({"n": pd.array(values, dtype=kind), "x": np.linspace(0, 1, 60)})


@pytest.mark.parametrize("kind", ["UInt8", "uint8[pyarrow]", "polars", "pyarrow"])
def test_values_stay_inside_a_small_integer_type(kind: str) -> None:
    frame = small_integers(kind)
    model = VISL(**SMALL).fit(frame)
    lower, upper = model.predict_interval(frame, level=0.9999)
    n = [part["n"].to_pylist() if kind == "pyarrow" else part["n"].to_list() for part in (lower, upper)]
    assert min(n[0]) == 0, "the interval's lower end lies below the type's range"
    assert max(n[1]) == 255
    assert (lower.schema == frame.schema) if kind in ("polars", "pyarrow") else (lower.dtypes == frame.dtypes).all()


def test_arrow_dictionaries_keep_their_order_and_unused_levels() -> None:
    codes = pa.array([2, None, 0, 2, 0, None] * 5, pa.int8())
    sizes = pa.DictionaryArray.from_arrays(codes, pa.array(["S", "M", "L"]), ordered=True)
    table = pa.table({"size": pa.chunked_array([sizes, sizes]), "x": np.linspace(0, 1, 60)})
    filled = VISL(**SMALL).fit(table).transform(table)
    assert filled.schema == table.schema
    assert filled["size"].null_count == 0
    assert filled["size"].chunk(0).dictionary.to_pylist() == ["S", "M", "L"]
    assert [filled["size"][row].as_py() for row in (0, 2)] == ["L", "S"]


def words() -> pd.DataFrame:
    return pd.DataFrame({"w": ["lo", "mid", "hi", None] * 10, "x": np.linspace(0, 1, 40)})


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_that_a_later_table_lacks_are_added(ordered: bool) -> None:
    dtype = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=ordered)
    frame = words().astype({"w": dtype})
    model = VISL(**SMALL).fit(frame)
    few = frame.iloc[[0, 3]].assign(w=pd.Categorical(["lo", None], categories=["lo"], ordered=ordered))
    for filled in (model.transform(few), *model.sample(few, 10)):
        assert filled["w"].notna().all()
        assert list(filled["w"].cat.categories) == (["lo", "mid", "hi"] if ordered else ["hi", "lo", "mid"])
        assert filled["w"].cat.ordered is ordered


def test_an_enum_that_cannot_hold_a_level_is_refused() -> None:
    frame = pl.from_pandas(words())
    model = VISL(**SMALL, kinds={"w": ["lo", "mid", "hi"]}).fit(frame)
    with pytest.raises(InputError, match="'w' is an Enum without the level .*cast the column to text"):
        model.sample(frame.with_columns(w=pl.Series([None] * 39 + ["lo"], dtype=pl.Enum(["lo"]))), 3)


def test_columns_of_gaps_only_get_a_dtype_that_holds_their_values() -> None:
    frame = words().assign(flag=pd.array([True, False, None, True] * 10, dtype="boolean"), n=[1, 2, 3, 9] * 10)
    model = VISL(**SMALL).fit(frame)
    gaps: dict[str, Any] = dict.fromkeys(frame, [None, None])
    for given in (
        pd.DataFrame(np.nan, index=[4, 5], columns=frame.columns),
        pd.DataFrame(gaps),
        pl.DataFrame(gaps),
        pa.table({name: pa.nulls(2) for name in frame}),
    ):
        filled = model.transform(given)
        rows = filled.to_pylist() if isinstance(filled, pa.Table) else list(map(list, filled.to_numpy()))
        first = list(rows[0].values()) if isinstance(rows[0], dict) else rows[0]
        assert first[0] in ("lo", "mid", "hi")
        assert first[2] in (True, False)
        assert first[3] == round(first[3])
        assert [type(value) for value in (first[0], first[1])] == [str, float]
    assert list(model.transform(pl.DataFrame(gaps)).dtypes) == [pl.String, pl.Float64, pl.Boolean, pl.Int64]


def test_a_type_that_cannot_hold_the_levels_is_refused() -> None:
    model = VISL(**SMALL).fit(words())
    with pytest.warns(UserWarning, match="never seen"), pytest.raises(InputError, match="'w' is of type Float64"):
        model.transform(words().assign(w=[1.0, np.nan] * 20))
