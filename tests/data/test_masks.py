import numpy as np
import pytest

from visl.data.masks import hide, mar, mcar, sigmoid
from visl.errors import InputError


def deviation(rate: float, cells: int) -> float:
    """Standard error of a share of independent cells."""
    return float(np.sqrt(rate * (1 - rate) / cells))


def correlated_table(n_rows: int, n_columns: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.standard_normal((n_rows, n_columns)) + rng.standard_normal((n_rows, 1))


def test_sigmoid_by_hand():
    # sigma(log 3) = 3 / 4; far out it neither overflows nor leaves [0, 1].
    np.testing.assert_allclose(sigmoid(np.array([0.0, np.log(3), -1e4, 1e4])), [0.5, 0.75, 0.0, 1.0])


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_mcar_rate(rate):
    observed = mcar((500, 200), rate, np.random.default_rng(0))
    assert observed.dtype == bool
    assert abs((1 - observed.mean()) - rate) < 4 * deviation(rate, 100_000)


def test_rate_zero_hides_nothing():
    values = correlated_table(10, 4)
    assert mcar((10, 4), 0.0, np.random.default_rng(0)).all()
    assert mar(values, 0.0, np.random.default_rng(0)).all()
    assert hide(np.ones((10, 4), dtype=bool), 0.0, np.random.default_rng(0)).all()


def test_hide_takes_a_share_of_the_observed_only():
    observed = mcar((500, 200), 0.5, np.random.default_rng(1))
    kept = hide(observed, 0.3, np.random.default_rng(2))
    assert not (kept & ~observed).any()
    assert abs(kept.sum() / observed.sum() - 0.7) < 4 * deviation(0.3, int(observed.sum()))


@pytest.mark.parametrize(
    ("rate", "drivers", "n_drivers"), [(0.3, 0.3, 3), (0.6, 0.3, 3), (0.05, 0.01, 1), (0.09, 0.99, 9)]
)
def test_mar_rate_and_complete_drivers(rate, drivers, n_drivers):
    observed = mar(correlated_table(20_000, 10), rate, np.random.default_rng(3), drivers=drivers)
    assert abs((1 - observed.mean()) - rate) < 4 * deviation(rate, 200_000)
    assert observed.all(axis=0).sum() == n_drivers
    # Every other column has the same expected share: rate * 10 / (10 - n_drivers).
    share = rate * 10 / (10 - n_drivers)
    others = 1 - observed[:, ~observed.all(axis=0)].mean(axis=0)
    np.testing.assert_allclose(others, share, atol=5 * deviation(share, 20_000))


def test_mar_depends_on_the_driver_and_on_nothing_else_given_it():
    # Two columns: one drives, so the score of the other is the driver, standardised, up to its sign.
    values = correlated_table(40_000, 2)
    observed = mar(values, 0.25, np.random.default_rng(4))
    driver = int(observed.all(axis=0).argmax())
    score = values[:, driver]
    other, missing = values[:, 1 - driver], ~observed[:, 1 - driver]

    # Slope 1 and share .5 by symmetry: between the outer tenths (|score| > 1.28) of a normal score the chance of
    # being missing differs by sigma(1.75) - sigma(-1.75) = .70.
    low, high = np.quantile(score, [0.1, 0.9])
    assert abs(missing[score > high].mean() - missing[score < low].mean()) == pytest.approx(0.70, abs=0.03)

    # The other column is correlated with the driver, hence with the gaps; what the driver does not explain is not.
    residual = other - np.polyval(np.polyfit(score, other, 1), score)
    z = np.corrcoef(residual, missing)[0, 1] * np.sqrt(len(values))
    assert abs(np.corrcoef(other, missing)[0, 1]) > 0.1
    assert abs(z) < 3.5


def test_mar_constant_driver_leaves_plain_chance():
    values = np.full((5000, 2), 0.1)
    observed = mar(values, 0.25, np.random.default_rng(5))
    assert abs((1 - observed.mean()) - 0.25) < 4 * deviation(0.5, 5000) / 2


def test_mar_names_the_largest_rate():
    # 3 of 10 columns are always seen, so less than 7 of 10 cells can be missing.
    with pytest.raises(InputError, match=r"below 0\.7"):
        mar(correlated_table(50, 10), 0.7, np.random.default_rng(0))


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rates_are_checked(rate):
    rng, seen = np.random.default_rng(0), np.ones((3, 2), dtype=bool)
    for make in (lambda: mcar((3, 2), rate, rng), lambda: mar(np.eye(3), rate, rng), lambda: hide(seen, rate, rng)):
        with pytest.raises(InputError, match="rate"):
            make()


@pytest.mark.parametrize("values", [np.ones(4), np.ones((4, 1)), np.ones((0, 4)), np.array([[1.0, np.nan]])])
def test_mar_needs_a_complete_table(values):
    with pytest.raises(InputError):
        mar(values, 0.2, np.random.default_rng(0))


@pytest.mark.parametrize("drivers", [0.0, 1.0])
def test_mar_share_of_drivers_is_checked(drivers):
    with pytest.raises(InputError, match="drivers"):
        mar(np.eye(4), 0.2, np.random.default_rng(0), drivers=drivers)


def test_same_seed_same_gaps():
    values = correlated_table(50, 6)
    assert np.array_equal(mar(values, 0.4, np.random.default_rng(9)), mar(values, 0.4, np.random.default_rng(9)))
    assert np.array_equal(mcar((50, 6), 0.4, np.random.default_rng(9)), mcar((50, 6), 0.4, np.random.default_rng(9)))
