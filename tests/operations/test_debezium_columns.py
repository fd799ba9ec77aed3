"""Columns that Debezium's transforms add: what they tell of deletes, and that they alone name no sink; no JVM."""

import pytest
from hardpack.operations.adopt import _other_tombstones
from hardpack.operations.writers import recognise
from hardpack.table.layout import bound_fields
from hardpack.table.state import write_state
from pyiceberg.types import LongType, StringType, TimestamptzType

from tests.sink_tables import META, VALUE, redpanda, struct, table_of
from tests.topics import name_of


def connect_debezium_without_keys(catalog):
    """Without `_cdc.key`, which the transform does not write for a topic without a schema of its keys."""
    cdc = struct(op=StringType(), ts=TimestamptzType(), offset=LongType(), source=StringType(), target=StringType())
    meta = {f"_kafka_metadata_{n}": t for n, t in META.items()}
    return table_of(catalog, VALUE | {"_cdc": cdc} | meta, keys=["id"])


REWRITTEN = {"__op": StringType(), "__deleted": StringType()}
"""What Debezium's ExtractNewRecordState adds to a record."""


def connect_rewritten(catalog):
    return table_of(catalog, VALUE | REWRITTEN | {f"_kafka_metadata_{n}": t for n, t in META.items()}, keys=["id"])


def redpanda_rewritten(catalog):
    return redpanda(catalog, **VALUE, **REWRITTEN)


def mapped_by_hand(catalog):
    return table_of(catalog, VALUE | REWRITTEN | META, keys=["id"])


@pytest.mark.parametrize(
    ("made", "writer", "tombstone", "key"),
    [
        (connect_debezium_without_keys, "connect-debezium", "_cdc.op=D", "id"),
        (connect_rewritten, "connect", "__deleted=true", "id"),
        (redpanda_rewritten, "redpanda", None, "redpanda.key"),
        (mapped_by_hand, None, None, None),
    ],
)
def test_what_debezium_adds_to_records_makes_no_table_of_its_server(catalog, made, writer, tombstone, key):
    """With Kafka's partition and offset beside it, a table came through Kafka."""
    table = made(catalog)
    found = recognise(table, {})
    assert (found and found.name) == writer
    if writer:
        assert found.settings["column.key"] == key
        assert tombstone is None or found.settings["tombstone"] == tombstone


def test_a_rule_that_is_written_otherwise_makes_no_other_tombstones(cold, catalog):
    """As SQL may set it, with blanks: an adoption that changes something else postpones no horizon."""
    table = mapped_by_hand(catalog)
    own = {"column.key": "id", "tombstone": "__deleted=true"}
    cold.adopt(name_of(table), own)
    with table.refresh().transaction() as change:
        change.set_properties({"hardpack.tombstone": "__deleted = true", "hardpack.state": write_state({})})
    settings = cold.adopt(name_of(table), {"delete.retention.ms": "5"}, dry_run=True)
    fields = bound_fields(table.refresh(), settings)
    assert not _other_tombstones(table, settings, fields, {})
    with table.transaction() as change:
        change.set_properties({"hardpack.tombstone": "__deleted = false"})
    assert _other_tombstones(table.refresh(), settings, fields, {})
