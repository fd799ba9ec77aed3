"""Tables with columns as sinks write them, without a row."""

from itertools import count

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

_names, _ids = count(), count(1)


def next_id():
    """A field id that no other field of these tables has."""
    return next(_ids)


def field(name, kind, required=False):
    return NestedField(next_id(), name, kind, required=required)


def struct(**fields):
    return StructType(*(field(name, kind) for name, kind in fields.items()))


def table_of(catalog, fields, keys=(), spec=None, properties=None):
    """A table of these columns: name -> type."""
    catalog.create_namespace_if_not_exists("sink")
    listed = [field(n, t, required=n in keys) for n, t in fields.items()]
    schema = Schema(*listed, identifier_field_ids=[f.field_id for f in listed if f.name in keys])
    partitioned = PartitionSpec()
    if spec:
        partitioned = PartitionSpec(PartitionField(schema.find_field(spec).field_id, 1000, HourTransform(), "hour"))
    return catalog.create_table(
        f"sink.t{next(_names)}", schema, partition_spec=partitioned,
        properties={"format-version": "2", **(properties or {})},
    )  # fmt: skip


VALUE = {"id": StringType(), "name": StringType(), "amount": DoubleType()}
META = {"topic": StringType(), "partition": IntegerType(), "offset": LongType(), "timestamp": LongType()}


def headers():
    return ListType(next_id(), struct(key=BinaryType(), value=BinaryType()))


def redpanda(catalog, **value):
    system = struct(
        partition=IntegerType(), offset=LongType(), timestamp=TimestampType(), headers=headers(), key=BinaryType()
    )
    return table_of(catalog, {"redpanda": system, **(value or {"value": BinaryType()})}, spec="redpanda.timestamp")
