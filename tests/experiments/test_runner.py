"""All cells of an experiment: one row each, whatever happens on the way."""

import numpy as np
import pytest
from joblib import register_parallel_backend
from joblib.parallel import ThreadingBackend

from visl.errors import InputError
from visl.experiments import cells as cells_module
from visl.experiments import find_experiment, methods, runner
from visl.experiments.cells import filled, run_cell
from visl.experiments.design import Contender, DataSet, Experiment
from visl.experiments.problem import Answer, Imputation, Problem, Run, Structure, Truth
from visl.experiments.rows import DONE, FAILED, OVER, read_rows, row_of, rows_file
from visl.experiments.runner import How, plan, run_experiment

HERE = How(limit_s=60, isolated=False)
NAN = np.nan


def load(data_set: DataSet, data: object) -> tuple[Problem, Truth]:
    """Two hidden cells, 0 and 1, and a graph 0 -> 1."""
    test = np.array([[NAN, 0.2], [0.1, NAN]])
    problem = Problem(np.eye(2), test, np.array([0, 1]), np.array([0, 1]), ("continuous",) * 2, np.arange(2))
    return problem, Truth(np.array([0.0, 1.0]), np.array([[0, 1], [0, 0]], bool), {"names": ["a", "b"]})


class Fakes:
    """Methods by name, and how often each was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.broken = True

    def find(self, name: str):
        def method(problem: Problem, run: Run, **settings: float) -> Answer:
            self.calls.append((name, run.seed))
            return getattr(self, name)(**settings)

        return method

    def constant(self, value: float = 0.5) -> Answer:
        return Answer(Imputation(np.full(2, value)), settings={"value": value})

    def arrow(self) -> Answer:
        probabilities = np.array([[0, 0.25], [0.75, 0]])
        return Answer(structure=Structure(probabilities > 0.5, probabilities))

    def fragile(self) -> Answer:
        if self.broken:
            raise ZeroDivisionError("all columns are the same")
        return self.constant()


@pytest.fixture
def fakes(monkeypatch):
    found = Fakes()
    monkeypatch.setattr(cells_module, "find_method", found.find)
    return found


def experiment(*contenders: Contender, sizes: tuple[int, ...] = (2, 3), download: str | None = None) -> Experiment:
    return Experiment(
        name="made-up",
        title="",
        data_sets=lambda smoke: [DataSet(f"of {D}", D, {"seed": D}) for D in sizes],
        contenders=contenders or (CONSTANT, FRAGILE, ARROW),
        load=load,
        tables=lambda rows: [],
        keeps_edges=True,
        download=download,
    )


CONSTANT, FRAGILE, ARROW = (
    Contender("One", "constant", {"value": 1.0}),
    Contender("F", "fragile"),
    Contender("A", "arrow"),
)


def run_all(of: Experiment, folder, how: How = HERE, **more):
    return run_experiment(of, plan(of, how.data), folder, how, **more)


def test_every_cell_becomes_a_row(fakes, tmp_path):
    started = []
    of = experiment()
    rows = run_all(of, tmp_path, on_start=lambda *numbers: started.append(numbers))
    assert started == [(0, 6)]
    assert [(row["method"], row["data_set"], row["status"]) for row in rows] == [
        (name, data_set, FAILED if name == "F" else DONE) for data_set in ("of 2", "of 3") for name in ("One", "F", "A")
    ]
    assert read_rows(rows_file(tmp_path, "made-up")) == rows
    one, failed, arrow = rows[:3]
    # Errors of the two cells: 1 and 0.
    assert one["scores"] == {"rmse": pytest.approx(0.5**0.5), "rmse_by_column": 0.5}
    assert one["settings"] == {"value": 1.0}
    assert (one["limit_s"], one["seed"], one["size"]) == (60, 2, 2)
    assert failed["reason"] == "ZeroDivisionError: all columns are the same"
    # The only edge is predicted the wrong way round.
    assert (arrow["scores"]["adjacency_f1"], arrow["scores"]["orientation_f1"], arrow["scores"]["shd"]) == (1, 0, 1)
    assert arrow["edges"]["list"] == [[0, 1, 0.25], [1, 0, 0.75]]
    assert arrow["about"] == {"names": ["a", "b"]}


def test_what_failed_is_tried_again_and_the_rest_is_not(fakes, tmp_path):
    of = experiment()
    run_all(of, tmp_path)
    fakes.calls.clear()
    fakes.broken = False
    started = []
    rows = run_all(of, tmp_path, on_start=lambda *numbers: started.append(numbers))
    assert started == [(4, 6)]
    assert fakes.calls == [("fragile", 2), ("fragile", 3)]
    assert [row["status"] for row in rows] == [DONE] * 6
    assert len(read_rows(rows_file(tmp_path, "made-up"))) == 8


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_run_goes_on_with_the_cells_that_are_left(fakes, tmp_path, after, error):
    of = experiment(CONSTANT, ARROW)
    rows = []

    def stop(row):
        rows.append(row)
        if len(rows) == after:
            raise error

    with pytest.raises(error):
        run_all(of, tmp_path, on_row=stop)
    assert read_rows(rows_file(tmp_path, "made-up")) == rows
    fakes.calls.clear()
    assert len(run_all(of, tmp_path, on_row=rows.append)) == 4
    assert len(fakes.calls) == 4 - after
    assert len({row["key"] for row in rows}) == len(rows) == 4


def test_after_the_limit_no_larger_size_is_tried(fakes, tmp_path, monkeypatch):
    """The method of A is over the limit on the second of four data sets, the sizes of which are 2, 3, 3 and 4."""
    of = experiment(CONSTANT, ARROW, sizes=(2, 3, 4))
    data_sets = [*of.data_sets(False), DataSet("of 3 again", 3, {"seed": 9})]
    of = Experiment(**{**of.__dict__, "data_sets": lambda smoke: data_sets})
    tried = []

    def run_isolated(cell, *, data, device, limit_s):
        tried.append((cell.contender.name, cell.data_set.name))
        if cell.contender.name == "A" and cell.data_set.size >= 3:
            return row_of(cell, OVER, limit_s=limit_s, seconds=limit_s)
        return {**run_cell(of, cell, data=None, device=device), "limit_s": limit_s}

    monkeypatch.setattr(runner, "run_isolated", run_isolated)
    rows = run_all(of, tmp_path, How(limit_s=60))
    assert [name for method, name in tried if method == "A"] == ["of 2", "of 3"]
    of_arrow = [row for row in rows if row["method"] == "A"]
    assert [row["status"] for row in of_arrow] == [DONE, OVER, OVER, OVER]
    assert [row.get("reason") for row in of_arrow[2:]] == ["not tried: of 3 was over"] * 2
    assert [row["status"] for row in rows if row["method"] == "One"] == [DONE] * 4

    tried.clear()
    run_all(of, tmp_path, How(limit_s=30))
    assert tried == []
    run_all(of, tmp_path, How(limit_s=61))  # a larger limit is another chance
    assert tried == [("A", "of 3")]


class InOnePiece(ThreadingBackend):
    """As Ray's: results come all at once."""

    supports_return_generator = False


