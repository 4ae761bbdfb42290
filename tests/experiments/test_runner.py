"""All cells of an experiment: one row each, whatever happens on the way."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from joblib import register_parallel_backend
from joblib.parallel import ThreadingBackend

from visl.errors import InputError
from visl.experiments import cells as cells_module
from visl.experiments import find_experiment, runner
from visl.experiments.cells import filled, run_cell
from visl.experiments.design import Contender, DataSet, Experiment
from visl.experiments.methods import METHODS, MethodInfo
from visl.experiments.problem import Answer, Imputation, Problem, Run, Structure, Truth
from visl.experiments.rows import DONE, FAILED, OVER, append_row, read_rows, row_of, rows_file, unpack_edges
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


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The methods of this page are in the table of all methods."""
    for name in ("constant", "fragile", "arrow"):
        monkeypatch.setitem(METHODS, name, MethodInfo("of this page"))


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
        keeps_edges=lambda data_set: True,
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
    assert one["scores"] == {"rmse": pytest.approx(0.5**0.5), "rmse_by_column": 0.5, "mixed_error": 0.5}
    assert one["settings"] == {"value": 1.0}
    assert (one["limit_s"], one["seed"], one["size"]) == (60, 2, 2)
    assert failed["reason"] == "ZeroDivisionError: all columns are the same"
    # The only edge is predicted the wrong way round.
    assert (arrow["scores"]["adjacency_f1"], arrow["scores"]["orientation_f1"], arrow["scores"]["shd"]) == (1, 0, 1)
    found = unpack_edges(arrow["edges"])
    assert (found.edges.tolist(), found.probabilities.tolist()) == (
        [[False, False], [True, False]],
        [[0, 0.25], [0.75, 0]],
    )
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
            return row_of(cell, OVER, limit_s=limit_s, seconds=limit_s, device=device)
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
        return row_of(cell, DONE, scores={}, limit_s=limit_s)

    monkeypatch.setattr(runner, "run_isolated", run_isolated)
    rows = run_all(of, tmp_path, How(jobs=2, backend="in one piece"))
    assert [row["method"] for row in rows] == ["One", "F", "A"]
    assert before == [0, 0, 2]


def test_only_methods_that_use_a_gpu_get_it(tmp_path, monkeypatch):
    """Each in a process of its own, where its time is limited; VISL alone runs side by side."""
    names = ("mean", "notears_nonlinear", "dag_gnn", "pc", "pvae", "dag_gnn_groups", "visl")
    for name in names:
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], library=None))

    def run_isolated(cell, *, data, device, limit_s):
        return row_of(cell, DONE, device=device, scores={}, limit_s=limit_s, where="isolated")

    def run_together(experiment, cells, *, data, device, limit_s, worth_trying):
        for cell in cells:
            yield row_of(cell, DONE, device=device, scores={}, limit_s=limit_s, where="together")

    monkeypatch.setattr(runner, "run_isolated", run_isolated)
    monkeypatch.setattr(runner, "run_together", run_together)
    of = experiment(*(Contender(name, name) for name in names), sizes=(2,))
    rows = run_all(of, tmp_path / "gpu", How(device="cuda"))
    assert [row["device"] for row in rows] == ["cpu", "cuda", "cuda", "cpu", "cuda", "cuda", "cuda"]
    assert [row["where"] for row in rows] == ["isolated"] * 6 + ["together"]
    rows = run_all(of, tmp_path / "cpu", How())
    assert {(row["device"], row["where"]) for row in rows} == {("cpu", "isolated")}


def test_on_a_gpu_too_no_larger_size_is_tried_after_the_limit(tmp_path, monkeypatch):
    asked = []

    def run_together(experiment, cells, *, data, device, limit_s, worth_trying):
        asked.append([cell.data_set.name for cell in cells])
        yield from (row_of(cell, OVER, limit_s=limit_s, seconds=limit_s, device="NVIDIA H200") for cell in cells)

    monkeypatch.setattr(runner, "run_together", run_together)
    of = experiment(Contender("VISL", "visl"), sizes=(4, 2, 3))
    rows = run_all(of, tmp_path, How(device="cuda"))
    assert asked == [["of 2"], [], []]
    assert [row.get("reason") for row in rows] == [None, *["not tried: of 2 was over"] * 2]
    assert [row["device"] for row in rows] == ["NVIDIA H200", "cuda", "cuda"]


