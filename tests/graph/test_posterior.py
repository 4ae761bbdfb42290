import math

import pytest
import torch
from torch.distributions import Bernoulli, kl_divergence

from core_helpers import generator
from visl.graph.posterior import EdgePosterior

HARD = torch.tensor([[0.3, 0.0, 0.05], [1.0, 0.3, 0.2], [0.05, 1.0, 0.3]])  # the diagonal is never an edge
OPEN = [[False, False, True], [False, False, True], [True, False, False]]


def posterior(prior=HARD, initial=0.5, temperature=0.5, **settings):
    """Of a single member."""
    return EdgePosterior(prior[None], torch.tensor([initial]), torch.tensor([temperature]), **settings)


def test_starts_at_the_initial_probability():
    expected = torch.tensor([[0.0, 0.0, 0.2], [1.0, 0.0, 0.2], [0.2, 1.0, 0.0]])
    torch.testing.assert_close(posterior(initial=0.2).probabilities(), expected[None])


def test_learned_are_the_edges_that_the_prior_leaves_open():
    assert posterior().learned.tolist() == [OPEN]


def test_adjacency_by_hand():
    edges = posterior(torch.full((2, 2), 0.05))
    with torch.no_grad():
        edges.logits.copy_(torch.logit(torch.tensor([[0.5, 0.5], [0.2, 0.5]])))
    # Absent only if both directions are: 1 - .5 * .8; a node is not joined to itself.
    torch.testing.assert_close(edges.adjacency(), torch.tensor([[[0.0, 0.6], [0.6, 0.0]]]))


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
    expected = pairs.sum() - pairs.diagonal(dim1=1, dim2=2).sum()
    torch.testing.assert_close(edges.kl(), expected[None])


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
        sample = edges.soften(torch.rand(1, 3, 3, generator=generator(step)))
        assert torch.equal(sample[fixed], edges.prior[fixed])
        (edges.kl().sum() + sample.sum() + edges.probabilities().sum()).backward()
        assert not edges.logits.grad[fixed].any()
        optimizer.step()
    after = edges.probabilities().detach()
    assert torch.equal(after[fixed], torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0, 0.0]))
    assert (after[~fixed] < before[~fixed] - 0.1).all()
    many = edges.soften(torch.rand(50, 1, 3, 3, generator=generator(9)))
    assert torch.equal(many[:, fixed], edges.prior[fixed].expand(50, -1))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_share_of_samples_over_a_half_is_the_probability(temperature):
    edges = posterior(torch.full((3, 3), 0.05), temperature=temperature)
    p = torch.tensor([[0.5, 0.02, 0.2], [0.4, 0.5, 0.6], [0.8, 0.98, 0.5]])
    with torch.no_grad():
        edges.logits.copy_(torch.logit(p))
    n = 40_000
    samples = edges.soften(torch.rand(n, 1, 3, 3, generator=generator(3)))
    assert samples.min() >= 0
    assert samples.max() <= 1
    share = (samples > 0.5).double().mean(0)
    expected = edges.probabilities().double()
    deviation = (expected * (1 - expected) / n).sqrt()
    assert ((share - expected).abs() <= 4 * deviation).all()


def test_a_sample_by_hand():
    edges = posterior(torch.full((2, 2), 0.05), initial=0.2, temperature=0.5)
    # Noise u = .5 has logit 0: sigma(ln(1 / 4) / .5) = 1 / 17. Noise u = .8 has logit ln 4 and makes it .5.
    uniform = torch.tensor([[[0.5, 0.5], [0.8, 0.5]]])
    torch.testing.assert_close(edges.soften(uniform), torch.tensor([[[0.0, 1 / 17], [0.5, 0.0]]]))


@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_noise_at_the_border_gives_a_finite_sample_and_gradient(uniform):
    edges = posterior()
    sample = edges.soften(torch.full((1, 3, 3), uniform))
    sample.sum().backward()
    torch.testing.assert_close(sample[edges.learned], torch.full((3,), uniform))
    assert edges.logits.grad.isfinite().all()


def test_samples_follow_from_the_noise_alone():
    edges, (a, b) = posterior(), torch.rand(2, 1, 3, 3, generator=generator(5))
    global_state = torch.get_rng_state()
    assert torch.equal(edges.soften(a), edges.soften(a))
    assert not torch.equal(edges.soften(a), edges.soften(b))
    assert torch.equal(torch.get_rng_state(), global_state)


@pytest.mark.parametrize("absent_below", [1e-3, 0.3])
def test_edges_below_the_limit_are_absent_and_have_no_gradient(absent_below):
    prior = torch.full((6, 6), 0.05)
    prior[0, 1], prior[1, 0] = 1.0, 0.0
    edges, whole = (posterior(prior, initial=0.2, absent_below=limit) for limit in (absent_below, 0.0))
    uniform = torch.rand(1, 6, 6, generator=generator(1))
    sample, expected = edges.soften(uniform), whole.soften(uniform)
    gone = edges.learned & (expected < absent_below)
    kept = edges.learned & ~gone
    assert gone.any()
    assert kept.any()
    assert torch.equal(sample, torch.where(gone, 0.0, expected))
    for part in (sample, expected):
        part.sum().backward()
    assert torch.equal(edges.logits.grad, torch.where(gone, 0.0, whole.logits.grad))
    assert (edges.logits.grad[kept] > 0).all()


def test_hard_edges_are_kept_whatever_the_limit():
    edges = posterior(absent_below=1.0)  # every learned edge is below it
    sample = edges.soften(torch.rand(1, 3, 3, generator=generator(2)))
    assert torch.equal(sample, torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]))


def test_members_have_priors_starts_and_temperatures_of_their_own():
    priors = torch.stack([HARD, torch.full((3, 3), 0.05), HARD.T])
    starts, temperatures = torch.tensor([0.2, 0.5, 0.7]), torch.tensor([0.1, 0.5, 2.0])
    together = EdgePosterior(priors, starts, temperatures)
    with torch.no_grad():
        together.logits.add_(torch.randn(3, 3, 3, generator=generator(3)))
    uniform = torch.rand(5, 3, 3, 3, generator=generator(4))
    for k in range(3):
        alone = posterior(priors[k], starts[k].item(), temperatures[k].item())
        torch.testing.assert_close(alone.logits, torch.logit(starts[k]).expand(1, 3, 3))
        alone.load_state_dict({name: tensor[k : k + 1] for name, tensor in together.state_dict().items()})
        torch.testing.assert_close(together.probabilities()[k], alone.probabilities()[0])
        torch.testing.assert_close(together.adjacency()[k], alone.adjacency()[0])
        torch.testing.assert_close(together.kl()[k], alone.kl()[0])
        torch.testing.assert_close(together.soften(uniform)[:, k], alone.soften(uniform[:, k : k + 1])[:, 0])
        assert torch.equal(together.learned[k], alone.learned[0])
