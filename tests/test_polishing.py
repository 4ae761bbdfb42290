"""Gaps drawn anew from what is known of a row: against posteriors worked out without sampling."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from core_helpers import build_model, variable_wise
from visl import VISL
from visl.batches import TrainingData
from visl.conditional_fit import fit_conditionals
from visl.finishing import Scores, finish
from visl.inference import AskedCells, Imputer
from visl.nets.conditionals import POINTS, Conditionals
from visl.polishing import Chains
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS
from visl.standardising import standardise
from visl.steps import Alone
from visl.table import Table

FITTED = {"structure": "auto", "latent_dim": 2}


def uniform(n_sweeps, n_chains, n_gaps, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand((n_sweeps, n_chains, n_gaps), generator=rng, dtype=torch.float64)


# -- tables by hand


def levels(edges, odds):
    """Binary columns and a number that stands by itself; odds[k, j]: what level 1 of k adds to the log-odds of j."""
    schema = variable_wise(*[BINARY] * 3, CONTINUOUS)
    c = Conditionals(schema, 1).double()
    for (k, j), odd in zip(edges, odds, strict=True):
        c.parents[0, k, j] = True
        c.effect[0, k, j, 1, 0] = odd
    c.constant[0, :3, 0] = torch.tensor([0.3, -0.5, 0.2])
    return c


def joint(c, state):
    """log p of three levels, one after the other."""
    position = torch.tensor([[*state, 0.0]], dtype=torch.float64)[None]
    chains = Chains(c, position, torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    return sum(c.log_prob(j, chains._sum(j, position), position[..., j]).item() for j in range(3))


def test_log_probabilities_by_hand():
    c = levels([(0, 1)], [2.0])
    assert joint(c, (1, 1, 0)) == pytest.approx(np.log(1 / (1 + np.exp(-0.3)) / (1 + np.exp(-1.5)) / (1 + np.exp(0.2))))
    three = Conditionals(variable_wise((CATEGORICAL, 3), CONTINUOUS), 1).double()
    units = torch.tensor([0.0, np.log(2.0)])  # levels as 1 : 1 : 2
    found = three.log_prob(0, units, torch.tensor([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(found.exp().numpy(), [0.25, 0.25, 0.5])


def test_effects_of_a_number_are_straight_between_points():
    c = Conditionals(variable_wise(CONTINUOUS, CONTINUOUS), 1).double()
    c.effect[0, 0, 1, :, 0] = torch.arange(POINTS).double() ** 2
    found = c.effects(0, 1, torch.tensor([3.0, 3.25, POINTS - 1.0], dtype=torch.float64))
    assert found[:, 0].tolist() == pytest.approx([9.0, 9 + 0.25 * 7, (POINTS - 1) ** 2])


@pytest.mark.parametrize("seen", [{2: 1.0}, {0: 1.0}, {}])
def test_levels_have_the_posterior_of_all_combinations(seen):
    """0 -> 1 -> 2 and 0 -> 2."""
    c = levels([(0, 1), (1, 2), (0, 2)], [2.0, -1.5, 1.0])
    gaps = [j for j in range(3) if j not in seen]
    weights = {
        state: np.exp(joint(c, state))
        for state in itertools.product((0, 1), repeat=3)
        if all(state[j] == value for j, value in seen.items())
    }
    expected = [sum(w for state, w in weights.items() if state[j]) / sum(weights.values()) for j in gaps]
    start = torch.zeros(50, 1, 4, dtype=torch.float64)
    for j, value in seen.items():
        start[..., j] = value
    row, column = torch.zeros(len(gaps), dtype=torch.long), torch.tensor(gaps)
    found = Chains(c, start, row, column).polished(uniform(100, 50, len(gaps)))
    np.testing.assert_allclose(found.share[:, 1].numpy(), expected, atol=0.03)
    np.testing.assert_allclose(found.value.mean(0).numpy(), expected, atol=0.25)  # fifty ends of chains


def test_rows_do_not_meet():
    c = levels([(0, 1), (1, 2)], [2.0, -1.5])
    start = torch.zeros(5, 3, 4, dtype=torch.float64)
    start[:, 1, 2] = 1.0
    row, column = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0])
    random = uniform(10, 5, 4)
    together = Chains(c, start, row, column).polished(random)
    for r in range(3):
        own = row == r
        alone = Chains(c, start[:, r : r + 1], row[own] * 0, column[own]).polished(random[:, :, own])
        torch.testing.assert_close(alone.share, together.share[own])
        torch.testing.assert_close(alone.value, together.value[:, own])


# -- fitted to rows


def chain(n_rows, seed):
    """x -> y -> z, straight lines with normal noise."""
    rng = np.random.default_rng(seed)
    x, e, f = rng.normal(size=(3, n_rows))
    y = x + 0.5 * e
    return np.stack([x, y, y + 0.5 * f], 1)


@pytest.fixture(scope="module")
def fitted():
    """Of a chain whose graph is known; networks have learned nothing."""
    model = build_model(variable_wise(*[CONTINUOUS] * 3), **FITTED)
    table = Table.from_dense(chain(4000, 0), np.ones((4000, 3), bool))
    standardise(model, TrainingData([table]), Alone())
    model.edges.decided.zero_()
    model.edges.decided[0, 0, 1] = model.edges.decided[0, 1, 2] = 1.0
    fit_conditionals(model, table)
    model.conditionals.trusted.fill_(True)
    return model


def asked_of(values):
    hidden = np.isnan(values)
    return Table.from_dense(np.where(hidden, 0.0, values), ~hidden), AskedCells(*np.nonzero(hidden))


def test_a_gap_between_its_parent_and_its_child_has_the_mean_and_spread_of_both(fitted):
    """y given x and z: (x + z) / 2, variance 1/8. Where z is a gap too, y: x, variance 1/4, and z: x, variance 1/2."""
    values = chain(300, 3)
    between, both = values.copy(), values.copy()
    between[:, 1], both[:, 1:] = np.nan, np.nan
    table, asked = asked_of(np.concatenate([between, both]))
    x, z = values[:, 0], values[:, 2]
    mean = np.concatenate([(x + z) / 2, np.repeat(x, 2)])
    variance = np.concatenate([np.full(300, 1 / 8), np.tile([1 / 4, 1 / 2], 300)])
    imputer = Imputer(fitted, n_draws=30, seed=0)
    away = (imputer.point(table, asked) - mean) / np.sqrt(variance)
    low, high = (imputer.quantile(table, asked, share) for share in (0.16, 0.84))
    at_mean = imputer.log_prob(table, asked, mean.astype(np.float32)) + 0.5 * np.log(2 * np.pi * variance)
    below = imputer.cdf(table, asked, mean)[:, 0]
    for part in (slice(0, 300), slice(300, None, 2), slice(301, None, 2)):
        assert abs(away[part].mean()) < 0.05
        assert away[part].std() < 0.25  # chains are of finite length
        assert ((high - low) / 2 / np.sqrt(variance))[part].mean() == pytest.approx(1.0, abs=0.06)
        assert at_mean[part].mean() == pytest.approx(0.0, abs=0.1)
        assert below[part].mean() == pytest.approx(0.5, abs=0.02)


def test_draws_of_a_row_belong_together(fitted):
    """y and z given x: with a correlation of .5 / sqrt(.25 * .5) * .5 = .71."""
    table, asked = asked_of(np.array([[0.0, np.nan, np.nan]]))
    draws = Imputer(fitted, n_draws=200, seed=0).sample(table, asked)
    assert draws.shape == (200, 2)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(0.71, abs=0.12)
    np.testing.assert_allclose(draws.std(0), np.sqrt([0.25, 0.5]), rtol=0.2)


def test_a_row_has_the_same_answer_among_others(fitted):
    values = np.array([[0.5, np.nan, 1.0], [np.nan, 0.2, np.nan], [-1.0, np.nan, np.nan]])
    together = Imputer(fitted, n_draws=4, seed=0).point(*asked_of(values))
    first = Imputer(fitted, n_draws=4, seed=0).point(*asked_of(values[[2, 0]]))
    np.testing.assert_allclose(first, together[[3, 4, 0]], atol=1e-6)


# -- who draws


def known_graph(values):
    model = build_model(variable_wise(*[CONTINUOUS] * 3), **FITTED)
    table = Table.from_dense(values, np.ones(values.shape, bool))
    standardise(model, TrainingData([table]), Alone())
    model.edges.decided.zero_()
    model.edges.decided[0, 0, 1] = model.edges.decided[0, 1, 2] = 1.0
    return model, table


def test_fits_of_the_right_graph_are_trusted_beside_networks_that_have_learned_nothing():
    model, table = known_graph(chain(600, 1))
    finish(model, table, seed=0)
    assert model.polishes


@pytest.mark.parametrize(
    ("polished", "trusted"), [((1.1, 0.505), True), ((1.1, 0.52), False), ((0.9, 0.4), False), ((1.0, 0.5), False)]
)
def test_fits_must_tell_more_and_have_no_larger_error(monkeypatch, polished, trusted):
    """Networks have a log-probability of 1 and an error of .5; one of .51 may be chance."""
    model, table = known_graph(chain(100, 1))
    scores = {True: Scores(*polished), False: Scores(1.0, 0.5)}
    monkeypatch.setattr("visl.finishing._scores", lambda *_, polish: scores[polish])
    finish(model, table, seed=0)
    assert model.polishes is trusted


def test_with_too_few_rows_networks_fill_gaps_alone():
    model, table = known_graph(chain(19, 1))
    finish(model, table, seed=0)
    assert not model.polishes


# -- the whole way


@pytest.fixture(scope="module")
def bends():
    """A table with gaps, a hardly trained model of it, and the truth."""
    rng = np.random.default_rng(5)
    x, e, f = rng.normal(size=(3, 600))
    y = np.sin(2 * x) + 0.1 * e
    mood = np.where(y + 0.3 * f > 0, "good", "bad")
    truth = pd.DataFrame({"x": x, "y": y, "mood": mood})
    table = truth.mask(rng.random(truth.shape) < 0.2)
    return table, VISL(epochs=9, latent_dim=4, random_state=0).fit(table), truth


def test_a_fitted_model_draws_gaps_anew(bends):
    table, model, truth = bends
    assert model.model_.polishes
    filled = model.transform(table)
    gap = table["y"].isna() & table["x"].notna()
    assert np.sqrt(np.mean((filled["y"] - truth["y"])[gap] ** 2)) < 0.2  # the noise has .1
    assert (filled["mood"] == truth["mood"])[table["mood"].isna() & table["y"].notna()].mean() > 0.8
    assert (filled[table.notna()] == table).to_numpy()[table.notna()].all()
    low, high = model.predict_interval(table)
    assert (low["y"] < filled["y"])[gap].all()
    assert (filled["y"] < high["y"])[gap].all()
    assert ((low["y"] < truth["y"]) & (truth["y"] < high["y"]))[gap].mean() == pytest.approx(0.9, abs=0.1)
    shares = model.predict_proba(table)["mood"]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)


def test_it_is_kept_with_the_model(bends, tmp_path):
    table, model, _ = bends
    model.save(tmp_path / "saved")
    again = VISL.load(tmp_path / "saved")
    assert again.model_.polishes
    pd.testing.assert_frame_equal(again.transform(table.head(50)), model.transform(table.head(50)))
    for one, other in zip(again.sample(table.head(9), 3), model.sample(table.head(9), 3), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_networks_alone_on_request(bends):
    table, _, _ = bends
    preset = {"preset": "default", "settings": {"polishing_sweeps": 0}}
    model = VISL(preset=preset, epochs=3, latent_dim=4, random_state=0).fit(table.head(60))
    assert model.model_.conditionals is None
    assert not model.transform(table.head(60)).isna().any().any()


def test_a_row_s_answer_depends_on_that_row_alone(bends):
    table, model, _ = bends
    rows = table[table.isna().any(axis=1)].head(12)
    together = model.transform(rows)
    pd.testing.assert_frame_equal(model.transform(rows.iloc[[7, 2]]), together.iloc[[7, 2]])
    twice = model.transform(pd.concat([rows.iloc[[3]], rows.iloc[[3]]]))
    pd.testing.assert_frame_equal(twice.iloc[[0]], twice.iloc[[1]])
