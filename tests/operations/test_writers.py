"""Tables as sinks leave them, by the sinks' own sources: `adopt` tells who wrote one and maps it. No JVM.

Where each was read: Iceberg's Kafka Connect sink apache/iceberg@7f879b1 `kafka-connect` (KafkaMetadataTransform,
DebeziumTransform, IcebergWriter); Redpanda redpanda-data/redpanda@1c6cff3 `datalake/table_definition.cc`; AutoMQ
AutoMQ/automq@f1ce98e `table/process/RecordAssembler.java`; Olake datazip-inc/olake@2b1f68a `drivers/kafka`; Aiven
tiered-storage-for-apache-kafka@8fb1581 `RowSchema.java`; Debezium Server memiiso/debezium-server-iceberg@611fea0.
"""

import time

import pytest
from hardpack.cli.main import app
from hardpack.operations.writers import recognise
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from typer.testing import CliRunner

from tests.layouts import TOPICS, commit
from tests.refusals import refusal
from tests.sink_tables import META, VALUE, next_id, redpanda, struct, table_of
from tests.topics import T0, name_of


def connect(catalog):
    return table_of(catalog, VALUE | {f"_kafka_metadata_{n}": t for n, t in META.items()}, keys=["id"])


def connect_nested(catalog):
    return table_of(catalog, VALUE | {"_kafka_metadata": struct(**META)}, keys=["id"])


def connect_debezium(catalog):
    cdc = struct(
        op=StringType(), ts=TimestamptzType(), offset=LongType(), source=StringType(), target=StringType(),
        key=struct(id=StringType()),
    )  # fmt: skip
    return table_of(catalog, VALUE | {"_cdc": cdc} | {f"_kafka_metadata_{n}": t for n, t in META.items()})


def redpanda_by_schema(catalog):
    return redpanda(catalog, **VALUE)


def redpanda_by_schema_of_one_text(catalog):
    return redpanda(catalog, value=StringType())


def redpanda_by_schema_with_a_value(catalog):
    return redpanda(catalog, sensor=StringType(), value=StringType())


def automq(catalog, **value):
    meta = struct(**{n: t for n, t in META.items() if n != "topic"})
    header = MapType(next_id(), StringType(), next_id(), BinaryType())
    rest = {"_kafka_key": StringType(), "_kafka_header": header, "_kafka_metadata": meta}
    return table_of(catalog, {**(value or {"_kafka_value": BinaryType()}), **rest})


def automq_flat(catalog):
    return automq(catalog, **VALUE)


def automq_with_numbers_as_keys(catalog):
    meta = struct(**{n: t for n, t in META.items() if n != "topic"})
    columns = {"_kafka_value": BinaryType(), "_kafka_key": LongType(), "_kafka_metadata": meta}
    return table_of(catalog, columns)


def automq_debezium(catalog):
    cdc = struct(op=StringType(), ts=LongType(), offset=LongType(), source=StringType())
    return automq(catalog, **VALUE, _cdc=cdc)


def olake(catalog):
    own = {
        "_kafka_partition": IntegerType(), "_kafka_offset": LongType(), "_kafka_key": StringType(),
        "_kafka_timestamp": TimestamptzType(), "_olake_id": StringType(), "_olake_timestamp": TimestamptzType(),
        "_op_type": StringType(), "_cdc_timestamp": TimestamptzType(),
    }  # fmt: skip
    return table_of(catalog, VALUE | own)


def spark(catalog):
    columns = {
        "key": BinaryType(), "value": BinaryType(), "topic": StringType(), "partition": IntegerType(),
        "offset": LongType(), "timestamp": TimestamptzType(), "timestampType": IntegerType(),
    }  # fmt: skip
    return table_of(catalog, columns)


def flat(prefix):
    return {f"column.{role}": prefix + role for role in ("partition", "offset", "timestamp")}


FOUND = [
    (connect, "connect", flat("_kafka_metadata_") | {"column.key": "id", "tombstone": "none"}),
    (connect_nested, "connect", flat("_kafka_metadata.") | {"column.key": "id", "tombstone": "none"}),
    (
        connect_debezium,
        "connect-debezium",
        flat("_kafka_metadata_") | {"column.key": "_cdc.key", "tombstone": "_cdc.op=D"},
    ),
    (redpanda, "redpanda", flat("redpanda.") | {"column.key": "redpanda.key"}),
    (redpanda_by_schema, "redpanda", flat("redpanda.") | {"column.key": "redpanda.key", "tombstone": "none"}),
    (
        redpanda_by_schema_of_one_text,
        "redpanda",
        flat("redpanda.") | {"column.key": "redpanda.key", "tombstone": "none"},
    ),
    (
        redpanda_by_schema_with_a_value,
        "redpanda",
        flat("redpanda.") | {"column.key": "redpanda.key", "tombstone": "none"},
    ),
    (
        automq,
        "automq",
        flat("_kafka_metadata.")
        | {"column.key": "_kafka_key", "tombstone": "_kafka_value empty", "key.absent": "empty"},
    ),
    (
        automq_with_numbers_as_keys,
        "automq",
        flat("_kafka_metadata.") | {"column.key": "_kafka_key", "tombstone": "_kafka_value empty"},
    ),
    (
        automq_flat,
        "automq",
        flat("_kafka_metadata.") | {"column.key": "_kafka_key", "tombstone": "none", "key.absent": "empty"},
    ),
    (
        automq_debezium,
        "automq",
        flat("_kafka_metadata.") | {"column.key": "_kafka_key", "tombstone": "_cdc.op=D", "key.absent": "empty"},
    ),
    (
        olake,
        "olake",
        flat("_kafka_") | {"column.key": "_kafka_key", "tombstone": "none", "key.absent": "empty"},
    ),
    (spark, "spark", {}),
]


