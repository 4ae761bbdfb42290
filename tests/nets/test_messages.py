import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_helpers import dags, generator, generators
from visl.nets.messages import EdgeMessages, MessagePassing

SHAPES = [  # (K, S, B, M, d)
    (1, 1, 1, 1, 1),
    (1, 1, 2, 2, 3),
    (1, 1, 3, 5, 4),
    (1, 3, 2, 4, 5),
    (3, 1, 2, 4, 3),
    (2, 2, 3, 3, 4),
]
ALONG, AGAINST = 0, 1


def pair_mlp(messages, k, way, sender, receiver):
    """Member k's MLP([sender, receiver]) of one way."""
    first = torch.cat([messages.node[k, :, way, 0], messages.node[k, :, way, 1]])  # (2 d, d)
    hidden = torch.relu(torch.cat([sender, receiver], dim=-1) @ first + messages.hidden_bias[k, way])
    message = hidden @ messages.output[k, way] + messages.output_bias[k, way]
    return torch.relu(message) if messages.relu_output else message


def naive(messages, z, edges, way):
    """What each node receives one way, pair after pair.

    Along the edges sum_j G[j, i] MLP_f([z_j, z_i]), against them sum_j G[i, j] MLP_b: a message comes from z_j.
    """
    K, S, _, M, _ = z.shape
    members = []
    for k in range(K):
        draws = []
        for s in range(S):
            received = []
            for i in range(M):
                total = torch.zeros_like(z[k, s, :, i])
                for j in range(M):
                    weight = edges[k, s, j, i] if way == ALONG else edges[k, s, i, j]
                    total = total + weight * pair_mlp(messages, k, way, z[k, s, :, j], z[k, s, :, i])
                received.append(total)
            draws.append(torch.stack(received, dim=-2))
        members.append(torch.stack(draws))
    return torch.stack(members)


def nodes_and_edges(shape, seed=0):
    rng, (K, S, _, M, _) = generator(seed), shape
    z = torch.randn(shape, generator=rng, dtype=torch.float64)
    edges = torch.rand(K, S, M, M, generator=rng, dtype=torch.float64)
    return z.requires_grad_(), edges.requires_grad_()


def seeds(shape):
    return generators(*range(2, 2 + shape[0]))


def assert_same_with_gradients(found, expected, inputs):
    torch.testing.assert_close(found, expected)
    weight = torch.randn(found.shape, generator=generator(8), dtype=found.dtype)
    pairs = zip(*(torch.autograd.grad((x * weight).sum(), inputs) for x in (found, expected)), strict=True)
    for gradient, right in pairs:
        assert gradient.abs().sum() > 0  # the seeds leave no layer dead
        torch.testing.assert_close(gradient, right)


@pytest.mark.parametrize("shape", SHAPES)
def test_factored_equals_an_mlp_on_every_pair(shape):
    messages = EdgeMessages(shape[-1], seeds(shape)).double()
    z, edges = nodes_and_edges(shape, seed=3)
    inputs = [z, edges, *messages.parameters()]
    assert_same_with_gradients(messages.over(edges, 1)(z), naive(messages, z, edges, ALONG), inputs)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_both_ways_equal_an_mlp_on_every_pair(shape):
    messages = EdgeMessages(shape[-1], seeds(shape)).double()
    z, edges = nodes_and_edges(shape, seed=1)
    inputs = [z, edges, *messages.parameters()]
    expected = naive(messages, z, edges, ALONG) + naive(messages, z, edges, AGAINST)
    assert_same_with_gradients(messages.over(edges, 2)(z), expected, inputs)


def test_one_way_does_not_train_the_weights_of_the_other():
    messages = EdgeMessages(3, generators(2)).double()
    z, edges = nodes_and_edges((1, 1, 2, 4, 3))
    messages.over(edges, 1)(z).square().sum().backward()
    for name, parameter in messages.named_parameters():
        ways = parameter.grad.unbind(2 if name == "node" else 1)
        assert ways[ALONG].abs().sum() > 0, name
        assert not ways[AGAINST].any(), name


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("keep_own", [False, True])
def test_all_rounds_equal_the_naive_ones(shape, backward, keep_own):
    passing = MessagePassing(shape[-1], 3, seeds(shape), keep_own=keep_own).double()
    start, edges = nodes_and_edges(shape, seed=2)
    first, second = passing.update.first, passing.update.second
    z = start
    for _ in range(3):
        received = naive(passing.edge_messages, z, edges, ALONG)
        if backward:
            received = received + naive(passing.edge_messages, z, edges, AGAINST)
        updates = []
        for k, x in enumerate(received):
            hidden = torch.relu(x @ first.weight[k, 0] + first.bias[k, 0])
            updates.append(hidden @ second.weight[k, 0] + second.bias[k, 0])
        z = torch.stack(updates) + (z if keep_own else 0)
    inputs = [start, edges, *passing.parameters()]
    assert_same_with_gradients(passing(start, edges, backward=backward), z, inputs)


