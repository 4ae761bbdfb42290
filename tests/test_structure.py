"""Graphs found by structural equations: phases, held-out rows, pruning, and what they must and must not find."""

import dataclasses
import math

import networkx as nx
import numpy as np
import pytest
import torch

from core_helpers import build_members, build_model, group_wise, random_table, random_values, variable_wise
from test_training import StopAfter, assert_same_tensors, round_trip
from visl import VISL
from visl.batches import TrainingData
from visl.graph.posterior import DirectedPosterior, EdgePosterior
from visl.inference import AskedCells, Imputer
from visl.nets.layout import Cells
from visl.revision import WORTH_NOTHING, revise
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.seen_rows import Gains, optimism, pooled
from visl.standardising import _tails, standardise
from visl.steps import Alone
from visl.table import Table
from visl.training import Interrupted, train

MIXED = variable_wise(CONTINUOUS, BINARY, (CATEGORICAL, 3), ORDINAL)
EQUATIONS = {"structure": "equations", "equation_dim": 6, "epochs": 12, "batch_size": 10, "decay_learning_rates": True}
EQUATIONS |= {"epoch_steps": 40}


def model_of(schema=MIXED, seed=0, **settings):
    return build_model(schema, seed, **{**EQUATIONS, **settings})


# -- what is chosen


def test_single_columns_have_equations_and_groups_the_papers_form():
    single, grouped = variable_wise(BINARY, BINARY), group_wise([BINARY, BINARY], [BINARY])
    assert isinstance(build_model(single, structure="auto").edges, DirectedPosterior)
    assert isinstance(build_model(grouped, structure="auto").edges, EdgePosterior)
    assert isinstance(build_model(grouped, structure="equations").edges, DirectedPosterior)
    assert build_model(single, structure="latent").equations is None


# -- held-out rows


def test_held_out_rows_are_never_trained_on_and_the_rest_are_in_every_epoch():
    schema = variable_wise(BINARY)
    data = TrainingData([random_table(schema, 40)], held_out=0.25)
    held_out = data.held_out_rows(0, seed=5, part=0)
    assert len(held_out) == 10
    assert data.n_rows == 30
    for epoch in range(3):
        rows = torch.cat(data.epoch_order([5], epoch, n_steps=4), dim=1)[0]
        assert sorted([*rows.tolist(), *held_out.tolist()]) == list(range(40))
    assert held_out.tolist() != data.held_out_rows(0, seed=6, part=0).tolist()


def test_members_but_the_first_learn_from_rows_drawn_with_replacement():
    table = random_table(variable_wise(BINARY), 60)
    data = TrainingData([table], held_out=0.5, resampled=True)
    first, second = (torch.cat(data.epoch_order([1, 2], epoch, 3), dim=1) for epoch in (0, 1))
    assert sorted(first[0].tolist()) == sorted(second[0].tolist())  # the same rows in every epoch
    assert sorted(first[1].tolist()) == sorted(second[1].tolist())
    assert len(first[0].unique()) == 30
    assert 12 <= len(first[1].unique()) < 30  # two thirds, on average
    for k, seed in enumerate((1, 2)):
        assert not set(first[k].tolist()) & set(data.held_out_rows(k, seed, 0).tolist())


def test_a_single_row_is_not_held_out():
    assert TrainingData([random_table(variable_wise(BINARY), 1)], held_out=0.5).n_rows == 1


# -- standardising


def test_standardising_by_hand():
    schema = variable_wise(CONTINUOUS, BINARY, CONTINUOUS)
    values = np.array([[0.2, 1, 0.5], [0.6, 0, 0.5], [np.nan, 1, 0.5]])
    model = model_of(schema)
    standardise(model, TrainingData([Table.from_dense(values, ~np.isnan(values))]), Alone())
    torch.testing.assert_close(model.centre, torch.tensor([[0.4, 0.0, 0.5]]))
    torch.testing.assert_close(model.spread, torch.tensor([[0.2, 1.0, 1.0]]))  # a constant keeps its scale


def test_units_of_a_column_do_not_matter():
    schema = variable_wise(CONTINUOUS, CONTINUOUS)
    values, found = random_values(schema, 50), []
    for scale, shift in ((1.0, 0.0), (0.01, 0.4)):
        model, table = model_of(schema), Table.from_dense(scale * values + shift, np.ones(values.shape, bool))
        found.append(train(model, table, seeds=[0])[-2]["nll"])
    assert found[0] == pytest.approx(found[1], rel=1e-2)  # tables hold float32


