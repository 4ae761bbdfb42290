"""All cells of an experiment, in parallel, each finished one a row on disk; an interrupted run goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from visl.errors import InputError
from visl.experiments.cells import run_cell
from visl.experiments.design import Cell, Experiment, Row
from visl.experiments.methods import INSTALL, is_installed
from visl.experiments.rows import OVER, append_row, over_the_limit_at, read_rows, row_of, rows_file, settled
from visl.experiments.together import run_together
from visl.experiments.worker import run_isolated

LIMIT_S = 30 * 60.0
BACKENDS = ("loky", "threading", "dask", "ray")
# Methods that a GPU serves in this process, where cells of VISL are trained side by side, or in processes of their own.
ON_GPU, ALONE_ON_GPU = ("visl", "pvae", "dag_gnn_groups"), ("notears_nonlinear", "dag_gnn")


@dataclass(frozen=True)
class How:
    """Where and how cells run."""

    data: Path | None = None
    device: str = "cpu"
    limit_s: float = LIMIT_S
    jobs: int = 1
    backend: str = "loky"
    scheduler: str | None = None  # address of a running Dask scheduler or Ray cluster
    isolated: bool = True  # each cell in a process of its own, ended at the limit


def plan(
    experiment: Experiment,
    data: Path | None,
    *,
    smoke: bool = False,
    contenders: Sequence[str] | None = None,
    data_sets: Sequence[str] | None = None,
    on_notice: Callable[[str], None] = lambda text: None,
) -> list[Cell]:
    """The cells to run. What is unknown or not there is an error now, before hours of work."""
    cells = _chosen(experiment.cells(smoke=smoke, contenders=contenders), data_sets)
    cells = _installed(cells, contenders, on_notice)
    if cells and experiment.download is not None:
        experiment.load(cells[0].data_set, data)
    return cells


def run_experiment(
    experiment: Experiment,
    cells: Sequence[Cell],
    folder: Path,
    how: How,
    *,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """The rows of all these cells, those of earlier runs too.  on_start: (cells already settled, cells in all)"""
    file = rows_file(folder, experiment.name)
    rows = read_rows(file)
    known = settled(rows, how.limit_s)
    todo = [cell for cell in cells if cell.key not in known]
    on_start(len(cells) - len(todo), len(cells))

    one_at_a_time = threading.Lock()  # joblib draws cells, some of which are settled by that, in threads of its own

    def keep(row: Row) -> None:
        with one_at_a_time:
            append_row(file, row)
            rows.append(row)
            on_row(row)

    on_gpu = [cell for cell in todo if how.device != "cpu" and cell.contender.method in ON_GPU]
    for _, of_size in groupby(on_gpu, key=lambda cell: cell.data_set.size):  # in the order of sizes
        worth = list(_worth_trying(list(of_size), rows, how.limit_s, keep))
        for row in run_together(experiment, worth, data=how.data, device=how.device, limit_s=how.limit_s):
            keep(row)
    rest = [cell for cell in todo if cell not in on_gpu]
    for row in _in_parallel(experiment, _worth_trying(rest, rows, how.limit_s, keep), how):
        keep(row)
    keys = {cell.key for cell in cells}
    last = {row["key"]: row for row in rows if row["key"] in keys}
    return [last[cell.key] for cell in cells if cell.key in last]


def _chosen(cells: list[Cell], data_sets: Sequence[str] | None) -> list[Cell]:
    if data_sets is None:
        return cells
    known = list(dict.fromkeys(cell.data_set.name for cell in cells))
    for name in data_sets:
        if name not in known:
            raise InputError(
                f"{name!r} is no data set of the experiment {cells[0].experiment}: use any of "
                + ", ".join(map(repr, known))
            )
    return [cell for cell in cells if cell.data_set.name in data_sets]


def _installed(cells: list[Cell], named: Sequence[str] | None, on_notice: Callable[[str], None]) -> list[Cell]:
    """Methods whose library is not there are left out, unless the user asked for them by name."""
    lacking = list(dict.fromkeys(c.contender.name for c in cells if not is_installed(c.contender.method)))
    if lacking and named is not None:
        raise InputError(f"libraries are not installed for {', '.join(lacking)}: {INSTALL}")
    if lacking:
        on_notice(f"left out, for want of their libraries: {', '.join(lacking)}. {INSTALL}")
    return [cell for cell in cells if cell.contender.name not in lacking]


def _worth_trying(
    cells: Sequence[Cell], rows: Sequence[Row], limit_s: float, keep: Callable[[Row], None]
) -> Iterator[Cell]:
    """A method that was over the limit is not tried on data sets of that size or larger: its row says why.

    The cells are drawn from here as workers become free, so the rows are those that have arrived by then.
    """
    for cell in cells:
        earlier = over_the_limit_at(rows, cell, limit_s)
        if earlier is None:
            yield cell
        else:
            keep(row_of(cell, OVER, limit_s=limit_s, seconds=None, reason=f"not tried: {earlier['data_set']} was over"))


def _in_parallel(experiment: Experiment, cells: Iterator[Cell], how: How) -> Iterator[Row]:
    if not how.isolated:
        for cell in cells:
            yield {**run_cell(experiment, cell, data=how.data, device="cpu"), "limit_s": how.limit_s}
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    data = None if how.data is None else str(how.data.resolve())
    calls = (delayed(run_isolated)(cell, data=data, device=_device(cell, how), limit_s=how.limit_s) for cell in cells)
    with _backend(how):
        if get_active_backend()[0].supports_return_generator:
            pool = Parallel(n_jobs=how.jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
            yield from pool(calls)
        else:  # Ray's: in rounds, so that rows are kept on the way
            while some := list(islice(calls, how.jobs)):
                yield from Parallel(n_jobs=how.jobs)(some)


def _device(cell: Cell, how: How) -> str:
    return how.device if cell.contender.method in ALONE_ON_GPU else "cpu"


@contextmanager
def _backend(how: How) -> Iterator[None]:
    """joblib's own processes, or those of a cluster through the backend that its library registers."""
    from joblib import parallel_config

    if how.backend == "dask":
        with _dask_client(how), parallel_config(backend="dask"):
            yield
        return
    if how.backend == "ray":
        _connect_ray(how)
    with parallel_config(backend=how.backend, n_jobs=how.jobs):
        yield


def _dask_client(how: How) -> Any:
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise InputError("the Dask backend needs dask: pip install 'visl[dask]'") from error
    if how.scheduler is not None:
        return Client(how.scheduler)
    return Client(n_workers=how.jobs, threads_per_worker=1)


def _connect_ray(how: How) -> None:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise InputError("the Ray backend needs ray: pip install 'visl[ray]'") from error
    ray.init(address=how.scheduler, ignore_reinit_error=True, num_cpus=None if how.scheduler else how.jobs)
    register_ray()
