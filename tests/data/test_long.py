import resource
import string
import sys
import tracemalloc
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visl.data.files import write_table
from visl.data.log_cells import _sort
from visl.data.long import find_ids, long_from_frame, read_cells, read_long
from visl.errors import InputError

NAMES = ("pupil", "question", "answer")


def log_of(lines, header="pupil,question,answer"):
    return "\n".join([header, *lines]) + "\n"


@pytest.fixture
def read(tmp_path):
    def read(lines, duplicates=None, header="pupil,question,answer"):
        path = tmp_path / "log.csv"
        path.write_text(log_of(lines, header))
        return read_long(path, *NAMES, duplicates=duplicates)

    return read


def cells(log):
    return list(zip(log.row_ids[log.row], log.column_ids[log.column], log.values.tolist(), strict=True))


def test_order_of_appearance_and_of_cells_by_hand(read):
    log = read(["s2,q9,1", "s1,q1,0", "s2,q1,1", "s3,q5,", "s1,q9,NA"])
    assert log.row_ids.tolist() == ["s2", "s1", "s3"]
    assert log.column_ids.tolist() == ["q9", "q1", "q5"]
    assert log.row.tolist() == [0, 0, 1]
    assert log.column.tolist() == [0, 1, 1]
    assert log.values.tolist() == [1.0, 1.0, 0.0]
    assert (log.row.dtype, log.column.dtype, log.values.dtype) == (np.int64, np.int32, np.float64)
    assert (log.row_name, log.column_name, log.value_name, log.value_dtype) == (*NAMES, "integer")


@pytest.mark.parametrize(
    ("values", "value_dtype", "expected"),
    [
        (["1", "0"], "integer", [1.0, 0.0]),
        (["1", "0.1"], "number", [1.0, 0.1]),
        ([" 1", "2 "], "integer", [1.0, 2.0]),
        (["1e3", "+2"], "number", [1000.0, 2.0]),
        (["true", "False"], "boolean", [1.0, 0.0]),
        (["agree", "None"], "string", ["agree", "None"]),
        (["2020-01-01", "2020-01-02"], "string", ["2020-01-01", "2020-01-02"]),
        (["", ""], "integer", []),
    ],
)
def test_types_of_values(read, values, value_dtype, expected):
    log = read([f"a,x,{values[0]}", f"b,x,{values[1]}"])
    assert log.value_dtype == value_dtype
    assert log.values.tolist() == expected


def test_ids_keep_what_they_are(read):
    assert read(["7,x,1", "3,x,1"]).row_ids.tolist() == [7, 3]
    assert read(["7,x,1", "07,x,1"]).row_ids.tolist() == ["7", "07"]
    assert read(["2020-01-01,x,1"]).row_ids.tolist() == ["2020-01-01"]
    assert read(["True,1.0,1"]).column_ids.tolist() == ["1.0"]


def test_duplicates_by_hand(read):
    # (a, x) is 1, 2, 6 in file order, its gap does not count; (b, y) is 5 and 4.
    lines = ["a,x,1", "b,y,5", "a,x,2", "a,x,", "c,y,8", "b,y,4", "a,x,6"]
    with pytest.raises(InputError, match=r"row 'a', column 'x' has more than one value .2 pairs have in all.: .*--dup"):
        read(lines)
    assert read(lines, "first").values.tolist() == [1, 5, 8]
    assert read(lines, "last").values.tolist() == [6, 4, 8]
    mean = read(lines, "mean")
    assert mean.values.tolist() == [3, 4.5, 8]
    assert mean.value_dtype == "number"
    assert cells(mean) == [("a", "x", 3.0), ("b", "y", 4.5), ("c", "y", 8.0)]
    assert read(["a,x,1", "a,x,3"], "mean").value_dtype == "integer"


def test_the_first_repetition_in_the_file_is_named(read):
    with pytest.raises(InputError, match="row 'b', column 'y' has"):
        read(["a,x,1", "b,y,5", "b,y,2", "a,x,4"])
    with pytest.raises(InputError, match=r"row 2, column 'y' .*1 pair has"):
        read(["1,x,1", "2,y,5", "2,y,2"])


