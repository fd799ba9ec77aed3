"""Arrow batches of a data file in the columns that a schema asks for, found by field id.

pyiceberg's projection (pinned; `_get_column_projection_values` is not public), but for what it loses: a list or map of
structs that is missing stays missing and does not become an empty one (seen in 0.12.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    _get_column_projection_values,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, prune_columns, visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.partitioning import PartitionSpec

    from hardpack.lake.files import DataFiles


class _Projection(ArrowProjectionVisitor):
    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        return _missing_where(list_array, super().list(list_type, list_array, value_array))

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        return _missing_where(map_array, super().map(map_type, map_array, key_result, value_result))


def _missing_where(given: pa.Array | None, made: pa.Array | None) -> pa.Array | None:
    if given is None or made is None or made.null_count == given.null_count:
        return made
    # of maps the fields' ids get lost
    return pc.if_else(given.is_valid(), made, pa.scalar(None, made.type)).cast(made.type)


def project(batch: pa.RecordBatch, found: Schema, wanted: Schema, **options: Any) -> pa.RecordBatch:
    """A batch with one schema's columns as another schema has them.

    Args:
        batch: columns named as in `found`.
        found: the schema of the batch.
        wanted: the schema asked for; what `found` lacks is null or its initial default.
        options: of pyiceberg's `ArrowProjectionVisitor`.
    """
    visitor = _Projection(found, **options)
    return pa.RecordBatch.from_struct_array(visit_with_partner(wanted, batch, visitor, ArrowAccessor(found)))


class FileColumns:
    """What one Parquet file has of the columns asked for."""

    def __init__(
        self, parquet: pa.Schema, wanted: Schema, table: DataFiles, spec: PartitionSpec | None, partition: Sequence[Any]
    ) -> None:
        """Match the columns.

        Args:
            parquet: the file's schema.
            wanted: the schema asked for.
            table: tells how columns without ids are called, and the format version.
            spec: the spec that the file was written under, None if the table has it no more.
            partition: the file's partition values: what a column has that is not in the file.
        """
        version = table.format_version
        found = pyarrow_to_schema(parquet, table.names, version <= 2, version)
        of = Schema(*{f.field_id: f for f in (*table.schema.fields, *wanted.fields)}.values())
        lying = DataFile.from_args(partition=Record(*partition))
        leaves = {i for i in wanted.field_ids if not isinstance(wanted.find_type(i), ListType | MapType)}
        self.wanted, self.found = wanted, prune_columns(found, leaves, select_full_types=False)
        self.names = [column.name for column in self.found.columns]
        """Those to read."""
        self._options = {
            "downcast_ns_timestamp_to_us": version <= 2,
            "projected_missing_fields": _get_column_projection_values(lying, wanted, of, spec, found.field_ids),
            "allow_timestamp_tz_mismatch": True,
        }
        # how a file was written tells whether its texts are large, or a dictionary
        self._types = schema_to_pyarrow(wanted, include_field_ids=False).types

    def mapped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns asked for, in the same Arrow types whatever the file."""
        got = project(batch, self.found, self.wanted, **self._options)
        typed = [column if column.type == to else column.cast(to) for column, to in zip(got, self._types, strict=True)]
        return pa.RecordBatch.from_arrays(typed, names=got.schema.names)
