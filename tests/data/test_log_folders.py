"""Logs in folders of Parquet files, whole and in shards."""

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visl.data.long import read_cells, read_long
from visl.errors import InputError

NAMES = ("pupil", "question", "answer")
PARTS = (
    {"pupil": ["b", "a"], "question": [7, 7], "answer": [1, 0]},
    {"pupil": ["c"], "question": [3], "answer": [1]},
    {"pupil": ["b", "d"], "question": [3, 9], "answer": [0, 1]},  # b again: one row
)


def write(folder, parts=PARTS, **types):
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(parts):
        pd.DataFrame(part).astype(types).to_parquet(folder / f"part-{i}.parquet")
    return folder


def cells(log):
    return dict(
        zip(zip(log.row_ids[log.row], log.column_ids[log.column], strict=True), log.values.tolist(), strict=True)
    )


def test_a_folder_is_one_log_by_hand(tmp_path):
    folder = write(tmp_path / "log")
    (folder / "notes.txt").write_text("no log")
    (folder / ".part-9.parquet").write_text("not finished")
    (folder / "deeper.parquet").mkdir()
    log = read_long(folder, *NAMES)
    assert log.row_ids.tolist() == ["b", "a", "c", "d"]
    assert log.column_ids.tolist() == [7, 3, 9]
    assert log.row.tolist() == [0, 0, 1, 2, 3]
    assert log.column.tolist() == [0, 1, 0, 1, 2]
    assert log.values.tolist() == [1, 0, 0, 1, 1]
    assert log.value_dtype == "integer"


def test_shards_are_every_so_many_files(tmp_path):
    folder = write(tmp_path / "log")
    first, second = (read_long(folder, *NAMES, shard=(process, 2)) for process in range(2))
    assert cells(first) == {("b", 7): 1, ("a", 7): 0, ("b", 3): 0, ("d", 9): 1}
    assert cells(second) == {("c", 3): 1}
    assert cells(read_long(folder, *NAMES, shard=(0, 1))) == cells(read_long(folder, *NAMES))
    write(tmp_path / "log", PARTS[:1])
    assert read_long(folder / "part-0.parquet", *NAMES, shard=(0, 1)).n_cells == 2


def test_writers_may_store_text_in_their_own_ways(tmp_path):
    folder = write(tmp_path / "log")
    pd.DataFrame(PARTS[1]).astype({"pupil": "category"}).to_parquet(folder / "part-1.parquet")
    pd.DataFrame(PARTS[2]).astype({"pupil": "large_string[pyarrow]"}).to_parquet(folder / "part-2.parquet")
    assert read_long(folder, *NAMES).row_ids.tolist() == ["b", "a", "c", "d"]


def test_repetitions_across_files(tmp_path):
    folder = write(tmp_path / "log", [*PARTS, {"pupil": ["a"], "question": [7], "answer": [1]}])
    with pytest.raises(InputError, match=r"log: row 'a', column 7 has more than one value .*--duplicates"):
        read_long(folder, *NAMES)
    assert cells(read_long(folder, *NAMES, "first"))["a", 7] == 0
    assert cells(read_long(folder, *NAMES, "last"))["a", 7] == 1
    assert cells(read_long(folder, *NAMES, "mean"))["a", 7] == 0.5


def test_cells_may_be_a_folder_too(tmp_path):
    rows, columns = read_cells(write(tmp_path / "log"), "pupil", "question")
    assert rows.tolist() == ["b", "a", "c", "b", "d"]
    assert columns.tolist() == [7, 7, 3, 3, 9]


@pytest.mark.parametrize(
    ("part", "types", "words"),
    [
        ({"pupil": ["e"], "question": [1], "right": [1]}, {}, "part-3.parquet has no column 'answer': it has 'pupil'"),
        (PARTS[1], {"question": str}, "part-3.parquet, column 'question' .*large_string, and in part-0.parquet.*int64"),
        (PARTS[1], {"answer": float}, "part-3.parquet, column 'answer' .*double.*int64: write all files with the same"),
    ],
)
def test_files_that_differ_are_named(tmp_path, part, types, words):
    folder = write(tmp_path / "log")
    pd.DataFrame(part).astype(types).to_parquet(folder / "part-3.parquet")
    for shard in (None, (1, 2), (0, 2)):  # whoever reads it
        with pytest.raises(InputError, match=words):
            read_long(folder, *NAMES, shard=shard)


def test_bad_folders_and_shards_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "log.csv").write_text("pupil,question,answer\na,x,1\n")
    with pytest.raises(InputError, match="empty is a folder without Parquet files: name a file in it, or save"):
        read_long(tmp_path / "empty", *NAMES)
    folder = write(tmp_path / "log")
    with pytest.raises(InputError, match=r"log has 3 Parquet file.* for 4 processes: split .* or start fewer"):
        read_long(folder, *NAMES, shard=(0, 4))
    with pytest.raises(InputError, match="log.csv is one file for 2 processes: split it into a folder"):
        read_long(tmp_path / "empty" / "log.csv", *NAMES, shard=(0, 2))
    for shard in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(InputError, match="is no share of a log: give"):
            read_long(folder, *NAMES, shard=shard)
    (folder / "part-1.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match=r"part-1.parquet cannot be read as Parquet"):
        read_long(folder, *NAMES)
    write(tmp_path / "log", [{name: pd.Series([], dtype=int) for name in NAMES}] * 3)
    with pytest.raises(InputError, match="has no rows"):
        read_long(folder, *NAMES)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.dictionaries(
        st.tuples(st.integers(0, 9), st.sampled_from("xyz")), st.integers(-3, 3), min_size=1, max_size=30
    ),
    parts=st.integers(1, 4),
    processes=st.integers(1, 4),
    seed=st.randoms(use_true_random=False),
)
def test_shards_together_are_the_whole(tmp_path, table, parts, processes, seed):
    rows, columns = zip(*table, strict=True)
    frame = pd.DataFrame({"pupil": rows, "question": columns, "answer": list(table.values())})
    part_of = [seed.randrange(parts) for _ in range(len(frame))]
    folder = tmp_path / "log"
    for old in folder.glob("*"):
        old.unlink()
    write(folder, [frame[[p == i for p in part_of]] for i in range(parts)])
    assert cells(read_long(folder, *NAMES)) == table
    if processes <= parts:
        together = {}
        for process in range(processes):
            own = sum(p % processes == process for p in part_of)
            if own:
                together |= cells(read_long(folder, *NAMES, shard=(process, processes)))
        assert together == table