def test_knots_lie_at_quantiles_and_fewer_where_there_are_few_cells():
    values = np.linspace(0, 1, 301)[:, None] ** 1.2
    observed = np.ones((301, 1), bool)
    model = model_of(variable_wise(CONTINUOUS), n_knots=5)
    standardise(model, TrainingData([Table.from_dense(values, observed)]), Alone())
    expected = (np.linspace(0, 1, 5) ** 1.2 - values.mean()) / values.std()
    for encoder in (model.encoder, model.equations.encoder):
        np.testing.assert_allclose(encoder.curves.knots[0, 0].numpy(), expected, atol=1e-5)
    observed[160:] = False  # 160 cells: three knots of at least 50 each, the others are far away
    standardise(model, TrainingData([Table.from_dense(values, observed)]), Alone())
    knots, seen = model.encoder.curves.knots[0, 0].numpy(), values[:160]
    np.testing.assert_allclose(knots[:3], (np.quantile(seen, [0, 0.5, 1]) - seen.mean()) / seen.std(), atol=1e-5)
    assert (knots[3:] >= 1e6).all()


def test_long_tails_by_hand():
    """Quantiles 1, 2, 5: 1 - 1/2, 2 - 1/2 and 5 - 1/2 are half, 1 1/2 and 4 1/2, each three times the one before."""
    quantiles = np.array([[1.0, 2.0, 5.0], [-5.0, -2.0, -1.0], [1.0, 2.0, 3.1], [0.0, 0.0, 5.0], [2.0, 2.0, 2.0]])
    side, offset, unit, centre, spread = np.stack(_tails(*quantiles.T))
    assert side.tolist() == [1, -1, 0, 1, 0]
    assert offset.tolist() == pytest.approx([-0.5, -0.5, 0, 0.05, 0])
    assert unit.tolist() == pytest.approx([0.5, 0.5, 1, 0.05, 1])
    assert centre.tolist() == pytest.approx([np.arcsinh(3), -np.arcsinh(3), 0, np.arcsinh(1), 0])
    above = (np.arcsinh(9) - np.arcsinh(1)) / 3.29
    assert spread.tolist() == pytest.approx([above, above, 1, (np.arcsinh(101) - np.arcsinh(1)) / 3.29, 1])


def test_equations_see_a_log_normal_column_as_a_normal_one_and_others_as_they_are():
    normal = np.random.default_rng(0).normal(size=(3000, 3))
    values = np.stack([np.exp(normal[:, 0]), -np.exp(normal[:, 1]), normal[:, 2]], 1)
    model, table = model_of(variable_wise(*[CONTINUOUS] * 3)), Table.from_dense(values, np.ones(values.shape, bool))
    standardise(model, TrainingData([table]), Alone())
    rows, columns = (torch.from_numpy(x) for x in (table.row_of_cell, table.columns.astype(np.int64)))
    cells = Cells(rows, columns, torch.from_numpy(table.values), len(values))
    seen = model.for_equations(cells).value.view(-1, 3).numpy()
    for j, of_column in enumerate((normal[:, 0], -normal[:, 1], normal[:, 2])):
        assert np.corrcoef(seen[:, j], of_column)[0, 1] > 0.99
    assert np.abs(seen.mean(0)).max() < 0.1
    assert seen.std(0) == pytest.approx(np.ones(3), abs=0.05)
    np.testing.assert_array_equal(seen[:, 2], model.standardised(cells).value.view(-1, 3).numpy()[:, 2])


def test_nothing_is_standardised_in_the_papers_form():
    values = np.array([[0.2], [0.6]])
    model = model_of(variable_wise(CONTINUOUS), structure="latent", standardise=False)
    standardise(model, TrainingData([Table.from_dense(values, np.ones((2, 1), bool))]), Alone())
    assert model.centre.item() == 0
    assert model.spread.item() == 1


def test_read_outs_come_back_on_the_scale_of_the_table():
    """Networks that see x / 10 + 3 of a column answer as before, ten times as wide and moved."""
    schema = variable_wise(CONTINUOUS)
    model = model_of(schema, mixture_components=2).double()
    table = Table.from_dense(np.zeros((1, 1)), np.zeros((1, 1), bool))
    asked = AskedCells(np.array([0]), np.array([0]))
    before = Imputer(model, n_draws=4, seed=0).moments(table, asked)[0]
    model.centre.fill_(-30.0)
    model.spread.fill_(10.0)
    after = Imputer(model, n_draws=4, seed=0).moments(table, asked)[0]
    np.testing.assert_allclose(after, [10 * before[0] - 30, 100 * before[1]], rtol=1e-5)


