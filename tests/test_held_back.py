"""Levels that networks do not learn to fill gaps from, and how sure predicted levels are by them."""

import math

import numpy as np
import pytest
import torch

from core_helpers import build_members, build_model, group_wise, variable_wise
from visl.batches import TrainingData
from visl.calibration import set_temperature
from visl.held_back import MOST, is_held_back, seen_by_networks
from visl.inference import AskedCells, Imputer
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS
from visl.table import Table
from visl.training import train

TWO_GROUPS = group_wise([BINARY] * 4, [BINARY] * 4)


def binary_table(n_rows: int, n_columns: int, share: float = 0.5, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    return Table.from_dense(rng.random((n_rows, n_columns)) < share, rng.random((n_rows, n_columns)) < 0.9)


def test_a_twentieth_of_the_levels_is_held_back_and_no_number() -> None:
    rng = np.random.default_rng(0)
    values = np.stack([rng.random(400), rng.integers(0, 2, 400), rng.integers(0, 3, 400)], 1)
    table = Table.from_dense(values, np.ones(values.shape, bool))
    model = build_model(variable_wise(CONTINUOUS, BINARY, CATEGORICAL), hold_back=0.05)
    held = is_held_back(model, table)
    assert held.sum() == 0.05 * 800
    assert set(table.columns[held]) == {1, 2}
    np.testing.assert_array_equal(is_held_back(model, table), held)


@pytest.mark.parametrize(
    ("n_rows", "hold_back", "expected"), [(9, 0.05, 0), (400, 0.0, 0), (400, 1.0, 800), (100_000, 0.05, MOST)]
)
def test_few_cells_none_and_many_cells_a_fixed_number(n_rows: int, hold_back: float, expected: int) -> None:
    table = Table.from_dense(np.zeros((n_rows, 2)), np.ones((n_rows, 2), bool))
    assert is_held_back(build_model(variable_wise(BINARY, BINARY), hold_back=hold_back), table).sum() == expected


def test_of_several_parts_only_the_largest_lacks_cells() -> None:
    model = build_model(variable_wise(BINARY, BINARY), hold_back=0.1)
    tables = [binary_table(n, 2) for n in (40, 200, 90)]
    less = seen_by_networks(model, TrainingData(tables, parts=(0, 1, 2))).tables
    assert [whole.n_cells - some.n_cells for whole, some in zip(tables, less, strict=True)] == [
        0, int(0.1 * tables[1].n_cells), 0,
    ]  # fmt: skip
    assert [table.n_rows for table in less] == [40, 200, 90]
    alone = seen_by_networks(model, TrainingData([tables[1]], parts=(1,), part_sizes=(40, 200, 90))).tables[0]
    np.testing.assert_array_equal(alone.starts, less[1].starts)  # whichever process has it


def test_of_members_data_sets_each_lacks_cells() -> None:
    model = build_members(variable_wise(BINARY, BINARY), [0, 1], hold_back=0.1)
    tables = [Table.from_dense(np.full((50, 2), level), np.ones((50, 2), bool)) for level in (0, 1)]
    less = seen_by_networks(model, TrainingData(tables, of_members=True)).tables
    assert [table.n_cells for table in less] == [90, 90]


def test_networks_do_not_learn_from_what_is_held_back() -> None:
    """Other levels there, the same networks, where no graph is learned."""
    found = []
    table = binary_table(80, 4)
    for flip in (False, True):
        model = build_model(
            variable_wise(*[BINARY] * 4), prior=torch.zeros(4, 4), structure="auto", hold_back=0.1, epochs=4
        )
        held = is_held_back(model, table)
        values = np.where(held & flip, 1 - table.values, table.values).astype(np.float32)
        train(model, Table(table.starts, table.columns, values, table.n_columns), seeds=[0])
        found.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_the_graph_is_learned_from_all_cells() -> None:
    """Of a model that cannot move, and reads out even odds: the loss of a row counts its cells."""
    model = build_model(TWO_GROUPS, hold_back=0.25, learning_rate=1e-30, epochs=4)
    with torch.no_grad():
        model.readout.unit_weight.zero_()
        model.readout.unit_bias.zero_()
    table = Table.from_dense(np.ones((10, 8)), np.ones((10, 8), bool))
    cells = [record["nll"] / math.log(2) for record in train(model, table, seeds=[0])]
    assert cells == pytest.approx([8, 8, 6, 6])


@pytest.mark.parametrize(("odds_told", "temperature"), [(9, 2), (math.sqrt(3), 0.5), (3, 1)])
@pytest.mark.parametrize("n_members", [1, 2])
def test_levels_become_as_sure_as_they_are_right(n_members: int, odds_told: float, temperature: float) -> None:
    """Of a column in which three quarters are ones, with odds of 3 to 1: log 9 / log 3 = 2."""
    model = build_members(variable_wise(BINARY, BINARY), range(n_members), hold_back=0.05)
    with torch.no_grad():
        model.readout.unit_weight.zero_()
        model.readout.unit_bias.fill_(math.log(odds_told))
    rng = np.random.default_rng(1)
    table = Table.from_dense(rng.random((40_000, 2)) < 0.75, np.ones((40_000, 2), bool))
    set_temperature(model, table, seed=0)
    assert model.level_temperature.tolist() == pytest.approx([temperature] * n_members, rel=0.2)
    row = Table.from_dense(np.zeros((1, 2)), np.zeros((1, 2), bool)), AskedCells(np.array([0]), np.array([0]))
    assert Imputer(model, n_draws=4, seed=0).probabilities(*row)[0, 1] == pytest.approx(0.75, abs=0.03)
    set_temperature(model, table, seed=0)  # what was set before does not count
    assert model.level_temperature.tolist() == pytest.approx([temperature] * n_members, rel=0.2)


def test_hardly_any_cells_hardly_change_it() -> None:
    """Two cells, both wrong where 9 to 1 is told: the temperature before any cell weighs more than in a large table."""
    model = build_model(variable_wise(BINARY, BINARY), hold_back=0.05)
    with torch.no_grad():
        model.readout.unit_weight.zero_()
        model.readout.unit_bias.fill_(math.log(9))
    set_temperature(model, Table.from_dense(np.zeros((20, 2)), np.ones((20, 2), bool)), seed=0)
    assert 1 < model.level_temperature.item() < 1.5


def test_without_levels_or_held_back_cells_nothing_changes() -> None:
    numbers, levels = variable_wise(CONTINUOUS, CONTINUOUS), variable_wise(BINARY, BINARY)
    for schema, hold_back in ((numbers, 0.5), (levels, 0.0)):
        model = build_model(schema, hold_back=hold_back)
        table = binary_table(100, 2)
        assert seen_by_networks(model, TrainingData([table])).tables[0].n_cells == table.n_cells
        set_temperature(model, table, seed=0)
        assert model.level_temperature.item() == 1


def test_without_a_second_stage_nothing_was_held_back() -> None:
    model = build_model(TWO_GROUPS, hold_back=0.25, epochs=1)
    set_temperature(model, binary_table(100, 8), seed=0)
    assert model.level_temperature.item() == 1


def test_noise_that_was_learned_by_heart_is_told_with_less_confidence() -> None:
    """Coins in columns that share a group: nothing can be known of hidden ones."""
    table, fresh = binary_table(60, 8), binary_table(300, 8, seed=1)
    shown = np.random.default_rng(2).random(fresh.n_cells) < 0.7
    asked = AskedCells(fresh.row_of_cell[~shown], fresh.columns[~shown].astype(np.int64))
    model = build_model(
        TWO_GROUPS, hold_back=0.2, epochs=60, learning_rate=0.05, latent_dim=16, keep_own=True, batch_size=20
    )
    train(model, table, seeds=[0])

    def told() -> float:
        imputer = Imputer(model, n_draws=10, seed=0)
        return imputer.log_prob(fresh.keep_cells(shown), asked, fresh.values[~shown]).mean()

    before = told()
    set_temperature(model, table, seed=0)
    assert model.level_temperature.item() > 1.2
    assert before + 0.03 < told() < math.log(0.5) + 0.01
