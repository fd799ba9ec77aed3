"""Logs as metadata shows them: one walk over a snapshot's manifests, no data read, no JVM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, PrimitiveType

from hardpack.errors import BadInput
from hardpack.lake.layout import table_name
from hardpack.lake.state import read_state, state_of
from hardpack.log.model import DataFile, LogView, Partition, to_segments
from hardpack.log.settings import Settings


def read_logs(table: Table, settings: Settings, snapshot_id: int | None = None) -> list[LogView]:
    """Every log of the table at a snapshot (default: the current one), by partition value.

    Raises:
        BadInput: a file without offset or timestamp bounds, delete files, or no such snapshot.
    """
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        if snapshot_id is None:
            return []
        raise BadInput(f"{table_name(table)}: snapshot {snapshot_id} is gone; plan again.")
    files: dict[Partition, list[DataFile]] = defaultdict(list)
    for partition, file in _Walk(table, settings).files(snapshot):
        files[partition].append(file)
    states = read_state(table_name(table), table.properties)
    return [
        LogView(partition, to_segments(found), state_of(states, partition))
        for partition, found in sorted(files.items(), key=lambda item: (str(type(item[0])), item[0]))
    ]


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

    def files(self, snapshot: Snapshot) -> Iterator[tuple[Partition, DataFile]]:
        for manifest in snapshot.manifests(self.table.io):
            if manifest.content == ManifestContent.DELETES:
                self._refuse_deletes(manifest)
                continue
            at = self._partition_index(manifest)
            for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                if (partition := entry.data_file.partition[at]) is None:
                    raise BadInput(
                        f"{self.name}: {entry.data_file.record_count:,} rows have no {self.partition.name!r}, expected "
                        "the number or name of their log; set or delete them."
                    )
                yield partition, self._file(entry.data_file)

    def _refuse_deletes(self, manifest: ManifestFile) -> None:
        live = manifest.fetch_manifest_entry(self.table.io, discard_deleted=True)
        if live:
            raise BadInput(
                f"{self.name}: {len(live)} row-level delete files lie on its data files, expected none; merge them in "
                "with CALL system.rewrite_data_files(table => '…', options => map('delete-file-threshold','1'))."
            )

    def _partition_index(self, manifest: ManifestFile) -> int:
        spec = self.table.specs()[manifest.partition_spec_id]
        for at, field in enumerate(spec.fields):
            if field.source_id == self.partition.field_id and isinstance(field.transform, IdentityTransform):
                return at
        raise BadInput(
            f"{self.name}: files of partition spec {spec.spec_id} are not partitioned by {self.partition.name!r}; "
            "rewrite them with the current spec."
        )

    def _file(self, file: IceFile) -> DataFile:
        low, high = self._bounds(file, self.offset)
        early, late = self._bounds(file, self.timestamp)
        nulls = file.null_value_counts or {}
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
        )

    def _bounds(self, file: IceFile, field: NestedField) -> tuple[Any, Any]:
        lower = (file.lower_bounds or {}).get(field.field_id)
        upper = (file.upper_bounds or {}).get(field.field_id)
        if lower is None or upper is None:
            raise BadInput(
                f"{self.name}: a data file has no bounds of column {field.name!r}, expected them in its metadata; set "
                f"write.metadata.metrics.column.{field.name}=full and rewrite the file."
            )
        kind = cast(PrimitiveType, field.field_type)
        return from_bytes(kind, lower), from_bytes(kind, upper)

    def _millis(self, value: int) -> int:
        return value if isinstance(self.timestamp.field_type, LongType) else value // 1000
