"""The GPU's kernels on a real GPU, by hand: `PYTHONPATH=src python benchmarks/gpu_kernel.py [--try [M ...]]`.

First the largest differences from the plain form, relative to the largest value; it stops if one is too large. Then
milliseconds of each part of a call, all in CUDA graphs: prepare (the edges), forward, the gradient of the nodes and of
the edges, and all of them in one call through autograd, each beside the time the arithmetic alone would take, and the
peak of the memory beside what the output and the gradients hold. With --try, sizes of blocks are timed instead, which
takes some minutes; each line is one size (own nodes x features, pairs in flight, warps), a star marks the rules' own.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from visl.nets.kernels import gpu, plain

Shape = tuple[int, int, int, int, int]  # R, B, M, W, h
CHECKED: list[Shape] = [
    (1, 1, 1, 1, 1), (3, 4, 9, 2, 256), (2, 10, 57, 2, 15), (1, 5, 100, 1, 33), (1, 3, 128, 2, 16), (2, 3, 222, 2, 32),
    (1, 2, 300, 1, 17), (1, 1, 512, 2, 64),
]  # fmt: skip
TIMED: list[Shape] = [
    (1, 100, 9, 2, 256), (15, 100, 9, 2, 256), (1, 100, 57, 2, 15), (1, 25, 222, 2, 32), (1, 25, 512, 2, 32),
    (1, 25, 2048, 2, 32), (1, 100, 388, 1, 16),
]  # fmt: skip
TRIED: list[Shape] = [(15, 100, 9, 2, 256), (1, 100, 57, 2, 15), (1, 25, 222, 2, 32), (1, 25, 512, 2, 32)]
PARTS = {"forward": 3, "nodes": 5, "edges": 3}  # instructions for each pair and feature


def inputs(shape: Shape, share: float, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """nodes, edges, and the gradient of the output"""
    R, B, M, W, h = shape
    rng = torch.Generator("cuda").manual_seed(0)
    nodes = torch.randn(R, B, M, W, 2, h, generator=rng, device="cuda", dtype=dtype)
    edges = torch.rand(R, M, M, generator=rng, device="cuda", dtype=dtype) + 0.1
    edges = edges * (torch.rand(R, M, M, generator=rng, device="cuda") < share)
    grad = torch.randn(R, B, M, W, h, generator=rng, device="cuda", dtype=dtype)
    return nodes.requires_grad_(), edges.requires_grad_(), grad


def check(shape: Shape, share: float, dtype: torch.dtype) -> None:
    nodes, edges, grad = inputs(shape, share, dtype)
    results = []
    for kernel in (gpu, plain, gpu):
        out = kernel.pairwise_relu_sum(nodes, edges)
        results.append([out, *torch.autograd.grad(out, (nodes, edges), grad)])
    pairs = list(zip(results[0], results[1], strict=True))
    errors = [
        ((ours - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item() for ours, expected in pairs
    ]
    same = all(torch.equal(first, second) for first, second in zip(results[0], results[2], strict=True))
    absent = bool((results[0][2][edges == 0] == 0).all())
    print(f"{shape!s:24} {share:4.0%} {str(dtype)[6:]:8}", *(f"{error:8.1e}" for error in errors), same, absent)
    assert max(errors) < (1e-12 if dtype == torch.float64 else 2e-5), "too far from the plain form"
    assert same, "differs from run to run"
    assert absent, "an absent edge has a gradient"


def check_infinite(M: int) -> None:
    """What is sent over absent edges does not arrive."""
    nodes, edges, _ = inputs((1, 3, M, 2, 16), 0.5)
    with torch.no_grad():
        nodes[:, :, 1], edges[:, 1], edges[:, :, 1] = float("inf"), 0.0, 0.0
        out = gpu.pairwise_relu_sum(nodes, edges)
    others = [i for i in range(M) if i != 1]
    assert out[:, :, others].isfinite().all(), "something came through an absent edge"


def milliseconds(run: Callable[[], object], repeats: int = 20) -> float:
    """The median over replays of a graph of some runs, for one run."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            run()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 10)
    return statistics.median(times)


def parts(shape: Shape, share: float) -> dict[str, Callable[[], object]]:
    nodes, edges, grad = inputs(shape, share)
    prepared = gpu.prepare(edges)
    plain_nodes = nodes.detach()

    def whole() -> object:
        return torch.autograd.grad(gpu.pairwise_relu_sum(nodes, edges), (nodes, edges), grad)

    return {
        "prepare": lambda: gpu.prepare(edges),
        "forward": lambda: gpu._forward(plain_nodes, prepared),
        "nodes": lambda: gpu._nodes_gradient(plain_nodes, grad, prepared),
        "edges": lambda: gpu._edges_gradient(plain_nodes, grad, edges, prepared),
        "whole": whole,
    }


