import math

import pytest
import torch
from torch.distributions import Bernoulli, kl_divergence

from core_helpers import generator
from visl.graph.posterior import EdgePosterior

HARD = torch.tensor([[0.3, 0.0, 0.05], [1.0, 0.3, 0.2], [0.05, 1.0, 0.3]])  # the diagonal is never an edge
OPEN = [[False, False, True], [False, False, True], [True, False, False]]


def posterior(prior=HARD, initial=0.5, temperature=0.5):
    return EdgePosterior(prior, initial, temperature)


def test_starts_at_the_initial_probability():
    expected = torch.tensor([[0.0, 0.0, 0.2], [1.0, 0.0, 0.2], [0.2, 1.0, 0.0]])
    torch.testing.assert_close(posterior(initial=0.2).probabilities(), expected)


def test_learned_are_the_edges_that_the_prior_leaves_open():
    assert posterior().learned.tolist() == OPEN


def test_adjacency_by_hand():
    edges = posterior(torch.full((2, 2), 0.05))
    with torch.no_grad():
        edges.logits.copy_(torch.logit(torch.tensor([[0.5, 0.5], [0.2, 0.5]])))
    # Absent only if both directions are: 1 - .5 * .8; a node is not joined to itself.
    torch.testing.assert_close(edges.adjacency(), torch.tensor([[0.0, 0.6], [0.6, 0.0]]))


def test_kl_by_hand():
    # Two open edges at .5 under a prior of .05: 2 (.5 ln(.5 / .05) + .5 ln(.5 / .95)) = 2 * .8303656.
    assert posterior(torch.full((2, 2), 0.05)).kl().item() == pytest.approx(1.6607312, rel=1e-6)


def test_kl_is_zero_where_posterior_and_prior_agree():
    assert posterior(torch.full((4, 4), 0.3), initial=0.3).kl().item() == pytest.approx(0, abs=1e-6)


def test_kl_equals_torch_distributions():
    edges = posterior(torch.rand(5, 5, generator=generator(1)) * 0.9 + 0.05)
    with torch.no_grad():
        edges.logits.normal_(0, 3, generator=generator(2))
    pairs = kl_divergence(Bernoulli(logits=edges.logits), Bernoulli(edges.prior.clamp(0.01)))
    torch.testing.assert_close(edges.kl(), pairs.sum() - pairs.diagonal().sum())


@pytest.mark.parametrize("far", [-200.0, 200.0])
def test_kl_of_certain_edges_by_hand_with_a_finite_gradient(far):
    edges = posterior(torch.full((2, 2), 0.05))
    torch.nn.init.constant_(edges.logits, far)
    kl = edges.kl()
    kl.backward()
    assert kl.item() == pytest.approx(-2 * math.log(0.05 if far > 0 else 0.95), rel=1e-5)
    assert edges.logits.grad.isfinite().all()


def test_hard_edges_add_nothing_to_the_kl():
    only_hard = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    edges = posterior(only_hard, initial=0.7)
    assert edges.kl().item() == 0.0
    # Three open edges with priors .05, .2 and .05 at q = .5.
    expected = sum(0.5 * math.log(0.5 / p) + 0.5 * math.log(0.5 / (1 - p)) for p in (0.05, 0.2, 0.05))
    assert posterior().kl().item() == pytest.approx(expected, rel=1e-6)


def test_hard_edges_never_move():
    edges = posterior()
    optimizer = torch.optim.Adam(edges.parameters(), lr=1.0)
    fixed = ~edges.learned
    before = edges.probabilities().detach()
    for step in range(5):
        optimizer.zero_grad()
        sample = edges.sample(generator(step))
        assert torch.equal(sample[fixed], edges.prior[fixed])
        (edges.kl() + sample.sum() + edges.probabilities().sum()).backward()
        assert not edges.logits.grad[fixed].any()
        optimizer.step()
    after = edges.probabilities().detach()
    assert torch.equal(after[fixed], torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0, 0.0]))
    assert (after[~fixed] < before[~fixed] - 0.1).all()
    many = edges.soften(torch.rand(50, 3, 3, generator=generator(9)))
    assert torch.equal(many[:, fixed], edges.prior[fixed].expand(50, -1))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_share_of_samples_over_a_half_is_the_probability(temperature):
    edges = posterior(torch.full((3, 3), 0.05), temperature=temperature)
    p = torch.tensor([[0.5, 0.02, 0.2], [0.4, 0.5, 0.6], [0.8, 0.98, 0.5]])
    with torch.no_grad():
        edges.logits.copy_(torch.logit(p))
    n = 40_000
    samples = edges.soften(torch.rand(n, 3, 3, generator=generator(3)))
    assert samples.min() >= 0
    assert samples.max() <= 1
    share = (samples > 0.5).double().mean(0)
    expected = edges.probabilities().double()
    deviation = (expected * (1 - expected) / n).sqrt()
    assert ((share - expected).abs() <= 4 * deviation).all()


def test_a_sample_by_hand():
    edges = posterior(torch.full((2, 2), 0.05), initial=0.2, temperature=0.5)
    # Noise u = .5 has logit 0: sigma(ln(1 / 4) / .5) = 1 / 17. Noise u = .8 has logit ln 4 and makes it .5.
    uniform = torch.tensor([[0.5, 0.5], [0.8, 0.5]])
    torch.testing.assert_close(edges.soften(uniform), torch.tensor([[0.0, 1 / 17], [0.5, 0.0]]))


@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_noise_at_the_border_gives_a_finite_sample_and_gradient(uniform):
    edges = posterior()
    sample = edges.soften(torch.full((3, 3), uniform))
    sample.sum().backward()
    torch.testing.assert_close(sample[edges.learned], torch.full((3,), uniform))
    assert edges.logits.grad.isfinite().all()


def test_samples_come_from_the_generator_alone():
    edges = posterior()
    assert torch.equal(edges.sample(generator(5)), edges.soften(torch.rand(3, 3, generator=generator(5))))
    assert not torch.equal(edges.sample(generator(5)), edges.sample(generator(6)))
    global_state = torch.get_rng_state()
    edges.sample(generator(5))
    assert torch.equal(torch.get_rng_state(), global_state)