@pytest.mark.parametrize("shape", SHAPES[2:])
@pytest.mark.parametrize("n_ways", [1, 2])
def test_messages_that_end_in_a_relu_equal_the_naive_ones(shape, n_ways):
    messages = EdgeMessages(shape[-1], seeds(shape), relu_output=True).double()
    z, edges = nodes_and_edges(shape, seed=3)
    expected = naive(messages, z, edges, ALONG)
    if n_ways == 2:
        expected = expected + naive(messages, z, edges, AGAINST)
    with torch.no_grad():
        factored = EdgeMessages(shape[-1], seeds(shape)).double().over(edges, n_ways)(z)
        assert not torch.allclose(factored, expected)  # or the ReLU would not be tested
    assert_same_with_gradients(messages.over(edges, n_ways)(z), expected, [z, edges])


def test_updates_that_end_in_a_relu_are_never_negative():
    z, edges = nodes_and_edges(SHAPES[2])
    plain = MessagePassing(4, 1, generators(2)).double()(z, edges, backward=False)
    ends_in_relu = MessagePassing(4, 1, generators(2), relu_output=True).double()(z, edges, backward=False)
    assert plain.min() < 0
    assert ends_in_relu.min() == 0


def by_hand():
    """Two nodes, one dimension: MLP([z_k, z_i]) = 2 relu(z_k + 10 z_i) + 100, and an update that changes nothing."""
    passing = MessagePassing(1, 1, generators(0))
    with torch.no_grad():
        for parameter in passing.parameters():
            parameter.zero_()
        messages = passing.edge_messages
        messages.node[:, :, :, 0] = 1.0  # of the sender, both ways
        messages.node[:, :, :, 1] = 10.0  # of the receiver
        messages.output.fill_(2.0)
        messages.output_bias.fill_(100.0)
        passing.update.first.weight.fill_(1.0)
        passing.update.second.weight.fill_(1.0)
    return passing, torch.tensor([[[[[3.0], [5.0]]]]]), torch.tensor([[[[0.0, 1.0], [0.0, 0.0]]]])


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
    # They have weights of their own: here 4 relu(z_k + 10 z_i) + 7.
    with torch.no_grad():
        passing.edge_messages.output[:, AGAINST] = 4.0
        passing.edge_messages.output_bias[:, AGAINST] = 7.0
    assert passing(z, edges, backward=True).flatten().tolist() == [147.0, 206.0]


@settings(max_examples=30)
@given(dags(min_nodes=2), st.integers(1, 4), st.integers(0, 1000))
def test_a_node_depends_on_itself_and_its_ancestors_within_t_steps_only(edges, n_steps, seed):
    M, d = len(edges), 12
    rng = generator(seed)
    passing = MessagePassing(d, n_steps, [rng]).double()
    graph = torch.tensor(edges, dtype=torch.float64)[None, None]
    z = torch.randn(1, 1, 8, M, d, generator=rng, dtype=torch.float64)
    before = passing(z, graph, backward=False)
    within = np.eye(M, dtype=bool)  # [k, i]: a path of at most n_steps leads from k to i
    for _ in range(n_steps):
        within = within | (within @ edges)
    for k in range(M):
        moved = z.clone()
        moved[..., k, :] += torch.randn(8, d, generator=rng, dtype=torch.float64)
        after = passing(moved, graph, backward=False)
        for i in range(M):
            # Without parents a node receives an empty sum and forgets even itself.
            depends = within[k, i] and edges[:, i].any()
            assert torch.equal(after[..., i, :], before[..., i, :]) == (not depends), (k, i)


def test_with_backward_messages_parents_hear_their_children_and_others_nothing():
    passing = MessagePassing(6, 3, generators(4))
    edges = torch.zeros(1, 1, 4, 4)
    edges[..., 0, 1] = edges[..., 2, 3] = 1.0
    z = torch.randn(1, 1, 5, 4, 6, generator=generator(5))
    moved = z.clone()
    moved[..., 1, :] += 1.0
    before, after = passing(z, edges, backward=True), passing(moved, edges, backward=True)
    assert not torch.equal(after[..., 0, :], before[..., 0, :])
    assert torch.equal(after[..., 2:, :], before[..., 2:, :])


def test_draws_do_not_mix():
    passing = MessagePassing(3, 2, generators(6)).double()
    z, edges = nodes_and_edges((1, 3, 2, 4, 3))
    together = passing(z, edges, backward=True)
    for s in range(3):
        torch.testing.assert_close(together[:, [s]], passing(z[:, [s]], edges[:, [s]], backward=True))


def test_members_do_not_mix():
    """Each has the weights that its own generator gives, as if it were alone."""
    together = MessagePassing(3, 2, generators(6, 7, 8)).double()
    z, edges = nodes_and_edges((3, 2, 2, 4, 3))
    found = together(z, edges, backward=True)
    for k, seed in enumerate((6, 7, 8)):
        alone = MessagePassing(3, 2, generators(seed)).double()
        torch.testing.assert_close(found[[k]], alone(z[[k]], edges[[k]], backward=True))
