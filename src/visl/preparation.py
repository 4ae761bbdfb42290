"""From what a user gives to `fit` to what the model is trained on, in one process or in several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from visl.batches import TrainingData
from visl.data.align import all_text
from visl.data.codec import Encoded, encode, infer_schema
from visl.data.groups import resolve_groups
from visl.data.long import LongLog
from visl.data.shards import LogParts, merge, row_key, schema_from_summary, summarise
from visl.data.source import Name, Source, read_source
from visl.errors import InputError
from visl.reading import check_for_fit, read_table
from visl.schema import Schema
from visl.steps import Engine
from visl.table import Table, mix_bits

if TYPE_CHECKING:
    from visl.estimator import VISL


@dataclass(frozen=True)
class Prepared:
    schema: Schema
    data: TrainingData
    names: list[Name]  # of the columns, in the user's order
    named: bool  # whether these are names that the user gave
    fingerprint: int  # of the rows in any order
    order_fingerprint: int

    @property
    def n_rows(self) -> int:
        return self.data.n_rows


def prepare(estimator: VISL, X: Any, engine: Engine) -> Prepared:
    """Every process ends with the same schema, and with its own share of the rows."""
    if isinstance(X, LogParts):
        return _prepare_parts(estimator, X, engine)
    return engine.agree(lambda: _prepare_whole(estimator, X, engine))


def _prepare_whole(estimator: VISL, X: Any, engine: Engine) -> Prepared:
    X, source = read_table(estimator, X, reset=True)
    check_for_fit(source.names, source.n_rows)
    is_log, named = isinstance(X, LongLog), all_text(source.names)
    group_of = resolve_groups(estimator.groups, source.names)
    schema = infer_schema(source, estimator.kinds, group_of, named=is_log or named)
    table = _known_table(encode(source, schema), schema)
    data = TrainingData([table], share=(engine.rank, engine.world))
    prints = (table.fingerprint(ordered=ordered) for ordered in (False, True))
    return Prepared(schema, data, source.names, named and not is_log, *prints)


def _prepare_parts(estimator: VISL, X: LogParts, engine: Engine) -> Prepared:
    """Files of a log that no process reads whole: what they share are summaries of their columns."""
    sources = engine.agree(lambda: [read_source(log) for log in X.logs])
    everything = engine.gather([summarise(source, estimator.kinds) for source in sources])
    schema, names, tables = engine.agree(lambda: _encode_parts(estimator, everything, sources))
    own = [[number, table.n_rows] for number, table in zip(X.numbers, tables, strict=True)]
    sizes = dict(pair for pairs in engine.gather(own) for pair in pairs)
    twice = _rows_in_several_files(X, engine)
    engine.agree(lambda: _refuse(twice))
    data = TrainingData(tables, parts=X.numbers, part_sizes=[sizes[part] for part in range(X.n_parts)])
    return Prepared(schema, data, names, False, *_fingerprints(X.numbers, tables, engine))


def _encode_parts(
    estimator: VISL, everything: Sequence[Sequence[dict[str, Any]]], sources: Sequence[Source]
) -> tuple[Schema, list[Name], list[Table]]:
    summary = merge([summary for summaries in everything for summary in summaries])
    names = [column["name"] for column in summary["columns"]]
    check_for_fit(names, summary["n_rows"])
    schema = schema_from_summary(summary, estimator.kinds, resolve_groups(estimator.groups, names), named=True)
    return schema, names, [_known_table(encode(source, schema), schema) for source in sources]


def _known_table(encoded: Encoded, schema: Schema) -> Table:
    for name, levels in encoded.unseen_levels(schema).items():
        raise InputError(
            f"column {name!r} holds {levels[0]!r}, which is none of its levels: use text or numbers, as with "
            ".astype(str)"
        )
    return encoded.table


def _rows_in_several_files(X: LogParts, engine: Engine) -> list[tuple[str, Any]]:
    """The name of a row column and a row in it whose cells lie in two files: no process would see it whole."""
    keys = [row_key(log.row_ids) for log in X.logs]
    parts = engine.gather([key.tolist() for key in keys])
    everywhere = np.array([key for part in parts for file in part for key in file], np.uint64)
    found, counts = np.unique(everywhere, return_counts=True)
    twice = found[counts > 1]
    return [
        (log.row_name, row)
        for log, key in zip(X.logs, keys, strict=True)
        for row in log.row_ids[np.isin(key, twice)].tolist()[:1]
    ]


def _refuse(rows: list[tuple[str, Any]]) -> None:
    for name, row in rows:
        raise InputError(
            f"{name} {row!r} has values in more than one file: give every {name} a single file, or fit in one process, "
            "without --devices"
        )


def _fingerprints(numbers: Sequence[int], tables: Sequence[Table], engine: Engine) -> tuple[int, int]:
    """Of all parts together, whichever process has them."""
    own = [
        [sum(_key_sum(table) for table in tables) % 2**64, sum(table.n_rows for table in tables)],
        [_mixed(table.fingerprint(ordered=True), n) for n, table in zip(numbers, tables, strict=True)],
    ]
    everywhere = engine.gather(own)
    n_rows = sum(rows for (_, rows), _ in everywhere)
    unordered = sum(keys for (keys, _), _ in everywhere) + int(mix_bits(np.array(n_rows)))
    return unordered % 2**64, sum(sum(ordered) for _, ordered in everywhere) % 2**64


def _key_sum(table: Table) -> int:
    return int(table.row_keys().sum(dtype=np.uint64))


def _mixed(fingerprint: int, number: int) -> int:
    return int(mix_bits(np.array(fingerprint, np.uint64) ^ mix_bits(np.array(number, np.uint64))))
