"""Reads what manifests tell of data files. A manifest never changes, so what was read of it may be kept."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import current_process
from threading import Lock
from typing import Any, TypeVar, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions.visitors import inclusive_projection, manifest_evaluator
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, PrimitiveType

from hardpack.errors import BadInput
from hardpack.rules.model import DataFile, Partition
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import NO_LOG, SENSED, LogColumns, table_name
from hardpack.table.footers import SILENT, ColumnFacts, Footers, name_mapping
from hardpack.table.log_name import FOOTER_LENGTH, may_be_cut, value_by_bounds
from hardpack.table.read_ahead import opened_ahead
from hardpack.table.schema_columns import LogColumn

ENTRIES_PER_PROCESS = 100_000
"""Entries that are worth a process: decoding so many takes a core five seconds, starting one takes one or two."""

L = TypeVar("L")
"""A log, or none."""
Entries = dict[Partition | None, list[tuple[Any, ...]]]
"""A manifest's entries by log, as arguments of `DataFile`: they pickle faster than the objects. Under None are mixed
files."""


@dataclass(frozen=True, slots=True)
class _FileFacts:
    """Null counts and bounds of a data file's columns, by field id: from its manifest, else from its footer."""

    nulls: Mapping[int, int]
    lows: Mapping[int, bytes]
    highs: Mapping[int, bytes]

    def of(self, column: LogColumn) -> ColumnFacts:
        """Returns null count, lower and upper bound of one column."""
        number = column.field_id
        return self.nulls.get(number), self.lows.get(number), self.highs.get(number)


def keeps_logs_apart(table: Table, settings: Settings) -> bool:
    """Returns whether every partition spec names the log, so that no data file can hold rows of several logs.

    Args:
        table: as pyiceberg loaded it.
        settings: for the columns.
    """
    columns = LogColumns.of(table.schema(), settings, ("partition", "offset", "timestamp"))
    return all(columns.log.in_spec(spec) for spec in table.specs().values())


