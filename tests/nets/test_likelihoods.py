import math

import pytest
import torch
from torch.distributions import Normal

from core_helpers import group_wise, variable_wise
from visl.nets.likelihoods import (
    Bernoulli,
    Categorical,
    CumulativeLogit,
    Gaussian,
    GaussianMixture,
    gaussian_log_density,
)
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL

FIRST = torch.zeros(1, dtype=torch.long)


def cells(*values):
    return torch.tensor(values, dtype=torch.float32)


def ordinal(*n_levels):
    return CumulativeLogit(group_wise([(ORDINAL, n) for n in n_levels]), 0.02)


def test_gaussian_by_hand():
    # -.5 ((.3 - .1)^2 / .02 + ln .02 + ln 2 pi) = -.5 (2 - 3.912023 + 1.837877)
    found = Gaussian(variable_wise(CONTINUOUS), 0.02).log_prob(cells([0.1]), FIRST, cells(0.3))
    assert found.item() == pytest.approx(0.0370730, rel=1e-4)


def test_gaussian_equals_torch_distributions():
    mean, value, variance = torch.tensor([0.1, 0.9]), torch.tensor([0.5, -2.0]), torch.tensor([0.02, 3.0])
    expected = Normal(mean, variance.sqrt()).log_prob(value)
    torch.testing.assert_close(gaussian_log_density(value, mean, variance), expected)


def test_bernoulli_by_hand():
    # The unit ln 3 are the log-odds of the second level: 3 to 1.
    units, column = cells([math.log(3)], [math.log(3)]), torch.zeros(2, dtype=torch.long)
    likelihood = Bernoulli(variable_wise(BINARY), 0.02)
    torch.testing.assert_close(likelihood.log_probabilities(units, column).exp(), cells([0.25, 0.75], [0.25, 0.75]))
    torch.testing.assert_close(likelihood.log_prob(units, column, cells(0, 1)).exp(), cells(0.25, 0.75))


@pytest.mark.parametrize("unit", [-200.0, 200.0])
def test_bernoulli_of_extreme_units(unit):
    units = cells([unit]).requires_grad_()
    log_prob = Bernoulli(variable_wise(BINARY), 0.02).log_prob(units, FIRST, cells(float(unit < 0)))
    log_prob.sum().backward()
    assert log_prob.item() == -200.0
    assert abs(units.grad.item()) == 1.0


def test_categorical_by_hand_with_padded_levels():
    likelihood = Categorical(group_wise([(CATEGORICAL, 3), (CATEGORICAL, 2), (CATEGORICAL, 1)]), 0.02)
    units = cells([0, math.log(2), math.log(5)], [0, math.log(3), 99], [-7, 99, 99]).requires_grad_()
    probabilities = likelihood.log_probabilities(units, torch.arange(3)).exp()
    torch.testing.assert_close(probabilities, cells([1 / 8, 2 / 8, 5 / 8], [1 / 4, 3 / 4, 0], [1, 0, 0]))
    log_prob = likelihood.log_prob(units, torch.arange(3), cells(2, 1, 0))
    torch.testing.assert_close(log_prob.exp(), cells(5 / 8, 3 / 4, 1))
    log_prob.sum().backward()
    # Indicator minus probability, and nothing for levels that a column does not have.
    expected = cells([-1 / 8, -2 / 8, 3 / 8], [-1 / 4, 1 / 4, 0], [0, 0, 0])
    torch.testing.assert_close(units.grad, expected)


def test_cumulative_logit_by_hand():
    # Three levels start at thresholds -ln 2 and ln 2. At u = ln 2: sigma(-2 ln 2) = 1/5 and sigma(0) = 1/2.
    likelihood = ordinal(3)
    column = torch.zeros(3, dtype=torch.long)
    found = likelihood.log_probabilities(cells([0.0], [math.log(2)], [-math.log(2)]), column).exp()
    torch.testing.assert_close(found, cells([1 / 3, 1 / 3, 1 / 3], [0.2, 0.3, 0.5], [0.5, 0.3, 0.2]))
    picked = likelihood.log_prob(cells([0.0], [math.log(2)], [-math.log(2)]), column, cells(1, 2, 0))
    torch.testing.assert_close(picked.exp(), cells(1 / 3, 0.5, 0.5))


@pytest.mark.parametrize("n_levels", [2, 3, 5, 12])
def test_cumulative_logit_starts_with_equal_shares(n_levels):
    found = ordinal(n_levels).log_probabilities(cells([0.0]), FIRST).exp()
    torch.testing.assert_close(found, torch.full((1, n_levels), 1 / n_levels), rtol=1e-4, atol=1e-6)


def test_cumulative_logit_of_columns_with_different_numbers_of_levels():
    likelihood = ordinal(5, 2, 1, 3)
    found = likelihood.log_probabilities(torch.zeros(4, 1), torch.arange(4)).exp()
    expected = cells([0.2] * 5, [0.5, 0.5, 0, 0, 0], [1, 0, 0, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0, 0])
    torch.testing.assert_close(found, expected)
    assert torch.equal(found > 0, expected > 0)  # exactly 0 beyond a column's own levels


def test_cumulative_logit_is_ordered_and_sums_to_one_whatever_is_learned():
    likelihood = ordinal(6, 4)
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in likelihood.parameters():
                parameter.normal_(0, 3, generator=rng)
        units = torch.linspace(-12, 12, 50)[:, None]
        for column, n_levels in ((0, 6), (1, 4)):
            log_share = likelihood.log_probabilities(units, torch.full((50,), column))
            torch.testing.assert_close(log_share.exp().sum(-1), torch.ones(50))
            # P(x <= k) falls as the unit rises.
            assert (log_share.exp().cumsum(-1)[:, : n_levels - 1].diff(dim=0) <= 1e-6).all()


