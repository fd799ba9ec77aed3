"""Rows of every type with awkward values, and hardpack's writer on them."""

from __future__ import annotations

import random
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import count

import pyarrow as pa
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.writer import write_files
from hardpack.rules.settings import Settings
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

TYPES = {
    "yes": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(), "double": DoubleType(),
    "small": DecimalType(7, 2), "medium": DecimalType(15, 0), "large": DecimalType(38, 9), "day": DateType(),
    "clock": TimeType(), "at": TimestampType(), "atz": TimestamptzType(), "text": StringType(), "id": UUIDType(),
    "fixed": FixedType(5), "binary": BinaryType(),
}  # fmt: skip
"""Each of Iceberg's flat types, by the name of a column."""
SCHEMA = Schema(
    NestedField(1, "partition", IntegerType()), NestedField(2, "offset", LongType()),
    NestedField(3, "timestamp", TimestamptzType()), NestedField(4, "key", BinaryType()),
    NestedField(5, "value", StringType()),
    *(NestedField(10 + n, name, kind) for n, (name, kind) in enumerate(TYPES.items())),
    NestedField(40, "inner", StructType(
        NestedField(41, "float", FloatType()), NestedField(42, "text", StringType()),
        NestedField(43, "deep", StructType(
            NestedField(44, "long", LongType()), NestedField(45, "double", DoubleType()),
        )),
    )),
    NestedField(50, "list", ListType(51, StringType(), False)),
    NestedField(52, "map", MapType(53, StringType(), 54, DoubleType(), False)),
    NestedField(60, "structs", ListType(61, StructType(NestedField(62, "double", DoubleType())), False)),
    NestedField(70, "empty", DoubleType()),
)  # fmt: skip
EPOCH = datetime(1970, 1, 1)
_names = count()


def value(rng, kind):
    """A value of a type; many are few in number, so that predicates hit them."""
    if rng.random() < 0.1:
        return None
    if isinstance(kind, StructType):
        return {field.name: value(rng, field.field_type) for field in kind.fields}
    if isinstance(kind, ListType):
        return [value(rng, kind.element_type) for _ in range(rng.randrange(3))]
    if isinstance(kind, MapType):
        return [(f"k{n}", value(rng, kind.value_type)) for n in range(rng.randrange(3))]
    if isinstance(kind, DecimalType):
        most = 10 ** min(kind.precision, rng.choice([2, kind.precision])) - 1
        return Decimal(f"{rng.randint(-most, most)}E-{kind.scale}")
    return MAKERS[type(kind)](rng)


def _text(rng):
    letters = ["a", "z", "ÿ", "\ud7ff", "\ue000", "\U0010ffff", "é", "\x00", " "]
    return "".join(rng.choice(letters) for _ in range(rng.choice([0, 1, 3, 5, 16, 17, 40])))


def _bytes(rng):
    return bytes(rng.choice([0, 1, 127, 128, 255]) for _ in range(rng.choice([0, 1, 3, 5, 16, 17, 40])))


def _uuid(rng):
    # begins as a time does: Iceberg's Java and Parquet sort such ones alike
    return bytes([rng.randrange(128)]) + rng.randbytes(7) + bytes([rng.randrange(128, 192)]) + rng.randbytes(7)


def _double(rng):
    return rng.choice([float("nan"), 0.0, -0.0, float("inf"), -float("inf"), rng.uniform(-9, 9), rng.uniform(-9, 9)])


def _float(rng):
    return struct.unpack("<f", struct.pack("<f", _double(rng)))[0]


MAKERS = {
    BooleanType: lambda rng: rng.random() < 0.5,
    IntegerType: lambda rng: rng.choice([-(2**31), 2**31 - 1, rng.randint(-9, 9)]),
    LongType: lambda rng: rng.choice([-(2**63), 2**63 - 1, rng.randint(-9, 9)]),
    FloatType: _float,
    DoubleType: _double,
    DateType: lambda rng: date(1970, 1, 1) + timedelta(rng.randint(-999, 999)),
    TimeType: lambda rng: time(rng.randrange(24), rng.randrange(60), 1, rng.randrange(10**6)),
    TimestampType: lambda rng: EPOCH + timedelta(0, rng.randint(-(10**9), 10**9), rng.randrange(10**6)),
    TimestamptzType: lambda rng: EPOCH.replace(tzinfo=UTC) + timedelta(0, rng.randint(-(10**9), 10**9)),
    StringType: _text,
    UUIDType: _uuid,
    FixedType: lambda rng: bytes(rng.choice([0, 127, 128, 255]) for _ in range(5)),
    BinaryType: _bytes,
    UnknownType: lambda rng: None,
}


def new_table(catalog, properties=None, schema=SCHEMA):
    """A table of all types, partitioned as a topic is."""
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))
    catalog.create_namespace_if_not_exists("t")
    return catalog.create_table(f"t.all_types{next(_names)}", schema, partition_spec=spec, properties=properties or {})


def column(schema, name, values):
    """An Arrow array of Iceberg's type."""
    kind = schema_to_pyarrow(schema.select(name), include_field_ids=False).field(0).type
    if isinstance(schema.find_type(name), UUIDType):
        return pa.array(values, pa.binary(16)).cast(kind) if kind != pa.binary(16) else pa.array(values, kind)
    return pa.array(values, kind)


def rows(rng: random.Random, number, schema=SCHEMA, **given):
    """A batch of random rows; given columns have the values that they are given."""
    made = {f.name: [value(rng, f.field_type) for _ in range(number)] for f in schema.fields}
    made |= {"partition": [0] * number, "offset": list(range(number)), "empty": [None] * number} | given
    names = [f.name for f in schema.fields]
    return pa.RecordBatch.from_arrays([column(schema, n, made[n]) for n in names], names=names)


def write(table, batches, target=10**9, sensing=False):
    """Files that hardpack writes, as Iceberg's JSON."""
    like = ContentFile({"spec-id": 0, "partition": [0], "file-path": "", "file-format": "parquet"})
    files = DataFiles.of(table, settings=Settings() if sensing else None)
    return files, [file.entry for file in write_files(files, iter(batches), like, target)]
