"""What YAML makes of a policy's values is what somebody wrote, or is refused where it stands; no JVM."""

import pytest
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.errors import BadInput
from hardpack.policy import Policies
from hardpack.policy.file import load_policies, policies_in_force
from typer.testing import CliRunner

from tests.topics import name_of, new_topic


def settings_of(write_policies, *lines):
    given = "\n".join(f"      {line}" for line in lines)
    file = load_policies(write_policies(f"policies:\n  - name: a\n    tables: ['t.*']\n    settings:\n{given}\n"))
    return file.policies[0].problem or file.settings("t.x")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("maintenance: off", {"maintenance": "off"}),
        ("maintenance: on", {"maintenance": "on"}),
        ("maintenance: 'off'", {"maintenance": "off"}),
        ("tombstone: null", {"tombstone": "null"}),
        ("key.absent: null", {"key.absent": "null"}),
        ("duplicates.ignore: [ingested, seen]", {"duplicates.ignore": "ingested,seen"}),
        ("column.key: [region, id]", {"column.key": "region,id"}),
        ("min.cleanable.dirty.ratio: 0.25", {"min.cleanable.dirty.ratio": "0.25"}),
        ("retention.ms: -1", {"retention.ms": "-1"}),
        ("segment.bytes: 1_048_576", {"segment.bytes": "1048576"}),
    ],
)
def test_what_yaml_makes_of_a_value_is_what_somebody_wrote(write_policies, line, expected):
    assert settings_of(write_policies, line) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("column.leader.epoch:", "column.leader.epoch is None, expected a value"),
        ("column.key: {a: b}", "expected a value, or a list of names"),
        ("duplicates.ignore: []", "expected a value, or a list of names"),
        ("duplicates.ignore: [no, y]", "expected a value, or a list of names"),
        ("delete.retention.ms: 24:00:00", "delete.retention.ms"),
    ],
)
def test_what_is_no_value_is_refused_where_it_stands(write_policies, line, words):
    assert words in settings_of(write_policies, line)


def test_the_schema_takes_what_a_file_may_say():
    import jsonschema

    ratio = {"min.cleanable.dirty.ratio": 0.2, "max.compaction.lag.ms": 3600000, "maintenance": False}
    policy = {"name": "a", "tables": ["t.*"], "settings": {**ratio, "column.key": ["a", "b"], "tombstone": None}}
    jsonschema.validate({"policies": [policy]}, Policies.model_json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"policies": [{**policy, "settings": {"column.key": {"a": 1}}}]}, Policies.model_json_schema()
        )


def test_a_topics_settings_that_the_policy_locks_are_left_out(write_policies, catalog, lake, monkeypatch):
    from hardpack.cli import table_state

    write_policies(
        "policies: [{name: a, tables: ['t.*'], locked: [cleanup.policy], settings: {cleanup.policy: compact}}]"
    )
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    monkeypatch.setattr(table_state, "topic_settings", lambda *_: {"cleanup.policy": "compact", "retention.ms": "5"})
    table = name_of(new_topic(catalog))
    said = CliRunner().invoke(app, ["adopt", table, "--like-topic", "b:9/orders"], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.exception
    assert "b:9/orders sets retention.ms=5" in said.stdout
    assert "cleanup.policy of b:9/orders is left out, as the table's policy locks it" in said.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("unit.bytes: yes", "it is true, as YAML reads yes, no, on and off; expected a number"),
        ("retries: off", "it is false, as YAML reads"),
        ("retries: 100000000", "less than or equal to 1000"),
        ("driver.memory: 0g", "driver.memory"),
        ("pool: ' '", "pool"),
    ],
)
def test_a_field_that_is_no_number_or_no_name_is_refused(write_policies, given, words):
    write_policies(f"policies: [{{name: a, tables: [x.y], {given}}}]")
    assert words in policies_in_force().policies[0].problem


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            ["shop.*"],
            ["shop.orders"],
            "all tables of shop.orders are those of policy a, which comes first and names shop.*",
        ),
        (["*.*"], ["x.?", "y.z"], "all tables of x.? are those of policy a"),
        (["shop.o*"], ["shop.orders*"], "all tables of shop.orders* are those of policy a"),
        (["shop.orders"], ["shop.*"], ""),
        # a glob's signs are no letters
        (["shop.[!_]*"], ["shop.*"], ""),
        (["shop.[*]"], ["shop.*"], ""),
        (["*.*o*"], ["s.[no]x"], ""),
        (["s.*"], ["s.[no]x"], "all tables of s.[no]x are those of policy a"),
        (["shop.?"], ["shop.?"], "all tables of shop.? are those of policy a"),
        (["shop.o*"], ["*.orders"], ""),
        (["shop.[ab]"], ["shop.[ab]c"], ""),
    ],
)
def test_a_policy_that_gets_no_table_is_told_of(first, second, said):
    policies = Policies.model_validate({"policies": [{"name": "a", "tables": first}, {"name": "b", "tables": second}]})
    assert any(said in doubt for doubt in policies.doubts()) if said else policies.doubts() == []


@pytest.mark.parametrize(
    "wrong",
    ["settings: {segment.byte: 7}", "locked: [segment.byte]", "readers: [{table: x.y, name: r}]", "setings: {}",
     "schedule: x, settings: {segment.byte: 7}", "deadline.ms: 5, settings: {segment.byte: 7}"],
)  # fmt: skip
def test_verbs_on_tables_whose_settings_are_wrong_are_refused(write_policies, wrong):
    write_policies(f"policies: [{{name: a, tables: [x.y], {wrong}}}]")
    found = policies_in_force()
    with pytest.raises(BadInput) as refusal:
        found.settings("x.y")
    assert str(refusal.value) == f"x.y: {found.policies[0].problem}"


@pytest.mark.parametrize(
    "wrong",
    [
        "schedule: x",
        "timezone: Mars",
        "retries: -1",
        "driver.memory: much, owner: ''",
        "order: random",
        "deadline.ms: 5",
    ],
)
def test_what_is_wrong_of_runs_alone_keeps_nobody_from_a_pause(write_policies, wrong):
    write_policies(f"policies: [{{name: a, tables: [x.y], settings: {{segment.bytes: 77}}, {wrong}}}]")
    found = policies_in_force()
    assert found.policies[0].problem
    assert found.settings("x.y")["segment.bytes"] == "77"
