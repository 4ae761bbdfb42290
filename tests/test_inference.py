"""Draws and summaries of hidden cells."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from visl import inference
from visl.config import Config
from visl.inference import AskedCells, Drawn, Imputer, Mixture, mixture_quantile
from visl.model import VislModel
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL, Column, Schema
from visl.table import Table

COLUMNS = (
    Column("b", BINARY, "b", levels=(0, 1)),
    Column("c", CATEGORICAL, "c", levels=("x", "y", "z")),
    Column("n", CONTINUOUS, "n"),
    Column("o", ORDINAL, "o", levels=(1, 2, 3, 4)),
)
SCHEMA = Schema(COLUMNS, ("b", "c", "n", "o"), grouped=False)


# The paper's form, in which a continuous value has one Gaussian.
PAPER = {
    "structure": "latent",
    "keep_own": False,
    "group_embeddings": False,
    "absent_below": 0.0,
    "mark_observed": False,
    "n_knots": 0,
    "mixture_components": 1,
    "unjoined_weight": 0.0,
}


def build(n_members: int, prior: torch.Tensor | None = None, scale: float = 2.5) -> VislModel:
    """Untrained, with weights large enough that cells matter."""
    built = VislModel(
        SCHEMA,
        Config(latent_dim=6, **PAPER),
        torch.full((4, 4), 0.3) if prior is None else prior,
        [torch.Generator().manual_seed(1 + k) for k in range(n_members)],
    )
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.mul_(scale)
    return built


def one_graph() -> torch.Tensor:
    """A prior that leaves nothing open: every draw has the same graph."""
    return torch.tensor([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]])


@pytest.fixture(scope="module", params=[1, 3], ids=["alone", "three members"])
def model(request: pytest.FixtureRequest) -> VislModel:
    return build(request.param)


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40), rng.random(40), rng.integers(0, 4, 40)], 1)
    table = Table.from_dense(values, rng.random((40, 4)) < 0.5)
    return table.take_rows(np.unique(table.row_keys(), return_index=True)[1])  # no copies


def gaps(table: Table) -> AskedCells:
    return AskedCells(*table.gaps())


def every_summary(model: VislModel, table: Table, asked: AskedCells, n_draws: int = 30) -> list[np.ndarray]:
    imputer = Imputer(model, n_draws=n_draws, seed=3)
    return [
        imputer.point(table, asked),
        imputer.probabilities(table, asked),
        imputer.quantile(table, asked, 0.2),
        imputer.sample(table, asked).T,
        imputer.log_prob(table, asked, np.zeros(len(asked), np.float32)),
    ]


def test_a_row_does_not_depend_on_its_neighbours_or_their_order(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    together = every_summary(model, table, asked)
    order = np.random.default_rng(5).permutation(table.n_rows)
    shuffled = table.take_rows(order)
    position = np.lexsort((gaps(shuffled).column, order[gaps(shuffled).row]))  # back in the order of `asked`
    for whole, moved in zip(together, every_summary(model, shuffled, gaps(shuffled)), strict=True):
        np.testing.assert_array_equal(whole, moved[position])
    row = int(asked.row[7])
    alone = table.take_rows(np.array([row]))
    for whole, part in zip(together, every_summary(model, alone, gaps(alone)), strict=True):
        np.testing.assert_array_equal(whole[asked.row == row], part)


def test_the_size_of_chunks_changes_nothing(model: VislModel, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table if model.n_members == 1 else table.take_rows(np.arange(10))
    whole = every_summary(model, table, gaps(table))
    monkeypatch.setattr(inference, "FLOATS_AT_ONCE", 1)
    for one, other in zip(whole, every_summary(model, table, gaps(table)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_asked_of_the_same_cells_again_is_not_computed_again(
    model: VislModel, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, computed = gaps(table), []
    of_networks = Imputer._of_networks
    monkeypatch.setattr(Imputer, "_of_networks", lambda *given: (computed.append(given), of_networks(*given))[1])
    kept = every_summary(model, table, asked)
    n_kept = len(computed)
    monkeypatch.setattr(inference, "KEPT_FLOATS", 0)
    for one, other in zip(kept, every_summary(model, table, asked), strict=True):
        np.testing.assert_array_equal(one, other)
    # Four summaries of the same cells, and draws, which are of other noise.
    assert 5 * n_kept == 2 * (len(computed) - n_kept)
    imputer = Imputer(model, n_draws=5, seed=3)
    assert not np.array_equal(imputer.point(table, asked), imputer.point(table, asked.some(slice(1, None)))[:-1])


def test_copies_of_a_row_get_different_draws_but_the_same_summaries(model: VislModel, table: Table) -> None:
    twice = table.take_rows(np.array([0, 0]))
    asked = gaps(twice)
    point, _, _, sample, _ = every_summary(model, twice, asked, n_draws=40)
    first, second = asked.row == 0, asked.row == 1
    np.testing.assert_array_equal(point[first], point[second])
    assert not np.array_equal(sample[first], sample[second])


def test_draws_follow_the_predicted_distribution(model: VislModel) -> None:
    """2000 draws of one row: frequencies, quantiles and the mean agree with the closed summaries."""
    empty = Table.from_dense(np.zeros((1, 4)), np.zeros((1, 4), bool))
    imputer = Imputer(model, n_draws=2000, seed=0)
    asked = gaps(empty)
    draws, shares = imputer.sample(empty, asked), imputer.probabilities(empty, asked)
    for cell, column in enumerate(COLUMNS):
        if column.levels:
            frequency = np.bincount(draws[:, cell].astype(int), minlength=4)[:4] / 2000
            np.testing.assert_allclose(frequency, shares[cell], atol=0.045)  # 4 standard errors of a share
            np.testing.assert_allclose(shares[cell].sum(), 1, atol=1e-6)
    continuous = draws[:, 2]
    assert abs(continuous.mean() - imputer.point(empty, asked)[2]) < 4 * continuous.std() / 2000**0.5
    assert abs((continuous <= imputer.quantile(empty, asked, 0.2)[2]).mean() - 0.2) < 0.04


def test_rows_are_independent_within_a_draw() -> None:
    """Equal content, many copies: the share of a level in a draw varies as for independent rows, not all or nothing."""
    rows, n_draws = 400, 40
    empty = Table.from_dense(np.zeros((rows, 4)), np.zeros((rows, 4), bool))

    def shares(model: VislModel) -> np.ndarray:
        return (
            Imputer(model, n_draws=n_draws, seed=0).sample(empty, gaps(empty)).reshape(n_draws, rows, 4)[..., 0].mean(1)
        )

    share = shares(build(1, one_graph()))
    overall = share.mean()
    binomial = (overall * (1 - overall) / rows) ** 0.5
    assert 0.02 < overall < 0.98
    assert share.std() == pytest.approx(binomial, rel=4 / (2 * n_draws) ** 0.5)
    # What rows have in common in a draw is the graph, where it is open, and the member.
    assert shares(build(1)).std() > 3 * binomial
    members = shares(build(2, one_graph()))
    assert abs(members[::2].mean() - members[1::2].mean()) > 3 * binomial
    assert max(members[::2].std(), members[1::2].std()) < 2 * binomial


def test_levels_beyond_a_columns_own_have_no_probability(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    shares = Imputer(model, n_draws=5, seed=0).probabilities(table, asked)
    assert (shares[asked.column == 0][:, 2:] == 0).all()
    assert (shares[asked.column == 1][:, 3:] == 0).all()
    assert (shares[asked.column == 2] == 0).all()


def test_categorical_cells_have_no_quantile(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    quantile = Imputer(model, n_draws=5, seed=0).quantile(table, asked, 0.5)
    np.testing.assert_array_equal(np.isnan(quantile), asked.column == 1)


def test_mixture_quantile_of_one_gaussian_is_the_gaussians() -> None:
    quantile = mixture_quantile(torch.tensor([[1.0, -2.0]]), torch.tensor([0.5, 2.0]), 0.95)
    np.testing.assert_allclose(quantile, norm.ppf(0.95, [1, -2], [0.5, 2]), rtol=1e-5)


def test_mixture_quantile_of_two_distant_gaussians() -> None:
    """Half of the mass at 0, half at 10: the quarter lies at 0, three quarters at 10."""
    means, deviation = torch.tensor([[0.0], [10.0]]), torch.tensor([0.1])
    np.testing.assert_allclose(mixture_quantile(means, deviation, 0.25), [0.0], atol=1e-4)
    np.testing.assert_allclose(mixture_quantile(means, deviation, 0.75), [10.0], atol=1e-4)


def test_log_prob_is_the_log_of_the_mean_probability(model: VislModel, table: Table) -> None:
    asked = gaps(table)
    imputer = Imputer(model, n_draws=25, seed=2)
    binary = asked.column == 0
    logs = imputer.log_prob(table, asked, np.ones(len(asked), np.float32))
    np.testing.assert_allclose(np.exp(logs[binary]), imputer.probabilities(table, asked)[binary, 1], rtol=1e-5)


def test_the_cdf_of_a_mixture_by_hand() -> None:
    """Two draws of two components, at 1: 0.25 Phi(1) + 0.75 Phi(0), and Phi((1 - 3) / 2); deviations also doubled."""
    log_weight = torch.tensor([[[0.25, 0.75]], [[1.0, 0.0]]]).double().log()
    mean = torch.tensor([[[0.0, 1.0]], [[3.0, 0.0]]]).double()
    variance = torch.tensor([[[1.0, 4.0]], [[4.0, 1.0]]]).double()
    mixture = Mixture(log_weight, mean, variance, torch.zeros(2, 1).double())
    at = torch.ones(1).double()
    for factor in (1.0, 2.0):
        expected = (0.25 * norm.cdf(1 / factor) + 0.75 * 0.5 + norm.cdf(-1 / factor)) / 2
        assert mixture.cdf(at, factor).item() == pytest.approx(expected)


def test_the_cdf_is_the_share_below_a_quantile(model: VislModel, table: Table) -> None:
    """Of a number; of levels it is the sum of their probabilities, and without an order there is none."""
    asked, imputer = gaps(table), Imputer(model, n_draws=12, seed=2)
    number, level, ordinal = asked.column == 2, asked.column == 1, asked.column == 3
    at = imputer.quantile(table, asked, 0.3)
    at[ordinal] = 1
    shares = imputer.cdf(table, asked, at)[:, 0]
    np.testing.assert_allclose(shares[number], 0.3, atol=1e-4)
    np.testing.assert_allclose(shares[ordinal], imputer.probabilities(table, asked)[ordinal, :2].sum(1), atol=1e-6)
    assert np.isnan(shares[level]).all()


def test_mixture_quantile_of_different_spreads() -> None:
    means, deviations = torch.tensor([[0.0], [1.0]], dtype=torch.float64), torch.tensor([[1.0], [3.0]]).double()
    for share in (0.05, 0.5, 0.9):
        (x,) = mixture_quantile(means, deviations, share).tolist()
        assert (norm.cdf(x, 0, 1) + norm.cdf(x, 1, 3)) / 2 == pytest.approx(share, abs=1e-6)


# -- members


def part_of(member: VislModel, draws: torch.Tensor, n_draws: int) -> Imputer:
    """A model alone, at some of its draws: those that it has as a member."""
    imputer = Imputer(member, n_draws=n_draws, seed=3)
    imputer.draws_of_member, imputer.edges = [draws], [imputer.edges[0][draws]]
    imputer.draw_order = torch.arange(len(draws))
    return imputer


@pytest.mark.parametrize(
    ("n_draws", "of_member"),
    [(6, [[0, 3], [1, 4], [2, 5]]), (7, [[0, 3, 6], [1, 4], [2, 5]]), (2, [[0], [1]]), (1, [[0]])],
)
def test_draws_go_to_the_members_in_turn(table: Table, n_draws: int, of_member: list[list[int]]) -> None:
    """Also where there are fewer draws than members."""
    together, asked = build(3, scale=1.5), gaps(table)
    pooled = Imputer(together, n_draws=n_draws, seed=3)
    assert [draws.tolist() for draws in pooled.draws_of_member] == of_member
    alone = [part_of(m, torch.tensor(d), n_draws) for m, d in zip(together.members(), of_member, strict=False)]
    weights = [len(draws) / n_draws for draws in of_member]

    def mean(numbers: list[np.ndarray]) -> np.ndarray:
        return sum(weight * x.astype(np.float64) for weight, x in zip(weights, numbers, strict=True))

    shares = mean([imputer.probabilities(table, asked) for imputer in alone])
    np.testing.assert_allclose(pooled.probabilities(table, asked), shares, atol=1e-6)
    point, number = pooled.point(table, asked), asked.column == 2
    np.testing.assert_allclose(
        point[number], mean([imputer.point(table, asked) for imputer in alone])[number], atol=1e-6
    )
    np.testing.assert_array_equal(point[~number], shares[~number].argmax(1))
    truth = np.full(len(asked), 1, np.float32)
    # Each alone divides by all draws, also by those that it does not have: so the sum is the mean.
    total = sum(np.exp(imputer.log_prob(table, asked, truth).astype(np.float64)) for imputer in alone)
    np.testing.assert_allclose(np.exp(pooled.log_prob(table, asked, truth)), total, rtol=1e-5)
    assert pooled.sample(table, asked).shape == (n_draws, len(asked))


def without_noise(model: VislModel, n_draws: int) -> Imputer:
    """With a prior that leaves nothing open, every draw of a member is then the same."""
    imputer = Imputer(model, n_draws=n_draws, seed=0)
    imputer.noise.zero_()
    return imputer


def test_the_answer_is_the_mean_of_the_members_answers(table: Table) -> None:
    together, asked = build(3, one_graph(), scale=1.5), gaps(table)
    pooled, alone = without_noise(together, 6), [without_noise(member, 1) for member in together.members()]
    shares = np.mean([imputer.probabilities(table, asked) for imputer in alone], axis=0)
    np.testing.assert_allclose(pooled.probabilities(table, asked), shares, atol=1e-6)
    number = asked.column == 2
    points = np.stack([imputer.point(table, asked) for imputer in alone])[:, number]
    assert points.std(0).min() > 1e-3  # the members do differ
    np.testing.assert_allclose(pooled.point(table, asked)[number], points.mean(0), atol=1e-6)
    mean, variance = pooled.moments(table, asked)[number].T
    np.testing.assert_allclose(mean, points.mean(0), atol=1e-6)
    np.testing.assert_allclose(variance, points.var(0), atol=1e-6)


def test_a_sample_has_draws_of_every_member(table: Table) -> None:
    together, asked = build(3, one_graph(), scale=1.5), gaps(table)
    together.noise_variance.fill_(1e-12)
    number = asked.column == 2
    draws = without_noise(together, 6).sample(table, asked)[:, number]
    for s in range(6):
        member = without_noise(together.members()[s % 3], 1).point(table, asked)[number]
        np.testing.assert_allclose(draws[s], member, atol=1e-4)


def test_every_member_has_its_own_noise(table: Table) -> None:
    together, asked = build(2, one_graph(), scale=1.5), gaps(table)
    together.noise_variance.copy_(torch.tensor([[0.01], [0.5]]).expand(2, 4))
    number = asked.column == 2
    means = [without_noise(member, 1).point(table, asked)[number] for member in together.members()]
    pooled = without_noise(together, 4)
    density = (norm.pdf(0.4, means[0], 0.1) + norm.pdf(0.4, means[1], 0.5**0.5)) / 2
    found = pooled.log_prob(table, asked, np.full(len(asked), 0.4, np.float32))[number]
    np.testing.assert_allclose(np.exp(found), density, rtol=1e-4)
    upper = pooled.quantile(table, asked, 0.9)[number]
    below = (norm.cdf(upper, means[0], 0.1) + norm.cdf(upper, means[1], 0.5**0.5)) / 2
    np.testing.assert_allclose(below, 0.9, atol=1e-4)


# -- mixtures


def two_humps() -> Mixture:
    """One cell, one draw: a quarter at -1 +- .1, three quarters at 2 +- .2; the noise has a variance of .03."""
    log_weight = torch.tensor([[[0.25, 0.75]]]).log()
    return Mixture(log_weight, torch.tensor([[[-1.0, 2.0]]]), torch.tensor([[[0.01, 0.04]]]), torch.tensor([[0.03]]))


def test_moments_of_a_mixture_by_hand() -> None:
    mixture = two_humps()
    assert mixture.mean_of_draw.item() == pytest.approx(1.25)
    # Within: .25 * .01 + .75 * .04; between: .25 * 2.25^2 + .75 * .75^2. The noise is not in it.
    assert mixture.variance_of_draw.item() == pytest.approx(0.0325 + 1.6875)
    torch.testing.assert_close(mixture.total_variance, torch.tensor([[[0.04, 0.07]]]))


def test_quantiles_of_a_mixture_lie_in_both_humps() -> None:
    mixture = two_humps()
    assert mixture.quantile(0.125).item() == pytest.approx(-1.0, abs=1e-4)  # the middle of the first hump
    assert mixture.quantile(0.625).item() == pytest.approx(2.0, abs=1e-4)  # the middle of the second


def test_samples_of_a_mixture_draw_both_humps() -> None:
    n = 20_000
    one = two_humps()
    many = Mixture(*(x.expand(n, *x.shape[1:]) for x in (one.log_weight, one.mean, one.variance, one.noise)))
    uniform = torch.rand(n, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = many.sample(uniform)[:, 0]
    low = values[values < 0.5]
    assert len(low) / n == pytest.approx(0.25, abs=0.02)
    assert low.mean().item() == pytest.approx(-1.0, abs=0.02)
    assert low.std().item() == pytest.approx(0.2, abs=0.01)  # .01 + .03
    assert values[values > 0.5].std().item() == pytest.approx(0.07**0.5, abs=0.01)


def test_log_prob_of_a_mixture_by_hand() -> None:
    drawn = Drawn(CONTINUOUS, torch.tensor([0]), torch.tensor([0]), None, two_humps())
    densities = [
        w * np.exp(-((1.8 - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
        for w, m, v in ((0.25, -1.0, 0.04), (0.75, 2.0, 0.07))
    ]
    assert drawn.log_prob(torch.tensor([1.8])).item() == pytest.approx(np.log(sum(densities)), rel=1e-5)
