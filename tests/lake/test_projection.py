"""Columns of files that others wrote in their own ways become the same Arrow columns, and lose nothing; no JVM."""

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.lake.files import DataFiles, FileRef
from hardpack.lake.projection import project
from hardpack.spark import rewrite as wide
from hardpack.spark.rewrite import Living
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, MapType, NestedField, StringType, StructType, UUIDType

from tests.topics import T0, append, new_topic, row

ITEM = StructType(NestedField(20, "n", IntegerType()))
NESTED = Schema(
    NestedField(1, "items", ListType(10, ITEM, False)),
    NestedField(2, "named", MapType(11, StringType(), 12, StructType(NestedField(21, "n", IntegerType())), False)),
    NestedField(
        3,
        "deep",
        StructType(NestedField(13, "items", ListType(14, StructType(NestedField(22, "n", IntegerType())), False))),
    ),
    NestedField(4, "lists", ListType(15, ListType(16, StructType(NestedField(23, "n", IntegerType())), False), False)),
)
JSON = pa.json_(pa.string())
ROWS = [
    {"items": [{"n": 1}, None], "named": [("a", {"n": 1}), ("b", None)], "deep": {"items": [{"n": 1}]}, "lists": [[]]},
    {"items": None, "named": None, "deep": {"items": None}, "lists": [None, [{"n": 1}], []]},
    {"items": [], "named": [], "deep": {"items": []}, "lists": []},
    {"items": [{"n": None}], "named": [("c", {"n": None})], "deep": None, "lists": None},
]


@pytest.mark.parametrize("start", range(4))
def test_what_is_missing_in_a_nested_column_stays_missing(start):
    batch = pa.RecordBatch.from_pylist(ROWS, schema_to_pyarrow(NESTED, include_field_ids=False)).slice(start)
    assert project(batch, NESTED, NESTED).to_pylist() == ROWS[start:]


@pytest.fixture
def wide_topic(catalog):
    """A topic with a file, and a column each for a UUID and for nested values."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "k0")]})
    with table.update_schema() as change:
        change.add_column("id", UUIDType())
        for field in NESTED.fields:
            change.add_column(field.name, field.field_type)
    return table.refresh()


def written_as(table, folder, first, types):
    """A data file with two rows from an offset on, some columns of it in other Arrow types."""
    schema = schema_to_pyarrow(table.schema())
    schema = pa.schema([f.with_type(types.get(f.name, f.type)) for f in schema])
    plain = pa.schema([f.with_type(pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in schema])
    rows = [
        {
            "partition": 0,
            "offset": first + n,
            "timestamp": T0,
            "key": b"k",
            "value": '{"n": 1}',
            "id": uuid.UUID(int=first + n).bytes,
        }
        | ROWS[n]
        for n in range(2)
    ]
    path = folder / f"{first}.parquet"
    # only Arrow's own files tell more of their types than Parquet does
    pq.write_table(pa.Table.from_pylist(rows, plain).cast(schema), path, store_schema=types.get("value") != JSON)
    entry = {
        "file-path": f"file://{path}", "record-count": 2, "spec-id": 0, "partition": [0], "file-format": "PARQUET",
        "file-size-in-bytes": path.stat().st_size,
    }  # fmt: skip
    return FileRef(entry)


def test_files_of_other_writers_become_one(wide_topic, tmp_path):
    """Text as Spark writes it and as pyiceberg does, a dictionary, JSON, a UUID without its name."""
    kinds = [
        {"value": pa.string(), "key": pa.binary()},
        {"value": pa.large_string(), "key": pa.large_binary(), "id": pa.binary(16)},
        {"value": pa.dictionary(pa.int32(), pa.string())},
        {"value": JSON},
    ]
    given = [written_as(wide_topic, tmp_path, 2 * n, types) for n, types in enumerate(kinds)]
    files = DataFiles.of(wide_topic)
    new = wide._rewrite(files, [Living(ref, b"") for ref in given], "offset", 10**9)
    again = wide._rewrite(files, [Living(ref, b"") for ref in reversed(given)], "offset", 10**9)
    for entries in (new, again):
        (batch,) = files.read_whole(FileRef(entries[0]))
        found = batch.to_pylist()
        assert [r["offset"] for r in found] == list(range(8))
        assert {r["value"] for r in found} == {'{"n": 1}'}
        assert [r["id"] for r in found] == [uuid.UUID(int=n) for n in range(8)]
        assert [{c: r[c] for c in ROWS[0]} for r in found] == ROWS[:2] * 4
