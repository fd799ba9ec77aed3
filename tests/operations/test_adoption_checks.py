"""Adoption looks at what is in a table, and refuses what would lose rows in silence. No JVM."""

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hardpack import BadInput
from hardpack.demo.topic import COLUMNS
from hardpack.errors import Unavailable
from hardpack.operations import adoption_checks
from hardpack.operations.adopt import adopt
from hardpack.operations.readers import Positions
from hardpack.rules.model import LogState, SnapshotRef
from hardpack.rules.reference.cleaner import Row
from hardpack.rules.settings import Settings
from hardpack.table.columns import settings_of
from hardpack.table.history import trusted_states
from hardpack.table.layout import FIELDS
from hardpack.table.log_views import read_logs
from hardpack.table.manifests import ManifestReader
from hardpack.table.readers import read_positions
from hardpack.table.state import STATE_PROPERTY, write_state
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestampType

from tests.layouts import TOPICS
from tests.topics import T0, append, name_of, new_topic, row, session_of

_names = count()


@pytest.fixture
def stranger(catalog):
    """Makes a table as a topic has it that nobody adopted."""

    def made(**properties):
        table = new_topic(catalog)
        with table.transaction() as change:
            change.remove_properties("hardpack.cleanup.policy")
            change.set_properties(properties)
        return table.refresh()

    return made


@pytest.mark.parametrize("mode", ["truncate(16)", "none"])
def test_empty_keys_are_asked_about(stranger, mode):
    """All rows without a key would be one key, of which only the last row stays."""
    table = stranger(**{"write.metadata.metrics.column.key": mode})
    append(table, {0: [row(0, "a"), row(1, ""), row(2, None)]})
    with pytest.raises(BadInput, match="column 'key' holds empty keys"):
        adopt(session_of(table.refresh()), {})
    assert "hardpack.cleanup.policy" not in table.refresh().properties
    assert adopt(session_of(table), {"key.absent": "empty"}, dry_run=True).key_absent == "empty"
    assert adopt(session_of(table), {"key.absent": "null"}).key_absent == "null"


@pytest.mark.parametrize("mode", ["truncate(16)", "none"])
def test_empty_text_as_a_key_is_asked_about(catalog, mode):
    table = empty_copy(catalog, StringType(), **{"write.metadata.metrics.column.key": mode})
    rows = {
        "partition": [0] * 3,
        "offset": [0, 1, 2],
        "timestamp": [T0] * 3,
        "key": ["a", "", None],
        "value": ["v"] * 3,
    }
    schema = table.schema().as_arrow()
    cells = {name: pa.array(cells).cast(schema.field(name).type) for name, cells in rows.items()}
    table.append(pa.table(cells, schema=schema))
    with pytest.raises(BadInput, match="column 'key' holds empty keys"):
        adopt(session_of(table.refresh()), {})
    assert adopt(session_of(table), {"key.absent": "empty"}).key_absent == "empty"
    views = {view.name: view for view in read_logs(table.refresh(), settings_of(table))}
    assert views["0"].rows == 3


def empty_copy(catalog, key, **properties):
    """A table as a topic's whose key has another type, which nobody adopted."""
    types = {"partition": IntegerType(), "offset": LongType(), "timestamp": TimestampType(), "key": key,
             "value": StringType()}  # fmt: skip
    schema = Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate(types.items(), 1)))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))
    catalog.create_namespace_if_not_exists("typed")
    return catalog.create_table(f"typed.t{next(_names)}", schema, partition_spec=spec, properties=properties)


@pytest.mark.parametrize("mode", ["truncate(16)", "none"])
def test_keys_that_are_none_or_something_need_no_word(stranger, mode):
    table = stranger(**{"write.metadata.metrics.column.key": mode})
    append(table, {0: [row(0, "a"), row(1, None)]})
    assert adopt(session_of(table.refresh()), {}).key_absent is None


def write(table, topic, offsets):
    rows = pa.table(
        {
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([T0 * 1000] * len(offsets), pa.int64()).cast(COLUMNS.field("timestamp").type),
            "key": pa.array([b"a"] * len(offsets), pa.binary()),
            "value": pa.array(["v"] * len(offsets)),
            "topic": pa.array([topic] * len(offsets)),
        }
    )
    names = [field.name for field in table.schema().fields]
    table.append(rows.rename_columns(names).cast(table.schema().as_arrow()))


