import json

from core_helpers import group_wise
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, KINDS, ORDINAL, Column, Schema

MIXED = Schema(
    (
        Column("age", CONTINUOUS, "person", low=-2.5, high=7.5, integer=True),
        Column(7, BINARY, "person", levels=(False, True)),
        Column("town", CATEGORICAL, 3, levels=("a", "é", "c")),
        Column("grade", ORDINAL, 3, levels=(1.5, 2.0, 10.0), constant=True),
    ),
    ("person", 3),
    grouped=True,
)


def test_group_of_and_position_by_hand():
    assert MIXED.group_of == (0, 0, 1, 1)
    assert MIXED.position == {"age": 0, 7: 1, "town": 2, "grade": 3}


def test_span_by_hand():
    assert MIXED.columns[0].span == 10.0
    assert Column("flat", CONTINUOUS, "flat", low=4.0, high=4.0).span == 1.0


def test_n_levels():
    assert [column.n_levels for column in MIXED.columns] == [0, 2, 3, 3]


def test_json_gives_the_same_schema_back():
    back = Schema.from_json(json.loads(json.dumps(MIXED.to_json())))
    assert back == MIXED
    # 1 == True in Python: the levels' types must survive too.
    assert [type(level) for column in back.columns for level in column.levels] == [
        type(level) for column in MIXED.columns for level in column.levels
    ]


def test_with_columns_replaces_them_and_nothing_else():
    other = MIXED.with_columns(MIXED.columns[2:])
    assert other.columns == MIXED.columns[2:]
    assert (other.groups, other.grouped) == (MIXED.groups, True)
    assert other.group_of == (1, 1)  # worked out anew, not remembered from MIXED


def test_kinds_are_all_known_to_the_networks():
    from visl.nets.likelihoods import LIKELIHOODS

    assert set(LIKELIHOODS) == set(KINDS)
    assert group_wise(list(KINDS)).group_of == (0, 0, 0, 0)
