import numpy as np
import pytest
import torch

from core_helpers import (
    cells_of,
    cells_of_members,
    dense_cells,
    generator,
    generators,
    group_wise,
    random_table,
    variable_wise,
)
from visl.batches import TrainingData
from visl.nets.encoder import LOG_VARIANCE_RANGE, CellEncoder, Encoder
from visl.nets.layers import Mlp, NodeLinear
from visl.nets.layout import Cells, group_indices, table_rows
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, KINDS, ORDINAL, Schema
from visl.table import Table

SCHEMAS = {
    "groups of one kind": group_wise([BINARY] * 3, [BINARY], [BINARY] * 2),
    "mixed inside groups": group_wise(
        [CONTINUOUS, BINARY, (CATEGORICAL, 4), (ORDINAL, 2)], [BINARY, CONTINUOUS], [(ORDINAL, 5), (CATEGORICAL, 1)]
    ),
    "variables of one kind": variable_wise(*[CONTINUOUS] * 4),
    "mixed variables": variable_wise(
        CONTINUOUS, (CATEGORICAL, 2), BINARY, (ORDINAL, 3), (CATEGORICAL, 5), CONTINUOUS, BINARY, (ORDINAL, 2)
    ),
    "one variable of each kind": variable_wise(CONTINUOUS, CATEGORICAL, BINARY, ORDINAL),
}


def dense_input(column, value):
    """What one column gives the network; value is None in a gap."""
    if column.kind in (CATEGORICAL, ORDINAL):
        return [1.0 if value == level else 0.0 for level in range(column.n_levels)]
    gap = 0.5 if column.kind == BINARY else 0.0
    return [gap if value is None else value]


def weight_rows(schema):
    """First row of each column: its own in the group-wise form, its kind's in the variable-wise one."""
    width = [max(1, c.n_levels) if c.kind in (CATEGORICAL, ORDINAL) else 1 for c in schema.columns]
    if schema.grouped:
        return [sum(width[:i]) for i in range(len(width))]
    kinds = [c.kind for c in schema.columns]
    widest = {kind: max(w for w, k in zip(width, kinds, strict=True) if k == kind) for kind in kinds}
    seen = list(widest)  # in order of appearance
    return [sum(widest[k] for k in seen[: seen.index(kind)]) for kind in kinds]


def dense_oracle(encoder, schema, table, k=0):
    """Every row and group of member k by itself, as the paper writes it."""
    values, observed = table.to_dense()
    rows, kinds = weight_rows(schema), sorted({c.kind for c in schema.columns})
    result = []
    for n in range(table.n_rows):
        for m, group in enumerate(schema.groups):
            members = [i for i, c in enumerate(schema.columns) if c.group == group]
            s = m if schema.grouped else kinds.index(schema.columns[members[0]].kind)
            hidden = encoder.input_bias[k, s]
            for i in members:
                x = dense_input(schema.columns[i], float(values[n, i]) if observed[n, i] else None)
                hidden = hidden + torch.tensor(x, dtype=torch.float64) @ encoder.inputs[k, rows[i] : rows[i] + len(x)]
            result.append(torch.relu(hidden) @ encoder.output.weight[k, s] + encoder.output.bias[k, s])
    out = torch.stack(result).view(table.n_rows, len(schema.groups), -1)
    return out.chunk(2, dim=-1)


def assert_same_with_gradients(encoder, found, expected):
    weights = [torch.randn(x.shape, generator=generator(2), dtype=x.dtype) for x in found]
    for pair in zip(found, expected, strict=True):
        torch.testing.assert_close(*pair)
    gradients = [
        torch.autograd.grad(sum((x * w).sum() for x, w in zip(side, weights, strict=True)), encoder.parameters())
        for side in (found, expected)
    ]
    for pair in zip(*gradients, strict=True):
        torch.testing.assert_close(*pair)


@pytest.mark.parametrize("name", SCHEMAS)
def test_sparse_equals_dense(name):
    schema = SCHEMAS[name]
    table = random_table(schema, 7, rate=0.6)
    assert 0 < table.n_cells < 7 * len(schema.columns)
    encoder = Encoder(schema, 5, generators(1)).double()
    found, expected = encoder(cells_of(table, dtype=torch.float64)), dense_oracle(encoder, schema, table)
    assert_same_with_gradients(encoder, found, [x[None] for x in expected])


@pytest.mark.parametrize("name", SCHEMAS)
def test_members_equal_dense_ones_each_on_rows_of_its_own(name):
    schema, rows = SCHEMAS[name], [[4, 0, 6], [1, 5, 3]]
    table = random_table(schema, 7, rate=0.6)
    encoder = Encoder(schema, 5, generators(1, 2)).double()
    cells = cells_of_members(schema, TrainingData([table]), rows, dtype=torch.float64)
    found = encoder(cells, cells.padding.real.double())
    expected = [dense_oracle(encoder, schema, table.take_rows(np.array(rows[k])), k) for k in range(2)]
    assert_same_with_gradients(encoder, found, [torch.stack(pair) for pair in zip(*expected, strict=True)])
    for k, seed in enumerate((1, 2)):
        alone = Encoder(schema, 5, generators(seed)).double()
        for pair in zip(found, alone(cells_of(table, rows[k], torch.float64)), strict=True):
            torch.testing.assert_close(pair[0][[k]], pair[1])


