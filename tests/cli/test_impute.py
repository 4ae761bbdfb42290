import json

import numpy as np
import pandas as pd
import pytest

from visl import VISL
from visl.cli import filling
from visl.data.files import read_table


def test_fills_every_gap_and_changes_nothing_else(run, model, mixed_path, tmp_path):
    result = run("impute", model, mixed_path, "--out", tmp_path / "f.csv")
    assert result.exit_code == 0, result.output
    before, after = read_table(mixed_path), read_table(tmp_path / "f.csv")
    assert list(after.columns) == list(before.columns)
    assert not after.isna().any(axis=None)
    known = before.notna()
    assert (after.astype(object)[known] == before.astype(object)[known])[known].fillna(True).all(axis=None)
    expected = VISL.load(model).transform(before.drop(columns="who"))
    pd.testing.assert_frame_equal(after.drop(columns="who"), expected, check_dtype=False)
    assert f"Filled {int((~known).sum().sum())} gaps in 40 rows" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["f.csv"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv.gz", ".parquet", ".feather"])
def test_format_of_the_suffix(run, model, mixed_path, tmp_path, suffix):
    result = run("impute", model, mixed_path, "--out", tmp_path / f"f{suffix}", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert read_table(tmp_path / f"f{suffix}").shape == (40, 6)


def test_draws_are_stacked(run, model, mixed_path, tmp_path):
    result = run("impute", model, mixed_path, "--out", tmp_path / "d.csv", "--draws", 3, "--json")
    assert json.loads(result.stdout)["rows"] == 40
    table = read_table(tmp_path / "d.csv")
    assert list(table.columns[:2]) == ["draw", "who"]
    assert table["draw"].tolist() == [1] * 40 + [2] * 40 + [3] * 40
    assert table["who"].tolist() == read_table(mixed_path)["who"].tolist() * 3
    assert not table.isna().any(axis=None)


def test_interval_is_two_files(run, model, mixed_path, tmp_path):
    result = run("impute", model, mixed_path, "--out", tmp_path / "i.csv", "--interval", 0.8)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i-lower.csv", "i-upper.csv"]
    lower, upper = read_table(tmp_path / "i-lower.csv"), read_table(tmp_path / "i-upper.csv")
    assert (lower["height"] <= upper["height"]).all()
    gap = read_table(mixed_path)["height"].isna()
    assert (lower["height"] < upper["height"])[gap].all()
    assert lower["colour"].isna().any()  # its levels have no order
    assert "in columns without an order stayed" in result.stdout


def test_order_of_columns_does_not_matter(run, model, mixed, tmp_path):
    mixed.iloc[:, ::-1].to_csv(tmp_path / "turned.csv", index=False)
    mixed.to_csv(tmp_path / "plain.csv", index=False)
    for name in ("turned", "plain"):
        run("impute", model, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}-f.csv")
    turned, plain = (read_table(tmp_path / f"{name}-f.csv") for name in ("turned", "plain"))
    assert list(turned.columns) == list(mixed.columns[::-1])
    pd.testing.assert_frame_equal(turned[list(plain.columns)], plain)


def test_unseen_level_is_kept_with_a_notice(run, model, mixed, tmp_path):
    changed = mixed.copy()
    changed.loc[0, "colour"] = "violet"
    changed.to_csv(tmp_path / "t.csv", index=False)
    result = run("impute", model, tmp_path / "t.csv", "--out", tmp_path / "f.csv")
    assert result.exit_code == 0
    assert "Notice: column 'colour' holds 'violet', never seen in fit" in result.stderr
    assert "Warning" not in result.stderr
    assert read_table(tmp_path / "f.csv")["colour"][0] == "violet"


def test_columns_of_gaps_only_are_filled(run, model, mixed, tmp_path):
    empty = mixed.assign(height=np.nan, smoker=None, colour=None, score=np.nan, right=np.nan)
    empty.loc[:, "right"] = mixed["right"]
    empty.to_csv(tmp_path / "t.csv", index=False)
    result = run("impute", model, tmp_path / "t.csv", "--out", tmp_path / "f.csv")
    assert result.exit_code == 0, result.output
    filled = read_table(tmp_path / "f.csv")
    assert set(filled["smoker"]) <= {"no", "yes"}
    assert set(filled["colour"]) <= {"red", "green", "blue"}
    assert not filled.isna().any(axis=None)


def test_row_label_may_be_missing_or_other(run, model, mixed, tmp_path):
    mixed.drop(columns="who").assign(note="x").to_csv(tmp_path / "t.csv", index=False)
    result = run("impute", model, tmp_path / "t.csv", "--drop", "note", "--out", tmp_path / "f.csv")
    assert result.exit_code == 0, result.output
    assert list(read_table(tmp_path / "f.csv")["note"].unique()) == ["x"]


def test_long_log_fills_every_missing_pair(run, log_model, classroom, log_options, tmp_path):
    result = run("impute", log_model, classroom / "log.csv", *log_options, "--out", tmp_path / "f.csv")
    assert result.exit_code == 0, result.output
    log, filled = read_table(classroom / "log.csv"), read_table(tmp_path / "f.csv")
    assert list(filled.columns) == ["student", "question", "correct", "probability"]
    n_students = log["student"].nunique()  # who gave no answer at all is not in the log
    assert len(filled) + len(log) == n_students * 6
    pairs = pd.concat([log, filled])[["student", "question"]]
    assert not pairs.duplicated().any()
    assert filled["probability"].between(0.5, 1).all()


def test_long_log_fills_asked_cells(run, log_model, classroom, log_options, tmp_path):
    log = read_table(classroom / "log.csv")
    known = log.iloc[0]
    student = known["student"]
    asked = pd.DataFrame({"question": ["topic-3-2", known["question"]], "student": [student, student]})
    asked.to_csv(tmp_path / "cells.csv", index=False)
    arguments = (*log_options, "--cells", tmp_path / "cells.csv", "--out", tmp_path / "f.csv")
    result = run("impute", log_model, classroom / "log.csv", *arguments)
    assert result.exit_code == 0, result.output
    filled = read_table(tmp_path / "f.csv")
    assert filled["question"].tolist() == asked["question"].tolist()
    assert filled.loc[1, "correct"] == known["correct"]
    assert filled.loc[1, "probability"] == 1


def test_too_many_pairs_are_refused(refused, log_model, classroom, log_options, tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "MOST_PAIRS", 10)
    message = refused("impute", log_model, classroom / "log.csv", *log_options, "--out", tmp_path / "f.csv")
    assert "pairs are missing, more than 10" in message
    assert "--cells" in message
    assert not list(tmp_path.iterdir())


def test_unknown_cell_is_refused(refused, log_model, classroom, log_options, tmp_path):
    (tmp_path / "cells.csv").write_text("student,question\nnobody,topic-1-1\n")
    message = refused(
        *("impute", log_model, classroom / "log.csv", *log_options),
        *("--cells", tmp_path / "cells.csv", "--out", tmp_path / "f.csv"),
    )
    assert "'nobody' is not known" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cells", "c.csv"], ["--cells", "--long"]),
        (["--draws", "2", "--interval", "0.9"], ["--draws and --interval"]),
        (["--draws", "0"], ["--draws 0", "at least 1"]),
        (["--interval", "1.5"], ["--interval 1.5", "between 0 and 1"]),
        (["--row", "student"], ["--row student", "--long"]),
        (["--long", "--row", "student"], ["--long needs --column and --value"]),
        (["--id", "nobody"], ["no column 'nobody'"]),
    ],
)
def test_options_that_do_not_fit(refused, model, mixed_path, tmp_path, arguments, words):
    message = refused("impute", model, mixed_path, "--out", tmp_path / "f.csv", *arguments)
    assert all(word in message for word in words), message
    assert not list(tmp_path.iterdir())


