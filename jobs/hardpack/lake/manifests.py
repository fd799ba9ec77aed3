"""What manifests tell of data files. A manifest never changes, so what was read of it may be kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, PrimitiveType

from hardpack.errors import BadInput
from hardpack.lake.layout import table_name
from hardpack.log.model import DataFile, Partition
from hardpack.log.settings import Settings


class ManifestReader:
    """Reads manifests of one table with the columns looked up once."""

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

    @property
    def reads(self) -> tuple[Any, ...]:
        """What the result depends on beside the manifest: the fields looked at."""
        columns = self.partition, self.offset, self.timestamp, self.key, self.value
        return tuple((column.field_id, str(column.field_type)) for column in columns)

    def files(self, manifest: ManifestFile) -> dict[Partition, list[DataFile]]:
        """The data files of a manifest, by log.

        Raises:
            BadInput: a file without a log or without bounds, or of a spec that does not divide by log.
        """
        at, found = self._partition_index(manifest), dict[Partition, list[DataFile]]()
        for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
            if (partition := entry.data_file.partition[at]) is None:
                raise BadInput(
                    f"{self.name}: {entry.data_file.record_count:,} rows have no {self.partition.name!r}, expected "
                    "the number or name of their log; set or delete them."
                )
            found.setdefault(partition, []).append(self._file(entry))
        return found

    def partitions_with_deletes(self, manifests: Iterable[ManifestFile]) -> set[Partition | None]:
        """Logs that the row-level deletes of some manifests lie on; None stands for all."""
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
            added_by=entry.snapshot_id,
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
