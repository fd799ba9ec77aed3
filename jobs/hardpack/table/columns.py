"""The columns of a topic by role, and the log that a data file belongs to."""

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
"""Roles by which a file is known from its metadata."""
TRANSACTIONS = ("producer_id", "transactional", "control")
"""Roles without one of which the others tell nothing."""
ONE = ("offset", "timestamp", "value", "producer_id", "transactional", "control", "leader_epoch", "batch")
"""Roles of one column."""
OPTIONAL = ("value", "producer_id", "transactional", "control", "leader_epoch", "batch")
"""Roles that a column may be mapped to but need not."""
NO_LOG = "null"
"""Stands for the log of rows that name none."""


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
    check_adopted(table)
    return read_settings(table_name(table), table.properties, policy)


def check_adopted(table: Table) -> None:
    """Refuses a table that nobody has given to hardpack.

    Args:
        table: as pyiceberg loaded it.

    Raises:
        BadInput: not adopted.
    """
    if not is_topic(table):
        name = table_name(table)
        raise BadInput(f"{name}: table property {POLICY} is not set; `hardpack adopt {name}` checks and sets it.")


@dataclass(frozen=True)
class LogColumns:
    """The columns of a topic by role: field ids, which never change their meaning, under the names of one schema."""

    log: LogName
    """What names a row's log."""
    offset: LogColumn
    timestamp: LogColumn
    keys: tuple[LogColumn, ...]
    """The columns that make up the key, in order."""
    value: LogColumn | None = None
    """The one that tells tombstones, None where there are none."""
    producer_id: LogColumn | None = None
    transactional: LogColumn | None = None
    control: LogColumn | None = None
    leader_epoch: LogColumn | None = None
    batch: LogColumn | None = None
    tombstone: TombstoneRule = field(default_factory=TombstoneRule)
    """What makes a row a tombstone."""
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

        Raises:
            ValueError: there is no such column.
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
        """The mapped columns; those after the first of a key, or of a log's name, are roles of their own."""
        several = {"partition": self.log.columns, "key": self.keys}
        named = {role: several[role][0] if role in several else getattr(self, role) for role in (*REQUIRED, *OPTIONAL)}
        mapped = {role: column for role, column in named.items() if column is not None}
        return mapped | {f"{role} {at}": c for role, columns in several.items() for at, c in enumerate(columns[1:], 2)}

    @property
    def plain_key(self) -> LogColumn | None:
        """The one column of text or bytes that the key is; None where it is several or of another type."""
        first, *others = self.keys
        return first if not others and isinstance(first.field_type, StringType | BinaryType) else None

    @property
    def transactions(self) -> bool:
        """Whether rows tell of transactions."""
        return self.control is not None

    def tombstones(self, rows: int, nulls: int | None, low: bytes | None, high: bytes | None) -> int | None:
        """Returns how many rows of a data file are tombstones, None where its metadata does not tell.

        Args:
            rows: of the file.
            nulls: rows in which the column that tells is null, None where they are not counted.
            low: lower bound of that column, as Iceberg writes a single value; None where there is none.
            high: its upper bound.
        """
        if self.value is None or self.tombstone.kind == "null":
            return self.tombstone.count(rows, nulls, None, None)
        return self.tombstone.count(rows, nulls, _text(self.value, low), _text(self.value, high))

    def under(self, schema: Schema) -> LogColumns:
        """Returns the columns as a schema calls them; an optional one that it lacks is mapped to nothing.

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
    """Returns the columns that make up a key: those of some names with commas between, and the fields of structs.

    Args:
        schema: the table's.
        names: as the setting `column.key` has them.

    Raises:
        ValueError: there is no such column.
    """
    columns = [existing_column(schema, name) for name in separate_names(schema, names)]
    return tuple(leaf for column in columns for leaf in leaves(column))


def _value(column: LogColumn, bound: bytes) -> Any:
    kind = column.field_type
    return from_bytes(kind, bound) if isinstance(kind, PrimitiveType) else None


def _text(column: LogColumn, bound: bytes | None) -> str | bytes | None:
    """Returns a bound as the tombstone rule compares it; None for one that may have been cut."""
    value = None if bound is None else _value(column, bound)
    if isinstance(value, bytes | str):
        return value if len(value) < SURE_LENGTH else None
    return None if value is None else str(value).lower()


def mapped_columns(settings: Settings) -> dict[str, str]:
    """Returns the column by role, of the roles that are mapped."""
    names = {role: getattr(settings, f"column_{role}") for role in (*REQUIRED, *OPTIONAL)}
    names["value"] = settings.tombstone_column
    return {role: name for role, name in names.items() if name}


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
    """Returns whether rows of one log by rising offset are in the table's sort order."""
    schema, order = table.schema(), table.sort_order()
    columns = LogColumns.of(schema, settings)
    if order.is_unsorted or not all(isinstance(f.transform, IdentityTransform) for f in order.fields):
        return False
    *before, last = order.fields
    # in a file the column of the log has one value
    by_log = all(f.source_id in columns.log.field_ids for f in before)
    return by_log and last.source_id == columns.offset.field_id and last.direction == SortDirection.ASC
