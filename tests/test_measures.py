import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from visl.errors import InputError
from visl.measures import (
    LEAST_PROBABILITY,
    accuracy,
    aupr,
    auroc,
    average_precision,
    bernoulli_log_likelihood,
    calibration_error,
    inside_shares,
    interval_coverage,
    mean_log_likelihood,
    precision_recall_curve,
    rmse,
    roc_curve,
    shared_coverage,
    tie_bounds,
)

# By falling score: 1 | 0 and 1 tied | 0 | 0.  Positives: 2 of 5.
SCORE = [0.6, 0.9, 0.1, 0.6, 0.2]
CLASS = [0, 1, 0, 1, 0]


def test_numbers_by_hand():
    assert rmse([1.0, 2.0, 3.0], [1.0, 4.0, 1.0]) == pytest.approx(math.sqrt(8 / 3))
    assert accuracy([1, 0, 2, 2], [1, 1, 2, 0]) == 0.5
    assert mean_log_likelihood([-1.0, -2.0, 0.6]) == pytest.approx(-0.8)
    # Both ends belong to the interval.
    assert interval_coverage([0.0, 0.0, 0.5, 0.6], [1.0, 0.2, 0.5, 0.9], [1.0, 0.3, 0.5, 0.5]) == 0.5


def test_a_value_at_an_end_counts_for_its_share_inside():
    """Of [0.02, 0.12] the part above 0.05 is inside, 7 of 10; of everything 9 of 10; points are inside or not."""
    below, up_to = [0.02, 0.0, 0.04, 0.5, 0.9], [0.12, 1.0, 0.04, 0.5, 0.99]
    np.testing.assert_allclose(inside_shares(below, up_to, 0.9), [0.7, 0.9, 0.0, 1.0, 5 / 9])
    assert shared_coverage(below[:4], up_to[:4], 0.9) == pytest.approx(0.65)


def test_a_right_distribution_of_few_values_has_the_level_as_its_shared_coverage():
    """Three values with 0.6, 0.3 and 0.1, as often as they are probable: plain intervals cover them all."""
    below, up_to = np.repeat([0.0, 0.6, 0.9], [6, 3, 1]), np.repeat([0.6, 0.9, 1.0], [6, 3, 1])
    for level in (0.5, 0.9):
        assert shared_coverage(below, up_to, level) == pytest.approx(level)


def test_bounds_of_ties_by_hand():
    low, high = tie_bounds([0, 1, 1, 3, 3, 4], [1, 3, 4, 2, 9])
    np.testing.assert_array_equal(low, [0.5, 2, 4, 2, 9])
    np.testing.assert_array_equal(high, [2, 3.5, 4, 2, 9])
    assert [end.tolist() for end in tie_bounds([5, 5], [5])] == [[-np.inf], [np.inf]]


def test_calibration_error_by_hand():
    """Bins of 0.8 to 0.9, half of it right, and of 0.9 to 1, all right: (2 * 0.35 + 0.05) / 3."""
    assert calibration_error([0.85, 0.85, 0.95], [1, 0, 1]) == pytest.approx((0.7 + 0.05) / 3)
    assert calibration_error([1.0], [1]) == 0


def test_bernoulli_by_hand():
    found = bernoulli_log_likelihood([0.8, 0.8, 0.0, 1.0, 1.4], [1, 0, 1, 1, 0])
    wrong = math.log(LEAST_PROBABILITY)
    certain = math.log(1 - LEAST_PROBABILITY)
    np.testing.assert_allclose(found, [math.log(0.8), math.log(0.2), wrong, certain, wrong])


def test_ranking_by_hand():
    # 2 x 3 comparisons: .9 wins 3; .6 wins 2 and ties 1.
    assert auroc(SCORE, CLASS) == pytest.approx(5.5 / 6)
    assert average_precision(SCORE, CLASS) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    # Between recall 1/2 and 1 the trapezoid has the mean of precision 1 and 2/3.
    assert aupr(SCORE, CLASS) == pytest.approx(0.5 * 1 + 0.5 * 5 / 6)


