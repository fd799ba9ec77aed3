"""Bad input: one sentence that names the place and the mend, exit code 2, nothing changed. No JVM starts."""

import json

import pyarrow as pa
import pytest
from hardpack import Hardpack, Plan
from hardpack.cli.main import app
from hardpack.files.key_hash import longs
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, DoubleType, IntegerType, LongType, NestedField, StringType, TimestampType
from typer.testing import CliRunner

from tests.refusals import refusal
from tests.topics import T0, append, name_of, new_topic, row, without_statistics

FIELDS = {
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "key": BinaryType(),
    "value": StringType(),
}


def make(catalog, fields, transform=None, column="partition", version="2"):
    catalog.create_namespace_if_not_exists("bad")
    schema = Schema(*(NestedField(i, n, t) for i, (n, t) in enumerate(fields.items(), 1)))
    spec = PartitionSpec()
    if transform:
        spec = PartitionSpec(PartitionField(schema.find_field(column).field_id, 1000, transform, "log"))
    name, properties = f"bad.t{len(catalog.list_tables('bad'))}", {"format-version": version}
    return catalog.create_table(name, schema, partition_spec=spec, properties=properties)


def test_an_unknown_table(cold):
    assert "no such table in catalog 'hardpack'" in refusal(cold.plan, "no.such")
    assert "no such table" in refusal(cold.adopt, "no.such")


def test_a_table_that_was_not_adopted(cold, catalog):
    table = make(catalog, FIELDS, IdentityTransform())
    assert f"`hardpack adopt {name_of(table)}`" in refusal(cold.plan, name_of(table))


def test_rows_without_an_offset(cold, catalog):
    table = make(catalog, FIELDS, IdentityTransform())
    moment = pa.array([T0 * 1000] * 3, pa.int64()).cast(pa.timestamp("us"))
    columns = [pa.array([0] * 3, pa.int32()), pa.array([0, None, None], pa.int64()), moment]
    columns += [pa.array([b"a"] * 3, pa.binary()), pa.array(["v"] * 3)]
    table.append(pa.table(columns, schema=table.schema().as_arrow()))
    message = refusal(cold.adopt, name_of(table))
    assert (
        message == f"{name_of(table)}: 2 rows have no 'offset', expected their offset in the log; set or delete them."
    )
    assert "2 rows have no offset" in refusal(longs, columns[1])


def test_a_missing_column(cold, catalog):
    table = make(catalog, {n: t for n, t in FIELDS.items() if n != "key"}, IdentityTransform())
    message = refusal(cold.adopt, name_of(table))
    assert "no column 'key'" in message
    assert "--set column.key=NAME" in message


@pytest.mark.parametrize(
    ("column", "kind", "wish"),
    [("offset", DoubleType(), "long"), ("timestamp", StringType(), "timestamp"), ("key", DoubleType(), "binary")],
)
def test_a_wrong_type(cold, catalog, column, kind, wish):
    table = make(catalog, FIELDS | {column: kind}, IdentityTransform())
    message = refusal(cold.adopt, name_of(table))
    assert f"column {column!r}" in message
    assert wish in message


def test_a_refused_setting_changes_nothing(cold, catalog):
    table = new_topic(catalog)
    before = dict(table.properties)
    assert "min.cleanable.dirty.ratio" in refusal(cold.adopt, name_of(table), {"min.cleanable.dirty.ratio": "2"})
    assert "kept by hardpack" in refusal(cold.adopt, name_of(table), {"state": "{}"})
    assert dict(table.refresh().properties) == before


def test_adopt_sets_and_unsets(cold, catalog):
    table = make(catalog, FIELDS, IdentityTransform())
    name = name_of(table)
    assert cold.adopt(name, {"delete.retention.ms": "5"}, dry_run=True).delete_retention_ms == 5
    assert "hardpack.cleanup.policy" not in table.refresh().properties
    cold.adopt(name, {"delete.retention.ms": "5"})
    assert cold.plan(name, now=T0).settings.delete_retention_ms == 5
    assert cold.adopt(name, {"delete.retention.ms": ""}).delete_retention_ms == 86_400_000


