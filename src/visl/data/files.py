"""Tables from and to disk: CSV, TSV, Parquet, Feather."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from visl.data.outputs import PathLike, write_whole
from visl.errors import InputError

# What stands for a gap in a text file. Not "None": that is a level of many a questionnaire.
GAPS = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
ARROW_READERS: dict[str, Callable[..., pa.Table]] = {}  # filled below
SUFFIXES = (*SEPARATORS, ".parquet", ".feather")

# From 3.1 on pandas always reads the nearest number, and warns of the option.
_EXACT_FLOATS: dict[str, Any] = (
    {"float_precision": "round_trip"} if tuple(map(int, re.findall(r"\d+", pd.__version__)[:2])) < (3, 1) else {}
)


def read_table(path: PathLike) -> pd.DataFrame:
    """The table in a file; integers with gaps stay integers, and Parquet and Feather keep their types."""
    suffix = check_input(path)
    frame = _read_csv(path) if suffix in SEPARATORS else _read_arrow(path, suffix)
    if frame.shape[1] == 0:
        raise InputError(f"{path} has no columns: choose a file with a table in it")
    if len(frame) == 0:
        raise InputError(f"{path} has no rows, only names of columns: choose a file with data in it")
    return frame


def write_table(frame: pd.DataFrame, path: PathLike, force: bool = False) -> None:
    """Write a table whole or not at all, in the format of the name's suffix; a gap is an empty cell in text."""
    suffix = format_of(path)
    if suffix in SEPARATORS:
        write_whole(path, partial(_write_csv, frame, suffix), force)
        return
    try:
        table = pa.Table.from_pandas(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(f"could not write {path}: {error}; write .csv instead") from error
    write = pq.write_table if suffix == ".parquet" else feather.write_feather
    write_whole(path, lambda temporary: write(table, str(temporary)), force)


def format_of(path: PathLike) -> str:
    """The suffix, one of SUFFIXES."""
    name = Path(path).name.lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise InputError(f"{path}: unknown kind of file: use one of {', '.join(SUFFIXES)}")


def check_input(path: PathLike) -> str:
    """The suffix of a file that can be read."""
    check_file(path)
    return format_of(path)


def check_file(path: PathLike) -> None:
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{path} is a folder: name a file in it (a long log, with --long, may be a folder)")
    if not file.exists():
        raise InputError(f"file {path} does not exist: check its name and folder")
    try:
        with file.open("rb") as handle:
            is_empty = not handle.read(1)
    except OSError as error:
        raise InputError(f"could not read {path}: {error.strerror or error}") from error
    if is_empty:
        raise InputError(f"{path} is empty: choose a file with data in it")


def read_json(path: PathLike) -> Any:
    """The content of a JSON file in which no object names a key twice."""

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if repeated:
            raise InputError(f"{path}: {repeated[0]!r} is listed twice: keep one of them")
        return dict(pairs)

    check_file(path)
    try:
        return json.loads(Path(path).read_text("utf-8-sig"), object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}, is not JSON ({error.msg}): correct it") from error
    except UnicodeDecodeError as error:
        raise _not_text(path, error) from error
    except (OSError, RecursionError) as error:
        raise InputError(f"could not read {path}: {error}") from error


def csv_records(path: PathLike) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every record of a text file that is not blank, the header first.

    Every record has as many cells as the header: pandas would fill a short one with gaps.
    """
    suffix = check_input(path)
    if suffix not in SEPARATORS:
        raise InputError(f"{path}: a text table is needed here: use one of {', '.join(SEPARATORS)}")
    n_cells = 0
    try:
        with _open_text(path, suffix) as handle:
            reader = csv.reader(_checked_lines(handle, path), delimiter=SEPARATORS[suffix])
            for cells in reader:
                n_cells = n_cells or len(cells)
                if not n_cells:
                    raise InputError(f"{path}, line 1 is blank: it must hold the names of the columns")
                if cells and reader.line_num == 1 and len(cells) == 1 and ";" in cells[0]:
                    raise InputError(
                        f"{path} has semicolons between its columns: save it with commas instead, and numbers with "
                        "decimal points"
                    )
                if len(cells) == n_cells:
                    yield reader.line_num, cells
                elif cells and not (len(cells) == 1 and cells[0].isspace()):
                    raise _ragged(path, reader.line_num, len(cells), n_cells)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}: is a quote left open?") from error
    except UnicodeDecodeError as error:
        raise _not_text(path, error) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"could not read {path}: {error}") from error


def check_names(path: PathLike, names: Sequence[Any]) -> None:
    """Refuse blank and repeated names of columns."""
    for position, name in enumerate(names, start=1):
        if isinstance(name, str) and not name.strip():
            raise InputError(
                f"{path}: column {position} has no name: name it or remove it "
                "(a table saved by pandas with its index has one: save it with index=False)"
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: more than one column is named {_listed(repeated)}: rename or remove all but one")


def arrow_table(path: PathLike, suffix: str, columns: list[str] | None = None) -> pa.Table:
    """A Parquet or Feather file, or only some of its columns."""
    try:
        return ARROW_READERS[suffix](str(path), columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as {suffix[1:].capitalize()}: {_first_line(error)}") from error


def arrow_names(path: PathLike, suffix: str) -> list[str]:
    """Names of the columns of a Parquet or Feather file, without its data."""
    return list(arrow_schema(path, suffix).names)


def arrow_schema(path: PathLike, suffix: str) -> pa.Schema:
    """Names and types of the columns of a Parquet or Feather file, without its data."""
    try:
        if suffix == ".parquet":
            return pq.read_schema(str(path))
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as {suffix[1:].capitalize()}: {_first_line(error)}") from error


def _read_csv(path: PathLike) -> pd.DataFrame:
    records = csv_records(path)
    _, header = next(records)
    check_names(path, header)
    for _ in records:  # to the end, for the checks
        pass
    try:
        return pd.read_csv(
            path,
            sep=SEPARATORS[format_of(path)],
            header=0,
            names=header,
            index_col=False,
            encoding="utf-8-sig",
            dtype_backend="numpy_nullable",
            keep_default_na=False,
            na_values=list(GAPS),
            low_memory=False,  # one type for a whole column
            skip_blank_lines=len(header) > 1,  # in a single column a blank line is a gap
            **_EXACT_FLOATS,
        )
    except (ValueError, OverflowError, OSError) as error:  # ParserError and UnicodeDecodeError are ValueErrors
        raise InputError(f"could not read {path}: {_first_line(error)}") from error


def _write_csv(frame: pd.DataFrame, suffix: str, temporary: Path) -> None:
    with temporary.open("wb") as file, _packed(file, suffix) as target:
        frame.to_csv(
            target,
            sep=SEPARATORS[suffix],
            index=any(name is not None for name in frame.index.names),
            encoding="utf-8",
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if _has_carriage_return(frame) else csv.QUOTE_MINIMAL,
        )


def _packed(file: BinaryIO, suffix: str) -> AbstractContextManager[Any]:
    # Without name and time in its header, equal tables give equal files.
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0) if suffix.endswith(".gz") else nullcontext(file)


def _has_carriage_return(frame: pd.DataFrame) -> bool:
    """Left unquoted by the csv module of Python 3.11, it would read as the end of a line."""
    table = frame.reset_index()
    if any("\r" in str(name) for name in table.columns):
        return True
    texts = (table.iloc[:, i] for i in range(table.shape[1]) if not pd.api.types.is_numeric_dtype(table.dtypes.iloc[i]))
    return any("\r" in value for text in texts for value in text.dropna().astype(str).unique())


def _read_arrow(path: PathLike, suffix: str) -> pd.DataFrame:
    table = arrow_table(path, suffix)
    check_names(path, table.column_names)
    try:
        frame = table.to_pandas()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(f"could not read {path}: {_first_line(error)}") from error
    for label, name in _labels(frame, table):
        stored = table[name]
        # Without pandas' own notes in the file, as from Polars, an integer with gaps would come as a float.
        if stored.null_count and stored.type in _NULLABLE and not pd.api.types.is_extension_array_dtype(frame[label]):
            frame[label] = stored.to_pandas(types_mapper=_NULLABLE.get).set_axis(frame.index)
    return frame


def _labels(frame: pd.DataFrame, table: pa.Table) -> Iterator[tuple[Any, str]]:
    """Each column's name in the frame, where it may be a number, and in the table."""
    names = set(table.column_names)
    return ((label, str(label)) for label in frame.columns if str(label) in names)


_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def _read_parquet(path: str, columns: list[str] | None) -> pa.Table:
    # Not read_table: that one makes columns of folders named like key=value.
    with pq.ParquetFile(path) as file:
        return file.read(columns=columns)


def _read_feather(path: str, columns: list[str] | None) -> pa.Table:
    return feather.read_table(path, columns=columns)


ARROW_READERS |= {".parquet": _read_parquet, ".feather": _read_feather}


def _open_text(path: PathLike, suffix: str) -> TextIO:
    if suffix.endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path, "rb"), "utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _checked_lines(handle: TextIO, path: PathLike) -> Iterator[str]:
    for number, line in enumerate(handle, start=1):
        if "\0" in line:
            raise InputError(f"{path}, line {number}, is not text (it holds a zero byte): save it as UTF-8 text")
        yield line


def _ragged(path: PathLike, line: int, found: int, expected: int) -> InputError:
    return InputError(
        f"{path}, line {line}: {found} cells where the header has {expected}: "
        "correct the line (a cell that holds the separator must be quoted)"
    )


def _not_text(path: PathLike, error: UnicodeDecodeError) -> InputError:
    return InputError(
        f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}): save it as UTF-8, or give its right suffix"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _listed(names: Sequence[Any], most: int = 5) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
