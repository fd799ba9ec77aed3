"""Maps Arrow batches of a data file to the columns that a schema asks for, by field id.

This is pyiceberg's projection (pinned), except for lists and maps: pyiceberg's own (0.12.0) makes empty ones of null
ones, and finds the fields of structs in a list of lists by their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import from_json
from pyiceberg.exceptions import ResolveError
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    UnsupportedPyArrowTypeException,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema, prune_columns, visit_with_partner
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, MapType

from hardpack.errors import UnfitFile
from hardpack.files.foreign_schema import own_fields, plain_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.name_mapping import NameMapping


NOT_FORESEEN = (AttributeError, KeyError, TypeError, ValueError)
"""What pyiceberg's projection raises for types that it does not foresee."""


class _Projection(ArrowProjectionVisitor):
    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        if list_array is None or value_array is None:
            return None
        elements = self._cast_if_needed(list_type.element_field, value_array)
        large = isinstance(list_array, pa.LargeListArray)
        list_class, kind = (pa.LargeListArray, pa.large_list) if large else (pa.ListArray, pa.list_)
        to = kind(self._construct_field(list_type.element_field, elements.type))
        return list_class.from_arrays(_offsets(list_array), elements, type=to, mask=_missing(list_array))

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        if map_array is None or key_result is None or value_result is None:
            return None
        keys = self._cast_if_needed(map_type.key_field, key_result)
        values = self._cast_if_needed(map_type.value_field, value_result)
        to = pa.map_(
            self._construct_field(map_type.key_field, keys.type),
            self._construct_field(map_type.value_field, values.type),
        )
        return pa.MapArray.from_arrays(_offsets(map_array), keys, values, to, mask=_missing(map_array))


def _offsets(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.FixedSizeListArray):
        return pa.array((np.arange(len(array) + 1) + array.offset) * array.type.list_size, pa.int32())
    # copied, as Arrow takes no slice of offsets together with a mask
    return pa.array(array.offsets.to_numpy())


def _missing(array: pa.Array) -> pa.Array | None:
    return pa.array(array.is_null().to_numpy(zero_copy_only=False)) if array.null_count else None


def project(batch: pa.RecordBatch, given: Schema, wanted: Schema, **options: Any) -> pa.RecordBatch:
    """Returns a batch whose columns are mapped from one schema to another.

    Args:
        batch: columns named as in `given`.
        given: the schema of the batch.
        wanted: the schema asked for; what `given` lacks is null or its initial default.
        options: of pyiceberg's `ArrowProjectionVisitor`.
    """
    visitor = _Projection(given, **options)
    return pa.RecordBatch.from_struct_array(visit_with_partner(wanted, batch, visitor, ArrowAccessor(given)))


class FileColumns:
    """The columns of one Parquet file that a schema asks for, and the mapping of its batches to that schema."""

    def __init__(
        self,
        parquet: pa.Schema,
        wanted: Schema,
        names: NameMapping | None,
        version: Literal[1, 2, 3],
        spec: PartitionSpec | None,
        partition: Sequence[Any],
    ) -> None:
        """Matches the file's columns with those asked for, by field id.

        Args:
            parquet: the file's schema.
            wanted: the schema asked for.
            names: the table's name mapping, for columns without ids; None if it has none.
            version: the table's format version.
            spec: the partition spec that the file was written under, None if the table no longer has it.
            partition: the file's partition values as Iceberg's JSON, which stand for columns that the file lacks.
        """
        plain = plain_types(parquet)
        self._plain = {field.name: to.type for field, to in zip(parquet, plain, strict=True) if field.type != to.type}
        in_file = pyarrow_to_schema(own_fields(plain, names), names, version <= 2, version)
        constant = _partition_values(spec, partition, wanted, in_file)
        leaves = {i for i in wanted.field_ids if not isinstance(wanted.find_type(i), ListType | MapType)}
        self._found = prune_columns(in_file, leaves, select_full_types=False)
        # pyiceberg takes a required column from the file alone, and prefers a default to a partition value that is null
        lone = {"required": False, "initial_default": None}
        self._wanted = Schema(*(f.model_copy(update=lone) if f.field_id in constant else f for f in wanted.fields))
        self.names = [column.name for column in self._found.columns]
        """Names of the columns to read."""
        self._options = {
            "downcast_ns_timestamp_to_us": version <= 2,
            "projected_missing_fields": {i: value for i, value in constant.items() if value is not None},
            "allow_timestamp_tz_mismatch": True,
        }
        # files differ in whether Arrow reads their texts as large ones or as a dictionary; batches get one type
        self._types = schema_to_pyarrow(wanted, include_field_ids=False).types

    def mapped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns a batch's columns that were asked for, in Arrow types that are the same for every file."""
        for name in self._plain.keys() & set(batch.schema.names):
            batch = batch.set_column(batch.schema.get_field_index(name), name, batch[name].cast(self._plain[name]))
        got = project(batch, self._found, self._wanted, **self._options)
        typed = [column if column.type == to else column.cast(to) for column, to in zip(got, self._types, strict=True)]
        return pa.RecordBatch.from_arrays(typed, names=got.schema.names)


def _partition_values(
    spec: PartitionSpec | None, partition: Sequence[Any], wanted: Schema, in_file: Schema
) -> dict[int, Any]:
    """Returns by field id the values of identity partition columns that the file lacks.

    See *Column Projection* in the spec.
    """
    absent: dict[int, Any] = {i: wanted.find_type(i) for i in wanted.field_ids if i not in in_file.field_ids}
    fields = zip(spec.fields if spec else (), partition, strict=False)
    return {
        field.source_id: None if value is None else from_json(absent[field.source_id], value)
        for field, value in fields
        if field.source_id in absent and isinstance(field.transform, IdentityTransform)
    }


@contextmanager
def fitting(table: str, path: str) -> Iterator[None]:
    """Turns an error of mapping a file's columns into `UnfitFile`, so that a sound file does not count as damaged.

    Raises:
        UnfitFile: the file's columns cannot become the table's.
    """
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, UnsupportedPyArrowTypeException, ResolveError, *NOT_FORESEEN) as error:
        reason = str(error).partition("\n")[0]
        raise UnfitFile(
            f"{table}: data file {path} cannot be read in the table's columns ({reason}); have Iceberg write it anew "
            "(rewrite_data_files), or restore it if Iceberg cannot read it either. Nothing was changed."
        ) from error
