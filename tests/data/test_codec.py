"""Cells on the model's scale."""

import time

import numpy as np
import pandas as pd

from visl.data.codec import encode, infer_schema
from visl.data.source import read_source


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
