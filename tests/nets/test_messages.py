import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_helpers import dags, generator
from visl.nets.messages import EdgeMessages, MessagePassing

SHAPES = [(1, 1, 1), (2, 2, 3), (3, 5, 4), (2, 3, 4, 5)]  # (..., B, M, d)


def pair_mlp(messages, first, pair):
    return torch.relu(pair @ first + messages.hidden_bias) @ messages.output + messages.output_bias


def naive_forward(messages, z, edges):
    """sum_k G[k, i] MLP([z_k, z_i]), one pair after the other."""
    first = torch.cat([messages.from_sender, messages.from_receiver])  # (2 d, d)
    received = []
    for i in range(z.shape[-2]):
        total = torch.zeros_like(z[..., i, :])
        for k in range(z.shape[-2]):
            pair = torch.cat([z[..., k, :], z[..., i, :]], dim=-1)
            total = total + edges[..., k, i, None, None] * pair_mlp(messages, first, pair)
        received.append(total)
    return torch.stack(received, dim=-2)


def naive_backward(messages, z, edges):
    """sum_k G[i, k] MLP_b([z_i, z_k]); the weights of the sender belong to z_k, from which the message comes."""
    first = torch.cat([messages.from_receiver, messages.from_sender])
    received = []
    for i in range(z.shape[-2]):
        total = torch.zeros_like(z[..., i, :])
        for k in range(z.shape[-2]):
            pair = torch.cat([z[..., i, :], z[..., k, :]], dim=-1)
            total = total + edges[..., i, k, None, None] * pair_mlp(messages, first, pair)
        received.append(total)
    return torch.stack(received, dim=-2)


def nodes_and_edges(shape, seed=0):
    rng, (*lead, _, M, _) = generator(seed), shape
    z = torch.randn(shape, generator=rng, dtype=torch.float64)
    edges = torch.rand(*lead, M, M, generator=rng, dtype=torch.float64)
    return z.requires_grad_(), edges.requires_grad_()


def assert_same_with_gradients(found, expected, inputs):
    torch.testing.assert_close(found, expected)
    weight = torch.randn(found.shape, generator=generator(8), dtype=found.dtype)
    pairs = zip(*(torch.autograd.grad((x * weight).sum(), inputs) for x in (found, expected)), strict=True)
    for gradient, right in pairs:
        assert gradient.abs().sum() > 0  # the seeds leave no layer dead
        torch.testing.assert_close(gradient, right)


@pytest.mark.parametrize("shape", SHAPES)
def test_factored_equals_an_mlp_on_every_pair(shape):
    messages = EdgeMessages(shape[-1], generator(2)).double()
    z, edges = nodes_and_edges(shape, seed=3)
    inputs = [z, edges, *messages.parameters()]
    assert_same_with_gradients(messages(z, edges), naive_forward(messages, z, edges), inputs)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_backward_messages_equal_an_mlp_on_every_pair(shape):
    messages = EdgeMessages(shape[-1], generator(2)).double()
    z, edges = nodes_and_edges(shape, seed=1)
    inputs = [z, edges, *messages.parameters()]
    assert_same_with_gradients(messages(z, edges.mT), naive_backward(messages, z, edges), inputs)


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("backward", [False, True])
def test_all_rounds_equal_the_naive_ones(shape, backward):
    passing = MessagePassing(shape[-1], 3, generator(2)).double()
    start, edges = nodes_and_edges(shape, seed=2)
    z = start
    for _ in range(3):
        received = naive_forward(passing.forward_messages, z, edges)
        if backward:
            received = received + naive_backward(passing.backward_messages, z, edges)
        hidden = torch.relu(received @ passing.update.first.weight[0] + passing.update.first.bias[0])
        z = hidden @ passing.update.second.weight[0] + passing.update.second.bias[0]
    used = [p for name, p in passing.named_parameters() if backward or not name.startswith("backward")]
    assert_same_with_gradients(passing(start, edges, backward=backward), z, [start, edges, *used])


def by_hand():
    """Two nodes, one dimension: MLP([z_k, z_i]) = 2 relu(z_k + 10 z_i) + 100, and an update that changes nothing."""
    passing = MessagePassing(1, 1, generator())
    with torch.no_grad():
        for parameter in passing.parameters():
            parameter.zero_()
        for messages in (passing.forward_messages, passing.backward_messages):
            messages.from_sender.fill_(1.0)
            messages.from_receiver.fill_(10.0)
            messages.output.fill_(2.0)
            messages.output_bias.fill_(100.0)
        passing.update.first.weight.fill_(1.0)
        passing.update.second.weight.fill_(1.0)
    return passing, torch.tensor([[[3.0], [5.0]]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])


def test_edges_read_from_to():
    passing, z, edges = by_hand()
    # 0 -> 1: node 1 receives 2 (3 + 50) + 100, node 0 nothing.
    assert passing(z, edges, backward=False).flatten().tolist() == [0.0, 206.0]
    # The edge's weight scales the bias of the message too.
    assert passing(z, 0.5 * edges, backward=False).flatten().tolist() == [0.0, 103.0]


def test_backward_messages_flow_from_child_to_parent():
    passing, z, edges = by_hand()
    # Back along 0 -> 1 node 0 receives 2 (5 + 30) + 100; node 1 still receives what came forward.
    assert passing(z, edges, backward=True).flatten().tolist() == [170.0, 206.0]


@settings(max_examples=30)
@given(dags(min_nodes=2), st.integers(1, 4), st.integers(0, 1000))
def test_a_node_depends_on_itself_and_its_ancestors_within_t_steps_only(edges, n_steps, seed):
    M, d = len(edges), 12
    rng = generator(seed)
    passing = MessagePassing(d, n_steps, rng).double()
    graph = torch.tensor(edges, dtype=torch.float64)
    z = torch.randn(8, M, d, generator=rng, dtype=torch.float64)
    before = passing(z, graph, backward=False)
    within = np.eye(M, dtype=bool)  # [k, i]: a path of at most n_steps leads from k to i
    for _ in range(n_steps):
        within = within | (within @ edges)
    for k in range(M):
        moved = z.clone()
        moved[:, k] += torch.randn(8, d, generator=rng, dtype=torch.float64)
        after = passing(moved, graph, backward=False)
        for i in range(M):
            # Without parents a node receives an empty sum and forgets even itself.
            depends = within[k, i] and edges[:, i].any()
            assert torch.equal(after[:, i], before[:, i]) == (not depends), (k, i)


def test_with_backward_messages_parents_hear_their_children_and_others_nothing():
    passing = MessagePassing(6, 3, generator(4))
    edges = torch.zeros(4, 4)
    edges[0, 1] = edges[2, 3] = 1.0
    z = torch.randn(5, 4, 6, generator=generator(5))
    moved = z.clone()
    moved[:, 1] += 1.0
    before, after = passing(z, edges, backward=True), passing(moved, edges, backward=True)
    assert not torch.equal(after[:, 0], before[:, 0])
    assert torch.equal(after[:, 2:], before[:, 2:])


def test_draws_do_not_mix():
    passing = MessagePassing(3, 2, generator(6)).double()
    z, edges = nodes_and_edges((3, 2, 4, 3))
    together = passing(z, edges, backward=True)
    for s in range(3):
        torch.testing.assert_close(together[s], passing(z[s], edges[s], backward=True))