@pytest.mark.parametrize(("first", "then"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_over_the_limit_on_one_kind_of_device_is_another_chance_on_the_other(tmp_path, monkeypatch, first, then):
    """For methods that a GPU serves, which PC is not."""
    tried = []

    def run_isolated(cell, *, data, device, limit_s):
        tried.append((cell.contender.name, cell.data_set.name, device))
        return row_of(cell, OVER, limit_s=limit_s, seconds=limit_s, device=device)

    monkeypatch.setattr(runner, "run_isolated", run_isolated)
    monkeypatch.setitem(METHODS, "pc", replace(METHODS["pc"], library=None))
    of = experiment(Contender("PVAE", "pvae"), Contender("PC", "pc"))
    run_all(of, tmp_path, How(device=first))
    assert tried == [("PVAE", "of 2", first), ("PC", "of 2", "cpu")]
    tried.clear()
    rows = run_all(of, tmp_path, How(device=then))
    assert tried == [("PVAE", "of 2", then)]
    assert [row["device"] for row in rows] == [then, "cpu"] * 2
    for device in (first, then):
        run_all(of, tmp_path, How(device=device))
    assert len(tried) == 1


def test_what_another_run_has_settled_meanwhile_is_not_run_again(fakes, tmp_path):
    """While the first cell runs here, another run does the third, fails at the fourth and is over at the fifth."""
    of = experiment(CONSTANT, ARROW, sizes=(2, 3, 4))
    cells, file, seen = of.cells(), rows_file(tmp_path, "made-up"), []
    others = [
        row_of(cells[2], DONE, scores={"rmse": 0.125}, limit_s=60),
        row_of(cells[3], FAILED, reason="no", limit_s=60),
        row_of(cells[4], OVER, limit_s=60, device="cpu"),
    ]

    def on_row(row):
        if not seen:
            for other in others:
                append_row(file, other)
        seen.append(row)

    rows = run_all(of, tmp_path, on_row=on_row)
    assert fakes.calls == [("constant", 2), ("arrow", 2), ("arrow", 3), ("arrow", 4)]
    assert [row["status"] for row in rows] == [DONE, DONE, DONE, DONE, OVER, DONE]
    assert rows[2] == seen[2] == others[0]
    assert [row["key"] for row in seen] == [cell.key for cell in cells]
    assert len(read_rows(file)) == 4 + len(others)


def test_cells_on_a_gpu_that_another_run_has_settled_are_not_run_again(tmp_path, monkeypatch):
    of = experiment(Contender("VISL", "visl"), Contender("VISL 2", "visl"), sizes=(2,))
    asked = []

    def run_together(experiment, cells, *, data, device, limit_s, worth_trying):
        asked.append([cell.contender.name for cell in cells])
        append_row(rows_file(tmp_path, "made-up"), row_of(of.cells()[1], DONE, limit_s=limit_s, scores={}))
        yield from (row_of(cell, DONE, limit_s=limit_s, device=device, scores={}) for cell in cells)

    monkeypatch.setattr(runner, "run_together", run_together)
    assert len(run_all(of, tmp_path, How(device="cuda"))) == 2
    assert asked == [["VISL"], []]


def test_the_file_is_read_again_only_if_another_run_has_written(fakes, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(runner, "read_rows", lambda file: read.append(file) or read_rows(file))
    run_all(experiment(), tmp_path)
    assert len(read) == 1


def test_the_files_of_every_data_set_are_looked_for_first():
    """One data set of each set of files is loaded."""
    loaded = []

    def load_some(data_set, data):
        loaded.append(data_set.name)
        if data_set.size == 4:
            raise InputError("there is no such file")
        return load(data_set, data)

    of = replace(experiment(sizes=(2, 3, 4, 5), download="them"), load=load_some)
    with pytest.raises(InputError, match="no such file"):
        plan(of, None)
    assert loaded == ["of 2", "of 3", "of 4"]
    loaded.clear()
    plan(replace(of, files_of=lambda data_set: data_set.size % 2), None, data_sets=["of 2", "of 3", "of 5"])
    assert len(loaded) == 2
    loaded.clear()
    plan(replace(of, download=None), None)
    assert loaded == []
    eedi = find_experiment("eedi")
    assert len({eedi.files_of(data_set) for data_set in eedi.data_sets(False)}) == 1


def test_a_cell_on_a_gpu_has_its_name_and_the_peak_of_its_memory(fakes, monkeypatch):
    """Counted from the start of the method."""
    called = []
    for name in ("init", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *device, name=name: called.append((name, *device)))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"The GPU {device}")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 << 20)
    row = run_cell(experiment(), experiment().cells()[0], data=None, device="cuda:1")
    assert (row["status"], row["device"], row["peak_mib"]) == (DONE, "The GPU cuda:1", 3)
    assert called == [("init",), ("empty_cache",), ("reset_peak_memory_stats", "cuda:1")]


def test_data_that_cannot_be_loaded_fail_their_cells_alone(fakes, tmp_path):
    def load_some(data_set, data):
        if data_set.size == 2:
            raise InputError("there is no such file")
        return load(data_set, data)

    rows = run_all(replace(experiment(CONSTANT), load=load_some), tmp_path)
    assert [(row["status"], row.get("reason")) for row in rows] == [
        (FAILED, "InputError: there is no such file"),
        (DONE, None),
    ]


def test_a_missing_library(monkeypatch, fakes, tmp_path):
    monkeypatch.setitem(METHODS, "arrow", MethodInfo("of this page", "a_library_that_nobody_has"))
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
