import subprocess
import sys
import threading

import pytest
import torch

from core_helpers import generator
from visl.nets import kernels
from visl.nets.kernels import cpu, plain

needs_numba = pytest.mark.skipif(not cpu.available(), reason="the fused kernel is compiled by numba")
KERNELS = [pytest.param(plain, id="plain"), pytest.param(cpu, id="fused", marks=needs_numba)]
SHAPES = [(1, 1, 1), (3, 5, 4), (2, 6, 1), (4, 2, 3, 5), (2, 3, 2, 4, 3)]  # (..., B, M, h)


def inputs(shape, dtype=torch.float64, seed=0, share=0.6):
    """Sender, receiver and edges, a share of which are not 0, with gradients."""
    rng, (*lead, _, M, _) = generator(seed), shape
    sender, receiver = (torch.randn(shape, generator=rng, dtype=dtype) for _ in range(2))
    edges = torch.rand(*lead, M, M, generator=rng, dtype=dtype)
    edges = edges * (torch.rand(edges.shape, generator=rng) < share)
    return [x.requires_grad_() for x in (sender, receiver, edges)]


def value_and_gradients(kernel, arguments, seed=9):
    total = kernel.pairwise_relu_sum(*arguments)
    weight = torch.randn(total.shape, generator=generator(seed), dtype=total.dtype)
    return total, *torch.autograd.grad((total * weight).sum(), arguments)


@pytest.fixture
def threads(request):
    """Two slices even of little work."""
    before, work = torch.get_num_threads(), cpu.WORK_PER_THREAD
    torch.set_num_threads(request.param)
    cpu.WORK_PER_THREAD = 1
    yield request.param
    torch.set_num_threads(before)
    cpu.WORK_PER_THREAD = work


@pytest.mark.parametrize("kernel", KERNELS)
def test_by_hand(kernel):
    sender = torch.tensor([[[2.0], [-1.0], [4.0]]])
    receiver = torch.tensor([[[1.0], [3.0], [-9.0]]])
    edges = torch.tensor([[0.0, 0.5, 1.0], [0.25, 0.0, 1.0], [2.0, 1.0, 0.0]])
    # Node 0: .25 relu(-1 + 1) + 2 relu(4 + 1); node 1: .5 relu(2 + 3) + 1 relu(4 + 3); node 2: all below 0.
    expected = torch.tensor([[[10.0], [9.5], [0.0]]])
    torch.testing.assert_close(kernel.pairwise_relu_sum(sender, receiver, edges), expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_by_hand(kernel):
    arguments = [x.requires_grad_() for x in (torch.tensor([[[2.0], [-1.0]]]), torch.tensor([[[-3.0], [3.0]]]))]
    edges = torch.tensor([[0.0, 0.5], [1.0, 0.0]], requires_grad=True)
    kernel.pairwise_relu_sum(*arguments, edges).backward(torch.tensor([[[1.0], [10.0]]]))
    # Pre-activations [from, to]: [[-1, 5], [-4, 2]]; only those to node 1 are above 0.
    assert arguments[0].grad.flatten().tolist() == [5.0, 0.0]
    assert arguments[1].grad.flatten().tolist() == [0.0, 5.0]
    assert edges.grad.tolist() == [[0.0, 50.0], [0.0, 20.0]]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_a_loop_over_all_pairs(kernel, shape):
    sender, receiver, edges = inputs(shape)
    M = shape[-2]
    expected = torch.zeros(shape, dtype=sender.dtype)
    for i in range(M):
        for k in range(M):
            pair = torch.relu(sender[..., k, :] + receiver[..., i, :])
            expected[..., i, :] += edges[..., k, i, None, None] * pair
    torch.testing.assert_close(kernel.pairwise_relu_sum(sender, receiver, edges), expected)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(2, 3, 2), (2, 2, 3, 2)])
def test_gradcheck(kernel, shape):
    assert torch.autograd.gradcheck(kernel.pairwise_relu_sum, inputs(shape, seed=3))


@needs_numba
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [*SHAPES, (7, 9, 33)])
def test_fused_equals_plain(shape, dtype):
    arguments = inputs(shape, dtype)
    for fused, expected in zip(value_and_gradients(cpu, arguments), value_and_gradients(plain, arguments), strict=True):
        assert fused.dtype == dtype
        torch.testing.assert_close(fused, expected)


