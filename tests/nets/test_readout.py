import pytest
import torch

from core_helpers import generator, generators, group_wise, variable_wise
from visl.nets.layout import Padding
from visl.nets.readout import ReadOut
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL

UNITS = {CONTINUOUS: lambda c: 1, BINARY: lambda c: 1, CATEGORICAL: lambda c: c.n_levels, ORDINAL: lambda c: 1}
SCHEMAS = {
    "groups of one kind": group_wise([BINARY] * 3, [BINARY], [BINARY] * 2),
    "mixed inside groups": group_wise(
        [CONTINUOUS, (CATEGORICAL, 2), BINARY, (CATEGORICAL, 4), (ORDINAL, 3)], [BINARY], [(CATEGORICAL, 3)]
    ),
    "variables of one kind": variable_wise(*[(CATEGORICAL, 3)] * 4),
    "mixed variables": variable_wise(CONTINUOUS, (CATEGORICAL, 2), BINARY, (CATEGORICAL, 5), ORDINAL, BINARY),
    "one variable of each kind": variable_wise(CONTINUOUS, CATEGORICAL, BINARY, ORDINAL),
}


def build(schema, dim=4, n_members=1):
    return ReadOut(schema, dim, 0.02, generators(*range(n_members))).double()


def units_of_all(readout, z, row, column):
    """The units of each asked cell, one list entry for each."""
    found = [None] * len(column)
    for output in readout(z, row, column):
        for position, c, units in zip(output.cells.tolist(), output.column, output.units.unbind(-2), strict=True):
            assert c == column[position]
            assert found[position] is None
            found[position] = units
    return found


def dense_oracle(readout, schema, z, row, column):
    """Cell by cell; with members, row k * B + n and column k * D + i are row n and column i of member k."""
    B, D = z.shape[2], len(schema.columns)
    kinds = [c.kind for c in schema.columns]
    widths = [UNITS[c.kind](c) for c in schema.columns]
    widest = {kind: max(w for w, k in zip(widths, kinds, strict=True) if k == kind) for kind in kinds}
    seen, sets = list(widest), sorted(set(kinds))
    result = []
    for n, i in zip(row.tolist(), column.tolist(), strict=True):
        (k, n), (same, i) = divmod(n, B), divmod(i, D)
        assert k == same
        kind, m = kinds[i], schema.group_of[i]
        s = m if schema.grouped else sets.index(kind)
        own = sum(widths[:i]) if schema.grouped else sum(widest[k] for k in seen[: seen.index(kind)])
        hidden = torch.relu(z[k, :, n, m] @ readout.hidden.weight[k, s] + readout.hidden.bias[k, s])  # (S, d)
        weight, bias, unit = readout.unit_weight[k], readout.unit_bias[k], range(own, own + widths[i])
        result.append(torch.stack([hidden @ weight[u] + bias[u] for u in unit], dim=-1))
    return result


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize(("K", "S"), [(1, 1), (1, 3), (3, 1)])
def test_equals_a_dense_oracle(name, K, S):
    schema, B = SCHEMAS[name], 5
    readout, D = build(schema, n_members=K), len(schema.columns)
    z = torch.randn(K, S, B, len(schema.groups), 4, generator=generator(1), dtype=torch.float64).requires_grad_()
    asked = torch.rand(K, B, D, generator=generator(2)) < 0.7
    member, row, column = asked.nonzero(as_tuple=True)
    row, column = row + member * B, column + member * D
    found, expected = units_of_all(readout, z, row, column), dense_oracle(readout, schema, z, row, column)
    # A column reads the first of its kind's units; what follows is for wider columns.
    found = [units[..., : right.shape[-1]] for units, right in zip(found, expected, strict=True)]
    for pair in zip(found, expected, strict=True):
        torch.testing.assert_close(*pair)
    inputs = [z, readout.hidden.weight, readout.hidden.bias, readout.unit_weight, readout.unit_bias]
    gradients = [torch.autograd.grad(sum(u.square().sum() for u in side), inputs) for side in (found, expected)]
    for pair in zip(*gradients, strict=True):
        torch.testing.assert_close(*pair)


