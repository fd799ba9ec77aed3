"""Recognises the sink that wrote a table by its columns: where it puts Kafka's metadata, and how it writes deletes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import BinaryType, StringType

from hardpack.errors import BadInput, some_of
from hardpack.table.columns import key_columns, table_name
from hardpack.table.layout import EXPECTED
from hardpack.table.schema_columns import column_by_id, find_column
from hardpack.table.table_files import manifests_of

METADATA = ("partition", "offset", "timestamp")
KEPT = "Deletes are rows with a null value, as in Kafka."
SKIPPED = "Deletes do not reach the table, as the sink passes over tombstones: a deleted key's last row stays."
REWRITTEN = "A row with __deleted=true deletes its key, as Debezium's ExtractNewRecordState writes it."
OPERATION = "A row with operation D deletes its key; it is compared by its key alone."


@dataclass(frozen=True)
class Writer:
    """A sink that was recognised, and what it means for compaction."""

    name: str
    """The sink's name, as `--from` takes it."""
    title: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that map the sink's columns, by name; a setting that is missing here has its default."""
    meaning: tuple[str, ...] = ()
    """Sentences that tell a user what the sink's rows mean, such as which of them are deletes."""
    topic: str = ""
    """The column with the topic's name, where the sink writes one."""

    def with_topics(self, topics: Sequence[str]) -> Writer:
        """Returns this writer for a table that holds several Kafka topics; each partition of a topic is then a log.

        Args:
            topics: names of topics that the table holds, at least two.
        """
        named = f"{self.topic},{self.settings.get('column.partition', 'partition')}"
        sentence = f"The table holds several topics, {topics[0]} and {topics[1]} among them; a log is one's partition."
        return replace(self, settings={**self.settings, "column.partition": named}, meaning=(*self.meaning, sentence))


@dataclass(frozen=True)
class _Columns:
    """The columns of a table, and what a recogniser may ask about them."""

    table: str
    schema: Schema
    own_key: str = ""
    """The key that the user names himself; empty when he names none."""

    def there(self, *paths: str) -> bool:
        """Returns whether the table has all of these columns or fields of structs."""
        return all(find_column(self.schema, path) for path in paths)

    def is_text(self, path: str) -> bool:
        """Returns whether the table has this column and it holds text or bytes."""
        column = find_column(self.schema, path)
        return column is not None and isinstance(column.field_type, StringType | BinaryType)

    def is_bytes(self, path: str) -> bool:
        """Returns whether the table has this column and it holds bytes."""
        column = find_column(self.schema, path)
        return column is not None and isinstance(column.field_type, BinaryType)

    def key(self, path: str, sink: str) -> str:
        """Returns the path of the sink's key column, once every column in it is of a type that can be compared.

        Raises:
            BadInput: the table has no such key, or a column of it cannot be compared.
        """
        if find_column(self.schema, path):
            wrong = [c for c in key_columns(self.schema, path) if not isinstance(c.field_type, EXPECTED["key"])]
            if not wrong:
                return path
            how = f"with {wrong[0].name!r} as {wrong[0].field_type}"
        else:
            how = "nowhere"
        raise BadInput(
            f"{self.table}: {sink} wrote its key {path!r} {how}, which cannot be compared; write keys of text, bytes, "
            f"numbers or times, and name them with `hardpack adopt {self.table} --set column.key=NAME[,NAME]`."
        )

    def identifier(self, sink: str) -> str:
        """Returns the table's identifier fields, with commas between, as they usually are the record's key.

        Raises:
            BadInput: the table has no identifier fields.
        """
        columns = [column_by_id(self.schema, number) for number in self.schema.identifier_field_ids]
        if names := [column.name for column in columns if column]:
            return ",".join(names)
        raise BadInput(
            f"{self.table}: {sink} writes no key, and the table has no identifier fields; name the columns that hold "
            f"the record's key with `hardpack adopt {self.table} --set column.key=NAME[,NAME]`."
        )


def _mapped(prefix: str, **more: str) -> dict[str, str]:
    """Returns settings that map Kafka's metadata to columns with one prefix, and the further settings of `more`."""
    settings = {f"column.{role}": prefix + role for role in METADATA}
    return settings | {("column.key" if name == "key" else name.replace("_", ".")): v for name, v in more.items()}