def test_mean_of_text_is_refused(read):
    for lines in (["a,x,u", "a,x,v"], ["a,x,true", "a,x,false"]):
        with pytest.raises(InputError, match="have no mean: choose --duplicates first or last"):
            read(lines, "mean")
    assert read(["a,x,u", "a,x,v"], "last").values.tolist() == ["v"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,x,1", "b,x,one", "c,x,3"], "column 'answer', entry 2: 'one' is text among numbers"),
        (["a,x,1", ",x,1", "NA,x,1"], "column 'pupil': 2 ids are missing, the first in entry 2"),
        (["a,x,1", "b,,1"], "column 'question': 1 ids are missing, the first in entry 2"),
        (["a,x,1.5", "b,y,-inf"], "the value of row 'b', column 'y' is infinite"),
        (["a,x,1", "b,x"], "line 3: 2 cells where the header has 3"),
        ([], "has no rows"),
    ],
)
def test_bad_logs_are_named(read, lines, message):
    with pytest.raises(InputError, match=message):
        read(lines)


def test_bad_settings_are_named(read, tmp_path):
    with pytest.raises(InputError, match="has no column 'answer': it has 'pupil', 'question', 'right'"):
        read(["a,x,1"], header="pupil,question,right")
    with pytest.raises(InputError, match="more than one column 'answer'"):
        read(["a,x,1,1"], header="pupil,question,answer,answer")
    with pytest.raises(InputError, match="duplicates is 'max': use one of first, last, mean"):
        read(["a,x,1"], "max")
    with pytest.raises(InputError, match="column 'a' of the log has two roles"):
        read_long(tmp_path / "log.csv", "a", "a", "b")
    with pytest.raises(InputError, match="does not exist"):
        read_long(tmp_path / "none.csv", *NAMES)
    (tmp_path / "log.tsv").write_bytes(b"pupil\tquestion\tanswer\na\t\xff\t1\n")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_long(tmp_path / "log.tsv", *NAMES)
    (tmp_path / "log.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_long(tmp_path / "log.parquet", *NAMES)


FRAME = pd.DataFrame({"answer": [1.5, None, 0.5], "other": [1, 2, 3], "pupil": ["b", "a", "b"], "question": [7, 7, 3]})


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.astype({"pupil": pd.CategoricalDtype(["unused", "a", "b"]), "answer": "Float64"}),
        pl.from_pandas(FRAME),
        pl.from_pandas(FRAME).lazy(),
        pl.from_pandas(FRAME).with_columns(pl.col("pupil").cast(pl.Categorical)),
        pa.Table.from_pandas(FRAME),
        FRAME.astype({"question": float}),
    ],
)
def test_frames_of_every_kind(frame):
    log = long_from_frame(frame, *NAMES)
    assert log.row_ids.tolist() == ["b", "a"]
    assert log.column_ids.tolist() == [7, 3]
    assert log.column_ids.dtype == np.int64
    assert cells(log) == [("b", 7, 1.5), ("b", 3, 0.5)]
    assert log.value_dtype == "number"


def test_types_of_frames():
    frame = pd.DataFrame({"pupil": ["a", "b"], "question": ["x", "x"]})
    assert long_from_frame(frame.assign(answer=[True, False]), *NAMES).value_dtype == "boolean"
    assert long_from_frame(frame.assign(answer=pd.array([1, None], "Int8")), *NAMES).value_dtype == "integer"
    digits = long_from_frame(frame.assign(answer=["1", "2"]), *NAMES)  # declared text stays text
    assert (digits.value_dtype, digits.values.tolist()) == ("string", ["1", "2"])
    levels = long_from_frame(frame.assign(answer=pd.Categorical(["u", None])), *NAMES)
    assert (levels.value_dtype, levels.values.tolist()) == ("string", ["u"])


