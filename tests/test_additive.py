"""Exact fits of sums of smooth functions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.preprocessing import SplineTransformer

from visl import additive
from visl.additive import AdditiveFits
from visl.densities import log_densities
from visl.smooth import spline_basis


def made_up(n_rows: int = 1500, seed: int = 0) -> np.ndarray:
    """Columns 0 to 3 at random, 4 a sum of waves of 0 and 1 and of a level of 2; noise of deviation .1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 5))
    x[:, 2] = rng.integers(0, 3, n_rows)
    x[:, 4] = np.sin(3 * x[:, 0]) + x[:, 1] ** 2 + np.array([0.0, 2.0, -1.0])[x[:, 2].astype(int)]
    x[:, 4] += 0.1 * rng.normal(size=n_rows)
    return x


NUMBERS = [True, True, False, True, True]


def test_a_mean_by_hand():
    """Without columns a row is predicted by the mean of the others: 0 by 4.5, 3 by 3, 6 by 1.5."""
    fits = AdditiveFits(np.array([[0.0], [3.0], [6.0], [np.nan]]), [True])
    np.testing.assert_allclose(fits.residuals(0, [])[0], [-4.5, 0.0, 4.5, np.nan], atol=1e-6)


def test_levels_by_hand():
    """Given a level, a row is predicted by the mean of the others of its level."""
    values = np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0], [1.0, 10.0], [1.0, 12.0], [np.nan, 9.0]])
    found = AdditiveFits(values, [False, True]).residuals(1, [0])[0]
    np.testing.assert_allclose(found, [-3.0, 0.0, 3.0, -2.0, 2.0, np.nan], atol=0.01)  # but for the ridge


def test_each_row_is_predicted_by_the_others():
    values = made_up(60)
    fits = AdditiveFits(values, NUMBERS)
    found = fits.residuals(4, [0, 2])[0]
    moved = values.copy()
    moved[7, 4] += 0.1
    again = AdditiveFits(moved, NUMBERS).residuals(4, [0, 2])[0]
    assert again[7] - found[7] == pytest.approx(0.1)  # its prediction has not moved


def test_noise_and_parents_are_found():
    fits = AdditiveFits(made_up(), NUMBERS)
    every, true = (log_densities(fits.residuals(4, given)[0]).mean() for given in ([0, 1, 2, 3], [0, 1, 2]))
    assert fits.residuals(4, [0, 1, 2])[0].std() == pytest.approx(0.1, abs=0.01)
    assert -0.05 < every - true < 0  # a column that says nothing is worth less than nothing
    for parent in (0, 1, 2):
        without = log_densities(fits.residuals(4, [0, 1, 2])[1 + parent]).mean()
        assert true - without > 0.5


def test_without_a_column_is_a_fit_of_the_others(monkeypatch):
    monkeypatch.setattr(additive, "SMOOTHNESS", (1e-3,))
    monkeypatch.setattr(additive, "CLEARLY", np.inf)  # where there is only a sum it is left out by arithmetic
    fits = AdditiveFits(made_up(200), NUMBERS)
    found = fits.residuals(4, [0, 2, 3])
    for s, others in enumerate(([2, 3], [0, 3], [0, 2])):
        np.testing.assert_allclose(found[1 + s], fits.residuals(4, others)[0], atol=1e-6)


def test_gaps_leave_their_rows_out():
    values = made_up(300)
    gaps = values.copy()
    gaps[:20, 0], gaps[10:30, 4] = np.nan, np.nan
    fits = AdditiveFits(gaps, NUMBERS)
    found = fits.residuals(4, [0])[0]
    assert np.isnan(found[:30]).all()
    assert not np.isnan(found[30:]).any()
    assert np.isnan(fits.residuals(4, [1])[0]).sum() == 20


@given(st.integers(2, 12), st.integers(0, 1000))
def test_the_basis_is_that_of_scikit_learn(n_pieces, seed):
    x = np.random.default_rng(seed).normal(size=80)
    third = max(1, n_pieces // 3)
    knots = np.unique([*np.quantile(x, np.linspace(0, 1, third + 1)), *np.linspace(x.min(), x.max(), 2 * third + 1)])
    ours = spline_basis(x, n_pieces)
    # scikit-learn's outer knots lie elsewhere, but both span the same curves.
    theirs = SplineTransformer(degree=3, knots=knots[:, None]).fit_transform(x[:, None])
    theirs = theirs - theirs.mean(0)
    solved = ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0]
    np.testing.assert_allclose(solved, theirs, atol=1e-7)