def test_each_member_is_standardised_by_its_own_table():
    schema = variable_wise(CONTINUOUS)
    tables = [Table.from_dense(np.array(v)[:, None], np.ones((2, 1), bool)) for v in ([0.0, 1.0], [0.4, 0.6])]
    model = build_members(schema, [0, 1], **EQUATIONS)
    standardise(model, TrainingData(tables, of_members=True), Alone())
    torch.testing.assert_close(model.spread, torch.tensor([[0.5], [0.1]]))


# -- training


def test_what_each_phase_learns():
    table = random_table(MIXED, 60)
    model = model_of(epochs=30)  # stage 1: 1 epoch of warm-up, 5 of learning the graph, 4 settled
    seen = []

    def watch(record):
        seen.append((model.edges.existence.detach().clone(), model.equations.readout.unit_bias.detach().clone()))

    train(model, table, seeds=[1], on_epoch=watch)
    edges, networks = zip(*seen, strict=True)

    def changes(tensors):
        return [not torch.equal(a, b) for a, b in zip(tensors, tensors[1:], strict=False)]

    assert torch.equal(edges[0], torch.zeros_like(edges[0]))  # existence of 1/2 in the warm-up
    assert changes(edges) == [True] * 5 + [False] * 24
    assert changes(networks) == [True] * 9 + [False] * 20
    assert (model.edges.decided >= 0).all()


def test_a_small_table_is_passed_over_until_there_are_steps_enough():
    steps = []

    def count(state):
        steps.append(state.epoch)
        return False

    # 36 of 40 rows in one batch of the equations (25 for each of two graphs), seven times; then twice 4 batches of ten.
    model = model_of(epochs=2, batch_size=10, min_batches=1, epoch_steps=7, graphs_per_step=2)
    history = train(model, random_table(MIXED, 40), seeds=[0], should_stop=count)
    assert steps == [0] * 7 + [1] * 8
    again = model_of(epochs=2, batch_size=10, min_batches=1, epoch_steps=1, graphs_per_step=2)
    once = train(again, random_table(MIXED, 40), seeds=[0])
    assert history[0]["nll"] == pytest.approx(once[0]["nll"], rel=0.2)  # a mean over rows, however often


@pytest.mark.parametrize("n_steps", [3, 20, 28, 40])
def test_an_interrupted_run_goes_on_to_the_same_end(n_steps):
    table, settings = random_table(MIXED, 40), {"batch_size": 10, "min_batches": 1, "epochs": 15}
    whole = model_of(**settings)
    train(whole, table, seeds=[3])
    part = model_of(**settings)
    with pytest.raises(Interrupted) as stopped:
        train(part, table, seeds=[3], should_stop=StopAfter(n_steps))
    state, again = round_trip(stopped.value.state, part)
    train(again, table, seeds=[3], state=state)
    assert_same_tensors(again, whole)


# With a number last, room to spare in a batch holds standardised numbers, which are no levels.
@pytest.mark.parametrize("schema", [MIXED, variable_wise(BINARY, (CATEGORICAL, 3), CONTINUOUS)])
def test_members_together_are_what_each_is_alone(schema):
    tables = [random_table(schema, 30, seed=seed) for seed in (1, 2)]
    settings = {**EQUATIONS, "epochs": 6}
    together = build_members(schema, [4, 5], **settings).double()
    train(together, TrainingData(tables, of_members=True), seeds=[4, 5])
    for k, (table, member) in enumerate(zip(tables, together.members(), strict=True)):
        alone = build_model(schema, 4 + k, **settings).double()
        train(alone, table, seeds=[4 + k])
        for name, tensor in alone.state_dict().items():
            torch.testing.assert_close(member.state_dict()[name], tensor, rtol=1e-6, atol=1e-9, msg=name)


# -- pruning


def test_gains_of_learned_and_held_out_rows_by_hand():
    learned = Gains(mean=np.array([0.5, 0.1]), variance=np.array([1.0, 4.0]), n=np.array([90.0, 30.0]))
    held_out = Gains(mean=np.array([0.3, 0.1]), variance=np.array([3.0, 4.0]), n=np.array([10.0, 30.0]))
    # Differences of .2 and 0, which weigh as the fewer rows do: 10 and 30.
    too_much = optimism(learned, held_out)
    assert too_much == pytest.approx(0.05)
    both = pooled(learned, held_out, too_much)
    np.testing.assert_allclose(both.mean, [(90 * 0.45 + 10 * 0.3) / 100, (30 * 0.05 + 30 * 0.1) / 60])
    np.testing.assert_allclose(both.variance, [(90 + 30) / 100, 4])
    assert both.n.tolist() == [100, 60]
    assert optimism(held_out, learned) == 0  # better on new rows is luck