def test_by_hand():
    # hidden = relu(z); cell = w . hidden + b, with weights 1, 10 and biases .5, 0 for the two columns of the group.
    readout = build(group_wise([CONTINUOUS, CONTINUOUS], [CONTINUOUS]), dim=1)
    with torch.no_grad():
        readout.hidden.weight.fill_(1.0)
        readout.hidden.bias.zero_()
        readout.unit_weight.copy_(torch.tensor([[1.0], [10.0], [100.0]]))
        readout.unit_bias.copy_(torch.tensor([0.5, 0.0, 0.25]))
    z = torch.tensor([[[[[2.0], [3.0]], [[-2.0], [4.0]]]]], dtype=torch.float64)
    row, column = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 0, 2])
    (output,) = readout(z, row, column)
    assert output.units.flatten().tolist() == [2.5, 20.0, 300.25, 0.5, 400.25]


def test_kinds_that_are_not_asked_for_come_back_empty():
    readout = build(SCHEMAS["mixed variables"])
    z = torch.zeros(1, 1, 2, 6, 4, dtype=torch.float64)
    outputs = list(readout(z, torch.tensor([0, 1, 1]), torch.tensor([2, 0, 5])))
    found = {output.kind: output.cells.tolist() for output in outputs}
    assert found == {CONTINUOUS: [1], BINARY: [0, 2], CATEGORICAL: [], ORDINAL: []}
    assert [output.units.shape[:2] for output in outputs] == [(1, 1), (1, 2), (1, 0), (1, 0)]
    nothing = torch.zeros(0, dtype=torch.long)
    assert [len(output.cells) for output in readout(z, nothing, nothing)] == [0, 0, 0, 0]


def test_padding_gives_every_kind_the_room_it_may_need():
    schema = variable_wise(CONTINUOUS, BINARY, CONTINUOUS)
    readout = build(schema)
    z = torch.randn(1, 1, 2, 3, 4, generator=generator(5), dtype=torch.float64)
    row, column = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 1, 2, 2])  # the last one is padding
    padding = Padding(torch.tensor([True, True, True, True, False]), {CONTINUOUS: 4, BINARY: 2})
    padded = {output.kind: output for output in readout(z, row, column, padding)}
    exact = {output.kind: output for output in readout(z, row[:4], column[:4])}
    assert padded[CONTINUOUS].cells.tolist() == [0, 3, 4, 4]
    assert padded[BINARY].cells.tolist() == [1, 2]
    torch.testing.assert_close(padded[CONTINUOUS].units[:, :2], exact[CONTINUOUS].units)
    torch.testing.assert_close(padded[BINARY].units, exact[BINARY].units)


def test_columns_of_a_kind_share_weights_in_the_variable_wise_form():
    readout = build(variable_wise(BINARY, CONTINUOUS, BINARY))
    z = torch.randn(1, 1, 1, 3, 4, generator=generator(3), dtype=torch.float64)
    row, column = torch.zeros(3, dtype=torch.long), torch.arange(3)
    units = units_of_all(readout, z, row, column)
    swapped = units_of_all(readout, z[..., [2, 1, 0], :], row, column)
    for i, j in enumerate([2, 1, 0]):
        torch.testing.assert_close(swapped[i], units[j])


def test_groups_do_not_share_weights():
    readout = build(group_wise([BINARY], [BINARY]))
    z = torch.ones(1, 1, 1, 2, 4, dtype=torch.float64)
    first, second = units_of_all(readout, z, torch.zeros(2, dtype=torch.long), torch.arange(2))
    assert not torch.allclose(first, second)


def test_a_narrow_column_does_not_train_the_units_beyond_its_own():
    schema = group_wise([(CATEGORICAL, 2), (CATEGORICAL, 4)])  # units 0, 1 and 2 ... 5
    readout = build(schema)
    z = torch.randn(1, 1, 3, 1, 4, generator=generator(4), dtype=torch.float64)
    column = torch.zeros(3, dtype=torch.long)
    (output,) = readout(z, torch.arange(3), column)
    log_prob = output.likelihood.log_prob(output.units, output.column, torch.tensor([0.0, 1.0, 1.0]))
    log_prob.sum().backward()
    assert readout.unit_weight.grad[0, :2].abs().sum() > 0
    assert not readout.unit_weight.grad[0, 2:].any()
    assert not readout.unit_bias.grad[0, 2:].any()


def test_gaussian_variance_is_the_one_given():
    readout = ReadOut(variable_wise(CONTINUOUS), 2, 0.5, generators(0))
    assert readout.likelihoods[CONTINUOUS].variance == 0.5
