"""Columns of files that others wrote in their own ways become the same Arrow columns, and lose nothing; no JVM."""

import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.projection import FileColumns, project
from hardpack.spark import rewrite as wide
from hardpack.spark.rewrite import RewriteInput
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from tests.topics import T0, append, columns_of, new_topic, row

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
FOREVER = datetime(9999, 12, 31)
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


def two_deep(name):
    """Structs below two collections, whose field may have any name."""
    item = [StructType(NestedField(30 + n, name, IntegerType())) for n in range(4)]
    return Schema(
        NestedField(1, "lists", ListType(10, ListType(11, item[0], False), False)),
        NestedField(2, "of_lists", MapType(12, StringType(), 13, ListType(14, item[1], False), False)),
        NestedField(3, "maps", ListType(15, MapType(16, StringType(), 17, item[2], False), False)),
        NestedField(4, "by_struct", MapType(18, item[3], 19, StringType(), False)),
    )


def test_fields_below_two_collections_are_found_by_their_ids():
    def rows(name):
        one = {name: 1}
        return [{"lists": [[one], None], "of_lists": [("x", [one])], "maps": [[("x", one)]], "by_struct": [(one, "x")]}]

    for was, now in (("a", "b"), ("a-b", "a_x2Db")):
        batch = pa.RecordBatch.from_pylist(rows(was), schema_to_pyarrow(two_deep(was), include_field_ids=False))
        assert project(batch, two_deep(was), two_deep(now)).to_pylist() == rows(now)
    assert sanitize_column_names(two_deep("a-b")) == two_deep("a_x2Db")


def test_a_list_of_a_fixed_size_is_a_list():
    kind = pa.list_(pa.field("element", pa.struct([("n", pa.int32())])), 2)
    schema = Schema(NestedField(1, "items", ListType(10, ITEM, False)))
    rows = [{"items": [{"n": 1}, {"n": 2}]}, {"items": None}, {"items": [{"n": 3}, None]}]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("items", kind)]))
    for start in range(3):
        assert project(batch.slice(start), schema, schema).to_pylist() == rows[start:]


DAY = datetime(2020, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    ("kind", "json", "value"),
    [
        (IntegerType(), 7, 7), (StringType(), "x", "x"), (DateType(), "2020-01-02", DAY.date()),
        (TimestampType(), "2020-01-02T03:04:05.000006", DAY), (BinaryType(), "AB", b"\xab"),
        (TimestamptzType(), "2020-01-02T03:04:05.000006+00:00", DAY.replace(tzinfo=UTC)),
        (DecimalType(9, 2), "1.20", Decimal("1.20")), (UUIDType(), str(uuid.UUID(int=5)), uuid.UUID(int=5)),
        (StringType(), None, None), (IntegerType(), None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("required", [False, True])
def test_a_partition_column_that_a_file_lacks_has_the_partitions_value(kind, json, value, required):
    if required and value is None:
        return
    default = 9 if isinstance(kind, IntegerType) and not required else None
    day = NestedField(1, "day", kind, required=required, initial_default=default)
    inside = NestedField(3, "in", StructType(NestedField(4, "day", kind), NestedField(5, "n", LongType())))
    wanted = Schema(day, NestedField(2, "offset", LongType()), inside)
    spec = PartitionSpec(*(PartitionField(i, 1000 + i, IdentityTransform(), f"day{i}") for i in (1, 4)))
    number = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "5"})
    there = pa.schema(
        [
            pa.field("offset", pa.int64(), metadata={"PARQUET:field_id": "2"}),
            pa.field("in", pa.struct([number]), metadata={"PARQUET:field_id": "3"}),
        ]
    )
    columns = FileColumns(there, wanted, None, 2, spec, [json, json])
    assert columns.names == ["offset", "in"]
    batch = columns.mapped(pa.RecordBatch.from_pydict({"offset": [1, 2], "in": [{"n": 1}, {"n": 2}]}, there))
    assert batch.to_pylist() == [{"day": value, "offset": n, "in": {"day": value, "n": n}} for n in (1, 2)]


@pytest.fixture
def wide_topic(catalog):
    """A topic with a file, and columns for a UUID, a time and nested values."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "k0")]})
    with table.update_schema() as change:
        change.add_column("id", UUIDType())
        change.add_column("until", TimestampType())
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
            "until": FOREVER,
        }
        | ROWS[n]
        for n in range(2)
    ]
    path = folder / f"{first}.parquet"
    # only Arrow's own files tell more of their types than Parquet does
    pq.write_table(
        pa.Table.from_pylist(rows, plain).cast(schema),
        path,
        store_schema=types.get("value") != JSON,
        use_deprecated_int96_timestamps="until" in types,
    )
    entry = {
        "file-path": f"file://{path}", "record-count": 2, "spec-id": 0, "partition": [0], "file-format": "PARQUET",
        "file-size-in-bytes": path.stat().st_size,
    }  # fmt: skip
    return ContentFile(entry)


def test_files_of_other_writers_become_one(wide_topic, tmp_path):
    """Text as Spark writes it and as pyiceberg does, a dictionary, JSON, a UUID without its name, INT96 far ahead."""
    kinds = [
        {"value": pa.string(), "key": pa.binary()},
        {"value": pa.large_string(), "key": pa.large_binary(), "id": pa.binary(16)},
        {"value": pa.dictionary(pa.int32(), pa.string())},
        {"until": pa.timestamp("us")},
        {"value": JSON},
    ]
    given = [written_as(wide_topic, tmp_path, 2 * n, types) for n, types in enumerate(kinds)]
    files = DataFiles.of(wide_topic)
    new = [
        f.entry
        for f in wide._rewrite(files, [RewriteInput(ref, b"") for ref in given], columns_of(files, "offset")[0], 10**9)
    ]
    again = [
        f.entry
        for f in wide._rewrite(
            files, [RewriteInput(r, b"") for r in reversed(given)], columns_of(files, "offset")[0], 10**9
        )
    ]
    for entries in (new, again):
        (batch,) = files.read_whole(ContentFile(entries[0]))
        found = batch.to_pylist()
        assert [r["offset"] for r in found] == list(range(10))
        assert {r["value"] for r in found} == {'{"n": 1}'}
        assert {r["until"] for r in found} == {FOREVER}
        assert [r["id"] for r in found] == [uuid.UUID(int=n) for n in range(10)]
        assert [{c: r[c] for c in ROWS[0]} for r in found] == ROWS[:2] * 5