def test_rows_are_either_learned_from_or_held_out():
    data = TrainingData([random_table(variable_wise(BINARY), 50)], held_out=0.2)
    learned, held_out = data.learned_rows(0, 3, 0), data.held_out_rows(0, 3, 0)
    assert (len(learned), len(held_out)) == (40, 10)
    assert sorted(torch.cat([learned, held_out]).tolist()) == list(range(50))
    assert set(torch.cat(data.epoch_order([3], 0, 4), dim=1)[0].tolist()) == set(learned.tolist())


def settled_model(graph, schema, *, strength=4.0):
    """Equations in which binary parents count for their children by hand: log-odds of +- strength, summed."""
    model = model_of(schema, equation_dim=2)
    with torch.no_grad():
        for parameter in model.equations.parameters():
            parameter.zero_()
        encoder, readout = model.equations.encoder, model.equations.readout
        encoder.inputs[:] = torch.tensor([1.0, -1.0])  # a value of 1 enters as (1, -1), a 0 as (0, 0)
        encoder.output.weight[:] = torch.eye(2)
        model.equations.output.copy_(torch.eye(2)[None])
        readout.hidden.weight[:] = torch.eye(2)
        readout.unit_weight[:, :, 0] = 2 * strength
        readout.unit_bias.fill_(-strength)
        model.edges.decided.copy_(torch.as_tensor(graph, dtype=torch.float32) * 0.75)
    return model


@pytest.fixture
def networks_judge(monkeypatch):
    """As where fits predict worse."""
    monkeypatch.setattr("visl.group_fits.counts", lambda schema: False)
    monkeypatch.setattr("visl.revision.MOST_PARENTS", -1)


@pytest.mark.usefixtures("networks_judge")
def test_edges_that_held_out_rows_need_stay_and_others_go():
    rng = np.random.default_rng(0)
    cause, noise = rng.random(400) < 0.5, rng.random(400) < 0.5
    effect = np.where(rng.random(400) < 0.02, ~cause, cause)
    values = np.stack([cause, effect, noise], 1).astype(float)
    graph = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], float)
    model = settled_model(graph, variable_wise(BINARY, BINARY, BINARY))
    with torch.no_grad():  # nothing else was found by gradients
        model.edges.existence.fill_(-20.0)
    data = TrainingData([Table.from_dense(values, np.ones(values.shape, bool))], held_out=0.5)
    revise(model, data, [7], Alone())
    p = model.edges.probabilities()[0]
    assert p[0, 1] > 0.99
    assert p[2, 1] < 0.01
    assert p.sum().item() == pytest.approx(p[0, 1].item() + p[2, 1].item(), abs=1e-6)


@pytest.mark.usefixtures("networks_judge")
def test_a_candidate_that_held_out_rows_need_joins():
    rng = np.random.default_rng(0)
    cause, other = rng.random((2, 400)) < 0.4
    either = cause | other  # as the equations have it: log-odds of -4, and 8 more for every parent
    effect = np.where(rng.random(400) < 0.02, ~either, either)
    values = np.stack([cause, effect, other], 1).astype(float)
    model = settled_model([[0, 1, 0], [0, 0, 0], [0, 0, 0]], variable_wise(BINARY, BINARY, BINARY))
    model.edges.decided[0, 2, 1] = 0.5  # a candidate
    data = TrainingData([Table.from_dense(values, np.ones(values.shape, bool))], held_out=0.5)
    revise(model, data, [7], Alone())
    p = model.edges.probabilities()[0]
    assert p[0, 1] > 0.99
    assert p[2, 1] > 0.99
    assert p[1, 2] < 0.01  # the reverse of what is certain


def test_edges_between_levels_of_wide_tables(monkeypatch):
    """They stay as settled unless they are clearly worth nothing, or their ends may be independent."""
    monkeypatch.setattr("visl.group_fits.MOST_WITH_LEVELS", 0)
    rng = np.random.default_rng(0)
    cause, noise = rng.random((2, 400)) < 0.5
    effect = cause ^ (rng.random(400) < 0.02)
    seldom = effect & (rng.random(400) < 0.06)  # worth .018 nats in some twelve rows: 3.4 standard errors
    values = np.stack([cause, effect, noise, seldom], 1).astype(float)
    graph = np.zeros((4, 4))
    graph[[0, 2, 3], 1] = 1
    model = settled_model(graph, variable_wise(*[BINARY] * 4))
    with torch.no_grad():
        model.edges.existence.copy_(torch.from_numpy(40 * graph - 20))
        model.edges.orientation.copy_(torch.from_numpy(40 * graph))
    revise(model, TrainingData([Table.from_dense(values, np.ones(values.shape, bool))], held_out=0.5), [7], Alone())
    p = model.edges.probabilities()[0]
    assert p[0, 1] > 0.99
    assert p[2, 1] < 0.01
    assert 0.8 < p[3, 1] < 0.97  # Phi((3.4 + 2) / 4) = .91


