import dataclasses
import io
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from core_helpers import all_parameters, build_model, generators, group_wise, random_table, variable_wise
from visl.batches import CellStore
from visl.errors import InputError
from visl.model import VislModel
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.table import Table
from visl.training import TERMS, Interrupted, TrainingState, train

SCHEMA = group_wise([CONTINUOUS, BINARY], [CATEGORICAL], [ORDINAL, CONTINUOUS])
TABLE = random_table(SCHEMA, 10, rate=0.7)
SETTINGS = {"epochs": 4, "batch_size": 4, "min_batches": 1, "learning_rate": 0.01, "acyclicity_start_epoch": 0}
STEPS = 4 * 3  # of a whole run: 10 rows in batches of at most 4, as even as can be: 3, 3, 4


def trained(seed=0, table=TABLE, schema=SCHEMA, on_epoch=lambda record: None, **settings):
    model = build_model(schema, **(SETTINGS | settings))
    return model, train(model, table, seeds=[seed], on_epoch=on_epoch)


@pytest.fixture(scope="module")
def uninterrupted():
    return trained()


def assert_same_tensors(a, b):
    a, b = a.state_dict(), b.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


class StopAfter:
    def __init__(self, *steps):
        self.steps, self.done = steps, 0

    def __call__(self, state):
        self.done += 1
        return self.done in self.steps


def test_history_has_both_stages_and_every_term():
    seen = []
    _, history = trained(on_epoch=seen.append)
    assert history == seen
    assert [record["stage"] for record in history] == [1, 1, 2, 2]
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    for record in history:
        assert all(math.isfinite(record[term]) for term in TERMS)
    # 10 % of 4 epochs is less than one: the full weight at once.
    assert [record["acyclicity_weight"] for record in history] == [5.0] * 4


def test_the_loss_in_the_history_is_made_of_its_terms():
    model, history = trained()
    for record in history:
        graph = record["kl_edges"] + record["acyclicity_weight"] * record["acyclicity"]
        expected = record["nll"] + 0.001 * record["kl_latent"] + graph / 10
        assert record["loss"] == pytest.approx(expected, rel=1e-5)
    # The graph is frozen in stage 2, so its terms are those of the final graph.
    assert history[-1]["kl_edges"] == pytest.approx(model.edges.kl().item(), rel=1e-6)
    assert history[-1]["kl_edges"] == pytest.approx(history[-2]["kl_edges"], rel=1e-6)
    assert history[1]["kl_edges"] != pytest.approx(history[0]["kl_edges"], rel=1e-4)


def test_every_row_is_seen_once_an_epoch():
    # A model that cannot move and reads out odds of 3 to 1: the mean over rows counts their cells.
    schema = variable_wise(BINARY, BINARY)
    values = np.array([[1, 1], [1, 0], [0, 0], [1, np.nan], [np.nan, np.nan]])
    table = Table.from_dense(values, ~np.isnan(values))
    model = build_model(schema, epochs=3, batch_size=2, learning_rate=1e-30)
    with torch.no_grad():
        model.readout.unit_weight.zero_()
        model.readout.unit_bias.fill_(math.log(3))
    history = train(model, table, seeds=[3])
    expected = -(4 * math.log(0.75) + 3 * math.log(0.25)) / 5
    assert [record["nll"] for record in history] == pytest.approx([expected] * 3, rel=1e-6)


@pytest.mark.parametrize(("kl_edges_over_groups", "weight"), [(False, 50.0), (True, 50.0 / 3)])
def test_the_weight_of_the_edges_may_be_shared_by_the_groups(kl_edges_over_groups, weight):
    _, history = trained(kl_edges_weight=50.0, kl_edges_over_groups=kl_edges_over_groups, kl_latent_weight=0.1)
    for record in history:
        graph = weight * record["kl_edges"] + record["acyclicity_weight"] * record["acyclicity"]
        assert record["loss"] == pytest.approx(record["nll"] + 0.1 * record["kl_latent"] + graph / 10, rel=1e-5)


