"""`visl tune`: a study that can be resumed, its files, and a preset that `visl fit` takes."""

import json
import shlex
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
    assert "best.json also keeps what was fixed for the search: epochs 2, batch_size 20, n_draws 3." in first.stdout
    assert "add --epochs N" in first.stdout
    pasted = shlex.split(first.stdout.partition("Next:\n")[2])
    options = ["--id", "who", "--preset", str(out / "best.json"), "--out", "model"]
    assert pasted == ["visl", "fit", str(mixed_path), *options]

    second = run(*command, "--trials", 2, "--json")
    assert second.exit_code == 0, second.output
    found = json.loads(second.stdout)
    assert found["trials"] == {"finished": 2, "pruned": 0, "failed": 0, "interrupted": 0, "running": 0}
    assert found["fixed"] == {"epochs": 2, "batch_size": 20, "n_draws": 3}
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

    fitted = run(*pasted[1:-1], tmp_path / "m", "--json")
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
    command += ["--epochs", 3]  # two of stage 2, in which each trial has its only epochs

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
    trials = pd.read_csv(tmp_path / "tuned" / "trials.csv")
    assert trials["state"].tolist() == ["finished", "interrupted"]
    assert trials["reason"].tolist()[1] == "stopped by Ctrl-C or a signal"
    resumed = run(*command, "--trials", 2)
    assert "3 trials (2 finished, 1 interrupted)" in resumed.stdout


def test_the_next_command_has_the_options_of_the_table(run, classroom, log_options, tmp_path):
    """Names that a shell would split are quoted."""
    log = tmp_path / "my log.csv"
    log.write_bytes((classroom / "log.csv").read_bytes())
    more = ("--duplicates", "last", "--groups", classroom / "topics.csv", "--edge-prior", "0.1", "--seed", "0")
    questions = pd.read_csv(log)["question"].astype(str).unique()[:2]
    kinds = tuple(word for name in questions for word in ("--kind", f"{name}=binary"))
    result = run("tune", log, *log_options, *more, *kinds, *TINY, "--trials", 1, "--out", tmp_path / "t")
    assert result.exit_code == 0, result.output
    pasted = shlex.split(result.stdout.partition("Next:\n")[2])
    assert pasted[:3] == ["visl", "fit", str(log)]
    for given in (log_options, more[:2], more[2:4], more[4:6], more[6:], kinds):
        words = [str(word) for word in given]
        assert any(pasted[k : k + len(words)] == words for k in range(len(pasted)))
    assert "..." not in pasted
    fitted = run(*pasted[1:-1], tmp_path / "m", "--json")
    assert fitted.exit_code == 0, fitted.output


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
