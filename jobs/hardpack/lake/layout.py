"""Is this table a topic? Its settings, and the checks of its columns and partitioning."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from hardpack.errors import BadInput
from hardpack.log.settings import PREFIX, Settings, read_settings

POLICY = PREFIX + "cleanup.policy"

EXPECTED: dict[str, tuple[type[PrimitiveType], ...]] = {
    "partition": (IntegerType, LongType, StringType),
    "offset": (LongType, IntegerType),
    "timestamp": (TimestampType, TimestamptzType, LongType),
    "key": (BinaryType, StringType),
}


def table_name(table: Table) -> str:
    """`namespace.table`."""
    return ".".join(table.name())


def settings_of(table: Table) -> Settings:
    """The settings in force, of a table that was adopted.

    Raises:
        BadInput: not adopted, or a wrong setting.
    """
    name = table_name(table)
    if POLICY not in table.properties:
        raise BadInput(f"{name}: table property {POLICY} is not set; `hardpack adopt {name}` checks and sets it.")
    return read_settings(name, table.properties)


def check_layout(table: Table, settings: Settings) -> None:
    """See that the mapped columns exist with usable types and that the table is partitioned by the log.

    Raises:
        BadInput: naming the first thing that is wrong.
    """
    name = table_name(table)
    fields = {f.name: f for f in table.schema().fields}
    roles = zip(("partition", "offset", "timestamp", "key", "value"), settings.columns, strict=True)
    for role, column in roles:
        _check_column(name, role, column, fields)
    source = fields[settings.column_partition].field_id
    for spec_id, spec in table.specs().items():
        if not any(f.source_id == source and isinstance(f.transform, IdentityTransform) for f in spec.fields):
            current = "" if spec_id == table.spec().spec_id else f" in its earlier spec {spec_id}, which files may use,"
            raise BadInput(
                f"{name}: the table is not partitioned{current} by identity of column {settings.column_partition!r}, "
                "which separates its logs; add it with "
                f"ALTER TABLE … ADD PARTITION FIELD {settings.column_partition} and rewrite the older files."
            )


def _check_column(table: str, role: str, column: str, fields: dict[str, NestedField]) -> None:
    field = fields.get(column)
    if field is None:
        raise BadInput(
            f"{table}: there is no column {column!r} for the {role}, its columns are {', '.join(fields)}; "
            f"map it with `hardpack adopt {table} --set column.{role}=NAME`."
        )
    kinds = EXPECTED.get(role)
    if kinds and not isinstance(field.field_type, kinds):
        wish = " or ".join(str(kind()) for kind in kinds)
        raise BadInput(
            f"{table}: column {column!r}, mapped to the {role}, is {field.field_type}, expected {wish}; "
            f"map another with `hardpack adopt {table} --set column.{role}=NAME`."
        )
    if role == "offset" and isinstance(field.field_type, IntegerType):
        raise BadInput(
            f"{table}: column {column!r}, mapped to the offset, is int, expected long; "
            f"widen it with ALTER TABLE … ALTER COLUMN {column} TYPE bigint."
        )
