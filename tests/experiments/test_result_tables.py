"""Rows as tables of Markdown, and the page that they stand on."""

import math

import numpy as np
import pytest

from experiment_helpers import row
from visl.experiments import eedi, find_experiment, scaling, tables
from visl.experiments.design import Experiment
from visl.experiments.page import HEAD, last_rows, sections, write_page
from visl.experiments.problem import Structure
from visl.experiments.rows import DONE, FAILED, OVER, append_row, pack_edges, row_of, rows_file

THREE = [row("Mean", name, rmse=value) for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
OVER_ROW, FAILED_ROW = row("Mean", "d", OVER), row("Mean", "e", FAILED, reason="no")


def lines_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]


# Single cells


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(0.25, 3, ".250"), (-0.5, 1, "-.5"), (0, 3, ".000"), (1.5, 1, "1.5"), (10.04, 1, "10.0"), (0.9996, 3, "1.000")],
)
def test_numbers(value, digits, shown):
    assert tables.number(value, digits) == shown


def test_mean_and_standard_error():
    # Deviation .1, error .1 / sqrt(3) = .0577.
    assert tables.summary(THREE, "rmse") == ".200 ± .058"
    assert tables.summary(THREE, "rmse", 1) == ".2 ± .1"
    assert tables.summary(THREE[:1], "rmse") == ".100"


def test_what_became_of_the_others():
    assert tables.summary([*THREE[:2], OVER_ROW], "rmse") == ".150 ± .050 (2 of 3)"
    assert tables.summary([*THREE, OVER_ROW, FAILED_ROW], "rmse") == ".200 ± .058 (3 of 5)"
    assert tables.summary([OVER_ROW, FAILED_ROW], "rmse") == "over the limit (1 min)"
    waiting = {**FAILED_ROW, "status": tables.NOT_RUN}
    assert tables.summary([waiting], "rmse") == "not run"
    assert tables.summary([*THREE, waiting], "rmse") == ".200 ± .058 (3 of 4)"
    assert tables.summary([FAILED_ROW], "rmse") == "failed"
    assert tables.summary([], "rmse") == tables.summary(THREE, "auroc") == "–"


def test_a_score_that_is_undefined_is_left_out_of_the_mean():
    assert tables.summary([row("Mean", "a", auroc=None), row("Mean", "b", auroc=0.75)], "auroc") == ".750"


# Tables


def test_means_beside_the_paper_s():
    rows = [*THREE, row("PC", "a", orientation_f1=0.5), row("VISL", "a", OVER), row("MICE", "a", rmse=2.0)]
    table = tables.means(rows, ["MICE", "Mean", "PC", "VISL", "KNN"], ["rmse", "coverage"], {"Mean": (0.125,)})
    assert lines_of(table) == [
        ["method", "RMSE", "coverage of 90 % intervals", "paper: RMSE"],
        ["---", "---:", "---:", "---:"],
        ["MICE", "2.000", "–", "–"],
        ["Mean", ".200 ± .058", "–", ".125"],
        ["VISL", "over the limit (1 min)", "over the limit (1 min)", "–"],
    ]


def test_scores_by_label():
    rows = [
        row("VISL", f"{label}{k}", label=label, rmse=r) for label, k, r in (("s", 0, 0.2), ("s", 1, 0.4), ("t", 0, 0.6))
    ]
    table = tables.scores_by_label(rows, ["VISL"], "rmse", ["s", "t", "u"], {"VISL": (0.1, 0.2, 0.3, 0.25)})
    assert lines_of(table) == [
        ["RMSE", "s", "t", "u", "all", "paper: s", "paper: t", "paper: u", "paper: all"],
        ["---", *["---:"] * 8],
        ["VISL", ".300 ± .100", ".600", "–", ".400 ± .115", ".100", ".200", ".300", ".250"],
    ]


def test_structure_shows_visl_twice_and_the_paper_below():
    scores = dict.fromkeys(tables.STRUCTURE_SCORES, 0.5)
    visl = row("VISL", "a", scores={**scores, "shd": 2, "edge_auroc": 0.9, "dag_orientation_f1": 0.75, "dag_shd": 1})
    rows = [visl, row("PC", "a", scores={**scores, "shd": 4})]
    found = lines_of(tables.structure(rows, ["PC", "VISL"], {"PC": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)}))[2:]
    assert found[0] == ["PC", *[".500"] * 7, "4.0", "–", "–"]
    assert found[1] == ["*paper: PC*", ".100", ".200", ".300", ".400", ".500", ".600", ".700", "–", "–", "–"]
    assert found[2] == ["VISL", *[".500"] * 7, "2.0", ".900", "–"]
    assert found[3] == ["VISL: acyclic graph", *["–"] * 5, ".750", "–", "1.0", "–", "–"]


