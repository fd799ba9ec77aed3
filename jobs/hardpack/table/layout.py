"""Checks that a table fits its settings: the mapped columns are there, have usable types, and are those once bound."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, unquote

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from hardpack.errors import BadInput, some_of
from hardpack.rules.settings import PREFIX, Settings, dotted
from hardpack.table.columns import LogColumns, key_columns, mapped_columns, table_name
from hardpack.table.schema_columns import find_column, separate_names

FIELDS = PREFIX + "fields"
"""Table property that binds each role to the field id of its column, since a name may come to mean another column. It
also holds the rule of tombstones."""
RULE = "tombstone"
"""Stands for the rule of tombstones among the roles in table property `hardpack.fields`."""

EXPECTED: dict[str, tuple[type[PrimitiveType], ...]] = {
    "partition": (IntegerType, LongType, StringType),
    "offset": (LongType, IntegerType),
    "timestamp": (TimestampType, TimestamptzType, LongType),
    "key": (
        BinaryType,
        StringType,
        IntegerType,
        LongType,
        UUIDType,
        DecimalType,
        DateType,
        TimestampType,
        TimestamptzType,
    ),
    "producer_id": (LongType, IntegerType),
    "transactional": (BooleanType,),
    "control": (StringType, IntegerType, LongType),
    "leader_epoch": (IntegerType, LongType),
    "batch": (LongType, IntegerType),
}
TOMBSTONE_TYPES: dict[str, tuple[type[PrimitiveType], ...]] = {
    "equals": (StringType, BooleanType, IntegerType, LongType),
    "empty": (BinaryType, StringType),
}
"""Types that the column of a rule of tombstones may have, by the kind of the rule."""


def check_layout(table: Table, settings: Settings, anew: Collection[str] = ()) -> None:
    """Checks that the mapped columns exist, each with one role and a usable type, and are those that were bound.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
        anew: roles whose columns need not be those that were bound when the table was adopted.

    Raises:
        BadInput: the table does not fit; the message names the first thing that is wrong.
    """
    name = table_name(table)
    _check_format(table)
    schema, mapped = table.schema(), mapped_columns(settings)
    for role, column in mapped.items():
        if role not in ("partition", "key"):
            _check_column(name, role, column, schema)
    _check_log(name, mapped["partition"], schema)
    _check_key(name, mapped["key"], settings, schema)
    _check_apart(name, LogColumns.of(schema, settings))
    if settings.tombstone_rule.kind in TOMBSTONE_TYPES:
        _check_tombstone_column(name, settings, schema)
    _check_bound(table, settings, anew)
    for column in settings.duplicates_ignore:
        roles = [c for c in LogColumns.of(schema, settings).by_role.values() if c.path[0] == column]
        if column not in {f.name for f in schema.fields} or roles:
            raise BadInput(
                f"{name}: duplicates.ignore names {column!r}, expected a column of the table that is mapped to nothing;"
                f" mend it with `hardpack adopt {name} --set duplicates.ignore=NAME`."
            )


def _check_format(table: Table) -> None:
    if table.metadata.format_version < 2:
        raise BadInput(
            f"{table_name(table)}: the table has format version 1, which does not tell when rows came, expected 2 or 3;"
            " ALTER TABLE … SET TBLPROPERTIES ('format-version'='2') upgrades it in place."
        )


def bound_fields(table: Table, settings: Settings) -> str:
    """Returns the text of table property `hardpack.fields` for these settings.

    It has the field id of each role's column, in the order of roles, and then the rule of tombstones.
    """
    columns = LogColumns.of(table.schema(), settings)
    numbers = {role: str(column.field_id) for role, column in columns.by_role.items() if " " not in role}
    numbers["partition"] = "+".join(map(str, columns.log.field_ids))
    numbers["key"] = "+".join(str(column.field_id) for column in columns.keys)
    numbers[RULE] = quote(settings.tombstone, safe="")
    return ",".join(f"{role}={number}" for role, number in numbers.items())


def fields_by_role(bound: str) -> dict[str, str]:
    """Parses the text of table property `hardpack.fields`.

    Returns by role the field id of its column, or several with a plus between. Under `tombstone` is the rule of
    tombstones, quoted as in URLs.

    Args:
        bound: what table property `hardpack.fields` holds.
    """
    return {role: number for role, _, number in (entry.partition("=") for entry in bound.split(","))}


OFFSETS = ("partition", "offset")
"""Roles that say which log a row is in, and where."""
TOMBSTONES = ("value", RULE)
"""Entries of table property `hardpack.fields` that say which rows are tombstones."""


def mean_other_rows(before: str, after: str, roles: Collection[str] = (*OFFSETS, "key")) -> bool:
    """Returns whether one of some roles is bound to another field than before.

    A role that is missing before or after counts as unchanged.

    Args:
        before: what table property `hardpack.fields` held; empty where that is not known any more.
        after: what it holds now.
        roles: which to compare; by default those that say what a log, its order and its keys are.
    """
    old, new = fields_by_role(before), fields_by_role(after)
    return any(old.get(role) not in (None, new.get(role)) for role in roles if role in new)


def _check_bound(table: Table, settings: Settings, anew: Collection[str]) -> None:
    """Checks that each role's column is the one bound when the table was adopted, whatever its name is now."""
    if not (bound := table.properties.get(FIELDS)):
        return
    name, schema = table_name(table), table.schema()
    now = fields_by_role(bound_fields(table, settings))
    for role, number in fields_by_role(bound).items():
        if role not in now or now[role] == number or role in anew:
            continue
        if role == RULE:
            raise BadInput(
                f"{name}: its tombstones go by {settings.tombstone!r}, expected {unquote(number)!r} as when it was "
                f"adopted; set it back, or `hardpack adopt {name}` takes it and gives tombstones a new horizon."
            )
        column = mapped_columns(settings)[role]
        before = schema.find_column_name(int(number)) if number.isdigit() else None
        gone = f"now called {before!r}" if before else "made of other fields now" if "+" in number else "gone"
        raise BadInput(
            f"{name}: column {column!r} is not the one that was mapped to the {role} when the table was adopted, which "
            f"is {gone}; `hardpack adopt {name} --set column.{dotted(role)}=NAME` binds the role anew."
        )


