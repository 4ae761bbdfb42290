"""A cell in a process of its own: its row, whatever becomes of the process."""

import io
import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from experiment_helpers import made_up_cell
from visl.experiments import cells, worker
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


def test_the_row_stands_on_a_line_of_its_own(instead, monkeypatch, capfd, tmp_path):
    """Even after a library has left one open; what the worker printed is then given to who waits for it."""

    def run_cell(experiment, cell, **more):
        print("50 %", end="")
        return row_of(cell, DONE, scores={"rmse": 0.25})

    cell = Cell("synthetic", DataSet("x", 5, {}), Contender("Mean", "mean"), 0)
    task = {"cell": asdict(cell), "data": None, "device": "cpu", "limit_s": 60}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(task)))
    monkeypatch.setattr(worker, "_end_with_parent", lambda: None)
    monkeypatch.setattr(cells, "run_cell", run_cell)
    worker.main()
    (tmp_path / "printed").write_text(capfd.readouterr().out)
    instead("cat > /dev/null", f"cat {tmp_path / 'printed'}")
    assert run(cell) == {**row_of(cell, DONE, scores={"rmse": 0.25}), "limit_s": 60}


def test_bytes_that_are_no_text_do_no_harm(instead):
    row = row_of(made_up_cell(), DONE, scores={})
    instead("cat > /dev/null", r"printf '\377\n'", f"echo '{RESULT}{json.dumps(row)}'")
    assert run() == {**row, "limit_s": 60}


def test_where_there_is_no_alarm_an_end_without_a_row_is_a_failure(instead, monkeypatch):
    monkeypatch.delattr(worker.signal, "SIGALRM")
    instead("cat > /dev/null")
    assert run()["status"] == FAILED


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a child is counted in other ways")
def test_memory_is_not_that_of_the_parent():
    """Which is larger than what the child needs for itself."""
    child = "from visl.experiments.cells import peak_mib; print(peak_mib())"
    parent = (
        "import subprocess, sys; held = b'1' * (800 << 20); "
        "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    )
    command = [sys.executable, "-c", parent, child]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
    assert 1 < float(found) < 800


@pytest.mark.skipif(sys.platform != "linux", reason="they are missing")
def test_memory_where_modules_and_files_of_unix_are_missing(monkeypatch):
    assert cells.peak_mib() > 1
    monkeypatch.setattr(cells.Path, "exists", lambda path: False)
    assert cells.peak_mib() > 1
    monkeypatch.setitem(sys.modules, "resource", None)
    assert cells.peak_mib() is None


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
    assert (row["device"], row["limit_s"]) == ("cpu", 60)


def test_a_process_that_never_begins_is_ended(instead, monkeypatch):
    monkeypatch.setattr(worker, "STARTING_S", 0)
    instead("exec sleep 60")
    row = run(limit_s=0.2)
    assert (row["status"], row["limit_s"], row["seconds"], row["device"]) == (OVER, 0.2, 0.2, "cpu")


def test_a_method_that_does_not_return_is_ended_at_the_limit():
    """PVAE takes 15 000 steps, smoke apart; the limit is for the method, not for the start of Python."""
    data_set = DataSet("long", 5, {"D": 5, "seed": 0, "rows": (1000, 10)})
    row = run(Cell("synthetic", data_set, Contender("PVAE", "pvae"), 0), limit_s=0.5)
    assert (row["status"], row["limit_s"], row["seconds"], row["device"]) == (OVER, 0.5, 0.5, "cpu")


def test_the_worker_s_own_failure_has_its_last_words():
    row = run(Cell("nowhere", DataSet("x", 5, {}), Contender("Mean", "mean"), 0))
    assert row["status"] == FAILED
    assert row["reason"].startswith("visl.errors.InputError: there is no experiment 'nowhere'")
