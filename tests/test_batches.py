"""Batches of several members, of data in parts, and with padding; their noise."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from core_helpers import cells_of_members, group_wise, random_table, variable_wise
from visl.batches import (
    BatchShape,
    CellStore,
    Noise,
    StepInputs,
    TrainingData,
    hide_at_random,
    member_seeds,
    stream_seed,
)
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.table import Table

CPU = torch.device("cpu")
SCHEMA = group_wise([CONTINUOUS, BINARY, BINARY], [CATEGORICAL, CONTINUOUS], [ORDINAL])
D = len(SCHEMA.columns)


def tables(*sizes):
    return [random_table(SCHEMA, size, seed=10 + i) for i, size in enumerate(sizes)]


def in_parts(*sizes):
    return TrainingData(tables(*sizes), parts=range(len(sizes)))


def only_part(part, *sizes):
    """What a process sees that holds one of the parts."""
    return TrainingData([tables(*sizes)[part]], parts=[part], part_sizes=sizes)


def fill(inputs, seeds, parts, rows_of_part, epoch, step):
    noise = Noise(seeds, parts, on_device=False)
    noise.start_epoch(epoch, step + 1, CPU)
    noise.prepare(inputs, rows_of_part, step)


def filled_inputs(seeds, n_rows, epoch=0, step=0, n_groups=3, dim=4):
    inputs = StepInputs.empty(len(seeds), n_rows, n_groups, dim, CPU)
    fill(inputs, seeds, [0], [n_rows], epoch, step)
    return inputs


# -- the rows of an epoch


@pytest.mark.parametrize("sizes", [(10,), (7, 3), (3, 11, 1), (2, 2, 9)])
@pytest.mark.parametrize("n_steps", [1, 3, 4])
def test_an_epoch_holds_every_row_once_in_even_shares_of_each_part(sizes, n_steps):
    data = in_parts(*sizes)
    batches = data.epoch_order([5], 0, n_steps)
    assert sorted(torch.cat(batches, dim=1)[0].tolist()) == list(range(sum(sizes)))
    part_of_row = np.repeat(range(len(sizes)), sizes)
    for step, rows in enumerate(batches):
        found = np.bincount(part_of_row[rows[0].numpy()], minlength=len(sizes)).tolist()
        assert found == data.rows_of_step(step, n_steps)
        assert all(size // n_steps <= n <= -(-size // n_steps) for n, size in zip(found, sizes, strict=True))


def test_steps_are_as_many_as_the_rows_of_all_parts_need():
    assert [in_parts(7, 3).n_steps(rows) for rows in (3, 4, 5, 10, 11)] == [4, 3, 2, 1, 1]
    elsewhere = only_part(1, 7, 3)
    assert (elsewhere.n_rows, elsewhere.n_steps(4)) == (10, 3)
    own = TrainingData(tables(7, 7, 7), of_members=True)
    assert (own.n_rows, own.n_steps(4)) == (7, 2)


def test_an_order_depends_on_seed_epoch_and_part_alone():
    data = in_parts(30, 20)
    order = [rows.tolist() for rows in data.epoch_order([5, 6, 7], 2, 4)]
    for k, seed in enumerate((5, 6, 7)):
        alone = data.epoch_order([seed], 2, 4)
        assert [rows[k] for rows in order] == [rows[0].tolist() for rows in alone]
    flat = {
        (seed, epoch): tuple(torch.cat(data.epoch_order([seed], epoch, 1), 1)[0].tolist())
        for seed in (5, 6)
        for epoch in (0, 1, 2)
    }
    assert len(set(flat.values())) == 6
    # The first rows of two parts of the same size do not follow the same order.
    (rows,) = in_parts(30, 30).epoch_order([5], 0, 1)
    first, second = rows[0].split(30)
    assert first.tolist() != (second - 30).tolist()


@pytest.mark.parametrize("sizes", [(7, 5), (9, 2), (2, 9)])
def test_a_process_sees_the_rows_and_the_noise_that_its_part_has_in_the_whole(sizes):
    whole, mine, seeds, n_steps = in_parts(*sizes), only_part(1, *sizes), [3, 8], 4
    for epoch in range(2):
        orders = [data.epoch_order(seeds, epoch, n_steps) for data in (whole, mine)]
        for step, (all_rows, rows) in enumerate(zip(*orders, strict=True)):
            shares = whole.rows_of_step(step, n_steps)
            assert mine.rows_of_step(step, n_steps) == shares
            assert torch.equal(rows, all_rows[:, shares[0] :] - sizes[0])
            inputs, parts = [], ((whole, shares), (mine, shares[1:]))
            for data, here in parts:
                inputs.append(StepInputs.empty(2, sum(here), 3, 4, CPU))
                fill(inputs[-1], seeds, data.parts, here, epoch, step)
            assert torch.equal(inputs[1].edges, inputs[0].edges)
            for name in ("rate", "key", "latent"):
                found, expected = getattr(inputs[1], name), getattr(inputs[0], name)[:, shares[0] :]
                assert torch.equal(found, expected), name


def test_members_with_data_of_their_own_stay_in_it():
    data = TrainingData(tables(9, 9, 9), of_members=True)
    rows = torch.cat(data.epoch_order([4, 4, 5], 1, 3), dim=1)
    for k in range(3):
        assert sorted(rows[k].tolist()) == list(range(9 * k, 9 * k + 9))
    assert torch.equal(rows[0], rows[1] - 9)
    assert not torch.equal(rows[0], rows[2] - 18)
    alone = torch.cat(TrainingData(data.tables[2:]).epoch_order([5], 1, 3), dim=1)
    assert torch.equal(rows[2] - 18, alone[0])


# -- cells


def assert_cells_are(cells, expected_tables, n_rows):
    """expected_tables: the rows of each member, n_rows each."""
    K = len(expected_tables)
    real = cells.padding.real.view(K, -1) if cells.padding is not None else torch.ones(K, len(cells.row)).bool()
    row, column, value = (tensor.view(K, -1) for tensor in (cells.row, cells.column, cells.value))
    for k, table in enumerate(expected_tables):
        assert real[k].tolist() == [True] * table.n_cells + [False] * (real.shape[1] - table.n_cells)
        assert (row[k][real[k]] - k * n_rows).tolist() == table.row_of_cell.tolist()
        assert (column[k][real[k]] - k * D).tolist() == table.columns.tolist()
        assert value[k][real[k]].tolist() == table.values.tolist()
        assert not value[k][~real[k]].any()  # a level that every column has
        assert (column[k][~real[k]] == k * D + D - 1).all()
    assert cells.n_rows == K * n_rows
    assert (cells.row.diff() >= 0).all()  # padding keeps the order
    in_order = cells.row * K * D + cells.column
    assert (in_order.diff() >= 0).all()


@pytest.mark.parametrize("enlarged", [False, True])
@pytest.mark.parametrize("rows", [[[4, 0, 4, 2]], [[4, 0], [1, 11]], [[3], [3], [9]]])
def test_a_batch_is_the_cells_of_its_rows_in_order(rows, enlarged):
    first, second = tables(7, 5)
    data = TrainingData([first, second], parts=[0, 1])
    store = CellStore(data, SCHEMA, len(rows), CPU)
    rows = torch.tensor(rows)
    shape = store.common_shape([rows]).enlarged(1.5) if enlarged else store.exact_shape(rows)
    cells = store.batch(rows, shape)
    whole = np.concatenate([part.to_dense()[0] for part in (first, second)])
    observed = np.concatenate([part.to_dense()[1] for part in (first, second)])
    table = Table.from_dense(whole, observed)
    assert_cells_are(cells, [table.take_rows(own.numpy()) for own in rows], rows.shape[1])


@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("gaps", [[0], [2], [3], [0, 1, 3]])
def test_rows_without_cells_are_rows_of_a_batch(gaps, n_members):
    observed = np.ones((4, D), bool)
    observed[gaps] = False
    table = Table.from_dense(np.ones((4, D)), observed)
    rows = torch.stack([torch.arange(4), torch.arange(4).flip(0)])[:n_members]
    cells = cells_of_members(SCHEMA, TrainingData([table]), rows)
    assert_cells_are(cells, [table.take_rows(own.numpy()) for own in rows], 4)


def test_the_room_of_a_batch_by_hand():
    # Cells of each row: 2 numbers; 1 number and 2 binary; nothing; all five columns.
    schema = variable_wise(CONTINUOUS, BINARY, BINARY, CONTINUOUS, CATEGORICAL)
    values = np.array([[1, np.nan, np.nan, 1, np.nan], [1, 1, 1, np.nan, np.nan], [np.nan] * 5, [1] * 5])
    store = CellStore(TrainingData([Table.from_dense(values, ~np.isnan(values))]), schema, 1, CPU)
    assert store.exact_shape(torch.tensor([[0, 3, 2]])) == BatchShape(7)  # a single model has no padding
    # Two members, 3 and 8 cells: as many for each, and one more; of a kind twice the most that one has.
    needed = BatchShape(9, {CONTINUOUS: 2 * 3, BINARY: 2 * 4, CATEGORICAL: 2 * 1})
    assert store.exact_shape(torch.tensor([[1, 2], [1, 3]])) == needed
    common = store.common_shape([torch.tensor([[1, 2]]), torch.tensor([[0, 0]]), torch.tensor([[3, 0]])])
    assert common == BatchShape(8, {CONTINUOUS: 4, BINARY: 2, CATEGORICAL: 1})


def test_batches_of_one_kind_have_no_sizes_of_kinds():
    table = Table.from_dense(np.ones((3, 2)), np.ones((3, 2), bool))
    store = CellStore(TrainingData([table]), variable_wise(BINARY, BINARY), 2, CPU)
    assert store.exact_shape(torch.tensor([[0, 1], [1, 2]])) == BatchShape(5, {})


def test_a_shape_holds_what_fits_into_it():
    shape = BatchShape(10, {BINARY: 4, ORDINAL: 6})
    assert shape.holds(shape)
    assert shape.holds(BatchShape(9, {BINARY: 1, ORDINAL: 6}))
    assert not shape.holds(BatchShape(11, {BINARY: 4, ORDINAL: 6}))
    assert not shape.holds(BatchShape(10, {BINARY: 5, ORDINAL: 1}))
    assert shape.enlarged(1.5) == BatchShape(16, {BINARY: 7, ORDINAL: 10})
    assert shape.enlarged(1.01).holds(shape)


# -- hidden cells


def full_table(n_rows, n_columns):
    return Table.from_dense(np.zeros((n_rows, n_columns)), np.ones((n_rows, n_columns), bool))


def test_shown_cells_follow_the_rates():
    schema = variable_wise(*[BINARY] * 200)
    cells = cells_of_members(schema, TrainingData([full_table(400, 200)]), torch.arange(400)[None])
    inputs = filled_inputs([1], 400)
    assert hide_at_random(cells, torch.tensor([0.0]), inputs, D).min() == 1.0
    for most in (0.5, 0.99):
        shown = hide_at_random(cells, torch.tensor([most]), inputs, D)
        assert set(shown.tolist()) == {0.0, 1.0}
        hidden = 1 - shown.view(400, 200).mean(1)  # share of each row
        # U(0, most) in each row, give or take its 200 cells: mean most / 2, deviation most / sqrt(12).
        assert hidden.mean().item() == pytest.approx(most / 2, abs=4 * most / math.sqrt(12 * 400))
        assert hidden.std().item() == pytest.approx(most / math.sqrt(12), rel=0.1)
        assert hidden.max() < most + 0.12


def test_cells_of_a_row_are_hidden_independently_of_each_other_and_of_other_rows():
    schema, n_rows = variable_wise(*[BINARY] * 20), 4000
    cells = cells_of_members(schema, TrainingData([full_table(n_rows, 20)]), torch.arange(n_rows)[None])
    inputs = dataclasses.replace(filled_inputs([1], n_rows), rate=torch.full((1, n_rows), 0.5))
    shown = hide_at_random(cells, torch.tensor([1.0]), inputs, D).view(n_rows, 20)
    deviation = 1 / math.sqrt(n_rows)
    assert ((shown.mean(0) - 0.5).abs() < 5 * deviation / 2).all()
    columns = np.corrcoef(shown.numpy().T) - np.eye(20)
    assert np.abs(columns).max() < 5 * deviation
    next_row = np.corrcoef(shown[:-1].flatten().numpy(), shown[1:].flatten().numpy())[0, 1]
    assert abs(next_row) < 5 / math.sqrt(20 * n_rows)


def test_what_is_hidden_does_not_depend_on_the_padding_or_on_other_rows():
    data = TrainingData([random_table(SCHEMA, 30)])
    rows, inputs = torch.arange(30)[None], filled_inputs([2], 30)
    store = CellStore(data, SCHEMA, 1, CPU)
    rate = torch.tensor([0.9])
    exact, padded = (store.batch(rows, s) for s in (store.exact_shape(rows), store.common_shape([rows]).enlarged(2.0)))
    shown = hide_at_random(exact, rate, inputs, D)
    assert 0.2 < shown.mean() < 0.8
    assert torch.equal(hide_at_random(padded, rate, inputs, D)[padded.padding.real], shown)
    some = torch.tensor([[21, 4, 13]])
    fewer = dataclasses.replace(inputs, rows=some, rate=inputs.rate[:, some[0]], key=inputs.key[:, some[0]])
    found = hide_at_random(store.batch(some, store.exact_shape(some)), rate, fewer, D)
    expected = [shown[exact.row == row] for row in some[0]]
    assert torch.equal(found, torch.cat(expected))
    # Nor on the other columns that a row has: here every second cell is a gap.
    kept = np.arange(data.tables[0].n_cells) % 2 == 0
    sparse = cells_of_members(SCHEMA, TrainingData([data.tables[0].keep_cells(kept)]), rows)
    assert torch.equal(hide_at_random(sparse, rate, inputs, D), shown[torch.from_numpy(kept)])


def test_what_is_hidden_does_not_depend_on_other_members():
    data, seeds = TrainingData([random_table(SCHEMA, 20)]), [2, 9, 4]
    rows = torch.stack([torch.arange(20), torch.arange(20).flip(0), torch.arange(20)])
    cells, rates = cells_of_members(SCHEMA, data, rows), torch.tensor([0.9, 0.5, 0.0])
    inputs = filled_inputs(seeds, 20)
    shown = hide_at_random(cells, rates, inputs, D)
    for k, seed in enumerate(seeds):
        alone = filled_inputs([seed], 20)
        for name in ("rate", "latent", "edges"):
            assert torch.equal(getattr(inputs, name)[k], getattr(alone, name)[0]), name
        found = shown[cells.padding.real & (cells.row // 20 == k)]
        own = cells_of_members(SCHEMA, data, rows[[k]])
        assert torch.equal(found, hide_at_random(own, rates[[k]], alone, D))
        assert bool(found.all()) == (k == 2)


# -- noise


def test_noise_is_standard_normal_and_uniform():
    inputs = filled_inputs([3], 4000, n_groups=40, dim=1)
    normal, rate, edges = inputs.latent.flatten().double(), inputs.rate.double(), inputs.edges.double()
    n = normal.numel()  # 160 000
    # Standard errors: of the mean 1 / sqrt(n), of the variance sqrt(2 / n), of the fourth moment sqrt(96 / n).
    assert normal.mean().item() == pytest.approx(0, abs=4 / math.sqrt(n))
    assert normal.var().item() == pytest.approx(1, abs=4 * math.sqrt(2 / n))
    assert normal.pow(4).mean().item() == pytest.approx(3, abs=4 * math.sqrt(96 / n))
    for uniform in (rate, edges):
        assert 0 <= uniform.min() < uniform.max() <= 1
        n = uniform.numel()
        assert uniform.mean().item() == pytest.approx(1 / 2, abs=4 / math.sqrt(12 * n))
        assert uniform.var().item() == pytest.approx(1 / 12, abs=4 * math.sqrt(1 / 180 / n))
    assert len(inputs.key.unique()) == 4000


def test_noise_is_different_for_members_epochs_steps_and_parts():
    def noise(seed, epoch, step, part):
        inputs = StepInputs.empty(1, 6, 3, 4, CPU)
        fill(inputs, [seed], [part], [6], epoch, step)
        return inputs

    def same(a, b):
        return {name: torch.equal(getattr(a, name), getattr(b, name)) for name in ("rate", "key", "latent", "edges")}

    start = noise(1, 2, 3, 0)
    assert all(same(start, noise(1, 2, 3, 0)).values())
    for other in ((2, 2, 3, 0), (1, 3, 3, 0), (1, 2, 4, 0), (1, 3, 2, 0)):
        assert not any(same(start, noise(*other)).values()), other
    of_another_part = same(start, noise(1, 2, 3, 1))
    assert of_another_part == {"rate": False, "key": False, "latent": False, "edges": True}  # one graph for all parts


def test_noise_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    filled_inputs([1, 2], 3)
    in_parts(4, 3).epoch_order([1], 0, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeds_of_streams_are_different_whole_numbers_that_generators_take():
    numbers = [0, 1, 2, 7, 10**6, 2**63 - 1]  # seeds of models, epochs, steps; -1 stands for no part
    triples = [(a, b, c) for a in numbers for b in numbers for c in (-1, *numbers)]
    pairs = [(a, b) for a in numbers for b in numbers]
    seeds = [stream_seed(*numbers) for numbers in (*triples, *pairs)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_first_member_has_the_seed_itself():
    assert member_seeds(7, 1) == [7]
    assert member_seeds(7, 4)[:2] == member_seeds(7, 2)
    assert len({*member_seeds(7, 5), *member_seeds(8, 5)}) == 10
