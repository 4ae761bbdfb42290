import errno
import gzip
import json
import os
import string

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visl.data.files import GAPS, SUFFIXES, read_json, read_table, write_table
from visl.errors import InputError

TEXT = st.text(string.ascii_letters + string.digits + " ,;\"'\t\n\rä€😀", min_size=1, max_size=6)


def with_gaps(values):
    return st.lists(st.none() | values, min_size=3, max_size=3)


def frame_of(integers, numbers, texts, flags) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "whole, number": pd.array(integers, dtype="Int64"),
            "number": pd.array(numbers, dtype="Float64"),
            "text": pd.array(texts, dtype="string"),
            "flag": pd.array(flags, dtype="boolean"),
        }
    )


# "x" before each text keeps it from looking like a number or a gap; a full last row fixes the types for CSV.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    integers=with_gaps(st.integers(-(2**63), 2**63 - 1)),
    numbers=with_gaps(st.floats(allow_nan=False, allow_infinity=False)),
    texts=with_gaps(TEXT.map("x{}".format)),
    flags=with_gaps(st.booleans()),
    suffix=st.sampled_from(SUFFIXES),
)
def test_round_trip(tmp_path, integers, numbers, texts, flags, suffix):
    frame = frame_of([*integers, 7], [*numbers, 0.5], [*texts, "x"], [*flags, True])
    path = tmp_path / f"table{suffix}"
    write_table(frame, path, force=True)
    pd.testing.assert_frame_equal(read_table(path), frame, check_exact=True)
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_arrow_formats_keep_types(tmp_path, suffix):
    frame = pd.DataFrame(
        {
            "plain": np.array([1, 2, 3]),
            "single": np.array([0.1, np.nan, 3], np.float32),
            "nullable": pd.array([1, None, 3], dtype="Int16"),
            "grade": pd.Categorical(["b", None, "a"], categories=["c", "b", "a"], ordered=True),
            "town": pd.Categorical(["x", "y", None]),
        },
        index=pd.Index(["r1", "r2", "r3"], name="pupil"),
    )
    write_table(frame, tmp_path / f"table{suffix}")
    pd.testing.assert_frame_equal(read_table(tmp_path / f"table{suffix}"), frame)


@pytest.mark.parametrize("write", [pl.DataFrame.write_parquet, pl.DataFrame.write_ipc])
def test_integers_with_gaps_from_polars_stay_integers(tmp_path, write):
    path = tmp_path / ("table.parquet" if write is pl.DataFrame.write_parquet else "table.feather")
    write(pl.DataFrame({"a": [2**60 + 1, None], "b": [True, None], "c": [1, 2]}), path)
    frame = read_table(path)
    assert list(map(str, frame.dtypes)) == ["Int64", "boolean", "int64"]
    assert frame["a"][0] == 2**60 + 1


