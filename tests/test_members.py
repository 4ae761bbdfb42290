"""Models trained side by side are the models that each would be alone."""

import numpy as np
import pytest
import torch

from core_helpers import build_members, build_model, group_wise, random_table, variable_wise
from test_training import StopAfter, assert_same_tensors, round_trip
from visl.batches import TrainingData
from visl.config import IMPUTE, LATENT, Phase
from visl.inference import AskedCells, Imputer
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.steps import decay_rates, phase_optimizer
from visl.training import TERMS, Interrupted, train

SCHEMAS = {
    "groups": group_wise([CONTINUOUS, BINARY], [(CATEGORICAL, 4), CATEGORICAL], [CONTINUOUS, ORDINAL]),
    "variables": variable_wise(CONTINUOUS, (CATEGORICAL, 2), BINARY, (CATEGORICAL, 4), CONTINUOUS, ORDINAL),
}
SEEDS = [4, 9, 2]
SETTINGS = {"epochs": 4, "batch_size": 4, "min_batches": 1, "learning_rate": 0.01, "acyclicity_start_epoch": 0}
DEFAULT_FORM = {"keep_own": True, "group_embeddings": True, "absent_below": 1e-3}
PHASES = {1: Phase(LATENT, 0, 1), 2: Phase(IMPUTE, 1, 2)}


def trained(schema, seeds, data, *, double=True, **settings):
    """In float64, where members differ from models alone by rounding of no consequence."""
    model = build_members(schema, seeds, **(SETTINGS | settings))
    model = model.double() if double else model
    return model, train(model, data, seeds=seeds)