def _connect(columns: _Columns, given: bool) -> Writer | None:
    nested = columns.there("_kafka_metadata.topic", "_kafka_metadata.offset")
    prefix = "_kafka_metadata." if nested else "_kafka_metadata_"
    cdc, title = columns.there("_cdc.op"), "Iceberg's Kafka Connect sink"
    if not (nested or columns.there("_kafka_metadata_offset")):
        if cdc and columns.there("_cdc.offset") and not columns.there("_kafka_metadata"):
            raise BadInput(
                f"{columns.table}: {title} with DebeziumTransform wrote no column with Kafka's partition, without "
                "which offsets are of no log; add KafkaMetadataTransform to the sink's transforms."
            )
        return None
    if cdc:
        # the transform writes no key for a topic whose keys have no schema
        own = columns.key("_cdc.key", title) if columns.there("_cdc.key") and not given else ""
        settings = _mapped(prefix, key="" if given else own or columns.identifier(title), tombstone="_cdc.op=D")
        return Writer(
            "connect-debezium", f"{title} with DebeziumTransform", settings, (OPERATION,), _topic(columns, prefix)
        )
    key = "" if given else columns.identifier(title)
    tombstone, meaning = ("__deleted=true", REWRITTEN) if columns.is_text("__deleted") else ("none", SKIPPED)
    settings = _mapped(prefix, key=key, tombstone=tombstone)
    return Writer("connect", title, settings, (meaning,), _topic(columns, prefix))


def _topic(columns: _Columns, prefix: str) -> str:
    return prefix + "topic" if columns.is_text(prefix + "topic") else ""


def _redpanda(columns: _Columns, given: bool) -> Writer | None:
    if not columns.there("redpanda.partition", "redpanda.offset"):
        return None
    title = "Redpanda"
    key = "" if given else columns.key("redpanda.key", title)
    # a `value` of another type, or beside other columns, is a field of the record: it may be null without a delete
    if columns.is_bytes("value") and len(columns.schema.fields) == 2:
        return Writer("redpanda", title, _mapped("redpanda.", key=key), (KEPT,))
    return Writer("redpanda", title, _mapped("redpanda.", key=key, tombstone="none"), (SKIPPED,))


def _automq(columns: _Columns, given: bool) -> Writer | None:
    if not columns.there("_kafka_metadata.offset", "_kafka_key") or columns.there("_kafka_metadata.topic"):
        return None
    title = "AutoMQ Table Topic"
    key = "" if given else columns.key("_kafka_key", title)
    if columns.there("_cdc.op"):
        tombstone, meaning = "_cdc.op=D", OPERATION
    elif columns.is_text("_kafka_value"):
        tombstone, meaning = (
            "_kafka_value empty",
            "A row with an empty value deletes its key, as the sink writes null so.",
        )
    else:
        tombstone, meaning = "none", SKIPPED
    if not columns.is_text(key or columns.own_key):
        # a key of another type is null in a row without a key
        return Writer("automq", title, _mapped("_kafka_metadata.", key=key, tombstone=tombstone), (meaning,))
    absent = "A row with an empty key has none, as the sink writes both alike."
    settings = _mapped("_kafka_metadata.", key=key, tombstone=tombstone, key_absent="empty")
    return Writer("automq", title, settings, (meaning, absent))


def _olake(columns: _Columns, given: bool) -> Writer | None:
    if not columns.there("_kafka_partition", "_kafka_offset", "_kafka_key", "_olake_id"):
        return None
    absent = "A row with an empty key has none, as the sink writes both alike."
    settings = _mapped("_kafka_", key="_kafka_key", tombstone="none", key_absent="empty")
    return Writer("olake", "Olake", settings, (SKIPPED, absent))


PLAIN = (*METADATA, "key", "value")


def _spark(columns: _Columns, given: bool) -> Writer | None:
    if not columns.there(*PLAIN, "topic", "timestampType"):
        return None
    return Writer("spark", "Spark Structured Streaming", meaning=(KEPT,), topic=_topic(columns, ""))


