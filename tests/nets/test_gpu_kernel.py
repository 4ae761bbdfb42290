"""The GPU's kernels in Triton's interpreter, on the CPU: what they compute, not how fast.

Triton decides when it is first imported whether it interprets, so the tests run in a process of their own.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from core_helpers import generator
from visl.nets import kernels
from visl.nets.kernels import plain

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="run by test_in_the_interpreter")
two_forms = pytest.mark.parametrize("form", ["few", "mixed"], indirect=True)

SHAPES = [(1, 1, 1, 1, 1), (2, 2, 2, 1, 1), (1, 1, 5, 2, 5)]  # (R, B, M, W, h)
# Nodes too few for blocks; for lists; many with dense blocks only, with lists only, with both.
FORMS = ["few", "some", "dense", "listed", "mixed"]


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
def test_in_the_interpreter():
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command,
        env=inherited | {"TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def gpu():
    from visl.nets.kernels import gpu

    return gpu


@pytest.fixture(params=FORMS)
def form(request, gpu, monkeypatch):
    """Each form of the kernels with few nodes, in small blocks: the interpreter takes milliseconds for each program."""
    monkeypatch.setattr(gpu, "PROGRAMS", 6)  # some rows and features in a program, and more than one partial sum
    monkeypatch.setattr(gpu, "LISTS_FROM", 10**6 if request.param in ("few", "some") else 1)
    monkeypatch.setattr(gpu, "FEW", 8 if request.param == "few" else 0)
    monkeypatch.setattr(gpu, "DENSE_SHARE", {"listed": 0, "mixed": 2}.get(request.param, 1000))
    monkeypatch.setattr(gpu, "forward_blocks", lambda M, h: gpu.Blocks(4, 4, 2, 1))
    monkeypatch.setattr(gpu, "backward_blocks", lambda M, h: gpu.Blocks(2, 8, 2, 1))
    monkeypatch.setattr(gpu, "edge_blocks", lambda M, h: gpu.Blocks(4, 4, 2, 1))
    monkeypatch.setattr(gpu, "few_blocks", lambda M, h: gpu.Blocks(8, 4, 1, 1))
    monkeypatch.setattr(gpu, "row_blocks", lambda B, h: gpu.Blocks(1, 8, 2, 1))
    monkeypatch.setattr(gpu, "list_blocks", lambda h: gpu.Blocks(2, 4, 1, 1))
    return request.param


def inputs(shape, dtype=torch.float32, seed=0, share=0.6):
    """Nodes and edges, a share of which are not 0, fewer of them to the last nodes; with gradients."""
    rng, (R, B, M, W, h) = generator(seed), shape
    nodes = torch.randn(R, B, M, W, 2, h, generator=rng, dtype=dtype)
    edges = torch.rand(R, M, M, generator=rng, dtype=dtype) - 0.3
    edges = edges * (torch.rand(edges.shape, generator=rng) < share * torch.linspace(1.3, 0.1, M))
    return nodes.requires_grad_(), edges.requires_grad_()


def value_and_gradients(kernel, arguments, seed=9):
    total = kernel.pairwise_relu_sum(*arguments)
    weight = torch.randn(total.shape, generator=generator(seed), dtype=total.dtype)
    return total, *torch.autograd.grad((total * weight).sum(), [x for x in arguments if x.requires_grad])


@interpreted
@two_forms
def test_by_hand(gpu, form):
    nodes = torch.tensor([[2.0, 1.0], [-1.0, 3.0], [4.0, -9.0]]).view(1, 1, 3, 1, 2, 1)
    edges = torch.tensor([[[0.0, 0.5, 1.0], [0.25, 0.0, 1.0], [2.0, 1.0, 0.0]]])
    # Node 0: .25 relu(-1 + 1) + 2 relu(4 + 1); node 1: .5 relu(2 + 3) + 1 relu(4 + 3); node 2: all below 0.
    assert gpu.pairwise_relu_sum(nodes, edges).flatten().tolist() == [10.0, 9.5, 0.0]
    # Against the edges, node 0: .5 relu(-1 + 1) + 1 relu(4 + 1); 1: .25 relu(2 + 3) + 1 relu(4 + 3); 2: below 0.
    both = gpu.pairwise_relu_sum(nodes.expand(1, 1, 3, 2, 2, 1), edges)
    assert both[..., 1, :].flatten().tolist() == [5.0, 8.25, 0.0]


@interpreted
@two_forms
def test_gradients_by_hand(gpu, form):
    nodes = torch.tensor([[2.0, -3.0], [-1.0, 3.0]]).view(1, 1, 2, 1, 2, 1).requires_grad_()
    edges = torch.tensor([[[0.0, 0.5], [1.0, 0.0]]], requires_grad=True)
    gpu.pairwise_relu_sum(nodes, edges).backward(torch.tensor([1.0, 10.0]).view(1, 1, 2, 1, 1))
    # Pre-activations [from, to]: [[-1, 5], [-4, 2]]; only those to node 1 are above 0.
    assert nodes.grad.flatten().tolist() == [5.0, 0.0, 0.0, 5.0]
    assert edges.grad.flatten().tolist() == [0.0, 50.0, 0.0, 0.0]


def assert_equals_the_plain_form(gpu, arguments):
    ours, expected = (value_and_gradients(kernel, arguments) for kernel in (gpu, plain))
    torch.testing.assert_close(ours, expected)


@interpreted
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_plain_form(gpu, form, shape):
    assert_equals_the_plain_form(gpu, inputs(shape))


@interpreted
@pytest.mark.parametrize(
    ("shape", "lists_from"), [((2, 1, 5, 1, 15), 128), ((1, 1, 17, 2, 33), 128), ((1, 2, 9, 2, 15), 1)]
)
def test_in_blocks_as_on_the_gpu(gpu, monkeypatch, shape, lists_from):
    monkeypatch.setattr(gpu, "LISTS_FROM", lists_from)
    monkeypatch.setattr(gpu, "PROGRAMS", 4)
    assert_equals_the_plain_form(gpu, inputs(shape))


@interpreted
def test_dense_blocks_and_others_in_one_call(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "LISTS_FROM", 1)
    monkeypatch.setattr(gpu, "DENSE_SHARE", 2)
    monkeypatch.setattr(gpu, "PROGRAMS", 1)
    arguments = inputs((1, 1, 35, 1, 1), share=0.7)
    blocks = gpu.prepare(arguments[1]).counts[0, 0, :32].view(2, 16).sum(1) * 2 > 16 * 35
    assert blocks.tolist() == [True, False]
    assert gpu.forward_blocks(35, 1).own == gpu.edge_blocks(35, 1).own == 16
    assert_equals_the_plain_form(gpu, arguments)


@interpreted
@two_forms
def test_derivatives(gpu, form):
    nodes, edges = inputs((1, 1, 2, 2, 2), torch.float64, share=2.0)
    assert_equals_the_plain_form(gpu, (nodes, edges))
    edges = torch.where(edges != 0, edges, 0.5).detach()  # the derivative by an absent edge is 0 by definition
    assert torch.autograd.gradcheck(gpu.pairwise_relu_sum, (nodes, edges.requires_grad_()), fast_mode=True)


@interpreted
def test_every_edge_is_listed_once(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "LISTS_FROM", 1)
    _, edges = inputs((2, 1, 21, 1, 1))
    prepared = gpu.prepare(edges)
    for r, side, x in [(0, 0, 0), (1, 0, 20), (0, 1, 3), (1, 1, 11)]:
        weights = edges[r, :, x] if side == 0 else edges[r, x]
        expected = weights.nonzero().flatten().tolist()
        assert prepared.lists[r, side, x, : prepared.counts[r, side, x]].tolist() == expected


@interpreted
@two_forms
def test_edges_prepared_once_serve_every_call(gpu, form):
    nodes, edges = inputs((2, 1, 3, 2, 2))
    once = gpu.prepare(edges)
    assert torch.equal(gpu.pairwise_relu_sum(nodes, edges, once), gpu.pairwise_relu_sum(nodes, edges))


@interpreted
def test_nothing_comes_through_absent_edges(gpu, form):
    """Node 1 sends what is not a number of any size, and has an edge to node 2 only."""
    nodes, edges = (x.detach().clone() for x in inputs((1, 1, 4, 2, 2)))
    nodes[:, :, 1] = torch.tensor([float("inf"), float("nan")])
    edges[:, 1], edges[:, :, 1] = 0.0, 0.0
    edges[:, 1, 2] = 0.5
    edges.requires_grad_()
    total = gpu.pairwise_relu_sum(nodes, edges)
    assert total[:, :, [0, 3]].isfinite().all()
    assert total[:, :, 2, 1].isfinite().all()
    assert total[0, 0, 2, 0, 0] == float("inf")
    assert total[0, 0, 2, 0, 1].isnan()
    (of_edges,) = torch.autograd.grad(total, [edges], torch.ones_like(total))
    assert (of_edges[edges == 0] == 0).all()


@interpreted
@two_forms
@pytest.mark.parametrize("frozen", ["nodes", "edges"])
def test_frozen(gpu, form, frozen, monkeypatch):
    arguments = dict(zip(("nodes", "edges"), inputs((1, 2, 2, 2, 1)), strict=True))
    arguments[frozen].requires_grad_(False)
    monkeypatch.setattr(gpu, f"_{frozen}_gradient", None)  # not even computed
    ours, expected = (value_and_gradients(kernel, arguments.values()) for kernel in (gpu, plain))
    assert len(ours) == 2
    torch.testing.assert_close(ours, expected)


@interpreted
@two_forms
def test_same_from_run_to_run(gpu, form):
    arguments = inputs((1, 2, 2, 2, 1))
    for first, second in zip(value_and_gradients(gpu, arguments), value_and_gradients(gpu, arguments), strict=True):
        assert torch.equal(first, second)


@interpreted
@two_forms
@pytest.mark.parametrize("shape", [(2, 0, 5, 2, 3), (0, 2, 5, 1, 3)])
def test_nothing_to_do(gpu, form, shape):
    total, of_nodes, of_edges = value_and_gradients(gpu, inputs(shape))
    assert total.shape == shape
    assert of_nodes.shape == (*shape[:4], 2, shape[4])
    assert torch.equal(of_edges, torch.zeros(shape[0], 5, 5))


@interpreted
@two_forms
def test_any_strides(gpu, form):
    nodes, edges = (x.detach() for x in inputs((2, 2, 2, 2, 1)))
    expected = gpu.pairwise_relu_sum(nodes, edges)
    strided = nodes.permute(5, 4, 3, 2, 1, 0).contiguous().permute(5, 4, 3, 2, 1, 0)
    assert torch.equal(gpu.pairwise_relu_sum(strided, edges.mT.contiguous().mT), expected)


@interpreted
def test_wrong_arguments(gpu):
    nodes, edges = inputs((2, 3, 5, 2, 4))
    with pytest.raises(ValueError, match="nodes must be"):
        gpu.pairwise_relu_sum(nodes[0], edges)
    with pytest.raises(ValueError, match="shapes do not match"):
        gpu.pairwise_relu_sum(nodes, edges[:1])
    with pytest.raises(ValueError, match="float32 or float64"):
        gpu.pairwise_relu_sum(nodes.half(), edges.half())
    with pytest.raises(ValueError, match="float32 or float64"):
        gpu.pairwise_relu_sum(nodes, edges.double())


@interpreted
def test_cpu_tensors_do_not_come_here(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "pairwise_relu_sum", None)
    monkeypatch.setattr(kernels.cpu, "available", lambda: False)
    arguments = inputs((1, 2, 3, 1, 2))
    assert torch.equal(kernels.pairwise_relu_sum(*arguments), plain.pairwise_relu_sum(*arguments))


@interpreted
def test_noise_is_normal_and_uniform_and_follows_from_each_members_seed():
    from visl.nets.kernels import noise

    seeds = torch.tensor([5, 2**61 + 3, 5])
    normal, uniform, bits = torch.empty(3, 40, 50), torch.empty(3, 2000), torch.empty(3, 500, dtype=torch.long)
    noise.fill_normal(seeds, normal)
    noise.fill_uniform(seeds, uniform)
    noise.fill_bits(seeds, bits)
    for made in (normal, uniform, bits):
        assert torch.equal(made[0], made[2])
        assert not (made[0] == made[1]).any()
    assert abs(normal[:2].mean()) < 5 / 4000**0.5
    assert abs(normal[:2].square().mean() - 1) < 5 * (2 / 4000) ** 0.5
    assert abs(uniform[:2].mean() - 0.5) < 5 / (12 * 4000) ** 0.5
    assert uniform.min() >= 0
    assert uniform.max() < 1
    # Every one of the 64 bits is set in about half of the numbers.
    share = ((bits[:2].flatten()[:, None] >> torch.arange(64)) & 1).float().mean(0)
    assert (share - 0.5).abs().max() < 5 * 0.5 / 1000**0.5


@interpreted
def test_noise_does_not_depend_on_the_other_members():
    from visl.nets.kernels import noise

    alone, among = torch.empty(1, 1500), torch.empty(2, 1500)
    noise.fill_normal(torch.tensor([7]), alone)
    noise.fill_normal(torch.tensor([3, 7]), among)
    assert torch.equal(among[1], alone[0])
