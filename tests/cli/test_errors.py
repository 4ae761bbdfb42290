"""Bad input: exit code 2, one line that names the thing and the remedy, and nothing written or changed."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from visl.data.outputs import claim

TINY = ("--epochs", "2", "--latent-dim", "4", "--draws", "4")
GOOD = "a,b\n1.5,0\n2.5,1\n,1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for outputs, beside that of inputs."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def _table(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder.parent / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty"]),
        ("\n1,2\n", ["line 1 is blank"]),
        ("a,b\n", ["no rows"]),
        ("a,b\n1,2\n", ["1 row(s)", "at least 2"]),
        ("a,a\n1,2\n3,4\n", ["more than one column is named 'a'", "rename"]),
        ("a,b\n1,\n2,\n", ["column 'b' has no observed value", "leave it out"]),
        ("a,b\n1,inf\n2,3\n", ["column 'b'", "inf", "row 0", "replace"]),
        ("a,b\n1,2\n3\n", ["line 3", "1 cells where the header has 2"]),
        ("a,b\n1,1\n2,x\n3,2\n4,3\n", ["column 'b'", "'x'", "among numbers"]),
    ],
)
def test_tables_that_cannot_be_fitted(refused, folder, text, words):
    message = refused("fit", _table(folder, text), "--out", folder / "m", *TINY)
    assert all(word in message for word in words), message
    assert not list(folder.iterdir())


def test_missing_file_and_wrong_format(refused, folder):
    message = refused("fit", folder / "no.csv", "--out", folder / "m")
    assert "no.csv does not exist" in message
    assert ".parquet" in refused("fit", _table(folder, GOOD, "t.xlsx"), "--out", folder / "m")
    assert "cannot be read as Parquet" in refused("fit", _table(folder, GOOD, "t.parquet"), "--out", folder / "m")
    assert "is a folder" in refused("fit", folder, "--out", folder / "m")
    assert not list(folder.iterdir())


def test_no_columns(refused, folder):
    pd.DataFrame(index=range(3)).to_parquet(folder.parent / "t.parquet")
    assert "no columns" in refused("fit", folder.parent / "t.parquet", "--out", folder / "m")
    only = refused("fit", _table(folder, GOOD), "--drop", "a", "--drop", "b", "--out", folder / "m")
    assert "no columns left" in only


def test_third_binary_value(refused, run, folder):
    table = _table(folder, "a,b\n1.5,0\n2.5,1\n,2\n")
    message = refused("fit", table, "--kind", "b=binary", "--out", folder / "m", *TINY)
    assert all(word in message for word in ("column 'b'", "third value 2", "row 2", "categorical"))
    fitted = run("fit", _table(folder, GOOD, "good.csv"), "--out", folder / "m", *TINY)
    assert fitted.exit_code == 0
    at_impute = refused("impute", folder / "m", table, "--out", folder / "f.csv")
    assert "column 'b' is binary" in at_impute
    assert [path.name for path in folder.iterdir()] == ["m"]


def test_labels_name_the_option(refused, mixed, folder):
    labels = pd.DataFrame({"who": [f"p{i}" for i in range(60)], "x": np.arange(60.0) / 7})
    labels.to_csv(folder.parent / "t.csv", index=False)
    message = refused("fit", folder.parent / "t.csv", "--out", folder / "m")
    assert "'who' holds 60 different texts such as 'p0'" in message
    assert "--id who" in message


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"a": "g", "zz": "g"}, ["no column 'zz'"]),
        ({"g": ["a"], "h": ["a", "b"]}, ["'a' is in two groups", "keep one"]),
        ({"g": ["a", "b"], "h": []}, ["group 'h' is empty", "remove it"]),
    ],
)
def test_groups(refused, folder, groups, words):
    file = _table(folder, json.dumps(groups), "groups.json")
    message = refused("fit", _table(folder, GOOD), "--groups", file, "--out", folder / "m", *TINY)
    assert all(word in message for word in words), message
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--edge-prior", "1.5"], ["probability 1.5", "from 0 to 1"]),
        (["--edge-prior", "maybe"], ["--edge-prior maybe is neither a number nor a file"]),
        (["--require", "a,b", "--require", "b,a"], ["cycle", "a -> b", "leave out one"]),
        (["--require", "a,b", "--forbid", "a,b"], ["'a' -> 'b' is both forbidden and required"]),
        (["--require", "a,zz"], ["no group 'zz'"]),
        (["--forbid", "a"], ["--forbid a", "FROM,TO"]),
        (["--forbid", "a,b", "--forbidden-edges", "e.csv"], ["--forbid and --forbidden-edges"]),
        (["--required-edges", "missing.csv"], ["missing.csv does not exist"]),
        (["--kind", "a"], ["--kind a", "COLUMN=KIND"]),
        (["--kind", "a=wordy"], ["'wordy'", "continuous, binary, categorical, ordinal"]),
        (["--kind", "zz=binary"], ["no column 'zz'"]),
        (["--id", "zz"], ["no column 'zz'"]),
        (["--preset", "none"], ["unknown preset 'none'", "'paper-eedi'"]),
        (["--epochs", "0"], ["epochs is 0", "at least 1"]),
        (["--learning-rate", "-1"], ["learning_rate is -1"]),
        (["--edge-threshold", "1"], ["edge_threshold is 1"]),
        (["--device", "abacus"], ["device 'abacus'", "'cpu'"]),
        (["--long"], ["--long needs --row and --column and --value"]),
        (["--long", "--row", "a", "--column", "b", "--value", "c"], ["no column 'c'"]),
        (["--long", "--row", "a", "--column", "b", "--value", "a"], ["'a' of the log has two roles"]),
        (["--duplicates", "mean"], ["--duplicates mean", "--long"]),
        (["--resume"], ["no checkpoint", "without --resume"]),
    ],
)
def test_settings(refused, folder, arguments, words):
    message = refused("fit", _table(folder, GOOD), "--out", folder / "m", *TINY, *arguments)
    assert all(word in message for word in words), message
    assert not list(folder.iterdir())


def test_unknown_option_is_a_usage_error(run, folder):
    result = run("fit", _table(folder, GOOD), "--out", folder / "m", "--epoch", "3")
    assert result.exit_code == 2
    assert "--epochs" in result.stderr
    assert not list(folder.iterdir())


def test_repeated_cell_of_a_log(refused, run, folder):
    log = _table(folder, "r,c,v\n1,a,0\n1,a,1\n1,b,0\n2,b,1\n2,a,1\n3,a,0\n")
    names = ("--long", "--row", "r", "--column", "c", "--value", "v")
    message = refused("fit", log, *names, "--out", folder / "m", *TINY)
    assert "--duplicates" in message
    assert "more than one value" in message
    assert "use one of" in refused("fit", log, *names, "--duplicates", "any", "--out", folder / "m")
    assert run("fit", log, *names, "--duplicates", "last", "--out", folder / "m", *TINY).exit_code == 0


def test_columns_missing_and_extra_at_impute(refused, model, mixed, tmp_path):
    mixed.drop(columns="height").to_csv(tmp_path / "less.csv", index=False)
    mixed.assign(more=1, most=2).to_csv(tmp_path / "more.csv", index=False)
    out = tmp_path / "f.csv"
    less = refused("impute", model, tmp_path / "less.csv", "--out", out)
    assert "lacks the column 'height'" in less
    assert "empty cells" in less
    more = refused("impute", model, tmp_path / "more.csv", "--out", out)
    assert "columns 'more', 'most'" in more
    assert "--drop more --drop most" in more
    assert not out.exists()


@pytest.fixture
def copied(model, tmp_path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


@pytest.mark.parametrize("command", ["info", "graph"])
def test_models_that_cannot_be_read(refused, copied, command):
    document = copied / "visl-model.json"
    weights = copied / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "damaged (weights.safetensors" in refused(command, copied)
    weights.write_bytes(whole)
    text = document.read_text()
    document.write_text(text[:100])
    assert "is damaged (visl-model.json" in refused(command, copied)
    document.write_text(json.dumps({**json.loads(text), "version": 99}))
    assert "later visl (format 99" in refused(command, copied)
    document.unlink()
    assert "is not a visl model" in refused(command, copied)
    assert "there is no model at" in refused(command, copied / "none")


def test_outputs_that_cannot_be_written(refused, model, mixed_path, tmp_path):
    message = refused("fit", mixed_path, "--out", tmp_path / "no" / "m")
    assert "does not exist: create it first" in message
    assert "does not exist" in refused("impute", model, mixed_path, "--out", tmp_path / "no" / "f.csv")
    assert "unknown kind of file" in refused("impute", model, mixed_path, "--out", tmp_path / "f.xlsx")
    assert "unknown kind of file" in refused("evaluate", model, mixed_path, "--out", tmp_path / "f.doc")
    assert not list(tmp_path.iterdir())


def test_existing_outputs_are_kept(refused, model, mixed_path, tmp_path):
    (tmp_path / "f.csv").write_text("mine")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "notes.txt").write_text("mine")
    assert "--force" in refused("impute", model, mixed_path, "--out", tmp_path / "f.csv")
    assert "--force" in refused("evaluate", model, mixed_path, "--out", tmp_path / "f.csv")
    assert "--force" in refused("fit", mixed_path, "--out", model)
    assert "never replaced" in refused("fit", mixed_path, "--out", tmp_path / "m", "--force")
    assert (tmp_path / "f.csv").read_text() == (tmp_path / "m" / "notes.txt").read_text() == "mine"


def test_full_disk(refused, model, mixed_path, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "old.csv").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    for arguments in (
        ("impute", model, mixed_path, "--out", tmp_path / "f.csv"),
        ("impute", model, mixed_path, "--out", tmp_path / "old.csv", "--force"),
        ("graph", model, "--out", tmp_path / "g.csv"),
        ("evaluate", model, mixed_path, "--out", tmp_path / "e.csv"),
        ("simulate", "synthetic", "--rows", 10, "--out", tmp_path / "s"),
        ("fit", mixed_path, "--id", "who", "--out", tmp_path / "m", *TINY),
    ):
        message = refused(*arguments, "--quiet")
        assert "No space left on device" in message
        assert "nothing was changed" in message
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old"


def test_two_commands_with_one_output(refused, model, mixed_path, tmp_path):
    with claim(tmp_path / "f.csv"), claim(tmp_path / "m"):
        for arguments in (
            ("impute", model, mixed_path, "--out", tmp_path / "f.csv"),
            ("fit", mixed_path, "--id", "who", "--out", tmp_path / "m"),
            ("simulate", "synthetic", "--out", tmp_path / "m"),
        ):
            assert "another visl command is writing" in refused(*arguments)
    assert not list(tmp_path.iterdir())


def test_own_fault_is_one_line(run, model, monkeypatch):
    from visl import VISL

    def broken(folder):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(VISL, "load", broken)
    monkeypatch.delenv("VISL_DEBUG", raising=False)
    result = run("info", model)
    assert result.exit_code == 1
    assert result.stderr.strip().splitlines() == [
        "Error: visl failed through a fault of its own: RuntimeError: two lines; please report it "
        "(VISL_DEBUG=1 shows where)"
    ]
    monkeypatch.setenv("VISL_DEBUG", "1")
    assert "Traceback" in run("info", model).stderr


def test_out_of_memory_and_system_errors_are_not_our_fault(run, model, monkeypatch):
    from visl import VISL

    for error, word in ((MemoryError(), "not enough memory"), (PermissionError(13, "Permission denied", "x"), "(x)")):

        def broken(folder, error=error):
            raise error

        monkeypatch.setattr(VISL, "load", broken)
        result = run("info", model)
        assert result.exit_code == 2
        assert word in result.stderr


def test_closed_pipe_is_silent(model):
    command = [sys.executable, "-m", "visl", "info", str(model)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
