"""Files of other writers: what of their schema is the table's, and what Arrow noted beside Parquet's own; no JVM."""

from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.files.foreign_schema import own_fields, plain_types
from hardpack.files.projection import FileColumns
from hardpack.table.footers import field_numbers
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import (
    DecimalType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

TABLE = Schema(
    NestedField(1, "offset", LongType()),
    NestedField(4, "key", StringType()),
    NestedField(5, "s", StructType(NestedField(6, "x", LongType()))),
    NestedField(7, "items", ListType(8, StructType(NestedField(9, "n", LongType())), False)),
    NestedField(10, "named", MapType(11, StringType(), 12, StructType(NestedField(13, "n", LongType())), False)),
)
NAMES = create_mapping_from_schema(TABLE)
N = pa.struct([("n", pa.int64())])
ROW = {"offset": 1, "key": "a", "s": {"x": 1}, "items": [{"n": 1}, None], "named": [("k", {"n": 2})]}
WIDE = pa.struct([("n", pa.int64()), ("more", pa.string())])
PLAIN = {
    "offset": pa.int64(), "key": pa.string(), "s": pa.struct([("x", pa.int64())]), "items": pa.list_(N),
    "named": pa.map_(pa.string(), N),
}  # fmt: skip


def parquet(schema, rows):
    """A file as somebody else wrote it."""
    out = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(schema)), out)
    return pq.ParquetFile(BytesIO(out.getvalue()))


def read(file, names=NAMES, table=TABLE):
    columns = FileColumns(file.schema_arrow, table, names, 2, None, ())
    return [row for batch in file.iter_batches(10, [0], columns.names) for row in columns.mapped(batch).to_pylist()]


def number(field, numbers):
    """The field with ids, but for those that get none, from the outside in."""
    kind, given = field.type, next(numbers)
    if pa.types.is_struct(kind):
        kind = pa.struct([number(kind.field(at), numbers) for at in range(kind.num_fields)])
    elif pa.types.is_map(kind):
        kind = pa.map_(number(kind.key_field, numbers), number(kind.item_field, numbers))
    elif pa.types.is_list(kind):
        kind = pa.list_(number(kind.value_field, numbers))
    return pa.field(field.name, kind, field.nullable, {b"PARQUET:field_id": str(given).encode()} if given else None)


@pytest.mark.parametrize(
    ("column", "kind", "cell"),
    [
        ("ingest_host", pa.string(), "h"),
        ("s", pa.struct([("x", pa.int64()), ("z", pa.int64())]), {"x": 1, "z": 2}),
        ("items", pa.list_(WIDE), [{"n": 1, "more": "m"}, None]),
        ("items", pa.large_list(WIDE), [{"n": 1, "more": "m"}, None]),
        ("named", pa.map_(pa.string(), WIDE), [("k", {"n": 2, "more": "m"})]),
    ],
)
def test_what_the_name_mapping_does_not_name_is_passed_over(column, kind, cell):
    file = parquet({**PLAIN, column: kind}, [{**ROW, column: cell}])
    assert read(file) == [ROW]


def test_a_column_that_the_file_lacks_is_null():
    assert read(parquet({"offset": pa.int64()}, [{"offset": 1}])) == [dict.fromkeys(ROW) | {"offset": 1}]


@pytest.mark.parametrize("names", [None, NAMES], ids=["no mapping", "a mapping"])
def test_where_a_field_has_an_id_names_count_for_nothing(names):
    fields = {"offset": pa.int64(), "key": pa.string(), "s": pa.struct([("x", pa.int64()), ("z", pa.int64())])}
    given = iter([1, None, 5, 6, None])
    schema = [number(pa.field(name, kind), given) for name, kind in fields.items()]
    file = parquet(schema, [{"offset": 1, "key": "a", "s": {"x": 1, "z": 2}}])
    assert read(file, names) == [dict.fromkeys(ROW) | {"offset": 1, "s": {"x": 1}}]
    # planning by footers sees the same columns as reading does
    assert field_numbers(file.schema, names) == [1, None, 6, None]


def test_a_list_or_map_of_what_is_not_the_tables_is_none_of_it():
    given = iter([1, 7, None, None, 10, 11, None, None])
    fields = {name: PLAIN[name] for name in ("offset", "items", "named")}
    schema = pa.schema([number(pa.field(name, kind), given) for name, kind in fields.items()])
    assert own_fields(schema, None).names == ["offset"]


def test_without_ids_and_names_nothing_is_dropped():
    schema = pa.schema(PLAIN)
    assert own_fields(schema, None) == schema


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PRICE = Decimal("1.25")


@pytest.mark.parametrize(
    ("arrow", "iceberg", "value"),
    [
        (pa.timestamp("us", "Europe/Berlin"), TimestamptzType(), NOON),
        (pa.timestamp("us", "+02:00"), TimestamptzType(), NOON),
        (pa.timestamp("ms", "America/New_York"), TimestamptzType(), NOON),
        (pa.decimal256(10, 2), DecimalType(10, 2), PRICE),
        (pa.decimal32(9, 2), DecimalType(9, 2), PRICE),
        (pa.decimal64(15, 2), DecimalType(15, 2), PRICE),
    ],
    ids=str,
)
@pytest.mark.parametrize("around", ["nothing", "a struct", "a list", "a map"])
def test_what_arrow_noted_beside_parquets_types_changes_no_value(arrow, iceberg, value, around):
    kinds = {
        "nothing": (arrow, iceberg, [value, None]),
        "a struct": (
            pa.struct([("x", arrow)]), StructType(NestedField(2, "x", iceberg)), [{"x": value}, None, {"x": None}]
        ),
        "a list": (pa.list_(arrow), ListType(2, iceberg, False), [[value, None], None, []]),
        "a map": (pa.map_(pa.string(), arrow), MapType(2, StringType(), 3, iceberg, False), [[("k", value)], None, []]),
    }  # fmt: skip
    kind, of_table, cells = kinds[around]
    table = Schema(NestedField(1, "c", of_table))
    file = parquet({"c": kind}, [{"c": cell} for cell in cells])
    assert [row["c"] for row in read(file, create_mapping_from_schema(table), table)] == cells


def test_types_that_are_known_stay_as_they_are():
    fixed = pa.list_(pa.field("element", pa.timestamp("us", "UTC")), 2)
    schema = pa.schema(PLAIN | {"at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "two": fixed})
    assert plain_types(schema) == schema
    assert plain_types(pa.schema({"wide": pa.decimal256(60, 2)})).field("wide").type == pa.decimal256(60, 2)
