"""Graphs found by exact fits before networks learn: what they see, and what they must and must not find."""

import dataclasses
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from core_helpers import build_members, build_model, group_wise, random_table, random_values, variable_wise
from test_training import StopAfter, assert_same_tensors, round_trip
from visl import VISL, causes
from visl.batches import TrainingData
from visl.config import Config
from visl.errors import InputError
from visl.fitted_graph import MOST_SEARCHED, REPLICATES, _Judge, fit_graph
from visl.graph.posterior import DecidedPosterior, EdgePosterior
from visl.group_fits import FEWEST_ROWS, GroupFits
from visl.model import fits_graph
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.standardising import standardise
from visl.steps import Alone
from visl.table import Table
from visl.training import Interrupted, train

MIXED = variable_wise(CONTINUOUS, BINARY, (CATEGORICAL, 3), ORDINAL)
FITTED = {"structure": "auto", "epochs": 12, "batch_size": 10, "decay_learning_rates": True, "epoch_steps": 40}


def model_of(schema=MIXED, seed=0, **settings):
    return build_model(schema, seed, **{**FITTED, **settings})


# -- what is chosen


def test_fits_find_the_graph_of_single_columns_and_networks_that_of_groups():
    single, grouped = variable_wise(BINARY, BINARY), group_wise([BINARY, BINARY], [BINARY])
    assert isinstance(build_model(single, structure="auto").edges, DecidedPosterior)
    assert isinstance(build_model(grouped, structure="auto").edges, EdgePosterior)
    assert isinstance(build_model(single, structure="latent").edges, EdgePosterior)
    assert [build_model(schema, structure="auto").fitted for schema in (single, grouped)] == [True, False]
    assert not fits_graph(variable_wise(*[BINARY] * 1001), Config())  # too many to fit


# -- training


def test_the_graph_is_there_before_the_first_epoch_and_networks_learn_in_all():
    rng = np.random.default_rng(0)
    values = np.repeat(rng.random((60, 1)) < 0.5, 2, axis=1) ^ (rng.random((60, 2)) < 0.05)
    table = Table.from_dense(values.astype(float), np.ones(values.shape, bool))
    model = model_of(variable_wise(BINARY, BINARY), epochs=15)  # a third
    seen = []

    def watch(record):
        seen.append((model.edges.decided.clone(), model.readout.unit_bias.detach().clone()))

    train(model, table, seeds=[1], on_epoch=watch)
    edges, networks = zip(*seen, strict=True)
    assert len(seen) == 5
    assert edges[0][0, 0, 1] + edges[0][0, 1, 0] > 0.95  # the prior has .1
    assert all(torch.equal(edges[0], later) for later in edges)
    assert not any(torch.equal(a, b) for a, b in zip(networks, networks[1:], strict=False))


def test_a_small_table_is_passed_over_until_there_are_steps_enough():
    steps = []

    def count(state):
        steps.append(state.epoch)
        return False

    # Two epochs of stage 2, in each twice 4 batches of ten.
    model = model_of(epochs=3, batch_size=10, min_batches=1, epoch_steps=7)
    history = train(model, random_table(MIXED, 40), seeds=[0], should_stop=count)
    assert steps == [0] * 8 + [1] * 8
    again = model_of(epochs=3, batch_size=10, min_batches=1, epoch_steps=1)
    once = train(again, random_table(MIXED, 40), seeds=[0])
    assert history[0]["nll"] == pytest.approx(once[0]["nll"], rel=0.2)  # a mean over rows, however often


@pytest.mark.parametrize("n_steps", [1, 8, 19])
def test_an_interrupted_run_goes_on_to_the_same_end(n_steps, monkeypatch):
    """With the graph that was found."""
    table = random_table(MIXED, 40)
    settings = {"batch_size": 10, "min_batches": 1, "epochs": 5, "epoch_steps": 8}  # three epochs of 8 steps
    whole = model_of(**settings)
    train(whole, table, seeds=[3])
    part = model_of(**settings)
    with pytest.raises(Interrupted) as stopped:
        train(part, table, seeds=[3], should_stop=StopAfter(n_steps))
    state, again = round_trip(stopped.value.state, part)
    monkeypatch.setattr("visl.training.fit_graph", None)
    train(again, table, seeds=[3], state=state)
    assert_same_tensors(again, whole)


