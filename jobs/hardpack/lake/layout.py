"""Is this table a topic? Its settings, and the checks of its columns and partitioning."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from hardpack.errors import BadInput
from hardpack.log.settings import NONE, PREFIX, Settings, dotted, read_settings

POLICY = PREFIX + "cleanup.policy"
FIELDS = PREFIX + "fields"
"""Property that binds each role to the field id of its column, since a name may come to mean another."""

OPTIONAL = ("producer_id", "transactional", "control", "leader_epoch", "batch")
"""Roles that a column may be mapped to but need not."""

EXPECTED: dict[str, tuple[type[PrimitiveType], ...]] = {
    "partition": (IntegerType, LongType, StringType),
    "offset": (LongType, IntegerType),
    "timestamp": (TimestampType, TimestamptzType, LongType),
    "key": (BinaryType, StringType),
    "producer_id": (LongType, IntegerType),
    "transactional": (BooleanType,),
    "control": (StringType, IntegerType, LongType),
    "leader_epoch": (IntegerType, LongType),
    "batch": (LongType, IntegerType),
}


def table_name(table: Table) -> str:
    """`namespace.table`."""
    return ".".join(table.name())


def is_topic(table: Table) -> bool:
    """Whether the table was adopted."""
    return POLICY in table.properties


def settings_of(table: Table, policy: Mapping[str, str] = NONE) -> Settings:
    """The settings in force, of a table that was adopted.

    Args:
        table: as pyiceberg loaded it.
        policy: what its policy sets, where the table does not.

    Raises:
        BadInput: not adopted, or a wrong setting.
    """
    name = table_name(table)
    if POLICY not in table.properties:
        raise BadInput(f"{name}: table property {POLICY} is not set; `hardpack adopt {name}` checks and sets it.")
    return read_settings(name, table.properties, policy)


def check_layout(table: Table, settings: Settings, anew: Collection[str] = ()) -> None:
    """See that the mapped columns exist with usable types and that the table is partitioned by the log.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
        anew: roles whose columns need not be those that were bound when the table was adopted.

    Raises:
        BadInput: naming the first thing that is wrong.
    """
    name = table_name(table)
    _check_format(table)
    fields = {f.name: f for f in table.schema().fields}
    for role, column in mapped_columns(settings).items():
        _check_column(name, role, column, fields)
    _check_bound(table, settings, anew)
    for column in settings.duplicates_ignore:
        if column not in fields or column in mapped_columns(settings).values():
            raise BadInput(
                f"{name}: duplicates.ignore names {column!r}, expected a column of the table that is mapped to nothing;"
                f" mend it with `hardpack adopt {name} --set duplicates.ignore=NAME`."
            )
    source, spec = fields[settings.column_partition].field_id, table.spec()
    # files of an earlier spec are looked at when they are met; one that no file uses does no harm
    if not any(f.source_id == source and isinstance(f.transform, IdentityTransform) for f in spec.fields):
        raise BadInput(
            f"{name}: the table is not partitioned by identity of column {settings.column_partition!r}, which "
            f"separates its logs; add it with ALTER TABLE … ADD PARTITION FIELD {settings.column_partition} and "
            "rewrite the older files."
        )


def _check_format(table: Table) -> None:
    if table.metadata.format_version < 2:
        raise BadInput(
            f"{table_name(table)}: the table has format version 1, which does not tell when rows came, expected 2 or 3;"
            " ALTER TABLE … SET TBLPROPERTIES ('format-version'='2') upgrades it in place."
        )


def bound_fields(table: Table, settings: Settings) -> str:
    """What table property `hardpack.fields` holds: by role the field id of its column, in the order of roles."""
    schema = table.schema()
    return ",".join(f"{role}={schema.find_field(c).field_id}" for role, c in mapped_columns(settings).items())


def _check_bound(table: Table, settings: Settings, anew: Collection[str]) -> None:
    """See that the roles' columns are those that they were mapped to, whatever these are called now."""
    if not (bound := table.properties.get(FIELDS)):
        return
    name, schema = table_name(table), table.schema()
    now = dict(entry.split("=") for entry in bound_fields(table, settings).split(","))
    for role, _, number in (entry.partition("=") for entry in bound.split(",")):
        if role not in now or now[role] == number or role in anew:
            continue
        column = mapped_columns(settings)[role]
        before = schema.find_column_name(int(number)) if number.isdigit() else None
        gone = f"now called {before!r}" if before else "gone"
        raise BadInput(
            f"{name}: column {column!r} is not the one that was mapped to the {role} when the table was adopted, which "
            f"is {gone}; `hardpack adopt {name} --set column.{dotted(role)}=NAME` binds the role anew."
        )


def mapped_columns(settings: Settings) -> dict[str, str]:
    """Column by role, of the roles that are mapped."""
    columns = dict(zip(("partition", "offset", "timestamp", "key", "value"), settings.columns, strict=True))
    optional = {role: getattr(settings, f"column_{role}") for role in OPTIONAL}
    return columns | {role: column for role, column in optional.items() if column}


def columns_at(table: Table, settings: Settings, snapshot_id: int) -> Settings:
    """The settings with the names that the mapped columns had in a snapshot's schema.

    An optional column that was added later is null in all of the snapshot's rows, so its role is left out.

    Raises:
        BadInput: a column was renamed since; Iceberg cannot filter an older snapshot by it.
    """
    snapshot = table.snapshot_by_id(snapshot_id)
    schema_id = table.schema().schema_id if snapshot is None else snapshot.schema_id
    then = table.schemas().get(table.schema().schema_id if schema_id is None else schema_id, table.schema())
    names = {role: then.find_column_name(table.schema().find_field(c).field_id)
             for role, c in mapped_columns(settings).items()}  # fmt: skip
    for role, column in mapped_columns(settings).items():
        if names[role] != column and (names[role] is not None or role not in OPTIONAL):
            raise BadInput(
                f"{table_name(table)}: column {column!r}, mapped to the {role}, was added or renamed after snapshot "
                f"{snapshot_id}; it can be cleaned after the next write to the table."
            )
    if not all(names.get(role) for role in ("producer_id", "transactional", "control")):
        names |= dict.fromkeys(("producer_id", "transactional", "control"))
    return settings.model_copy(update={f"column_{role}": name for role, name in names.items()})


def _check_column(table: str, role: str, column: str, fields: dict[str, NestedField]) -> None:
    field = fields.get(column)
    if field is None:
        raise BadInput(
            f"{table}: there is no column {column!r} for the {role}, its columns are {', '.join(fields)}; "
            f"map it with `hardpack adopt {table} --set column.{dotted(role)}=NAME`."
        )
    kinds = EXPECTED.get(role)
    if kinds and not isinstance(field.field_type, kinds):
        wish = " or ".join(str(kind()) for kind in kinds)
        raise BadInput(
            f"{table}: column {column!r}, mapped to the {role}, is {field.field_type}, expected {wish}; "
            f"map another with `hardpack adopt {table} --set column.{dotted(role)}=NAME`."
        )
    if role == "offset" and isinstance(field.field_type, IntegerType):
        raise BadInput(
            f"{table}: column {column!r}, mapped to the offset, is int, expected long; "
            f"widen it with ALTER TABLE … ALTER COLUMN {column} TYPE bigint."
        )