def _flink(columns: _Columns, given: bool) -> Writer | None:
    # a user chooses the columns that a Flink job writes, so that only their names can tell
    return Writer("flink", "Flink", meaning=(KEPT,)) if columns.there(*PLAIN) else None


Recogniser = Callable[[_Columns, bool], Writer | None]
RECOGNISERS: Mapping[str, Recogniser] = {
    "connect": _connect, "connect-debezium": _connect, "redpanda": _redpanda, "automq": _automq, "olake": _olake,
    "spark": _spark, "flink": _flink,
}  # fmt: skip
BY_COLUMNS = (_connect, _redpanda, _automq, _olake, _spark)
"""The recognisers of sinks whose columns no other sink writes."""


def recognise(table: Table, settings: Mapping[str, str], named: str | None = None) -> Writer | None:
    """Returns the sink that wrote a table; None when its columns are those of no sink.

    Args:
        table: as pyiceberg loaded it.
        settings: what its user maps himself, by names of settings.
        named: the sink's name, where the user gives it; None to recognise the sink by its columns.

    Raises:
        BadInput: another writer allows no rewrite of the table, or upserts its rows; the table has columns of two
            sinks, or none with Kafka's partition and offset; the named sink is unknown or writes other columns.
    """
    name, own_key = table_name(table), settings.get("column.key", "")
    columns = _Columns(name, table.schema(), own_key)
    _refuse_owned(table, columns)
    given = "column.key" in settings
    if named is not None:
        if named not in RECOGNISERS:
            raise BadInput(f"{name}: --from {named} is no sink that is known, expected {', '.join(RECOGNISERS)}.")
        writer = RECOGNISERS[named](columns, given)
        if writer is None or writer.name != named:
            listed = some_of([field.name for field in table.schema().fields])
            raise BadInput(
                f"{name}: {named} writes other columns than {listed}; name another sink, or map the columns with "
                f"`hardpack adopt {name} --set column.partition=NAME` and so on."
            )
        return writer
    writers = [writer for tell in BY_COLUMNS if (writer := tell(columns, given))]
    if len(writers) > 1:
        names = " and ".join(writer.title for writer in writers)
        raise BadInput(
            f"{name}: it has columns of {names}, expected one writer; say which with `hardpack adopt {name} --from "
            f"{writers[0].name}`."
        )
    mapped = "column.offset" in settings or columns.there("offset")
    if not writers and not mapped and columns.there("__op", "__deleted"):
        raise BadInput(
            f"{name}: Debezium Server wrote rows without Kafka's partition and offset, so that they are no log; send "
            "the changes through Kafka, or leave the table alone."
        )
    return writers[0] if writers else None


def _refuse_owned(table: Table, columns: _Columns) -> None:
    """Refuses a table that only another writer may rewrite, or whose sink upserts rows by equality deletes.

    A table with upserts holds only the latest row of each key already.
    """
    name = columns.table
    if columns.there("kafka.batch_byte_offset", "key_raw", "value_raw"):
        raise BadInput(
            f"{name}: these are files of Aiven's Iceberg topics, which the broker reads back to serve consumers; its "
            "makers allow no compaction by others, so leave the table alone."
        )
    if any(key.startswith("moonlink.") for key in table.properties):
        raise BadInput(f"{name}: Moonlink keeps this table as its only writer and compacts it itself; leave it alone.")
    if _has_equality_deletes(table):
        raise BadInput(
            f"{name}: its sink upserts rows by equality deletes, so that only the latest row of a key is there "
            "already; have Iceberg fold the deletes in (rewrite_data_files), and leave the table alone."
        )


def _has_equality_deletes(table: Table) -> bool:
    return any(
        entry.data_file.content == DataFileContent.EQUALITY_DELETES
        for manifest in manifests_of(table)
        if manifest.content == ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    )


def unmapped(writer: Writer, set_already: Sequence[str]) -> dict[str, str]:
    """Returns those settings of a writer that are not set already.

    Args:
        writer: the recognised sink.
        set_already: names of settings that the user, the table or its policy sets.
    """
    return {name: value for name, value in writer.settings.items() if value and name not in set_already}
