import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visl.data.groups import resolve_groups
from visl.errors import InputError

COLUMNS = ["height", "weight", "income", "rent"]
BODY_MONEY = {"height": "body", "weight": "body", "income": "money"}


def test_no_groups():
    assert resolve_groups(None, COLUMNS) == {}
    assert resolve_groups({}, COLUMNS) == {}


@pytest.mark.parametrize("groups", [BODY_MONEY, {"body": ["height", "weight"], "money": ("income",)}])
def test_both_forms_of_a_mapping(tmp_path, groups):
    assert resolve_groups(groups, COLUMNS) == BODY_MONEY
    (tmp_path / "g.json").write_text(json.dumps(groups))
    assert resolve_groups(tmp_path / "g.json", COLUMNS) == BODY_MONEY
    assert resolve_groups(str(tmp_path / "g.json"), COLUMNS) == BODY_MONEY


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", "column,group\nheight,body\nweight,body\nincome,money\n"),
        ("g.csv", "anything,else\nheight,body\nweight,body\nincome,money\n"),
        ("g.csv", "topic,question\nbody,height\nbody,weight\nmoney,income\n"),
        ("g.csv", "x,y\nbody,height\nbody,weight\nmoney,income\n"),
        ("g.tsv", "question\ttopic\nheight\tbody\n\nweight\tbody\nincome\tmoney\n"),
    ],
)
def test_forms_of_a_text_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert resolve_groups(tmp_path / name, COLUMNS) == BODY_MONEY


def test_numbered_columns_are_found_by_text(tmp_path):
    (tmp_path / "g.json").write_text('{"0": "a", "2": "a"}')
    assert resolve_groups(tmp_path / "g.json", [0, 1, 2]) == {0: "a", 2: "a"}
    (tmp_path / "g.csv").write_text("column,group\n0,a\n2,b\n")
    assert resolve_groups(tmp_path / "g.csv", [0, 1, 2]) == {0: "a", 2: "b"}
    assert resolve_groups({7: [0, 2]}, [0, 1, 2]) == {0: 7, 2: 7}


def test_a_group_may_have_the_name_of_a_member():
    assert resolve_groups({"rent": ["rent", "income"]}, COLUMNS) == {"rent": "rent", "income": "rent"}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(["g1", "g, 2", 'g"3']), min_size=1))
def test_all_forms_agree(tmp_path, group_of):
    members = {}
    for column, group in group_of.items():
        members.setdefault(group, []).append(column)
    (tmp_path / "g.json").write_text(json.dumps(members))
    quoted = [f'{column},"{group.replace(chr(34), chr(34) * 2)}"' for column, group in group_of.items()]
    (tmp_path / "g.csv").write_text("\n".join(["column,group", *quoted]))
    for groups in (group_of, members, tmp_path / "g.json", tmp_path / "g.csv"):
        assert resolve_groups(groups, COLUMNS) == group_of


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"body": ["heigth"]}, "groups: there is no column 'heigth': did you mean 'height'?"),
        ({"zzz": "body"}, "there is no column 'zzz': use one of 'height', 'weight', 'income', 'rent'"),
        ({"a": ["rent"], "b": ["rent"]}, "column 'rent' is in two groups, 'a' and 'b'"),
        ({"a": ["rent", "rent"]}, "column 'rent' is listed twice in group 'a'"),
        ({"a": ["rent"], "b": []}, "group 'b' is empty"),
        ({"a": ["rent"], "income": "b"}, "'income' has 'b' where others have lists: .*not both"),
        ({"height": None}, "column 'height' has the group None: name it by text or a whole number"),
        ({"height": " "}, "column 'height' has the group ' '"),
        ({"height": "rent"}, "column 'rent' is in no group, and a group is named 'rent' too: put .*or rename the"),
        ({"height": 1, "weight": "1"}, "groups 1 and '1' cannot be told apart"),
        (["height"], "groups is a list: give"),
        ("none.json", "file none.json does not exist"),
        ("none.csv", "file none.csv does not exist"),
    ],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(InputError, match=message):
        resolve_groups(groups, COLUMNS)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.csv", "column,group\nheigth,body\nrent,body\n", "line 2: there is no column 'heigth': did you mean 'hei"),
        ("g.csv", "topic,question\nbody,heigth\nbody,rent\n", "line 2: there is no column 'heigth'"),
        ("g.csv", "x,y\nbody,height\nbody,rents\n", "line 3: there is no column 'rents': did you mean 'rent'"),
        ("g.csv", "column,group\nrent,a\nrent,b\n", "line 3: column 'rent' is in two groups, 'a' and 'b'"),
        ("g.csv", "column,group\nrent,a\nrent,a\n", "line 3: column 'rent' is listed twice"),
        ("g.csv", "column,group\nrent,\n", "line 2: column 'rent' has the group ''"),
        ("g.csv", "height,body\nrent,body\n", "the first line names the column 'height': put a line column,group"),
        ("g.csv", "column,group,more\nrent,a,b\n", "has 3 columns: give two"),
        ("g.csv", "column,group\n", "has no rows"),
        ("g.json", '["rent"]', "holds no object"),
        ("g.json", '{"rent": "a", "rent": "b"}', "'rent' is listed twice"),
        ("g.txt", "column,group\nrent,a\n", "unknown kind of file"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        resolve_groups(tmp_path / name, COLUMNS)
