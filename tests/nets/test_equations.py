"""Structural equations against a plain form that goes edge by edge."""

import numpy as np
import pytest
import torch

from core_helpers import cells_of, cells_of_members, generators, group_wise, random_table, random_values, variable_wise
from visl.batches import TrainingData
from visl.nets.equations import StructuralEquations
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.table import Table

MIXED = variable_wise(CONTINUOUS, BINARY, (CATEGORICAL, 3), ORDINAL)
KINDS_OF_MIXED = [CONTINUOUS, BINARY, CATEGORICAL, ORDINAL]
CHAIN = torch.tensor([[0.0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]).double()  # 0 -> 1, 0 -> 2, 1 -> 3


def equations(schema=MIXED, *seeds):
    return StructuralEquations(schema, 5, generators(*(seeds or (1,)))).double()


def complete(schema=MIXED, n_rows=6, seed=0):
    values = random_values(schema, n_rows, seed)
    return Table.from_dense(values, np.ones(values.shape, bool))


def cells_in_double(table):
    return cells_of(table, dtype=torch.float64)


def edge_by_edge(model, cells, graph):
    """log p of every cell, without kernels: sums of messages node by node."""
    sent = model.encoder.encode(cells)[0]  # (B, M, d)
    received = torch.zeros_like(sent)
    for k, i in graph.nonzero().tolist():
        received[:, i] += torch.relu(sent[:, k] + model.receiver[0, i]) @ model.output[0]
    log_prob = model.readout.objective(received[None, None], cells)[0]
    for j, kind in enumerate(KINDS_OF_MIXED):
        if kind == CONTINUOUS:  # the variance of the noise is that of the residuals
            of_column = cells.column == j
            output = next(o for o in model.readout(received[None, None], cells.row, cells.column) if o.kind == kind)
            residual = cells.value[of_column] - output.units[0, output.column == j, 0]
            normal = torch.distributions.Normal(0.0, residual.square().mean().sqrt())
            log_prob = log_prob.masked_scatter(of_column, normal.log_prob(residual))
    return log_prob


def test_equals_the_plain_form():
    model, cells = equations(), cells_in_double(complete())
    expected = -edge_by_edge(model, cells, CHAIN).sum()
    torch.testing.assert_close(model(cells, CHAIN[None, None])[0], expected)


@pytest.mark.parametrize("n_graphs", [2, 4, 7])  # 6 rows: three of each graph; two, two, two, none; one each, and none
def test_rows_are_shared_out_over_the_graphs(n_graphs):
    model, table = equations(), complete()
    rng = torch.Generator().manual_seed(3)
    graphs = torch.randint(0, 2, (n_graphs, 4, 4), generator=rng).double().triu(1)
    each = -(-6 // n_graphs)
    expected = sum(
        -edge_by_edge(model, cells_in_double(table.take_rows(rows)), graphs[s]).sum()
        for s in range(n_graphs)
        if len(rows := np.arange(6)[s * each : (s + 1) * each])
    )
    torch.testing.assert_close(model(cells_in_double(table), graphs[None])[0], expected)


def test_only_parents_matter():
    model, table = equations(), complete()
    values, observed = table.to_dense()
    moved = values.copy()
    moved[:, 0] += 0.3  # the parent of 1 and 2
    by_cell = [
        edge_by_edge(model, cells_in_double(Table.from_dense(v, observed)), CHAIN).view(6, 4) for v in (values, moved)
    ]
    changed = (by_cell[0] - by_cell[1]).abs().amax(0) > 1e-9
    assert changed.tolist() == [True, True, True, False]  # its own density, its children's, not its grandchild's


def test_a_cell_counts_only_where_all_its_parents_are_seen():
    model = equations()
    values, observed = complete().to_dense()
    observed[:2, 0] = False  # so cells of 1 and 2 are scored in the other four rows, which count for all six
    observed[5, 3] = False
    cells = cells_in_double(Table.from_dense(values, observed))
    log_prob = edge_by_edge(model, cells, CHAIN)
    column, row = cells.column, cells.row
    weight = torch.ones(len(column), dtype=torch.float64)
    weight[(column == 1) | (column == 2)] = 6 / 4
    weight[((column == 1) | (column == 2)) & (row < 2)] = 0
    torch.testing.assert_close(model(cells, CHAIN[None, None])[0], -(log_prob * weight).sum())


def test_where_hardly_a_row_has_all_parents_the_others_count_too():
    model = equations()
    values, observed = complete().to_dense()
    observed[:5, 0] = False  # one row of six: it counts for 1 / .3 rows, the other five for what is left of six
    cells = cells_in_double(Table.from_dense(values, observed))
    log_prob = edge_by_edge(model, cells, CHAIN)
    child = (cells.column == 1) | (cells.column == 2)
    weight = torch.ones(len(cells.column), dtype=torch.float64)
    weight[child] = (6 - 1 / 0.3) / 5
    weight[child & (cells.row == 5)] = 1 / 0.3
    torch.testing.assert_close(model(cells, CHAIN[None, None])[0], -(log_prob * weight).sum())


def test_a_gap_is_sent_as_no_value_is():
    model = equations(variable_wise(CONTINUOUS, BINARY))
    values = np.array([[0.0, 1.0]])  # 0 is what stands for a gap
    value, gap = (
        model.encoder.encode(cells_in_double(Table.from_dense(values, np.array([s]))))
        for s in ([True, True], [False, True])
    )
    assert (value[0, 0, 0] - gap[0, 0, 0]).abs().max() > 1e-3
    torch.testing.assert_close(value[0, 0, 1], gap[0, 0, 1])


def test_members_are_what_each_is_alone():
    schema = group_wise([CONTINUOUS, BINARY], [CATEGORICAL], [ORDINAL])
    tables = [random_table(schema, 5, seed=seed) for seed in (1, 2)]
    graphs = torch.tensor([[[0.0, 1, 0], [0, 0, 0], [1, 0, 0]], [[0, 0, 1], [1, 0, 0], [0, 0, 0]]]).double()
    data = TrainingData(tables, of_members=True)
    rows = torch.arange(10).view(2, 5)
    together = equations(schema, 3, 4)(cells_of_members(schema, data, rows, dtype=torch.float64), graphs[:, None])
    for k, table in enumerate(tables):
        alone = equations(schema, 3 + k)(cells_in_double(table), graphs[[k], None])
        torch.testing.assert_close(together[[k]], alone)


def test_absent_edges_have_a_gradient_only_if_they_are_not_quite_zero():
    model, cells = equations(), cells_in_double(complete())
    for value, share in ((0.0, 0.0), (1e-20, 0.8)):  # a few may be behind units that are off
        graph = CHAIN.clone().masked_fill(CHAIN == 0, value)[None, None].requires_grad_()
        model(cells, graph).sum().backward()
        gradient = graph.grad[0, 0]
        assert gradient[CHAIN > 0].abs().min() > 0
        absent = gradient[:, 1:][(CHAIN + torch.eye(4) == 0)[:, 1:]]  # the noise of continuous 0 follows the graph too
        assert (absent != 0).double().mean() >= share
        assert share or not absent.any()
