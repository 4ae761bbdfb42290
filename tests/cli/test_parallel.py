"""`visl fit --devices N`: what comes out does not depend on N, and a lost process loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from visl import VISL

pytest.importorskip("lightning_fabric")

LOG = ("--long", "--row", "student", "--column", "question", "--value", "correct")
TINY = ("--epochs", "4", "--latent-dim", "4", "--draws", "4", "--batch-size", "20", "--device", "cpu")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "visl", *map(str, arguments)]


def visl(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def log(run, tmp_path_factory) -> Path:
    """90 students in three files of 30; 12 questions of 3 topics."""
    out = tmp_path_factory.mktemp("log") / "class"
    sizes = ("--students", 90, "--topics", 3, "--questions", 12, "--answers", 500, "--shards", 3)
    assert run("simulate", "log", "--out", out, *sizes).exit_code == 0
    return out


def fit(log: Path, out: Path, *options: object) -> list[object]:
    return ["fit", log / "log", *LOG, "--groups", log / "topics.csv", "--out", out, *TINY, *options]


def with_second_file(log: Path, tmp_path: Path, changed) -> Path:
    """A log of the first two files, the second one changed."""
    folder = tmp_path / "log"
    folder.mkdir()
    first, second = sorted((log / "log").iterdir())[:2]
    pd.read_parquet(first).to_parquet(folder / first.name)
    changed(pd.read_parquet(second)).to_parquet(folder / second.name)
    return folder


@pytest.fixture(scope="module")
def one(log, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("one") / "m"
    done = visl(*fit(log, out, "--devices", 1, "--json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 90
    return out


def test_two_processes_give_the_losses_of_one(log, one, tmp_path):
    done = visl(*fit(log, tmp_path / "m", "--devices", 2, "--json"))
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)  # of the first process alone
    assert (summary["rows"], summary["columns"]) == (90, 12)
    assert done.stderr.count("epoch 4 of 4") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    alone, together = VISL.load(one), VISL.load(tmp_path / "m")
    np.testing.assert_allclose(together.history_["loss"], alone.history_["loss"], rtol=1e-5)
    np.testing.assert_allclose(together.edge_probabilities_, alone.edge_probabilities_, atol=1e-4)
    assert together.schema_ == alone.schema_
    assert together.fingerprint_ == alone.fingerprint_


def test_a_folder_of_files_is_also_one_log(run, log, one, tmp_path):
    result = run(*fit(log, tmp_path / "m"))
    assert result.exit_code == 0, result.output
    whole, parts = VISL.load(tmp_path / "m"), VISL.load(one)
    assert (whole.schema_, whole.n_rows_, whole.fingerprint_) == (parts.schema_, 90, parts.fingerprint_)


@pytest.mark.slow
def test_what_is_wrong_is_said_once(log, tmp_path):
    done = visl(*fit(log, tmp_path / "m", "--devices", 4))
    assert done.returncode == 2
    assert done.stderr.count("Error:") == 1
    assert "has 3 Parquet file(s) for 4 processes" in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_student_in_two_files_is_refused(log, tmp_path):
    def who_is_in_the_first_file_as_well(frame):
        frame.loc[0, "student"] = 1
        return frame

    folder = with_second_file(log, tmp_path, who_is_in_the_first_file_as_well)
    done = visl("fit", folder, *LOG, "--out", tmp_path / "m", *TINY, "--devices", 2)
    assert done.returncode == 2
    assert "student 1 has values in more than one file" in done.stderr
    assert done.stderr.count("Error:") == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["auto", "latent"])
def test_a_single_table_is_shared_out_by_rows(run, mixed_path, tmp_path, form):
    """Numbers among its columns, so that the spread of draws is calibrated too, and several members. The graph is found
    by fits of the first process, or learned by both."""
    preset = tmp_path / "form.json"
    preset.write_text(json.dumps({"preset": "default", "settings": {"structure": form}}))
    options = ("--id", "who", *TINY, "--members", 2, "--preset", preset)
    assert run("fit", mixed_path, "--out", tmp_path / "one", *options).exit_code == 0
    done = visl("fit", mixed_path, "--out", tmp_path / "two", *options, "--devices", 2, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 40
    alone, together = VISL.load(tmp_path / "one"), VISL.load(tmp_path / "two")
    np.testing.assert_allclose(together.edge_probabilities_, alone.edge_probabilities_, atol=1e-4)
    np.testing.assert_allclose(together.history_["loss"], alone.history_["loss"], rtol=1e-5)
    found, expected = (model.model_.deviation_scale.numpy() for model in (together, alone))
    assert (expected != 1).any()
    np.testing.assert_allclose(found, expected, rtol=1e-2)


@pytest.mark.slow
def test_files_of_different_types_are_refused(log, tmp_path):
    folder = with_second_file(log, tmp_path, lambda frame: frame.astype({"question": str}))
    done = visl("fit", folder, *LOG, "--out", tmp_path / "m", *TINY, "--devices", 2)
    assert done.returncode == 2
    assert "write all files with the same types" in done.stderr
    assert done.stderr.count("Error:") == 1


@pytest.mark.slow
def test_settings_that_every_process_refuses_are_refused_once(log, tmp_path):
    done = visl(*fit(log, tmp_path / "m", "--devices", 2, "--members", 0))
    assert done.returncode == 2
    assert done.stderr.count("Error:") == 1
    assert "n_members is 0" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--devices", 0), "--devices is 0"), (("--num-nodes", 2, "--devices", 2), "torchrun --nnodes 2")],
)
def test_settings_that_cannot_be(run, log, tmp_path, options, words):
    result = run(*fit(log, tmp_path / "m", *options))
    assert result.exit_code == 2
    assert words in result.output.replace("\n", " ")


def children_of(pid: int) -> list[int]:
    """As Linux lists them."""
    return [int(word) for file in Path(f"/proc/{pid}/task").glob("*/children") for word in file.read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes as Linux lists them")
def test_a_killed_process_ends_the_run_with_a_checkpoint(log, one, tmp_path):
    out = tmp_path / "m"
    forever = fit(log, out, "--devices", 2, "--epochs", 100_000)
    started = subprocess.Popen(command(*forever), stderr=subprocess.PIPE, text=True)
    try:
        ranks = {}
        deadline = time.monotonic() + 120
        while len(ranks) < 2 and time.monotonic() < deadline:
            for pid in children_of(started.pid):
                words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                ranks |= {int(word[5:]): pid for word in words if word.startswith(b"RANK=")}
            time.sleep(0.2)
        seen = ""
        for line in started.stderr:  # until training has begun
            seen += line
            if "The graph has" in line:
                break
        time.sleep(3)
        os.kill(ranks[1], signal.SIGKILL)
        _, rest = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode == 3, seen + rest
    assert "lost another process" in rest
    assert "--resume" in rest
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]


@pytest.mark.slow
def test_what_a_lost_process_leaves_can_be_resumed(log, one, tmp_path):
    out = tmp_path / "m"
    code = (
        "import os, signal, visl.steps as steps\n"
        "step, count = steps.StepRunner.step, iter(range(10**9))\n"
        "def counted(self, *arguments, **named):\n"
        "    if next(count) == 7 and os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return step(self, *arguments, **named)\n"
        "steps.StepRunner.step = counted\n"
        "from visl.cli import main; main()\n"
    )
    script = tmp_path / "dies.py"
    script.write_text(code)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    died = subprocess.run(
        [*torchrun, *map(str, fit(log, out))], capture_output=True, text=True, timeout=120, check=False
    )
    assert died.returncode != 0
    assert "lost another process" in died.stderr
    done = visl(*fit(log, out, "--devices", 2, "--resume"))
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(VISL.load(out).history_["loss"], VISL.load(one).history_["loss"], rtol=1e-4)
