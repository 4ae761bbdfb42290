"""Speed and memory of training, as ratios measured side by side in one run: `python -m benchmarks.run`.

Times on a busy machine mean little; ratios within a run mean something. Peak memory is measured in processes of their
own, over what the loaded program takes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks.filling import at_best, made_up
from benchmarks.measure import Case, peak_memory, side_by_side

# The paper's three settings, and 512 variables: sizes at which the authors' public code was measured as well.
SIZES = ((9, 100, 256, 3), (57, 100, 15, 8), (222, 25, 32, 3), (512, 25, 32, 3))
NAIVE_FLOATS = 2e9  # the naive form holds about 12 times B M^2 d T floats: where that is too much, with fewer rows
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def table(title: str, header: list[str], rows: Iterable[list[str]]) -> None:
    """Row by row, as they are measured."""
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def mib(case: Case) -> str:
    return f"{peak_memory(case):,.0f} MiB"


def naive(seconds: float) -> None:
    """A training step against the naive form."""

    def rows() -> Iterator[list[str]]:
        for M, B, d, T in SIZES:
            most = 1e11 if DEVICE == "cuda" else NAIVE_FLOATS
            case = Case(M, max(1, min(B, int(most / (12 * M * M * d * T)))), d, T, device=DEVICE)
            cases = {
                "naive": replace(case, form="naive", record=False, steps=1),
                "factored": replace(case, form="factored", record=False, steps=1),
                "fused": case,
            }
            times = side_by_side(cases, seconds)
            ratio = f"{times['naive'] / times['fused']:.1f}x"
            yield [str(case), *(ms(time) for time in times.values()), ratio, mib(cases["naive"]), mib(cases["fused"])]

    header = ["step", "naive", "factored", "ours", "ours against naive", "memory naive", "memory ours"]
    table("A training step with backward messages, against an MLP on every pair of nodes", header, rows())


def members(seconds: float) -> None:
    """Several models side by side, against one."""

    def rows() -> Iterator[list[str]]:
        for M, B, d, T in ((9, 100, 32, 3), SIZES[0], SIZES[2]):
            one = Case(M, B, d, T, device=DEVICE)
            cases = {str(K): replace(one, members=K) for K in (1, 5, 15)}
            times = side_by_side(cases, seconds)
            ratios = [f"{times[K] / times['1']:.2f}x" for K in ("5", "15")]
            yield [str(one), *(ms(time) for time in times.values()), *ratios, mib(cases["1"]), mib(cases["15"])]

    header = ["step", "one", "5 members", "15 members", "5 : 1", "15 : 1", "memory one", "memory 15"]
    table("Members trained side by side", header, rows())


def sparse(seconds: float) -> None:
    """The same table with ever more gaps, and the same graph with ever fewer edges."""
    full = Case(40, 100, 16, 3, columns=4000, observed=1.0, stage=1, device=DEVICE)
    cases = {f"{share:.1%} observed": replace(full, observed=share) for share in (1.0, 0.1, 0.005)}
    times = side_by_side(cases, seconds)
    first = next(iter(times.values()))
    rows = [[name, ms(t), f"{first / t:.1f}x", mib(cases[name])] for name, t in times.items()]
    table(
        "4000 columns in 40 groups, 100 rows, d = 16: sparse against dense", ["cells", "step", "faster", "memory"], rows
    )
    dense = Case(222, 25, 32, 3, device=DEVICE)
    edges = {"all edges": dense, **{f"{share:.0%} present": replace(dense, present=share) for share in (0.1, 0.02)}}
    times = side_by_side(edges, seconds)
    rows = [[name, ms(t), f"{times['all edges'] / t:.1f}x", mib(edges[name])] for name, t in times.items()]
    table(f"Sparse graphs, {dense}", ["edges", "step", "faster", "memory"], rows)


def growth(seconds: float) -> None:
    """How a step grows with the number of groups and with that of rows."""

    def rows() -> Iterator[list[str]]:
        before = None
        for M in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048):
            case = Case(M, 25, 32, 3, device=DEVICE, steps=6 if M < 1024 else 1)
            time = side_by_side({"": case}, seconds / 4)[""]
            yield [str(M), ms(time), "" if before is None else f"{time / before:.2f}x", mib(case)]
            before = time

    header = ["M", "step", "growth", "memory"]
    table("A step as the number of groups doubles (B = 25, d = 32, T = 3)", header, rows())
    batch = {B: Case(40, B, 16, 3, columns=2000, observed=0.05, stage=1, device=DEVICE) for B in (50, 100, 200, 400)}
    times = side_by_side({str(B): case for B, case in batch.items()}, seconds)
    for_rows = [[B, ms(t), f"{t / int(B) * 1e6:.3g} us"] for B, t in times.items()]
    table("A step as its rows double (40 groups of 50 columns, 5 % observed)", ["B", "step", "for each row"], for_rows)

    def epochs() -> Iterator[list[str]]:
        for n_rows in (2000, 4000, 8000, 16000):
            case = Case(40, 100, 16, 3, columns=2000, observed=0.05, stage=1, device=DEVICE, steps=n_rows // 100)
            time = side_by_side({"": case}, seconds / 4)[""] * case.steps
            yield [f"{n_rows:,}", f"{time:.3g} s", f"{time / n_rows * 1e6:.3g} us", mib(case)]

    header = ["N", "epoch", "for each row", "memory"]
    table("An epoch as the number of rows doubles (the same columns, batches of 100)", header, epochs())


def processes(seconds: float) -> None:
    """One process against two, on the CPU."""
    log_size = shlex.split("--students 10000 --topics 120 --questions 2000 --answers 500000 --shards 2")
    names = shlex.split("--long --row student --column question --value correct")
    settings = shlex.split("--epochs 2 --latent-dim 16 --batch-size 500 --device cpu --force --quiet --json")

    def rows() -> Iterator[list[str]]:
        first = None
        with tempfile.TemporaryDirectory() as folder:
            log, out = f"{folder}/class", f"{folder}/model"
            _visl("simulate", "log", "--out", log, *log_size)
            for devices in ("1", "2"):
                fit = ["fit", f"{log}/log", *names, "--groups", f"{log}/topics.csv", *settings, "--out", out]
                found = json.loads(_visl(*fit, "--devices", devices))
                time, memory = found["training_seconds"], found["peak_memory"]
                first = first or time
                yield [devices, f"{time:.1f} s", f"{first / time:.2f}x", f"{memory / 2**20:,.0f} MiB"]

    title = "Two epochs of 10,000 students x 2000 questions in 120 topics, batches of 500, one thread a process"
    table(title, ["processes", "training", "faster", "memory of the first, the program included"], rows())


def gaps(seconds: float) -> None:
    """Gaps of 1000 rows, a third of the cells: drawn by networks, and drawn anew by fits of the graph."""

    def rows() -> Iterator[list[str]]:
        for D in (5, 9, 18, 30):
            task = made_up(D)
            networks, anew = (at_best(partial(task.fill, polish=polish), seconds) for polish in (False, True))
            yield [str(D), ms(task.fitting), ms(networks), ms(anew), f"{anew / networks:.1f}x"]

    header = ["columns", "fits", "networks", "drawn anew too", "ratio"]
    table("Filling the gaps of 1000 rows, 15 chains, 60 sweeps (networks that have learned nothing)", header, rows())


def _visl(*arguments: str) -> str:
    command = [sys.executable, "-m", "visl", *arguments]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread).stdout


SECTIONS: dict[str, Callable[[float], None]] = {
    "naive": naive,
    "members": members,
    "sparse": sparse,
    "growth": growth,
    "processes": processes,
    "gaps": gaps,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="time given to each comparison")
    parser.add_argument("--only", choices=list(SECTIONS), action="append", help="only this table; repeat for more")
    arguments = parser.parse_args()
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else f"{platform.processor() or platform.machine()}"
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads, {time.strftime('%Y-%m-%d')}")
    for section in arguments.only or SECTIONS:
        SECTIONS[section](arguments.seconds)


if __name__ == "__main__":
    main()
