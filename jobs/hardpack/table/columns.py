"""Is this table a topic? Its settings, and the checks of its columns and partitioning."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection
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
from hardpack.rules.settings import NONE, PREFIX, Settings, dotted, read_settings

POLICY = PREFIX + "cleanup.policy"
FIELDS = PREFIX + "fields"
"""Property that binds each role to the field id of its column, since a name may come to mean another."""

REQUIRED = ("partition", "offset", "timestamp", "key", "value")
"""Roles that each topic has a column for, in the order of `Settings.columns`."""
TRANSACTIONS = ("producer_id", "transactional", "control")
"""Roles without one of which the others tell nothing."""
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
    """Returns a table's name, `namespace.table`."""
    return ".".join(table.name())


def is_topic(table: Table) -> bool:
    """Returns whether the table was adopted."""
    return POLICY in table.properties


def settings_of(table: Table, policy: Mapping[str, str] = NONE) -> Settings:
    """Returns the settings in force, of a table that was adopted.

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
    # files of an earlier spec are looked at when they are met; one that no file uses does no harm
    if LogColumns.of(table.schema(), settings).log_index(table.spec()) is None:
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
    """Returns what table property `hardpack.fields` holds.

    It has the field id of each role's column, in the order of roles.
    """
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


@dataclass(frozen=True)
class LogColumns:
    """The columns of a topic by role: field ids, which never change their meaning, under the names of one schema."""

    partition: NestedField
    offset: NestedField
    timestamp: NestedField
    key: NestedField
    value: NestedField
    producer_id: NestedField | None = None
    transactional: NestedField | None = None
    control: NestedField | None = None
    leader_epoch: NestedField | None = None
    batch: NestedField | None = None
    empty_key_is_absent: bool = False
    """Whether a row with an empty key has none."""
    ignored: tuple[str, ...] = ()
    """Names of columns in which rows of one offset may differ."""

    @classmethod
    def of(cls, schema: Schema, settings: Settings, roles: Collection[str] = (*REQUIRED, *OPTIONAL)) -> LogColumns:
        """Finds the columns that settings map in a schema that has them.

        Args:
            schema: the table's.
            settings: the table's.
            roles: those that are asked for; the columns of others may be gone.
        """
        mapped = mapped_columns(settings).items()
        fields = {role: schema.find_field(name) for role, name in mapped if role in roles}
        return cls(
            **fields, empty_key_is_absent=settings.key_absent == "empty", ignored=tuple(settings.duplicates_ignore)
        )

    @property
    def by_role(self) -> dict[str, NestedField]:
        """The mapped columns."""
        fields = {role: getattr(self, role) for role in (*REQUIRED, *OPTIONAL)}
        return {role: field for role, field in fields.items() if field is not None}

    @property
    def transactions(self) -> bool:
        """Whether rows tell of transactions."""
        return self.control is not None

    def log_index(self, spec: PartitionSpec) -> int | None:
        """Returns which of a file's partition values names its log, None when none does.

        Args:
            spec: the partition spec of the file.
        """
        for at, field in enumerate(spec.fields):
            if field.source_id == self.partition.field_id and isinstance(field.transform, IdentityTransform):
                return at
        return None

    def under(self, schema: Schema) -> LogColumns:
        """Returns the columns as a schema calls them; an optional one that it lacks is mapped to nothing.

        Args:
            schema: one that has all required columns.
        """
        names = {role: schema.find_column_name(field.field_id) for role, field in self.by_role.items()}
        fields: dict[str, Any] = {role: schema.find_field(name) if name else None for role, name in names.items()}
        if not all(fields.get(role) for role in TRANSACTIONS):
            fields |= dict.fromkeys(TRANSACTIONS)
        return replace(self, **fields)


def mapped_columns(settings: Settings) -> dict[str, str]:
    """Returns the column by role, of the roles that are mapped."""
    columns = dict(zip(REQUIRED, settings.columns, strict=True))
    optional = {role: getattr(settings, f"column_{role}") for role in OPTIONAL}
    return columns | {role: column for role, column in optional.items() if column}


def columns_at(table: Table, settings: Settings, snapshot_id: int) -> LogColumns:
    """Returns the mapped columns as they were called in a snapshot's schema.

    An optional column that was added later is null in all of the snapshot's rows, so its role is mapped to nothing.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
        snapshot_id: the snapshot.

    Raises:
        BadInput: a column was renamed since; Iceberg cannot filter an older snapshot by it.
    """
    snapshot, now = table.snapshot_by_id(snapshot_id), table.schema()
    schema_id = now.schema_id if snapshot is None else snapshot.schema_id
    then = table.schemas().get(now.schema_id if schema_id is None else schema_id, now)
    columns = LogColumns.of(now, settings)
    for role, field in columns.by_role.items():
        name = then.find_column_name(field.field_id)
        if name != field.name and (name is not None or role not in OPTIONAL):
            raise BadInput(
                f"{table_name(table)}: column {field.name!r}, mapped to the {role}, was added or renamed after "
                f"snapshot {snapshot_id}; it can be cleaned after the next write to the table."
            )
    return columns.under(then)


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


def by_offset(table: Table, settings: Settings) -> bool:
    """Returns whether rows of one log by rising offset are in the table's sort order."""
    schema, order = table.schema(), table.sort_order()
    columns = LogColumns.of(schema, settings)
    if order.is_unsorted or not all(isinstance(field.transform, IdentityTransform) for field in order.fields):
        return False
    *before, last = order.fields
    # in a file the column of the log has one value
    by_log = all(f.source_id == columns.partition.field_id for f in before)
    return by_log and last.source_id == columns.offset.field_id and last.direction == SortDirection.ASC
