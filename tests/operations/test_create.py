"""A new table for a topic: it takes rows, is adopted, and nothing is made of a wrong wish."""

import json

import pyarrow as pa
import pytest
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.errors import BadInput
from hardpack.operations.create import create
from hardpack.rules.settings import PolicySettings, Settings
from pyiceberg.exceptions import NoSuchTableError
from typer.testing import CliRunner

from tests.topics import T0

pytestmark = pytest.mark.usefixtures("namespace")


@pytest.fixture
def namespace(catalog):
    catalog.create_namespace_if_not_exists("made")


def test_a_table_that_takes_rows_and_is_read(catalog, cold):
    found = cold.create("made.first", {"delete.retention.ms": "5"})
    assert (found.delete_retention_ms, found.cleanup_policy) == (5, "compact")
    table = catalog.load_table("made.first")
    schema = table.schema().as_arrow()
    rows = [
        {"partition": 0, "offset": o, "timestamp": T0 * 1000, "key": b"k", "value": None, "headers": []} for o in (1, 0)
    ]
    stamped = pa.schema([f.with_type(pa.int64()) if f.name == "timestamp" else f for f in schema])
    table.append(pa.Table.from_pylist(rows, stamped).cast(schema))
    assert [o for batch in cold.read("made.first") for o in batch["offset"].to_pylist()] == [0, 1]
    (log,) = cold.status("made.first", T0)
    assert (log.rows, log.log_end) == (2, 2)


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("plain", {}, "'plain' names no table; write it as namespace.table"),
        ("none.t", {}, "there is no namespace 'none'; make it in the catalog first"),
        ("made.bad", {"delete.retention.ms": "-5"}, "mend it with `hardpack create made.bad --set delete.retention"),
        ("made.bad", {"no.such": "1"}, "hardpack.no.such is not a setting"),
        ("made.bad", {"column.key": "id"}, "column.key is not for a new table"),
        ("made.", {}, "'made.' names no table"),
        (".t", {}, "'.t' names no table"),
        ("made..t", {}, "'made..t' names no table"),
        ("made.a?b", {}, r"'made\.a\?b' has '\?' in its name"),
        ("made.a/b", {}, "has '/' in its name"),
        ("made.*", {}, r"has '\*' in its name"),
        ("made.a\x1b", {}, r"has '\\x1b' in its name"),
        ("made.bad", {"state": "{}"}, "hardpack.state is kept by hardpack and not a setting"),
        ("made.bad", {"reader.a:0": "5"}, "hardpack.reader.a:0 is kept by hardpack"),
    ],
)
def test_a_wrong_wish_makes_nothing(catalog, cold, name, settings, sentence):
    before = catalog.list_tables("made")
    with pytest.raises(BadInput, match=sentence):
        cold.create(name, settings)
    assert catalog.list_tables("made") == before


def test_it_is_made_once(cold):
    cold.create("made.twice")
    with pytest.raises(BadInput, match=r"made\.twice: the table is there already; `hardpack adopt made\.twice`"):
        cold.create("made.twice")


def test_the_command(catalog, lake, monkeypatch):
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    said = CliRunner().invoke(app, ["create", "made.by_hand", "--set", "cleanup.policy=compact, delete", "--json"])
    assert said.exit_code == 0, said.exception
    assert json.loads(said.stdout)["cleanup.policy"] == "compact,delete"
    shown = CliRunner().invoke(app, ["create", "made.shown"], env={"COLUMNS": "200"})
    assert "made.shown is an empty compacted topic" in shown.stdout


def test_a_policy_counts_for_a_new_table_as_for_one_that_is_adopted(catalog):
    policy = PolicySettings({"cleanup.policy": "compact,delete"}, ("retention.*",))
    create(catalog, "made.of_policy", {}, Settings, policy)
    assert catalog.load_table("made.of_policy").properties["hardpack.cleanup.policy"] == "compact,delete"
    with pytest.raises(BadInput, match=r"made\.locked: retention\.ms is locked by the table's policy"):
        create(catalog, "made.locked", {"retention.ms": "5"}, Settings, policy)


@pytest.mark.parametrize("error", [BadInput("no"), NoSuchTableError("no"), OSError("no")])
def test_a_table_that_cannot_be_adopted_is_not_left(catalog, cold, monkeypatch, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr(cold, "adopt", refuse)
    with pytest.raises(type(error), match="no"):
        cold.create("made.refused")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("made.refused")