def test_by_hand():
    # One group of a continuous and a binary column with first-layer weights 1 and 10, and no biases.
    encoder = Encoder(group_wise([CONTINUOUS, BINARY]), 1, generators(0)).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        encoder.inputs.copy_(torch.tensor([[[1.0], [10.0]]]))
        encoder.output.weight.copy_(torch.tensor([[[[1.0, 0.1]]]]))
    mean, log_variance = encoder(dense_cells([[0.25, 1], [0.25, 0], [0.25, None], [None, None]]))
    assert mean.flatten().tolist() == [10.25, 0.25, 5.25, 5.0]
    torch.testing.assert_close(log_variance, 0.1 * mean)


@pytest.mark.parametrize("name", SCHEMAS)
def test_hidden_cells_equal_missing_cells_exactly(name):
    schema = SCHEMAS[name]
    encoder, table = Encoder(schema, 6, generators(3)), random_table(schema, 9, rate=0.8)
    cells = cells_of(table)
    shown = torch.rand(len(cells.row), generator=generator(4)) < 0.5
    hidden = encoder(cells, shown.float())
    missing = encoder(cells_of(table.keep_cells(shown.numpy())))
    assert torch.equal(hidden[0], missing[0])
    assert torch.equal(hidden[1], missing[1])
    assert not torch.equal(hidden[0], encoder(cells)[0])


def test_what_a_hidden_cell_holds_does_not_matter():
    encoder = Encoder(variable_wise(CONTINUOUS, BINARY, CATEGORICAL), 4, generators(5)).double()
    shown = torch.tensor([0.0, 0.0, 0.0])
    a, b = encoder(dense_cells([[0.1, 0, 2]]), shown), encoder(dense_cells([[0.9, 1, 0]]), shown)
    assert torch.equal(a[0], b[0])


def test_rows_without_cells_are_all_alike():
    schema = SCHEMAS["mixed inside groups"]
    encoder = Encoder(schema, 4, generators(6))
    nothing = torch.zeros(0, dtype=torch.long)
    mean, log_variance = encoder(Cells(nothing, nothing, torch.zeros(0), 3))
    assert mean.shape == log_variance.shape == (1, 3, 3, 4)
    assert mean.isfinite().all()
    assert torch.equal(mean[0, 0], mean[0, 2])


def test_columns_of_a_kind_share_weights_in_the_variable_wise_form():
    encoder = Encoder(variable_wise(CONTINUOUS, BINARY, CONTINUOUS, BINARY), 8, generators(7)).double()
    mean, _ = encoder(dense_cells([[0.2, 1, 0.7, None]]))
    swapped, _ = encoder(dense_cells([[0.7, None, 0.2, 1]]))
    torch.testing.assert_close(swapped, mean[:, :, [2, 3, 0, 1]])
    # Kinds do not share: a binary 1 and a continuous 1 are encoded differently.
    both, _ = encoder(dense_cells([[1, 1, None, None]]))
    assert not torch.allclose(both[:, :, 0], both[:, :, 1])


def test_columns_with_more_levels_share_the_rows_of_the_first_levels():
    encoder = Encoder(variable_wise((CATEGORICAL, 2), (CATEGORICAL, 4)), 8, generators(8)).double()
    assert encoder.inputs.shape[1] == 4
    mean, _ = encoder(dense_cells([[1, 1], [1, 3]]))
    torch.testing.assert_close(mean[0, 0, 0], mean[0, 0, 1])
    assert not torch.allclose(mean[0, 1, 0], mean[0, 1, 1])


def test_groups_do_not_share_weights():
    encoder = Encoder(group_wise([CONTINUOUS], [CONTINUOUS]), 8, generators(9)).double()
    mean, _ = encoder(dense_cells([[0.4, 0.4]]))
    assert not torch.allclose(mean[:, :, 0], mean[:, :, 1])


def test_log_variance_stays_in_range():
    encoder = Encoder(variable_wise(CONTINUOUS, CONTINUOUS), 4, generators(10)).double()
    _, log_variance = encoder(dense_cells([[1e9, -1e9], [0.5, 0.5]]))
    low, high = LOG_VARIANCE_RANGE
    far, near = log_variance[0]
    assert (far.min(), far.max()) == (low, high)
    assert low < near.min()
    assert near.max() < high


@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("sets", [[0, 0, 0], [0, 1, 2], [2, 0, 1], [1, 0, 1]])
def test_node_linear_uses_the_weights_of_each_nodes_set(sets, n_members):
    layer = NodeLinear(torch.tensor(sets), 3, 2, generators(*range(n_members))).double()
    x = torch.randn(n_members, 4, 5, 3, 3, generator=generator(12), dtype=torch.float64)
    for k in range(n_members):
        weight, bias = layer.weight[k], layer.bias[k]
        expected = torch.stack([x[k, ..., m, :] @ weight[s] + bias[s] for m, s in enumerate(sets)], dim=-2)
        torch.testing.assert_close(layer(x)[k], expected)


