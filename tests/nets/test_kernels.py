import subprocess
import sys
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core_helpers import generator
from visl.nets import kernels
from visl.nets.kernels import cpu, plain

needs_numba = pytest.mark.skipif(not cpu.available(), reason="the fused kernel is compiled by numba")
KERNELS = [pytest.param(plain, id="plain"), pytest.param(cpu, id="fused", marks=needs_numba)]
DTYPES = [torch.float64, torch.float32]
# (R, B, M, W, h): one number, several draws, one way, rows longer and shorter than a vector, several tiles and blocks.
SHAPES = [(1, 1, 1, 1, 1), (1, 3, 5, 2, 4), (3, 2, 4, 1, 3), (2, 2, 3, 2, 17), (1, 9, 4, 2, 33), (1, 2, 37, 2, 5)]
LARGE = [(1, 5, 9, 2, 256), (2, 30, 3, 2, 15), (1, 1, 70, 1, 70), (1, 40, 2, 2, 16)]


def inputs(shape, dtype=torch.float64, seed=0, share=0.6):
    """Nodes, and edges a share of which are not 0, with gradients."""
    rng, (R, B, M, W, h) = generator(seed), shape
    nodes = torch.randn(R, B, M, W, 2, h, generator=rng, dtype=dtype)
    edges = torch.randn(R, M, M, generator=rng, dtype=dtype)
    edges = edges * (torch.rand(edges.shape, generator=rng) < share)
    return nodes.requires_grad_(), edges.requires_grad_()


def value_and_gradients(kernel, arguments, seed=9):
    total = kernel.pairwise_relu_sum(*arguments)
    weight = torch.randn(total.shape, generator=generator(seed), dtype=total.dtype)
    wanted = [x for x in arguments if x.requires_grad]
    return total, *torch.autograd.grad((total * weight).sum(), wanted)