def test_second_file_that_fails_takes_the_first_with_it(refused, model, mixed_path, tmp_path, monkeypatch):
    write = filling.write_table

    def fail_on_upper(frame, path, force):
        if "upper" in path.name:
            raise filling.InputError("could not write: disk full")
        write(frame, path, force)

    monkeypatch.setattr(filling, "write_table", fail_on_upper)
    refused("impute", model, mixed_path, "--out", tmp_path / "i.csv", "--interval", 0.9)
    assert not list(tmp_path.iterdir())


def test_input_is_never_the_output(refused, model, mixed, tmp_path):
    path = tmp_path / "t.csv"
    mixed.to_csv(path, index=False)
    content = path.read_bytes()
    message = refused("impute", model, path, "--out", tmp_path / "." / "t.csv", "--force")
    assert "never overwritten" in message
    assert path.read_bytes() == content


def test_evaluate_prints_and_writes(run, model, mixed_path, tmp_path):
    result = run("evaluate", model, mixed_path, "--hide", 0.4, "--out", tmp_path / "s.csv")
    assert result.exit_code == 0, result.output
    assert "used in fit" in result.stderr
    assert "known cells hidden" in result.stdout
    assert "Columns of numbers" in result.stdout
    scores = read_table(tmp_path / "s.csv")
    assert scores["column"].tolist()[-1] == "(all)"
    shown = json.loads(run("evaluate", model, mixed_path, "--hide", 0.4, "--json").stdout)
    assert shown["overall"]["cells"] == scores["cells"].iloc[-1]
    assert len(shown["columns"]) == 5


def test_evaluate_a_log(run, log_model, classroom, log_options):
    result = run("evaluate", log_model, classroom / "log.csv", *log_options)
    assert result.exit_code == 0, result.output
    assert "AUROC of binary cells" in result.stdout


def test_evaluate_refuses_a_bad_share(refused, model, mixed_path):
    assert "hide is 1.5" in refused("evaluate", model, mixed_path, "--hide", 1.5)
