"""A data or delete file, described by Iceberg's JSON of it (ContentFileParser).

The names in that JSON stand here; those of what a writer measures stand in `column_metrics` and `writer` too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.conversions import to_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from hardpack.table.columns import LogColumns
from hardpack.table.schema_columns import column_by_id

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema

ALONE = ("puffin", "parquet")
"""Formats of delete files that are read here."""


@dataclass(frozen=True, slots=True)
class ContentFile:
    """A data or delete file that was written or is to be read; it need not belong to a snapshot."""

    entry: Mapping[str, Any]
    """Iceberg's JSON of the file."""
    data_sequence_number: int = 0
    """The file's data sequence number, 0 where nothing asks for it."""

    def column_metrics(self, field_id: int) -> tuple[int | None, bytes | None, bytes | None]:
        """Returns a column's null count, lower bound and upper bound; None for each that the metadata lacks."""
        nulls, low, high = (
            dict(zip(metric["keys"], metric["values"], strict=True)).get(field_id) if metric else None
            for metric in map(self.entry.get, ("null-value-counts", "lower-bounds", "upper-bounds"))
        )
        return nulls, _bytes(low), _bytes(high)

    @property
    def path(self) -> str:
        """The file's location."""
        return str(self.entry["file-path"])

    @property
    def format(self) -> str:
        """The name of the file's format, in small letters."""
        return str(self.entry["file-format"]).lower()

    @property
    def rows(self) -> int:
        """Number of rows in the file, deleted ones included; for a delete file, of the rows that it names."""
        return int(self.entry["record-count"])

    @property
    def bytes(self) -> int:
        """Size of the file, bytes."""
        return int(self.entry["file-size-in-bytes"])

    @property
    def spec_id(self) -> int:
        """Id of the partition spec that the file was written under."""
        return int(self.entry["spec-id"])

    @property
    def partition(self) -> Sequence[Any]:
        """The file's partition values, as JSON, in the order of its partition spec."""
        values: Sequence[Any] = self.entry["partition"]
        return values

    @property
    def iceberg_partition(self) -> tuple[int, str]:
        """Spec id and partition values: files of one Iceberg partition may become one file."""
        return self.spec_id, repr(self.partition)

    @property
    def first_row_id(self) -> int | None:
        """The id of the file's first row on format v3, None where rows have no ids or carry their own."""
        return self.entry.get("first-row-id")

    @property
    def data_file(self) -> str:
        """Path of the one data file that this delete file lies on, empty when it may lie on several."""
        return str(self.entry.get("referenced-data-file") or "")

    @property
    def on_one_file(self) -> bool:
        """Whether this delete file lies on a single data file, in a format that is read here."""
        return bool(self.data_file) and self.format in ALONE

    @property
    def blob(self) -> tuple[int, int]:
        """Offset and size of a deletion vector's blob in its Puffin file, bytes."""
        return int(self.entry["content-offset"]), int(self.entry["content-size-in-bytes"])

    def column_bytes(self, field_ids: Collection[int]) -> int:
        """Returns the size of some columns, bytes; the whole file's size when the metadata has no column sizes."""
        column_sizes = self.entry.get("column-sizes")
        if not column_sizes:
            return self.bytes
        sizes = dict(zip(column_sizes["keys"], column_sizes["values"], strict=True))
        return sum(sizes.get(number, 0) for number in field_ids)

    def tombstones(self, columns: LogColumns) -> int | None:
        """Returns how many rows of the file are tombstones, None when the metadata does not tell.

        Args:
            columns: the table's.
        """
        metrics = self.column_metrics(columns.value.field_id) if columns.value else (0, None, None)
        return columns.tombstones(self.rows, *metrics)

    def delete_file(self, location: str, size: int, rows: int, blob: tuple[int, int] | None = None) -> ContentFile:
        """Makes the `ContentFile` of a delete file that lies on this data file alone.

        Args:
            location: where the delete file was written.
            size: its size, bytes.
            rows: how many rows it names.
            blob: offset and size of a deletion vector's blob; None for a position delete file.
        """
        place = {} if blob is None else {"content-offset": blob[0], "content-size-in-bytes": blob[1]}
        return ContentFile(
            {
                "spec-id": self.spec_id,
                "content": "position-deletes",
                "file-path": location,
                "file-format": "parquet" if blob is None else "puffin",
                "partition": self.partition,
                "record-count": rows,
                "referenced-data-file": self.path,
                "file-size-in-bytes": size,
            }
            | place
        )


def _bytes(bound: str | None) -> bytes | None:
    return None if bound is None else bytes.fromhex(bound)


def of_manifest(file: DataFile, spec: PartitionSpec, schema: Schema) -> ContentFile:
    """Makes the `ContentFile` of a data file, with what reading it takes, from the file's entry in a manifest.

    Args:
        file: the manifest's entry, as pyiceberg read it.
        spec: the file's partition spec.
        schema: the table's.
    """

    def value(at: int, field: PartitionField) -> Any:
        cell = file.partition[at]
        # readers ask only for values that may stand for a column, which those of identity transforms do
        if cell is None or not isinstance(field.transform, IdentityTransform):
            return None
        kind = column_by_id(schema, field.source_id)
        return None if kind is None else to_json(cast(PrimitiveType, kind.field_type), cell)

    values = [value(at, field) for at, field in enumerate(spec.fields)]
    return listed_file(
        file.file_path, file.file_format.value, file.spec_id, values, file.file_size_in_bytes, file.record_count
    )


def listed_file(
    path: str, file_format: str, spec_id: int, partition: Sequence[Any], size: int, rows: int, **more: Any
) -> ContentFile:
    """Makes the `ContentFile` of a data file from what a manifest or a writer says of the file.

    Args:
        path: its location.
        file_format: the format's name.
        spec_id: id of its partition spec.
        partition: its partition values, as JSON.
        size: bytes.
        rows: how many rows the file has.
        more: further members of Iceberg's JSON.
    """
    return ContentFile(
        {
            "spec-id": spec_id,
            "content": "data",
            "file-path": path,
            "file-format": file_format,
            "partition": partition,
            "file-size-in-bytes": size,
            "record-count": rows,
        }
        | more
    )