def test_csv_text_by_hand(tmp_path):
    frame = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "x": [0.1, 2.0], "t": ["a,b", None]})
    write_table(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'n,x,t\n1,0.1,"a,b"\n,2.0,\n'
    write_table(frame.set_index("t"), tmp_path / "t.tsv")
    assert (tmp_path / "t.tsv").read_text() == "t\tn\tx\na,b\t1\t0.1\n\t\t2.0\n"


def test_compressed_csv_is_the_same_every_time(tmp_path):
    frame = pd.DataFrame({"a": [1]})
    for name in ("one.csv.gz", "two.csv.gz"):
        write_table(frame, tmp_path / name)
    assert gzip.decompress((tmp_path / "one.csv.gz").read_bytes()) == b"a\n1\n"
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


@pytest.mark.parametrize("gap", GAPS)
def test_gaps_of_csv(tmp_path, gap):
    (tmp_path / "t.csv").write_text(f"n,t\n1,a\n{gap},{gap}\n3,None\n")
    frame = read_table(tmp_path / "t.csv")
    assert frame["n"].dtype == "Int64"
    assert frame["n"].isna().tolist() == frame["t"].isna().tolist() == [False, True, False]


def test_csv_details(tmp_path):
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,x\r\n\r\n2,y\r\n")
    assert read_table(tmp_path / "bom.csv").to_dict("list") == {"a": [1, 2], "b": ["x", "y"]}
    (tmp_path / "one.csv").write_text("a\n1\n\n3\n")  # a blank line of a single column is a gap
    assert read_table(tmp_path / "one.csv")["a"].isna().tolist() == [False, True, False]
    (tmp_path / "quoted.csv").write_text('"a\nb",c\n"1,5",2\n')
    assert read_table(tmp_path / "quoted.csv").to_dict("list") == {"a\nb": ["1,5"], "c": [2]}


def test_a_long_column_has_one_type(tmp_path):
    lines = ["a,b"] + [f"{i},1" for i in range(300_000)] + ["x,1"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    frame = read_table(tmp_path / "t.csv")
    assert frame["a"].dtype == "string"


def test_folders_named_like_partitions_add_no_column(tmp_path):
    (tmp_path / "year=2020").mkdir()
    write_table(pd.DataFrame({"a": [1]}), tmp_path / "year=2020" / "t.parquet")
    assert list(read_table(tmp_path / "year=2020" / "t.parquet").columns) == ["a"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.xlsx", b"x", r"t.xlsx: unknown kind of file: use one of .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .feather"),
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"a,b\n", "t.csv has no rows"),
        ("t.csv", b"\n\n", "t.csv, line 1 is blank"),
        ("t.csv", b"a,b,c\n1,2,3\n1,2\n", "line 3: 2 cells where the header has 3"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "line 3: 3 cells where the header has 2"),
        ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "line 2: 3 cells where the header has 2"),
        ("t.csv", b"a,b\n1,\xff\n", "not UTF-8 text .byte 0xff."),
        ("t.csv", "a,b\n1,2\n".encode("utf-16-le"), "line 1, is not text"),
        ("t.csv", b'a,b\n1,"2\n', "could not read .*t.csv"),
        ("t.csv", b'a\n"' + b"x" * 200_000, "is a quote left open"),
        ("t.csv", b"a,b,a,b\n1,2,3,4\n", "more than one column is named 'a', 'b': rename"),
        ("t.csv", b"a;b\n1,5;2\n", "semicolons between its columns: save it with commas"),
        ("t.csv", b"a,,c\n1,2,3\n", "column 2 has no name: name it or remove it"),
        ("t.csv.gz", b"a,b\n1,2\n", "could not read .*t.csv.gz"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "could not read .*t.csv.gz"),
        ("t.parquet", b"a,b\n1,2\n", "t.parquet cannot be read as Parquet"),
        ("t.feather", b"a,b\n1,2\n", "t.feather cannot be read as Feather"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_missing_file_folder_and_empty_tables(tmp_path):
    with pytest.raises(InputError, match="file .*none.csv does not exist"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder: name a file in it"):
        read_table(tmp_path)
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="more than one column is named 'a'"):
        read_table(tmp_path / "twice.parquet")
    write_table(pd.DataFrame(index=range(3)), tmp_path / "none.parquet")
    with pytest.raises(InputError, match="none.parquet has no columns"):
        read_table(tmp_path / "none.parquet")
    write_table(pd.DataFrame({"a": [1]})[:0], tmp_path / "rows.feather")
    with pytest.raises(InputError, match="rows.feather has no rows"):
        read_table(tmp_path / "rows.feather")


def test_write_refuses_and_changes_nothing(tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": [1, "x"]})
    with pytest.raises(InputError, match="unknown kind of file"):
        write_table(frame, tmp_path / "t.txt")
    with pytest.raises(InputError, match="could not write .*t.parquet: .*column a.*write .csv instead"):
        write_table(frame, tmp_path / "t.parquet")
    write_table(frame, tmp_path / "t.csv")
    with pytest.raises(InputError, match="t.csv exists"):
        write_table(frame, tmp_path / "t.csv")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("t.csv", "u.csv.gz", "u.parquet", "u.feather"):
        with pytest.raises(InputError, match="No space left on device; nothing was changed"):
            write_table(pd.DataFrame({"b": [2]}), tmp_path / name, force=True)
    assert os.listdir(tmp_path) == ["t.csv"]
    assert (tmp_path / "t.csv").read_text() == "a\n1\nx\n"


def test_read_json(tmp_path):
    path = tmp_path / "g.json"
    path.write_text(json.dumps({"a": ["b"]}))
    assert read_json(path) == {"a": ["b"]}
    for content, message in [
        (b'{"a": 1,\n "b" 2}', "g.json, line 2, is not JSON"),
        (b'{"a": 1, "a": 2}', "g.json: 'a' is listed twice"),
        (b"\xff", "g.json is not UTF-8 text"),
        (b"", "g.json is empty"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_json(path)