@pytest.mark.parametrize(("made", "name", "settings"), FOUND, ids=[made.__name__ for made, _, _ in FOUND])
def test_adopt_finds_the_writer_and_its_mapping(cold, catalog, made, name, settings):
    table = made(catalog)
    started = time.monotonic()
    writer = cold.writer_of(name_of(table))
    result = cold.adopt(name_of(table)).model_dump(by_alias=True)
    assert time.monotonic() - started < 3
    assert (writer.name, writer.settings) == (name, settings)
    assert {k: result[k] for k in settings} == settings
    assert all(table.refresh().properties[f"hardpack.{k}"] == v for k, v in settings.items())
    assert writer.meaning
    # named outright, the same
    assert cold.writer_of(name_of(table), writer=name).settings == settings


def test_what_the_user_sets_comes_first(cold, catalog):
    table = connect(catalog)
    assert cold.adopt(name_of(table), {"column.key": "name", "tombstone": "null", "column.value": "id"}).column_key == (
        "name"
    )
    # a table that is a topic already keeps its mapping
    assert cold.writer_of(name_of(table)) is None
    assert cold.adopt(name_of(table), {"delete.retention.ms": "5"}).column_key == "name"


def test_a_dry_run_only_tells(cold, catalog):
    table = redpanda(catalog)
    assert cold.adopt(name_of(table), dry_run=True).column_offset == "redpanda.offset"
    assert not any(k.startswith("hardpack.") for k in table.refresh().properties)


def aiven(catalog):
    kafka = struct(
        partition=IntegerType(), offset=LongType(), timestamp=LongType(), batch_byte_offset=IntegerType(),
        batch_base_offset=LongType(),
    )  # fmt: skip
    return table_of(catalog, {"kafka": kafka, "key_raw": BinaryType(), "value_raw": BinaryType()})


def moonlink(catalog):
    return table_of(catalog, VALUE, properties={"moonlink.table-flush-lsn": "1"})


def debezium_server(catalog):
    return table_of(catalog, VALUE | {"__op": StringType(), "__deleted": StringType(), "__source_ts_ns": LongType()})


def debezium_alone(catalog):
    cdc = struct(op=StringType(), ts=TimestamptzType(), offset=LongType(), key=struct(id=StringType()))
    return table_of(catalog, VALUE | {"_cdc": cdc})


def no_identifier(catalog):
    return table_of(catalog, VALUE | {f"_kafka_metadata_{n}": t for n, t in META.items()})


def two_writers(catalog):
    system = struct(partition=IntegerType(), offset=LongType(), timestamp=TimestampType(), key=BinaryType())
    return table_of(
        catalog, VALUE | {"redpanda": system} | {f"_kafka_metadata_{n}": t for n, t in META.items()}, keys=["id"]
    )


def key_with_a_price(catalog):
    cdc = struct(op=StringType(), offset=LongType(), key=struct(id=StringType(), price=DoubleType()))
    return table_of(catalog, VALUE | {"_cdc": cdc} | {f"_kafka_metadata_{n}": t for n, t in META.items()})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (aiven, "the broker reads back to serve consumers"),
        (moonlink, "Moonlink keeps this table as its only writer"),
        (debezium_server, "Debezium Server wrote rows without Kafka's partition and offset"),
        (debezium_alone, "add KafkaMetadataTransform to the sink's transforms"),
        (no_identifier, "the table has no identifier fields; name the columns that hold the record's key with"),
        (two_writers, "columns of Iceberg's Kafka Connect sink and Redpanda, expected one writer"),
        (key_with_a_price, "wrote its key '_cdc.key' with '_cdc.key.price' as double, which cannot be compared"),
    ],
)
def test_what_cannot_be_adopted_is_one_sentence(cold, catalog, made, words):
    table = made(catalog)
    assert words in refusal(cold.adopt, name_of(table))
    assert not any(k.startswith("hardpack.") for k in table.refresh().properties)