def test_batches_are_drawn_in_a_new_order_each_epoch():
    orders = []
    model = build_model(SCHEMA, **SETTINGS)
    data_batch = CellStore.batch

    def recorded(self, rows, shape):
        orders.append(rows[0].tolist())
        return data_batch(self, rows, shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CellStore, "batch", recorded)
        train(model, TABLE, seeds=[0])
    assert [len(batch) for batch in orders] == [3, 3, 4] * 4
    epochs = [sum(orders[3 * e : 3 * e + 3], []) for e in range(4)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def ways(parameters):
    """The weights of the messages along the edges, and those against them."""
    names = ("node", "hidden_bias", "output", "output_bias")
    tensors = {name: parameters[f"messages.edge_messages.{name}"] for name in names}
    both = [tensor.unbind(2 if name == "node" else 1) for name, tensor in tensors.items()]
    return tuple(zip(*both, strict=True))


def test_stage_1_leaves_the_backward_messages_and_stage_2_the_graph_as_they_are():
    snapshots = []
    model = build_model(SCHEMA, **SETTINGS)
    start = all_parameters(model)
    train(model, TABLE, seeds=[0], on_epoch=lambda record: snapshots.append(all_parameters(model)))
    after_1, after_2 = snapshots[1], snapshots[3]
    for name in start:
        assert not torch.equal(after_1[name], start[name]), name  # of the messages one way moves
        assert torch.equal(after_2[name], after_1[name]) == (name == "edges.logits"), name
    for before, after, moves in ((start, after_1, (True, False)), (after_1, after_2, (True, True))):
        for way, moved in enumerate(moves):
            for a, b in zip(ways(before)[way], ways(after)[way], strict=True):
                assert torch.equal(a, b) != moved


def test_a_single_epoch_is_stage_1():
    model, history = trained(epochs=1)
    assert [record["stage"] for record in history] == [1]
    (_, untouched), (_, against) = (ways(all_parameters(m)) for m in (build_model(SCHEMA, **SETTINGS), model))
    assert all(torch.equal(a, b) for a, b in zip(untouched, against, strict=True))


def test_hard_edges_stay_through_training():
    prior = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.05], [0.05, 0.05, 0.0]])
    model = build_model(SCHEMA, prior=prior, **SETTINGS)
    train(model, TABLE, seeds=[0])
    found = model.edges.probabilities()[0]
    hard = (prior == 0) | (prior == 1)
    assert torch.equal(found[hard], prior[hard])
    assert (found[~hard] != 0.5).all()


def test_a_seed_gives_the_same_model_bit_by_bit():
    (a, history_a), (b, history_b), (c, _) = trained(seed=1), trained(seed=1), trained(seed=2)
    assert_same_tensors(a, b)
    assert history_a == history_b
    for name, parameter in a.named_parameters():
        assert not torch.equal(parameter, dict(c.named_parameters())[name]), name


def test_the_global_generator_plays_no_part():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    a, _ = trained()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert_same_tensors(a, trained()[0])


