"""`visl experiment` from end to end, in small trials."""

import json
import math
import re
import signal
from pathlib import Path

import pytest

from experiment_helpers import write_class, write_mixed, write_network, write_neuropathic, write_sachs
from visl.experiments import NAMES, find_experiment, runner
from visl.experiments.methods import finds_structure, imputes
from visl.experiments.rows import DONE, FAILED, OVER, read_rows

CHEAP = {
    "synthetic": ("Mean", "GES", "VISL"),
    "gaps": ("Mean", "GES", "VISL"),
    "rounds": ("VISL, T=1", "VISL, T=2"),
    "neuropathic": ("Majority vote", "GES", "VISL"),
    "eedi": ("Mean", "Random edges", "VISL"),
    "scaling": ("GES", "VISL"),
    "mixed": ("Mean", "KNN", "VISL, default preset"),
    "sachs": ("GES", "VISL, default preset"),
    "networks": ("GES", "VISL, graph of the default preset"),
    "ablation": ("VISL, default preset",),
}
CELLS = {"synthetic": 3, "gaps": 6, "rounds": 2, "neuropathic": 3, "eedi": 4, "scaling": 4, "mixed": 3, "sachs": 2}
CELLS |= {"networks": 2, "ablation": 4}
SCORES_OF_IMPUTERS = {"synthetic": ("rmse", "rmse_by_column"), "eedi": ("accuracy", "auroc", "aupr")}
SCORES_OF_FINDERS = {"synthetic": ("adjacency_f1", "orientation_f1", "causal_accuracy"), "eedi": ()}  # of a known graph
PICTURES = {"synthetic": 4, "neuropathic": 3, "scaling": 1}


def named(*methods: str) -> list[str]:
    return [part for name in methods for part in ("--method", name)]