def test_costs():
    rows = [
        row("Mean", "a", rmse=1, seconds=2.0, peak_mib=100.4),
        row("Mean", "b", rmse=1, seconds=4.0, peak_mib=1100.0),
        row("PC", "a", rmse=1, seconds=1.0, fill="knn"),
        row("VISL", "a", rmse=1, seconds=60.0, together=5, device="H"),
        row("GES", "a", FAILED, reason="a | b"),
        row("Tabu", "a", OVER),
    ]
    assert lines_of(tables.costs(rows, ["Mean", "PC", "VISL", "GES", "Tabu", "MMHC"]))[2:] == [
        ["Mean", "3", "1,100", "one CPU thread", ""],
        ["PC", "1", "–", "one CPU thread", "gaps of training filled by knn"],
        ["VISL", "60", "–", "H, 5 data sets side by side", ""],
        ["GES", "failed", "–", "–", "a / b"],
        ["Tabu", "over the limit (1 min)", "–", "–", ""],
    ]


def test_methods_stand_only_in_tables_of_what_they_can_do():
    """None is done, so the rows do not tell: MICE and PC are over the limit, VISL is not."""
    rows = [row(name, "a", OVER, label="D=5") for name in ("MICE", "PC", "VISL")]
    sections_of = find_experiment("synthetic").tables(rows)
    by_title = dict(zip(sections_of[::2], sections_of[1::2], strict=False))
    imputation, structure = (
        next(table for title, table in by_title.items() if title.startswith(start))
        for start in ("### Imputation: RMSE", "### Structure: all")
    )
    assert [line[0] for line in lines_of(imputation)[2:]] == ["MICE", "VISL"]
    assert [line[0] for line in lines_of(structure)[2:] if "paper" not in line[0]] == [
        "PC",
        "VISL",
        "VISL: acyclic graph",
    ]


# Tables of single experiments


def test_gains_over_the_question_mean_on_the_same_split():
    def on(method, split, value, **more):
        scores = dict.fromkeys(eedi.SCORES, value) | more
        return row(method, split, scores=scores, label="splits")

    rows = [
        on("Mean", "split 0", 0.6),
        on("Mean", "split 1", 0.7),
        on("VISL", "split 0", 0.7),
        on("VISL", "split 1", 0.9, auroc=None),
        on("VISL", "split 2", 0.1),  # has no question mean beside it
    ]
    found = lines_of(eedi.gains(rows, ["Mean", "VISL"]))
    assert found[0][1:] == ["accuracy", "AUROC", "AUPR (trapezoid)", "average precision",
                            "paper: accuracy", "paper: AUROC", "paper: AUPR (trapezoid)"]  # fmt: skip
    assert len(found) == 3
    # Gains .1 and .2: mean .15, error .05. The paper's: .7147 - .6260, .7815 - .6753, .8179 - .6906.
    both = ".1500 ± .0500 (2 of 3)"
    assert found[2] == ["VISL", both, ".1000 (2 of 3)", both, both, ".0887", ".1062", ".1273"]


def test_relations_of_five_runs():
    topics = {"names": ["a", "b", "c"], "level_2": ["A", "A", "C"], "level_1": ["x", "x", "z"]}
    first, second = np.zeros((3, 3)), np.zeros((3, 3))
    first[0, 1], second[0, 1], second[1, 2] = 0.9, 0.7, 0.4

    def run(name, matrix, label):
        return {
            **row("VISL", name, label=label, accuracy=0.7),
            "edges": pack_edges(Structure(matrix > 0.5, matrix)),
            "about": topics,
        }

    rows = [
        run("split 0", first, "splits"),
        run("split 0, run 1", second, "runs"),
        run("split 1", np.ones((3, 3)), "splits"),
    ]
    page = eedi.make_tables(rows)
    summary = lines_of(
        page[page.index("### Relations between topics: edges of VISL over 0.35, of others their own, in any run") + 1]
    )
    assert summary[2] == ["VISL", "2", "2", "50%", "50%", "50", "82%", "36%"]
    across = lines_of(page[page.index("### VISL: relations across level-1 topics (from down, to across)") + 1])
    assert across[0][1:] == ["x", "z"]
    assert across[2:] == [["x", "1", "1"], ["z", "0", "0"]]
    listed = lines_of(page[page.index("### VISL: the relations") + 1])
    assert listed[2:] == [["a (A, x)", "b (A, x)", ".800", "2"], ["b (A, x)", "c (C, z)", ".200", "1"]]