def round_trip(state, model):
    """As through a file: new tensors, a new model, nothing shared."""
    file = io.BytesIO()
    torch.save({"state": dataclasses.asdict(state), "model": model.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    M = model.n_groups
    fresh = VislModel(model.schema, model.configs, torch.zeros(M, M), generators(*[99] * model.n_members))
    fresh.load_state_dict(loaded["model"])
    return TrainingState(**loaded["state"]), fresh


@pytest.mark.parametrize(
    ("steps", "through_file"),
    [*(((n,), n % 2 == 0) for n in range(1, STEPS + 1)), ((2, 5), False), ((1, 2, 7, 12), True)],
)
def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(uninterrupted, steps, through_file):
    expected, history = uninterrupted
    model, state, stop = build_model(SCHEMA, **SETTINGS), None, StopAfter(*steps)
    for n, step in enumerate(steps):
        with pytest.raises(Interrupted) as stopped:
            train(model, TABLE, seeds=[0], state=state, should_stop=stop)
        state = stopped.value.state
        assert 3 * state.epoch + state.step == step, n
        assert len(state.history) == state.epoch
        assert not state.at_start
        if through_file:
            state, model = round_trip(state, model)
    found = train(model, TABLE, seeds=[0], state=state, should_stop=stop)
    assert stop.done == STEPS
    assert found == history
    assert_same_tensors(model, expected)


def test_stage_2_starts_with_a_fresh_optimiser():
    # After its first step Adam has moved each weight by the learning rate, whatever the gradient's size.
    steps = []
    model = build_model(SCHEMA, **SETTINGS)
    snapshots = {}

    def watch(state):
        steps.append((state.epoch, state.step))
        snapshots[steps[-1]] = all_parameters(model)
        return False

    train(model, TABLE, seeds=[0], should_stop=watch)
    name = "messages.update.second.bias"
    moved = (snapshots[2, 1][name] - snapshots[1, 3][name]).abs()
    torch.testing.assert_close(moved, torch.full_like(moved, 0.01), rtol=1e-3, atol=1e-6)
    later = (snapshots[2, 2][name] - snapshots[2, 1][name]).abs()
    assert not torch.allclose(later, torch.full_like(later, 0.01), rtol=1e-3)


def test_divergence_is_an_error_that_names_the_remedy():
    with pytest.raises(InputError, match="diverged in epoch [12].*learning_rate .now 1e.30"):
        trained(learning_rate=1e30)


def test_loss_goes_down_on_an_easy_problem():
    rng = np.random.default_rng(0)
    answers = np.repeat(rng.integers(0, 2, (100, 1)), 4, axis=1).astype(float)  # four copies of one column
    table = Table.from_dense(answers, np.ones(answers.shape, bool))
    settings = {"latent_dim": 16, "epochs": 30, "batch_size": 20, "learning_rate": 0.01, "message_steps": 1}
    _, history = trained(table=table, schema=variable_wise(*[BINARY] * 4), **settings)
    assert history[0]["nll"] > 2.5  # about 4 ln 2 = 2.77 at the start
    assert history[-1]["nll"] < 1.0


def test_a_table_with_empty_rows_and_columns_trains():
    values = np.full((6, 5), np.nan)
    values[1:4, 0] = 0.5
    values[1:4, 2] = 2
    _, history = trained(table=Table.from_dense(values, ~np.isnan(values)), batch_size=1)
    assert all(math.isfinite(record[term]) for record in history for term in TERMS)


WITHOUT_THE_REST = """
import sys

BLOCKED = {blocked!r}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]

import numpy as np, torch
import visl.config, visl.schema, visl.table, visl.graph.posterior, visl.graph.acyclicity, visl.model, visl.training
from visl.nets import encoder, kernels, layers, layout, likelihoods, messages, readout

columns = tuple(visl.schema.Column(name, "binary", name, levels=(0, 1)) for name in "ab")
schema = visl.schema.Schema(columns, ("a", "b"), grouped=False)
config = visl.config.Config(latent_dim=2, epochs=6, batch_size=2)  # a third, where the graph is counted
model = visl.model.VislModel(schema, config, torch.full((2, 2), 0.05), torch.Generator().manual_seed(0))
table = visl.table.Table.from_dense(np.eye(2), np.ones((2, 2), bool))
assert len(visl.training.train(model, table, seeds=[0])) == 2
print(*sorted(BLOCKED & {{name.partition(".")[0] for name in sys.modules}}))
"""
BLOCKED = {
    *("pandas", "sklearn", "narwhals", "networkx", "scipy", "numba", "safetensors"),
    *("typer", "rich", "matplotlib", "pyarrow"),
}


def test_the_core_trains_on_torch_and_numpy_alone():
    code = WITHOUT_THE_REST.format(blocked=BLOCKED)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == []


def test_small_fits_do_not_depend_on_the_number_of_threads_and_leave_it_alone():
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(trained()[0])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert_same_tensors(*results)
