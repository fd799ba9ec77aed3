"""Which log a data file belongs to, and where its roles stand, in the shapes that sinks leave. No JVM."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hardpack.rules.model import LogState, SeenCommits, SnapshotRef
from hardpack.rules.reference.cleaner import Row
from hardpack.table.columns import LogColumns
from hardpack.table.log_name import FOOTER_LENGTH, may_be_cut, value_by_bounds
from hardpack.table.log_views import read_logs
from hardpack.table.state import made_by, write_state
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from tests.layouts import (
    EMPTY,
    FLAT,
    HOURLY,
    LAYOUTS,
    NESTED,
    PLAIN,
    as_manifest_has_it,
    commit,
    mapped,
    written,
)
from tests.refusals import refusal
from tests.topics import T0, name_of, without_statistics

HOUR = 3_600_000
_names = count()


def log(*keys, start=0, at=T0):
    """Keys in order; one that ends with `-` is a tombstone."""
    return [
        Row(start + n, k.rstrip("-").encode(), None if k.endswith("-") else b"v", timestamp=at)
        for n, k in enumerate(keys)
    ]


def made(catalog, layout, **settings):
    return layout.adopted(catalog, f"lay.t{next(_names)}", **settings)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_logs_are_seen_alike_whatever_the_shape(cold, catalog, layout):
    table = made(catalog, layout)
    layout.append(table, {0: log("a", "b-", "a"), 3: log("x", "y", start=7)})
    layout.append(table, {0: log("c", "d", start=3, at=T0 + 5 * HOUR)})
    assert cold.adopt(name_of(table)).compacts
    first, other = layout.log(0), layout.log(3)
    views = {v.partition: v for v in read_logs(table.refresh(), mapped(layout))}
    assert {p: [(f.min_offset, f.max_offset, f.rows) for f in v.files] for p, v in views.items()} == {
        first: [(0, 2, 3), (3, 4, 2)], other: [(7, 8, 2)],
    }  # fmt: skip
    assert [f.min_timestamp for f in views[first].files] == [T0, T0 + 5 * HOUR]
    # a file in which some rows delete and some do not is told by what its metadata counts
    tombstones = [f.tombstones for f in views[first].files]
    assert tombstones == ([None, 0] if layout in (FLAT, EMPTY) else [1, 0])
    planned = {log.partition: log.action for log in cold.plan(name_of(table), now=T0 + 1).logs}
    assert planned == {first: "clean", other: "none"}
    (asked,) = cold.plan(name_of(table), now=T0 + 1, partitions=[str(other)]).logs
    assert asked.partition == other


def test_a_log_lies_in_many_hours_and_a_file_joins_those_of_its_own(catalog):
    table = made(catalog, HOURLY)
    for hour in range(3):
        HOURLY.append(table, {0: log("a", "b", start=2 * hour, at=T0 + hour * HOUR)})
    (view,) = read_logs(table.refresh(), mapped(HOURLY))
    assert len({f.iceberg_partition for f in view.files}) == 3


def test_bounds_that_are_equal_name_the_log_under_any_spec(cold, catalog):
    schema = PLAIN.schema
    spec = PartitionSpec(PartitionField(schema.find_field("key").field_id, 1000, BucketTransform(4), "bucket"))
    table = catalog.create_table("lay.bucket", schema, partition_spec=spec, properties={"format-version": "2"})
    commit(table, [((1,), [PLAIN.cells(5, r) for r in log("a", "b")])])
    assert cold.adopt("lay.bucket").compacts
    assert [v.partition for v in read_logs(table.refresh(), mapped(PLAIN))] == [5]


@pytest.mark.parametrize("bounds", [True, False])
def test_a_file_of_several_logs_waits_to_be_split_and_the_others_are_planned(cold, catalog, bounds):
    table = made(catalog, FLAT, min_cleanable_dirty_ratio=0)
    FLAT.append(table, {0: log("a", "a")}, bounds=bounds)
    FLAT.append(table, {0: log("b", start=2)}, bounds=bounds)
    commit(table, [((), [FLAT.cells(p, r) for p in (0, 4) for r in log("a", start=3)])], bounds=bounds)
    seen = {s.partition: (s.rows, s.files, s.due) for s in cold.status(name_of(table), now=T0 + HOUR)}
    assert seen == {0: (3, 2, True), "several": (2, 1, True)}
    plan = cold.plan(name_of(table), now=T0 + HOUR)
    assert (plan.split.files, [log.partition for log in plan.doing("clean")], plan.has_work) == (1, [0], True)
    assert plan.units(1) == [plan.model_copy(update={"unit_bytes": 1})]
    assert "split first: 1 file that may hold rows of several logs" in str(plan.split)
    # one that was asked for may be in them alone
    asked = cold.plan(name_of(table), T0 + HOUR, [4])
    assert (asked.logs, asked.is_about(4), asked.is_about(0)) == ((), True, False)
    assert not cold.adopt(name_of(table), dry_run=True).deletes


@pytest.mark.parametrize("bounds", [True, False])
def test_files_that_others_split_leave_the_logs_what_they_were(cold, catalog, bounds):
    """Even when such a file is gone from the storage."""
    table = made(catalog, FLAT)
    for start in (0, 2):
        FLAT.append(table, {p: log("a", "b", start=start) for p in (0, 4)}, bounds=bounds)
    states = {
        p: LogState(checkpoint=2, log_end=4, snapshot=SnapshotRef(1, 2), seen=SeenCommits(2, 2), layout=(0, 2))
        for p in ("0", "4")
    }
    summary = {"hardpack.plan": "one:p", "hardpack.state": write_state(states)}
    table.refresh().append(table.schema().as_arrow().empty_table(), snapshot_properties=summary)
    made_by_pass = table.refresh().current_snapshot()
    seen = {p: made_by(s, (made_by_pass.snapshot_id, made_by_pass.sequence_number)) for p, s in states.items()}
    with table.transaction() as change:
        change.set_properties({"hardpack.state": write_state(seen)})
    commit(table, [((), [FLAT.cells(p, r) for p in (0, 4) for r in log("c", start=4)])], bounds=bounds)
    assert "several" in {s.partition for s in cold.status(name_of(table), now=T0)}
    mixed = [t.file for t in table.refresh().scan().plan_files() if t.file.record_count == 2 and "c" in keys(t.file)]
    with table.transaction() as change, change.update_snapshot().overwrite() as snapshot:
        for file in mixed:
            snapshot.delete_data_file(file)
        for p in (0, 4):
            rows = [FLAT.cells(p, r) for r in log("c", start=4)]
            for file in written(table, [((), rows)]):
                snapshot.append_data_file(as_manifest_has_it(file, bounds))
    for file in mixed:
        Path(file.file_path.removeprefix("file://")).unlink()
    logs = cold.status(name_of(table), now=T0)
    assert [(s.partition, s.checkpoint, s.first_dirty) for s in logs] == [(0, 2, 2), (4, 2, 2)]


def keys(file):
    return {bytes.fromhex(k).decode() for k in pq.read_table(file.file_path.removeprefix("file://"))["id"].to_pylist()}


def test_a_file_of_which_nobody_knows_the_log_is_split_like_one_of_several(cold, catalog):
    table = made(catalog, NESTED)
    with without_statistics():
        commit(table, [((), [NESTED.cells(0, r) for r in log("a")])], bounds=False)
    assert [(s.partition, s.rows) for s in cold.status(name_of(table), now=T0)] == [("several", 1)]


def test_what_bounds_prove():
    none, by_log = PartitionSpec(), PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
    number = LogColumns.of(PLAIN.schema, mapped(PLAIN))
    one, two = (1).to_bytes(4, "little"), (2).to_bytes(4, "little")
    (column,) = number.log.columns
    assert value_by_bounds(column, (0, one, one)) == 1
    assert value_by_bounds(column, (0, one, two)) is None
    # where nobody counts nulls, a row may name no log
    assert value_by_bounds(column, (None, one, one)) is None
    assert value_by_bounds(column, (1, one, one)) is None
    assert value_by_bounds(column, (0, None, one)) is None
    assert (number.log.places(by_log), number.log.places(none)) == ((0,), (None,))
    schema = Schema(
        *(f if f.name != "partition" else NestedField(1, "partition", StringType()) for f in PLAIN.schema.fields)
    )
    (text,) = LogColumns.of(schema, mapped(PLAIN)).log.columns
    assert value_by_bounds(text, (0, b"orders-1", b"orders-1")) == "orders-1"
    # a writer may have cut both
    long = (0, b"orders.customers", b"orders.customers")
    assert (value_by_bounds(text, long), may_be_cut(text, long)) == (None, True)
    assert value_by_bounds(text, long, FOOTER_LENGTH - 1) == "orders.customers"


@pytest.mark.parametrize("spec", [("partition", IdentityTransform()), None])
def test_a_log_may_be_called_as_rows_without_one_are(catalog, spec):
    layout = replace(PLAIN, types={"partition": StringType()}, spec=spec)
    table = made(catalog, layout)
    layout.append(table, {"null": log("a", "b")})
    (view,) = read_logs(table.refresh(), mapped(layout))
    assert (view.partition, view.rows, view.trouble) == ("null", 2, "")


STRANGE = Schema(
    NestedField(1, "partition", IntegerType()), NestedField(2, "offset", LongType()),
    NestedField(3, "timestamp", LongType()), NestedField(4, "key", StringType()),
    NestedField(5, "headers", ListType(6, StructType(NestedField(7, "offset", LongType())))),
    NestedField(8, "meta", StructType(
        NestedField(9, "key", StringType()), NestedField(10, "score", LongType()),
        NestedField(12, "price", DoubleType()),
    )),
    NestedField(11, "done", LongType()), NestedField(13, "sold", BooleanType()),
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {},
            "no column 'value' for the value, its columns are partition, offset, timestamp, key, done, sold, ",
        ),
        ({"tombstone": "none", "column.offset": "headers.element.offset"}, "lies in 'headers', of which a row has any"),
        (
            {"tombstone": "none", "column.key": "meta,key"},
            "column 'meta.price', mapped to the key, is double, ",
        ),
        ({"tombstone": "none", "column.key": "meta.none"}, "there is no column 'meta.none' for the key"),
        ({"tombstone": "none", "column.timestamp": "offset"}, "mapped to the offset and to the timestamp"),
        ({"tombstone": "done=D"}, "asks column 'done' for 'D', which no long is, expected a whole number"),
        ({"tombstone": "done=007"}, "for '007', which no long is"),
        ({"tombstone": "sold = True"}, "tombstone=sold=True asks column 'sold' for 'True', which no boolean is"),
        ({"tombstone": "gone=D"}, "there is no column 'gone' for the value"),
        ({"tombstone": "meta.score empty"}, "asks column 'meta.score', which is long, expected binary or string"),
        ({"tombstone": "op IS NULL"}, "hardpack.tombstone is 'op IS NULL', expected: null, none, COLUMN="),
        (
            {"tombstone": "none", "duplicates.ignore": "meta", "column.key": "meta.key"},
            "duplicates.ignore names 'meta'",
        ),
    ],
)
def test_a_mapping_that_cannot_be_is_one_sentence(cold, catalog, settings, words):
    name = f"lay.t{next(_names)}"
    catalog.create_namespace_if_not_exists("lay")
    table = catalog.create_table(name, STRANGE, properties={"format-version": "2"})
    assert words in refusal(cold.adopt, name, settings)
    assert not any(k.startswith("hardpack.") for k in table.refresh().properties)


def test_a_field_renamed_under_its_struct_is_noticed(cold, catalog):
    table = made(catalog, NESTED)
    cold.adopt(name_of(table))
    NESTED.append(table, {0: log("a")})
    with table.refresh().update_schema() as update:
        update.rename_column("_kafka_metadata.offset", "o")
    assert "there is no column '_kafka_metadata.offset' for the offset" in refusal(cold.plan, name_of(table), T0)
    cold.adopt(name_of(table), {"column.offset": "_kafka_metadata.o"})
    assert cold.plan(name_of(table), T0).logs
