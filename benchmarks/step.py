"""Training steps of the naive, the factored and the fused form, side by side in one run: `python benchmarks/step.py`.

The naive form is an MLP on every concatenated pair in plain PyTorch. Times on a busy machine mean little; the ratios,
each measured in turn within one run, mean something. Peak memory is that of the largest tensors, counted by hand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from visl.nets import messages
from visl.nets.kernels import cpu, plain
from visl.nets.messages import EdgeMessages, MessagePassing

# groups, rows in a batch, latent size, rounds: the paper's three settings, and 512 variables
SIZES = ((9, 100, 256, 3), (57, 100, 15, 8), (222, 25, 32, 3), (512, 25, 32, 3))


def naive_messages(self: EdgeMessages, z: Tensor, edges: Tensor) -> Tensor:
    """sum_k E[k, i] MLP([z_k, z_i]) with the MLP on every pair."""
    B, M, d = z.shape
    pairs = torch.cat([z[:, :, None].expand(B, M, M, d), z[:, None].expand(B, M, M, d)], dim=-1)
    first = torch.cat([self.from_sender, self.from_receiver])  # (2d, d)
    message = torch.relu(pairs @ first + self.hidden_bias) @ self.output + self.output_bias
    return (message * edges[None, :, :, None]).sum(1)


@contextmanager
def form(name: str) -> Iterator[None]:
    """Message passing in the named form."""
    factored, reduction = EdgeMessages.forward, messages.pairwise_relu_sum
    try:
        if name == "naive":
            EdgeMessages.forward = naive_messages  # type: ignore[method-assign]
        else:
            messages.pairwise_relu_sum = {"factored": plain, "fused": cpu}[name].pairwise_relu_sum
        yield
    finally:
        EdgeMessages.forward, messages.pairwise_relu_sum = factored, reduction  # type: ignore[method-assign]


def step(M: int, B: int, d: int, rounds: int) -> Callable[[], None]:
    """One forward and backward pass and one step of Adam, with backward messages."""
    rng = torch.Generator().manual_seed(0)
    network = MessagePassing(d, rounds, rng)
    z = torch.randn(B, M, d, generator=rng)
    edges = torch.rand(M, M, generator=rng).fill_diagonal_(0).requires_grad_()
    optimizer = torch.optim.Adam([*network.parameters(), edges], fused=True)

    def run() -> None:
        optimizer.zero_grad()
        network(z, edges, backward=True).square().mean().backward()
        optimizer.step()

    return run


def seconds(run: Callable[[], None], at_least: float) -> float:
    run()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < at_least:
        run()
        n += 1
    return (time.perf_counter() - start) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="time given to each measurement")
    parser.add_argument(
        "--largest", type=int, default=222, help="largest number of groups (naive needs B M^2 d floats)"
    )
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'M':>4} {'B':>4} {'d':>4} {'T':>2} {'naive':>10} {'factored':>16} {'fused':>16}")
    for M, B, d, rounds in SIZES:
        if arguments.largest < M:
            continue
        times = {}
        for name in ("naive", "factored", "fused"):
            with form(name):
                times[name] = seconds(step(M, B, d, rounds), arguments.seconds)
        cells = [f"{times[name] * 1e3:7.0f} ms {times['naive'] / times[name]:5.1f}x" for name in ("factored", "fused")]
        print(f"{M:4} {B:4} {d:4} {rounds:2} {times['naive'] * 1e3:7.0f} ms {cells[0]:>16} {cells[1]:>16}", flush=True)


if __name__ == "__main__":
    main()