# With a number last, room to spare in a batch holds standardised numbers, which are no levels.
@pytest.mark.parametrize("schema", [MIXED, variable_wise(BINARY, (CATEGORICAL, 3), CONTINUOUS)])
def test_members_together_are_what_each_is_alone(schema):
    tables = [random_table(schema, 30, seed=seed) for seed in (1, 2)]
    settings = {**FITTED, "epochs": 6}
    together = build_members(schema, [4, 5], **settings).double()
    train(together, TrainingData(tables, of_members=True), seeds=[4, 5])
    for k, (table, member) in enumerate(zip(tables, together.members(), strict=True)):
        alone = build_model(schema, 4 + k, **settings).double()
        train(alone, table, seeds=[4 + k])
        for name, tensor in alone.state_dict().items():
            torch.testing.assert_close(member.state_dict()[name], tensor, rtol=1e-6, atol=1e-9, msg=name)


def fitted_edges(schema, values, observed=None, prior=None, seed=7):
    model = build_model(schema, prior=prior, **FITTED)
    data = TrainingData([Table.from_dense(values, np.ones(values.shape, bool) if observed is None else observed)])
    standardise(model, data, Alone())
    fit_graph(model, data, [seed], Alone())
    return model.edges.probabilities()[0].double().numpy()


def counted(values, observed=None, prior=None):
    """Probabilities of edges between levels, by counting."""
    schema = variable_wise(*[(CATEGORICAL, 1 + int(column.max())) for column in values.T])
    return fitted_edges(schema, values, observed, prior)


def xor_and_a_chain(n_rows=800):
    """0 and 1 -> 2, which is 1 where they differ; 2 -> 3; 4 by itself."""
    rng = np.random.default_rng(0)
    one, other, alone = rng.random((3, n_rows)) < 0.5
    both = (one ^ other) ^ (rng.random(n_rows) < 0.05)
    last = both ^ (rng.random(n_rows) < 0.1)
    return np.stack([one, other, both, last, alone], 1).astype(float)


def test_two_causes_that_act_together_are_found_by_counting():
    rng = np.random.default_rng(1)
    cause, other = rng.random((2, 800)) < 0.4
    effect = (cause | other) ^ (rng.random(800) < 0.05)
    p = counted(np.stack([cause, effect, other, effect ^ (rng.random(800) < 0.1)], 1).astype(float))
    assert p[0, 1] > 0.95
    assert p[2, 1] > 0.95
    assert p[1, 3] > 0.95  # else 3 would be a common effect of the two others
    assert p.sum() == pytest.approx(p[0, 1] + p[2, 1] + p[1, 3], abs=0.1)


def test_directions_that_counts_cannot_tell_have_half_each():
    """A chain is the same from either end, and whatever the order of the columns."""
    rng = np.random.default_rng(2)
    steps = np.cumsum(rng.random((1000, 4)) < [0.5, 0.1, 0.2, 0.1], axis=1) % 2
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        p = counted(steps[:, order].astype(float))[np.ix_(np.argsort(order), np.argsort(order))]
        joined = p + p.T
        np.testing.assert_allclose(np.diag(joined, 1), 1.0, atol=0.01)
        assert joined.sum() < 2 * (3 + 0.2)  # nothing else
        np.testing.assert_allclose(np.diag(p, 1), 0.5, atol=0.02)


def test_a_direction_that_is_ruled_out_tells_the_others():
    rng = np.random.default_rng(2)
    steps = np.cumsum(rng.random((1000, 3)) < [0.5, 0.1, 0.2], axis=1) % 2
    prior = np.full((3, 3), 0.05)
    prior[1, 0] = 0.0
    p = counted(steps.astype(float), prior=prior)
    assert p[0, 1] > 0.95
    assert p[1, 0] == 0.0
    assert p[1, 2] > 0.95  # 0 -> 1 <- 2 would say that the ends are independent


def test_what_too_few_rows_see_together_is_as_probable_as_before():
    values = xor_and_a_chain()
    observed = np.ones(values.shape, bool)
    observed[20:400, 2], observed[400:, 3] = False, False
    observed[:20, 3] = False
    p = counted(values, observed)
    assert p[2, 3] == p[3, 2] == pytest.approx(0.05)
    assert p[4, 3] < 0.05


