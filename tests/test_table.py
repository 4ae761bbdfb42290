import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from visl.table import Table, mix_bits

GAP = None


def table_of(rows):
    values = np.array(rows, float)
    return Table.from_dense(values, ~np.isnan(values))


@st.composite
def dense(draw):
    shape = draw(st.tuples(st.integers(0, 6), st.integers(1, 5)))
    number = st.floats(-1e6, 1e6, width=32)
    return draw(hnp.arrays(np.float32, shape, elements=number)), draw(hnp.arrays(bool, shape))


def assert_equal(a, b):
    np.testing.assert_array_equal(a.starts, b.starts)
    np.testing.assert_array_equal(a.columns, b.columns)
    np.testing.assert_array_equal(a.values, b.values)
    assert a.n_columns == b.n_columns


def test_layout_by_hand():
    table = table_of([[GAP, 5, 6], [GAP, GAP, GAP], [7, GAP, 8]])
    np.testing.assert_array_equal(table.starts, [0, 2, 2, 4])
    np.testing.assert_array_equal(table.columns, [1, 2, 0, 2])
    np.testing.assert_array_equal(table.values, [5, 6, 7, 8])
    np.testing.assert_array_equal(table.row_of_cell, [0, 0, 2, 2])
    assert (table.n_rows, table.n_columns, table.n_cells) == (3, 3, 4)
    assert (table.starts.dtype, table.columns.dtype, table.values.dtype) == (np.int64, np.int32, np.float32)


@given(dense())
def test_dense_round_trip(data):
    values, observed = data
    table = Table.from_dense(values, observed)
    back, seen = table.to_dense()
    np.testing.assert_array_equal(seen, observed)
    np.testing.assert_array_equal(back, np.where(observed, values, 0))
    assert table.n_cells == observed.sum()


@given(dense())
def test_what_stands_in_a_gap_is_never_stored(data):
    values, observed = data
    assert_equal(Table.from_dense(values, observed), Table.from_dense(np.where(observed, values, np.nan), observed))


@given(dense(), st.randoms(use_true_random=False))
def test_cells_in_any_order_give_the_same_table(data, random):
    values, observed = data
    rows, columns = np.nonzero(observed)
    order = list(range(len(rows)))
    random.shuffle(order)
    order = np.array(order, int)
    shuffled = Table.from_cells(rows[order], columns[order], values[rows, columns][order], values.shape)
    assert_equal(shuffled, Table.from_dense(values, observed))


@given(dense(), st.data())
def test_take_rows_equals_dense_indexing(data, more):
    values, observed = data
    picked = st.lists(st.integers(0, len(values) - 1), max_size=8) if len(values) else st.just([])
    rows = np.array(more.draw(picked), np.int64)
    assert_equal(Table.from_dense(values, observed).take_rows(rows), Table.from_dense(values[rows], observed[rows]))


@given(dense(), st.data())
def test_keep_cells_equals_a_smaller_observed(data, more):
    values, observed = data
    table = Table.from_dense(values, observed)
    keep = more.draw(hnp.arrays(bool, table.n_cells))
    fewer = observed.copy()
    fewer[observed] = keep
    assert_equal(table.keep_cells(keep), Table.from_dense(values, fewer))


@given(dense())
def test_gaps_are_the_cells_that_are_not_observed(data):
    values, observed = data
    rows, columns = Table.from_dense(values, observed).gaps()
    expected = np.nonzero(~observed)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(columns, expected[1])


@given(dense())
def test_row_keys_do_not_depend_on_the_rows_around(data):
    values, observed = data
    table = Table.from_dense(values, observed)
    alone = [table.take_rows(np.array([n])).row_keys()[0] for n in range(table.n_rows)]
    np.testing.assert_array_equal(table.row_keys(), np.array(alone, np.uint64))
    backwards = np.arange(table.n_rows)[::-1]
    np.testing.assert_array_equal(table.take_rows(backwards).row_keys(), table.row_keys()[::-1])


@given(dense())
def test_row_keys_are_equal_exactly_for_equal_rows(data):
    values, observed = data
    keys = Table.from_dense(values, observed).row_keys()
    shown = np.where(observed, values, np.nan)
    for n in range(len(keys)):
        for m in range(len(keys)):
            assert (keys[n] == keys[m]) == np.array_equal(shown[n], shown[m], equal_nan=True)


@pytest.mark.parametrize(
    "other",
    [
        [1, 2, GAP, 5],  # a value
        [1, 2, 4, GAP],  # the same value in another column
        [1, GAP, GAP, 4],  # a gap more
        [1, 2, 0, 4],  # a gap less: 0 is a value, not a gap
        [2, 1, GAP, 4],  # two values exchanged
        [GAP, GAP, GAP, GAP],
    ],
)
def test_row_keys_differ(other):
    keys = table_of([[1, 2, GAP, 4], other, [1, 2, GAP, 4]]).row_keys()
    assert keys[0] == keys[2]
    assert keys[0] != keys[1]


def test_row_keys_take_minus_zero_for_zero():
    keys = table_of([[0.0, 1.0], [-0.0, 1.0]]).row_keys()
    assert keys[0] == keys[1]


def test_row_keys_of_many_rows_are_all_different():
    levels = np.stack(np.meshgrid(*[np.arange(5)] * 6), axis=-1).reshape(-1, 6)  # all 5^6 rows of six 5-level columns
    assert len(np.unique(table_of(levels).row_keys())) == 5**6


def test_mix_bits_is_splitmix64():
    # The first outputs of the published generator for seed 0: state 0, then state 0 + golden ratio.
    golden = 0x9E3779B97F4A7C15
    found = mix_bits(np.array([0, golden], np.uint64))
    assert [int(x) for x in found] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
