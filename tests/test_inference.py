"""Draws and summaries of hidden cells."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from visl import inference
from visl.config import Config
from visl.inference import AskedCells, Imputer, calibrate_noise, mixture_quantile
from visl.model import VislModel
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL, Column, Schema
from visl.table import Table

COLUMNS = (
    Column("b", BINARY, "b", levels=(0, 1)),
    Column("c", CATEGORICAL, "c", levels=("x", "y", "z")),
    Column("n", CONTINUOUS, "n"),
    Column("o", ORDINAL, "o", levels=(1, 2, 3, 4)),
)
SCHEMA = Schema(COLUMNS, ("b", "c", "n", "o"), grouped=False)


@pytest.fixture(scope="module")
def model() -> VislModel:
    """Untrained, with weights large enough that cells matter."""
    built = VislModel(
        SCHEMA,
        Config(latent_dim=6, keep_own=False, group_embeddings=False),
        torch.full((4, 4), 0.3),
        torch.Generator().manual_seed(1),
    )
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.mul_(2.5)
    return built


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40), rng.random(40), rng.integers(0, 4, 40)], 1)
    table = Table.from_dense(values, rng.random((40, 4)) < 0.5)
    return table.take_rows(np.unique(table.row_keys(), return_index=True)[1])  # no copies


def gaps(table: Table) -> AskedCells:
    return AskedCells(*table.gaps())


def every_summary(model: VislModel, table: Table, asked: AskedCells, n_draws: int = 30) -> list[np.ndarray]:
    imputer = Imputer(model, n_draws=n_draws, seed=3)
    return [
        imputer.point(table, asked),
        imputer.probabilities(table, asked),
        imputer.quantile(table, asked, 0.2),
        imputer.sample(table, asked).T,
        imputer.log_prob(table, asked, np.zeros(len(asked), np.float32)),
    ]


def test_a_row_does_not_depend_on_its_neighbours_or_their_order(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    together = every_summary(model, table, asked)
    order = np.random.default_rng(5).permutation(table.n_rows)
    shuffled = table.take_rows(order)
    position = np.lexsort((gaps(shuffled).column, order[gaps(shuffled).row]))  # back in the order of `asked`
    for whole, moved in zip(together, every_summary(model, shuffled, gaps(shuffled)), strict=True):
        np.testing.assert_array_equal(whole, moved[position])
    row = int(asked.row[7])
    alone = table.take_rows(np.array([row]))
    for whole, part in zip(together, every_summary(model, alone, gaps(alone)), strict=True):
        np.testing.assert_array_equal(whole[asked.row == row], part)


def test_the_size_of_chunks_changes_nothing(model: VislModel, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = every_summary(model, table, gaps(table))
    monkeypatch.setattr(inference, "FLOATS_AT_ONCE", 1)
    for one, other in zip(whole, every_summary(model, table, gaps(table)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_copies_of_a_row_get_different_draws_but_the_same_summaries(model: VislModel, table: Table) -> None:
    twice = table.take_rows(np.array([0, 0]))
    asked = gaps(twice)
    point, _, _, sample, _ = every_summary(model, twice, asked, n_draws=40)
    first, second = asked.row == 0, asked.row == 1
    np.testing.assert_array_equal(point[first], point[second])
    assert not np.array_equal(sample[first], sample[second])


def test_draws_follow_the_predicted_distribution(model: VislModel) -> None:
    """2000 draws of one row: frequencies, quantiles and the mean agree with the closed summaries."""
    empty = Table.from_dense(np.zeros((1, 4)), np.zeros((1, 4), bool))
    imputer = Imputer(model, n_draws=2000, seed=0)
    asked = gaps(empty)
    draws, shares = imputer.sample(empty, asked), imputer.probabilities(empty, asked)
    for cell, column in enumerate(COLUMNS):
        if column.levels:
            frequency = np.bincount(draws[:, cell].astype(int), minlength=4)[:4] / 2000
            np.testing.assert_allclose(frequency, shares[cell], atol=0.045)  # 4 standard errors of a share
            np.testing.assert_allclose(shares[cell].sum(), 1, atol=1e-6)
    continuous = draws[:, 2]
    assert abs(continuous.mean() - imputer.point(empty, asked)[2]) < 4 * continuous.std() / 2000**0.5
    assert abs((continuous <= imputer.quantile(empty, asked, 0.2)[2]).mean() - 0.2) < 0.04


def test_rows_are_independent_within_a_draw(model: VislModel) -> None:
    """Equal content, many copies: the share of a level in a draw varies as for independent rows, not all or nothing."""
    rows = 400
    empty = Table.from_dense(np.zeros((rows, 4)), np.zeros((rows, 4), bool))
    draws = Imputer(model, n_draws=20, seed=0).sample(empty, gaps(empty)).reshape(20, rows, 4)
    share = draws[:, :, 0].mean(1)
    overall = share.mean()
    # The graph is common to a draw, so a little more than binomial is right.
    assert share.std() < 4 * (overall * (1 - overall) / rows) ** 0.5 + 0.02
    assert 0.02 < overall < 0.98


def test_levels_beyond_a_columns_own_have_no_probability(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    shares = Imputer(model, n_draws=5, seed=0).probabilities(table, asked)
    assert (shares[asked.column == 0][:, 2:] == 0).all()
    assert (shares[asked.column == 1][:, 3:] == 0).all()
    assert (shares[asked.column == 2] == 0).all()


def test_categorical_cells_have_no_quantile(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    quantile = Imputer(model, n_draws=5, seed=0).quantile(table, asked, 0.5)
    np.testing.assert_array_equal(np.isnan(quantile), asked.column == 1)


def test_mixture_quantile_of_one_gaussian_is_the_gaussians() -> None:
    quantile = mixture_quantile(torch.tensor([[1.0, -2.0]]), torch.tensor([0.5, 2.0]), 0.95)
    np.testing.assert_allclose(quantile, norm.ppf(0.95, [1, -2], [0.5, 2]), rtol=1e-5)


def test_mixture_quantile_of_two_distant_gaussians() -> None:
    """Half of the mass at 0, half at 10: the quarter lies at 0, three quarters at 10."""
    means, deviation = torch.tensor([[0.0], [10.0]]), torch.tensor([0.1])
    np.testing.assert_allclose(mixture_quantile(means, deviation, 0.25), [0.0], atol=1e-4)
    np.testing.assert_allclose(mixture_quantile(means, deviation, 0.75), [10.0], atol=1e-4)


def test_log_prob_is_the_log_of_the_mean_probability(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    imputer = Imputer(model, n_draws=25, seed=2)
    binary = asked.column == 0
    logs = imputer.log_prob(table, asked, np.ones(len(asked), np.float32))
    np.testing.assert_allclose(np.exp(logs[binary]), imputer.probabilities(table, asked)[binary, 1], rtol=1e-5)


def test_calibration_matches_the_residuals() -> None:
    """A model that predicts a constant: noise variance + variance of the draws = the column's mean squared residual."""
    columns = (Column("a", CONTINUOUS, "a"), Column("b", CONTINUOUS, "b"))
    model = VislModel(
        Schema(columns, ("a", "b"), False),
        Config(latent_dim=4, keep_own=False, group_embeddings=False),
        torch.zeros(2, 2),
        torch.Generator().manual_seed(0),
    )
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(0, 0.1, 4000), rng.normal(0, 0.5, 4000)], 1)
    calibrate_noise(model, Table.from_dense(values, np.ones((4000, 2), bool)), seed=0)
    # No edges: a node receives nothing, so every draw predicts the same constant m and the variance is E[(x - m)^2].
    constant = Imputer(model, n_draws=3, seed=0).point(
        Table.from_dense(np.zeros((1, 2)), np.zeros((1, 2), bool)), AskedCells(np.array([0, 0]), np.array([0, 1]))
    )
    expected = np.array([0.01, 0.25]) + constant**2
    np.testing.assert_allclose(model.noise_variance, expected, rtol=0.15)
