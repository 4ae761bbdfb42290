"""The lines of a long log as arrays: ids numbered, values as numbers or text, cells sorted, each once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visl.errors import InputError

NUMBER, INTEGER, BOOLEAN, STRING = "number", "integer", "boolean", "string"
DUPLICATES = ("first", "last", "mean")

_NUMERIC_KINDS = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_integer, INTEGER),
    (pa.types.is_floating, NUMBER),
    (pa.types.is_decimal, NUMBER),
    (pa.types.is_null, NUMBER),
)


# -- values


def read_values(values: pa.ChunkedArray, source: str, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None, str]:
    """All values, whether each is there (None: all are), and their value_dtype.

    Numbers have any numeric type: those of a log of 0 and 1 stay as small as they came.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        present = values.is_valid().to_numpy() if values.null_count else None
        texts, codes = _codes(values.cast(pa.large_string()).fill_null(""))
        return texts[codes], present, STRING
    for is_kind, value_dtype in _NUMERIC_KINDS:
        if is_kind(kind):
            numbers = _numbers(values)
            missing = np.isnan(numbers)
            return numbers, ~missing if missing.any() else None, value_dtype
    raise InputError(f"{source}, column {name!r} holds values of type {kind}: give numbers or text")


def _numbers(values: pa.ChunkedArray) -> NDArray[Any]:
    """NaN for a gap."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_integer(values.type) and not values.null_count:
        return values.to_numpy()
    return values.cast(pa.float64(), safe=False).to_numpy().astype(np.float64, copy=False)


# -- ids


def encode_ids(ids: pa.ChunkedArray, source: str, name: str, is_text: bool) -> tuple[NDArray[Any], NDArray[np.int32]]:
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


def _codes(ids: pa.ChunkedArray, is_text: bool = False) -> tuple[NDArray[Any], NDArray[np.int32]]:
    encoded = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
    if encoded.num_chunks == 0:
        return np.empty(0, object), np.empty(0, np.int32)
    encoded = encoded.unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    labels = _labels(encoded.chunk(0).dictionary, is_text)
    return _by_appearance(labels, codes)


def _by_appearance(labels: NDArray[Any], codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Categories may be in any order, and unused."""
    order = pd.unique(codes)
    position = np.empty(len(labels), np.int32)
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


class Cells:
    """Cells in order of their keys, row * columns + column; those of one key in the order of the file.

    keys is sorted in place.
    """

    def __init__(self, keys: NDArray[np.int64], values: NDArray[Any], value_dtype: str) -> None:
        self.value_dtype = value_dtype
        self.order: NDArray[np.int64] | None = None  # None: the file has the order already
        if (keys[1:] < keys[:-1]).any():
            self.order = _sort(keys)
            values = values[self.order]
        self.keys, self.values = keys, values
        self.is_first = np.ones(len(keys), bool)  # of its key
        np.not_equal(keys[1:], keys[:-1], out=self.is_first[1:])

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
        self.values = np.add.reduceat(self.values.astype(np.float64), starts) / (ends - starts)
        if self.value_dtype == INTEGER and (self.values % 1 != 0).any():
            self.value_dtype = NUMBER

    def refuse_repeated(self, source: str, row_ids: NDArray[Any], column_ids: NDArray[Any]) -> InputError:
        again = np.flatnonzero(~self.is_first)
        # The repetition that comes first in the file.
        place = again[0] if self.order is None else again[np.argmin(self.order[again])]
        row, column = divmod(int(self.keys[place]), len(column_ids))
        count = int((self.is_first[:-1] & ~self.is_first[1:]).sum())
        pairs = "1 pair has" if count == 1 else f"{count} pairs have"
        return InputError(
            f"{source}: {_pair(row_ids[row], column_ids[column])} has more than one value ({pairs} in all): "
            "remove the repetitions, or choose with --duplicates first|last|mean"
        )


def _sort(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort the keys, all at least 0, in place and give their order; equal ones keep theirs."""
    bits = (len(keys) - 1).bit_length()
    if int(keys.max()).bit_length() + bits > 63:
        order = np.argsort(keys, kind="stable")
        keys[:] = keys[order]
        return order
    # Key and place in one number: to sort those takes a fraction of the time and memory of a stable argsort.
    keys <<= bits
    keys |= np.arange(len(keys))
    keys.sort()
    order = keys & ((1 << bits) - 1)
    keys >>= bits
    return order


def refuse_infinite(
    source: str,
    values: NDArray[np.float64],
    row_ids: NDArray[Any],
    row: NDArray[np.int32],
    column_ids: NDArray[Any],
    column: NDArray[np.int32],
) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise InputError(
            f"{source}: the value of {_pair(row_ids[row[i]], column_ids[column[i]])} is infinite: "
            "correct it, or leave it empty"
        )


def _pair(row_id: Any, column_id: Any) -> str:
    return f"row {_plain(row_id)!r}, column {_plain(column_id)!r}"


def _plain(identifier: Any) -> Any:
    return identifier.item() if isinstance(identifier, np.generic) else identifier
