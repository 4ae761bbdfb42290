import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from core_helpers import (
    build_members,
    build_model,
    cells_of,
    cells_of_members,
    dags,
    dense_cells,
    elbo_terms,
    generator,
    group_wise,
    loss_weights,
    random_observed,
    random_table,
    random_values,
    variable_wise,
)
from visl.batches import CellStore, TrainingData
from visl.errors import InputError
from visl.graph.acyclicity import dag_penalty
from visl.model import ElboTerms, GraphTerms, LossWeights, gaussian_kl
from visl.nets.layout import Cells
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, KINDS, ORDINAL
from visl.table import Table

MIXED = group_wise([CONTINUOUS, BINARY], [CATEGORICAL, ORDINAL], [CONTINUOUS])


def constant_model(schema, biases):
    """A model whose read-out is its biases, whatever it is shown."""
    model = build_model(schema).double()
    with torch.no_grad():
        model.readout.unit_weight.zero_()
        model.readout.unit_bias.copy_(torch.tensor(biases))
    return model


def test_gaussian_kl_by_hand():
    # .5 (1 + 4 - 1 - ln 4), and 0 for the prior itself.
    found = gaussian_kl(torch.tensor([1.0, 0.0]), torch.tensor([math.log(4), 0.0]))
    assert found.tolist() == pytest.approx([1.3068528, 0.0], rel=1e-6)


def test_gaussian_kl_equals_torch_distributions():
    mean, log_variance = torch.randn(2, 5, 3, 4, generator=generator(1), dtype=torch.float64)
    expected = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), Normal(0.0, 1.0))
    torch.testing.assert_close(gaussian_kl(mean, log_variance), expected)


def test_loss_by_hand():
    members = [[100.0, 7.0], [2000.0, 1000.0], [30.0, 0.0], [0.4, 2.0]]
    nll, kl_latent, kl_edges, acyclicity = map(torch.tensor, members)
    terms = ElboTerms(nll, kl_latent, GraphTerms(kl_edges, acyclicity), n_rows=10)
    weights = LossWeights(*map(torch.tensor, ([0.001, 0.01], [10.0, 3.0], [20.0, 5.0])))
    # 100 + .001 * 2000 + 10/40 (10 * 30 + 20 * .4), and 7 + .01 * 1000 + 10/40 (3 * 0 + 5 * 2)
    assert terms.loss(weights, n_rows_total=40).tolist() == pytest.approx([102 + 0.25 * 308, 17 + 0.25 * 10])


def test_nll_by_hand():
    biases = [0.1, math.log(3), 0.0, math.log(2), math.log(5), math.log(2)]
    model = constant_model(group_wise([CONTINUOUS, BINARY], [CATEGORICAL, ORDINAL]), biases)
    cells = dense_cells([[0.3, 1, 2, 1], [None, 0, None, 2], [None] * 4])
    terms = elbo_terms(model, cells, backward=True)
    # Gaussian .2 off at variance .02; odds 3 : 1; shares 1 : 2 : 5; thresholds -ln 2, ln 2 at u = ln 2: .2, .3, .5.
    gaussian = -0.5 * (0.04 / 0.02 + math.log(0.02) + math.log(2 * math.pi))
    expected = -(gaussian + math.log(0.75 * 5 / 8 * 0.3) + math.log(0.25 * 0.5))
    assert terms.nll.item() == pytest.approx(expected, rel=1e-6)
    assert terms.n_rows == 3


def test_hidden_cells_are_scored_too():
    model = constant_model(variable_wise(BINARY, BINARY), [math.log(3)])
    cells = dense_cells([[1, 1], [1, None]])
    for shown in (torch.ones(3), torch.tensor([1.0, 0.0, 0.0]), torch.zeros(3)):
        nll = elbo_terms(model, cells, shown).nll
        assert nll.item() == pytest.approx(-3 * math.log(0.75))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("filler", [np.nan, 7.0, -1e30])
def test_what_stands_in_the_gaps_does_not_matter(filler, backward):
    values = random_values(MIXED, 6)
    observed = random_observed(values.shape)
    model = build_model(MIXED)
    expected = elbo_terms(model, cells_of(Table.from_dense(values, observed)), seed=2, backward=backward)
    other = Table.from_dense(np.where(observed, values, filler), observed)
    terms = elbo_terms(model, cells_of(other), seed=2, backward=backward)
    assert terms.nll.isfinite()
    assert torch.equal(terms.nll, expected.nll)
    assert torch.equal(terms.kl_latent, expected.kl_latent)