def test_mlp_by_hand():
    mlp = Mlp(1, 2, 1, generators(0))
    with torch.no_grad():
        mlp.first.weight.copy_(torch.tensor([[[[1.0, -1.0]]]]))
        mlp.first.bias.copy_(torch.tensor([[[0.5, 0.5]]]))
        mlp.second.weight.copy_(torch.tensor([[[[2.0], [3.0]]]]))
        mlp.second.bias.copy_(torch.tensor([[[7.0]]]))
    # 2 relu(x + .5) + 3 relu(.5 - x) + 7
    assert mlp(torch.tensor([[[2.0], [0.0], [-2.0]]])).flatten().tolist() == [12.0, 9.5, 14.5]


def test_weight_tables_by_hand():
    assert table_rows(group_wise([BINARY, CATEGORICAL], [ORDINAL]), [1, 3, 2])[0].tolist() == [0, 1, 4]
    first, total = table_rows(variable_wise(BINARY, CATEGORICAL, BINARY, (CATEGORICAL, 5)), [1, 3, 1, 5])
    assert (first.tolist(), total) == ([0, 1, 0, 1], 6)


def test_columns_out_of_the_order_of_their_groups_are_refused():
    good = group_wise([BINARY], [BINARY])
    with pytest.raises(AssertionError, match="order"):
        group_indices(Schema(good.columns[::-1], good.groups, grouped=True))


def test_a_seed_gives_the_same_weights():
    schema = group_wise(list(KINDS))
    a, b, c = (Encoder(schema, 3, generators(seed)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["inputs"], c["inputs"])


def test_a_batch_is_the_cells_of_its_rows_in_order():
    schema = SCHEMAS["mixed inside groups"]
    table = random_table(schema, 6)
    rows = [4, 0, 4, 2]
    cells, expected = cells_of(table, rows), table.take_rows(torch.tensor(rows).numpy())
    assert isinstance(expected, Table)
    assert cells.n_rows == 4
    assert cells.row.tolist() == expected.row_of_cell.tolist()
    assert cells.column.tolist() == expected.columns.tolist()
    assert cells.value.tolist() == expected.values.tolist()


def test_a_curve_is_linear_between_the_vectors_at_its_knots():
    schema = variable_wise(BINARY, CONTINUOUS)
    encoder = CellEncoder(schema, 2, 2, generators(0), n_knots=3).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        encoder.input_bias.fill_(10.0)  # so that no ReLU is off
        encoder.output.weight.copy_(torch.eye(2).expand_as(encoder.output.weight))
        encoder.curves.knots[0, 1] = torch.tensor([0.0, 0.5, 2.5])
        encoder.curves.values[0] = torch.tensor([[0.0, 1.0], [4.0, 1.0], [8.0, -3.0]])
    values = [[1, 0.25], [0, 0.5], [1, 1.0], [1, -1.0], [1, 9.0], [1, None]]  # beyond the ends: as at the ends
    found = encoder.encode(dense_cells(values))[0, :, 1] - 10
    expected = [[2, 1], [4, 1], [5, 0], [0, 1], [8, -3], [0, 0]]
    torch.testing.assert_close(found, torch.tensor(expected).double())
    hidden = encoder.encode(dense_cells([[1, 0.25]]), torch.tensor([1.0, 0.0]).double())[0, 0, 1]
    torch.testing.assert_close(hidden, torch.tensor([10.0, 10.0]).double())


def test_each_member_has_curves_of_its_own():
    schema = variable_wise(CONTINUOUS, CONTINUOUS)
    encoder = CellEncoder(schema, 1, 1, generators(0, 1), n_knots=2).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        encoder.input_bias.fill_(1.0)
        encoder.output.weight.fill_(1.0)
        encoder.curves.values[:, :, 0] = torch.tensor([[0.0, 1, 0, 2], [0, 3, 0, 4]])  # from 0 to this over [0, 1]
    tables = [Table.from_dense(np.full((1, 2), 0.5), np.ones((1, 2), bool)) for _ in range(2)]
    cells = cells_of_members(schema, TrainingData(tables, of_members=True), [[0], [1]], dtype=torch.float64)
    shown = cells.padding.real.double()
    assert encoder.encode(cells, shown).flatten().tolist() == [1.5, 2.0, 2.5, 3.0]


def test_marks_tell_an_observed_zero_from_a_gap():
    schema = variable_wise(CONTINUOUS)
    plain, marked = (Encoder(schema, 4, generators(3), mark_observed=mark).double() for mark in (False, True))
    values = dense_cells([[0.0], [None]])
    mean = plain(values)[0][0, :, 0]
    torch.testing.assert_close(mean[0], mean[1])
    mean = marked(values)[0][0, :, 0]
    assert not torch.allclose(mean[0], mean[1])
