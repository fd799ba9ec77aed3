"""Logs as metadata shows them: one walk over a snapshot's manifests, no data read, no JVM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, PrimitiveType, StringType

from hardpack.errors import BadInput, Conflict
from hardpack.lake.history import trusted_states
from hardpack.lake.layout import table_name
from hardpack.lake.state import PLAN_SUMMARY, state_of
from hardpack.log.model import DataFile, LogState, LogView, Partition, to_segments
from hardpack.log.settings import Settings


def read_logs(table: Table, settings: Settings, snapshot_id: int | None = None) -> list[LogView]:
    """Every log of the table at a snapshot (default: the current one), by partition value.

    A log of which the state is known but no row is left is among them, without segments.

    Raises:
        BadInput: a file without offset bounds.
        Conflict: the snapshot asked for is gone.
    """
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise Conflict(f"{table_name(table)}: snapshot {snapshot_id} is gone; plan again.")
    files: dict[Partition, list[DataFile]] = defaultdict(list)
    added_by: dict[str, int | None] = {}
    if snapshot is not None:
        walk = _Walk(table, settings)
        for partition, file, adder in walk.files(snapshot):
            files[partition].append(file)
            added_by[file.path] = adder
    states = trusted_states(table)
    late = _Late(table, added_by)
    views = [
        _view(partition, found, state_of(states, partition), late)
        for partition, found in sorted(files.items(), key=lambda item: (str(type(item[0])), item[0]))
    ]
    seen = {str(v.partition) for v in views}
    text = isinstance(table.schema().find_field(settings.column_partition).field_type, StringType)
    return views + [
        LogView(name if text else int(name), (), state) for name, state in sorted(states.items()) if name not in seen
    ]


def _view(partition: Partition, files: list[DataFile], state: LogState, late: _Late) -> LogView:
    return LogView(partition, to_segments(files, state.layout), state, late=late.first(files, state))


class _Late:
    """Which files brought rows below a checkpoint after the pass that set it (invariant 9).

    A file's offsets do not tell when it came, its data sequence number does. A rewrite of rows that were there
    (operation `replace`, or `overwrite` with no more rows than before) brings none.
    """

    def __init__(self, table: Table, added_by: Mapping[str, int | None]) -> None:
        self.table, self.added_by = table, added_by

    def first(self, files: list[DataFile], state: LogState) -> int | None:
        """Lowest offset below the checkpoint among rows that came after the state's snapshot, else None."""
        if state.snapshot is None or state.checkpoint is None:
            return None
        late = [
            f.min_offset
            for f in files
            if f.sequence > state.snapshot[1] and f.min_offset < state.checkpoint and self._brings_rows(f)
        ]
        return min(late, default=None)

    def _brings_rows(self, file: DataFile) -> bool:
        adder = self.added_by[file.path]
        snapshot = None if adder is None else self.table.snapshot_by_id(adder)
        if snapshot is None or snapshot.summary is None:
            return True
        summary = snapshot.summary.additional_properties
        if snapshot.summary.operation == Operation.REPLACE or PLAN_SUMMARY in summary:
            return False
        if snapshot.summary.operation == Operation.OVERWRITE:
            return int(summary.get("added-records", 0)) > int(summary.get("deleted-records", 0))
        return True


class _Walk:
    """One reading of the manifests with the columns looked up once."""

    def __init__(self, table: Table, settings: Settings) -> None:
        schema = table.schema()
        self.table = table
        self.name = table_name(table)
        self.partition = schema.find_field(settings.column_partition)
        self.offset = schema.find_field(settings.column_offset)
        self.timestamp = schema.find_field(settings.column_timestamp)
        self.key = schema.find_field(settings.column_key)
        self.value = schema.find_field(settings.column_value)
        self.times = {s.snapshot_id: s.timestamp_ms for s in table.snapshots()}
        self.oldest = min(self.times.values(), default=0)

    def files(self, snapshot: Snapshot) -> Iterator[tuple[Partition, DataFile, int | None]]:
        """Per data file its log, what the manifest tells of it, and the snapshot that added it."""
        manifests = snapshot.manifests(self.table.io)
        deleted = self._partitions_with_deletes([m for m in manifests if m.content == ManifestContent.DELETES])
        for manifest in manifests:
            if manifest.content == ManifestContent.DELETES:
                continue
            at = self._partition_index(manifest)
            for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                if (partition := entry.data_file.partition[at]) is None:
                    raise BadInput(
                        f"{self.name}: {entry.data_file.record_count:,} rows have no {self.partition.name!r}, expected "
                        "the number or name of their log; set or delete them."
                    )
                file = self._file(entry)
                if None in deleted or partition in deleted:
                    file = replace(file, row_deletes=True)
                yield partition, file, entry.snapshot_id

    def _partitions_with_deletes(self, manifests: list[ManifestFile]) -> set[Partition | None]:
        """Logs that row-level deletes lie on; None stands for all."""
        found: set[Partition | None] = set()
        for manifest in manifests:
            fields = self.table.specs()[manifest.partition_spec_id].fields
            at = self._partition_index(manifest) if fields else None
            for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                found.add(None if at is None else entry.data_file.partition[at])
        return found

    def _partition_index(self, manifest: ManifestFile) -> int:
        spec = self.table.specs()[manifest.partition_spec_id]
        for at, field in enumerate(spec.fields):
            if field.source_id == self.partition.field_id and isinstance(field.transform, IdentityTransform):
                return at
        raise BadInput(
            f"{self.name}: files of partition spec {spec.spec_id} are not partitioned by {self.partition.name!r}; "
            "rewrite them with the current spec."
        )

    def _file(self, entry: ManifestEntry) -> DataFile:
        file = entry.data_file
        low, high = self._bounds(file, self.offset)
        if low is None or high is None:
            raise BadInput(
                f"{self.name}: a data file has no bounds of column {self.offset.name!r}, expected them in its "
                f"metadata; set write.metadata.metrics.column.{self.offset.name}=full and rewrite the file."
            )
        early, late = self._bounds(file, self.timestamp)
        nulls = file.null_value_counts or {}
        if early is None and nulls.get(self.timestamp.field_id) != file.record_count:
            raise BadInput(
                f"{self.name}: a data file has no bounds of column {self.timestamp.name!r}, expected them in its "
                f"metadata; set write.metadata.metrics.column.{self.timestamp.name}=full and rewrite the file."
            )
        return DataFile(
            path=file.file_path,
            bytes=file.file_size_in_bytes,
            rows=file.record_count,
            min_offset=low,
            max_offset=high,
            min_timestamp=self._millis(early),
            max_timestamp=self._millis(late),
            tombstones=nulls.get(self.value.field_id),
            null_keys=nulls.get(self.key.field_id),
            # a snapshot that expired is older than those still known
            modified=self.times.get(entry.snapshot_id or 0, self.oldest),
            sequence=entry.sequence_number or 0,
        )

    def _bounds(self, file: IceFile, field: NestedField) -> tuple[Any, Any]:
        lower = (file.lower_bounds or {}).get(field.field_id)
        upper = (file.upper_bounds or {}).get(field.field_id)
        if lower is None or upper is None:
            return None, None
        kind = cast(PrimitiveType, field.field_type)
        return from_bytes(kind, lower), from_bytes(kind, upper)

    def _millis(self, value: int | None) -> int | None:
        return value if value is None or isinstance(self.timestamp.field_type, LongType) else value // 1000
