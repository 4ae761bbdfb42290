"""All cells of an experiment, in parallel, each finished one a row on disk; an interrupted run goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from visl.errors import InputError
from visl.experiments.cells import let_go, run_cell
from visl.experiments.design import Cell, Experiment, Row
from visl.experiments.methods import INSTALL, METHODS, is_installed
from visl.experiments.rows import OVER, append_row, over_the_limit_at, read_rows, row_of, rows_file, settled
from visl.experiments.together import METHOD as TOGETHER
from visl.experiments.together import groups, run_together
from visl.experiments.worker import run_isolated

LIMIT_S = 30 * 60.0
BACKENDS = ("loky", "threading", "dask", "ray")


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

    def device_of(self, cell: Cell) -> str:
        return self.device if METHODS[cell.contender.method].on_gpu else "cpu"

    def shares_a_model(self, cell: Cell) -> bool:
        """Whether it is trained in this process, side by side with others."""
        return self.device != "cpu" and cell.contender.method == TOGETHER


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
    if experiment.download is not None:
        for data_set in {experiment.files_of(cell.data_set): cell.data_set for cell in cells}.values():
            experiment.load(data_set, data)
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
    kept = _Kept(rows_file(folder, experiment.name), how, on_row)
    todo = [cell for cell in cells if not kept.settles(cell)]
    on_start(len(cells) - len(todo), len(cells))
    for group in groups([cell for cell in todo if how.shares_a_model(cell)]):  # in the order of sizes
        worth = list(kept.worth_trying(group))
        for row in run_together(
            experiment, worth, data=how.data, device=how.device, limit_s=how.limit_s, worth_trying=kept.worth_trying
        ):
            kept.keep(row)
    let_go(how.device)
    rest = [cell for cell in todo if not how.shares_a_model(cell)]
    for row in _in_parallel(experiment, kept.worth_trying(rest), how):
        kept.keep(row)
    return kept.of(cells)


class _Kept:
    """The rows on disk, to which other runs may append theirs."""

    def __init__(self, file: Path, how: How, on_row: Callable[[Row], None]) -> None:
        self.file, self.how, self.on_row = file, how, on_row
        self._one_at_a_time = threading.RLock()  # joblib draws cells in threads of its own
        self._rows: list[Row] = []
        self._known: dict[str, dict[str, Row]] = {}  # settled cells, by device
        self._size = 0  # of the file when it was as the rows are
        self._reread()

    def keep(self, row: Row) -> None:
        with self._one_at_a_time:
            self._size += append_row(self.file, row)
            self._rows.append(row)
            self.on_row(row)

    def settles(self, cell: Cell) -> Row | None:
        """The row by which the cell need not run."""
        return self._known[self.how.device_of(cell)].get(cell.key)

    def worth_trying(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        """Those that no other run has settled meanwhile, and whose method was not over the limit on data sets of that
        size or smaller: a row says that they were not tried.

        The cells are drawn from here as workers become free, so the rows are those that have arrived by then.
        """
        for cell in cells:
            if self._is_worth_trying(cell):
                yield cell

    def of(self, cells: Sequence[Cell]) -> list[Row]:
        """The last row of each cell, or the one that settles it."""
        last = {row["key"]: row for row in self._rows}
        found = [self.settles(cell) or last.get(cell.key) for cell in cells]
        return [row for row in found if row is not None]

    def _is_worth_trying(self, cell: Cell) -> bool:
        limit_s, device = self.how.limit_s, self.how.device_of(cell)
        with self._one_at_a_time:
            self._reread()
            if row := self.settles(cell):
                self.on_row(row)
                return False
            earlier = over_the_limit_at(self._rows, cell, limit_s, device)
            if earlier is None:
                return True
            reason = f"not tried: {earlier['data_set']} was over"
            self.keep(row_of(cell, OVER, limit_s=limit_s, seconds=None, device=device, reason=reason))
            return False

    def _reread(self) -> None:
        """Only if another run has written."""
        size = self.file.stat().st_size if self.file.exists() else 0
        if size != self._size or not self._known:
            self._rows, self._size = read_rows(self.file), size
            self._known = {at: settled(self._rows, self.how.limit_s, at) for at in ("cpu", self.how.device)}


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


def _in_parallel(experiment: Experiment, cells: Iterator[Cell], how: How) -> Iterator[Row]:
    if not how.isolated:
        for cell in cells:
            yield {**run_cell(experiment, cell, data=how.data, device=how.device_of(cell)), "limit_s": how.limit_s}
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    data = None if how.data is None else str(how.data.resolve())
    calls = (delayed(run_isolated)(cell, data=data, device=how.device_of(cell), limit_s=how.limit_s) for cell in cells)
    with _backend(how):
        if get_active_backend()[0].supports_return_generator:
            pool = Parallel(n_jobs=how.jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
            yield from pool(calls)
        else:  # Ray's: in rounds, so that rows are kept on the way
            while some := list(islice(calls, how.jobs)):
                yield from Parallel(n_jobs=how.jobs)(some)


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