def test_curves_by_hand():
    np.testing.assert_allclose(roc_curve(SCORE, CLASS), [[0, 0, 1 / 3, 2 / 3, 1], [0, 0.5, 1, 1, 1]])
    np.testing.assert_allclose(precision_recall_curve(SCORE, CLASS), [[0, 0.5, 1, 1, 1], [1, 1, 2 / 3, 0.5, 0.4]])


def test_equal_scores_know_nothing():
    assert auroc([0.3] * 4, [1, 0, 0, 0]) == 0.5
    assert average_precision([0.3] * 4, [1, 0, 0, 0]) == 0.25
    assert aupr([0.3] * 4, [1, 0, 0, 0]) == (1 + 0.25) / 2


def test_perfect_and_worst_order():
    assert auroc([0.9, 0.1], [1, 0]) == aupr([0.9, 0.1], [1, 0]) == average_precision([0.9, 0.1], [1, 0]) == 1
    assert auroc([0.1, 0.9], [1, 0]) == 0
    assert average_precision([0.1, 0.9], [1, 0]) == 0.5


def test_undefined_is_nan():
    assert math.isnan(rmse([], []))
    assert math.isnan(accuracy([], []))
    assert math.isnan(mean_log_likelihood([]))
    assert math.isnan(interval_coverage([], [], []))
    for measure in (auroc, aupr, average_precision):
        assert math.isnan(measure([], []))
        assert math.isnan(measure([0.2, 0.4], [0, 0]))
    assert math.isnan(auroc([0.2, 0.4], [1, 1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rmse([1.0, 2.0], [1.0]), "shape"),
        (lambda: rmse([[1.0], [2.0]], [1.0, 2.0]), "shape"),
        (lambda: interval_coverage([1.0, 2.0], [1.0], [1.0, 2.0]), "shape"),
        (lambda: auroc([0.1, 0.2], [0, 2]), "0 and 1"),
        (lambda: auroc([0.1, np.nan], [0, 1]), "NaN"),
        (lambda: aupr([[0.1, 0.3]], [[0, 1]]), "flat"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Both classes; few decimals make many ties."""
    n, decimals = draw(st.integers(2, 40)), draw(st.sampled_from([0, 1, 8]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    truth = (rng.random(n) < draw(st.sampled_from([0.1, 0.5, 0.9]))).astype(int)
    truth[:2] = (0, 1)
    return rng.random(n).round(decimals), truth


@settings(max_examples=150, deadline=None)
@given(scored())
def test_ranking_agrees_with_scikit_learn(data):
    score, truth = data
    assert auroc(score, truth) == pytest.approx(sklearn.metrics.roc_auc_score(truth, score))
    assert average_precision(score, truth) == pytest.approx(sklearn.metrics.average_precision_score(truth, score))
    precision, recall, _ = sklearn.metrics.precision_recall_curve(truth, score)
    assert aupr(score, truth) == pytest.approx(sklearn.metrics.auc(recall, precision))


@settings(max_examples=100, deadline=None)
@given(scored())
def test_curves_agree_with_scikit_learn(data):
    score, truth = data
    false_rate, true_rate, _ = sklearn.metrics.roc_curve(truth, score, drop_intermediate=False)
    np.testing.assert_allclose(roc_curve(score, truth), [false_rate, true_rate])
    precision, recall, _ = sklearn.metrics.precision_recall_curve(truth, score)  # in rising order of the thresholds
    np.testing.assert_allclose(precision_recall_curve(score, truth), [recall[::-1], precision[::-1]])


@settings(max_examples=50, deadline=None)
@given(scored())
def test_area_under_the_roc_points_is_auroc(data):
    assert np.trapezoid(*roc_curve(*data)[::-1]) == pytest.approx(auroc(*data))


@settings(max_examples=50, deadline=None)
@given(scored())
def test_only_the_order_of_scores_counts(data):
    score, truth = data
    for measure in (auroc, aupr, average_precision):
        assert measure(np.exp(5 * score) - 3, truth) == pytest.approx(measure(score, truth))


@settings(max_examples=50, deadline=None)
@given(scored())
def test_likelihood_agrees_with_scikit_learn(data):
    probability, truth = np.clip(data[0], 0.01, 0.99), data[1]
    found = mean_log_likelihood(bernoulli_log_likelihood(probability, truth))
    assert found == pytest.approx(-sklearn.metrics.log_loss(truth, probability))