def test_mapped_columns(cold, catalog):
    renamed = {{"key": "k", "offset": "o"}.get(n, n): t for n, t in FIELDS.items()}
    table = make(catalog, renamed, IdentityTransform())
    assert cold.adopt(name_of(table), {"column.key": "k", "column.offset": "o"}).column_key == "k"


def test_an_empty_table_has_nothing_to_do(cold, catalog):
    name = name_of(new_topic(catalog))
    assert cold.status(name, now=T0) == []
    plan = cold.plan(name, now=T0, force=True)
    assert (plan.snapshot, plan.logs, plan.units(1)) == (None, (), [])


def test_an_unknown_partition(cold, catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")], 1: [row(0, "a")]})
    assert "there is no partition 7, it has 0, 1" in refusal(cold.plan, name_of(table), T0, ["7"])


def test_keyless_rows_are_refused_with_their_count(cold, catalog):
    table = new_topic(catalog, active_segment="none")
    append(table, {0: [row(0, "a"), row(1, None), row(2, None)], 1: [row(0, "a")]})
    bad, good = sorted(cold.plan(name_of(table), T0 + 1).logs, key=lambda log: log.partition)
    assert (bad.action, bad.held, good.action, good.held) == ("none", True, "clean", False)
    assert "2 rows without a key" in bad.reason
    assert "null.keys=drop" in bad.reason


def test_keyless_rows_in_the_active_segment_do_not_matter_yet(cold, catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    append(table, {0: [row(1, None)]})
    assert cold.plan(name_of(table), T0 + 1).doing("clean")


def test_a_file_without_offset_bounds(cold, catalog):
    table = new_topic(catalog)
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.offset": "none"})
    with without_statistics():
        append(table, {0: [row(0, "a")]})
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.offset": "full"})
    for offset in range(3):
        append(table, {1: [row(offset, "a")]})
    bad, good = sorted(cold.plan(name_of(table), T0).logs, key=lambda log: log.partition)
    assert (bad.action, bad.held, good.action) == ("none", True, "clean")
    assert "no bounds of column 'offset'" in bad.reason


@pytest.mark.parametrize("offset", [-1, 2**63 - 1])
def test_an_offset_that_kafka_has_not(cold, catalog, offset):
    """Minus one, as a number without a sign, would supersede every row of its key."""
    table = new_topic(catalog, active_segment="none")
    append(table, {0: [row(offset, "a"), row(5, "a")], 1: [row(0, "a"), row(1, "a")]})
    bad, good = sorted(cold.plan(name_of(table), T0).logs, key=lambda log: log.partition)
    assert (bad.action, bad.held, good.action) == ("none", True, "clean")
    assert f"a row has 'offset' {offset}, expected an offset from 0 to 9223372036854775806" in bad.reason


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 9}'])
def test_what_is_no_plan(text):
    assert "this is no plan" in refusal(Plan.from_json, text)


def test_a_plan_round_trips_with_its_name(cold, catalog):
    table = new_topic(catalog, active_segment="none")
    append(table, {p: [row(0, "a"), row(1, "a")] for p in range(3)})
    plan = cold.plan(name_of(table), T0)
    again = Plan.from_json(plan.to_json())
    assert (again, again.id) == (plan, plan.id)
    assert cold.plan(name_of(table), T0).id == plan.id
    assert cold.plan(name_of(table), T0 + 1).id != plan.id
    assert [len(u.logs) for u in plan.units(1)] == [1, 1, 1]
    assert [len(u.logs) for u in plan.units(10**9)] == [3]


def test_the_command_says_it_in_one_sentence_with_exit_code_2(lake, monkeypatch, capsys):
    from hardpack.cli import main as cli

    monkeypatch.setattr("sys.argv", ["hardpack", "plan", "no.such"])
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("hardpack: no.such: no such table") == 1


def test_status_as_json(catalog, lake, monkeypatch):

    table = new_topic(catalog)
    append(table, {0: [row(0, "a")], 1: [row(0, "a")]})
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    done = CliRunner().invoke(app, ["status", name_of(table), "--json", "--now", str(T0)])
    assert done.exit_code == 0
    assert [s["partition"] for s in json.loads(done.stdout)] == [0, 1]


def test_a_broken_table_does_not_hide_the_others(catalog, lake, monkeypatch):

    good, broken = new_topic(catalog), new_topic(catalog, min_cleanable_dirty_ratio=9)
    append(good, {0: [row(0, "a")]})
    append(broken, {0: [row(0, "a")]})
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    done = CliRunner().invoke(app, ["status", "t.*", "--json", "--now", str(T0)])
    assert done.exit_code == 2
    assert name_of(good) in {s["table"] for s in json.loads(done.stdout.splitlines()[0])}


@pytest.mark.parametrize("verb", ["status", "plan", "clean", "expire-tombstones", "verify", "explain", "adopt", "demo"])
def test_every_verb_explains_itself(verb):
    done = CliRunner().invoke(app, [verb, "--help"])
    assert done.exit_code == 0
    assert len(done.stdout) > 200


def test_time_is_an_argument(cold, catalog):
    table = new_topic(catalog, min_compaction_lag_ms=1000)
    append(table, {0: [row(0, "a")]}, at=T0)
    append(table, {0: [row(1, "a")]}, at=T0)
    assert not cold.plan(name_of(table), T0 + 999).doing("clean")
    assert cold.plan(name_of(table), T0 + 1000).doing("clean")


def test_rows_without_a_log(cold, catalog):
    table = make(catalog, FIELDS, IdentityTransform())
    cold.adopt(name_of(table))
    table.refresh().append(
        pa.table(
            {
                "partition": pa.array([None], pa.int32()),
                "offset": pa.array([0], pa.int64()),
                "timestamp": pa.array([0], pa.timestamp("us")),
                "key": pa.array([b"a"]),
                "value": pa.array(["v"]),
            }
        )
    )
    (entry,) = cold.plan(name_of(table), T0).logs
    assert (entry.partition, entry.action, entry.held) == ("null", "none", True)
    assert "1 rows have no 'partition'" in entry.reason


def test_a_table_that_does_not_tell_when_rows_came(cold, catalog):
    table = make(catalog, FIELDS, IdentityTransform(), version="1")
    assert "'format-version'='2'" in refusal(cold.adopt, name_of(table))


@pytest.mark.parametrize(
    ("role", "kind"), [("value", StringType()), ("key", BinaryType()), ("timestamp", TimestampType())]
)
def test_a_column_that_took_the_name_of_another(cold, catalog, role, kind):
    """Every old row would count as a tombstone, as one without a key, or as one without a time."""
    table = new_topic(catalog)
    name = name_of(table)
    cold.adopt(name)
    append(table, {0: [row(0, "a")]})
    with table.refresh().update_schema() as update:
        update.rename_column(role, "other")
    with table.update_schema() as update:
        update.add_column(role, kind)
    message = refusal(cold.plan, name, T0)
    assert f"column '{role}' is not the one that was mapped to the {role} when the table was adopted" in message
    assert "now called 'other'" in message
    cold.adopt(name, {f"column.{role}": "other"})
    assert cold.plan(name, T0).logs


@pytest.mark.parametrize("used", [False, True])
def test_an_old_spec_that_no_file_uses_does_no_harm(cold, catalog, used):
    table = make(catalog, FIELDS)
    moment = pa.array([T0 * 1000], pa.int64()).cast(pa.timestamp("us"))
    columns = [pa.array([0], pa.int32()), pa.array([0], pa.int64()), moment, pa.array([b"a"]), pa.array(["v"])]
    rows = pa.table(columns, names=list(FIELDS))
    if used:
        table.append(rows)
    with table.update_spec() as update:
        update.add_identity("partition")
    table.overwrite(rows)
    assert cold.adopt(name_of(table)).cleanup_policy == "compact"
    assert cold.plan(name_of(table), T0).logs[0].log_end == 1


def test_a_demo_table_that_is_there_already(catalog):
    from hardpack.demo.git import load_git

    from tests.conftest import ROOT

    load_git(catalog, "bad.git", ROOT)
    assert "bad.git: the table is there already" in refusal(load_git, catalog, "bad.git", ROOT)


def test_a_folder_that_is_no_repository(catalog, tmp_path):
    from hardpack.demo.git import load_git

    assert "not a git repository" in refusal(load_git, catalog, "bad.none", tmp_path)