@pytest.mark.parametrize("unit", [-20.0, 20.0, -60.0, 60.0, -500.0, 500.0])
def test_cumulative_logit_far_out_by_hand(unit):
    # Far above: P(0) = e^(-ln 2 - u), P(1) = (e^(ln 2) - e^(-ln 2)) e^(-u) = 1.5 e^(-u); far below the mirror image.
    units = cells([unit]).requires_grad_()
    log_share = ordinal(3).log_probabilities(units, FIRST)[0]
    far = abs(unit)
    expected = [-far - math.log(2), -far + math.log(1.5), 0.0]
    slopes = [-1.0, -1.0, 0.0]
    if unit < 0:
        expected, slopes = expected[::-1], [-slope for slope in slopes[::-1]]
    torch.testing.assert_close(log_share, cells(*expected))
    gradients = [torch.autograd.grad(share, units, retain_graph=True)[0].item() for share in log_share]
    assert gradients == pytest.approx(slopes, abs=1e-6)


@pytest.mark.parametrize("unit", [-1e4, -30.0, 0.0, 30.0, 1e4])
def test_cumulative_logit_stays_finite_with_finite_gradients(unit):
    likelihood = ordinal(4, 1, 3)
    column = torch.tensor([0, 0, 0, 0, 1, 2, 2, 2])
    units = torch.full((8, 1), unit, requires_grad=True)
    log_prob = likelihood.log_prob(units, column, cells(0, 1, 2, 3, 0, 0, 1, 2))
    log_prob.sum().backward()
    assert log_prob.isfinite().all()
    assert log_prob[4] == 0.0  # a single level is certain
    for gradient in (units.grad, *(parameter.grad for parameter in likelihood.parameters())):
        assert gradient.isfinite().all()


def test_cumulative_logit_of_thresholds_that_fall_together():
    likelihood = ordinal(3)
    torch.nn.init.constant_(likelihood.gaps, -12.0)
    log_share = likelihood.log_probabilities(cells([0.0]), FIRST)
    # P(1) = sigma'(t) e^-12 with t = -ln 2: (1/3) (2/3) e^-12.
    assert log_share[0, 1].item() == pytest.approx(math.log(2 / 9) - 12, rel=1e-3)


@pytest.mark.parametrize(("kind", "likelihood"), [(BINARY, Bernoulli), (CATEGORICAL, Categorical)])
def test_draws_lead(kind, likelihood):
    likelihood = likelihood(variable_wise(kind), 0.02)
    n_units = likelihood.n_units(variable_wise(kind).columns[0])
    units = torch.randn(3, 4, n_units, generator=torch.Generator().manual_seed(0))
    column, value = torch.zeros(4, dtype=torch.long), cells(0, 1, 1, 0)
    together = likelihood.log_prob(units, column, value)
    assert together.shape == (3, 4)
    torch.testing.assert_close(together[2], likelihood.log_prob(units[2], column, value))


def test_draws_lead_for_ordinal_columns():
    likelihood, units = ordinal(3, 2), torch.randn(3, 4, 1, generator=torch.Generator().manual_seed(0))
    column, value = torch.tensor([0, 1, 0, 1]), cells(2, 1, 1, 0)
    together = likelihood.log_prob(units, column, value)
    torch.testing.assert_close(together[1], likelihood.log_prob(units[1], column, value))


def test_members_have_columns_and_thresholds_of_their_own():
    schema = group_wise([(ORDINAL, 3), (ORDINAL, 4)])
    together = CumulativeLogit(schema, 0.02, n_members=2)
    with torch.no_grad():
        for parameter in together.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    units, column = torch.randn(4, 1, generator=torch.Generator().manual_seed(2)), torch.arange(4)
    found = together.log_probabilities(units, column)
    for k in range(2):
        alone = CumulativeLogit(schema, 0.02)
        alone.load_state_dict({name: tensor[k : k + 1] for name, tensor in together.state_dict().items()})
        own = slice(2 * k, 2 * k + 2)
        torch.testing.assert_close(found[own], alone.log_probabilities(units[own], torch.arange(2)))
    levels = Categorical(group_wise([(CATEGORICAL, 2), (CATEGORICAL, 3)]), 0.02, n_members=2)
    shares = levels.log_probabilities(torch.zeros(4, 3), column).exp()
    torch.testing.assert_close(shares, cells([1 / 2, 1 / 2, 0], [1 / 3] * 3, [1 / 2, 1 / 2, 0], [1 / 3] * 3))


def test_a_mixture_of_gaussians_by_hand():
    likelihood = GaussianMixture(variable_wise(CONTINUOUS), 1.0, n_components=2)
    assert likelihood.n_units(variable_wise(CONTINUOUS).columns[0]) == 6
    # Weights 1 : 3; means .8 - 1 and -.9 + 1, from where they start; deviations .7 e^0 and .7 e^-1. Units of wider
    # columns are ignored.
    units = torch.tensor([[[0.0, math.log(3), 0.8, -0.9, 0.0, -1.0, 99.0]]], dtype=torch.float64)
    value = torch.tensor([0.4], dtype=torch.float64)
    normal = [torch.distributions.Normal(m, s) for m, s in ((-0.2, 0.7), (0.1, 0.7 * math.exp(-1)))]
    expected = 0.25 * normal[0].log_prob(value).exp() + 0.75 * normal[1].log_prob(value).exp()
    torch.testing.assert_close(likelihood.log_prob(units, torch.tensor([0]), value)[0], expected.log())
    mean = torch.distributions.Normal(0.25 * -0.2 + 0.75 * 0.1, 0.2).log_prob(value)  # a variance of .04
    torch.testing.assert_close(likelihood.objective(units, torch.tensor([0]), value)[0], expected.log() + mean)