def _check_column(table: str, role: str, name: str, schema: Schema) -> None:
    column = find_column(schema, name)
    anew = f"`hardpack adopt {table} --set {_setting(role)}`"
    if column is None and (around := _list_or_map_around(schema, name)):
        raise BadInput(
            f"{table}: {name!r}, mapped to the {role}, lies in {around!r}, of which a row has any number, expected a "
            f"column or a field of structs; map another with {anew}."
        )
    if column is None:
        raise BadInput(
            f"{table}: there is no column {name!r} for the {role}, its columns are {some_of(_named(schema), name)}; "
            f"map it with {anew}."
        )
    kinds = EXPECTED.get(role)
    if kinds and not isinstance(column.field_type, kinds):
        raise BadInput(
            f"{table}: column {name!r}, mapped to the {role}, is {column.field_type}, expected {_wish(kinds)}; "
            f"map another with {anew}."
        )
    if role == "offset" and isinstance(column.field_type, IntegerType):
        raise BadInput(
            f"{table}: column {name!r}, mapped to the offset, is int, expected long; "
            f"widen it with ALTER TABLE … ALTER COLUMN {name} TYPE bigint."
        )


def _setting(role: str) -> str:
    """Returns the options that map a role anew, for an error; a topic without a value's column needs another rule."""
    by_value = "column.value=NAME` or, where no column is the value, `--set tombstone=none"
    return by_value if role == "value" else f"column.{dotted(role)}=NAME"


def _wish(kinds: tuple[type[PrimitiveType], ...]) -> str:
    # pyiceberg makes no decimal type without digits, which could give its name
    return " or ".join("decimal" if kind is DecimalType else str(kind()) for kind in kinds)


def _named(schema: Schema) -> list[str]:
    """Returns the names of the columns of primitive types, and of such fields of structs."""
    columns = [schema.find_column_name(number) or "" for number in schema.field_ids]
    return [name for name in columns if (column := find_column(schema, name)) and column.field_type.is_primitive]


