"""`visl tune`: a study that can be resumed, its files, and a preset that `visl fit` takes."""

import json
import signal

import pandas as pd
import pytest

from visl import VISL, tune
from visl.training import _Run

pytest.importorskip("optuna")

TINY = ("--epochs", "2", "--draws", "3", "--batch-size", "20", "--vary", "latent_dim=2..4")
FILES = ["best.json", "history.png", "importances.png", "slices.png", "study.db", "trials.csv"]


@pytest.fixture
def command(mixed_path, tmp_path):
    return ["tune", mixed_path, "--id", "who", "--out", tmp_path / "tuned", *TINY]


def test_tune_resume_and_fit(run, refused, command, mixed_path, tmp_path):
    out = tmp_path / "tuned"
    first = run(*command, "--trials", 1)
    assert first.exit_code == 0, first.output
    assert "5 columns" in first.stderr
    assert "that no trial sees" in first.stderr.replace("\n", " ")
    assert "trial 0: error " in first.stderr
    assert sorted(path.name for path in out.iterdir()) == FILES

    second = run(*command, "--trials", 2, "--json")
    assert second.exit_code == 0, second.output
    found = json.loads(second.stdout)
    assert found["trials"] == {"finished": 2, "pruned": 0, "failed": 0, "running": 0}
    assert "trial 0:" not in second.stderr  # it was there
    assert "trial 1:" in second.stderr
    trials = pd.read_csv(out / "trials.csv")
    assert trials["trial"].tolist() == [0, 1]
    best = json.loads((out / "best.json").read_text())
    assert best == found["best"]
    assert best["score"] == trials["score"].min()
    assert best["settings"] == {"epochs": 2, "batch_size": 20, "n_draws": 3} | {
        "latent_dim": int(trials.loc[trials["score"].idxmin(), "latent_dim"])
    }

    assert "epochs 2 (now 3)" in refused(*command, "--epochs", 3)
    assert "another table" in refused(*command, "--drop", "colour")
    assert "--force" in refused(*command, "--metric", "log_likelihood")

    fitted = run("fit", mixed_path, "--id", "who", "--preset", out / "best.json", "--out", tmp_path / "m", "--json")
    assert fitted.exit_code == 0, fitted.output
    model = VISL.load(tmp_path / "m")
    assert {name: getattr(model.model_.config, name) for name in best["settings"]} == best["settings"]
    assert "default with" in json.loads(run("info", tmp_path / "m", "--json").stdout)["settings"]["preset"]

    afresh = run(*command, "--trials", 1, "--metric", "log_likelihood", "--force", "--json")
    assert json.loads(afresh.stdout)["trials"]["finished"] == 1


def test_long_log_in_a_shared_database(run, classroom, log_options, tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    command = ["tune", classroom / "log.csv", *log_options, "--groups", classroom / "topics.csv", *TINY]
    for trials, out in ((1, "one"), (2, "two")):
        storage = ("--storage", url, "--study", "class", "--out", tmp_path / out)
        result = run(*command, *storage, "--trials", trials, "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["metric"] == "accuracy"
        assert found["trials"]["finished"] == trials
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == [name for name in FILES if name != "study.db"]


def test_ctrl_c_keeps_finished_trials(run, command, tmp_path, monkeypatch):
    epoch_done, count = _Run.close_epoch, iter(range(10**9))

    def stop_in_second_trial(self):
        if next(count) == 2:
            signal.raise_signal(signal.SIGINT)
        return epoch_done(self)

    with monkeypatch.context() as patch:
        patch.setattr(_Run, "close_epoch", stop_in_second_trial)
        stopped = run(*command, "--trials", 3)
    assert stopped.exit_code == 130, stopped.output
    assert "1 trial of 3" in stopped.stderr
    assert "Traceback" not in stopped.output
    assert pd.read_csv(tmp_path / "tuned" / "trials.csv")["state"].tolist() == ["finished", "failed"]
    resumed = run(*command, "--trials", 2, "--json")
    assert json.loads(resumed.stdout)["trials"]["finished"] == 2


def test_what_cannot_be_tuned(refused, command, mixed_path, tmp_path, monkeypatch):
    assert "unknown setting 'depth'" in refused(*command, "--vary", "depth=1,2")
    assert "latent_dim is both" in refused(*command, "--latent-dim", 3)
    assert "validation is 1.5" in refused(*command, "--validation", 1.5)
    assert "trials is 0" in refused(*command, "--trials", 0)
    (tmp_path / "tuned").mkdir(exist_ok=True)
    (tmp_path / "tuned" / "mine.txt").write_text("mine")
    assert "other content" in refused(*command, "--out", tmp_path / "tuned")
    monkeypatch.setattr(tune, "find_spec", lambda name: None)
    assert "pip install 'visl[tune]'" in refused(*command)