def test_knowledge_is_kept():
    """A required edge between columns that have nothing to do with each other, and forbidden ones that are there."""
    steps = np.cumsum(np.random.default_rng(2).random((300, 3)) < [0.5, 0.1, 0.5], axis=1) % 2
    prior = np.full((3, 3), 0.05)
    prior[0, 1] = prior[1, 0] = 0.0
    prior[2, 0] = 1.0
    p = counted(steps.astype(float), prior=prior)
    assert p[0, 1] == p[1, 0] == 0.0
    assert p[2, 0] == 1.0
    assert p[0, 2] == 0.0  # the reverse


def test_what_five_rows_see_of_numbers_is_as_probable_as_before():
    values, observed = random_values(variable_wise(CONTINUOUS, CONTINUOUS), 60), np.ones((60, 2), bool)
    values[:, 1] = values[:, 0]
    observed[5:, 0] = False
    p = fitted_edges(variable_wise(CONTINUOUS, CONTINUOUS), values, observed)
    assert p[0, 1] == p[1, 0] == pytest.approx(0.05)


@pytest.mark.parametrize("n_columns", [4, MOST_SEARCHED + 1])
def test_too_few_rows_leave_all_edges_as_probable_as_before_in_wide_tables_too(n_columns):
    schema = variable_wise(*[CONTINUOUS] * n_columns)
    p = fitted_edges(schema, random_values(schema, 10))
    np.testing.assert_allclose(p, 0.05 * (1 - np.eye(n_columns)), rtol=1e-5)


# -- how probable edges are


def test_an_edge_is_worth_something_if_its_gain_is_clear():
    """.03 nats a row with a variance of 1 in 10000 rows: three standard errors, one beyond the two it must be worth."""
    gains = {(0, 1): (0.03, 1.0, 10_000), (1, 2): (0.0, 1.0, FEWEST_ROWS - 1), (0, 2): (-1.0, 1.0, 100)}
    fits = SimpleNamespace(tabulated=False, gain=lambda j, parents, i: gains[i, j])
    graph, required = np.zeros((2, 4, 4), bool)
    graph[0, 1] = graph[1, 2] = graph[0, 2] = graph[0, 3] = required[0, 3] = True
    found = _Judge._worth_something(SimpleNamespace(fits=fits, required=required), graph)
    expected = np.zeros((4, 4))
    expected[0, 1:] = 0.8413, 0.0, 1.0
    expected[1, 2] = 1.0  # too few rows judge it
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_an_edge_that_no_replicate_has_keeps_its_share_of_what_it_was_before():
    """One part in as many as there are replicates and one more; the latter tell nothing of its direction."""
    values = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 100, axis=0).astype(float)
    p = counted(values, prior=np.array([[0.0, 0.3], [0.1, 0.0]]))
    assert p[0, 1] == p[1, 0] == pytest.approx(0.2 / (1 + REPLICATES))


# -- what is found

SHORT = {"latent_dim": 2, "epochs": 6, "n_draws": 2, "random_state": 0}


def bends(n_rows, rng, noise=0.1):
    """x -> y -> w, and z by itself."""
    x, z = rng.normal(size=(2, n_rows))
    y = np.sin(2 * x) + noise * rng.normal(size=n_rows)
    w = y**2 + noise * rng.normal(size=n_rows)
    return np.stack([x, y, w, z], 1)


@pytest.fixture(scope="module")
def found():
    return VISL(**SHORT).fit(bends(400, np.random.default_rng(1)))


def test_bent_relations_show_their_direction(found):
    assert set(found.graph_.edges) == {(0, 1), (1, 2)}
    assert nx.is_directed_acyclic_graph(found.graph_)
    p = found.edge_probabilities_.to_numpy()
    assert p[0, 1] > 0.9
    assert p[1, 2] > 0.9
    assert (p + p.T <= 1 + 1e-6).all()


def test_history_counts_the_edges(found):
    assert {"edges", "nll", "acyclicity"} <= set(found.history_.columns)
    assert found.history_["stage"].tolist() == [2] * 4
    assert found.history_["edges"].tolist() == pytest.approx([found.edge_probabilities_.to_numpy().sum()] * 4)