def test_a_sink_named_wrongly(cold, catalog):
    table = redpanda(catalog)
    assert "--from kafka is no sink that is known, expected connect, connect-debezium" in refusal(
        cold.adopt, name_of(table), writer="kafka"
    )
    assert "automq writes other columns than redpanda, value" in refusal(cold.adopt, name_of(table), writer="automq")


def test_upserted_tables_hold_the_latest_rows_already(cold, catalog):
    table = connect(catalog)
    rows = [{"id": "a", "_kafka_metadata_partition": 0, "_kafka_metadata_offset": 0, "_kafka_metadata_timestamp": T0}]
    commit(table, [((), rows)])
    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES, file_path=f"{table.location()}/d.parquet", partition=Record(),
        file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1, equality_ids=[1],
    )  # fmt: skip
    deletes.spec_id = 0
    snapshot = table.refresh().current_snapshot()
    entries = with_deletes(snapshot.manifests(table.io), deletes)
    assert "upserts rows by equality deletes" in refusal(lambda: recognised_with(table, entries))


def with_deletes(manifests, file):
    """Manifests and one of deletes, which pyiceberg does not write."""

    class Deletes:
        content = type(manifests[0].content).DELETES

        def fetch_manifest_entry(self, io, discard_deleted=True):
            return [type("Entry", (), {"data_file": file})()]

    return [*manifests, Deletes()]


def recognised_with(table, manifests):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(table.current_snapshot()), "manifests", lambda *_: manifests)
        return recognise(table, {})


def of_topics(topics, start=0):
    """Rows of one partition, each of its topic."""
    told = ({"topic": t, "partition": 0, "offset": start + n, "timestamp": T0} for n, t in enumerate(topics))
    return [{"id": "a", **{f"_kafka_metadata_{n}": v for n, v in row.items()}} for row in told]


@pytest.mark.parametrize(
    "files",
    [
        [["orders"], ["returns"]],
        [["orders", "shipments.of.europe"]],
        # where bounds are cut, the footers tell
        [["orders.of.customers"], ["orders.of.customers.of.europe"]],
        [["orders.of.customers", "orders.of.customs"]],
    ],
)
@pytest.mark.parametrize("bounds", [True, False])
def test_several_topics_in_a_table(cold, catalog, files, bounds):
    table = connect(catalog)
    for start, topics in enumerate(files):
        commit(table, [((), of_topics(topics[:1] * 2, 2 * start))], bounds=bounds)
        if start == 0:
            assert cold.adopt(name_of(table), dry_run=True).compacts
    commit(table, [((), of_topics(files[-1], 90))], bounds=bounds)
    alone = {"column.partition": "_kafka_metadata_partition"}
    message = refusal(cold.adopt, name_of(table), alone)
    assert "column '_kafka_metadata_topic' names several topics, 'orders" in message
    assert "--set column.partition=_kafka_metadata_topic,_kafka_metadata_partition` names them so" in message
    assert "a log is one's partition" in cold.writer_of(name_of(table)).meaning[-1]
    cold.adopt(name_of(table))
    properties = catalog.load_table(name_of(table)).properties
    assert properties["hardpack.column.partition"] == "_kafka_metadata_topic,_kafka_metadata_partition"
    logs = {s.partition for s in cold.status(name_of(table), T0)}
    assert logs - {"several"} <= {f"{topic}-0" for topics in files for topic in topics}
    assert len(logs) > 1 or logs == {"several"}


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [("partition,topic", "names a log by int, string"), ("topic,topic", "names a log by string, string"),
     ("topic,partition,offset", "names a log by string, int, long"), ("topic,shard", "there is no column 'shard'")],
)  # fmt: skip
def test_a_log_is_named_by_a_topic_and_its_partition_in_this_order(cold, catalog, columns, wrong):
    table = TOPICS.create(catalog, f"sinks.named{next_id()}")
    settings = TOPICS.settings | {"column.partition": ",".join(f"_kafka.{name}" for name in columns.split(","))}
    assert wrong.replace("'shard'", "'_kafka.shard'") in refusal(cold.adopt, name_of(table), settings)
    assert not any(key.startswith("hardpack.") for key in catalog.load_table(name_of(table)).properties)


def test_the_command_prints_what_it_found(catalog, lake, monkeypatch):
    for key, value in lake.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__HARDPACK__{key.upper()}", value)
    done = CliRunner().invoke(app, ["adopt", name_of(redpanda(catalog)), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "was written by Redpanda" in done.output
    assert "redpanda.offset" in done.output
    assert "Deletes are rows with a null value" in done.output


def test_a_key_of_text_that_the_user_names_himself_may_be_empty_too(catalog, cold):
    """AutoMQ writes both alike, whoever names the column."""
    own = {"column.key": "_kafka_key"}
    assert cold.adopt(name_of(automq(catalog)), own, dry_run=True).key_absent == "empty"
    assert cold.adopt(name_of(automq_with_numbers_as_keys(catalog)), own, dry_run=True).key_absent is None
