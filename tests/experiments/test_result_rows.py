"""Rows of results on disk, whatever happened to the file."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiment_helpers import made_up_cell
from visl.errors import InputError
from visl.experiments import rows as rows_module
from visl.experiments.design import Cell, Row
from visl.experiments.problem import Structure
from visl.experiments.rows import (
    DONE,
    FAILED,
    FIELDS,
    OVER,
    append_row,
    over_the_limit_at,
    pack_edges,
    plain,
    read_rows,
    settled,
    unpack_edges,
)

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def row_of(cell: Cell, status: str, *, limit_s: float = 60, **more: object) -> Row:
    return rows_module.row_of(cell, status, limit_s=limit_s, **more)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "made-up.jsonl"


def test_round_trip(file):
    assert read_rows(file) == []
    rows = [row_of(made_up_cell(seed=seed), DONE, scores={"rmse": 0.1 * seed}, seconds=1.5) for seed in range(3)]
    for row in rows:
        append_row(file, row)
    assert read_rows(file) == rows
    assert file.read_bytes().count(b"\n") == 3


def test_what_json_cannot_hold(file):
    odd = {
        "scores": {"rmse": float("nan"), "auroc": np.float32(0.5), "n": np.int64(3)},
        "limits": (np.array([1.0, np.inf]), True, np.bool_(False)),
        "file": file,
        3: None,
    }
    append_row(file, row_of(made_up_cell(), DONE, **{"odd": odd}))
    assert read_rows(file)[0]["odd"] == {
        "scores": {"rmse": None, "auroc": 0.5, "n": 3},
        "limits": [[1.0, None], True, False],
        "file": str(file),
        "3": None,
    }
    assert json.loads(json.dumps(plain(odd), allow_nan=False)) == plain(odd)


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_last_line_cut_short_is_dropped_and_the_next_row_replaces_it(file, cut):
    """Of the last row the line's end is missing, or also its brace, or more."""
    first, second = (row_of(made_up_cell(seed=seed), FAILED, reason="±→") for seed in (1, 2))
    append_row(file, first)
    append_row(file, second)
    file.write_bytes(file.read_bytes()[:-cut])
    assert read_rows(file) == [first]
    append_row(file, second)
    assert read_rows(file) == [first, second]


def test_a_line_may_be_cut_inside_a_character(file):
    first = row_of(made_up_cell(), DONE)
    append_row(file, first)
    with file.open("ab") as stream:
        stream.write('{"key": "→'.encode()[:-1])
    assert read_rows(file) == [first]


@pytest.mark.parametrize("damage", [b'{"key": "1", "sta', b"[1, 2]", b'{"key": "1"}', b"\xff\xfe"])
def test_damage_elsewhere_is_named(file, damage):
    append_row(file, row_of(made_up_cell(), DONE))
    with file.open("ab") as stream:
        stream.write(damage + b"\n")
    append_row(file, row_of(made_up_cell(), DONE))
    with pytest.raises(InputError, match=r"made-up\.jsonl, line 2, is no row"):
        read_rows(file)


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_a_row_without_a_field_that_all_have_is_named(file, field):
    row = row_of(made_up_cell(), DONE)
    assert row.keys() == FIELDS
    append_row(file, row)
    append_row(file, {name: value for name, value in row.items() if name != field})
    with pytest.raises(InputError, match=r"made-up\.jsonl, line 2, is no row of results: remove that line"):
        read_rows(file)


def test_the_published_rows_can_be_read():
    files = sorted(RESULTS.glob("*.jsonl"))
    assert files
    for each in files:
        assert len(read_rows(each)) == each.read_bytes().count(b"\n") > 0


def test_empty_lines_are_nothing(file):
    append_row(file, row_of(made_up_cell(), DONE))
    with file.open("ab") as stream:
        stream.write(b"\n\r\n")
    append_row(file, row_of(made_up_cell(), OVER, limit_s=1))
    assert [row["status"] for row in read_rows(file)] == [DONE, OVER]


def test_what_need_not_run_again():
    done, over, failed, mended, worse = (made_up_cell(seed=seed) for seed in range(5))
    rows = [
        row_of(done, DONE),
        row_of(over, OVER, limit_s=60),
        row_of(failed, FAILED, reason="no"),
        row_of(mended, FAILED, reason="no"),
        row_of(worse, DONE),
        row_of(mended, DONE),
        row_of(worse, FAILED, reason="no"),
    ]
    assert set(settled(rows, 60)) == {done.key, over.key, mended.key}
    assert set(settled(rows, 59)) == {done.key, over.key, mended.key}
    assert set(settled(rows, 61)) == {done.key, mended.key}


@pytest.mark.parametrize(("device", "other"), [("cpu", "cuda"), ("cpu", "NVIDIA H200"), ("cuda:1", "cpu")])
def test_over_the_limit_on_another_kind_of_device_is_no_answer(device, other):
    over, done, failed = (made_up_cell(seed=seed) for seed in range(3))
    rows = [
        row_of(over, OVER, device=other),
        row_of(done, DONE, device=other),
        row_of(failed, OVER, device=device),
        row_of(failed, FAILED, device=other, reason="no"),
    ]
    assert set(settled(rows, 60, device)) == {done.key, failed.key}
    assert set(settled(rows, 60, other)) == {over.key, done.key}
    assert over_the_limit_at(rows[:2], over, 60, device) is None
    assert over_the_limit_at(rows[:2], over, 60, other) is rows[0]


def test_a_gpu_has_several_names():
    row = row_of(made_up_cell(), OVER, device="NVIDIA H200")
    for name in ("cuda", "cuda:0"):
        assert list(settled([row], 60, name)) == [made_up_cell().key]
        assert over_the_limit_at([row], made_up_cell(), 60, name) is row


def test_over_the_limit_at_no_larger_size():
    rows = [row_of(made_up_cell("PC", size=16), OVER, limit_s=60), row_of(made_up_cell("GES", size=16), DONE)]
    assert over_the_limit_at(rows, made_up_cell("PC", size=16), 60) is rows[0]
    assert over_the_limit_at(rows, made_up_cell("PC", size=32), 30) is rows[0]
    assert over_the_limit_at(rows, made_up_cell("PC", size=15), 60) is None
    assert over_the_limit_at(rows, made_up_cell("PC", size=32), 61) is None
    assert over_the_limit_at(rows, made_up_cell("GES", size=32), 60) is None


def test_packed_edges_hold_what_was_found_and_every_strength():
    strengths = np.array([[0.0, 0.1237], [0.0004, 1.0]])
    packed = pack_edges(Structure(strengths > 0.5, strengths))
    assert packed["found"] == [[1, 1]]
    assert json.loads(json.dumps(packed)) == packed
    found = unpack_edges(packed)
    assert found.edges.tolist() == [[False, False], [False, True]]
    np.testing.assert_allclose(found.probabilities, [[0, 0.124], [0, 1.0]], atol=1e-4)
    only_edges = unpack_edges(pack_edges(Structure(strengths > 0.5)))
    assert only_edges.probabilities.tolist() == [[0, 0], [0, 1]]
