"""Checks that a table can be read by Spark, which checks passes, and by Arrow, whatever its columns are mapped to."""

from __future__ import annotations

from collections.abc import Collection

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
)

from hardpack.errors import BadInput
from hardpack.table.columns import table_name

NANOS = "timestamps in microseconds"
UNREADABLE: dict[type[IcebergType], str] = {
    TimeType: "times of day as text or long", TimestampNanoType: NANOS, TimestamptzNanoType: NANOS,
    GeometryType: "shapes as binary", GeographyType: "shapes as binary",
}  # fmt: skip
"""Types that make a table unreadable, and what can stand in their place. Spark lacks the type, so that Iceberg refuses
it the whole table, or Arrow does not read it."""
RESERVED = {"_file", "_pos", "_deleted", "_spec_id", "_partition"}
"""Names of Iceberg's metadata columns (MetadataColumns). Its Spark reader refuses a table with a column of such a
name."""
ROW_LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Names of the two columns of row lineage, which tables of format v3 write into their files."""


def check_readable(table: Table) -> None:
    """Checks that Spark, Arrow and pyiceberg can read a table's columns and partition specs.

    Args:
        table: as pyiceberg loaded it.

    Raises:
        BadInput: one of them cannot; the message names the first column or partition field that is in the way.
    """
    name, schema = table_name(table), table.schema()
    _check_types(name, schema)
    reserved = RESERVED | (set(ROW_LINEAGE) if table.metadata.format_version > 2 else set())
    _check_names(name, [field.name for field in schema.fields], reserved)
    for spec in table.specs().values():
        if strange := [field for field in spec.fields if isinstance(field.transform, UnknownTransform)]:
            raise BadInput(
                f"{name}: partition field {strange[0].name!r} has a transform that pyiceberg does not know, expected "
                "Iceberg's own: identity, bucket, truncate, year, month, day, hour or void."
            )


def _check_types(table: str, schema: Schema) -> None:
    for number in schema.field_ids:
        kind = schema.find_type(number)
        if instead := UNREADABLE.get(type(kind)):
            raise BadInput(
                f"{table}: column {schema.find_column_name(number)!r} is {kind}, with which Spark or Arrow "
                f"cannot read the table, so that no pass could be checked; expected a table that has {instead}."
            )


def _check_names(table: str, names: Collection[str], reserved: Collection[str]) -> None:
    if taken := next((name for name in names if name.lower() in reserved), None):
        raise BadInput(
            f"{table}: column {taken!r} has a name that Iceberg keeps for itself, expected another; rename it with "
            f"ALTER TABLE … RENAME COLUMN {taken} TO NAME."
        )
    by_lower: dict[str, str] = {}
    for name in names:
        if (twin := by_lower.setdefault(name.lower(), name)) != name:
            raise BadInput(
                f"{table}: columns {twin!r} and {name!r} differ by the case of letters alone, which Spark does not "
                "tell apart, expected names that do not; rename one of them."
            )
