"""Wide tables of causes and effects."""

import numpy as np
import pandas as pd
import pytest

from visl import VISL, causes
from visl.graph.metrics import structure_scores
from visl.graph.posterior import DecidedPosterior
from visl.noisy_or import NoisyOr
from visl.schema import BINARY, CONTINUOUS, Column, Schema
from visl.strongest_cause import StrongestCause
from visl.training import Interrupted

M, WIDE = 40, 104  # narrow tables are counted; their rules are the same here
SETTINGS = {"latent_dim": 2, "epochs": 6, "n_draws": 2, "random_state": 0}


def layers(n_rows=600, seed=0, M=M):
    """(N, M), (M, M): three layers, in a random order of columns."""
    rng = np.random.default_rng(seed)
    layer = np.sort(rng.choice(3, M, p=[0.2, 0.3, 0.5]))
    x, edges = np.zeros((n_rows, M)), np.zeros((M, M), bool)
    for j in range(M):
        before = np.flatnonzero(layer == layer[j] - 1)
        of_j = rng.choice(before, min(len(before), rng.integers(1, 4)), replace=False) if len(before) else []
        edges[of_j, j] = True
        absent = np.prod(1 - rng.uniform(0.4, 0.9, len(of_j)) * x[:, of_j], axis=1)
        share = rng.uniform(0.05, 0.3) if layer[j] == 0 else 0.01
        x[:, j] = rng.random(n_rows) < 1 - (1 - share) * absent
    order = rng.permutation(M)
    return x[:, order], edges[np.ix_(order, order)]


@pytest.fixture(scope="module")
def table():
    return layers()


PRIOR = 0.05 * (1 - np.eye(M))


@pytest.fixture(scope="module")
def found(table):
    return causes.probabilities(table[0], PRIOR, seed=0)


def chosen(probabilities):
    return DecidedPosterior.choose_graph(probabilities, 0.5)


def schema(kinds, n_groups=None):
    n_groups = n_groups or len(kinds)
    levels = {BINARY: (0, 1), CONTINUOUS: ()}
    columns = tuple(Column(j, kind, j % n_groups, levels=levels[kind]) for j, kind in enumerate(kinds))
    return Schema(columns, tuple(range(n_groups)), grouped=n_groups < len(kinds))


def test_the_graph_is_found(table, found):
    scores = structure_scores(chosen(found), table[1])
    assert scores.orientation_f1 > 0.8
    assert scores.adjacency_precision > 0.9


def test_probabilities_are_those_of_a_graph(found):
    assert ((found >= 0) & (found <= 1)).all()
    assert (found + found.T <= 1 + 1e-9).all()
    assert (np.diag(found) == 0).all()
    sure = found > 0.9
    assert sure.sum() > 20


def test_what_is_more_than_nine_in_ten_probable_is_true(table, found):
    assert table[1][found > 0.9].mean() > 0.9
    assert table[1][found < 0.1].mean() < 0.01


def test_gaps_make_some_edges(table):
    values, edges = table
    gaps = np.random.default_rng(1).random(values.shape) < 0.2
    graph = chosen(causes.probabilities(np.where(gaps, np.nan, values), PRIOR, seed=0))
    scores = structure_scores(graph, edges)
    assert scores.adjacency_recall > 0.85
    assert scores.adjacency_precision > 0.8  # where a cause is not seen, its own cause tells about its effects


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    ("together", "form"),
    [(lambda x: 1 - np.prod(1 - x, axis=1), NoisyOr), (lambda x: x.max(1), StrongestCause)],
)
def test_the_rows_choose_the_form(together, form, missing):
    """Ten effects of four out of eight frequent causes: of all that are present, or of the strongest."""
    rng = np.random.default_rng(0)
    x = (rng.random((1500, 18)) < 0.4).astype(float)
    for j in range(8, 18):
        causes_of_j = rng.choice(8, 4, replace=False)
        x[:, j] = rng.random(1500) < together(rng.uniform(0.1, 0.6, 4) * x[:, causes_of_j])
    x[rng.random(x.shape) < missing] = np.nan
    gaps, open_ = causes.Gaps(x), np.zeros((18, 18), bool)
    open_[:8, 8:] = True
    gaps.fill(open_)
    forms = [causes.Searches(effects, open_, np.zeros_like(open_)) for effects in (gaps.effects, gaps.strongest())]
    first, further = causes.in_better_form(forms)
    assert {type(effect) for effect in (*first.effects, *further.effects)} == {form}


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_independent_columns_have_no_edge(missing):
    rng = np.random.default_rng(0)
    x = (rng.random((600, M)) < rng.uniform(0.05, 0.4, M)).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    assert chosen(causes.probabilities(x, PRIOR, seed=0)).sum() <= 0.01 * M * (M - 1) / 2


def test_knowledge_is_kept(table):
    values, edges = table
    (a, b), (c, d) = np.argwhere(edges)[:2]
    prior = PRIOR.copy()
    prior[b, a], prior[c, d] = 1.0, 0.0
    p = causes.probabilities(values, prior, seed=0)
    assert p[b, a] == 1
    assert p[a, b] == p[c, d] == 0


