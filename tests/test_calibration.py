"""How wide continuous draws are, set by hidden cells of the training rows."""

import numpy as np
import pytest
import torch

from core_helpers import build_members, build_model, variable_wise
from visl.calibration import FACTORS, calibrate, trust_in
from visl.inference import AskedCells, Imputer
from visl.model import VislModel
from visl.nets import likelihoods
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.table import Table

NO_EDGE = torch.zeros(2, 2)
EMPTY_ROW = Table.from_dense(np.zeros((1, 2)), np.zeros((1, 2), bool)), AskedCells(np.array([0, 0]), np.array([0, 1]))


@pytest.fixture(autouse=True)
def one_hump(monkeypatch: pytest.MonkeyPatch) -> None:
    """Components of the untrained model lie together, so that their deviations are the distribution's."""
    monkeypatch.setattr(likelihoods, "START_MEANS", 0.0)


def two_numbers(n_members: int = 1, **settings: int) -> VislModel:
    """Without an edge a node receives nothing: every draw of a member predicts the same, whatever is seen."""
    return build_members(variable_wise(CONTINUOUS, CONTINUOUS), range(n_members), NO_EDGE, **settings)


def test_noise_matches_the_residuals() -> None:
    """Of a constant m the noise variance is E[(x - m)^2]."""
    model, rng = two_numbers(), np.random.default_rng(0)
    values = np.stack([rng.normal(0, 0.1, 4000), rng.normal(0, 0.5, 4000)], 1)
    calibrate(model, complete(values), seed=0)
    constant = Imputer(model, n_draws=3, seed=0).point(*EMPTY_ROW)
    np.testing.assert_allclose(model.noise_variance, (np.array([0.01, 0.25]) + constant**2)[None], rtol=0.15)


def complete(values: np.ndarray) -> Table:
    return Table.from_dense(values, np.ones(values.shape, bool))


def test_noise_is_that_of_each_member_alone() -> None:
    schema, rng = variable_wise(BINARY, CATEGORICAL, CONTINUOUS, ORDINAL), np.random.default_rng(0)
    values = np.stack([rng.integers(0, 2, 300), rng.integers(0, 3, 300), rng.random(300), rng.integers(0, 3, 300)], 1)
    data, together = Table.from_dense(values, rng.random((300, 4)) < 0.8), build_members(schema, [0, 1, 2])
    calibrate(together, data, seed=0)
    for seed, variance in enumerate(together.noise_variance):
        alone = build_model(schema, seed)
        calibrate(alone, data, seed=0)
        torch.testing.assert_close(alone.noise_variance[0], variance)
    assert len(together.noise_variance[:, 2].unique()) == 3
    torch.testing.assert_close(together.noise_variance[:, [0, 1, 3]], torch.full((3, 3), 0.02))  # of discrete columns


def ends(model: VislModel) -> list[np.ndarray]:
    imputer = Imputer(model, n_draws=6, seed=0)
    return [imputer.quantile(*EMPTY_ROW, share) for share in (0.05, 0.95)]


def covered(model: VislModel, values: np.ndarray) -> np.ndarray:
    low, high = ends(model)
    return ((low <= values) & (values <= high)).mean(0)


@pytest.mark.parametrize("deviation", [0.5, 1.1])
@pytest.mark.parametrize("n_members", [1, 3])
def test_intervals_of_mixtures_hold_nine_tenths(n_members: int, deviation: float) -> None:
    """Also of pooled members that differ. At first intervals are too wide for one data set, or too narrow."""
    model = two_numbers(n_members, mixture_components=2)
    centre, rng = Imputer(model, n_draws=6, seed=0).point(*EMPTY_ROW), np.random.default_rng(1)
    train, test = (centre + rng.normal(0, deviation, (6000, 2)) for _ in range(2))
    before = covered(model, test)
    assert (before > 0.93).all() if deviation < 1 else (before < 0.87).all()
    calibrate(model, complete(train), seed=0)
    np.testing.assert_allclose(covered(model, test), 0.9, atol=0.02)
    assert (model.deviation_scale == model.deviation_scale[:1]).all()  # members share it
    again = model.deviation_scale.clone()
    calibrate(model, complete(train), seed=0)
    torch.testing.assert_close(model.deviation_scale, again)  # what was set before does not count


def test_a_value_that_many_cells_have_does_not_narrow_its_column() -> None:
    """A normal distribution rounded to whole deviations: plain intervals then cover more than their level."""
    model = two_numbers(mixture_components=2)
    centre, deviation = Imputer(model, n_draws=6, seed=0).moments(*EMPTY_ROW).T
    values = np.random.default_rng(2).normal(centre, deviation**0.5, (6000, 2))
    rounded = np.round((values - centre) / deviation**0.5) * deviation**0.5 + centre
    calibrate(model, complete(values), seed=0)
    scale = model.deviation_scale.clone()
    calibrate(model, complete(rounded), seed=0)
    torch.testing.assert_close(model.deviation_scale, scale, rtol=0.1, atol=0)


@pytest.mark.parametrize(("deviation", "end"), [(1e-3, 0), (50, -1)])
def test_a_scale_has_bounds(deviation: float, end: int) -> None:
    model = two_numbers(mixture_components=2)
    centre = Imputer(model, n_draws=6, seed=0).point(*EMPTY_ROW)
    calibrate(model, complete(np.random.default_rng(3).normal(centre, deviation, (3000, 2))), seed=0)
    scale = FACTORS[end] ** (trust_in(3000 / 2) if end == 0 else 1)
    np.testing.assert_allclose(model.deviation_scale, np.full((1, 2), scale), rtol=1e-5)


def test_few_rows_narrow_by_less() -> None:
    """15 values of each column for each column: half of the way, by logarithms, to the least factor."""
    model = two_numbers(mixture_components=2)
    centre = Imputer(model, n_draws=6, seed=0).point(*EMPTY_ROW)
    calibrate(model, complete(np.random.default_rng(3).normal(centre, 1e-3, (30, 2))), seed=0)
    np.testing.assert_allclose(model.deviation_scale, np.full((1, 2), FACTORS[0] ** 0.5), rtol=1e-5)


def test_without_numbers_nothing_changes() -> None:
    model = build_model(variable_wise(BINARY, BINARY), mixture_components=2)
    calibrate(model, complete(np.random.default_rng(0).integers(0, 2, (50, 2))), seed=0)
    torch.testing.assert_close(model.deviation_scale, torch.ones(1, 2))
