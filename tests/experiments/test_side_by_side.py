"""Data sets trained as members of one model: the same answers as alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiment_helpers import made_up_cell
from visl.experiments import ablation, find_experiment, synthetic
from visl.experiments.cells import run_cell
from visl.experiments.design import Cell, Contender, DataSet
from visl.experiments.methods import side_by_side
from visl.experiments.methods.side_by_side import (
    OverTheLimit,
    can_share_a_model,
    schema_of,
    visl,
    visl_side_by_side,
)
from visl.experiments.problem import Problem, Run
from visl.experiments.rows import DONE, FAILED, OVER
from visl.experiments.together import groups, run_together
from visl.graph.posterior import DecidedPosterior, EdgePosterior

VISL = Contender("VISL", "visl", {"preset": "paper-synthetic"})


def synthetic_cell(seed: int, D: int = 5, rows: tuple[int, int] = (80, 30)) -> Cell:
    return Cell("synthetic", DataSet(f"{D}, {seed}", D, {"D": D, "seed": seed, "rows": rows}), VISL, seed, smoke=True)


def answers(seed: int) -> Problem:
    """Five right/wrong questions in groups of 2, 1 and 2; every gap of the test rows is asked."""
    rng = np.random.default_rng(seed)
    values = (rng.random((70, 5)) < 0.6).astype(float)
    values[rng.random(values.shape) < 0.2] = np.nan
    rows, columns = np.nonzero(np.isnan(values[50:]))
    return Problem(values[:50], values[50:], rows, columns, ("binary",) * 5, np.array([0, 0, 1, 2, 2]))


COLUMNS = [synthetic.load(synthetic_cell(seed).data_set, None)[0] for seed in (0, 1)]


@pytest.mark.parametrize(
    ("problems", "settings", "posterior"),
    [
        (COLUMNS, {"preset": "paper-synthetic"}, EdgePosterior),
        ([answers(0), answers(1)], {"preset": "default"}, EdgePosterior),
        (COLUMNS, {"preset": "default", "n_members": 3, "epoch_steps": 1}, DecidedPosterior),
    ],
    ids=["columns", "groups", "ensemble"],
)
def test_a_data_set_is_answered_as_it_would_be_alone(problems, settings, posterior):
    runs = [Run(seed=seed, epochs=4, small=True) for seed in (3, 4)]
    together = visl_side_by_side(problems, runs, **settings)
    for problem, run, answer in zip(problems, runs, together, strict=True):
        alone = visl(problem, run, **settings)
        M = problem.n_groups
        assert answer.structure.probabilities.shape == (M, M)
        assert answer.structure.probabilities == pytest.approx(alone.structure.probabilities, abs=1e-4)
        chosen = posterior.edges_above(answer.structure.probabilities, 0.5)
        assert answer.structure.edges.tolist() == chosen.tolist()
        for name in ("mean", "low", "high"):
            assert getattr(answer.imputation, name) == pytest.approx(getattr(alone.imputation, name), abs=1e-4), name
        values = np.zeros(len(problem.asked_row))
        assert answer.imputation.log_density(values) == pytest.approx(alone.imputation.log_density(values), abs=1e-3)
        if problem.is_binary.all():
            # log p(0) of a binary cell is that of the probability that its mean is.
            assert np.exp(answer.imputation.log_density(values)) == pytest.approx(1 - answer.imputation.mean, abs=1e-3)
        assert answer.settings == alone.settings
        assert answer.settings["epochs"] == 4


def test_groups_are_the_problem_s_own():
    schema = schema_of(answers(0))
    assert [column.group for column in schema.columns] == [0, 0, 1, 2, 2]
    assert schema.grouped
    assert schema.groups == (0, 1, 2)
    assert not schema_of(replace(answers(0), group_of=np.arange(5))).grouped


def test_who_can_share_a_model():
    first = answers(0)
    assert can_share_a_model(first, answers(1))
    assert not can_share_a_model(first, replace(first, group_of=np.array([0, 0, 0, 1, 2])))
    assert not can_share_a_model(first, replace(first, kinds=("continuous",) * 5))
    assert not can_share_a_model(first, replace(first, train=first.train[1:]))


def test_training_stops_when_time_is_up():
    with pytest.raises(OverTheLimit):
        visl_side_by_side([answers(0)], [Run(epochs=50, small=True)], time_is_up=lambda: True)


def test_nothing_asked_nothing_imputed():
    empty = np.zeros(0, int)
    problem = replace(answers(0), test=np.zeros((0, 5)), asked_row=empty, asked_column=empty)
    assert visl(problem, Run(epochs=1, small=True)).imputation is None


def test_rows_of_cells_side_by_side_have_the_scores_of_each_alone():
    experiment, cells = find_experiment("synthetic"), [synthetic_cell(seed) for seed in (0, 1)]
    rows = list(run_together(experiment, cells, data=None, device="cpu", limit_s=600))
    assert [(row["together"], row["status"], row["device"], row["limit_s"]) for row in rows] == [
        (2, DONE, "cpu", 600)
    ] * 2
    assert rows[0]["seconds"] == rows[1]["seconds"]
    for row, cell in zip(rows, cells, strict=True):
        alone = run_cell(experiment, cell, data=None, device="cpu")
        assert row["key"] == alone["key"]
        assert row["scores"] == pytest.approx(alone["scores"], abs=1e-3)
        assert np.isfinite(row["scores"]["rmse"])


def test_tables_of_other_lengths_are_trained_alone():
    cells = [synthetic_cell(0), synthetic_cell(1, rows=(70, 30))]
    rows = list(run_together(find_experiment("synthetic"), cells, data=None, device="cpu", limit_s=600))
    assert [(row["together"], row["status"]) for row in rows] == [(1, DONE)] * 2


def test_a_small_trial_is_more_than_few_epochs():
    few, small = (visl(answers(0), Run(epochs=1, small=flag)).settings for flag in (False, True))
    assert few["epochs"] == small["epochs"] == 1
    assert (small["latent_dim"], small["n_draws"]) == (8, 5)
    assert few["latent_dim"] != 8


def test_over_the_limit_and_failures_are_rows_of_every_member():
    experiment, cells = find_experiment("synthetic"), [synthetic_cell(seed) for seed in (0, 1)]
    rows = list(run_together(experiment, cells, data=None, device="cpu", limit_s=0))
    assert [(row["status"], row["together"], row["key"]) for row in rows] == [(OVER, 1, cell.key) for cell in cells]
    assert {(row["device"], row["limit_s"]) for row in rows} == {("cpu", 0)}
    wrong = [replace(cell, contender=Contender("VISL", "visl", {"preset": "nobody's"})) for cell in cells]
    rows = list(run_together(experiment, wrong, data=None, device="cpu", limit_s=60))
    assert [(row["status"], row["device"], row["limit_s"]) for row in rows] == [(FAILED, "cpu", 60)] * 2
    assert all("nobody's" in row["reason"] for row in rows)


@pytest.mark.parametrize("error", [OverTheLimit(), torch.OutOfMemoryError("CUDA out of memory"), ValueError("NaN")])
def test_what_is_too_much_together_is_tried_one_by_one(monkeypatch, error):
    """Members 0 and 1 are too much together, member 1 is so alone."""
    tried, whole = [], side_by_side.visl_side_by_side

    def some(problems, runs, **more):
        seeds = [run.seed for run in runs]
        tried.append(seeds)
        if seeds != [0]:
            raise error
        return whole(problems, runs, **more)

    monkeypatch.setattr(side_by_side, "visl_side_by_side", some)
    experiment, cells = find_experiment("synthetic"), [synthetic_cell(seed) for seed in (0, 1)]
    rows = list(run_together(experiment, cells, data=None, device="cpu", limit_s=60))
    assert tried == [[0, 1], [0], [1]]
    last = OVER if isinstance(error, OverTheLimit) else FAILED
    assert [(row["status"], row["key"]) for row in rows] == [(DONE, cells[0].key), (last, cells[1].key)]
    assert rows[0]["together"] == 1
    if last == FAILED:
        assert rows[1]["reason"] == f"{type(error).__name__}: {error}"


def test_one_by_one_no_member_is_tried_that_is_no_longer_worth_it():
    """Each is asked about when the row of the one before is there."""
    experiment, cells = find_experiment("synthetic"), [synthetic_cell(seed) for seed in (0, 1, 2)]
    rows = []

    def worth_trying(members):
        return (cell for cell in members if not rows)

    for row in run_together(experiment, cells, data=None, device="cpu", limit_s=0, worth_trying=worth_trying):
        rows.append(row)
    assert [row["key"] for row in rows] == [cells[0].key]


def test_a_member_that_cannot_be_loaded_does_not_end_the_others():
    experiment, cells = find_experiment("synthetic"), [synthetic_cell(seed) for seed in (0, 1)]
    missing = replace(cells[0], data_set=replace(cells[0].data_set, settings={}))
    rows = list(run_together(experiment, [missing, cells[1]], data=None, device="cpu", limit_s=60))
    assert [(row["status"], row["key"]) for row in rows] == [(FAILED, missing.key), (DONE, cells[1].key)]


def test_cells_of_one_contender_and_size_go_together():
    cells = [
        made_up_cell(method, f"{size}, {seed}", size=size, seed=seed)
        for method in ("VISL", "VISL, own networks")
        for size in (5, 7)
        for seed in (0, 1)
    ]
    found = groups(cells)
    assert [[cell.data_set.name for cell in group] for group in found] == [["5, 0", "5, 1"], ["7, 0", "7, 1"]] * 2
    assert [{cell.contender.name for cell in group} for group in found[::2]] == [{"VISL"}, {"VISL, own networks"}]


# -- a graph that is known


@pytest.mark.parametrize(("graph", "n_edges"), [("no edges", 0), ("true", None), ("every pair", 10)])
def test_a_known_graph_is_what_comes_out(graph, n_edges):
    data_set = next(one for one in ablation.data_sets(smoke=True) if one.label == graph)
    problem, truth = ablation.load(data_set, None)
    answer = visl(problem, Run(seed=0, epochs=4, small=True), preset="default")
    np.testing.assert_array_equal(answer.structure.edges, problem.known_edges)
    assert answer.structure.edges.sum() == (truth.edges.sum() if n_edges is None else n_edges)
    assert not np.linalg.matrix_power(problem.known_edges.astype(float), 5).any()  # acyclic: no path has five edges


def test_a_graph_to_be_learned_is_not_told():
    data_set = next(one for one in ablation.data_sets(smoke=True) if one.label == "learned")
    assert ablation.load(data_set, None)[0].known_edges is None