def test_rows_without_observed_cells_add_exactly_nothing():
    model = build_model(MIXED)
    nothing = torch.zeros(0, dtype=torch.long)
    empty = elbo_terms(model, Cells(nothing, nothing, torch.zeros(0), 3))
    assert empty.nll.item() == 0.0
    noise = torch.randn(3, 4, generator=generator(3))
    table = random_table(MIXED, 4, rate=0.7)
    with_gaps = Table(np.insert(table.starts, 2, table.starts[2]), table.columns, table.values, table.n_columns)
    assert with_gaps.n_rows == 5
    uniform = torch.rand(1, 3, 3, generator=generator(4))
    found, expected = (
        elbo_terms(model, cells_of(t), noise=noise.expand(1, t.n_rows, 3, 4), uniform=uniform).nll
        for t in (with_gaps, table)
    )
    assert torch.equal(found, expected)


@settings(max_examples=25)
@given(dags(min_nodes=2, max_nodes=5), st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 100))
def test_a_reconstruction_depends_on_its_own_group_and_its_ancestors_only(edges, n_steps, grouped, keep_own, seed):
    M = len(edges)
    schema = group_wise(*[[CONTINUOUS, BINARY]] * M) if grouped else variable_wise(*[CONTINUOUS] * M)
    model = build_model(
        schema, seed=seed, prior=edges, latent_dim=12, message_steps=n_steps, epochs=1, keep_own=keep_own
    )
    graph = model.edges.soften(torch.rand(1, M, M, generator=generator(seed)))
    assert torch.equal(graph, torch.tensor(edges, dtype=torch.float32)[None])  # a prior of 0 and 1 is hard
    values, D = random_values(schema, 8, seed), len(schema.columns)
    asked = torch.arange(8).repeat_interleave(D), torch.arange(D).repeat(8)
    noise = torch.randn(1, 1, M, 12, generator=generator(seed + 1))
    group = torch.tensor(schema.group_of)[asked[1]]

    def reconstruct(values):
        cells = cells_of(Table.from_dense(values, np.ones(values.shape, bool)))
        units = torch.zeros(len(asked[0]))
        for output in model.draw(cells, asked, noise, graph):
            units[output.cells] = output.units[0, :, 0]
        return units

    within = np.eye(M, dtype=bool)
    for _ in range(n_steps):
        within = within | (within @ edges)
    before = reconstruct(values)
    for k in range(M):
        moved = values.copy()
        own = np.array(schema.group_of) == k
        moved[:, own] = 1 - moved[:, own]
        after = reconstruct(moved)
        for i in range(M):
            changed = not torch.equal(after[group == i], before[group == i])
            # The paper's node without parents receives nothing and forgets even its own value.
            assert changed == bool(within[k, i] and (keep_own or edges[:, i].any())), (k, i)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("acyclicity_on", ["probabilities", "sample"])
def test_half_batches_add_up_to_the_whole(backward, acyclicity_on):
    model = build_model(MIXED, acyclicity_on=acyclicity_on).double()
    table = random_table(MIXED, 7)
    noise = torch.randn(1, 7, 3, 4, generator=generator(5), dtype=torch.float64)
    uniform = torch.rand(1, 3, 3, generator=generator(7), dtype=torch.float64)  # one graph for all
    shown = (torch.rand(table.n_cells, generator=generator(6)) < 0.5).double()

    def loss_and_gradients(first, end):
        cells = cells_of(table, range(first, end), torch.float64)
        part = shown[table.starts[first] : table.starts[end]]
        terms = elbo_terms(model, cells, part, noise=noise[:, first:end], uniform=uniform, backward=backward)
        loss = terms.loss(loss_weights(model), n_rows_total=7)
        return loss, *torch.autograd.grad(loss.sum(), list(model.parameters()))

    whole = loss_and_gradients(0, 7)
    halves = zip(loss_and_gradients(0, 4), loss_and_gradients(4, 7), strict=True)
    for expected, (a, b) in zip(whole, halves, strict=True):
        assert expected.abs().sum() > 0
        torch.testing.assert_close(a + b, expected)


