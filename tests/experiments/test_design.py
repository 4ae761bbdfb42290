"""Which cells an experiment has, and when two of them are the same."""

import json
from dataclasses import asdict, replace

import pytest

from visl.errors import InputError
from visl.experiments import NAMES, find_experiment
from visl.experiments.design import Cell, Contender, DataSet, Experiment
from visl.experiments.methods import METHODS, finds_structure, imputes
from visl.experiments.worker import cell_from

DATA_SET = DataSet("first", 5, {"seed": 3, "rows": (10, 5)}, label="D=5")
CELL = Cell("made up", DATA_SET, Contender("KNN", "knn", {"k": 2}), 3)
OTHERS = [
    replace(CELL, data_set=replace(DATA_SET, name="second")),
    replace(CELL, data_set=replace(DATA_SET, settings={"seed": 3, "rows": (10, 6)})),
    replace(CELL, contender=Contender("KNN 2", "knn", {"k": 2})),
    replace(CELL, contender=Contender("KNN", "mean", {"k": 2})),
    replace(CELL, contender=Contender("KNN", "knn", {"k": 3})),
    replace(CELL, contender=Contender("KNN", "knn", {"k": 2}, fill="mean")),
    replace(CELL, seed=4),
    replace(CELL, smoke=True),
]
SAME = [
    replace(CELL, data_set=replace(DATA_SET, size=6, label="other")),
    replace(CELL, data_set=replace(DATA_SET, settings={"rows": [10, 5], "seed": 3})),
    replace(CELL, contender=replace(CELL.contender, only=("D=5",))),
]


def made_up(*sizes: int) -> Experiment:
    return Experiment(
        name="made up",
        title="",
        data_sets=lambda smoke: [DataSet(f"of {D}", D, {"seed": D}, label=f"D={D}") for D in sizes],
        contenders=(Contender("Mean", "mean"), Contender("KNN", "knn", only=("D=7",)), Contender("VISL", "visl")),
        load=lambda data_set, data: pytest.fail("is not loaded"),
        tables=lambda rows: [],
    )


def test_the_key_is_what_decides_the_result():
    assert len({cell.key for cell in (CELL, *OTHERS)}) == 1 + len(OTHERS)
    assert {cell.key for cell in SAME} == {CELL.key}
    assert CELL.key == "398eeb8a2b921bdd"  # rows on disk depend on it


def test_a_cell_is_the_same_in_another_process():
    sent = cell_from(json.loads(json.dumps(asdict(CELL))))
    assert sent.key == CELL.key
    assert (sent.contender, sent.seed, sent.smoke) == (CELL.contender, 3, False)


def test_small_data_sets_come_first_and_only_is_respected():
    cells = made_up(9, 5, 7).cells()
    assert [(cell.data_set.size, cell.contender.name, cell.seed) for cell in cells] == [
        (5, "Mean", 5),
        (5, "VISL", 5),
        (7, "Mean", 7),
        (7, "KNN", 7),
        (7, "VISL", 7),
        (9, "Mean", 9),
        (9, "VISL", 9),
    ]


def test_named_methods_in_the_order_named_each_once():
    cells = made_up(7).cells(contenders=["visl", "Mean", "VISL"])
    assert [cell.contender.name for cell in cells] == ["VISL", "Mean"]


def test_unknown_methods_are_answered_with_the_known_ones():
    with pytest.raises(InputError, match="'forest' is no method of the experiment made up: use any of 'Mean', 'KNN', "):
        made_up(5).cells(contenders=["Mean", "forest"])
    with pytest.raises(InputError, match=f"no experiment 'made up': use one of {', '.join(NAMES)}"):
        find_experiment("made up")


def test_what_methods_give():
    assert made_up(5).names(imputes) == ["Mean", "KNN", "VISL"]
    assert made_up(5).names(finds_structure) == ["VISL"]
    assert [name for name in METHODS if imputes(name) and finds_structure(name)] == ["visl"]
    assert all(imputes(name) or finds_structure(name) for name in METHODS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("smoke", [True, False])
def test_no_two_cells_of_an_experiment_are_the_same(name, smoke):
    experiment = find_experiment(name)
    cells = experiment.cells(smoke=smoke)
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.contender.method for cell in cells} <= set(METHODS)
    assert [cell.data_set.size for cell in cells] == sorted(cell.data_set.size for cell in cells)


def test_the_paper_s_numbers_of_data_sets():
    numbers = {name: len({cell.data_set.name for cell in find_experiment(name).cells()}) for name in NAMES}
    # Eedi: ten splits, and four further runs on the first of them.
    assert numbers == {"synthetic": 15, "gaps": 30, "rounds": 15, "neuropathic": 5, "eedi": 14, "scaling": 24} | {
        "mixed": 50,
        "sachs": 5,
        "networks": 36,
        "ablation": 60,
    }