def revised_by_five_rows():
    """An edge that was found by gradients with 0.8, its reverse with 0.1; five rows see both ends."""
    values, observed = np.ones((60, 2)), np.ones((60, 2), bool)
    observed[5:, 0] = False
    model = settled_model([[0, 1], [0, 0]], variable_wise(BINARY, BINARY))
    with torch.no_grad():
        model.edges.existence.copy_(torch.logit(torch.tensor([[[0.5, 0.9], [0.9, 0.5]]])))
        model.edges.orientation[0, 0, 1] = np.log(8)
    revise(model, TrainingData([Table.from_dense(values, observed)], held_out=0.5), [0], Alone())
    return model


def test_what_too_few_rows_of_a_wide_table_judge_is_no_more_probable_than_what_is_worth_nothing(monkeypatch):
    monkeypatch.setattr("visl.group_fits.MOST_WITH_LEVELS", 0)
    assert pytest.approx(0.5 * (1 + math.erf(0.5 / math.sqrt(2))), abs=0.01) == WORTH_NOTHING
    model = revised_by_five_rows()
    found = torch.tensor([[0.0, 0.8], [0.1, 0.0]]) * WORTH_NOTHING / 0.9
    torch.testing.assert_close(model.edges.probabilities()[0], found)


def counted(values, observed=None, prior=None, seed=7):
    """Probabilities of edges between levels, by counting."""
    schema = variable_wise(*[(CATEGORICAL, 1 + int(column.max())) for column in values.T])
    model = build_model(schema, prior=prior, **EQUATIONS)
    observed = np.ones(values.shape, bool) if observed is None else observed
    revise(model, TrainingData([Table.from_dense(values, observed)], held_out=0.1), [seed], Alone())
    return model.edges.probabilities()[0].detach().double().numpy()


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


def test_a_required_edge_is_not_pruned():
    schema = variable_wise(BINARY, BINARY)
    prior = np.array([[0.0, 1.0], [0.05, 0.0]])
    model = build_model(schema, prior=prior, **EQUATIONS)
    train(model, random_table(schema, 60), seeds=[0])
    assert model.edges.probabilities()[0].tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.usefixtures("networks_judge")
def test_an_edge_that_too_few_rows_can_judge_keeps_its_place():
    model = revised_by_five_rows()
    torch.testing.assert_close(model.edges.probabilities()[0], torch.tensor([[0.0, 0.8], [0.1, 0.0]]))


# -- what is found


def bends(n_rows, rng, noise=0.1):
    """x -> y -> w, and z by itself."""
    x, z = rng.normal(size=(2, n_rows))
    y = np.sin(2 * x) + noise * rng.normal(size=n_rows)
    w = y**2 + noise * rng.normal(size=n_rows)
    return np.stack([x, y, w, z], 1)


@pytest.fixture(scope="module")
def found():
    values = bends(600, np.random.default_rng(1)) * [1, 100, 0.01, 5]
    return VISL(epochs=80, random_state=0).fit(values)


def test_bent_relations_show_their_direction(found):
    assert set(found.graph_.edges) == {(0, 1), (1, 2)}
    assert nx.is_directed_acyclic_graph(found.graph_)
    p = found.edge_probabilities_.to_numpy()
    assert p[0, 1] > 0.9
    assert p[1, 2] > 0.9
    assert (p + p.T <= 1 + 1e-6).all()


def test_history_counts_the_edges(found):
    assert {"edges", "nll", "acyclicity"} <= set(found.history_.columns)
    assert found.history_["stage"].tolist() == [1] * 27 + [2] * 53


def test_independent_columns_have_no_edges():
    values = np.random.default_rng(2).normal(size=(500, 6))
    assert VISL(epochs=40, random_state=0).fit(values).graph_.number_of_edges() == 0


def test_changed_config_is_refused_with_the_remedy():
    with pytest.raises(Exception, match="structure is 'causal': use one of 'auto', 'latent', 'equations'"):
        dataclasses.replace(model_of().config, structure="causal")
