"""Long logs: one line (row id, column id, value) for each observed cell. Never a Python object for each number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from visl.data.files import GAPS, SEPARATORS, arrow_names, arrow_table, check_input, csv_records
from visl.data.outputs import PathLike
from visl.errors import InputError

NUMBER, INTEGER, BOOLEAN, STRING = "number", "integer", "boolean", "string"
DUPLICATES = ("first", "last", "mean")

_NUMBER_PATTERN = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True)
class LongLog:
    """The observed cells, sorted by (row, column), each once. A row or column without a value is still declared."""

    row_name: str
    column_name: str
    value_name: str
    row_ids: NDArray[Any]  # unique, in order of first appearance; int64, or str objects
    column_ids: NDArray[Any]
    row: NDArray[np.int64]  # (cells,) index into row_ids
    column: NDArray[np.int32]  # (cells,) index into column_ids
    values: NDArray[Any]  # (cells,) float64, or str objects if value_dtype is "string"
    value_dtype: str  # "number", "integer", "boolean" or "string"

    @property
    def n_cells(self) -> int:
        return len(self.values)


def read_long(path: PathLike, row: str, column: str, value: str, duplicates: str | None = None) -> LongLog:
    """A log from a file. duplicates: which value a repeated pair gets, "first", "last" or "mean"; None refuses it."""
    _check_settings((row, column, value), duplicates)
    table, is_text = _read_columns(path, (row, column), value)
    values = _parse_text(table[value], str(path), value) if is_text else table[value]
    return _build(str(path), (row, column, value), (table[row], table[column], values), is_text, duplicates)


def long_from_frame(frame: Any, row: str, column: str, value: str, duplicates: str | None = None) -> LongLog:
    """A log from a data frame: pandas, Polars, PyArrow or another that narwhals knows."""
    names = (row, column, value)
    _check_settings(names, duplicates)
    try:
        known = nw.from_native(frame)
    except TypeError as error:
        raise InputError(f"a long log is given as {type(frame).__name__}: give a data frame or a file") from error
    _check_present("the log", names, known.collect_schema().names())
    chosen = known.select(names)
    eager = chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen
    columns = [_series_to_arrow(eager, name, "values" if name == value else "ids") for name in names]
    return _build("the log", names, columns, False, duplicates)


def read_cells(path: PathLike, row: str, column: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The asked pairs of ids, in the order of the file; see `find_ids` for where they are in a log."""
    _check_different((row, column))
    table, is_text = _read_columns(path, (row, column))
    _check_rows(str(path), len(table))
    row_ids, rows = _encode(table[row], str(path), row, is_text)
    column_ids, columns = _encode(table[column], str(path), column, is_text)
    return row_ids[rows], column_ids[columns]


