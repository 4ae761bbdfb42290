"""scikit-learn's own checks of an estimator, all of them: none is expected to fail."""

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from visl import VISL


def small() -> VISL:
    return VISL(epochs=2, latent_dim=3, n_draws=3, random_state=0, device="cpu")


@parametrize_with_checks([small()])
def test_scikit_learn_check(estimator: VISL, check: Any) -> None:
    check(estimator)


# Not among those that scikit-learn runs for other packages. `check_dataframe_column_names_consistency` is left out for
# a reason: it demands an error for columns in another order, and ours are matched by name. Those of set_output for
# pandas take it for granted that a frame in gives an array out; ours gives a frame (see test_estimator.py).
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_transformer_get_feature_names_out_pandas,
        estimator_checks.check_set_output_transform,
    ],
)
def test_feature_names_and_set_output(check: Callable[[str, VISL], None]) -> None:
    check("VISL", small())
