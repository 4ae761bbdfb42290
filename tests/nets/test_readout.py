import pytest
import torch

from core_helpers import generator, group_wise, variable_wise
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


def build(schema, dim=4, seed=0):
    return ReadOut(schema, dim, 0.02, generator(seed)).double()


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
    kinds = [c.kind for c in schema.columns]
    widths = [UNITS[c.kind](c) for c in schema.columns]
    widest = {kind: max(w for w, k in zip(widths, kinds, strict=True) if k == kind) for kind in kinds}
    seen, sets = list(widest), sorted(set(kinds))
    result = []
    for n, i in zip(row.tolist(), column.tolist(), strict=True):
        kind, m = kinds[i], schema.group_of[i]
        s = m if schema.grouped else sets.index(kind)
        own = sum(widths[:i]) if schema.grouped else sum(widest[k] for k in seen[: seen.index(kind)])
        hidden = torch.relu(z[..., n, m, :] @ readout.hidden.weight[s] + readout.hidden.bias[s])
        unit = range(own, own + widths[i])
        result.append(torch.stack([hidden @ readout.unit_weight[u] + readout.unit_bias[u] for u in unit], dim=-1))
    return result


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("draws", [(), (3,)])
def test_equals_a_dense_oracle(name, draws):
    schema = SCHEMAS[name]
    readout = build(schema)
    z = torch.randn(*draws, 5, len(schema.groups), 4, generator=generator(1), dtype=torch.float64, requires_grad=True)
    asked = torch.rand(5, len(schema.columns), generator=generator(2)) < 0.7
    row, column = asked.nonzero(as_tuple=True)
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
    z = torch.tensor([[[2.0], [3.0]], [[-2.0], [4.0]]], dtype=torch.float64)
    row, column = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 0, 2])
    (output,) = readout(z, row, column)
    assert output.units.flatten().tolist() == [2.5, 20.0, 300.25, 0.5, 400.25]


def test_only_kinds_that_are_asked_for_come_back():
    readout = build(SCHEMAS["mixed variables"])
    z = torch.zeros(2, 6, 4, dtype=torch.float64)
    outputs = list(readout(z, torch.tensor([0, 1, 1]), torch.tensor([2, 0, 5])))
    assert [(output.kind, output.cells.tolist()) for output in outputs] == [(CONTINUOUS, [1]), (BINARY, [0, 2])]
    nothing = torch.zeros(0, dtype=torch.long)
    assert list(readout(z, nothing, nothing)) == []


def test_columns_of_a_kind_share_weights_in_the_variable_wise_form():
    readout = build(variable_wise(BINARY, CONTINUOUS, BINARY))
    z = torch.randn(1, 3, 4, generator=generator(3), dtype=torch.float64)
    row, column = torch.zeros(3, dtype=torch.long), torch.arange(3)
    units = units_of_all(readout, z, row, column)
    swapped = units_of_all(readout, z[:, [2, 1, 0]], row, column)
    for i, j in enumerate([2, 1, 0]):
        torch.testing.assert_close(swapped[i], units[j])


def test_groups_do_not_share_weights():
    readout = build(group_wise([BINARY], [BINARY]))
    z = torch.ones(1, 2, 4, dtype=torch.float64)
    first, second = units_of_all(readout, z, torch.zeros(2, dtype=torch.long), torch.arange(2))
    assert not torch.allclose(first, second)


def test_a_narrow_column_does_not_train_the_units_beyond_its_own():
    schema = group_wise([(CATEGORICAL, 2), (CATEGORICAL, 4)])  # units 0, 1 and 2 ... 5
    readout = build(schema)
    z = torch.randn(3, 1, 4, generator=generator(4), dtype=torch.float64)
    column = torch.zeros(3, dtype=torch.long)
    (output,) = readout(z, torch.arange(3), column)
    log_prob = output.likelihood.log_prob(output.units, output.column, torch.tensor([0.0, 1.0, 1.0]))
    log_prob.sum().backward()
    assert readout.unit_weight.grad[:2].abs().sum() > 0
    assert not readout.unit_weight.grad[2:].any()
    assert not readout.unit_bias.grad[2:].any()


def test_gaussian_variance_is_the_one_given():
    readout = ReadOut(variable_wise(CONTINUOUS), 2, 0.5, generator())
    assert readout.likelihoods[CONTINUOUS].variance == 0.5