def limit(shape: Shape, share: float, instructions: int) -> float:
    """Milliseconds if every lane of the GPU did nothing but the arithmetic of present edges."""
    R, B, M, W, h = shape
    device = torch.cuda.get_device_properties(0)
    clock = getattr(device, "clock_rate", 1_980_000) * 1e3
    pairs = R * B * M * M * W * h * share
    return 1e3 * pairs * instructions / (device.multi_processor_count * 128 * clock)


def time_shape(shape: Shape, share: float) -> None:
    runs = parts(shape, share)
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = runs["whole"]()
    peak = torch.cuda.max_memory_allocated() - held
    R, B, M, W, h = shape
    gradients = 4 * (3 * R * B * M * W * h + R * M * M)  # the output's size and the gradients'
    del result
    shown = [f"{shape!s:24} {share:4.0%}"]
    for name, run in runs.items():
        least = PARTS.get(name, sum(PARTS.values()) if name == "whole" else 0)
        shown.append(f"{milliseconds(run):8.4f}" + (f" ({limit(shape, share, least):.4f})" if least else ""))
    print(*shown, f"{peak / 2**20:8.1f} MiB ({gradients / 2**20:.1f})")


def candidates(shape: Shape, part: str) -> Iterator[gpu.Blocks]:
    _, _, M, _, h = shape
    few, whole = part == "edges" and M <= gpu.FEW, max(16, gpu._power(M))
    for own, warps, unroll in itertools.product((16, 32, 64, 128), (1, 2, 4, 8), (1,) if few else (2, 4)):
        sizes = (own, own // 2) if part == "edges" and not few else (gpu._power(min(h, 32)), gpu._power(min(h, 64)))
        for other in sorted(set(sizes)):
            each = own * other / (32 * warps)  # of a thread
            fits = own == whole if few else min(32, whole) <= own <= whole
            if fits and 8 <= each <= 32 and max(own, other) < 32 * warps:
                yield gpu.Blocks(own, other, unroll, warps)


def try_blocks(shape: Shape, part: str) -> None:
    """The fastest blocks, and those of the rules marked with a star."""
    rule = "few_blocks" if part == "edges" and shape[2] <= gpu.FEW else f"{part}_blocks"
    rule = {"nodes_blocks": "backward_blocks", "edges_blocks": "edge_blocks"}.get(rule, rule)
    ours = getattr(gpu, rule)
    chosen, times = ours(shape[2], shape[4]), {}
    for blocks in {chosen: None} | dict.fromkeys(candidates(shape, part)):
        setattr(gpu, rule, lambda M, h, blocks=blocks: blocks)
        try:
            times[blocks] = milliseconds(parts(shape, 1.0)[part])
        except Exception as error:  # a size the compiler refuses is a result too
            print(shape, part, blocks, type(error).__name__, str(error)[:80])
        finally:
            setattr(gpu, rule, ours)
    best = sorted(times, key=times.__getitem__)
    for blocks in dict.fromkeys([*best[:5], chosen]):
        size = f"{blocks.own}x{blocks.features} u{blocks.unroll} w{blocks.warps}"
        print(
            f"{shape!s:24} {part:8} {size:16} {times.get(blocks, float('nan')):8.4f}{' *' if blocks == chosen else ''}"
        )


def try_shares(shape: Shape) -> None:
    """From which share of present edges on a block should be dense: everything as lists, everything dense."""
    before = gpu.DENSE_SHARE
    for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
        times = []
        for setting in (0, 1000):
            gpu.DENSE_SHARE = setting
            runs = parts(shape, share)
            times += [milliseconds(runs[part]) for part in PARTS]
        gpu.DENSE_SHARE = before
        print(
            f"{shape!s:24} {share:4.0%} lists",
            *(f"{t:8.4f}" for t in times[:3]),
            "dense",
            *(f"{t:8.4f}" for t in times[3:]),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--try", dest="trying", nargs="*", type=int, help="time sizes of blocks (for these M only)")
    trying = parser.parse_args().trying
    torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "triton", gpu.triton.__version__)
    if trying is not None:
        for shape, part in itertools.product(TRIED, PARTS):
            if not trying or shape[2] in trying:
                try_blocks(shape, part)
        if not trying or 512 in trying:
            try_shares((1, 25, 512, 2, 32))
        return
    print(
        "(R, B, M, W, h), edges, type, errors of output, of the nodes' and edges' gradients; same twice; absent are 0"
    )
    for shape, share in itertools.product(CHECKED, (1.0, 0.3, 0.02)):
        check(shape, share, torch.float32)
    for shape in CHECKED[:6]:
        check(shape, 0.3, torch.float64)
    for M in (9, 57, 100, 222):
        check_infinite(M)
    print(
        "(R, B, M, W, h), edges; ms (arithmetic alone) of prepare, forward, nodes, edges, whole; peak memory (results)"
    )
    for shape, share in itertools.product(TIMED, (1.0, 0.02)):
        time_shape(shape, share)


if __name__ == "__main__":
    main()
