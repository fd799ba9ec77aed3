"""Tables in the shapes that sinks leave them, for the same rows: where each role stands, and what a file holds.

Files are written one by one, as sinks do, with the partition values and bounds that Iceberg's own writer would give.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
from hardpack.files.content_file import listed_file
from hardpack.files.data_files import DataFiles
from hardpack.files.writer import write_files
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from tests.topics import T0

ROLES = {
    "partition": IntegerType(), "offset": LongType(), "timestamp": LongType(), "key": BinaryType(),
    "value": BinaryType(), "producer": LongType(), "transactional": BooleanType(), "control": StringType(),
    "batch": LongType(),
}  # fmt: skip
NO_TRANSACTIONS = dict.fromkeys(("column.producer.id", "column.transactional", "column.control"), "")
"""Settings that leave the columns of transactions unmapped, which no sink writes."""
HOUR_US = 3_600_000_000
COMPOSITE = "a number, a day and a text"
KEY = StructType(
    NestedField(101, "size", IntegerType()), NestedField(102, "day", DateType()), NestedField(103, "text", StringType())
)


@dataclass(frozen=True)
class Layout:
    """How a sink's table looks."""

    name: str
    paths: dict[str, str] = field(default_factory=dict)
    """Where a role stands, when not in a column of its name."""
    types: dict[str, object] = field(default_factory=dict)
    spec: tuple[str, object] | None = None
    """Role and transform of the one partition field."""
    tombstone: str = "null"
    operation: str = ""
    """The column that tells a delete by `D`, where one does."""
    mixed: bool = False
    """Whether a file holds the rows of all logs that a commit brings."""
    topics: tuple[str, ...] = ()
    """The topics of the table, which take the logs by turns: log 2 of two topics is partition 1 of the first."""

    def path(self, role):
        return self.paths.get(role, role)

    def type(self, role):
        return self.types.get(role, ROLES[role])

    @property
    def settings(self):
        """What maps the layout, by names of table properties without their prefix."""
        roles = {"producer": "producer.id"}
        told = {f"column.{roles.get(role, role)}": self.path(role) for role in ROLES if role != "value"}
        if self.topics:
            told["column.partition"] = f"{self.path('topic')},{self.path('partition')}"
        value = {"column.value": self.path("value")} if self.tombstone == "null" else {}
        return told | value | {"tombstone": self.tombstone}

    @property
    def schema(self):
        """Structs of the roles under them, in the order of the roles."""
        kinds = {role: KEY if self.type(role) == COMPOSITE else self.type(role) for role in ROLES}
        leaves = [(self.path(role).split("."), kind) for role, kind in kinds.items()]
        leaves += [([self.operation], StringType())] if self.operation else []
        leaves += [(self.path("topic").split("."), StringType())] if self.topics else []
        numbers = iter(range(1, 100))
        structs, fields = defaultdict(list), []
        for path, kind in leaves:
            leaf = NestedField(next(numbers), path[-1], kind)
            if len(path) > 1:
                if path[0] not in structs:
                    fields.append(path[0])
                structs[path[0]].append(leaf)
            else:
                fields.append(leaf)
        return Schema(
            *(NestedField(next(numbers), f, StructType(*structs[f])) if isinstance(f, str) else f for f in fields)
        )

    def create(self, catalog, name, **properties):
        """The table, empty and not adopted."""
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        schema, spec = self.schema, PartitionSpec()
        if self.spec:
            role, transform = self.spec
            spec = PartitionSpec(PartitionField(schema.find_field(self.path(role)).field_id, 1000, transform, "part"))
        return catalog.create_table(name, schema, partition_spec=spec, properties={"format-version": "2", **properties})

    def adopted(self, catalog, name, **settings):
        """The table, adopted with the layout's mapping and more settings, underscores for dots."""
        more = {k.replace("_", "."): str(v) for k, v in settings.items()}
        named = {f"hardpack.{k}": v for k, v in {"cleanup.policy": "compact", **self.settings, **more}.items()}
        return self.create(catalog, name, **named)

    def append(self, table, logs, **facts):
        """One commit: partition -> rows, a file for each log and Iceberg partition, or for all logs by turns."""
        found = defaultdict(list)
        for log, rows in logs.items():
            for row in rows:
                found["" if self.mixed else log, self.home(log, row)].append(self.cells(log, row))
        commit(table, [(home, rows) for (_, home), rows in found.items()], **facts)

    def home(self, log, row):
        """The partition value of a row, as Iceberg's JSON has it."""
        if self.spec is None:
            return ()
        role, _ = self.spec
        if role == "partition":
            return (log,)
        if role == "topic":
            return (self.parts(log)[1],)
        return (None if row.timestamp is None else row.timestamp * 1000 // HOUR_US,)

    def cells(self, log, row):
        """A row as nested dictionaries."""
        key = row.key
        if key is not None and self.type("key") == COMPOSITE:
            key = {"size": len(key), "day": date(2026, 1, 1 + len(key) % 9), "text": key.hex()}
        elif key is not None and isinstance(self.type("key"), StringType):
            key = key.hex()
        deleting = row.value is None and row.control is None
        log, topic = self.parts(log)
        told = {
            "partition": str(log) if isinstance(self.type("partition"), StringType) else log,
            "offset": row.offset, "timestamp": self.time(row.timestamp), "key": key, "value": self.value(row),
            "producer": row.producer, "transactional": row.transactional, "control": row.control, "batch": row.batch,
        }  # fmt: skip
        told |= {"topic": topic} if self.topics else {}
        cells = {}
        for role, value in told.items():
            *around, leaf = self.path(role).split(".")
            (cells.setdefault(around[0], {}) if around else cells)[leaf] = value
        return cells | ({self.operation: "D" if deleting else "c"} if self.operation else {})

    def parts(self, log):
        """The partition and the topic of a log."""
        return (log // len(self.topics), self.topics[log % len(self.topics)]) if self.topics else (log, None)

    def log(self, log):
        """The name that hardpack gives a log."""
        partition, topic = self.parts(log)
        return f"{topic}-{partition}" if topic else log

    def number(self, log):
        """The log of a name that hardpack gives it."""
        if not self.topics:
            return log
        topic, _, partition = log.rpartition("-")
        return int(partition) * len(self.topics) + self.topics.index(topic)

    def value(self, row):
        if not self.tombstone.endswith(" empty"):
            return b"before" if self.operation and row.value is None else row.value
        # an empty value would be a tombstone there
        return b"" if row.value is None else row.value or b"\0"

    def time(self, ms):
        return ms if ms is None or isinstance(self.type("timestamp"), LongType) else ms * 1000

    def rows(self, table):
        """What is left: partition, offset, whether it is a tombstone, and control of each row."""
        out = []
        for cells in shown(table).to_pylist():
            told = {}
            for role in (*ROLES, "topic") if self.topics else ROLES:
                *around, leaf = self.path(role).split(".")
                told[role] = (cells[around[0]] if around else cells)[leaf]
            value = told["value"]
            dead = cells[self.operation] == "D" if self.operation else value == b"" if " " in self.tombstone else None
            told["tombstone"] = value is None if dead is None else dead
            log = f"{told['topic']}-{told['partition']}" if self.topics else int(told["partition"])
            out.append(told | {"partition": self.number(log)})
        return out


def shown(table):
    """The rows that a table shows, by pyarrow where it can: of many small files pyiceberg takes three times as long."""
    tasks = list(table.scan().plan_files())
    if not tasks or any(task.delete_files for task in tasks):
        return table.scan().to_arrow()
    return pa.concat_tables(pq.ParquetFile(task.file.file_path.removeprefix("file://")).read() for task in tasks)


def commit(table, files, bounds=True):
    """Append files, each given as partition values and rows, as one snapshot; without bounds as older sinks do."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for file in written(table, files):
            snapshot.append_data_file(as_manifest_has_it(file, bounds))


def written(table, files):
    """Files of these rows, which no snapshot knows."""
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    writer, made = DataFiles.of(table), []
    for home, rows in files:
        like = listed_file("", "parquet", table.spec().spec_id, home, 0, 0)
        (batch,) = pa.Table.from_pylist(rows, schema=schema).combine_chunks().to_batches()
        made += write_files(writer, [batch], like, 2**62)
    return made


def as_manifest_has_it(file, bounds=True):
    """A written file as pyiceberg's manifests take it."""

    def told(name, value=lambda text: text):
        found = file.entry[name]
        return {number: value(text) for number, text in zip(found["keys"], found["values"], strict=True)}

    metrics = {}
    if bounds:
        metrics = {
            "column_sizes": told("column-sizes"), "value_counts": told("value-counts"),
            "null_value_counts": told("null-value-counts"), "nan_value_counts": told("nan-value-counts"),
            "lower_bounds": told("lower-bounds", bytes.fromhex), "upper_bounds": told("upper-bounds", bytes.fromhex),
        }  # fmt: skip
    made = DataFile.from_args(
        content=DataFileContent.DATA, file_path=file.path, file_format=FileFormat.PARQUET,
        partition=Record(*file.partition), record_count=file.rows, file_size_in_bytes=file.bytes,
        split_offsets=None, equality_ids=None, sort_order_id=None, **metrics,
    )  # fmt: skip
    made.spec_id = file.spec_id
    return made


PLAIN = Layout("plain", spec=("partition", IdentityTransform()))
FLAT = Layout(
    "connect flat, unpartitioned",
    {role: f"_kafka_metadata_{role}" for role in ("partition", "offset", "timestamp")} | {"key": "id"},
    {"key": StringType()},
    tombstone="op=D",
    operation="op",
)
NESTED = Layout(
    "connect nested",
    {role: f"_kafka_metadata.{role}" for role in ("partition", "offset", "timestamp")} | {"key": "_cdc.key"},
    {"key": COMPOSITE},
)
HOURLY = Layout(
    "redpanda hourly",
    {role: f"redpanda.{role}" for role in ("partition", "offset", "timestamp", "key")},
    {"timestamp": TimestampType()},
    spec=("timestamp", HourTransform()),
)
EMPTY = Layout(
    "automq, a log a file, empty for null",
    {role: f"_kafka_metadata.{role}" for role in ("partition", "offset", "timestamp")}
    | {"key": "_kafka_key", "value": "_kafka_value"},
    tombstone="_kafka_value empty",
)
TOPICS = Layout(
    "several topics, a file for each partition",
    {role: f"_kafka.{role}" for role in ("partition", "offset", "timestamp", "key", "topic")},
    topics=("orders.eu.placed-late", "payments"),
)
MIXED_TOPICS = replace(
    TOPICS,
    name="topics by identity, several partitions a file",
    mixed=True,
    spec=("topic", IdentityTransform()),
)
MIXED = replace(EMPTY, name="automq, several logs a file, empty for null", mixed=True)
LAYOUTS = (PLAIN, FLAT, NESTED, HOURLY, EMPTY, TOPICS)
"""Layouts in which a file holds one log."""


def mapped(layout):
    """The settings of a layout as the engine has them."""
    return Settings.model_validate(layout.settings)


def rows_of(*keys, start, at=T0):
    """Rows of these keys at offsets from `start` on; a key that ends with `-` has a tombstone."""
    return [
        Row(start + n, k.rstrip("-").encode(), None if k.endswith("-") else b"v%d" % (start + n), timestamp=at)
        for n, k in enumerate(keys)
    ]


def left(layout, table):
    """Log and offset of each row that a table has now."""
    return {(r["partition"], r["offset"]) for r in layout.rows(table.refresh())}
