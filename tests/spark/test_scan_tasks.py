"""Scan tasks as they are listed: what few calls into the JVM tell is what a call for each file would."""

import json

import pytest
from hardpack.rules.reference.row import Row
from hardpack.spark import scan_tasks
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.columns import LogColumns, settings_of

from tests.layouts import HOURLY, PLAIN
from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(scan_tasks, "AT_ONCE", 3)


def opened(spark, table, logs):
    """The table by Iceberg's JVM API, and the scan tasks of some logs."""
    jvm = JvmTable(spark, f"hardpack.{name_of(table)}")
    among = LogColumns.of(table.schema(), settings_of(table)).log.among(logs)
    return jvm, jvm.scan_tasks(table.current_snapshot().snapshot_id, among)


def by_single_calls(jvm, tasks):
    """Iceberg's JSON of each data file, asked for one by one."""
    parser = jvm._ice.ContentFileParser
    files = {path: task.file() for path, task in tasks.items()}
    return {path: json.loads(parser.toJson(f, jvm._java.specs().get(f.specId()))) for path, f in files.items()}


def in_java(jvm, tasks):
    listed = tasks.in_java(jvm.spark._jvm)
    return [str(listed.get(at).file().location()) for at in range(listed.size())]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("deleted", [False, True])
def test_files_are_described_as_iceberg_describes_each(spark, catalog, version, deleted):
    table = new_topic(catalog)
    name = f"hardpack.{name_of(table)}"
    for first in range(0, 35, 5):
        append(table, {log: [row(o, f"k{o}") for o in range(first, first + 5)] for log in (0, 1)})
    spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"DELETE FROM {name} WHERE " + ("offset % 7 = 3" if deleted else "offset = -1"))
    spark.sql(f"INSERT INTO {name} SELECT partition, offset + 100, timestamp, key, value FROM {name}")
    jvm, tasks = opened(spark, table.refresh(), [0, 1])
    files = tasks.data_files(dict.fromkeys(tasks, 8))
    assert {path: file.entry for path, file in files.items()} == by_single_calls(jvm, tasks)
    assert {file.data_sequence_number for file in files.values()} == ({8} if version == 3 else {0})
    assert [(file.rows, file.bytes) for file in files.values()] == list(tasks.sizes())
    assert any(jvm.deletes(task) for task in tasks.values()) == deleted
    assert len(opened(spark, table, [1])[1]) < len(tasks)


def test_files_of_a_layout_without_the_logs_partition_are_described_too(spark, catalog):
    table = HOURLY.adopted(catalog, "scan.hourly")
    HOURLY.append(table, {log: [Row(o, b"k", b"v", timestamp=T0) for o in range(3)] for log in range(5)})
    jvm, tasks = opened(spark, table.refresh(), range(5))
    assert len(tasks) == 5
    assert {path: file.entry for path, file in tasks.data_files({}).items()} == by_single_calls(jvm, tasks)


def test_tasks_that_are_picked_and_put_together_are_staged(spark, catalog):
    table = PLAIN.adopted(catalog, "scan.picked")
    for log in range(8):
        PLAIN.append(table.refresh(), {log: [Row(0, b"k", b"v", timestamp=T0)]})
    jvm, tasks = opened(spark, table.refresh(), range(8))
    paths = list(tasks)
    some = tasks.only([paths[6], *paths[1:4]])
    assert in_java(jvm, some) == [*paths[1:4], paths[6]]
    files = tasks.data_files({})
    again = jvm.new_tasks((files[path], tasks[path].file(), ()) for path in (paths[6], paths[7]))
    assert sorted(in_java(jvm, some | again)) == sorted([*paths[1:4], *paths[6:]])
    with jvm.staged(some | again) as group:
        assert {r["_file"] for r in jvm.read(group).select("_file").collect()} == {*paths[1:4], *paths[6:]}
    only_one = jvm.tasks_of(table.current_snapshot().snapshot_id, [paths[5]])
    assert list(only_one) == [paths[5]]
    assert str(only_one[paths[5]].file().location()) == paths[5]