@pytest.fixture
def divided(stranger):
    """A table that is divided by topic and partition."""
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
    with table.update_spec() as update:
        update.add_field("topic", IdentityTransform())
    return table.refresh()


def test_topics_that_share_a_partition_number_are_no_log(divided):
    """Rows of one topic would supersede those of another."""
    write(divided, "orders", [0, 1, 2])
    write(divided, "payments", [0, 1, 2])
    with pytest.raises(BadInput, match="partition field 'topic' separates rows of log 0 that have the same offsets"):
        adopt(session_of(divided.refresh()), {})


def test_a_second_field_of_the_same_column_counts_no_file_twice(divided):
    """Else each row would stand twice, in the partition of its topic and in that of the topic's first letter."""
    write(divided, "orders", [0, 1, 2])
    table = divided.refresh()
    spec, reader = table.spec(), ManifestReader(table, Settings())
    log, topic = spec.fields
    # pyiceberg writes no such table without a further package
    letter = PartitionField(topic.source_id, log.field_id, TruncateTransform(1), "letter")
    reader.specs = {spec.spec_id: PartitionSpec(letter, topic, spec_id=spec.spec_id)}
    found = reader.beside(table.current_snapshot().manifests(table.io), topic.source_id)
    assert [value for _, value, _ in found] == ["orders"]


def test_one_log_over_several_partitions_is_a_log(divided):
    write(divided, "x", [0, 2, 4])
    write(divided, "y", [1, 3, 5])
    with divided.update_schema() as update:
        update.rename_column("topic", "region")
    assert adopt(session_of(divided.refresh()), {}).cleanup_policy == "compact"


def test_topics_that_share_no_offset_are_no_log_either(stranger):
    """Metadata cannot tell them from one log, but the names of the columns do."""
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
    write(table.refresh(), "orders", range(3))
    assert adopt(session_of(table.refresh()), {}, dry_run=True).column_partition == "partition"
    write(table, "payments", range(1000, 1003))
    for writer in (None, "flink"):
        with pytest.raises(BadInput, match="column 'topic' names several topics, 'orders' and 'payments' among them"):
            adopt(session_of(table.refresh()), {}, named=writer)
    both = {"column.partition": "topic,partition"}
    assert adopt(session_of(table), both, dry_run=True).column_partition == "topic,partition"
    with table.update_schema() as update:
        update.rename_column("topic", "region")
    assert adopt(session_of(table.refresh()), {}).column_partition == "partition"
    # of a table that was adopted other settings can be changed whatever its columns are called
    with table.update_schema() as update:
        update.rename_column("region", "topic")
    assert adopt(session_of(table.refresh()), {"min.cleanable.dirty.ratio": "0.1"}).min_cleanable_dirty_ratio == 0.1


LONG = "production.orders.v1", "production.payments.v1"
"""Names as long as bounds may be, by which they cannot be told apart."""


@pytest.mark.parametrize("names", [LONG, LONG[::-1]])
def test_of_many_files_the_oldest_and_the_newest_are_asked_for_the_topic(stranger, monkeypatch, names):
    monkeypatch.setattr(adoption_checks, "MOST_FOOTERS", 4)
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
    for at in range(6):
        write(table.refresh(), names[at == 5], [at])
    with pytest.raises(BadInput, match="names several topics"):
        adopt(session_of(table.refresh()), {})


def test_a_table_whose_topics_nobody_can_read_is_not_adopted(stranger):
    """Once it is adopted nobody asks again, and rows of one topic would supersede those of another."""
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
    write(table.refresh(), LONG[0], range(3))
    data = Path(table.location().removeprefix("file://")) / "data"
    data.rename(data.with_name("away"))
    with pytest.raises(Unavailable, match="nobody knows which topics 'topic' names there; try again"):
        adopt(session_of(table.refresh()), {})
    data.with_name("away").rename(data)
    assert adopt(session_of(table), {}).compacts


def test_footers_that_cannot_be_read_stop_no_adoption_for_a_warning(stranger):
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
        update.rename_column("partition", "kafka_partition")
    write(table.refresh(), LONG[0], range(3))
    data = Path(table.location().removeprefix("file://")) / "data"
    data.rename(data.with_name("away"))
    assert adopt(session_of(table.refresh()), {"column.partition": "kafka_partition"}).compacts