def test_graph_terms_by_hand():
    # Two open edges at .5 under a prior of .05; the penalty of a two-cycle of weights .5.
    model = build_model(variable_wise(CONTINUOUS, CONTINUOUS), initial_edge_probability=0.5)
    terms = elbo_terms(model, dense_cells([[0.1, 0.2]], torch.float32))
    assert terms.graph.kl_edges.item() == pytest.approx(1.6607312, rel=1e-6)
    assert terms.graph.acyclicity.item() == pytest.approx(2 * math.cosh(0.25) - 2, rel=1e-4)


def test_the_acyclicity_of_a_sample_is_that_of_the_graph_in_use(monkeypatch):
    model = build_model(variable_wise(CONTINUOUS, CONTINUOUS), acyclicity_on="sample")
    graph = torch.tensor([[[0.0, 0.9], [0.7, 0.0]]])
    monkeypatch.setattr(model.edges, "soften", lambda uniform: graph)
    terms = elbo_terms(model, dense_cells([[0.1, 0.2]], torch.float32))
    assert torch.equal(terms.graph.acyclicity, dag_penalty(graph))


def test_kl_latent_is_that_of_the_encoding():
    model, cells = build_model(MIXED), cells_of(random_table(MIXED, 5))
    shown = (torch.rand(len(cells.row), generator=generator(8)) < 0.5).float()
    terms = elbo_terms(model, cells, shown)
    torch.testing.assert_close(terms.kl_latent, gaussian_kl(*model.encoder(cells, shown)).sum()[None])


def test_draws_are_the_decoded_encodings():
    model, cells = build_model(MIXED, seed=1, latent_dim=16), cells_of(random_table(MIXED, 3))
    noise = torch.randn(2, 3, 3, 16, generator=generator(9))
    edges = torch.rand(2, 3, 3, generator=generator(10))
    asked = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 4, 0, 4])
    output, *others = model.draw(cells, asked, noise, edges)
    assert not any(len(other.cells) for other in others)
    assert (output.units[0] - output.units[1]).abs().min() > 1e-4  # the noise and the graph do reach the read-out
    mean, log_variance = model.encoder(cells)
    for s in range(2):
        z = mean + noise[s] * log_variance.exp().sqrt()
        expected, *_ = model.readout(model.messages(z[:, None], edges[None, s : s + 1], backward=True), *asked)
        torch.testing.assert_close(output.units[s], expected.units[0])


def test_the_likelihood_is_scored_at_a_draw_from_the_encoding(monkeypatch):
    model = build_model(variable_wise(CONTINUOUS, CONTINUOUS), latent_dim=16).double()
    cells, noise = dense_cells([[0.2, 0.9], [0.5, None]]), torch.randn(1, 2, 2, 16, generator=generator(12)).double()
    graph = torch.tensor([[[0.0, 0.9], [0.7, 0.0]]], dtype=torch.float64)
    monkeypatch.setattr(model.edges, "soften", lambda uniform: graph)
    shown = torch.tensor([1.0, 0.0, 1.0])
    found = elbo_terms(model, cells, shown, noise=noise).nll
    mean, log_variance = model.encoder(cells, shown)
    z = model.messages((mean + noise * log_variance.exp().sqrt())[:, None], graph[:, None], backward=False)
    (output,) = model.readout(z, cells.row, cells.column)
    expected = -Normal(output.units[0, :, 0], math.sqrt(0.02)).log_prob(cells.value).sum()
    torch.testing.assert_close(found, expected[None])


@pytest.mark.parametrize(("epochs", "uses"), [(1, False), (2, True)])
def test_backward_messages_are_used_only_if_stage_2_took_place(epochs, uses):
    model, cells = build_model(MIXED, epochs=epochs), cells_of(random_table(MIXED, 3))
    asked, edges = (torch.arange(3), torch.zeros(3, dtype=torch.long)), torch.rand(1, 3, 3, generator=generator(11))
    noise = torch.zeros(1, 1, 3, 4)
    before = [output.units for output in model.draw(cells, asked, noise, edges)]
    with torch.no_grad():
        model.messages.edge_messages.output_bias[:, 1] = 3.0  # of the way against the edges
    after = [output.units for output in model.draw(cells, asked, noise, edges)]
    assert model.uses_backward == uses
    assert torch.equal(before[0], after[0]) != uses


