"""Cells on the model's scale."""

import time

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from visl.data.codec import encode, infer_schema
from visl.data.long import long_from_frame
from visl.data.source import read_source
from visl.table import Table


def test_values_far_outside_the_training_range_are_drawn_near() -> None:
    schema = infer_schema(read_source(pd.DataFrame({"x": [0.0, 2.0]})), None, {}, named=True)
    given = read_source(pd.DataFrame({"x": [1e300, -1e300, 3.0, 1.0, 22.0, 30.0]}))
    assert encode(given, schema).table.values.tolist() == [11.0, -10.0, 1.5, 0.5, 11.0, 11.0]


def test_a_tiny_span_does_not_overflow() -> None:
    schema = infer_schema(read_source(pd.DataFrame({"x": [0.0, 1e-300]})), None, {}, named=True)
    assert encode(read_source(pd.DataFrame({"x": [1e300]})), schema).table.values.tolist() == [11.0]


def test_many_unseen_levels_are_listed_quickly() -> None:
    schema = infer_schema(read_source(pd.DataFrame({"w": ["a", "b", "c"]})), None, {}, named=True)
    encoded = encode(read_source(pd.DataFrame({"w": [f"v{i}" for i in range(40_000)] * 2})), schema)
    begun = time.perf_counter()
    assert len(encoded.unseen_levels(schema)["w"]) == 40_000
    assert time.perf_counter() - begun < 2
    assert np.array_equal(np.unique(encoded.unseen_columns), [0])


CELLS = st.dictionaries(st.tuples(st.integers(0, 6), st.sampled_from("abcd")), st.sampled_from("uvw"), min_size=1)


@settings(deadline=None, max_examples=60)
@given(CELLS, CELLS)
def test_cells_come_in_order_of_rows_and_columns_and_unseen_levels_apart(fitted, given_cells) -> None:
    def log_of(cells):
        rows, columns = zip(*cells, strict=True)
        frame = pd.DataFrame({"row": rows, "column": columns, "value": list(cells.values())})
        return long_from_frame(frame, "row", "column", "value")

    schema = infer_schema(read_source(log_of(fitted)), "categorical", {}, named=True)
    level = {column.name: {value: k for k, value in enumerate(column.levels)} for column in schema.columns}
    log = log_of(given_cells)
    encoded = encode(read_source(log), schema)
    row_of = {name: n for n, name in enumerate(log.row_ids)}
    known, unseen = {}, {}
    for (row, name), value in given_cells.items():
        if name in schema.position:
            at = (row_of[row], schema.position[name])
            known[at], unseen[at] = level[name].get(value), value
    expected = {at: code for at, code in known.items() if code is not None}
    parts = [np.array(part) for part in zip(*((*at, code) for at, code in expected.items()), strict=True)]
    reference = Table.from_cells(*(parts or [np.zeros(0, int)] * 3), (len(row_of), len(schema.columns)))
    for name in ("starts", "columns", "values"):
        found, wanted = getattr(encoded.table, name), getattr(reference, name)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)
    cells = zip(encoded.unseen_rows.tolist(), encoded.unseen_columns.tolist(), encoded.unseen_values, strict=True)
    assert {(row, column): value for row, column, value in cells} == {
        at: value for at, value in unseen.items() if known[at] is None
    }
