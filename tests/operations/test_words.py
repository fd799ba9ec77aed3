"""What is said about names that others chose: short, harmless, and of the property that is at fault. No JVM."""

import pytest
from hardpack.api import Hardpack
from hardpack.cli import main as cli_main
from hardpack.errors import BadInput, some_of
from hardpack.operations.adopt import adopt
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from typer.testing import CliRunner

from tests.topics import append, name_of, new_topic, row, session_of


@pytest.fixture
def asked(catalog, monkeypatch, tmp_path):
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack(catalog, home=tmp_path))
    return lambda *words: CliRunner().invoke(cli_main.app, [*words], env={"COLUMNS": "80"})


def test_of_many_columns_the_likely_ones_are_named(catalog):
    many = [NestedField(at, f"some_column_number_{at}", StringType()) for at in range(10, 2010)]
    schema = Schema(NestedField(1, "partition", LongType()), NestedField(2, "offset_", LongType()), *many)
    catalog.create_namespace_if_not_exists("wide")
    table = catalog.create_table("wide.columns", schema)
    with pytest.raises(BadInput) as raised:
        adopt(session_of(table), {"column.partition": "partition", "column.offset": "offset"})
    assert "its columns are offset_" in str(raised.value)
    assert "more; map it with" in str(raised.value)
    assert len(str(raised.value)) < 1000
    assert some_of(["a", "b"]) == "a, b"


def test_a_name_mapping_that_is_none_is_told_in_a_sentence(catalog, asked):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": "[{"})
    for verb in ("status", "plan", "read", "describe"):
        found = asked(verb, name_of(table))
        said = f"{found.exception} {found.stderr}"
        assert f"{name_of(table)}: table property schema.name-mapping.default is no name mapping" in said, verb


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ("compact", "is a compacted topic"),
        ("delete", "is a topic under retention"),
        ("compact,delete", "is a compacted topic under retention"),
    ],
)
def test_adoption_says_what_the_table_is(catalog, asked, policy, kind):
    assert kind in asked("adopt", name_of(new_topic(catalog)), "--set", f"cleanup.policy={policy}").stdout


def test_names_of_logs_cannot_write_on_the_terminal(asked, monkeypatch):
    """A text column that names logs holds what any producer wrote."""
    monkeypatch.setattr(Hardpack, "pause", lambda *_: {"x\x1b[2Jy" * 30: None})
    shown = asked("pause", "db.t").stdout
    assert "\x1b" not in shown
    assert shown.count("\n") == 1