@pytest.mark.parametrize(("n_groups", "expected"), [(4, 0.5), (100, 0.3)])
def test_edges_start_where_the_number_of_groups_allows(n_groups, expected):
    probabilities = build_model(variable_wise(*[BINARY] * n_groups)).edges.probabilities()
    assert probabilities[0, 0, 1].item() == pytest.approx(expected)
    given_one = build_model(variable_wise(*[BINARY] * n_groups), initial_edge_probability=0.1)
    assert given_one.edges.probabilities()[0, 0, 1].item() == pytest.approx(0.1)


def test_weights_come_from_the_generator_alone():
    schema = group_wise(list(KINDS), [BINARY])
    state = torch.get_rng_state()
    a, b, c = (build_model(schema, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)
    torch.testing.assert_close(a["noise_variance"], torch.full((1, 5), 0.02))


# -- members

ALL_KINDS = {  # each with narrow and wide columns
    "groups": group_wise([CONTINUOUS, BINARY], [(CATEGORICAL, 4), CATEGORICAL], [ORDINAL, CONTINUOUS, (ORDINAL, 5)]),
    "variables": variable_wise(CONTINUOUS, (CATEGORICAL, 2), BINARY, ORDINAL, (CATEGORICAL, 4), BINARY, (ORDINAL, 4)),
    "one kind": group_wise([BINARY] * 3, [BINARY]),
    "a number last": group_wise([BINARY, CATEGORICAL], [ORDINAL, CONTINUOUS]),
}


@pytest.mark.parametrize("name", ALL_KINDS)
@pytest.mark.parametrize("form", [{}, {"keep_own": True, "group_embeddings": True, "absent_below": 0.3}])
def test_members_are_the_models_that_their_generators_give_alone(name, form):
    schema, rows = ALL_KINDS[name], torch.tensor([[4, 0, 6, 2], [1, 5, 3, 0]])
    together = build_members(schema, [3, 7], **form).double()
    table = random_table(schema, 7)
    cells = cells_of_members(schema, TrainingData([table]), rows, dtype=torch.float64)
    real = cells.padding.real
    hidden = torch.rand(len(real), generator=generator(1)) < 0.4
    M = len(schema.groups)
    noise = torch.randn(2, 4, M, 4, generator=generator(2), dtype=torch.float64)
    uniform = torch.rand(2, M, M, generator=generator(3), dtype=torch.float64)
    terms = elbo_terms(together, cells, (real & ~hidden).double(), noise=noise, uniform=uniform, backward=True)
    terms.loss(loss_weights(together), n_rows_total=7).sum().backward()
    for k, seed in enumerate((3, 7)):
        alone = build_model(schema, seed, **form).double()
        shown = (~hidden[real & (cells.row // 4 == k)]).double()
        own = cells_of(table, rows[k], torch.float64)
        expected = elbo_terms(alone, own, shown, noise=noise[[k]], uniform=uniform[[k]], backward=True)
        for found, right in ((terms, expected), (terms.graph, expected.graph)):
            for term in (field.name for field in dataclasses.fields(found) if field.name not in ("graph", "n_rows")):
                torch.testing.assert_close(getattr(found, term)[k], getattr(right, term)[0])
        expected.loss(loss_weights(alone), n_rows_total=7).sum().backward()
        for (parameter_name, a), b in zip(together.named_parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a.grad[k], b.grad[0], msg=parameter_name)


def test_every_tensor_of_the_state_has_the_members_first():
    model = build_members(ALL_KINDS["groups"], [0, 1, 2], group_embeddings=True)
    assert {tensor.shape[0] for tensor in model.state_dict().values()} == {3}
    members = model.members()
    assert len(members) == 3
    for k, member in enumerate(members):
        assert (member.n_members, member.config) == (1, model.configs[k])
        state = member.state_dict()
        for name, tensor in model.state_dict().items():
            assert torch.equal(state[name], tensor[k : k + 1]), name
            assert state[name].data_ptr() != tensor[k].data_ptr(), name
        assert torch.equal(member.edges.temperature, model.edges.temperature[k : k + 1])


def test_a_single_model_is_its_own_member():
    model = build_model(MIXED)
    assert model.members() == [model]


def test_members_have_priors_and_starts_of_their_own():
    priors = torch.stack([torch.full((3, 3), 0.05), torch.tensor([[0.0, 1.0, 0.2], [0.2, 0.0, 0.0], [0.0, 0.3, 0.0]])])
    changes = [{"initial_edge_probability": 0.1}, {"initial_edge_probability": 0.4, "edge_temperature": 2.0}]
    model = build_members(MIXED, [0, 1], prior=priors, changes=changes)
    found = model.edges.probabilities()
    torch.testing.assert_close(found[0], torch.full((3, 3), 0.1).fill_diagonal_(0.0))
    torch.testing.assert_close(found[1], torch.tensor([[0.0, 1.0, 0.4], [0.4, 0.0, 0.0], [0.0, 0.4, 0.0]]))
    for k, member in enumerate(model.members()):
        torch.testing.assert_close(member.edges.probabilities()[0], found[k])
        assert member.edges.temperature.item() == changes[k].get("edge_temperature", 0.5)


@pytest.mark.parametrize(
    ("setting", "a", "b"),
    [("latent_dim", 4, 5), ("epochs", 2, 3), ("message_steps", 1, 2), ("batch_size", 4, 7), ("keep_own", False, True)],
)
def test_members_of_different_sizes_are_refused(setting, a, b):
    with pytest.raises(InputError, match=f"^models with {setting} of {a} and {b} .*differ only in .*learning_rate"):
        build_members(MIXED, [0, 1, 2], changes=[{setting: b}, {setting: a}, {setting: b}])


# -- padding


@pytest.mark.parametrize("name", ALL_KINDS)
@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("backward", [False, True])
def test_padding_counts_for_nothing(name, n_members, backward):
    schema = ALL_KINDS[name]
    model = build_members(schema, range(n_members), acyclicity_on="sample").double()
    data = TrainingData([random_table(schema, 9)])
    rows = torch.tensor([[4, 0, 6, 2], [1, 5, 3, 8]])[:n_members]
    store = CellStore(data, schema, n_members, torch.device("cpu"))
    exact, common = store.exact_shape(rows), store.common_shape([rows])
    results = []
    for shape in (exact, common, common.enlarged(1.7)):
        cells = cells_of_members(schema, data, rows, shape, torch.float64)
        # Hidden are the cells of some columns, wherever the padding puts them.
        shown = (cells.column % len(schema.columns) % 3 != 1).double()
        if cells.padding is not None:
            shown = shown * cells.padding.real
        terms = elbo_terms(model, cells, shown, backward=backward)
        loss = terms.loss(loss_weights(model), n_rows_total=9)
        results.append([loss, terms.nll, *torch.autograd.grad(loss.sum(), list(model.parameters()))])
    assert common.enlarged(1.7).n_cells > common.n_cells + 3
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            assert found.isfinite().all()
            torch.testing.assert_close(found, expected)


def test_columns_share_networks_or_have_their_own():
    schema = variable_wise(CONTINUOUS, CONTINUOUS, CONTINUOUS)
    same = np.full((1, 3), 0.7)
    shared, own = (build_model(schema, shared_networks=share).double() for share in (True, False))
    of_shared, of_own = (model.encoder(dense_cells(same))[0][0, 0] for model in (shared, own))
    torch.testing.assert_close(of_shared[0], of_shared[2])  # the same value in the same network
    assert not torch.allclose(of_own[0], of_own[2])
    assert own.schema == schema  # the table itself is as before
    with torch.no_grad():
        own.encoder.inputs[0, 0] += 1.0
        own.readout.unit_bias[0, 0] += 1.0
    changed = own.encoder(dense_cells(same))[0][0, 0]
    assert not torch.allclose(changed[0], of_own[0])
    torch.testing.assert_close(changed[1:], of_own[1:])


def test_unjoined_pairs_have_weak_messages_in_stage_2_alone():
    model = build_model(variable_wise(BINARY, BINARY, BINARY), unjoined_weight=0.3)
    edges = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 0, 0]]])
    # 1 -> 0 as it is; 0, 2 and 1, 2 are not joined, and their messages run both ways anyway.
    expected = torch.tensor([[[0.0, 0, 0.3], [1, 0, 0.3], [0, 0, 0]]])
    torch.testing.assert_close(model._message_weights(edges), expected)
    half = torch.tensor([[[0.0, 0.5], [0.5, 0.0]]])
    torch.testing.assert_close(model._message_weights(half), half + torch.tensor([[0.0, 0.3 * 0.25], [0.0, 0.0]]))
    assert model.config.unjoined_weight > 0
    paper = build_model(variable_wise(BINARY, BINARY), unjoined_weight=0.0)
    assert paper._message_weights(half) is half
