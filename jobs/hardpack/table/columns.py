"""The columns of a topic by role, as the settings map them to a table's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, PrimitiveType, StringType

from hardpack.errors import BadInput
from hardpack.rules.settings import NONE, PREFIX, Settings, read_settings
from hardpack.rules.tombstones import TombstoneRule
from hardpack.table.log_name import SURE_LENGTH, LogName, named_columns
from hardpack.table.schema_columns import LogColumn, column_by_id, existing_column, leaves, separate_names

POLICY = PREFIX + "cleanup.policy"
REQUIRED = ("partition", "offset", "timestamp", "key")
"""Roles that each topic has a column for."""
SENSED = (*REQUIRED, "value")
"""Roles whose columns are looked up in the metadata of data files: null counts and bounds."""
TRANSACTIONS = ("producer_id", "transactional", "control")
"""Roles that describe transactions. They have a meaning only where all three have a column."""
ONE = ("offset", "timestamp", "value", "producer_id", "transactional", "control", "leader_epoch", "batch")
"""Roles that are mapped to a single column; `partition` and `key` may have several."""
OPTIONAL = ("value", "producer_id", "transactional", "control", "leader_epoch", "batch")
"""Roles that a topic may leave without a column."""
NO_LOG = "null"
"""Stands for the log of rows that name no log, as where the partition column is null."""


def table_name(table: Table) -> str:
    """Returns a table's name, `namespace.table`."""
    return ".".join(table.name())


def is_topic(table: Table) -> bool:
    """Returns whether the table was adopted."""
    return POLICY in table.properties


def settings_of(table: Table, policy: Mapping[str, str] = NONE) -> Settings:
    """Returns the settings in force for an adopted table.

    Args:
        table: as pyiceberg loaded it.
        policy: settings of the table's policy; each counts where the table does not set it.

    Raises:
        BadInput: the table was not adopted, or a setting is wrong.
    """
    check_adopted(table)
    return read_settings(table_name(table), table.properties, policy)


def check_adopted(table: Table) -> None:
    """Refuses a table that was not adopted.

    Args:
        table: as pyiceberg loaded it.

    Raises:
        BadInput: the table was not adopted.
    """
    if not is_topic(table):
        name = table_name(table)
        raise BadInput(f"{name}: table property {POLICY} is not set; `hardpack adopt {name}` checks and sets it.")


@dataclass(frozen=True)
class LogColumns:
    """The columns of a topic by role. Each has its name in one schema and its field id, which never changes meaning."""

    log: LogName
    """The columns whose values name a row's log."""
    offset: LogColumn
    timestamp: LogColumn
    keys: tuple[LogColumn, ...]
    """The columns that make up the key, in order."""
    value: LogColumn | None = None
    """The column by which the tombstone rule decides; None where the topic has no tombstones."""
    producer_id: LogColumn | None = None
    transactional: LogColumn | None = None
    control: LogColumn | None = None
    leader_epoch: LogColumn | None = None
    batch: LogColumn | None = None
    tombstone: TombstoneRule = field(default_factory=TombstoneRule)
    """What makes a row a tombstone."""
    empty_key_is_absent: bool = False
    """Whether a row with an empty key counts as a row without a key."""
    ignored: tuple[str, ...] = ()
    """Names of columns in which rows of one offset may differ."""

    @classmethod
    def of(cls, schema: Schema, settings: Settings, roles: Collection[str] = (*REQUIRED, *OPTIONAL)) -> LogColumns:
        """Returns the columns of a schema to which the settings map roles.

        Args:
            schema: the table's.
            settings: the table's.
            roles: which to look up, besides `partition` and `key`; the columns of other roles may be missing.

        Raises:
            ValueError: the schema lacks one of these columns.
        """
        mapped = mapped_columns(settings)
        return cls(
            **{role: existing_column(schema, name) for role, name in mapped.items() if role in roles and role in ONE},
            log=named_columns(schema, mapped["partition"]),
            keys=key_columns(schema, mapped["key"]),
            tombstone=settings.tombstone_rule,
            empty_key_is_absent=settings.key_absent == "empty",
            ignored=tuple(settings.duplicates_ignore),
        )

    @property
    def by_role(self) -> dict[str, LogColumn]:
        """The mapped columns; further columns of a key have the roles `key 2`, `key 3` …, of a log `partition 2`."""
        several = {"partition": self.log.columns, "key": self.keys}
        named = {role: several[role][0] if role in several else getattr(self, role) for role in (*REQUIRED, *OPTIONAL)}
        mapped = {role: column for role, column in named.items() if column is not None}
        return mapped | {f"{role} {at}": c for role, columns in several.items() for at, c in enumerate(columns[1:], 2)}

    @property
    def plain_key(self) -> LogColumn | None:
        """The key's column where the key is a single column of text or bytes; None where it is any other."""
        first, *others = self.keys
        return first if not others and isinstance(first.field_type, StringType | BinaryType) else None

    @property
    def transactions(self) -> bool:
        """Whether the topic has the columns that describe transactions."""
        return self.control is not None

    def tombstones(self, rows: int, nulls: int | None, low: bytes | None, high: bytes | None) -> int | None:
        """Returns how many rows of a data file are tombstones, None where its metadata does not tell.

        Args:
            rows: of the file.
            nulls: rows in which the tombstone rule's column is null, None where they are not counted.
            low: lower bound of that column, in Iceberg's single-value serialization; None where there is none.
            high: its upper bound.
        """
        if self.value is None or self.tombstone.kind == "null":
            return self.tombstone.count(rows, nulls, None, None)
        return self.tombstone.count(rows, nulls, _text(self.value, low), _text(self.value, high))

    def under(self, schema: Schema) -> LogColumns:
        """Returns the same columns under the names of another schema; a role whose optional column it lacks has None.

        Args:
            schema: one that has all required columns.
        """
        current = {role: column_by_id(schema, c.field_id) for role, c in self.by_role.items()}
        columns: dict[str, Any] = {role: c for role, c in current.items() if role in ONE}
        columns["keys"] = tuple(c for role, c in current.items() if role.startswith("key") and c)
        columns["log"] = LogName(tuple(c for role, c in current.items() if role.startswith("partition") and c))
        if not all(columns.get(role) for role in TRANSACTIONS):
            columns |= dict.fromkeys(TRANSACTIONS)
        return replace(self, **columns)


