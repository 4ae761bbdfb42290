"""`python -m visl.experiments.worker`: runs one cell, given as JSON, in a process of its own.

So a method's memory is its own, a crash is a row, and a method that never returns is ended at the limit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from visl.experiments.design import Cell, Contender, DataSet, Row
from visl.experiments.rows import FAILED, OVER, plain, row_of

STARTING_S = 300  # to start and to load the data, beyond the method's own limit
# Cells share the cores among themselves, and their times can be compared.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
RESULT = "VISL-ROW "  # libraries print what they like before it


def run_isolated(cell: Cell, *, data: str | None, device: str, limit_s: float) -> Row:
    """The cell's row, whatever becomes of the process."""
    task = {"cell": asdict(cell), "data": data, "device": device, "limit_s": limit_s}
    environment = {**os.environ, **ONE_THREAD}
    command = [sys.executable, "-m", "visl.experiments.worker"]
    begun = time.monotonic()
    try:
        ended = subprocess.run(
            command, input=json.dumps(plain(task)), capture_output=True, text=True, env=environment, check=False,
            timeout=limit_s + STARTING_S, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return row_of(cell, OVER, limit_s=limit_s, seconds=limit_s, device=device)
    found = [line for line in ended.stdout.splitlines() if line.startswith(RESULT)]
    if found:
        row: Row = json.loads(found[-1].removeprefix(RESULT))
        return {**row, "limit_s": limit_s}
    if hasattr(signal, "SIGALRM") and ended.returncode == -signal.SIGALRM:
        return row_of(cell, OVER, limit_s=limit_s, seconds=limit_s, device=device)
    last_words = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
    spent = {"limit_s": limit_s, "seconds": time.monotonic() - begun, "device": device}
    return row_of(cell, FAILED, reason=last_words[0], **spent)


def cell_from(document: dict[str, Any]) -> Cell:
    return Cell(
        document["experiment"],
        DataSet(**document["data_set"]),
        Contender(**{**document["contender"], "only": tuple(document["contender"]["only"])}),
        document["seed"],
        document["smoke"],
    )


def main() -> None:
    task = json.load(sys.stdin)
    _end_with_parent()
    from visl.experiments import find_experiment
    from visl.experiments.cells import run_cell

    def start_clock() -> None:
        # The system ends the process at the limit, even inside a library's own loop.
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, task["limit_s"])

    cell = cell_from(task["cell"])
    data = None if task["data"] is None else Path(task["data"])
    row = run_cell(find_experiment(cell.experiment), cell, data=data, device=task["device"], on_start=start_clock)
    # On a line of its own: a library may have left one open, such as that of a progress bar.
    print("\n" + RESULT + json.dumps(plain(row)), flush=True)


def _end_with_parent() -> None:
    """Nobody waits for the row of a process whose parent has gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
