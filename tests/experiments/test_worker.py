"""A cell in a process of its own: its row, whatever becomes of the process."""

import json
import sys

import pytest

from experiment_helpers import made_up_cell
from visl.experiments import worker
from visl.experiments.design import Cell, Contender, DataSet
from visl.experiments.rows import DONE, FAILED, OVER, row_of
from visl.experiments.worker import RESULT, run_isolated


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """A shell script takes the place of the worker."""

    def install(*lines: str) -> None:
        script = tmp_path / "python"
        script.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return install


def run(cell: Cell = made_up_cell(), limit_s: float = 60) -> dict:  # noqa: B008 - frozen
    return run_isolated(cell, data=None, device="cpu", limit_s=limit_s)


def test_the_row_is_found_in_whatever_libraries_print(instead):
    row = row_of(made_up_cell(), DONE, scores={"rmse": 0.25})
    instead("cat > /dev/null", "echo hello", f"echo '{RESULT}{json.dumps(row)}'", "echo bye", "exit 3")
    assert run() == {**row, "limit_s": 60}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["echo first >&2", "echo 'out of memory' >&2", "exit 7"], "out of memory"),
        (["exit 7"], "exit code 7"),
        (["kill -KILL $$"], "exit code -9"),
    ],
)
def test_a_crash_is_a_row_with_its_last_words(instead, lines, reason):
    instead("cat > /dev/null", *lines)
    row = run()
    assert (row["status"], row["reason"], row["key"]) == (FAILED, reason, made_up_cell().key)


def test_a_process_that_never_begins_is_ended(instead, monkeypatch):
    monkeypatch.setattr(worker, "STARTING_S", 0)
    instead("exec sleep 60")
    row = run(limit_s=0.2)
    assert (row["status"], row["limit_s"], row["seconds"]) == (OVER, 0.2, 0.2)


def test_a_method_that_does_not_return_is_ended_at_the_limit():
    """PVAE takes 15 000 steps, smoke apart; the limit is for the method, not for the start of Python."""
    data_set = DataSet("long", 5, {"D": 5, "seed": 0, "rows": (1000, 10)})
    row = run(Cell("synthetic", data_set, Contender("PVAE", "pvae"), 0), limit_s=0.5)
    assert (row["status"], row["limit_s"], row["seconds"]) == (OVER, 0.5, 0.5)


def test_the_worker_s_own_failure_has_its_last_words():
    row = run(Cell("nowhere", DataSet("x", 5, {}), Contender("Mean", "mean"), 0))
    assert row["status"] == FAILED
    assert row["reason"].startswith("visl.errors.InputError: there is no experiment 'nowhere'")