def pictures_of(page: Path) -> list[Path]:
    return [page.parent / link for link in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    write_class(folder)
    write_neuropathic(folder / "neuropathic_pain")
    write_mixed(folder / "tabular")
    write_sachs(folder / "sachs")
    write_network(folder / "bnlearn")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_small_trial(run, data, tmp_path, name):
    page = tmp_path / "docs" / "page.md"
    command = ("experiment", name, "--smoke", "--out", tmp_path / "out", "--page", page, "--data", data)
    result = run(*command, *named(*CHEAP[name]), "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["cells"] == {DONE: CELLS[name], OVER: 0, FAILED: 0}
    assert said["failures"] == []
    rows = read_rows(tmp_path / "out" / "smoke" / f"{name}.jsonl")
    assert {row["method"] for row in rows} == set(CHEAP[name])
    assert len({row["key"] for row in rows}) == len(rows) == CELLS[name]
    assert all(row["smoke"] for row in rows)
    text = page.read_text(encoding="utf-8")
    for method in CHEAP[name]:
        assert f"| {method} |" in text
    pictures = pictures_of(page)
    assert len(pictures) == PICTURES.get(name, 0)
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG")

    again = run(*command, *named(*CHEAP[name]))
    assert again.exit_code == 0, again.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["smoke"]
    assert f"{CELLS[name]} of {CELLS[name]} cells are there already" in again.stderr
    assert read_rows(tmp_path / "out" / "smoke" / f"{name}.jsonl") == rows
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["synthetic", "eedi"])
def test_a_small_trial_of_all_methods(run, data, tmp_path, name):
    for library in ("causallearn", "castle", "dagma", "pyagrum", "pgmpy"):
        pytest.importorskip(library)
    result = run("experiment", name, "--smoke", "--out", tmp_path, "--data", data, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["failures"] == []
    rows = read_rows(tmp_path / "smoke" / f"{name}.jsonl")
    assert said["cells"] == {DONE: len(rows), OVER: 0, FAILED: 0}
    method_of = {contender.name: contender.method for contender in find_experiment(name).contenders}
    assert {row["method"] for row in rows} == set(method_of)
    for row in rows:
        method = method_of[row["method"]]
        for score in SCORES_OF_IMPUTERS[name] if imputes(method) else ():
            assert 0 <= row["scores"][score] <= 1, row
        if method in ("visl", "pvae"):
            assert 0 <= row["scores"]["coverage"] <= 1, row
            assert math.isfinite(row["scores"]["log_likelihood"]), row
        if finds_structure(method):
            assert row["edges"]["nodes"] > 1, row
            for score in SCORES_OF_FINDERS[name]:
                assert 0 <= row["scores"][score] <= 1, row


def test_tables_only_runs_nothing(run, tmp_path, monkeypatch):
    command = ("experiment", "synthetic", "--smoke", "--out", tmp_path)
    page = tmp_path / "smoke" / "results.md"
    assert run(*command, *named("Mean")).exit_code == 0
    before = page.read_text(encoding="utf-8")
    page.unlink()
    monkeypatch.setattr(runner, "run_cell", lambda *arguments, **more: pytest.fail("ran"))
    result = run(*command, "--tables-only")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Written: {page}\n"
    assert page.read_text(encoding="utf-8") == before
    assert [row["method"] for row in read_rows(tmp_path / "smoke" / "synthetic.jsonl")] == ["Mean"]


def test_all_leaves_out_what_cannot_run(run, data, tmp_path):
    result = run("experiment", "all", "--smoke", "--out", tmp_path, *named("mean", "GES"), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["cells"][DONE] == 2 + 4 + 2
    for name in ("rounds", "ablation"):
        assert f"Notice: {name} is left out: it has none of the methods that were named" in result.stderr
    for name in ("neuropathic", "eedi", "mixed", "sachs", "networks"):
        assert f"Notice: {name} is left out: this experiment needs the" in result.stderr
    assert result.stderr.count("is left out") == 7
    rows = {name: read_rows(tmp_path / "smoke" / f"{name}.jsonl") for name in NAMES}
    assert {name for name in NAMES if rows[name]} == {"synthetic", "gaps", "scaling"}
    assert {row["method"] for row in rows["scaling"]} == {"GES"}

    only = ("--data-set", "D=5, seed 0", "--data-set", "data set 1")
    result = run("experiment", "all", "--smoke", "--out", tmp_path, "--data", data, *named("Majority vote"), *only)
    assert result.exit_code == 0, result.output
    assert "2 cells: 2 done." in result.stdout
    assert "Notice: gaps is left out: it has none of the data sets that were named" in result.stderr


def test_all_with_nothing_left(run, tmp_path):
    result = run("experiment", "all", "--smoke", "--out", tmp_path / "out", "--data-set", "data set 1")
    assert result.exit_code == 2
    assert "Notice: neuropathic is left out: this experiment needs the neuropathic data sets" in result.stderr
    assert "Error: no experiment is left to run" in result.stderr
    assert not list(tmp_path.iterdir())


def test_failures_are_said_and_do_not_end_the_others(run, tmp_path, monkeypatch):
    from visl.experiments import cells

    find = cells.find_method

    def broken(*arguments, **more):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(cells, "find_method", lambda name: broken if name == "mean" else find(name))
    result = run("experiment", "synthetic", "--smoke", "--out", tmp_path, *named("Mean", "Majority vote"))
    assert result.exit_code == 1, result.output
    assert f"2 cells: 1 {DONE}, 1 {FAILED}." in result.stdout
    assert "Failed: Mean on D=5, seed 0: ZeroDivisionError: no" in result.stdout
    assert "Error: 1 cell failed; the same command tries again" in result.stderr
    assert "| Majority vote |" in (tmp_path / "smoke" / "results.md").read_text(encoding="utf-8")


@pytest.fixture
def heeds_ctrl_c():
    """A shell that starts tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_goes_on(run, tmp_path, monkeypatch, signum, code):
    command = ("experiment", "synthetic", "--smoke", "--out", tmp_path, *named("Mean", "Majority vote", "KNN"))
    run_cell, calls = runner.run_cell, []

    def interrupted(experiment, cell, **more):
        calls.append(cell.contender.name)
        if len(calls) == 2:
            signal.raise_signal(signum)
        return run_cell(experiment, cell, **more)

    monkeypatch.setattr(runner, "run_cell", interrupted)
    stopped = run(*command)
    assert stopped.exit_code == code
    assert "Error: interrupted; finished cells are kept" in stopped.stderr
    assert [row["method"] for row in read_rows(tmp_path / "smoke" / "synthetic.jsonl")] == ["Mean"]
    assert run(*command).exit_code == 0
    assert calls == ["Mean", "Majority vote", "Majority vote", "KNN"]


def test_help_names_the_extra(run):
    result = run("experiment", "--help")
    assert "pip install 'visl[baselines]'" in " ".join(result.stdout.split())
    assert "\\" not in result.stdout


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("nowhere",),
            "no experiment 'nowhere': use one of synthetic, gaps, rounds, neuropathic, eedi, scaling, mixed, ",
        ),
        (("synthetic", "--limit", 0), "--limit 0 leaves no time: give minutes above 0"),
        (("synthetic", "--limit", -1.5), "--limit -1.5 leaves no time"),
        (("synthetic", "--jobs", 0), "--jobs 0: give at least 1"),
        (("synthetic", "--backend", "mpi"), "--backend mpi: use one of loky, threading, dask, ray"),
        (("synthetic", "--device", "nowhere"), "device 'nowhere' cannot be used here"),
        (("synthetic", "--smoke", "--method", "forest"), "'forest' is no method of the experiment synthetic"),
        (
            ("synthetic", "--smoke", "--data-set", "D=6"),
            "'D=6' is no data set of the experiment synthetic: use any of 'D",
        ),
        (("synthetic", "--smoke", "--method", "VISL own networks"), "'VISL', 'VISL, own networks', "),
        (("eedi", "--smoke"), "needs the Eedi data of the NeurIPS 2020 Education Challenge"),
        (("neuropathic", "--smoke"), "needs the neuropathic data sets: put true_dag.csv"),
        (
            ("all", "--smoke", "--method", "forest"),
            "'forest' is no method of any experiment: use any of 'Majority ",
        ),
        (("all", "--smoke", "--data-set", "D=6"), "'D=6' is no data set of any experiment: use any of 'D=5, seed 0'"),
        (("synthetic", "--tables-only"), "no rows of results in "),
        (("synthetic", "--tables-only", "--smoke"), "smoke: choose another --out, or run an experiment first"),
    ],
)
def test_refused_with_nothing_written(refused, tmp_path, arguments, words):
    assert words in refused("experiment", *arguments, "--out", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["eedi", "neuropathic", "mixed", "sachs", "networks"])
def test_a_folder_without_the_data(refused, tmp_path, name):
    (tmp_path / "empty").mkdir()
    said = refused("experiment", name, "--smoke", "--data", tmp_path / "empty", "--out", tmp_path / "out")
    assert "there is no" in said
    assert "give --data DIR" in said
    assert not (tmp_path / "out").exists()


def test_places_that_cannot_be_written(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_cell", lambda *arguments, **more: pytest.fail("ran"))
    command = ("experiment", "synthetic", "--smoke", *named("Mean"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    out = ("--out", tmp_path / "out")
    assert "is a folder: give the name of a file to --page" in refused(*command, *out, "--page", tmp_path / "folder")
    assert "file is a file, and a folder" in refused(*command, *out, "--page", tmp_path / "file" / "page.md")
    assert "file is a file, and a folder" in refused(*command, "--out", tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_damaged_rows_are_refused(refused, tmp_path):
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke" / "synthetic.jsonl").write_text("{}\n")
    said = refused("experiment", "synthetic", "--smoke", "--out", tmp_path, *named("Mean"))
    assert "synthetic.jsonl, line 1, is no row of results" in said
