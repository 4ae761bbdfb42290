"""The Gaussian behind linear guesses: fitted by hand-worked moments, and with gaps back to a known truth."""

import numpy as np
import pytest
import torch

from core_helpers import build_members, variable_wise
from test_training import StopAfter, assert_same_tensors, round_trip
from visl.batches import CellStore, TrainingData
from visl.inference import AskedCells, Imputer
from visl.linear_fit import PRIOR_ROWS_OF_A_FEATURE, ROWS_OF_A_FEATURE, TIMES, LinearFit
from visl.model import VislModel
from visl.nets.guess import condition
from visl.schema import BINARY, CONTINUOUS
from visl.steps import Alone
from visl.table import Table
from visl.training import Interrupted, train

D = 20
NUMBERS = variable_wise(*[CONTINUOUS] * D)
NO_EDGE = torch.zeros(D, D)  # known not to be there: none is looked for
FORM = {"structure": "auto", "mixture_components": 3, "mark_observed": True, "shared_networks": False}


def one_factor(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Every column is the same hidden number and noise of its own: variances 1, correlations 0.8."""
    return np.sqrt(0.8) * rng.normal(size=(n_rows, 1)) + np.sqrt(0.2) * rng.normal(size=(n_rows, D))


def fitted(values: np.ndarray, observed: np.ndarray, schema=NUMBERS, **settings) -> tuple[VislModel, LinearFit]:
    model = build_members(schema, [0], **FORM | settings).double()
    data = TrainingData([Table.from_dense(values, observed)])
    fit = LinearFit(model, CellStore(data, schema, 1, torch.device("cpu")), data, Alone())
    fit.fit()
    return model, fit


def test_complete_rows_give_their_mean_and_a_shrunk_covariance() -> None:
    values = one_factor(300, np.random.default_rng(0)) + np.arange(D)
    model, _ = fitted(values, np.ones(values.shape, bool))
    seen = values.astype(np.float32).astype(float)
    kept = 300 * float(model.guess.own_share)
    assert kept in [pytest.approx(300 / (300 + times * PRIOR_ROWS_OF_A_FEATURE * D)) for times in TIMES]
    expected = np.cov(seen.T, bias=True)
    expected = kept * expected + (1 - kept) * np.diag(np.diag(expected))
    np.testing.assert_allclose(model.guess.mean[0], seen.mean(0), atol=1e-9)
    np.testing.assert_allclose(torch.linalg.inv(model.guess.precision[0]), expected, atol=1e-9)
    np.testing.assert_allclose(model.guess.deviation[0], np.sqrt(np.diag(expected)), atol=1e-9)


def test_what_columns_hardly_tell_of_each_other_is_shrunk_the_more() -> None:
    """Of 80 rows of independent columns half are taken for a chance; of 4000 with a factor hardly any."""
    rng = np.random.default_rng(4)
    few, many = rng.normal(size=(80, D)), one_factor(4000, rng)
    few_kept, many_kept = (
        len(values) * float(fitted(values, np.ones(values.shape, bool))[0].guess.own_share) for values in (few, many)
    )
    assert few_kept < 0.6
    assert many_kept > 0.99


def test_gaps_do_not_bend_the_fit() -> None:
    """Values above 0 of half of the columns are missing more often, which other columns tell: means stay near 0."""
    rng = np.random.default_rng(1)
    values = one_factor(4000, rng)
    high = values[:, :1] > 0
    observed = rng.random(values.shape) < np.where(high, 0.4, 0.9)
    observed[:, : D // 2] = True
    model, fit = fitted(values, observed)
    naive = np.array([values[observed[:, j], j].mean() for j in range(D // 2, D)])
    assert naive.mean() < -0.25
    np.testing.assert_allclose(model.guess.mean[0], values.mean(0), atol=0.05)
    correlations = torch.linalg.inv(model.guess.precision[0]).numpy()
    np.testing.assert_allclose(correlations, 0.8 + 0.2 * np.eye(D), atol=0.06)
    filled = fit.filled().numpy()
    np.testing.assert_allclose(filled[observed], values[observed], atol=1e-6)
    error = np.sqrt(np.mean((filled - values)[~observed] ** 2))
    assert error == pytest.approx(np.sqrt(0.2 * (1 + 1 / 14)), rel=0.03)  # 0.2 of its own, and the factor's


def test_binary_columns_and_columns_that_never_change() -> None:
    rng = np.random.default_rng(2)
    schema = variable_wise(BINARY, *[CONTINUOUS] * (D - 1))
    values = one_factor(2000, rng)
    values[:, 0] = values[:, 0] > 1
    values[:, 1] = 0.5
    observed = rng.random(values.shape) < 0.7
    model, fit = fitted(values, observed, schema)
    filled = fit.filled().numpy()
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(filled[:, 1], 0.5, atol=1e-6)
    gaps, truth = filled[~observed[:, 0], 0], values[~observed[:, 0], 0]
    # Of x > 1 with x, phi(1) / sqrt(.159 * .841) = .662; of x with the others' mean, sqrt(.8 * 14 / 14.25) = .887.
    assert np.corrcoef(gaps, truth)[0, 1] == pytest.approx(0.662 * 0.887, abs=0.09)
    assert gaps.mean() == pytest.approx(truth.mean(), abs=0.03)


def test_too_few_rows_leave_the_guess_as_it_was() -> None:
    values = one_factor(ROWS_OF_A_FEATURE * D - 1, np.random.default_rng(0))
    model, fit = fitted(values, np.ones(values.shape, bool))
    assert fit.filled() is None
    assert torch.equal(model.guess.precision[0], torch.eye(D).double())
    assert not model.guess.mean.any()


def test_only_without_a_guess_do_unjoined_columns_have_messages() -> None:
    edges = torch.zeros(1, D, D, dtype=torch.float64)
    edges[0, 3, 5] = 1.0
    for n_rows, weight in ((ROWS_OF_A_FEATURE * D, 0.0), (ROWS_OF_A_FEATURE * D - 1, 0.3)):
        values = one_factor(n_rows, np.random.default_rng(0))
        model, _ = fitted(values, np.ones(values.shape, bool), unjoined_weight=0.3)
        assert bool(model.guess.is_fitted.all()) == (weight == 0)
        along = model._message_weights(edges)
        assert along.sum() == pytest.approx(1 + weight * (D * (D - 1) / 2 - 1))
        assert along[0, 3, 5] == 1.0


def test_filled_rows_are_those_of_each_data_set() -> None:
    rng = np.random.default_rng(3)
    tables = [Table.from_dense(one_factor(250, rng) * s, rng.random((250, D)) < 0.8) for s in (1.0, -2.0)]
    model = build_members(NUMBERS, [0, 1, 2, 3], **FORM).double()
    data = TrainingData(tables, of_members=True, members_each=2)
    fit = LinearFit(model, CellStore(data, NUMBERS, 4, torch.device("cpu")), data, Alone())
    fit.fit()
    assert torch.equal(model.guess.precision[0], model.guess.precision[1])
    assert not torch.allclose(model.guess.precision[1], model.guess.precision[2])
    filled = fit.filled()
    for i, table in enumerate(tables):
        values, seen = (torch.from_numpy(x).double() for x in table.to_dense())
        mean, precision = model.guess.mean[2 * i], model.guess.precision[2 * i : 2 * i + 1]
        expected = mean + condition(precision, seen, values - mean).away
        torch.testing.assert_close(filled[250 * i : 250 * (i + 1)], expected)


SHORT = FORM | {"epochs": 24, "batch_size": 50, "min_batches": 1, "learning_rate": 0.03, "latent_dim": 8}


@pytest.fixture(scope="module")
def near_linear() -> tuple[np.ndarray, Table, AskedCells]:
    rng = np.random.default_rng(4)
    values = 0.5 + 0.1 * one_factor(400, rng)
    observed = rng.random(values.shape) < 0.7
    return values, Table.from_dense(values, observed), AskedCells(*np.nonzero(~observed))


@pytest.fixture(scope="module")
def short_fit(near_linear: tuple[np.ndarray, Table, AskedCells]) -> VislModel:
    model = build_members(NUMBERS, [0], NO_EDGE, **SHORT, standardise=True)
    train(model, near_linear[1], seeds=[0])
    return model


def test_a_short_fit_predicts_what_is_linear(
    short_fit: VislModel, near_linear: tuple[np.ndarray, Table, AskedCells]
) -> None:
    """The best is an error of sqrt(0.2 (1 + 1/14)) = 0.463 deviations; networks alone are far from it so soon."""
    values, table, asked = near_linear

    def error(model: VislModel) -> float:
        found = Imputer(model, n_draws=5, seed=0).point(table, asked)
        return float(np.sqrt(np.mean((found - values[asked.row, asked.column]) ** 2)) / 0.1)

    half = SHORT | {"epochs": 12}  # of which two thirds, not one, are those of networks without a guess: as many
    alone = build_members(NUMBERS, [0], NO_EDGE, **half, standardise=True, linear_guess=False)
    assert alone.epochs == short_fit.epochs == 8
    train(alone, table, seeds=[0])
    assert error(short_fit) < 0.55
    assert error(short_fit) < 0.9 * error(alone)


@pytest.mark.parametrize("through_file", [False, True])
def test_a_fit_with_guesses_goes_on_where_it_was_interrupted(
    through_file: bool, short_fit: VislModel, near_linear: tuple[np.ndarray, Table, AskedCells]
) -> None:
    """In stage 2, where filled rows are made again."""
    model = build_members(NUMBERS, [0], NO_EDGE, **SHORT, standardise=True)
    with pytest.raises(Interrupted) as stopped:
        train(model, near_linear[1], seeds=[0], should_stop=StopAfter(8 * 7 + 3))
    state = stopped.value.state
    assert model.phases[-1].first <= state.epoch
    state, model = round_trip(state, model) if through_file else (state, model)
    train(model, near_linear[1], seeds=[0], state=state)
    assert_same_tensors(model, short_fit)


def test_parts_of_a_table_are_fitted_as_one() -> None:
    rng = np.random.default_rng(5)
    values, observed = one_factor(300, rng), rng.random((300, D)) < 0.8
    whole, fit = fitted(values, observed)
    split = build_members(NUMBERS, [0], **FORM).double()
    tables = [Table.from_dense(values[rows], observed[rows]) for rows in (slice(0, 110), slice(110, 300))]
    data = TrainingData(tables, parts=(0, 1))
    of_parts = LinearFit(split, CellStore(data, NUMBERS, 1, torch.device("cpu")), data, Alone())
    of_parts.fit()
    torch.testing.assert_close(split.guess.precision, whole.guess.precision)
    torch.testing.assert_close(of_parts.filled(), fit.filled())
