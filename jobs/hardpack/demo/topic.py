"""A Kafka topic as an Iceberg table: its layout, Kafka's partitioner, dense offsets, appends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from hardpack.errors import BadInput
from hardpack.table.catalog import expect_new_name

COLUMNS = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.string()),
    ]
)
SCHEMA = Schema(
    NestedField(1, "partition", IntegerType(), required=True),
    NestedField(2, "offset", LongType(), required=True),
    NestedField(3, "timestamp", TimestamptzType(), required=True),
    NestedField(4, "key", BinaryType()),
    NestedField(5, "value", StringType()),
)
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))


def create_topic(catalog: Catalog, name: str, properties: dict[str, str]) -> Table:
    """Returns a new table of the topic's layout, adopted with the settings given as properties.

    Raises:
        BadInput: the table is there already, or a table cannot have that name.
    """
    expect_new_name(name)
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    try:
        return catalog.create_table(
            name, SCHEMA, partition_spec=SPEC, properties={"hardpack.cleanup.policy": "compact", **properties}
        )
    except TableAlreadyExistsError:
        raise BadInput(f"{name}: the table is there already; drop it or name another with --table.") from None


class Partitioner:
    """Kafka's default partitioner for keys (murmur2); records without a key go to the partitions in turn."""

    def __init__(self, partitions: int) -> None:
        # imported here, as only loading a topic needs the extra `demo`
        from kafka.partitioner.default import murmur2

        self._partitions = partitions
        self._keyless = count()
        self._of = lru_cache(maxsize=None)(lambda key: (murmur2(key) & 0x7FFFFFFF) % partitions)

    def __call__(self, key: bytes | None) -> int:
        """Returns the partition of a record."""
        return next(self._keyless) % self._partitions if key is None else int(self._of(key))


class Offsets:
    """Dense offsets per partition, from zero."""

    def __init__(self) -> None:
        self._next: dict[int, Iterator[int]] = {}

    def __call__(self, partition: int) -> int:
        """Returns the partition's next offset."""
        return next(self._next.setdefault(partition, count()))