def test_neither_units_nor_the_order_of_columns_matter():
    values, four = bends(300, np.random.default_rng(1)), variable_wise(*[CONTINUOUS] * 4)
    p = fitted_edges(four, values)
    assert p[0, 1] > 0.9
    scaled = fitted_edges(four, 3 + values * [1, 100, 0.01, 5])
    np.testing.assert_allclose(scaled, p, atol=0.1)  # tables hold float32, and of 40 replicates some may differ
    order = [2, 0, 3, 1]
    moved = fitted_edges(four, values[:, order])[np.ix_(np.argsort(order), np.argsort(order))]
    np.testing.assert_allclose(moved, p, atol=0.2)  # whose chances are drawn column by column


def test_a_saved_model_has_the_graph(found, tmp_path):
    found.save(tmp_path / "model")
    pd.testing.assert_frame_equal(VISL.load(tmp_path / "model").edge_probabilities_, found.edge_probabilities_)


def test_independent_columns_have_no_edges():
    values = np.random.default_rng(2).normal(size=(500, 6))
    assert VISL(**SHORT).fit(values).graph_.number_of_edges() == 0


def test_a_single_column_has_no_graph_to_find():
    model = VISL(**SHORT).fit(pd.DataFrame({"x": np.random.default_rng(0).normal(size=30)}))
    assert model.edge_probabilities_.to_numpy().tolist() == [[0.0]]
    assert model.history_["stage"].tolist() == [2] * 4


def test_a_wide_table_of_levels_is_counted_along_likely_pairs():
    """22 chains of five columns, in which every other one says the opposite of the one before."""
    rng = np.random.default_rng(0)
    flips = rng.random((500, 22, 5)) < [0.5, 0.1, 0.9, 0.1, 0.9]
    values = (np.cumsum(flips, axis=2) % 2).reshape(500, 110).astype(float)
    prior = 0.05 * (1 - np.eye(110))
    assert causes.probabilities(values, prior, seed=0) is None
    p = fitted_edges(variable_wise(*[BINARY] * 110), values)
    found = {(int(i), int(j)) for i, j in np.argwhere(np.triu(p + p.T > 0.5))}
    steps = {(j, j + 1) for j in range(110) if j % 5 < 4}
    assert steps <= found
    assert len(found - steps) <= 3  # by chance, of 5907 other pairs


# -- members


def graphs_of_two(monkeypatch, most_rows):
    """Rows of every set of fits, and the graphs of two members."""
    rows = []

    class Watched(GroupFits):
        def __init__(self, values, schema):
            rows.append(len(values))
            super().__init__(values, schema)

    monkeypatch.setattr("visl.fitted_graph.GroupFits", Watched)
    monkeypatch.setattr("visl.fitted_graph.MOST_ROWS", most_rows)
    values = bends(100, np.random.default_rng(1))
    model = build_members(variable_wise(*[CONTINUOUS] * 4), [0, 1], **FITTED)
    data = TrainingData([Table.from_dense(values, np.ones(values.shape, bool))])
    standardise(model, data, Alone())
    fit_graph(model, data, [0, 1], Alone())
    return rows, [edges.probabilities()[0] for edges in (member.edges for member in model.members())]


def test_members_find_their_graphs_in_the_same_rows_by_replicates_of_their_own(monkeypatch):
    rows, (one, other) = graphs_of_two(monkeypatch, 5000)
    assert rows == [100]
    assert not torch.equal(one, other)
    torch.testing.assert_close(one, other, atol=0.4, rtol=0)


def test_of_many_rows_each_member_draws_its_own(monkeypatch):
    rows, (one, other) = graphs_of_two(monkeypatch, 60)
    assert rows == [60, 60]
    assert not torch.equal(one, other)


def test_changed_config_is_refused_with_the_remedy():
    with pytest.raises(InputError, match="structure is 'causal': use one of 'auto', 'latent'$"):
        dataclasses.replace(model_of().config, structure="causal")


def test_searches_of_the_graph_are_counted():
    """The first and its replicates, of both members."""
    told = []
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=list("abc"))
    model = VISL(latent_dim=2, epochs=3, n_draws=2, n_members=2, random_state=0)
    model._fit(frame, on_epoch=lambda record: None, on_search=lambda done, of: told.append((done, of)))
    n_searches = 2 * (1 + REPLICATES)
    assert told == [(done, n_searches) for done in range(1, n_searches + 1)]