def test_the_limit_that_a_picture_shows_is_that_of_cells_that_were_over_it():
    over, quick = {"status": "over the limit", "limit_s": 600.0, "seconds": 600.0}, {"status": "done", "seconds": 500.0}
    assert scaling.limit_of([over, {**quick, "limit_s": 1800.0}]) == 600
    assert scaling.limit_of([over, {**quick, "limit_s": 1800.0, "seconds": 700.0}]) == 1800
    assert scaling.limit_of([{**quick, "limit_s": 1800.0}]) == 1800


def test_running_times():
    rows = [
        row("GES", "4 variables, seed 0", label="4", size=4, seconds=60.0, shd=1),
        row("GES", "4 variables, seed 1", label="4", size=4, seconds=120.0, shd=1),
        row("GES", "8 variables, seed 0", label="8", size=8, seconds=60.0, shd=1),
        row("GES", "8 variables, seed 1", OVER, label="8", size=8, seconds=None),
        row("GES", "16 variables, seed 0", FAILED, label="16", size=16),
    ]
    assert scaling.mean_seconds(rows) == {"GES": {4: 90, 8: math.inf}}
    table = lines_of(scaling.make_tables(rows)[1])
    assert table[2:] == [["GES (one CPU thread)", "1.5", "1 (1 of 2)", "failed", *["–"] * 5]]
    printed = lines_of(scaling.make_tables(rows)[2])
    mmhc = next(line for line in printed if line[0] == "MMHC")
    assert mmhc[1:] == ["7.9", "69", "543", "1315", *["over a day"] * 4]


# The page


@pytest.fixture
def results(tmp_path):
    """Rows of the experiment `rounds`: the first cell failed once, then it was done; the second is over the limit."""
    folder = tmp_path / "results"
    first, second = find_experiment("rounds").cells()[:2]
    file = rows_file(folder, "rounds")
    append_row(file, row_of(first, FAILED, reason="no", limit_s=60))
    append_row(file, row_of(first, DONE, scores={"rmse": 0.125}, seconds=1.0, limit_s=60))
    append_row(file, row_of(second, OVER, seconds=60, limit_s=60))
    no_more = row_of(first, DONE, scores={"rmse": 0.5}, seconds=1.0, limit_s=60)
    append_row(file, {**no_more, "key": "of settings that are no more"})
    return folder


def test_the_last_row_of_every_cell_counts(results):
    rows = last_rows(find_experiment("rounds"), results, smoke=False)
    assert [row["status"] for row in rows] == [DONE, OVER, *[tables.NOT_RUN] * (len(rows) - 2)]
    assert [row["key"] for row in rows] == [cell.key for cell in find_experiment("rounds").cells()]
    assert rows[0]["scores"] == {"rmse": 0.125}
    assert last_rows(find_experiment("rounds"), results, smoke=True) == []


def test_the_page_has_notes_and_tables_of_experiments_with_rows(results):
    (results / "rounds.notes.md").write_text("T = 3 is enough.\n", encoding="utf-8")
    (results / "gaps.notes.md").write_text("There are no rows of gaps.", encoding="utf-8")
    page = write_page(results, results.parent / "docs" / "page.md", smoke=False, data=None).read_text(encoding="utf-8")
    assert page.startswith(HEAD)
    assert [line for line in page.split("\n") if line.startswith("## ")] == [
        "## The effect of the number of message rounds T"
    ]
    at = page.index("\n\n`visl experiment rounds`\n\nT = 3 is enough.\n\nNot run: VISL, T=3; ")
    assert page.index("| VISL, T=1 | .125 (1 of 15) | – |") > at
    assert "| VISL, T=2 | over the limit (1 min) |" in page


def test_pictures_have_paths_relative_to_the_page(tmp_path):
    made_up = Experiment(
        "made-up", "Title", lambda smoke: [], (), lambda *_: pytest.fail("loaded"), lambda rows: ["| table |"]
    )
    picture = tmp_path / "results" / "made-up-d-5-edges.png"
    parts = sections(made_up, [], [picture], tmp_path / "results", tmp_path / "docs")
    assert parts == [
        "## Title",
        "`visl experiment made-up`",
        "| table |",
        "![made-up-d-5-edges](../results/made-up-d-5-edges.png)",
    ]
    assert sections(made_up, [], [picture], tmp_path, tmp_path / "results")[-1].endswith("](made-up-d-5-edges.png)")


def test_pictures_of_before_stay_when_the_data_are_gone(tmp_path):
    experiment = find_experiment("neuropathic")
    rows = [row_of(experiment.cells()[0], DONE, scores={}, seconds=1.0)]
    picture = tmp_path / "neuropathic-data-set-1-edges.png"
    picture.write_bytes(b"")
    (tmp_path / "eedi-other.png").write_bytes(b"")
    for data in (None, tmp_path / "elsewhere"):
        assert experiment.pictures(rows, tmp_path, data) == [picture]