class ManifestReader:
    """Reads manifests of one table with the columns looked up once."""

    def __init__(self, table: Table, settings: Settings) -> None:
        self.schema = schema = table.schema()
        self.io, self.specs = table.io, table.specs()
        self.name = table_name(table)
        self.columns = LogColumns.of(schema, settings, SENSED)
        self.times = {s.snapshot_id: s.timestamp_ms for s in table.snapshots()}
        self.sequences = {s.snapshot_id: s.sequence_number or 0 for s in table.snapshots()}
        self.oldest = min(self.times.values(), default=0)
        # Iceberg reads a column that a file lacks from the file's partition, where that has its value
        by_partition = {
            f.source_id for s in self.specs.values() for f in s.fields if isinstance(f.transform, IdentityTransform)
        }
        columns = self.columns.by_role.values()
        asked = tuple(replace(c, has_default=c.has_default or c.field_id in by_partition) for c in columns)
        self.footers = Footers(table.io, table.location(), name_mapping(table), asked)
        self._deletes: dict[str, list[IceFile]] = {}
        self._by_footer: dict[str, dict[int, ColumnFacts]] = {}
        """What footers tell, by path, of the data files of which a manifest does not tell enough."""
        self._log_at = {number: self.columns.log.places(spec) for number, spec in self.specs.items()}
        self._plain_homes = {number: str([number]) for number in self.specs}
        self._bounded = (self.columns.offset.field_id, self.columns.timestamp.field_id)

    @property
    def reads(self) -> tuple[Any, ...]:
        """What the result depends on beside the manifest: the rule of tombstones and the fields looked at."""
        columns = self.columns.by_role.values()
        return self.columns.tombstone, *((column.field_id, str(column.field_type)) for column in columns)

    def files(self, manifests: Sequence[ManifestFile]) -> dict[str, dict[Partition | None, list[DataFile]]]:
        """Returns the data files of manifests, by the manifest's path and by log; under None are mixed files.

        Very many entries are decoded by several processes.
        """
        return {m.manifest_path: built(decoded) for m, decoded in zip(manifests, self._decoded(manifests), strict=True)}

    def holding(self, manifests: Iterable[ManifestFile], logs: Collection[str]) -> list[ManifestFile]:
        """Returns the manifests that may list files or deletes of these logs, by the bounds in the manifest list."""
        wanted = self.columns.log.expression(logs)

        @cache
        def may(spec_id: int) -> Callable[[ManifestFile], bool]:
            spec = self.specs[spec_id]
            return manifest_evaluator(spec, self.schema, inclusive_projection(self.schema, spec)(wanted))

        return [m for m in manifests if may(m.partition_spec_id)(m)]

    def _decoded(self, manifests: Sequence[ManifestFile]) -> Iterator[Entries]:
        entries = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in manifests)
        wanted, done = min(len(manifests), entries // ENTRIES_PER_PROCESS), 0
        # a daemonic process, such as a Celery worker, may not start processes of its own
        if wanted > 1 and not current_process().daemon:
            # imported late, as it is seldom needed
            from loky import BrokenProcessPool, ProcessPoolExecutor, cpu_count

            try:
                with ProcessPoolExecutor(min(wanted, cpu_count())) as pool:
                    for decoded in pool.map(self.entries, manifests):
                        yield decoded
                        done += 1
            except BrokenProcessPool:
                # killed, for want of memory most likely; one process needs less
                pass
        left = manifests[done:]
        for manifest, io in zip(left, opened_ahead(self.io, left), strict=True):
            yield self.entries(manifest, io)

    def dated(self, file: DataFile) -> DataFile:
        """Returns a file as it would be read now. Without a timestamp it is as old as its commit, while that is known.

        Args:
            file: one that was read before, perhaps before snapshots expired.
        """
        at = self.times.get(file.added_by or 0, self.oldest)
        return file if file.timed or file.modified == at else replace(file, modified=at)

    def entries(self, manifest: ManifestFile, io: FileIO | None = None) -> Entries:
        """Reads the live entries of a manifest, by log; files without rows are left out.

        Args:
            manifest: of the table.
            io: what to open it with, None for the table's.
        """
        by_log = Entries()
        with uncollected():
            entries = manifest.fetch_manifest_entry(io or self.io, discard_deleted=True)
            self.ask_footers(manifest, entries)
            for entry in (e for e in entries if e.data_file.record_count):
                file = entry.data_file
                facts = self._facts(file)
                log = self._log_of(file, facts)
                if log is None and self._is_mute(file) and file.file_path not in self._by_footer:
                    raise BadInput(
                        f"{self.name}: the footer of data file {file.file_path} cannot be read, which would tell its "
                        "log, or has none of the table's columns by field id or schema.name-mapping.default; restore "
                        "the file, or try again when the storage answers."
                    )
                by_log.setdefault(log, []).append(self._file(entry, facts, log))
        return by_log

    def ask_footers(self, manifest: ManifestFile, entries: Iterable[ManifestEntry]) -> None:
        """Reads and remembers the footers of those data files of which a manifest does not tell enough."""
        if manifest.content == ManifestContent.DELETES:
            return
        if mute := [e.data_file.file_path for e in entries if self._is_mute(e.data_file)]:
            self._by_footer |= self.footers.of(manifest.manifest_path, mute)

    def _is_mute(self, file: IceFile) -> bool:
        lows, highs = file.lower_bounds or {}, file.upper_bounds or {}
        untold = [c for c, at in zip(self.columns.log.columns, self._log_at[file.spec_id], strict=True) if at is None]
        if not untold and all(number in lows and number in highs for number in self._bounded):
            return False
        facts = _FileFacts(file.null_value_counts or {}, lows, highs)
        metrics = [facts.of(column) for column in (self.columns.offset, self.columns.timestamp, *untold)]
        bounded = all(
            low is not None and high is not None for nulls, low, high in metrics if nulls != file.record_count
        )
        counted = all(nulls is not None for nulls, _, _ in metrics[2:])
        return file.file_format == FileFormat.PARQUET and not (
            bounded and counted and not any(may_be_cut(c, facts.of(c)) for c in untold)
        )

    def _facts(self, file: IceFile) -> _FileFacts:
        """Returns null counts and bounds of a file's columns; those in the manifest count before the footer's."""
        in_manifest = file.null_value_counts or {}, file.lower_bounds or {}, file.upper_bounds or {}
        if footer := self._by_footer.get(file.file_path):
            nulls, lows, highs = (
                {number: known[at] for number, known in footer.items() if known[at] is not None} for at in range(3)
            )
            # the loop gives the null counts and then the two bounds, which its type cannot say
            return _FileFacts({**nulls, **in_manifest[0]}, {**lows, **in_manifest[1]}, {**highs, **in_manifest[2]})  # type: ignore[dict-item]
        return _FileFacts(*in_manifest)

    def beside(self, manifests: Iterable[ManifestFile], source: int) -> Iterator[tuple[Partition, Any, DataFile]]:
        """Yields log, partition value and file of each live entry; `source` is the field id of the value's column."""
        for manifest in manifests:
            fields = enumerate(self.specs[manifest.partition_spec_id].fields)
            for at in [i for i, f in fields if f.source_id == source and isinstance(f.transform, IdentityTransform)]:
                entries = manifest.fetch_manifest_entry(self.io, discard_deleted=True)
                self.ask_footers(manifest, entries)
                for entry in entries:
                    log, file = self.placed(entry)
                    yield NO_LOG if log is None else log, entry.data_file.partition[at], DataFile(*file)

    def delete_files(self, manifest: ManifestFile) -> list[IceFile]:
        """Returns the live delete files of a manifest; each manifest is read once."""
        if manifest.manifest_path not in self._deletes:
            entries = manifest.fetch_manifest_entry(self.io, discard_deleted=True)
            self._deletes[manifest.manifest_path] = [entry.data_file for entry in entries]
        return self._deletes[manifest.manifest_path]

    def partitions_with_deletes(self, manifests: Iterable[ManifestFile]) -> set[Partition | None]:
        """Returns the logs whose files the row-level deletes of some manifests may lie on; None stands for all logs."""
        logs: set[Partition | None] = set()
        for manifest in manifests:
            logs.update(map(self.named_log, self.delete_files(manifest)))
        return logs

    def placed(self, entry: ManifestEntry) -> tuple[Partition | None, tuple[Any, ...]]:
        """Returns the log of an entry's file, None where metadata proves none, and the arguments of its `DataFile`.

        Args:
            entry: of a manifest for which `ask_footers` was called.
        """
        facts = self._facts(entry.data_file)
        log = self._log_of(entry.data_file, facts)
        return log, self._file(entry, facts, log)

    def named_log(self, file: IceFile) -> Partition | None:
        """Returns the log that a file's partition names, `NO_LOG` for null; None where its spec lacks a log column."""
        places = self._log_at[file.spec_id]
        if None in places:
            return None
        log = self.columns.log.of(self._spec_values(file))
        return NO_LOG if log is None else log

    def _spec_values(self, file: IceFile) -> list[Any]:
        """Returns a file's partition values of the columns that name its log; None for one that its spec has not."""
        return [None if at is None else file.partition[at] for at in self._log_at[file.spec_id]]

    def _log_of(self, file: IceFile, facts: _FileFacts) -> Partition | None:
        """Returns the log that all rows of a file are in; None where its metadata proves none."""
        if (named := self.named_log(file)) is not None:
            return named
        footer, log = self._by_footer.get(file.file_path, {}), self.columns.log
        values = list[Any]()
        for column, value in zip(log.columns, self._spec_values(file), strict=True):
            metrics = facts.of(column)
            value = value_by_bounds(column, metrics) if value is None else value
            if value is None and may_be_cut(column, metrics):
                value = value_by_bounds(column, footer.get(column.field_id, SILENT), FOOTER_LENGTH - 1)
            values.append(value)
        return log.of(values)

    def _file(self, entry: ManifestEntry, facts: _FileFacts, log: Partition | None) -> tuple[Any, ...]:
        file = entry.data_file
        low, high = _bounds(facts, self.columns.offset)
        early, late = _bounds(facts, self.columns.timestamp)
        trouble = self._trouble(file, facts, log, (low, high, early))
        return (
            file.file_path,
            file.file_size_in_bytes,
            file.record_count,
            0 if trouble else low,
            0 if trouble else high,
            self._millis(early),
            self._millis(late),
            self._tombstones(file, facts),
            self._without_key(file, facts),
            # a snapshot that expired is older than those still known
            self.times.get(entry.snapshot_id or 0, self.oldest),
            entry.sequence_number or 0,
            entry.snapshot_id,
            False,
            self._came(entry),
            trouble,
            self._home(file),
        )

    def _came(self, entry: ManifestEntry) -> int:
        """Returns the sequence number of the commit that brought a file, which the spec lets a manifest leave out."""
        if entry.file_sequence_number is not None:
            return int(entry.file_sequence_number)
        return self.sequences.get(entry.snapshot_id or 0, entry.sequence_number or 0)

    def _home(self, file: IceFile) -> str:
        fields = self.specs[file.spec_id].fields
        if len(fields) == len([at for at in self._log_at[file.spec_id] if at is not None]):
            # the spec has no other field, so that all files of a log share one Iceberg partition
            return self._plain_homes[file.spec_id]
        return str([file.spec_id, *(file.partition[at] for at in range(len(fields)))])

    def _tombstones(self, file: IceFile, facts: _FileFacts) -> int | None:
        value = self.columns.value
        return self.columns.tombstones(file.record_count, *(facts.of(value) if value else (0, None, None)))

    def _without_key(self, file: IceFile, facts: _FileFacts) -> int | None:
        """Returns how many rows have null in all columns of the key; None where metadata cannot tell."""
        first, *others = self.columns.keys
        nulls = facts.nulls.get(first.field_id)
        if not others:
            return nulls
        counts = {nulls, *(facts.nulls.get(column.field_id) for column in others)}
        return 0 if 0 in counts else file.record_count if counts == {file.record_count} else None

    def _trouble(
        self, file: IceFile, facts: _FileFacts, log: Partition | None, bounds: tuple[int | None, int | None, int | None]
    ) -> str:
        """Returns why a file's rows cannot be placed in their log; empty when they can.

        The bounds are the file's lowest and highest offset and its earliest time.
        """
        low, high, early = bounds
        # a log may be called as `NO_LOG` is, so the partition's own values decide
        named = None not in self._log_at[file.spec_id]
        if log == NO_LOG and named and self.columns.log.of(self._spec_values(file)) is None:
            return (
                f"{file.record_count:,} rows have no {str(self.columns.log)!r}, expected the number or name of "
                "their log; set or delete them"
            )
        if without := facts.nulls.get(self.columns.offset.field_id):
            missing = f"{without:,} rows have no {self.columns.offset.name!r}"
            return f"{missing}, expected their offset in the log; set or delete them"
        missing = self.columns.offset.name if low is None or high is None else ""
        if early is None and facts.nulls.get(self.columns.timestamp.field_id) != file.record_count:
            missing = missing or self.columns.timestamp.name
        if missing or low is None or high is None:
            return (
                f"a data file has no bounds of column {missing!r}, expected them in its metadata; set "
                f"write.metadata.metrics.column.{missing}=full and rewrite the file"
            )
        if low < 0 or high >= LONG_MAX:
            return (
                f"a row has {self.columns.offset.name!r} {low if low < 0 else high}, expected an offset from 0 to "
                f"{LONG_MAX - 1}; mend or delete it"
            )
        return ""

    def _millis(self, value: int | None) -> int | None:
        return value if value is None or isinstance(self.columns.timestamp.field_type, LongType) else value // 1000


def _bounds(facts: _FileFacts, column: LogColumn) -> tuple[Any, Any]:
    _, lower, upper = facts.of(column)
    if lower is None or upper is None:
        return None, None
    kind = cast(PrimitiveType, column.field_type)
    try:
        return from_bytes(kind, lower), from_bytes(kind, upper)
    except struct.error:
        # these bounds have the type that the column had before it was promoted
        return None, None


def built(entries: Mapping[L, Iterable[tuple[Any, ...]]]) -> dict[L, list[DataFile]]:
    """Returns the files of each log, made from the arguments of `DataFile`."""
    return {log: [DataFile(*entry) for entry in own] for log, own in entries.items()}


_UNCOLLECTED: list[bool] = []
"""An entry per look in progress, in any thread: whether garbage collection was on before the first of them began."""
_COUNTING = Lock()


@contextmanager
def uncollected() -> Iterator[None]:
    """Turns garbage collection off: a search for cycles in millions of small decoded objects takes half of the time."""
    with _COUNTING:
        _UNCOLLECTED.append(_UNCOLLECTED[0] if _UNCOLLECTED else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _COUNTING:
            if _UNCOLLECTED.pop() and not _UNCOLLECTED:
                gc.enable()