def find_ids(known: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each asked id among the known, unique ones, -1 for an unknown one.  (asked,)

    The ids of one file may be numbers and those of another, which has some more, text: then "12" is 12.
    """
    position = _index(known).get_indexer(_index(asked)).astype(np.int64)
    unknown = position < 0
    if unknown.any():
        as_text = _index(known.astype(str).astype(object))
        if as_text.is_unique:
            position[unknown] = as_text.get_indexer(_index(asked[unknown].astype(str).astype(object)))
    return position


def _index(ids: NDArray[Any]) -> pd.Index[Any]:
    return pd.Index(ids, dtype=object if ids.dtype == object else None, tupleize_cols=False)


def _check_settings(names: Sequence[str], duplicates: str | None) -> None:
    _check_different(names)
    if duplicates is not None and duplicates not in DUPLICATES:
        raise InputError(f"duplicates is {duplicates!r}: use one of {', '.join(DUPLICATES)}")


def _check_different(names: Sequence[str]) -> None:
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise InputError(f"column {repeated[0]!r} of the log has two roles: name different columns")


def _check_present(source: str, names: Sequence[str], present: Sequence[str]) -> None:
    for name in names:
        if name not in present:
            raise InputError(f"{source} has no column {name!r}: it has {', '.join(map(repr, present))}")
        if present.count(name) > 1:
            raise InputError(f"{source} has more than one column {name!r}: rename or remove all but one")


def _check_rows(source: str, count: int) -> None:
    if count == 0:
        raise InputError(f"{source} has no rows, only names of columns: choose a file with data in it")


# -- reading


def _read_columns(path: PathLike, ids: Sequence[str], value: str | None = None) -> tuple[pa.Table, bool]:
    """Only these columns, and whether they are all text."""
    suffix = check_input(path)
    names = [*ids] if value is None else [*ids, value]
    is_text = suffix in SEPARATORS
    _check_present(str(path), names, next(csv_records(path))[1] if is_text else arrow_names(path, suffix))
    if not is_text:
        return arrow_table(path, suffix, names), False
    # As text, whatever it looks like: "007" and "7" are two ids, and a date is no number.
    types: dict[str, pa.DataType] = {name: pa.dictionary(pa.int32(), pa.string()) for name in ids}
    if value is not None:
        types[value] = pa.string()
    options = arrow_csv.ConvertOptions(
        include_columns=names, column_types=types, null_values=list(GAPS), strings_can_be_null=True
    )
    layout = arrow_csv.ParseOptions(delimiter=SEPARATORS[suffix], newlines_in_values=True)
    try:
        return arrow_csv.read_csv(str(path), parse_options=layout, convert_options=options), True
    except (pa.ArrowException, OSError) as error:
        for _ in csv_records(path):  # tells the line
            pass
        raise InputError(f"could not read {path}: {error}") from error


def _series_to_arrow(frame: Any, name: str, what: str) -> pa.ChunkedArray:
    try:
        array = frame[name].to_arrow()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"column {name!r} of the log has {what} of mixed types, as text among numbers: correct them ({error})"
        ) from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


# -- values


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


def _to_numpy(values: pa.ChunkedArray, source: str, name: str) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """All values, whether each is there, and their value_dtype."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        texts, codes = _codes(values.cast(pa.large_string()).fill_null(""))
        return texts[codes], values.is_valid().to_numpy(), STRING
    for is_kind, value_dtype in _NUMERIC_KINDS:
        if is_kind(kind):
            numbers = _floats(values)
            return numbers, ~np.isnan(numbers), value_dtype
    raise InputError(f"{source}, column {name!r} holds values of type {kind}: give numbers or text")


_NUMERIC_KINDS = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_integer, INTEGER),
    (pa.types.is_floating, NUMBER),
    (pa.types.is_decimal, NUMBER),
    (pa.types.is_null, NUMBER),
)


