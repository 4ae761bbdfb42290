import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import visl
from visl import VISL

TINY = ("--epochs", "2", "--latent-dim", "4", "--draws", "4")


def test_shows_kinds_before_and_edges_after(run, mixed_path, tmp_path):
    out = tmp_path / "m"
    result = run("fit", mixed_path, "--id", "who", "--out", out, "--edge-threshold", "0.01", *TINY)
    assert result.exit_code == 0, result.output
    assert "40 rows, 5 columns" in result.stderr
    for kind, example in (("continuous", "height"), ("binary", "smoker"), ("categorical", "colour")):
        line = next(line for line in result.stderr.splitlines() if line.strip().startswith(kind))
        assert example in line
    assert "Set aside: who" in result.stderr
    assert "stage 2 of 2, epoch 1 of 1" in result.stderr
    assert "Fitted 1 epoch in" in result.stdout
    assert f"visl impute {out} {mixed_path} --out filled.csv" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_json_is_all_of_stdout(run, mixed_path, tmp_path):
    result = run("fit", mixed_path, "--id", "who", "--out", tmp_path / "m", "--seed", 5, "--json", *TINY)
    summary = json.loads(result.stdout)
    assert summary["rows"] == 40
    assert summary["columns"] == summary["groups"] == 5
    assert summary["kinds"] == {"continuous": 2, "binary": 2, "categorical": 1}
    assert summary["set_aside"] == ["who"]
    assert summary["seed"] == 5
    assert summary["settings"]["epochs"] == 2


def test_quiet_says_nothing(run, mixed_path, tmp_path):
    result = run("fit", mixed_path, "--id", "who", "--out", tmp_path / "m", "--quiet", *TINY)
    assert (result.exit_code, result.output) == (0, "")
    assert VISL.load(tmp_path / "m").set_aside_ == ["who"]


def test_same_as_the_estimator(run, mixed, mixed_path, tmp_path):
    run("fit", mixed_path, "--id", "who", "--out", tmp_path / "m", "--seed", 3, *TINY)
    direct = VISL(epochs=2, latent_dim=4, n_draws=4, random_state=3, device="cpu").fit(mixed.drop(columns="who"))
    pd.testing.assert_frame_equal(VISL.load(tmp_path / "m").edge_probabilities_, direct.edge_probabilities_)


def test_settings_reach_the_model(run, classroom, tmp_path):
    kinds = tmp_path / "kinds.json"
    kinds.write_text(json.dumps({"topic-1-1": "categorical", "topic-1-2": "categorical"}))
    result = run(
        *("fit", classroom / "answers.csv", "--id", "student", "--drop", "topic-2-1"),
        *("--kinds", kinds, "--kind", "topic-1-2=0<1"),
        *("--forbid", "topic 1,topic 3", "--require", '"topic 3","topic 1"', "--edge-prior", "0.3"),
        *("--learning-rate", "0.01", "--batch-size", 30, "--message-steps", 2, "--out", tmp_path / "m", *TINY),
        *("--groups", _groups_without(classroom, tmp_path, "topic-2-1")),
    )
    assert result.exit_code == 0, result.output
    model = VISL.load(tmp_path / "m")
    config = model.model_.config
    assert (config.learning_rate, config.batch_size, config.message_steps) == (0.01, 30, 2)
    assert model.set_aside_ == ["student", "topic-2-1"]
    assert model.edge_prior.loc["topic 1", "topic 3"] == 0
    assert model.edge_prior.loc["topic 3", "topic 1"] == 1
    assert model.edge_prior.loc["topic 2", "topic 1"] == pytest.approx(0.3)
    assert model.graph_.edges["topic 3", "topic 1"]["probability"] == 1
    kind_of = {column.name: column.kind for column in model.schema_.columns}
    assert kind_of["topic-1-1"] == "categorical"
    assert kind_of["topic-1-2"] == "ordinal"


def _groups_without(classroom: Path, folder: Path, name: str) -> Path:
    groups = pd.read_csv(classroom / "topics.csv")
    groups[groups["question"] != name].to_csv(folder / "groups.csv", index=False)
    return folder / "groups.csv"


def test_edges_from_files(run, classroom, tmp_path):
    (tmp_path / "no.csv").write_text("from,to\ntopic 1,topic 2\n")
    (tmp_path / "yes.csv").write_text("from,to\ntopic 2,topic 1\n")
    (tmp_path / "prior.csv").write_text("from,to,probability\ntopic 1,topic 3,0.4\n")
    result = run(
        *("fit", classroom / "answers.csv", "--id", "student", "--groups", classroom / "topics.csv"),
        *("--forbidden-edges", tmp_path / "no.csv", "--required-edges", tmp_path / "yes.csv"),
        *("--edge-prior", tmp_path / "prior.csv", "--out", tmp_path / "m", *TINY),
    )
    assert result.exit_code == 0, result.output
    prior = VISL.load(tmp_path / "m").edge_prior
    assert prior.loc["topic 1", "topic 2"] == 0
    assert prior.loc["topic 2", "topic 1"] == 1
    assert prior.loc["topic 1", "topic 3"] == pytest.approx(0.4)


def test_constant_column_and_row_counter_are_noticed(run, tmp_path):
    frame = pd.DataFrame({"n": range(1, 13), "a": [1.5, 2.5, None] * 4, "same": [3.0, None] * 6})
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", tmp_path / "t.csv", "--out", tmp_path / "m", *TINY)
    assert result.exit_code == 0
    assert "Notice: column 'same' has one value only" in result.stderr
    assert "Notice: column 'n' counts the rows" in result.stderr
    assert "--id n" in result.stderr


def test_long_log_with_a_column_left_out(run, classroom, log_options, tmp_path):
    result = run("fit", classroom / "log.csv", *log_options, "--drop", "topic-1-1", "--out", tmp_path / "m", *TINY)
    assert result.exit_code == 0, result.output
    model = VISL.load(tmp_path / "m")
    assert len(model.columns_) == 5
    assert "topic-1-1" not in model.columns_
    assert "--row student --column question --value correct" in result.stdout


def test_force_replaces_a_model(run, mixed_path, tmp_path):
    for seed in (1, 2):
        result = run("fit", mixed_path, "--id", "who", "--out", tmp_path / "m", "--seed", seed, "--force", *TINY)
        assert result.exit_code == 0, result.output
    assert VISL.load(tmp_path / "m").random_state == 2


def test_help_and_version_load_nothing_slow():
    code = """
import sys
from visl.cli import main
commands = ["fit", "impute", "graph", "evaluate", "info", "demo"]
commands += ["simulate", "simulate education", "simulate synthetic"]
for words in ["--version", "--help", *(command + " --help" for command in commands)]:
    try:
        main(words.split())
    except SystemExit as end:
        assert end.code == 0, words
slow = {"torch", "pandas", "sklearn", "numpy", "matplotlib", "networkx", "pyarrow"} & set(sys.modules)
assert not slow, slow
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"visl {visl.__version__}" in result.stdout
    assert "--edge-prior" in result.stdout


def test_module_is_the_same_program():
    result = subprocess.run(
        [sys.executable, "-m", "visl", "--help"], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert "Usage: visl " in result.stdout
