"""Parquet schemas of other writers: which fields are the table's, and in which of Arrow's types they can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardpack.table.footers import has_id, has_ids, inner_fields

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.name_mapping import MappedField, NameMapping


def own_fields(parquet: pa.Schema, names: NameMapping | None) -> pa.Schema:
    """Returns a file's schema without the fields, however deep they lie, that are not the table's.

    Follows Iceberg (ParquetSchemaUtil). Where any field has an id, fields without one are not the table's. Where none
    has, the fields that the table's name mapping lacks are not. Without ids and mapping the schema stays as it is.

    Args:
        parquet: the file's schema.
        names: the table's name mapping, None if it has none.
    """
    import pyarrow as pa

    if not has_ids(parquet) and names is None:
        return parquet
    mapped = None if has_ids(parquet) or names is None else names.root
    return pa.schema([own for field in parquet if (own := _own(field, field.name, mapped))])


def _own(field: pa.Field, name: str, mapped: Sequence[MappedField] | None) -> pa.Field | None:
    """Returns a field without its inner fields that are not the table's, None when it is not the table's itself.

    With `mapped` a field is the table's when its name is mapped to an id, else when it has an id.
    """
    import pyarrow as pa

    inner = None
    if mapped is not None:
        entry = next((entry for entry in mapped if name in entry.names), None)
        if entry is None or entry.field_id is None:
            return None
        inner = entry.fields
    elif not has_id(field):
        return None
    kind, fields = field.type, inner_fields(field.type)
    if not fields:
        return field
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([own for one in fields if (own := _own(one, one.name, inner))]))
    called = ("key", "value") if pa.types.is_map(kind) else ("element",)
    owned = [own for one, as_mapped in zip(fields, called, strict=True) if (own := _own(one, as_mapped, inner))]
    return field.with_type(_rebuilt(kind, owned)) if len(owned) == len(fields) else None


def plain_types(parquet: pa.Schema) -> pa.Schema:
    """Returns a schema in types that pyiceberg knows and to which the values can be cast without a change.

    Arrow's note beside the Parquet schema says more than Parquet and Iceberg do. It names the zone of a timestamp,
    whose value is the same instant in any zone, and how many bits a decimal had in memory.

    Args:
        parquet: the file's schema.
    """
    import pyarrow as pa

    return pa.schema([_deep(field, _plain) for field in parquet], parquet.metadata)


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _deep(field: pa.Field, change: Callable[[pa.DataType], pa.DataType]) -> pa.Field:
    """Returns a field with `change` applied to its type, or if it is nested to the types of its innermost fields."""
    if not (fields := inner_fields(field.type)):
        return field.with_type(change(field.type))
    return field.with_type(_rebuilt(field.type, [_deep(one, change) for one in fields]))


def _rebuilt(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Returns a nested type of the same kind with other inner fields."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(*fields, keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(*fields, kind.list_size)
    return (pa.large_list if pa.types.is_large_list(kind) else pa.list_)(*fields)