def _floats(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """NaN for a gap."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values.cast(pa.float64(), safe=False).to_numpy().astype(np.float64, copy=False)


# -- ids


def _encode(ids: pa.ChunkedArray, source: str, name: str, is_text: bool) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The unique ids in order of first appearance, and the index of each line's id."""
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    missing = ids.is_null(nan_is_null=True) if pa.types.is_floating(kind) else ids.is_null()
    if pc.any(missing).as_py():
        raise InputError(
            f"{source}, column {name!r}: {pc.sum(missing).as_py()} ids are missing, the first in entry "
            f"{pc.index(missing, True).as_py() + 1}: fill them in or remove the lines"
        )
    labels, codes = _codes(ids, is_text)
    if labels.dtype.kind == "f":
        whole = labels.astype(np.int64)
        if not (whole == labels).all():
            bad = labels[whole != labels][0]
            raise InputError(f"{source}, column {name!r}: {bad} is no id: use whole numbers or text")
        labels = whole
    return labels, codes


def _codes(ids: pa.ChunkedArray, is_text: bool = False) -> tuple[NDArray[Any], NDArray[np.int64]]:
    encoded = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
    if encoded.num_chunks == 0:
        return np.empty(0, object), np.empty(0, np.int64)
    encoded = encoded.unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    labels = _labels(encoded.chunk(0).dictionary, is_text)
    return _by_appearance(labels, codes)


def _by_appearance(labels: NDArray[Any], codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Categories may be in any order, and unused."""
    first = np.full(len(labels), len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment stays: the first appearance
    order = np.argsort(first)[: int((first < len(codes)).sum())]
    position = np.empty(len(labels), np.int64)
    position[order] = np.arange(len(order))
    return labels[order], position[codes]


def _labels(labels: pa.Array, is_text: bool) -> NDArray[Any]:
    """int64, float64 or str objects. In a text file, ids that are all written as plain integers are integers."""
    if is_text:
        try:
            numbers = labels.cast(pa.int64())
            if pc.all(pc.equal(numbers.cast(pa.string()), labels)).as_py():
                labels = numbers
        except pa.ArrowInvalid:
            pass
    if pa.types.is_integer(labels.type):
        return labels.to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_floating(labels.type):
        return labels.to_numpy(zero_copy_only=False).astype(np.float64)
    return labels.cast(pa.large_string()).to_numpy(zero_copy_only=False)


# -- cells


def _build(
    source: str, names: Sequence[str], columns: Sequence[pa.ChunkedArray], is_text: bool, duplicates: str | None
) -> LongLog:
    row_name, column_name, value_name = names
    _check_rows(source, len(columns[0]))
    row_ids, row = _encode(columns[0], source, row_name, is_text)
    column_ids, column = _encode(columns[1], source, column_name, is_text)
    values, present, value_dtype = _to_numpy(columns[2], source, value_name)
    if not present.all():
        row, column, values = row[present], column[present], values[present]
    if value_dtype == NUMBER:
        _refuse_infinite(source, values, row_ids, row, column_ids, column)
    keys = row * len(column_ids) + column
    del row, column  # sorting needs the memory
    cells = _Cells(keys, values, value_dtype)
    if cells.repeated:
        if duplicates is None:
            raise _repeated(source, cells, row_ids, column_ids)
        cells.settle(duplicates, source)
    row, column = np.divmod(cells.keys, len(column_ids))
    return LongLog(
        row_name,
        column_name,
        value_name,
        row_ids,
        column_ids,
        row,
        column.astype(np.int32),
        cells.values,
        cells.value_dtype,
    )


def _refuse_infinite(
    source: str,
    values: NDArray[np.float64],
    row_ids: NDArray[Any],
    row: NDArray[np.int64],
    column_ids: NDArray[Any],
    column: NDArray[np.int64],
) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise InputError(
            f"{source}: the value of {_pair(row_ids[row[i]], column_ids[column[i]])} is infinite: "
            "correct it, or leave it empty"
        )


class _Cells:
    """Cells in order of their keys, row * columns + column; those of one key in the order of the file."""

    def __init__(self, keys: NDArray[np.int64], values: NDArray[Any], value_dtype: str) -> None:
        self.value_dtype = value_dtype
        self.order: NDArray[np.int64] | None = None  # None: the file has the order already
        if (keys[1:] < keys[:-1]).any():
            self.order = np.argsort(keys, kind="stable")
            keys, values = keys[self.order], values[self.order]
        self.keys, self.values = keys, values
        self.is_first = np.ones(len(keys), bool)  # of its key
        self.is_first[1:] = keys[1:] != keys[:-1]

    @property
    def repeated(self) -> bool:
        return not self.is_first.all()

    def settle(self, duplicates: str, source: str) -> None:
        """Keep one value for each key."""
        starts = np.flatnonzero(self.is_first)
        ends = np.append(starts[1:], len(self.keys))
        if duplicates == "mean":
            self._average(starts, ends, source)
        else:
            self.values = self.values[starts if duplicates == "first" else ends - 1]
        self.keys = self.keys[starts]

    def _average(self, starts: NDArray[np.int64], ends: NDArray[np.int64], source: str) -> None:
        if self.value_dtype not in (NUMBER, INTEGER):
            raise InputError(
                f"{source}: values of type {self.value_dtype} have no mean: choose --duplicates first or last"
            )
        self.values = np.add.reduceat(self.values, starts) / (ends - starts)
        if self.value_dtype == INTEGER and (self.values % 1 != 0).any():
            self.value_dtype = NUMBER


def _repeated(source: str, cells: _Cells, row_ids: NDArray[Any], column_ids: NDArray[Any]) -> InputError:
    again = np.flatnonzero(~cells.is_first)
    # The repetition that comes first in the file.
    place = again[0] if cells.order is None else again[np.argmin(cells.order[again])]
    row, column = divmod(int(cells.keys[place]), len(column_ids))
    count = int((cells.is_first[:-1] & ~cells.is_first[1:]).sum())
    pairs = "1 pair has" if count == 1 else f"{count} pairs have"
    return InputError(
        f"{source}: {_pair(row_ids[row], column_ids[column])} has more than one value ({pairs} in all): "
        "remove the repetitions, or choose with --duplicates first|last|mean"
    )


def _pair(row_id: Any, column_id: Any) -> str:
    return f"row {_plain(row_id)!r}, column {_plain(column_id)!r}"


def _plain(identifier: Any) -> Any:
    return identifier.item() if isinstance(identifier, np.generic) else identifier