def test_a_backend_that_hands_over_all_at_once_works_in_rounds(tmp_path, monkeypatch):
    """Each round is as large as there are jobs, and its rows are kept before the next one."""
    register_parallel_backend("in one piece", InOnePiece)
    of = experiment(CONSTANT, FRAGILE, ARROW, sizes=(2,))
    file, before = rows_file(tmp_path, "made-up"), []

    def run_isolated(cell, *, data, device, limit_s):
        before.append(len(read_rows(file)))
        return row_of(cell, DONE, scores={})

    monkeypatch.setattr(runner, "run_isolated", run_isolated)
    rows = run_all(of, tmp_path, How(jobs=2, backend="in one piece"))
    assert [row["method"] for row in rows] == ["One", "F", "A"]
    assert before == [0, 0, 2]


def test_only_methods_that_use_a_gpu_get_it(tmp_path, monkeypatch):
    names = ("mean", "notears_nonlinear", "dag_gnn", "pc")
    of = experiment(*(Contender(name, name) for name in names), sizes=(2,))
    monkeypatch.setattr(methods, "LIBRARIES", {})
    monkeypatch.setattr(
        runner, "run_isolated", lambda cell, *, data, device, limit_s: row_of(cell, DONE, device=device, scores={})
    )
    rows = run_all(of, tmp_path, How(device="cuda"))
    assert [row["device"] for row in rows] == ["cpu", "cuda", "cuda", "cpu"]


