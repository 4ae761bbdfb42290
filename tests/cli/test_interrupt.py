"""Ctrl-C and SIGTERM in a fit leave a checkpoint; --resume ends bitwise where the uninterrupted fit would have."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from visl import VISL, steps
from visl.config import Config

SETTINGS = ("--epochs", "6", "--latent-dim", "4", "--draws", "4", "--batch-size", "8", "--seed", "3")
STEPS = Config().epoch_steps  # of every epoch, eight passes of 5: where fits find the graph, four epochs of stage 2
LATENT, STEPS_OF_LATENT = ("--preset", "paper-synthetic"), 5  # three epochs of either stage


def stop_in(
    epoch: int, signums: Sequence[int], patch: Callable[..., None] = setattr, *, steps_of_epoch: int = STEPS
) -> None:
    """Signals come in the middle of the third step of this epoch, counted from 0."""
    step_done, count = steps._summed_terms, iter(range(10**9))

    def raise_signals(*arguments):
        if next(count) == steps_of_epoch * epoch + 2:
            for signum in signums:
                signal.raise_signal(signum)
        return step_done(*arguments)

    patch(steps, "_summed_terms", raise_signals)


def _fit(table: Path, out: Path, *more: str) -> list[str]:
    return ["fit", str(table), "--id", "who", "--out", str(out), *more, *SETTINGS]


def _stop(arguments: list[str], signum: int, epoch: int, steps_of_epoch: int) -> subprocess.CompletedProcess:
    stop = f"test_interrupt.stop_in({epoch}, [{int(signum)}], steps_of_epoch={steps_of_epoch})"
    code = f"import test_interrupt; {stop}; from visl.cli import main; main()"
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


@pytest.fixture(scope="module")
def uninterrupted(run, mixed_path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "m"
    result = run(*_fit(mixed_path, out))
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def uninterrupted_latent(run, mixed_path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("latent") / "m"
    result = run(*_fit(mixed_path, out, *LATENT))
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize(
    ("more", "signum", "code", "epoch", "n_epochs"),
    [(LATENT, signal.SIGINT, 130, 1, 6), ((), signal.SIGTERM, 143, 3, 4)],
    ids=["latent", "fitted"],
)
def test_stop_and_resume(
    run, refused, uninterrupted, uninterrupted_latent, mixed_path, tmp_path, more, signum, code, epoch, n_epochs
):
    """In stage 1 by Ctrl-C, in stage 2 by SIGTERM."""
    out, expected = tmp_path / "m", uninterrupted_latent if more else uninterrupted
    stopped = _stop(_fit(mixed_path, out, *more), signum, epoch, STEPS_OF_LATENT if more else STEPS)
    assert stopped.returncode == code, stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert f"interrupted in epoch {epoch + 1} of {n_epochs}" in stopped.stderr
    assert "--seed 3 --resume" in stopped.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]

    assert "--resume" in refused(*_fit(mixed_path, out, *more))
    assert "go on with" in refused("info", tmp_path / "m.checkpoint")
    assert "of another table or other settings" in refused(*_fit(mixed_path, out, *more)[:-1], 4, "--resume")

    resumed = run(*_fit(mixed_path, out, *more), "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    for name in ("weights.safetensors", "visl-model.json"):
        assert (out / name).read_bytes() == (expected / name).read_bytes(), name
    assert VISL.load(out).edge_probabilities_.equals(VISL.load(expected).edge_probabilities_)


def test_force_starts_afresh(run, mixed_path, uninterrupted, tmp_path):
    out = tmp_path / "m"
    with pytest.MonkeyPatch.context() as patch:
        stop_in(2, [signal.SIGINT], patch.setattr)
        assert run(*_fit(mixed_path, out)).exit_code == 130
    assert run(*_fit(mixed_path, out), "--force").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert (out / "weights.safetensors").read_bytes() == (uninterrupted / "weights.safetensors").read_bytes()


def test_resume_needs_no_seed_but_the_same_prior(run, refused, uninterrupted, mixed_path, tmp_path):
    out = tmp_path / "m"
    with pytest.MonkeyPatch.context() as patch:
        stop_in(2, [signal.SIGTERM], patch.setattr)
        assert run(*_fit(mixed_path, out)).exit_code == 143
    assert "other settings" in refused(*_fit(mixed_path, out), "--resume", "--forbid", "height,score")
    assert run(*_fit(mixed_path, out)[:-2], "--resume").exit_code == 0
    assert (out / "visl-model.json").read_bytes() == (uninterrupted / "visl-model.json").read_bytes()


def test_resumed_fit_can_be_stopped_again(run, uninterrupted, mixed_path, tmp_path):
    out = tmp_path / "m"
    for epochs_on, resume in ((0, []), (1, ["--resume"]), (1, ["--resume"])):
        with pytest.MonkeyPatch.context() as patch:
            stop_in(epochs_on, [signal.SIGINT], patch.setattr)
            assert run(*_fit(mixed_path, out), *resume).exit_code == 130
    assert run(*_fit(mixed_path, out), "--resume").exit_code == 0
    assert (out / "weights.safetensors").read_bytes() == (uninterrupted / "weights.safetensors").read_bytes()


def test_second_signal_aborts_at_once(run, mixed_path, tmp_path, monkeypatch):
    """The first is only remembered: here no step ends between the two."""
    stop_in(1, [signal.SIGINT, signal.SIGINT], monkeypatch.setattr)
    result = run(*_fit(mixed_path, tmp_path / "m"))
    assert result.exit_code == 130
    assert "Error: interrupted; nothing was written" in result.stderr
    assert not list(tmp_path.iterdir())


def test_signal_in_the_search_of_the_graph_ends_it_at_once(run, mixed_path, tmp_path, monkeypatch):
    from visl.fitted_graph import _Judge

    monkeypatch.setattr(_Judge, "_shared_out", lambda *arguments: signal.raise_signal(signal.SIGTERM))
    result = run(*_fit(mixed_path, tmp_path / "m"))
    assert result.exit_code == 143
    assert "Error: interrupted; nothing was written" in result.stderr
    assert not list(tmp_path.iterdir())


def test_signal_outside_training_leaves_nothing(run, model, mixed_path, tmp_path, monkeypatch):
    from visl.cli import filling

    monkeypatch.setattr(filling, "write_table", lambda *arguments: signal.raise_signal(signal.SIGTERM))
    assert run("impute", model, mixed_path, "--out", tmp_path / "f.csv").exit_code == 143
    assert not list(tmp_path.iterdir())


def test_signal_from_outside(mixed_path, tmp_path):
    command = [sys.executable, "-m", "visl", *_fit(mixed_path, tmp_path / "m"), "--epochs", "100000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        while "Found the graph" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert "the checkpoint is" in process.stderr.read()
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]
