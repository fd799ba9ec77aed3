"""Makes a table for a topic, with the columns, partitioning and order that suit hardpack best, and Kafka's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from hardpack.errors import BadInput
from hardpack.operations.adopt import expect_settable
from hardpack.rules.settings import NONE, PREFIX, Settings, read_settings
from hardpack.table.catalog import expect_new_name
from hardpack.table.columns import POLICY

HEADER = StructType(NestedField(8, "key", StringType(), required=True), NestedField(9, "value", BinaryType()))
SCHEMA = Schema(
    NestedField(1, "partition", IntegerType(), required=True),
    NestedField(2, "offset", LongType(), required=True),
    NestedField(3, "timestamp", TimestamptzType(), required=True),
    NestedField(4, "key", BinaryType()),
    NestedField(5, "value", BinaryType()),
    NestedField(6, "headers", ListType(7, HEADER, element_required=True)),
)
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))
ORDER = SortOrder(SortField(2, IdentityTransform()))
"""Writers that honour it leave files that are read in order without sorting."""


def create(
    catalog: Catalog,
    table: str,
    settings: Mapping[str, str],
    adopt: Callable[[], Settings],
    policy: Mapping[str, str] = NONE,
) -> Settings:
    """Makes an empty table for a topic, in a namespace that is there, and adopts it with these settings.

    Args:
        catalog: where it is made.
        table: `namespace.table`.
        settings: names without the prefix `hardpack.`, and their values.
        adopt: adopts the table, once it is made.
        policy: what the table's policy sets.

    Returns:
        The settings in force.

    Raises:
        BadInput: a wrong setting, a table of this name or no such namespace; nothing was made.
    """
    expect_new_name(table)
    namespace = table.rpartition(".")[0]
    expect_settable(table, settings, policy)
    if mapped := sorted(name for name in settings if name.startswith("column.") or name == "tombstone"):
        raise BadInput(f"{table}: {mapped[0]} is not for a new table, which has hardpack's own columns; leave it out.")
    properties = {POLICY: policy.get("cleanup.policy", "compact")}
    properties |= {PREFIX + k: v for k, v in settings.items() if v != ""}
    read_settings(table, properties, policy, "create")
    try:
        catalog.create_table(table, SCHEMA, partition_spec=SPEC, sort_order=ORDER, properties=properties)
    except TableAlreadyExistsError:
        raise BadInput(f"{table}: the table is there already; `hardpack adopt {table}` makes it a topic.") from None
    except NoSuchNamespaceError:
        raise BadInput(f"{table}: there is no namespace {namespace!r}; make it in the catalog first.") from None
    try:
        return adopt()
    except Exception:
        # the catalog may give new tables properties that hardpack cannot honour
        with suppress(Exception):  # the first error is the one that has to be told
            catalog.drop_table(table)
        raise