def test_a_constant_and_a_column_without_values_say_nothing():
    values = np.column_stack([np.ones(50), np.full(50, np.nan), np.arange(50.0)])
    fits = AdditiveFits(values, [True] * 3)
    np.testing.assert_allclose(fits.residuals(2, [0])[0], fits.residuals(2, [])[0])
    assert np.isnan(fits.residuals(2, [1])).all()


SHAPES = (
    (stats.norm(), 0.03),
    (stats.uniform(-1, 2), 0.06),
    (stats.laplace(), 0.05),
    (stats.expon(-1), 0.12),  # a kernel estimate rounds its edge off
    (stats.t(3), 0.05),
)


@pytest.mark.parametrize(("shape", "within"), SHAPES)
def test_noise_of_any_shape_is_known_nearly_as_well_as_its_own_density_knows_it(shape, within):
    noise = shape.rvs(4000, random_state=1)
    assert log_densities(noise).mean() == pytest.approx(-shape.entropy(), abs=within)


def test_two_humps_are_denser_than_one_normal_says():
    rng = np.random.default_rng(0)
    noise = rng.choice([-2.0, 2.0], 2000) + 0.3 * rng.normal(size=2000)
    normal = stats.norm(noise.mean(), noise.std()).logpdf(noise).mean()
    assert log_densities(noise).mean() > normal + 0.9  # log(2.02 / .3) - log 2 nats, less the smoothing


@given(st.floats(0.01, 100), st.floats(-5, 5), st.integers(0, 100))
def test_densities_change_with_the_units_as_densities_do(scale, shift, seed):
    noise = np.random.default_rng(seed).normal(size=300)
    noise[:20] = np.nan
    found, other = log_densities(noise), log_densities(scale * noise)
    assert np.isnan(found[:20]).all()
    np.testing.assert_allclose(other[20:], found[20:] - np.log(scale), atol=0.05)


def test_a_row_far_from_all_others_costs_what_a_long_tail_says():
    """Not the logarithm of nothing: a tenth of a Student density of 4 degrees of freedom."""
    noise = np.append(np.random.default_rng(0).normal(size=1000), 50.0)
    scale = stats.t.fit(noise, fdf=4, floc=0)[2]
    assert log_densities(noise)[-1] == pytest.approx(np.log(0.1) + stats.t(4, 0, scale).logpdf(50.0), abs=0.01)


def acting_together(n_rows=1000, seed=0):
    """3 is the product of 0 and 1, and of nothing else."""
    x = np.random.default_rng(seed).normal(size=(n_rows, 4))
    x[:, 3] = x[:, 0] * x[:, 1] + 0.1 * x[:, 3]
    return x


def test_columns_that_act_together_are_told_by_neither_alone():
    fits = AdditiveFits(acting_together(), [True] * 4)
    both, without_0, without_1 = fits.residuals(3, [0, 1])
    assert both.std() == pytest.approx(0.1, abs=0.03)
    assert min(without_0.std(), without_1.std()) > 0.8
    np.testing.assert_array_equal(without_0, fits.residuals(3, [1])[0])  # a fit of its own
    of_all = [log_densities(fits.residuals(3, given, [])[0]).mean() for given in ([0, 1], [0, 1, 2])]
    assert of_all[1] < of_all[0]  # a column that says nothing is worth less than nothing


def test_levels_act_together_with_numbers():
    x = acting_together()
    x[:, 0] = x[:, 0] > 0
    x[:, 3] = np.where(x[:, 0] > 0, np.sin(2 * x[:, 1]), -np.sin(2 * x[:, 1])) + 0.1 * (x[:, 3] - x[:, 3].mean())
    both, without_level, _ = AdditiveFits(x, [False, True, True, True]).residuals(3, [0, 1])
    assert both.std() < 0.5 * without_level.std()


def test_a_row_is_predicted_by_the_others_where_columns_act_together():
    x = acting_together(200)
    moved = x.copy()
    moved[7, 3] += 0.1
    found, again = (AdditiveFits(values, [True] * 4).residuals(3, [0, 1], [])[0] for values in (x, moved))
    assert again[7] - found[7] == pytest.approx(0.1)


def test_a_sum_stays_a_sum(monkeypatch):
    values = made_up(1000)
    found = AdditiveFits(values, NUMBERS).residuals(4, [0, 1, 2])
    monkeypatch.setattr(additive, "CLEARLY", np.inf)
    np.testing.assert_array_equal(found, AdditiveFits(values, NUMBERS).residuals(4, [0, 1, 2]))


def test_wide_tables_have_sums_alone(monkeypatch):
    monkeypatch.setattr(additive, "WIDE", 3)
    assert AdditiveFits(acting_together(), [True] * 4).residuals(3, [0, 1])[0].std() > 0.8