def key_columns(schema: Schema, names: str) -> tuple[LogColumn, ...]:
    """Returns the columns that make up the key. A struct among them counts as the fields in it.

    Args:
        schema: the table's.
        names: the value of setting `column.key`: names of columns with commas between.

    Raises:
        ValueError: there is no such column.
    """
    columns = [existing_column(schema, name) for name in separate_names(schema, names)]
    return tuple(leaf for column in columns for leaf in leaves(column))


def _value(column: LogColumn, bound: bytes) -> Any:
    kind = column.field_type
    return from_bytes(kind, bound) if isinstance(kind, PrimitiveType) else None


def _text(column: LogColumn, bound: bytes | None) -> str | bytes | None:
    """Returns a bound as the tombstone rule compares it; None for one that its writer may have truncated."""
    value = None if bound is None else _value(column, bound)
    if isinstance(value, bytes | str):
        return value if len(value) < SURE_LENGTH else None
    return None if value is None else str(value).lower()


def mapped_columns(settings: Settings) -> dict[str, str]:
    """Returns for each mapped role the name of its column, as the setting has it."""
    names = {role: getattr(settings, f"column_{role}") for role in (*REQUIRED, *OPTIONAL)}
    names["value"] = settings.tombstone_column
    return {role: name for role, name in names.items() if name}


def columns_at(table: Table, settings: Settings, snapshot_id: int) -> LogColumns:
    """Returns the mapped columns as they were called in a snapshot's schema.

    An optional column that was added later is null in all of the snapshot's rows, so its role is mapped to nothing. The
    value's column is refused all the same.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
        snapshot_id: the snapshot.

    Raises:
        BadInput: a column was renamed since, or one that is not optional was added; Iceberg cannot filter an older
            snapshot by it.
    """
    snapshot, now = table.snapshot_by_id(snapshot_id), table.schema()
    schema_id = now.schema_id if snapshot is None else snapshot.schema_id
    then = table.schemas().get(now.schema_id if schema_id is None else schema_id, now)
    columns = LogColumns.of(now, settings)
    for role, column in columns.by_role.items():
        before = column_by_id(then, column.field_id)
        named_anew = before is not None and before.path != column.path
        if named_anew or (before is None and (role == "value" or role not in OPTIONAL)):
            raise BadInput(
                f"{table_name(table)}: column {column.name!r}, mapped to the {role}, was added or renamed after "
                f"snapshot {snapshot_id}; it can be cleaned after the next write to the table."
            )
    return columns.under(then)


def by_offset(table: Table, settings: Settings) -> bool:
    """Returns whether the table's sort order sorts the rows of one log by rising offset."""
    schema, order = table.schema(), table.sort_order()
    columns = LogColumns.of(schema, settings)
    if order.is_unsorted or not all(isinstance(f.transform, IdentityTransform) for f in order.fields):
        return False
    *before, last = order.fields
    # a file holds one log, so that sorting by the log's columns first does not change the order in it
    by_log = all(f.source_id in columns.log.field_ids for f in before)
    return by_log and last.source_id == columns.offset.field_id and last.direction == SortDirection.ASC