def assert_same_models(together, alone):
    """Member by member, weight by weight."""
    for k, model in enumerate(alone):
        for (name, a), b in zip(together.named_parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(
                a[k], b[0], rtol=1e-6, atol=1e-8, msg=lambda m, name=name, k=k: f"{k} {name} {m}"
            )


def assert_history_is_the_mean(together, alone, rtol):
    for records in zip(together, *alone, strict=True):
        record, *of_members = records
        for term in TERMS:
            assert record[term] == pytest.approx(np.mean([one[term] for one in of_members]), rel=rtol), term
        assert record["loss_spread"] == pytest.approx(np.std([one["loss"] for one in of_members]), rel=rtol)
        assert "loss_spread" not in of_members[0]


@pytest.mark.parametrize("form", [{}, DEFAULT_FORM])
@pytest.mark.parametrize("name", SCHEMAS)
def test_members_are_the_models_that_each_would_be_alone(name, form):
    schema = SCHEMAS[name]
    table = random_table(schema, 10, rate=0.7)
    together, history = trained(schema, SEEDS, table, **form)
    alone, histories = zip(*(trained(schema, [seed], table, **form) for seed in SEEDS), strict=True)
    assert_same_models(together, alone)
    assert_history_is_the_mean(history, histories, rtol=1e-9)


def test_members_in_single_precision_predict_what_each_would_alone():
    """A weight whose gradient is next to nothing may take another way through Adam; what it matters for does not."""
    schema = SCHEMAS["groups"]
    table = random_table(schema, 12, rate=0.7)
    together, history = trained(schema, SEEDS, table, double=False)
    alone, histories = zip(*(trained(schema, [seed], table, double=False) for seed in SEEDS), strict=True)
    assert_history_is_the_mean(history, histories, rtol=1e-4)
    asked = AskedCells(*table.gaps())
    for member, model in zip(together.members(), alone, strict=True):
        torch.testing.assert_close(member.edges.probabilities(), model.edges.probabilities(), rtol=1e-3, atol=1e-4)
        found, expected = (Imputer(m, n_draws=5, seed=0) for m in (member, model))
        np.testing.assert_allclose(found.point(table, asked), expected.point(table, asked), atol=1e-3)
        shares = [imputer.probabilities(table, asked) for imputer in (found, expected)]
        np.testing.assert_allclose(*shares, atol=1e-3)


CHANGES = [
    {"learning_rate": 0.03, "kl_latent_weight": 0.1},
    {"edge_learning_rate": None, "kl_edges_weight": 20.0, "acyclicity_weight": 50.0, "edge_temperature": 2.0},
    {"max_drop_rate": 0.3, "initial_edge_probability": 0.2, "edge_learning_rate": 0.2},
]


@pytest.mark.parametrize("name", SCHEMAS)
def test_members_with_different_settings_are_the_models_that_each_would_be_alone(name):
    schema = SCHEMAS[name]
    table = random_table(schema, 10, rate=0.7)
    together, history = trained(schema, SEEDS, table, changes=CHANGES)
    alone, histories = zip(
        *(trained(schema, [seed], table, **own) for seed, own in zip(SEEDS, CHANGES, strict=True)), strict=True
    )
    assert_same_models(together, alone)
    assert_history_is_the_mean(history, histories, rtol=1e-9)


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("learning_rate", (0.01, 0.02)),
        ("edge_learning_rate", (0.1, 0.2)),
        ("kl_latent_weight", (0.001, 0.5)),
        ("kl_imputing_weight", (None, 0.5)),
        ("kl_edges_weight", (1.0, 30.0)),
        ("acyclicity_weight", (5.0, 500.0)),
        ("edge_temperature", (0.5, 1.5)),
        ("max_drop_rate", (0.99, 0.2)),
        ("initial_edge_probability", (0.5, 0.1)),
    ],
)
def test_a_setting_of_a_member_is_its_own(setting, values):
    """Two members of one seed are the same model but for the setting; the first is as if both had its value."""
    schema = group_wise([BINARY, BINARY], [CATEGORICAL]) if setting == "kl_imputing_weight" else SCHEMAS["groups"]
    table = random_table(schema, 10, rate=0.7)
    changes = [{setting: value} for value in values]
    different, _ = trained(schema, [4, 4], table, epochs=2, changes=changes)
    same, _ = trained(schema, [4, 4], table, epochs=2, changes=changes[:1] * 2)
    for (name, a), b in zip(different.named_parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(a[0], b[0], rtol=1e-6, atol=1e-8, msg=name)
        torch.testing.assert_close(b[0], b[1], rtol=1e-6, atol=1e-8, msg=name)
    first, second = (torch.cat([p[k].flatten() for p in different.parameters()]) for k in range(2))
    assert (first - second).abs().max() > 1e-4


def test_members_with_data_of_their_own_are_the_models_that_each_would_be_alone():
    schema = SCHEMAS["groups"]
    tables = [random_table(schema, 10, rate=rate, seed=seed) for seed, rate in ((1, 0.3), (2, 0.9), (3, 0.6))]
    together, history = trained(schema, SEEDS, TrainingData(tables, of_members=True))
    alone, histories = zip(
        *(trained(schema, [seed], table) for seed, table in zip(SEEDS, tables, strict=True)), strict=True
    )
    assert_same_models(together, alone)
    assert_history_is_the_mean(history, histories, rtol=1e-9)


def test_a_fit_of_parts_is_the_same_for_members_and_alone():
    schema = SCHEMAS["variables"]
    data = TrainingData([random_table(schema, size, seed=size) for size in (8, 1, 4)], parts=[0, 1, 2])
    together, history = trained(schema, SEEDS, data)
    alone, histories = zip(*(trained(schema, [seed], data) for seed in SEEDS), strict=True)
    assert_same_models(together, alone)
    assert_history_is_the_mean(history, histories, rtol=1e-9)


def test_steps_without_a_row_of_the_part_that_is_here_are_taken():
    schema = SCHEMAS["groups"]
    data = TrainingData([random_table(schema, 2, rate=0.9)], parts=[1], part_sizes=[9, 2])
    assert 0 in [data.rows_of_step(step, 3)[1] for step in range(3)]
    _, history = trained(schema, [1], data)
    assert all(np.isfinite(record[term]) for record in history for term in TERMS)


@pytest.mark.parametrize("rates", [(0.01, 0.01), (0.01, 0.03)])
def test_interrupted_members_end_where_uninterrupted_ones_do(rates):
    schema, seeds = SCHEMAS["groups"], [4, 9]
    table = random_table(schema, 10, rate=0.7)
    changes = [{"learning_rate": rate} for rate in rates]

    def fresh():
        return build_members(schema, seeds, changes=changes, **SETTINGS)

    expected = fresh()
    history = train(expected, table, seeds=seeds)
    model, state, stops = fresh(), None, (2, 3, 7, 11)  # the second ends an epoch, the last two are of stage 2
    stop = StopAfter(*stops)
    for n, _ in enumerate(stops):
        with pytest.raises(Interrupted) as stopped:
            train(model, table, seeds=seeds, state=state, should_stop=stop)
        state = stopped.value.state
        assert np.shape(state.sums) == (len(TERMS), 2)
        if n % 2:
            state, model = round_trip(state, model)
    assert train(model, table, seeds=seeds, state=state, should_stop=stop) == history
    assert_same_tensors(model, expected)


def test_every_member_needs_a_seed():
    schema = SCHEMAS["groups"]
    with pytest.raises(AssertionError, match="1 seeds for 2 members"):
        train(build_members(schema, [0, 1], **SETTINGS), random_table(schema, 4), seeds=[0])


# -- the optimiser


def sizes_by_rate(optimizer):
    sizes = {}
    for group in optimizer.param_groups:
        sizes[group["lr"]] = sizes.get(group["lr"], 0) + sum(p.numel() for p in group["params"])
    return sizes


def numbers(model):
    """Of the edges, and of all else."""
    edges = model.edges.logits.numel()
    return edges, sum(p.numel() for p in model.parameters()) - edges


def test_parameters_are_grouped_by_learning_rate():
    model = build_model(SCHEMAS["groups"], learning_rate=0.01, edge_learning_rate=0.5)
    edges, others = numbers(model)
    assert sizes_by_rate(phase_optimizer(model, PHASES[1])) == {0.01: others, 0.5: edges}
    assert sizes_by_rate(phase_optimizer(model, PHASES[2])) == {0.01: others}
    one_rate = build_model(SCHEMAS["groups"], learning_rate=0.01, edge_learning_rate=None)
    assert sizes_by_rate(phase_optimizer(one_rate, PHASES[1])) == {0.01: others + edges}


def test_rates_of_networks_decay_and_those_of_edges_do_not():
    optimizer = phase_optimizer(build_model(SCHEMAS["groups"], learning_rate=0.01, edge_learning_rate=0.5), PHASES[1])
    decay_rates(optimizer, 0.25)
    assert set(sizes_by_rate(optimizer)) == {0.0025, 0.5}


def test_members_with_rates_of_their_own_are_in_groups_of_their_own():
    changes = [
        {"learning_rate": 0.01, "edge_learning_rate": 0.5},
        {"learning_rate": 0.02, "edge_learning_rate": None},
        {"learning_rate": 0.01, "edge_learning_rate": 0.02},
    ]
    model = build_members(SCHEMAS["groups"], SEEDS, changes=changes)
    edges, others = (n // 3 for n in numbers(model))
    assert sizes_by_rate(phase_optimizer(model, PHASES[1])) == {0.01: 2 * others, 0.5: edges, 0.02: others + 2 * edges}
    assert sizes_by_rate(phase_optimizer(model, PHASES[2])) == {0.01: 2 * others, 0.02: others}


@pytest.mark.parametrize("stage", [1, 2])
def test_the_first_step_moves_each_member_by_its_own_rate(stage):
    # After its first step Adam has moved each weight by the learning rate, whatever the gradient's size.
    rates, edge_rates = (0.01, 0.04, 0.002), (0.5, 0.07, 0.3)
    changes = [{"learning_rate": a, "edge_learning_rate": b} for a, b in zip(rates, edge_rates, strict=True)]
    model = build_members(SCHEMAS["groups"], SEEDS, changes=changes)
    optimizer = phase_optimizer(model, PHASES[stage])
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    weights = torch.tensor([1.0, -3.0, 0.5])
    learned = [p for p in model.parameters() if p.requires_grad]
    sum((p * weights.view(3, *[1] * (p.dim() - 1))).sum() for p in learned).backward()
    optimizer.step()
    for name, parameter in model.named_parameters():
        if stage == 2 and name == "edges.logits":
            assert torch.equal(parameter, before[name])
            continue
        expected = -weights.sign() * torch.tensor(edge_rates if name == "edges.logits" else rates)
        moved = parameter.detach() - before[name]
        of_member = expected.view(3, *[1] * (moved.dim() - 1)).expand(moved.shape)
        torch.testing.assert_close(moved, of_member, rtol=1e-3, atol=1e-6, msg=name)


@pytest.mark.parametrize("seeds", [[1], [1, 2]])
def test_parts_of_fewer_rows_than_steps_leave_no_step_without_a_row(seeds):
    schema = SCHEMAS["groups"]
    data = TrainingData([random_table(schema, 5, seed=i) for i in range(2)], parts=[0, 1])
    n_steps = data.n_steps(1)
    assert min(sum(data.rows_of_step(step, n_steps)) for step in range(n_steps)) > 0
    _, history = trained(schema, seeds, data, batch_size=1)
    assert all(np.isfinite(record[term]) for record in history for term in TERMS)


def test_steps_without_a_row_of_the_part_that_is_here_are_taken_by_members():
    schema = SCHEMAS["groups"]
    data = TrainingData([random_table(schema, 2, rate=0.9)], parts=[1], part_sizes=[9, 2])
    _, history = trained(schema, [1, 2], data)
    assert all(np.isfinite(record[term]) for record in history for term in TERMS)