def _list_or_map_around(schema: Schema, name: str) -> str | None:
    """Returns the list or map that a path leads through, None when it leads through none."""
    parts = name.split(".")
    starts = (find_column(schema, ".".join(parts[:end])) for end in range(1, len(parts)))
    return next((c.name for c in starts if c and isinstance(c.field_type, ListType | MapType)), None)


def _check_apart(table: str, columns: LogColumns) -> None:
    """Checks that no column has two roles or stands in the key twice."""
    roles: dict[int, str] = {}
    for role, column in columns.by_role.items():
        if (other := roles.setdefault(column.field_id, role)) != role:
            raise BadInput(
                f"{table}: column {column.name!r} is mapped to the {other} and to the {role}, expected a column for "
                f"each; map another with `hardpack adopt {table} --set {_setting(role.partition(' ')[0])}`."
            )


def _check_log(table: str, names: str, schema: Schema) -> None:
    """Checks that a log is named by one column, or by two: a text with the topic and a number with its partition."""
    parts = separate_names(schema, names)
    for name in parts:
        _check_column(table, "partition", name, schema)
    if len(parts) == 1:
        return
    kinds = [type(column.field_type) for name in parts if (column := find_column(schema, name))]
    if len(kinds) != 2 or kinds[0] is not StringType or kinds[1] is StringType:
        raise BadInput(
            f"{table}: column.partition={names} names a log by {', '.join(str(kind()) for kind in kinds)}, expected "
            "one column, or a text with the topic and a number with its partition; mend it with "
            f"`hardpack adopt {table} --set column.partition=TOPIC,PARTITION`."
        )


def _check_key(table: str, names: str, settings: Settings, schema: Schema) -> None:
    """Checks that the key's columns have types whose values are equal, or not, in the same way in every engine."""
    for name in separate_names(schema, names):
        column = find_column(schema, name)
        if not column or not isinstance(column.field_type, StructType):
            _check_column(table, "key", name, schema)
    columns = key_columns(schema, names)
    if wrong := next((c for c in columns if not isinstance(c.field_type, EXPECTED["key"])), None):
        raise BadInput(
            f"{table}: column {wrong.name!r}, mapped to the key, is {wrong.field_type}, expected "
            f"{_wish(EXPECTED['key'])}; map another with `hardpack adopt {table} --set column.key=NAME[,NAME]`."
        )
    if settings.key_absent == "empty" and LogColumns.of(schema, settings).plain_key is None:
        raise BadInput(
            f"{table}: key.absent=empty needs a key of one column of text or bytes, which column.key={names} is not; "
            f"`hardpack adopt {table} --set key.absent=null` takes a row for keyless whose key columns are all null."
        )


def _check_tombstone_column(table: str, settings: Settings, schema: Schema) -> None:
    """Checks that the rule of tombstones fits the type of its column: values have one text, or can be empty."""
    rule, column = settings.tombstone_rule, find_column(schema, settings.tombstone_column or "")
    if column is None:
        return
    kind, mend = column.field_type, f"`hardpack adopt {table} --set tombstone=RULE`"
    if not isinstance(kind, TOMBSTONE_TYPES[rule.kind]):
        raise BadInput(
            f"{table}: tombstone={rule.text} asks column {column.name!r}, which is {kind}, expected "
            f"{_wish(TOMBSTONE_TYPES[rule.kind])}; name another with {mend}."
        )
    if wrong := [value for value in rule.values if not _may_be(value, kind)]:
        wish = "true or false" if isinstance(kind, BooleanType) else "a whole number"
        raise BadInput(
            f"{table}: tombstone={rule.text} asks column {column.name!r} for {wrong[0]!r}, which no {kind} is, "
            f"expected {wish}; mend it with {mend}."
        )


def _may_be(value: str, kind: IcebergType) -> bool:
    """Returns whether a value of a column's type can have this text."""
    if isinstance(kind, BooleanType):
        return value in ("true", "false")
    if isinstance(kind, IntegerType | LongType):
        return value.lstrip("-").isdecimal() and str(int(value)) == value
    return True
