"""From a model and a table with gaps to files without them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from visl.cli.console import named
from visl.cli.options import LogNames
from visl.cli.tables import for_model, read_log, read_wide
from visl.data.files import format_of, write_table
from visl.data.long import LongLog, find_ids, read_cells
from visl.data.outputs import check_output, claim
from visl.errors import InputError
from visl.estimator import VISL

MOST_PAIRS = 20_000_000  # of a long log that are filled without being asked for one by one


def read_model(folder: Path) -> VISL:
    return VISL.load(folder)


def refuse_same_file(out: Path, inputs: Sequence[Path | None]) -> None:
    """Even with --force: a table that replaces its own source cannot be checked any more."""
    for path in inputs:
        if path is not None and os.path.realpath(path) == os.path.realpath(out):
            raise InputError(f"the output {out} is an input too, which is never overwritten: choose another --out")


@contextmanager
def check_targets(
    out: Path, interval: float | None, *, inputs: Sequence[Path | None], force: bool
) -> Iterator[list[Path]]:
    """The files to write, which nobody else writes meanwhile."""
    suffix = format_of(out)
    stem = str(out)[: -len(suffix)]
    ending = str(out)[-len(suffix) :]
    targets = [out] if interval is None else [Path(f"{stem}-{end}{ending}") for end in ("lower", "upper")]
    with ExitStack() as claims:
        for target in targets:
            refuse_same_file(target, inputs)
            check_output(target, force)
            claims.enter_context(claim(target))
        yield targets


def fill_wide(
    model: VISL,
    path: Path,
    targets: Sequence[Path],
    draws: int | None,
    interval: float | None,
    row_label: str | None,
    drop: Sequence[str],
    *,
    force: bool,
) -> dict[str, Any]:
    table = read_wide(path, row_label, drop, model.set_aside_)
    X = for_model(model, table)
    if draws is not None:
        results = [_stacked([table.put_back(frame) for frame in model.sample(X, draws)])]
    elif interval is not None:
        results = [table.put_back(frame) for frame in model.predict_interval(X, interval)]
    else:
        results = [table.put_back(model.transform(X))]
    _write_all(results, targets, force=force)
    before, after = _n_gaps(X), _n_gaps(results[0].head(len(X))[list(X.columns)])
    return {"rows": len(X), "filled": before - after, "left": after}


def fill_log(
    model: VISL,
    path: Path,
    targets: Sequence[Path],
    names: LogNames,
    cells: Path | None,
    row_label: str | None,
    drop: Sequence[str],
    *,
    force: bool,
) -> dict[str, Any]:
    log, _ = read_log(path, names, row_label, drop, model.set_aside_)
    _refuse_unknown(model, log, path)
    rows, columns = read_cells(cells, names.row, names.column) if cells is not None else _missing_pairs(model, log)
    filled = model.predict_cells(log, rows, columns)
    _write_all([filled], targets, force=force)
    return {"rows": len(pd.unique(filled[names.row])), "filled": len(filled), "left": 0}


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    if "draw" in frames[0].columns:
        raise InputError("the table has a column 'draw' of its own, the name that --draws adds: rename it")
    for number, frame in enumerate(frames, start=1):
        frame.insert(0, "draw", number)
    plain_index = isinstance(frames[0].index, pd.RangeIndex)
    return pd.concat(frames, ignore_index=plain_index)


def _write_all(frames: Sequence[pd.DataFrame], targets: Sequence[Path], *, force: bool) -> None:
    """All or, as far as they are new, none."""
    new = [target for target in targets if not os.path.lexists(target)]
    written: list[Path] = []
    try:
        for frame, target in zip(frames, targets, strict=True):
            write_table(frame, target, force)
            written.append(target)
    except BaseException:
        for target in written:
            if target in new:
                target.unlink(missing_ok=True)
        raise


def _n_gaps(frame: pd.DataFrame) -> int:
    return int(frame.isna().to_numpy().sum())


def _refuse_unknown(model: VISL, log: LongLog, path: Path) -> None:
    at = find_ids(np.array(model.columns_, object), log.column_ids)
    unknown = log.column_ids[at < 0].tolist()
    if unknown:
        raise InputError(
            f"{path} has the {named(log.column_name, unknown)}, which the model does not know: leave out what it is "
            f"not to use with {' '.join(f'--drop {name}' for name in unknown[:3])}"
        )


def _missing_pairs(model: VISL, log: LongLog) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every pair of a row of the log and a column of the model that has no value."""
    columns = np.empty(len(model.columns_), object)
    columns[:] = model.columns_
    total = len(log.row_ids) * len(columns)
    if total - log.n_cells > MOST_PAIRS:
        raise InputError(
            f"{total - log.n_cells:,} pairs are missing, more than {MOST_PAIRS:,} would be filled at once: list those "
            f"you need in a file with the columns {log.row_name} and {log.column_name}, and pass it as --cells"
        )
    missing = np.ones(total, bool)
    position = find_ids(columns, log.column_ids)  # of the log's columns among the model's
    missing[log.row * len(columns) + position[log.column]] = False
    rows, at = np.divmod(np.flatnonzero(missing), len(columns))
    return log.row_ids[rows], columns[at]