def assert_fused_equals_plain(arguments):
    """To the rounding of their sums: gradients of edges are sums over the whole batch."""
    tolerance = {torch.float64: 1e-11, torch.float32: 2e-4}[arguments[0].dtype]
    for fused, expected in zip(value_and_gradients(cpu, arguments), value_and_gradients(plain, arguments), strict=True):
        torch.testing.assert_close(fused, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture
def threads(request, monkeypatch):
    """As many slices, even of little work."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    monkeypatch.setattr(cpu, "WORK_PER_THREAD", 1)
    yield request.param
    torch.set_num_threads(before)


# Three nodes, one number each: what they send and what they add, along the edges and against them.
NODES = torch.tensor([[[2.0, 1.0], [1.0, -1.5]], [[-1.0, 3.0], [2.0, 0.5]], [[4.0, -9.0], [-3.0, 2.0]]])
EDGES = torch.tensor([[0.0, 0.5, 1.0], [0.25, 0.0, 1.0], [2.0, 1.0, 0.0]])


def by_hand():
    return NODES.double().view(1, 1, 3, 2, 2, 1).requires_grad_(), EDGES.double()[None].requires_grad_()


@pytest.mark.parametrize("kernel", KERNELS)
def test_by_hand(kernel):
    # Along: to 0: .25 relu(-1 + 1) + 2 relu(4 + 1); to 1: .5 relu(2 + 3) + 1 relu(4 + 3); to 2: both below 0.
    # Against: 0 has from 1: .5 relu(2 - 1.5), from 2: 1 relu(-3 - 1.5); 1 has from 0: .25 relu(1 + .5), from 2: 1
    # relu(-3 + .5); 2 has from 0: 2 relu(1 + 2), from 1: 1 relu(2 + 2).
    expected = [[10.0, 0.25], [9.5, 0.375], [0.0, 10.0]]
    assert kernel.pairwise_relu_sum(*by_hand()).view(3, 2).tolist() == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_by_hand(kernel):
    nodes, edges = by_hand()
    grad = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]], dtype=torch.float64)
    kernel.pairwise_relu_sum(nodes, edges).backward(grad.view(1, 1, 3, 2, 1))
    # Above 0, along: 2 -> 0 (5), 0 -> 1 (5), 2 -> 1 (7); against: 1 -> 0 (.5), 0 -> 1 (1.5), 0 -> 2 (3), 1 -> 2 (4).
    sent = [[0.5 * 10, 0.25 * 20 + 2 * 200], [0.0, 0.5 * 2 + 1 * 200], [2 * 1 + 1 * 10, 0.0]]
    received = [[2 * 1, 0.5 * 2], [0.5 * 10 + 1 * 10, 0.25 * 20], [0.0, 2 * 200 + 1 * 200]]
    assert nodes.grad.view(3, 2, 2)[..., 0].tolist() == sent
    assert nodes.grad.view(3, 2, 2)[..., 1].tolist() == received
    # Against an edge from i to k, i receives from k.
    of_edges = [[0.0, 5 * 10 + 0.5 * 2, 0.0], [1.5 * 20, 0.0, 0.0], [5 * 1 + 3 * 200, 7 * 10 + 4 * 200, 0.0]]
    assert edges.grad[0].tolist() == of_edges


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_a_loop_over_all_pairs(kernel, shape):
    nodes, edges = (x.detach() for x in inputs(shape))
    R, B, M, W, h = shape
    expected = torch.zeros(shape, dtype=nodes.dtype)
    for w in range(W):
        for i in range(M):
            for k in range(M):
                edge = edges[:, k, i] if w == 0 else edges[:, i, k]
                pair = torch.relu(nodes[:, :, k, w, 0] + nodes[:, :, i, w, 1])
                expected[:, :, i, w] += edge[:, None, None] * pair
    torch.testing.assert_close(kernel.pairwise_relu_sum(nodes, edges), expected)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(1, 2, 3, 2, 2), (2, 1, 3, 1, 2)])
def test_gradcheck(kernel, shape):
    assert torch.autograd.gradcheck(kernel.pairwise_relu_sum, inputs(shape, seed=3, share=1.0))


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, *LARGE])
def test_fused_equals_plain(shape, dtype):
    assert_fused_equals_plain(inputs(shape, dtype))


@needs_numba
@given(
    shape=st.tuples(*(st.integers(1, n) for n in (3, 5, 40, 2, 40))),
    dtype=st.sampled_from(DTYPES),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
def test_fused_equals_plain_whatever_the_shape(shape, dtype, share, seed):
    assert_fused_equals_plain(inputs(shape, dtype, seed, share))


@needs_numba
@pytest.mark.parametrize("threads", [1, 2, 3, 7], indirect=True)
@pytest.mark.parametrize("shape", [(1, 50, 4, 2, 33), (1, 1, 4, 1, 3), (5, 1, 4, 2, 3)])
def test_fused_equals_plain_on_any_number_of_threads(threads, shape):
    arguments = inputs(shape, seed=4, share=1.0)
    chunks = shape[0] * -(-shape[1] * shape[4] * 8 // cpu._simd().CHUNK)
    assert len(cpu._bounds(arguments[0], 1_000_000)) - 1 == min(threads, chunks)
    assert_fused_equals_plain(arguments)


@needs_numba
def test_little_work_is_not_divided(monkeypatch):
    (nodes, _), before = inputs((1, 50, 4, 2, 33)), torch.get_num_threads()
    torch.set_num_threads(2)
    few, many = (len(cpu._bounds(nodes, n * cpu.WORK_PER_THREAD)) - 1 for n in (1, 2))
    torch.set_num_threads(before)
    assert (few, many) == (1, 2)


@needs_numba
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_fused_gives_the_same_again(threads):
    arguments = inputs((2, 50, 12, 2, 32), torch.float32)
    for first, second in zip(*(value_and_gradients(cpu, arguments) for _ in range(2)), strict=True):
        assert torch.equal(first, second)


@needs_numba
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_fused_from_several_python_threads_at_once(threads):
    arguments = inputs((1, 60, 8, 2, 5))
    expected, found = value_and_gradients(cpu, arguments), []

    def work():
        found.extend(value_and_gradients(cpu, arguments) for _ in range(20))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 80
    assert all(torch.equal(x, right) for one in found for x, right in zip(one, expected, strict=True))


@needs_numba
def test_fused_takes_inputs_that_are_not_contiguous():
    nodes, edges = (x.detach() for x in inputs((2, 3, 4, 2, 5), seed=5))
    strided = [
        [nodes.transpose(0, 5).contiguous().transpose(0, 5), edges.mT],
        [nodes[:, :1].expand(nodes.shape), edges[:1].expand(edges.shape)],
        [nodes[..., ::2], edges.flip(1)[:, :, [3, 2, 1, 0]].mT],
    ]
    for arguments in strided:
        assert not any(x.is_contiguous() for x in arguments)
        assert_fused_equals_plain([x.requires_grad_() for x in arguments])


@needs_numba
@pytest.mark.parametrize(
    "follow",
    [lambda x: x.mT * torch.arange(10.0).view(5, 2), lambda x: x.permute(4, 2, 0, 1, 3)[1:], lambda x: x.mean()],
    ids=["transposed", "permuted", "expanded"],
)
def test_fused_takes_a_gradient_that_is_not_contiguous(follow):
    arguments = inputs((1, 2, 3, 2, 5), seed=6)
    fused, expected = (
        torch.autograd.grad(follow(kernel.pairwise_relu_sum(*arguments)).sum(), arguments) for kernel in (cpu, plain)
    )
    for found, right in zip(fused, expected, strict=True):
        torch.testing.assert_close(found, right)


@needs_numba
@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_fused_skips_absent_edges(bad):
    nodes, edges = inputs((1, 2, 3, 1, 4), torch.float32, share=1.0)
    with torch.no_grad():
        edges[:, 0] = 0.0
    total, grad_nodes, grad_edges = value_and_gradients(cpu, (nodes, edges))
    with torch.no_grad():
        nodes[:, :, 0, :, 0] = bad  # 0 times this would be nan
    again = value_and_gradients(cpu, (nodes, edges))
    assert torch.equal(again[0], total)
    assert torch.equal(again[1], grad_nodes)
    assert torch.equal(again[2], grad_edges)
    assert not grad_nodes[:, :, 0, :, 0].any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_absent_edge_has_no_gradient(kernel):
    nodes, edges = inputs((2, 3, 4, 2, 8), share=0.5)
    _, _, grad = value_and_gradients(kernel, (nodes, edges))
    assert 0 < (edges == 0).sum() < edges.numel()
    assert not grad[edges == 0].any()
    assert grad[edges != 0].all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_nan_passes_along_an_edge(kernel):
    nodes, edges = (x.detach() for x in inputs((1, 1, 3, 1, 2), share=1.0))
    edges[0, 0, 2] = 0.0
    nodes[0, 0, 0, 0, 0, 1] = torch.nan
    total = kernel.pairwise_relu_sum(nodes, edges)[0, 0, :2, 0]
    assert total.isnan().tolist() == [[False, True], [False, True]]


@needs_numba
@pytest.mark.parametrize("frozen", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 5, 2, 7), (1, 20, 40, 1, 16)])
def test_fused_leaves_out_the_gradient_of_what_is_frozen(frozen, shape):
    arguments = list(inputs(shape, seed=7))
    arguments[frozen] = arguments[frozen].detach()
    assert len(value_and_gradients(cpu, arguments)) == 2
    assert_fused_equals_plain(arguments)


@needs_numba
def test_fused_does_no_work_for_frozen_inputs(monkeypatch):
    asked = []
    in_slices = cpu._in_slices

    def record(kernel, bounds, arguments):
        asked.append([x.size > 0 for x in arguments(0)[-2:]])
        in_slices(kernel, bounds, arguments)

    nodes, edges = inputs((1, 2, 3, 2, 4))
    for arguments in ((nodes, edges), (nodes, edges.detach()), (nodes.detach(), edges)):
        total = cpu.pairwise_relu_sum(*arguments).sum()
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "_in_slices", record)
            total.backward()
    assert asked == [[True, True], [True, False], [False, True]]


@needs_numba
def test_fused_has_no_second_derivative():
    nodes, edges = inputs((1, 2, 3, 2, 4))
    (grad,) = torch.autograd.grad(cpu.pairwise_relu_sum(nodes, edges).square().sum(), nodes, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(1, 0, 3, 2, 4), (0, 2, 3, 2, 4)])
def test_an_empty_batch_gives_an_empty_result(kernel, shape):
    nodes, edges = inputs(shape)
    total = kernel.pairwise_relu_sum(nodes, edges)
    total.sum().backward()
    assert total.shape == shape
    assert nodes.grad.shape == nodes.shape
    assert edges.grad.shape == edges.shape
    assert not edges.grad.any()


@needs_numba
@pytest.mark.parametrize("edges", [torch.ones(1, 4, 4), torch.ones(3, 3), torch.ones(1, 3, 3, dtype=torch.float64)])
def test_fused_refuses_edges_that_do_not_match(edges):
    with pytest.raises(ValueError, match="do not match"):
        cpu.pairwise_relu_sum(torch.zeros(1, 2, 3, 2, 2, 4), edges)


def test_the_plain_form_serves_where_numba_is_not(monkeypatch):
    arguments = inputs((1, 2, 3, 2, 4))
    calls = []
    monkeypatch.setattr(kernels.cpu, "available", lambda: False)
    monkeypatch.setattr(kernels.cpu, "pairwise_relu_sum", lambda *_: calls.append("fused"))
    torch.testing.assert_close(kernels.pairwise_relu_sum(*arguments), plain.pairwise_relu_sum(*arguments))
    assert not calls


def test_numba_is_not_imported_before_it_is_used():
    code = "import sys, visl.nets.kernels; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


MEMORY = """
import resource, sys, torch
from visl.nets.kernels import cpu

def run(B, M, h):
    rng = torch.Generator().manual_seed(0)
    nodes = torch.randn(1, B, M, 2, 2, h, generator=rng).requires_grad_()
    edges = torch.rand(1, M, M, generator=rng).requires_grad_()
    cpu.pairwise_relu_sum(nodes, edges).sum().backward()

run(2, 3, 16)  # compiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(16, 1500, 16)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


@needs_numba
def test_fused_never_holds_all_pairs():
    pytest.importorskip("resource")
    answer = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    pairs = 4 * 2 * 16 * 1500 * 1500 * 16  # bytes, 4.6 GB
    assert int(answer.stdout) < pairs / 30
