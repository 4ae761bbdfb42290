"""Values as networks see them, and as exact fits do."""

import numpy as np
import pytest
import torch

from core_helpers import build_members, build_model, random_values, variable_wise
from visl.batches import TrainingData
from visl.inference import AskedCells, Imputer
from visl.nets.layout import Cells
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.standardising import _tails, as_fits_see, standardise
from visl.steps import Alone
from visl.table import Table
from visl.training import train

MIXED = variable_wise(CONTINUOUS, BINARY, (CATEGORICAL, 3), ORDINAL)
FITTED = {"structure": "auto", "epochs": 2, "batch_size": 10, "epoch_steps": 40}


def model_of(schema, **settings):
    return build_model(schema, **{**FITTED, **settings})


def test_standardising_by_hand():
    schema = variable_wise(CONTINUOUS, BINARY, CONTINUOUS)
    values = np.array([[0.2, 1, 0.5], [0.6, 0, 0.5], [np.nan, 1, 0.5]])
    model = model_of(schema)
    standardise(model, TrainingData([Table.from_dense(values, ~np.isnan(values))]), Alone())
    torch.testing.assert_close(model.centre, torch.tensor([[0.4, 0.0, 0.5]]))
    torch.testing.assert_close(model.spread, torch.tensor([[0.2, 1.0, 1.0]]))  # a constant keeps its scale


def test_units_of_a_column_do_not_matter():
    schema = variable_wise(CONTINUOUS, CONTINUOUS)
    values, found = random_values(schema, 50), []
    for scale, shift in ((1.0, 0.0), (0.01, 0.4)):
        model, table = model_of(schema), Table.from_dense(scale * values + shift, np.ones(values.shape, bool))
        found.append(train(model, table, seeds=[0])[0]["nll"])
    assert found[0] == pytest.approx(found[1], rel=1e-2)  # tables hold float32


def test_knots_lie_at_quantiles_and_fewer_where_there_are_few_cells():
    values = np.linspace(0, 1, 301)[:, None] ** 1.2
    observed = np.ones((301, 1), bool)
    model = model_of(variable_wise(CONTINUOUS), n_knots=5)
    standardise(model, TrainingData([Table.from_dense(values, observed)]), Alone())
    expected = (np.linspace(0, 1, 5) ** 1.2 - values.mean()) / values.std()
    np.testing.assert_allclose(model.encoder.curves.knots[0, 0].numpy(), expected, atol=1e-5)
    observed[160:] = False  # 160 cells: three knots of at least 50 each, the others are far away
    standardise(model, TrainingData([Table.from_dense(values, observed)]), Alone())
    knots, seen = model.encoder.curves.knots[0, 0].numpy(), values[:160]
    np.testing.assert_allclose(knots[:3], (np.quantile(seen, [0, 0.5, 1]) - seen.mean()) / seen.std(), atol=1e-5)
    assert (knots[3:] >= 1e6).all()


def test_long_tails_by_hand():
    """Quantiles 1, 2, 5: 1 - 1/2, 2 - 1/2 and 5 - 1/2 are half, 1 1/2 and 4 1/2, each three times the one before."""
    quantiles = np.array([[1.0, 2.0, 5.0], [-5.0, -2.0, -1.0], [1.0, 2.0, 3.1], [0.0, 0.0, 5.0], [2.0, 2.0, 2.0]])
    side, offset, unit, centre, spread = np.stack(_tails(*quantiles.T))
    assert side.tolist() == [1, -1, 0, 1, 0]
    assert offset.tolist() == pytest.approx([-0.5, -0.5, 0, 0.05, 0])
    assert unit.tolist() == pytest.approx([0.5, 0.5, 1, 0.05, 1])
    assert centre.tolist() == pytest.approx([np.arcsinh(3), -np.arcsinh(3), 0, np.arcsinh(1), 0])
    above = (np.arcsinh(9) - np.arcsinh(1)) / 3.29
    assert spread.tolist() == pytest.approx([above, above, 1, (np.arcsinh(101) - np.arcsinh(1)) / 3.29, 1])


def test_fits_see_a_log_normal_column_as_a_normal_one_and_others_as_they_are():
    normal = np.random.default_rng(0).normal(size=(3000, 3))
    values = np.stack([np.exp(normal[:, 0]), -np.exp(normal[:, 1]), normal[:, 2]], 1)
    model, table = model_of(variable_wise(*[CONTINUOUS] * 3)), Table.from_dense(values, np.ones(values.shape, bool))
    standardise(model, TrainingData([table]), Alone())
    rows, columns = (torch.from_numpy(x) for x in (table.row_of_cell, table.columns.astype(np.int64)))
    cells = Cells(rows, columns, torch.from_numpy(table.values), len(values))
    seen = model.for_fits(cells).value.view(-1, 3).numpy()
    for j, of_column in enumerate((normal[:, 0], -normal[:, 1], normal[:, 2])):
        assert np.corrcoef(seen[:, j], of_column)[0, 1] > 0.99
    assert np.abs(seen.mean(0)).max() < 0.1
    assert seen.std(0) == pytest.approx(np.ones(3), abs=0.05)
    np.testing.assert_array_equal(seen[:, 2], model.standardised(cells).value.view(-1, 3).numpy()[:, 2])
    np.testing.assert_allclose(as_fits_see(model, 0, table), seen, atol=1e-5)


def test_fits_see_gaps_and_levels_as_they_are():
    values = random_values(MIXED, 40)
    observed = np.random.default_rng(1).random(values.shape) < 0.7
    model, table = model_of(MIXED), Table.from_dense(values, observed)
    standardise(model, TrainingData([table]), Alone())
    seen = as_fits_see(model, 0, table)
    np.testing.assert_array_equal(np.isnan(seen), ~observed)
    np.testing.assert_array_equal(seen[:, 1:][observed[:, 1:]], values[:, 1:][observed[:, 1:]])
    assert np.nanmean(seen[:, 0]) == pytest.approx(0, abs=0.1)


def test_nothing_is_standardised_in_the_papers_form():
    values = np.array([[0.2], [0.6]])
    model = model_of(variable_wise(CONTINUOUS), structure="latent", standardise=False)
    standardise(model, TrainingData([Table.from_dense(values, np.ones((2, 1), bool))]), Alone())
    assert model.centre.item() == 0
    assert model.spread.item() == 1


def test_read_outs_come_back_on_the_scale_of_the_table():
    """Networks that see x / 10 + 3 of a column answer as before, ten times as wide and moved."""
    schema = variable_wise(CONTINUOUS)
    model = model_of(schema, mixture_components=2).double()
    table = Table.from_dense(np.zeros((1, 1)), np.zeros((1, 1), bool))
    asked = AskedCells(np.array([0]), np.array([0]))
    before = Imputer(model, n_draws=4, seed=0).moments(table, asked)[0]
    model.centre.fill_(-30.0)
    model.spread.fill_(10.0)
    after = Imputer(model, n_draws=4, seed=0).moments(table, asked)[0]
    np.testing.assert_allclose(after, [10 * before[0] - 30, 100 * before[1]], rtol=1e-5)


def test_each_member_is_standardised_by_its_own_table():
    schema = variable_wise(CONTINUOUS)
    tables = [Table.from_dense(np.array(v)[:, None], np.ones((2, 1), bool)) for v in ([0.0, 1.0], [0.4, 0.6])]
    model = build_members(schema, [0, 1], **FITTED)
    standardise(model, TrainingData(tables, of_members=True), Alone())
    torch.testing.assert_close(model.spread, torch.tensor([[0.5], [0.1]]))