@pytest.mark.parametrize("mapped", ["PARTITION", "kafkaPartition", "kafka_partition"])
def test_a_column_of_topics_is_known_in_any_letters(stranger, mapped):
    topics = {"PARTITION": "TOPIC", "kafkaPartition": "kafkaTopic", "kafka_partition": "_Kafka_Topic"}[mapped]
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
    write(table.refresh(), "orders", range(3))
    write(table, "payments", range(1000, 1003))
    with table.update_schema() as update:
        update.rename_column("partition", mapped)
        update.rename_column("topic", topics)
    with pytest.raises(BadInput, match=f"column '{topics}' names several topics"):
        adopt(session_of(table.refresh()), {"column.partition": mapped})


def test_a_column_that_may_name_topics_is_told(stranger, caplog):
    """A field of the value may be called so too, and a table with such a field can be adopted."""
    table = stranger()
    with table.update_schema() as update:
        update.add_column("topic", StringType())
        update.rename_column("partition", "kafka_partition")
    given = {"column.partition": "kafka_partition"}
    write(table.refresh(), "orders", range(3))
    assert adopt(session_of(table.refresh()), given, dry_run=True).compacts
    assert not caplog.records
    write(table, "payments", range(1000, 1003))
    assert adopt(session_of(table.refresh()), given).compacts
    (said,) = [record.getMessage() for record in caplog.records]
    assert "column 'topic' has several values" in said
    assert "--set column.partition=topic,kafka_partition" in said


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([T0], None), ([T0 * 1000], "microseconds or less"), ([T0 // 1000], "seconds"), ([0], None), ([-1], None),
        ([42], None), ([T0, T0 * 1000], None), ([T0, T0 // 1000], None),
    ],
)  # fmt: skip
def test_a_timestamp_in_another_unit_is_refused(catalog, times, unit):
    """Read as milliseconds, seconds are of January 1970, and retention would take every row."""
    table = spread(catalog)
    for offset, time in enumerate(times):
        write_regions(table, ("x", 0, offset), at=time)
    if unit is None:
        assert adopt(session_of(table.refresh()), {}, dry_run=True).compacts
        return
    with pytest.raises(BadInput, match=f"column 'timestamp', .* as if it were in {unit}, expected milliseconds"):
        adopt(session_of(table.refresh()), {})


def spread(catalog, bounds=True):
    """A table divided by region, whose files tell their log by bounds, or by footers alone."""
    schema = Schema(*COLUMNS_OF_REGIONS)
    spec = PartitionSpec(PartitionField(6, 1000, IdentityTransform(), "region"))
    properties = {} if bounds else {"write.metadata.metrics.default": "none"}
    catalog.create_namespace_if_not_exists("typed")
    return catalog.create_table(f"typed.t{next(_names)}", schema, partition_spec=spec, properties=properties)


COLUMNS_OF_REGIONS = (
    NestedField(1, "partition", IntegerType()), NestedField(2, "offset", LongType()),
    NestedField(3, "timestamp", LongType()), NestedField(4, "key", StringType()), NestedField(5, "value", StringType()),
    NestedField(6, "region", StringType()),
)  # fmt: skip


def write_regions(table, *rows, at=T0):
    """Rows of region, log and offset, a file for each region."""
    columns = {
        "partition": [log for _, log, _ in rows], "offset": [offset for *_, offset in rows],
        "timestamp": [at] * len(rows), "key": ["a"] * len(rows), "value": ["v"] * len(rows),
        "region": [region for region, *_ in rows],
    }  # fmt: skip
    table.append(pa.table(columns).cast(table.schema().as_arrow()))


def test_files_of_several_logs_tell_nothing_of_topics(catalog):
    """Rows of two logs in each region's file have the same offsets, as those of any two logs."""
    table = spread(catalog)
    write_regions(table, *((region, log, at) for at, region in ((0, "x"), (1, "y"), (2, "x")) for log in (0, 1)))
    assert adopt(session_of(table.refresh()), {}, dry_run=True).column_partition == "partition"


def test_footers_tell_the_offsets_of_regions(catalog):
    table = spread(catalog, bounds=False)
    write_regions(table, ("x", 0, 0), ("x", 0, 1))
    write_regions(table, ("y", 0, 2), ("y", 0, 3))
    assert adopt(session_of(table.refresh()), {}, dry_run=True).column_partition == "partition"
    write_regions(table, ("y", 0, 0), ("y", 0, 1))
    with pytest.raises(BadInput, match="partition field 'region' separates rows of log 0 that have the same offsets"):
        adopt(session_of(table.refresh()), {})


def test_other_files_than_parquet_are_refused(stranger, monkeypatch):
    table = stranger()
    append(table, {0: [row(0, "a")]})
    real = adoption_checks.table_files

    def as_orc(asked):
        for file in real(asked):
            monkeypatch.setattr(type(file), "file_format", FileFormat.ORC)
            yield file

    monkeypatch.setattr(adoption_checks, "table_files", as_orc)
    with pytest.raises(BadInput, match=r"parquet is orc, expected parquet; set write\.format\.default"):
        adopt(session_of(table.refresh()), {})


@pytest.mark.parametrize(
    ("settings", "forgets"),
    [
        ({"column.partition": "_kafka.topic,_kafka.partition"}, True),
        ({"column.key": "value", "tombstone": "none"}, True),
        ({"column.offset": "producer", "column.producer.id": "_kafka.offset"}, True),
        ({"column.timestamp": "batch", "column.batch": ""}, False),
        ({"min.cleanable.dirty.ratio": "0.1"}, False),
    ],
)
def test_what_passes_knew_is_of_the_columns_that_they_went_by(cold, catalog, settings, forgets):
    """Invariant 1: rows that were clean by another key, or of a log of another name, are not clean."""
    table = TOPICS.adopted(catalog, f"checks.anew{next(_names)}", **{"column.partition": "_kafka.partition"})
    name = name_of(table)
    cold.adopt(name)
    with table.refresh().transaction() as change:
        change.set_properties({STATE_PROPERTY: write_state({"0": LogState(checkpoint=2)})})
    cold.adopt(name, settings)
    assert (STATE_PROPERTY not in table.refresh().properties) == forgets


@pytest.mark.parametrize(
    ("settings", "offset"),
    [
        ({"column.offset": "producer", "column.producer.id": "_kafka.offset"}, 0),
        ({"column.key": "value", "tombstone": "none"}, 7),
    ],
)
def test_readers_are_waited_for_from_the_start_once_offsets_are_others(cold, catalog, settings, offset):
    """Else a tombstone goes before a reader has seen it: what it had told was in other offsets."""
    table = TOPICS.adopted(catalog, f"checks.readers{next(_names)}", **{"column.partition": "_kafka.partition"})
    name = name_of(table)
    cold.adopt(name)
    TOPICS.append(table, {0: [Row(n, b"k", b"v", timestamp=T0) for n in range(2)]})
    cold.set_reader(name, "slow", Positions("", {"0": 7}), T0)
    cold.adopt(name, settings)
    assert [at.offset for _, at in read_positions(name, table.refresh().properties)] == [offset]


@pytest.mark.parametrize(("key", "believed"), [("_kafka.key", True), ("value", False)])
def test_a_pass_by_another_key_is_not_believed_after_a_rollback(cold, catalog, key, believed):
    """The property that it left is undone, and its commit stands in the past: it told of rows by the key of then."""
    table = TOPICS.adopted(catalog, f"checks.back{next(_names)}")
    name = name_of(table)
    cold.adopt(name)
    TOPICS.append(table, {0: [Row(n, b"k", b"v", timestamp=T0) for n in range(2)]})
    log = str(TOPICS.log(0))
    fields = table.refresh().properties[FIELDS]
    told = {"hardpack.plan": "one:p", FIELDS: fields, STATE_PROPERTY: write_state({log: LogState(checkpoint=2)})}
    table.append(table.schema().as_arrow().empty_table(), snapshot_properties=told)
    cold.adopt(name, {"column.key": key, "tombstone": "none"})
    with table.refresh().transaction() as change:
        change.set_properties(
            {STATE_PROPERTY: write_state({log: LogState(checkpoint=9, snapshot=SnapshotRef(1, 10**6))})}
        )
    assert (trusted_states(table.refresh())[log].checkpoint == 2) == believed


def test_an_empty_policy_is_the_default_and_no_way_out(catalog):
    """By its property a topic is known: without it no verb would take the table any more."""
    table = new_topic(catalog)
    assert adopt(session_of(table), {"cleanup.policy": "delete"}).cleanup_policy == "delete"
    assert adopt(session_of(table.refresh()), {"cleanup.policy": ""}).cleanup_policy == "compact"
    assert table.refresh().properties["hardpack.cleanup.policy"] == "compact"