def test_gaps_are_filled_by_what_the_row_makes_probable(table):
    values, _ = table
    hidden = np.random.default_rng(1).random(values.shape) < 0.2
    gaps = causes.Gaps(np.where(hidden, np.nan, values))
    by_mean = np.square(gaps.filled - values)[hidden].mean()
    gaps.fill(~np.eye(M, dtype=bool))
    assert np.square(gaps.filled - values)[hidden].mean() < 0.8 * by_mean
    assert (gaps.filled[~hidden] == values[~hidden]).all()
    assert ((gaps.filled >= 0) & (gaps.filled <= 1)).all()


def test_an_effect_is_not_told_to_its_own_causes():
    """Column 0 brings 1 about, and its gaps are likelier 1 where 1 is; but not in the fit of 1."""
    rng = np.random.default_rng(0)
    cause = rng.random(2000) < 0.3
    x = np.stack([cause, rng.random(2000) < np.where(cause, 0.8, 0.02)], 1).astype(float)
    x[:1000, 0] = np.nan
    gaps = causes.Gaps(x)
    gaps.fill(~np.eye(2, dtype=bool))
    brought_about = x[:1000, 1] == 1
    assert gaps.filled[:1000, 0][brought_about].min() > 0.7 > 0.2 > gaps.filled[:1000, 0][~brought_about].max()
    in_its_fit = gaps.effects[1].present[0]  # of the rows where 1 is, those with a gap first
    n_gaps = int(brought_about.sum())
    assert len(np.unique(in_its_fit[:n_gaps])) == 1
    assert in_its_fit[0] == pytest.approx(1 - np.exp(-gaps.effects[0].fit((1,)).weights[0]), abs=0.02)


def test_a_pair_that_no_row_sees_together_is_as_probable_as_before(table):
    values = table[0].copy()
    values[::2, 0] = values[1::2, 1] = np.nan
    prior = PRIOR.copy()
    prior[0, 1] = prior[1, 0] = 0.9  # which only one of the two can be
    p = causes.probabilities(values, prior, seed=0)
    assert (p + p.T <= 1 + 1e-9).all()
    assert p[0, 1] + p[1, 0] > 0.9


def test_other_tables_are_left_to_networks(table):
    values, _ = table
    against = values.copy()
    against[:, ::2] = 1 - against[:, ::2]  # then pairs go against each other
    assert not causes.go_together(causes.associations(against))
    assert causes.go_together(causes.associations(values))
    assert causes.probabilities(against, PRIOR, seed=0) is None
    rng = np.random.default_rng(0)
    often = (rng.random((600, 1)) < 0.5) | (rng.random((600, M)) < 0.5)
    assert causes.probabilities(often.astype(float), PRIOR, seed=0) is None


def test_only_wide_tables_of_two_levels():
    assert causes.possible(schema([BINARY] * 101))
    assert not causes.possible(schema([BINARY] * 100))
    assert not causes.possible(schema([BINARY] * 501))
    assert not causes.possible(schema([BINARY] * 100 + [CONTINUOUS]))
    assert not causes.possible(schema([BINARY] * 202, n_groups=101))


@pytest.fixture(scope="module")
def wide_table():
    return layers(n_rows=300, seed=1, M=WIDE)


@pytest.fixture(scope="module")
def fitted(wide_table):
    frame = pd.DataFrame(wide_table[0].astype(bool), columns=[f"c{j}" for j in range(WIDE)])
    frame = frame.astype(object).mask(np.random.default_rng(2).random(frame.shape) < 0.05)
    return frame, VISL(**SETTINGS).fit(frame)


def test_no_network_learns_the_graph(fitted, wide_table):
    _, model = fitted
    assert set(model.history_["stage"]) == {2}
    assert model.history_["epoch"].tolist() == [1, 2]
    p = model.edge_probabilities_.to_numpy()
    assert structure_scores(chosen(p), wide_table[1]).adjacency_precision > 0.8


def test_stopped_it_goes_on_with_the_graph_that_was_found(fitted, tmp_path, monkeypatch):
    frame, model = fitted
    stopped, resumed = VISL(**SETTINGS), VISL(**SETTINGS)
    with pytest.raises(Interrupted) as interrupted:
        stopped._fit(frame, on_epoch=lambda record: None, should_stop=lambda state: True)
    stopped._save_checkpoint(tmp_path / "checkpoint", interrupted.value.state)
    monkeypatch.setattr(causes, "probabilities", None)  # not asked again
    resumed._fit(frame, on_epoch=lambda record: None, checkpoint=tmp_path / "checkpoint")
    pd.testing.assert_frame_equal(resumed.edge_probabilities_, model.edge_probabilities_)
    pd.testing.assert_frame_equal(resumed.history_, model.history_)
    pd.testing.assert_frame_equal(resumed.transform(frame), model.transform(frame))
    assert not resumed.transform(frame).isna().any().any()


def test_where_columns_go_against_each_other_counts_find_it(fitted, monkeypatch):
    frame, _ = fitted
    other = frame.iloc[:100].copy()
    other.iloc[:, ::2] = ~other.iloc[:, ::2].astype("boolean")
    counted = []
    monkeypatch.setattr("visl.training.fit_graph", lambda model, *_: counted.append(model.n_groups))
    model = VISL(**{**SETTINGS, "epochs": 3}).fit(other)
    assert counted == [WIDE]
    assert model.history_["stage"].tolist() == [2]
