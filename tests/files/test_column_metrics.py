"""Metrics of files that hardpack writes: Iceberg's own reading of the same files and their rows are the judges."""

from __future__ import annotations

import json
import math
import random

import pytest
from hardpack.spark.jvm_table import JvmTable
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import ListType, MapType, StructType

from tests.samples import new_table, rows, write
from tests.topics import append, name_of, new_topic, offsets, row

pytestmark = pytest.mark.spark
KINDS = ("value-counts", "null-value-counts", "lower-bounds", "upper-bounds", "column-sizes")
PREFIX = "write.metadata.metrics."
MOST = "max-inferred-column-defaults"
MODES = {
    "default": {},
    "none": {"default": "none"},
    "counts": {"default": "counts"},
    "short": {"default": "truncate(3)"},
    "full": {"default": "FULL"},
    "nonsense": {"default": "truncate(0)", "column.binary": "some", "column.text": "truncate(99999999999)"},
    "by column": {
        "default": "counts", "column.text": "truncate(1)", "column.inner.deep.double": "full", "column.day": "none",
    },
    "none but": {
        "default": "none", "column.binary": "truncate(4)", "column.list.element": "counts", "column.float": "counts",
    },
    **{f"first {n}": {MOST: str(n), "column.empty": "full"} for n in (0, 1, 7, 22, 25, 27, 29, 31, 32, 33)},
    "negative": {MOST: "-1"},
}  # fmt: skip


def by_iceberg(spark, table, entry):
    """The file's metrics as Iceberg reads them from its footer, as JSON of a content file."""
    door, ice = JvmTable(spark, f"hardpack.{'.'.join(table.name())}"), spark._jvm.org.apache.iceberg
    file = door._java.io().newInputFile(entry["file-path"])
    metrics = ice.parquet.ParquetUtil.fileMetrics(file, ice.MetricsConfig.forTable(door._java))
    made = ice.DataFiles.builder(door._java.spec()).withPath(entry["file-path"]).withPartitionPath("partition=0")
    made = made.withFormat("parquet").withFileSizeInBytes(1).withMetrics(metrics).build()
    return json.loads(ice.ContentFileParser.toJson(made, door._java.spec()))


def numbers(entry, name):
    found = entry.get(name) or {"keys": [], "values": []}
    return dict(zip(found["keys"], found["values"], strict=True))


def flat(struct, values, prefix=()):
    """Field id and values of all columns outside lists and maps."""
    for field in struct.fields:
        below = [None if v is None else v[field.name] for v in values]
        if isinstance(field.field_type, StructType):
            yield from flat(field.field_type, below)
        elif not isinstance(field.field_type, ListType | MapType):
            yield field, below


@pytest.mark.parametrize("modes", MODES.values(), ids=MODES)
def test_metrics_equal_icebergs(spark, catalog, modes):
    table = new_table(catalog, {PREFIX + key: value for key, value in modes.items()})
    rng = random.Random(str(modes))
    batches = [rows(rng, number) for number in (1, 3, 60)]
    for some in ([batches[0]], batches[1:], batches):
        _, (entry,) = write(table, some)
        told = by_iceberg(spark, table, entry)
        assert {kind: numbers(entry, kind) for kind in KINDS} == {kind: numbers(told, kind) for kind in KINDS}
        assert entry["record-count"] == told["record-count"]
        values = [row for batch in some for row in batch.to_pylist()]
        nans = {
            field.field_id: sum(v is not None and math.isnan(v) for v in below)
            for field, below in flat(table.schema().as_struct(), values)
            if field.field_id in numbers(entry, "value-counts") and str(field.field_type) in ("float", "double")
        }
        assert numbers(entry, "nan-value-counts") == nans


def test_columns_of_the_sort_order_have_bounds(spark, catalog):
    table = new_table(catalog, {PREFIX + "default": "counts", PREFIX + "column.day": "none"})
    with table.update_sort_order() as order:
        order.asc("text", IdentityTransform()).desc("binary", TruncateTransform(3))
        order.asc("int", BucketTransform(4)).asc("day", IdentityTransform())
    _, (entry,) = write(table.refresh(), [rows(random.Random(1), 50)])
    told = by_iceberg(spark, table, entry)
    assert {kind: numbers(entry, kind) for kind in KINDS} == {kind: numbers(told, kind) for kind in KINDS}
    assert numbers(entry, "lower-bounds").keys() == {
        table.schema().find_field(name).field_id for name in ("text", "binary")
    }


def test_a_table_that_wants_no_metrics_can_still_be_cleaned(hp, catalog):
    """Rewritten files have the bounds that the next pass needs."""
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    for rows_of_commit in ([row(0, "a"), row(1, "b")], [row(2, "a"), row(3, "c")], [row(4, "d")]):
        append(table, {0: rows_of_commit})
    with table.transaction() as change:
        change.set_properties({PREFIX + "default": "none", PREFIX + "column.offset": "counts"})
    assert hp.clean(hp.plan(name_of(table))).logs[0].superseded == 1
    with table.refresh().transaction() as change:
        change.remove_properties(PREFIX + "default", PREFIX + "column.offset")
    append(table, {0: [row(5, "b"), row(6, "z")]})
    append(table, {0: [row(7, "y")]})
    assert hp.clean(hp.plan(name_of(table))).logs[0].superseded == 1
    assert offsets(table) == [2, 3, 4, 5, 6, 7]
