"""A pass over a table with a column of each type that Spark has: every value stays as it is."""

import random

import pyarrow as pa
import pytest
from hardpack.files.content_file import ContentFile
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.readable import ROW_LINEAGE
from pyiceberg.schema import Schema
from pyiceberg.types import (
    TimeType,
)

from tests.samples import SCHEMA, new_table, rows, write
from tests.topics import T0, name_of

DAY = 86_400_000
NESTED = [f for f in SCHEMA.fields if not isinstance(f.field_type, TimeType)]
FLAT = [f for f in NESTED if f.field_type.is_primitive]
"""Iceberg's Spark reader has two ways: a faster one for tables without nested columns."""
TABLES = {"flat": (2, FLAT), "nested": (2, NESTED), "flat, v3": (3, FLAT), "nested, v3": (3, NESTED)}


@pytest.fixture(params=TABLES.values(), ids=TABLES)
def topic(request, catalog, spark):
    """Four files of ten rows each, of seven keys; the last row of each file is a tombstone."""
    version, fields = request.param
    table = new_table(catalog, {"hardpack.cleanup.policy": "compact"}, Schema(*fields))
    java = JvmTable(spark, f"hardpack.{name_of(table)}")
    if version == 3:
        # pyiceberg makes no such tables
        java._java.updateProperties().set("format-version", "3").commit()
        java._java.updateSchema().addColumn("unknown", java._ice.types.Types.UnknownType.get()).commit()
        table = catalog.load_table(name_of(table))
    rng = random.Random(len(fields))
    append = java._java.newAppend()
    for start in range(0, 40, 10):
        given = {
            "offset": list(range(start, start + 10)),
            "key": [f"k{rng.randrange(7)}".encode() for _ in range(10)],
            "value": ["v"] * 9 + [None],
        }
        batch = rows(rng, 10, table.schema(), **given)
        for column in ROW_LINEAGE if version == 3 else ():
            # null, as in files that no rewrite has written
            batch = batch.append_column(column, pa.nulls(10, pa.int64()))
        _, entries = write(table, [batch])
        for entry in entries:
            append.appendFile(java.java_file(ContentFile(entry)))
    append.commit()
    return table.refresh()


def read(hp, name):
    return pa.Table.from_batches(hp.read(name)).to_pylist()


def assert_same(found, expected):
    # as text, where NaN equals itself and a negative zero is another
    assert [repr(row) for row in found] == [repr(row) for row in expected]


@pytest.mark.spark
def test_latest_rows_stay_value_by_value(hp, topic):
    name = name_of(topic)
    hp.adopt(name)
    before = read(hp, name)
    # the newest file is the active segment: it is not cleaned, nor do its rows supersede others
    latest = {row["key"]: row["offset"] for row in before[:30]}.values()
    hp.clean(hp.plan(name, T0, force=True))
    assert_same(read(hp, name), [row for row in before if row["offset"] in latest or row["offset"] >= 30])
    assert hp.verify(name, now=T0).success
    hp.expire_tombstones(name, T0 + 2 * DAY)
    left = [row for row in before if (row["offset"] in latest and row["value"]) or row["offset"] >= 30]
    assert len(left) < 40 - len(latest)
    assert_same(read(hp, name), left)
    assert hp.verify(name, now=T0 + 2 * DAY).success
