"""The columns of a long log on disk: one file, or a folder of Parquet files, of which a process may read its share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from visl.data.files import GAPS, SEPARATORS, arrow_names, arrow_schema, arrow_table, check_input, csv_records
from visl.data.outputs import PathLike
from visl.errors import InputError

PARQUET = ".parquet"
Shard = tuple[int, int]  # number of this process, from 0, and of all processes

_NUMBER_PATTERN = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def read_columns(
    path: PathLike, ids: Sequence[str], value: str | None = None, shard: Shard | None = None
) -> tuple[list[pa.ChunkedArray], bool]:
    """Only these columns, the value last, and whether the ids are text as it was written.

    Values of a text file have the type that all of them share: integer, number, boolean or text.
    """
    names = [*ids] if value is None else [*ids, value]
    _check_shard(shard)
    if Path(path).is_dir():
        files = log_files(path)
        check_alike(files, names)
        return _columns_of(share_of(path, files, shard), names), False
    if shard is not None and shard[1] > 1:
        raise InputError(
            f"{path} is one file for {shard[1]} processes: split it into a folder of at least {shard[1]} Parquet "
            "files, with all lines of a row in one of them"
        )
    suffix = check_input(path)
    if suffix not in SEPARATORS:
        check_present(str(path), names, arrow_names(path, suffix))
        return _take(arrow_table(path, suffix, names), names), False
    columns = _read_text(path, suffix, ids, names)
    if value is not None:
        columns[-1] = _parse_text(columns[-1], str(path), value)
    return columns, True


def log_files(folder: PathLike) -> list[Path]:
    """The Parquet files in a folder, by name; hidden ones are not finished, or not the user's."""
    entries = sorted(entry for entry in Path(folder).iterdir() if entry.is_file() and not entry.name.startswith("."))
    files = [entry for entry in entries if entry.name.lower().endswith(PARQUET)]
    if not files:
        raise InputError(
            f"{folder} is a folder without Parquet files: name a file in it, or save the log there as .parquet files"
        )
    return files


def check_present(source: str, names: Sequence[str], present: Sequence[str]) -> None:
    for name in names:
        if name not in present:
            raise InputError(f"{source} has no column {name!r}: it has {', '.join(map(repr, present))}")
        if present.count(name) > 1:
            raise InputError(f"{source} has more than one column {name!r}: rename or remove all but one")


# -- folders


def _check_shard(shard: Shard | None) -> None:
    if shard is not None and not 0 <= shard[0] < shard[1]:
        raise InputError(f"shard {shard} is no share of a log: give (process, processes), the first counted from 0")


def share_of(folder: PathLike, files: list[Path], shard: Shard | None) -> list[Path]:
    process, processes = shard or (0, 1)
    if len(files) < processes:
        raise InputError(
            f"{folder} has {len(files)} Parquet file(s) for {processes} processes: split the log into at least "
            f"{processes} files, with all lines of a row in one of them, or start fewer processes"
        )
    return files[process::processes]


def check_alike(files: list[Path], names: Sequence[str]) -> None:
    """All files, also those that other processes read: what is a number here must be one there."""
    expected: dict[str, pa.DataType] = {}
    for file in files:
        schema = arrow_schema(file, check_input(file))
        check_present(str(file), names, schema.names)
        for name in names:
            kind = _stored(schema.field(name).type)
            if expected.setdefault(name, kind) != kind:
                raise InputError(
                    f"{file}, column {name!r} holds values of type {kind}, and in {files[0].name} they are of type "
                    f"{expected[name]}: write all files with the same types"
                )


def _columns_of(files: list[Path], names: list[str]) -> list[pa.ChunkedArray]:
    parts = [[_plain(column) for column in _take(arrow_table(file, PARQUET, names), names)] for file in files]
    return [
        pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
        for columns in zip(*parts, strict=True)
    ]


def _take(table: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    return [table[name] for name in names]


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type, whatever the writer's way to store it: categories as their values, all text as one type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if kind in (pa.string(), pa.string_view()) else kind


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    stored = _stored(column.type)
    return column if stored == column.type else column.cast(stored)


# -- text files


def _read_text(path: PathLike, suffix: str, ids: Sequence[str], names: list[str]) -> list[pa.ChunkedArray]:
    check_present(str(path), names, next(csv_records(path))[1])
    # As text, whatever it looks like: "007" and "7" are two ids, and a date is no number.
    types = {name: pa.dictionary(pa.int32(), pa.string()) if name in ids else pa.string() for name in names}
    options = arrow_csv.ConvertOptions(
        include_columns=names, column_types=types, null_values=list(GAPS), strings_can_be_null=True
    )
    layout = arrow_csv.ParseOptions(delimiter=SEPARATORS[suffix], newlines_in_values=True)
    try:
        return _take(arrow_csv.read_csv(str(path), parse_options=layout, convert_options=options), names)
    except (pa.ArrowException, OSError) as error:
        for _ in csv_records(path):  # tells the line
            pass
        raise InputError(f"could not read {path}: {error}") from error


def _parse_text(text: pa.ChunkedArray, source: str, name: str) -> pa.ChunkedArray:
    """The type that all values of a text file share: integer, number, boolean or text."""
    parsed = _parse_as_one_type(text)
    if parsed is None:
        parsed = _parse_as_one_type(pc.utf8_trim_whitespace(text))
    if parsed is None:
        _refuse_text_among_numbers(text, source, name)
    return text if parsed is None else parsed


def _parse_as_one_type(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for target in (pa.int64(), pa.float64(), pa.bool_()):
        if target == pa.bool_() and _has_digits(text):
            continue  # Arrow would take 1 for true
        try:
            return text.cast(target)
        except pa.ArrowInvalid:
            continue
    return None


def _has_digits(text: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(text.unique(), r"\d")).as_py())


def _refuse_text_among_numbers(text: pa.ChunkedArray, source: str, name: str) -> None:
    is_number = pc.match_substring_regex(text, _NUMBER_PATTERN)
    if pc.any(is_number).as_py():
        first = pc.index(is_number, False).as_py()
        raise InputError(
            f"{source}, column {name!r}, entry {first + 1}: {text[first].as_py()!r} is text among numbers: "
            "correct it, or leave it empty"
        )
