"""What a policy file may say by mistake so that something else would be done than is written; no JVM."""

import re

import pytest
from hardpack import BadInput
from hardpack.policy import Policy
from hardpack.policy.file import load_policies


@pytest.fixture
def write(tmp_path):
    def write(text):
        (tmp_path / "policies.yaml").write_text(text)
        return tmp_path / "policies.yaml"

    return write


TWICE = [
    (
        "policies: [{name: a, tables: [x.y]}]\npolicies: [{name: b, tables: [x.z]}]",
        "line 2 (policies is given twice)",
    ),
    ("policies:\n- name: a\n  tables: [x.y]\n  tables: [x.z]", "in line 4 (tables is given twice)"),
    ("policies:\n- {name: a, tables: [x.y], settings: {segment.ms: 1, segment.ms: 2}}", "(segment.ms is given twice)"),
]


@pytest.mark.parametrize(("text", "words"), TWICE)
def test_a_field_that_is_given_twice_is_refused(write, text, words):
    """YAML's readers take the last and forget the first, with all its tables."""
    with pytest.raises(BadInput, match=re.escape(words)):
        load_policies(write(text))


def test_fields_may_be_merged_from_an_anchor(write):
    text = "policies:\n- &usual {name: a, tables: [x.y], retries: 7}\n- {<<: *usual, name: b, tables: [x.z]}"
    assert [(p.name, p.retries) for p in load_policies(write(text)).policies] == [("a", 7), ("b", 7)]


def test_an_anchor_that_merges_another_may_lie_deeper_than_where_it_is_merged(write):
    """YAML's reader merges in place, and then what was overridden stands twice in the anchor."""
    text = """\
policies:
- name: a
  tables: [x.y]
  params: {usual: {settings: &usual {<<: {segment.ms: 1, retention.ms: 5}, segment.ms: 2}}}
- {name: b, tables: [x.z], settings: {<<: *usual, retention.ms: 7}}
"""
    assert load_policies(write(text)).of("x.z").settings == {"segment.ms": "2", "retention.ms": "7"}


@pytest.mark.parametrize(
    ("glob", "words"),
    [("db.a1 ", "begins or ends with a blank"), (" db.a1", "begins"), ("db.x,y", "has a comma"), ("db.{a,b}", "comma")],
)
def test_a_glob_that_would_be_read_as_another_is_refused(glob, words):
    with pytest.raises(ValueError, match=words):
        Policy(name="a", tables=[glob])
    assert Policy(name="a", tables=["db.[a,b]1", "db.[,]*"]).names("db.,x")


def test_a_policy_that_was_made_in_code_takes_no_table_from_the_file(write):
    found = load_policies(write("policies: [{name: orders, tables: ['shop.order*']}]"))
    own = Policy(name="mine", tables=["shop.*"], settings={"segment.ms": "1"})
    assert found.with_own(own).settings("shop.customers") == {"segment.ms": "1"}
    assert found.with_own(own).of("shop.orders").name == "orders"
    assert found.with_own(own.model_copy(update={"name": "orders"})) is found, "the file is newer than the DAG"


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "R * * * *", "0 R 1 * *", "0 0 * * r"])
def test_a_schedule_that_names_no_moment_is_refused(schedule):
    with pytest.raises(ValueError, match=re.escape(schedule)):
        Policy(name="a", tables=["x.y"], schedule=schedule)
