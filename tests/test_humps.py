"""What is hidden may have one of two values, or a long tail: draws must say so. Slow: a fit of half a minute."""

import numpy as np
import pandas as pd
import pytest

from visl import VISL


def table(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """y is 1 + x or its negative, w is skewed: the logarithm of it is normal."""
    x = rng.random(n_rows)
    y = rng.choice([-1.0, 1.0], n_rows) * (1 + x) + rng.normal(0, 0.1, n_rows)
    return pd.DataFrame({"x": x, "y": y, "w": np.exp(x + 0.5 * rng.standard_normal(n_rows))})


@pytest.fixture(scope="module")
def fresh_rows() -> pd.DataFrame:
    return table(1000, np.random.default_rng(1))


@pytest.fixture(scope="module")
def model() -> VISL:
    return VISL(epochs=40, random_state=0).fit(table(2000, np.random.default_rng(0)))


def without(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return rows.assign(**{column: np.nan})


@pytest.mark.slow
def test_both_humps_are_drawn_and_the_valley_is_not(model: VISL, fresh_rows: pd.DataFrame) -> None:
    draws = np.stack([drawn["y"] for drawn in model.sample(without(fresh_rows, "y"), n_draws=50)])
    hump = 1 + fresh_rows["x"].to_numpy()
    shares = [(np.abs(draws - side * hump) < 0.5).mean() for side in (-1, 1)]
    assert min(shares) > 0.4
    assert sum(shares) > 0.9
    assert (np.abs(draws) < 0.5 * hump).mean() < 0.05
    above = (draws > 0).mean(0)  # of each row
    assert np.quantile(above, 0.05) > 0.25  # of fifty draws
    assert np.quantile(above, 0.95) < 0.75


@pytest.mark.slow
def test_intervals_of_a_skewed_column_hold_nine_tenths(model: VISL, fresh_rows: pd.DataFrame) -> None:
    low, high = (ends["w"] for ends in model.predict_interval(without(fresh_rows, "w")))
    outside = (fresh_rows["w"] < low).mean(), (fresh_rows["w"] > high).mean()
    assert sum(outside) == pytest.approx(0.1, abs=0.03)
    assert max(outside) < 0.08
