"""The forms of small layers that serve a GPU, on the CPU against PyTorch's own."""

import pytest
import torch

from core_helpers import generator
from visl.nets import layers
from visl.nets.layers import SumSorted, TakeSorted, look_up, member_linear, run_starts


def random(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64).requires_grad_()


def assert_same_gradients(found, expected, inputs, seed=9):
    torch.testing.assert_close(found, expected)
    weight = torch.randn(found.shape, generator=generator(seed), dtype=found.dtype)
    pairs = zip(
        *(torch.autograd.grad((x * weight).sum(), inputs, retain_graph=True) for x in (found, expected)), strict=True
    )
    for ours, right in pairs:
        torch.testing.assert_close(ours, right)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 256])
def test_member_linear_is_a_product_for_each_member(K, with_bias, rows):
    x, weight, bias = random(K, rows, 4), random(K, 4, 6, seed=1), random(K, 6, seed=2) if with_bias else None
    expected = torch.stack([x[k] @ weight[k] + (bias[k] if with_bias else 0) for k in range(K)])
    inputs = [x, weight, bias] if with_bias else [x, weight]
    assert_same_gradients(member_linear(x, weight, bias), expected, inputs)
    assert_same_gradients(layers._MemberLinear.apply(x, weight, bias), expected, inputs)


@pytest.mark.parametrize(("K", "rows", "parts"), [(2, 256, 4), (2, 192, 3), (2, 100, 1), (1, 256, 1), (200, 256, 1)])
def test_the_gradient_of_weights_is_summed_in_parts(monkeypatch, K, rows, parts):
    sizes, bmm = [], torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b: (sizes.append(len(a)), bmm(a, b))[1])
    x, grad = random(K, rows, 3).detach(), random(K, rows, 5, seed=1).detach()
    torch.testing.assert_close(layers._weight_gradient(x, grad), x.mT @ grad)
    assert sizes == ([] if K == 1 else [K * parts])


@pytest.mark.parametrize("shape", [(0,), (7,), (4, 3)])
def test_small_tables_are_looked_up_like_large_ones(shape):
    table, index = random(5, 2), torch.randint(5, shape, generator=generator(3))
    assert_same_gradients(layers._SmallLookUp.apply(table, index), table[index], [table])
    assert_same_gradients(look_up(table, index), table[index], [table])


def test_sums_of_neighbours_by_hand():
    rows = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    index = torch.tensor([0, 2, 2, 3])
    starts = run_starts(index, 5)
    assert starts.tolist() == [0, 1, 1, 3, 4, 4]
    assert SumSorted.apply(rows, index, starts).flatten().tolist() == [1.0, 0.0, 110.0, 1000.0, 0.0]


@pytest.mark.parametrize("n_cells", [0, 1, 12])
def test_sorted_rows_are_taken_and_summed_with_the_right_gradients(n_cells):
    index = torch.randint(6, (n_cells,), generator=generator(4)).sort().values
    starts, table, rows = run_starts(index, 6), random(6, 3), random(n_cells, 3, seed=1)
    assert_same_gradients(TakeSorted.apply(table, index, starts), table[index], [table])
    expected = torch.zeros(6, 3, dtype=torch.float64).index_add(0, index, rows)
    assert_same_gradients(SumSorted.apply(rows, index, starts), expected, [rows])
    # As a GPU finds them, without asking it how many there are.
    assert torch.equal(torch.searchsorted(index, torch.arange(7)), starts)