def test_bad_frames_are_named():
    with pytest.raises(InputError, match="column 'answer' of the log has values of mixed types, as text among numbers"):
        long_from_frame(pd.DataFrame({"pupil": ["a", "b"], "question": ["x", "x"], "answer": [1, "one"]}), *NAMES)
    with pytest.raises(InputError, match="column 'pupil' of the log has ids of mixed types"):
        long_from_frame(pd.DataFrame({"pupil": ["a", 1], "question": ["x", "x"], "answer": [1, 2]}), *NAMES)
    with pytest.raises(InputError, match="column 'question': 0.5 is no id: use whole numbers or text"):
        long_from_frame(pd.DataFrame({"pupil": ["a"], "question": [0.5], "answer": [1]}), *NAMES)
    with pytest.raises(InputError, match="column 'answer' holds values of type date32"):
        long_from_frame(pl.DataFrame({"pupil": ["a"], "question": ["x"], "answer": [date(2020, 1, 1)]}), *NAMES)
    with pytest.raises(InputError, match="given as list"):
        long_from_frame([1], *NAMES)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.dictionaries(
        st.tuples(
            st.text(string.ascii_letters + ' ,"\nä', min_size=1, max_size=3).map("x{}".format), st.integers(0, 5)
        ),
        st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=30,
    ),
    suffix=st.sampled_from(["csv", "csv.gz", "tsv", "parquet", "feather"]),
)
def test_every_cell_comes_back_once_in_order(tmp_path, table, suffix):
    rows, columns = zip(*table, strict=True)
    frame = pd.DataFrame({"pupil": rows, "question": columns, "answer": list(table.values())})
    write_table(frame, tmp_path / f"log.{suffix}", force=True)
    log = read_long(tmp_path / f"log.{suffix}", *NAMES)
    assert {(row, column): value for row, column, value in cells(log)} == table
    assert log.row_ids.tolist() == list(dict.fromkeys(rows))
    assert log.column_ids.tolist() == list(dict.fromkeys(columns))
    keys = log.row * len(log.column_ids) + log.column
    assert (np.diff(keys) > 0).all()


def test_a_million_cells_take_little_memory(tmp_path):
    n = 1_000_000
    rng = np.random.default_rng(0)
    keys = rng.permutation(4 * n)[:n]
    frame = pd.DataFrame({"pupil": keys // 400, "question": keys % 400, "answer": rng.integers(0, 2, n)})
    frame.to_csv(tmp_path / "log.csv", index=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    log = read_long(tmp_path / "log.csv", *NAMES)
    peak = tracemalloc.get_traced_memory()[1]  # NumPy and Python; Arrow has its own memory
    tracemalloc.stop()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert log.n_cells == n
    assert log.values.sum() == frame["answer"].sum()
    assert peak < 120 * n
    if sys.platform == "linux":
        assert grown * 1024 < 250 * n


@pytest.mark.parametrize("largest", [3, 2**40, 2**62])  # 2^62 leaves no room for the place beside the key
def test_keys_are_sorted_and_equal_ones_keep_their_order(largest):
    keys = np.random.default_rng(0).choice([0, 1, 2, largest - 1, largest], 1000)
    before = keys.copy()
    order = _sort(keys)
    assert order.tolist() == np.argsort(before, kind="stable").tolist()
    assert keys.tolist() == np.sort(before).tolist()


def test_whole_numbers_of_any_type_are_values(tmp_path):
    frame = pd.DataFrame({"pupil": [2, 1, 1], "question": [1, 2, 1], "answer": [1, 2, 3]})
    for dtype in ("int8", "uint8", "int16", "int64", "uint64", "float32", "Int8"):
        frame.astype({"answer": dtype, "pupil": "int32"}).to_parquet(tmp_path / "log.parquet")
        log = read_long(tmp_path / "log.parquet", *NAMES)
        assert log.values.tolist() == [1, 3, 2]
        assert (log.values.dtype, log.row.dtype, log.row_ids.dtype) == (np.float64, np.int64, np.int64)


def test_cells_in_file_order(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("question,pupil,note\nq2,5,\nq1,3,x\nq2,5,\n")
    rows, columns = read_cells(path, "pupil", "question")
    assert rows.tolist() == [5, 3, 5]
    assert columns.tolist() == ["q2", "q1", "q2"]
    path.write_text("pupil,question\n3,\n")
    with pytest.raises(InputError, match="column 'question': 1 ids are missing"):
        read_cells(path, "pupil", "question")
    path.write_text("pupil,question\n")
    with pytest.raises(InputError, match="has no rows"):
        read_cells(path, "pupil", "question")


def test_find_ids_matches_numbers_and_text():
    numbers, text = np.array([5, 3]), np.array(["5", "a", "3"], dtype=object)
    assert find_ids(numbers, np.array([3, 4, 5, 3])).tolist() == [1, -1, 0, 1]
    assert find_ids(text, np.array(["a", "b"], dtype=object)).tolist() == [1, -1]
    assert find_ids(text, numbers).tolist() == [0, 2]
    assert find_ids(numbers, text).tolist() == [0, -1, 1]
