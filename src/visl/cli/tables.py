"""The table that a command is given: which of its columns are modelled, and which are only set aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from visl.cli.console import named
from visl.cli.options import LogNames
from visl.data.files import read_table
from visl.data.groups import KnownNames, Name
from visl.data.kinds import infer_kind
from visl.data.long import LongLog, read_long
from visl.data.shards import LogParts, read_parts
from visl.data.source import read_source
from visl.data.summary import MAX_LEVELS, summarise_column
from visl.errors import InputError

if TYPE_CHECKING:
    from visl.estimator import VISL
    from visl.steps import Engine


@dataclass(frozen=True)
class WideTable:
    path: Path
    frame: pd.DataFrame
    set_aside: list[Name]

    @property
    def modelled(self) -> pd.DataFrame:
        return self.frame.drop(columns=self.set_aside)

    def put_back(self, filled: pd.DataFrame) -> pd.DataFrame:
        """The whole table again, with the filled columns in their places."""
        return pd.concat([self.frame[self.set_aside], filled], axis=1)[list(self.frame.columns)]


def read_wide(path: Path, row_label: str | None, drop: Sequence[str], remembered: Iterable[Name] = ()) -> WideTable:
    """remembered: columns that the fit set aside, which this table may have as well."""
    frame = read_table(path)
    known = KnownNames(list(frame.columns), "column")
    asked = [("--id", name) for name in [row_label] if name is not None] + [("--drop", name) for name in drop]
    chosen = [known.need(name, f"{option} {name}") for option, name in asked]
    chosen += [name for name in remembered if name in frame.columns]
    table = WideTable(path, frame, list(dict.fromkeys(chosen)))
    if len(table.set_aside) == frame.shape[1]:
        raise InputError(f"{path} has no columns left to model: set fewer aside with --id and --drop")
    return table


def read_log(
    path: Path, names: LogNames, row_label: str | None, drop: Sequence[str], remembered: Iterable[Name] = ()
) -> tuple[LongLog, list[Name]]:
    """The log without the columns that are set aside, and those."""
    log = read_long(path, *_log_columns(names, row_label))
    ids = log.column_ids.tolist()
    chosen = list(dict.fromkeys([*_known(ids, drop), *(name for name in remembered if name in ids)]))
    _check_some_left(path, ids, chosen)
    return (_without(log, chosen) if chosen else log), chosen


def read_log_parts(
    path: Path, names: LogNames, row_label: str | None, drop: Sequence[str], engine: Engine
) -> tuple[LogParts, list[Name]]:
    """As `read_log`, but only the files of this process."""
    columns = _log_columns(names, row_label)
    parts = engine.agree(lambda: read_parts(path, *columns, process=engine.rank, processes=engine.world))
    own = [log.column_ids.tolist() for log in parts.logs]
    ids = list(dict.fromkeys(name for files in engine.gather(own) for log in files for name in log))
    chosen = _known(ids, drop)
    _check_some_left(path, ids, chosen)
    logs = [_without(log, chosen) for log in parts.logs] if chosen else parts.logs
    return replace(parts, logs=logs, column_ids=[name for name in ids if name not in chosen]), chosen


def _log_columns(names: LogNames, row_label: str | None) -> tuple[str, str, str, str | None]:
    if row_label is not None:
        raise InputError("--id is for wide tables: in a long log --row names the rows; leave --id out")
    return names.row, names.column, names.value, names.duplicates


def _known(ids: list[Name], drop: Sequence[str]) -> list[Name]:
    known = KnownNames(ids, "column")
    return list(dict.fromkeys(known.need(name, f"--drop {name}") for name in drop))


def _check_some_left(path: Path, ids: list[Name], chosen: list[Name]) -> None:
    if len(chosen) == len(ids):
        raise InputError(f"{path} has no columns left to model: leave out fewer with --drop")


def _without(log: LongLog, names: list[Name]) -> LongLog:
    kept = ~np.isin(log.column_ids, np.array(names, log.column_ids.dtype))
    position = np.cumsum(kept) - 1
    cells = kept[log.column]
    return replace(
        log,
        column_ids=log.column_ids[kept],
        row=log.row[cells],
        column=position[log.column[cells]].astype(np.int32),
        values=log.values[cells],
    )


def check_labels(table: WideTable, kinds: Iterable[Name]) -> list[str]:
    """Refuse text columns that can only be labels; notices on numbers that look like them."""
    frame, notices = table.modelled.drop(columns=list(kinds)), []
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_string_dtype(column) and column.nunique() > MAX_LEVELS:
            # Numbers gone wrong have an error of their own.
            infer_kind(summarise_column(read_source(frame[[name]]).columns[0]))
            raise InputError(
                f"column {name!r} holds {column.nunique()} different texts such as {column.dropna().iloc[0]!r}: if it "
                f"labels the rows pass --id {name}, if it is free text --drop {name}, if it really is a category "
                f"--kind {name}=categorical"
            )
        if _counts_rows(column):
            notices.append(f"column {name!r} counts the rows: if it is only their label, set it aside with --id {name}")
    return notices


def _counts_rows(column: pd.Series[Any]) -> bool:
    if not pd.api.types.is_integer_dtype(column) or len(column) < 10 or column.isna().any():
        return False
    return bool((column.diff().dropna() == 1).all())


def for_model(model: VISL, table: WideTable) -> pd.DataFrame:
    """The modelled columns, checked against those of the fit, in words of the command line."""
    frame = table.modelled
    unknown = [name for name in frame.columns if name not in model.columns_]
    if unknown:
        options = " ".join(f"--drop {name}" for name in unknown[:3])
        raise InputError(
            f"{table.path} has the {named('column', unknown)}, which the model does not know: set aside what it is not "
            f"to use with {options}"
        )
    missing = [name for name in model.columns_ if name not in frame.columns]
    if missing:
        raise InputError(
            f"{table.path} lacks the {named('column', missing)}, which the model was fitted with: "
            "add what is lacking, with empty cells where it is not known"
        )
    return frame