@needs_numba
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("shape", [(5, 4, 3), (1, 4, 3), (3, 1, 4, 3)])
def test_fused_equals_plain_on_any_number_of_threads(threads, shape):
    arguments = inputs(shape, seed=4)
    rows = arguments[0].shape[:-2].numel()
    assert cpu._n_slices((1, rows, 4, 3)) == min(threads, rows)
    for fused, expected in zip(value_and_gradients(cpu, arguments), value_and_gradients(plain, arguments), strict=True):
        torch.testing.assert_close(fused, expected)


@needs_numba
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_fused_from_several_python_threads_at_once(threads):
    arguments = [x.detach() for x in inputs((6, 8, 5))]
    expected, found = plain.pairwise_relu_sum(*arguments), []

    def work():
        found.extend(cpu.pairwise_relu_sum(*arguments) for _ in range(20))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 80
    assert all(torch.allclose(total, expected) for total in found)


@needs_numba
def test_fused_takes_inputs_that_are_not_contiguous():
    sender, receiver, edges = inputs((3, 4, 5), seed=5)
    strided = [
        sender.detach().transpose(0, 2).contiguous().transpose(0, 2).requires_grad_(),
        receiver.detach()[:, :1].expand(3, 4, 5).requires_grad_(),
        edges.detach().mT.requires_grad_(),
    ]
    assert not any(x.is_contiguous() for x in strided)
    for fused, expected in zip(value_and_gradients(cpu, strided), value_and_gradients(plain, strided), strict=True):
        torch.testing.assert_close(fused, expected)


@needs_numba
@pytest.mark.parametrize(
    "follow",
    [lambda x: x.mT * torch.arange(15.0).view(3, 5), lambda x: x.permute(2, 0, 1)[1:], lambda x: x.mean()],
    ids=["transposed", "permuted", "expanded"],
)
def test_fused_takes_a_gradient_that_is_not_contiguous(follow):
    arguments = inputs((2, 5, 3), seed=6)
    fused, expected = (
        torch.autograd.grad(follow(kernel.pairwise_relu_sum(*arguments)).sum(), arguments) for kernel in (cpu, plain)
    )
    for found, right in zip(fused, expected, strict=True):
        torch.testing.assert_close(found, right)


@needs_numba
def test_fused_skips_absent_edges():
    sender, receiver, edges = (x.detach() for x in inputs((2, 3, 4), torch.float32, share=1.0))
    edges[0] = 0.0
    expected = cpu.pairwise_relu_sum(sender, receiver, edges)
    sender[:, 0] = torch.inf  # 0 * inf would be nan
    assert torch.equal(cpu.pairwise_relu_sum(sender, receiver, edges), expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_empty_batch_gives_an_empty_result(kernel):
    nothing = torch.zeros(0, 3, 4)
    assert kernel.pairwise_relu_sum(nothing, nothing, torch.ones(3, 3)).shape == (0, 3, 4)


def test_the_plain_form_serves_where_numba_is_not(monkeypatch):
    arguments = inputs((2, 3, 4))
    calls = []
    monkeypatch.setattr(kernels.cpu, "available", lambda: False)
    monkeypatch.setattr(kernels.cpu, "pairwise_relu_sum", lambda *_: calls.append("fused"))
    torch.testing.assert_close(kernels.pairwise_relu_sum(*arguments), plain.pairwise_relu_sum(*arguments))
    assert not calls


MEMORY = """
import resource, sys, torch
from visl.nets.kernels import cpu

def run(B, M, h):
    rng = torch.Generator().manual_seed(0)
    nodes = [torch.randn(B, M, h, generator=rng, requires_grad=True) for _ in range(2)]
    edges = torch.rand(M, M, generator=rng).requires_grad_()
    cpu.pairwise_relu_sum(*nodes, edges).sum().backward()

run(2, 3, 16)  # compiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(16, 1500, 16)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


@needs_numba
def test_fused_never_holds_all_pairs():
    pytest.importorskip("resource")
    answer = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    pairs = 4 * 16 * 1500 * 1500 * 16  # bytes, 2.3 GB
    assert int(answer.stdout) < pairs / 10