def test_on_a_gpu_too_no_larger_size_is_tried_after_the_limit(tmp_path, monkeypatch):
    asked = []

    def run_together(experiment, cells, *, data, device, limit_s):
        asked.append([cell.data_set.name for cell in cells])
        yield from (row_of(cell, OVER, limit_s=limit_s, seconds=limit_s) for cell in cells)

    monkeypatch.setattr(runner, "run_together", run_together)
    rows = run_all(experiment(Contender("VISL", "visl"), sizes=(4, 2, 3)), tmp_path, How(device="cuda"))
    assert asked == [["of 2"], [], []]
    assert [row.get("reason") for row in rows] == [None, *["not tried: of 2 was over"] * 2]


def test_a_missing_library(monkeypatch, fakes, tmp_path):
    monkeypatch.setitem(methods.LIBRARIES, "arrow", "a_library_that_nobody_has")
    of, notices = experiment(), []
    cells = plan(of, None, on_notice=notices.append)
    assert {cell.contender.name for cell in cells} == {"One", "F"}
    assert notices == ["left out, for want of their libraries: A. pip install 'visl[baselines]'"]
    with pytest.raises(InputError, match=r"libraries are not installed for A: pip install 'visl\[baselines\]'"):
        plan(of, None, contenders=["One", "A"])


def test_data_sets_by_name():
    of = experiment()
    assert {cell.data_set.name for cell in plan(of, None, data_sets=["of 3"])} == {"of 3"}
    with pytest.raises(InputError, match="'of 4' is no data set of the experiment made-up: use any of 'of 2', 'of 3'"):
        plan(of, None, data_sets=["of 3", "of 4"])


def test_gaps_are_filled_before_the_method(monkeypatch):
    """A binary column takes the likelier level, a continuous one the value."""
    table = np.array([[0.2, NAN, 1.0], [NAN, 1.0, NAN], [0.4, 0.0, 0.0]])
    nothing = np.zeros(0, int)
    kinds = ("continuous", "binary", "binary")
    problem = Problem(table, table[:0], nothing, nothing, kinds, np.arange(3))
    asked = []

    def halfway(problem, run):
        asked.extend(zip(problem.asked_row.tolist(), problem.asked_column.tolist(), strict=True))
        return Answer(Imputation(np.array([0.7, 0.6, 0.5])))

    monkeypatch.setattr(cells_module, "find_method", lambda name: {"halfway": halfway}[name])
    assert filled(problem, "halfway", Run()).tolist() == [[0.2, 1, 1], [0.6, 1, 0], [0.4, 0, 0]]
    assert asked == [(0, 1), (1, 0), (1, 2)]
    assert np.isnan(problem.train).sum() == 3


def test_cells_in_processes_of_their_own_have_the_same_scores(tmp_path):
    of = find_experiment("synthetic")
    cells = plan(of, None, smoke=True, contenders=["Mean", "KNN"])
    rows = run_experiment(of, cells, tmp_path, How(limit_s=300, jobs=2, backend="loky"))
    for row, cell in zip(rows, cells, strict=True):
        here = run_cell(of, cell, data=None, device="cpu")
        assert row["status"] == DONE, row
        assert row["key"] == cell.key
        assert row["scores"] == pytest.approx(here["scores"])
        assert row["limit_s"] == 300
