"""Reads a key as people give it: bytes or text for one column, JSON with a value for each of several columns."""

from __future__ import annotations

import base64
import json
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

from hardpack.errors import BadInput
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import LogColumns, table_name
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    import pyarrow as pa


def given_values(table: Table, columns: LogColumns, key: bytes) -> dict[LogColumn, Any]:
    """Returns the value of each key column in a given key: bytes, a whole number, text for all else, or None.

    Args:
        table: for messages.
        columns: the table's.
        key: as the key column has it; UTF-8 where that holds text; JSON by names where the key is several columns or
            of another type.

    Raises:
        BadInput: the key does not fit the columns.
    """
    plain = columns.plain_key
    if plain is None:
        return _of_json(table, columns, key)
    if not isinstance(plain.field_type, StringType):
        return {plain: key}
    try:
        return {plain: key.decode()}
    except UnicodeDecodeError:
        raise BadInput(
            f"{table_name(table)}: the key asked for is no UTF-8, but column {plain.name!r} holds text; "
            "give it as text."
        ) from None


def _of_json(table: Table, columns: LogColumns, key: bytes) -> dict[LogColumn, Any]:
    short = [column.path[-1] for column in columns.keys]
    names = short if len(set(short)) == len(short) else [column.name for column in columns.keys]
    try:
        given = json.loads(key, parse_float=str)
    except (ValueError, RecursionError):
        given = None
    if len(names) == 1 and given is not None and not isinstance(given, dict):
        given = {names[0]: given}
    if not isinstance(given, dict) or sorted(given) != sorted(names):
        wish = json.dumps({name: "…" for name in names}, ensure_ascii=False)
        raise BadInput(
            f"{table_name(table)}: the key asked for does not name the columns of the key, expected JSON as in {wish}; "
            "bytes are given in base64."
        )
    return {column: _value(table, column, given[name]) for name, column in zip(names, columns.keys, strict=True)}


def _value(table: Table, column: LogColumn, value: Any) -> Any:
    """Returns a given value as one of the column's type. An error does not quote the value, as it is part of a key."""
    kind = column.field_type
    if value is None:
        return None
    try:
        if isinstance(kind, BinaryType):
            return base64.b64decode(value, validate=True)
        if isinstance(kind, IntegerType | LongType):
            last = 2**31 - 1 if isinstance(kind, IntegerType) else LONG_MAX
            if type(value) is not int or not -last - 1 <= value <= last:
                raise ValueError
        elif isinstance(kind, DecimalType):
            return _decimal(value, kind)
        elif not isinstance(value, str):
            raise ValueError
        elif isinstance(kind, TimestamptzType):
            # Iceberg does not read `Z` as UTC
            value = f"{value[:-1]}+00:00" if value.endswith("Z") else value
            literal(value).to(kind)
        elif isinstance(kind, StringType):
            value.encode()
        else:
            literal(value).to(kind)
        return value
    except (ValueError, TypeError, ArithmeticError):
        raise BadInput(
            f"{table_name(table)}: the key asked for has no {kind} for {column.name!r}; give numbers as JSON numbers, "
            "bytes in base64, and all else as text, as in 2026-01-31."
        ) from None


def _decimal(value: Any, kind: DecimalType) -> str:
    """Returns a number, given as such or as text, as text with the column's digits behind the point.

    Raises:
        ValueError: it is neither number nor text, or has more digits than the column.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError
    given = Decimal(value)
    exact = given.quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=38))
    if exact != given or len(exact.as_tuple().digits) > kind.precision:
        raise ValueError
    return f"{exact:f}"


def arrow_values(values: dict[LogColumn, Any]) -> dict[LogColumn, pa.Scalar]:
    """Returns the values of a key as Arrow's scalars, to compare columns with.

    Args:
        values: as `given_values` returns them.
    """
    import pyarrow as pa

    def scalar(column: LogColumn, value: Any) -> pa.Scalar:
        kind = column.field_type
        to = schema_to_pyarrow(kind)
        if isinstance(value, str) and not isinstance(kind, StringType) and isinstance(kind, PrimitiveType):
            inner: Any = literal(value).to(kind).value
            if isinstance(kind, UUIDType):
                return pa.scalar(inner if isinstance(inner, bytes) else inner.bytes, pa.binary(16))
            # Iceberg's literals have dates and times as numbers, which Arrow takes
            return pa.scalar(inner, to)
        return pa.scalar(value, to)

    return {column: scalar(column, value) for column, value in values.items()}
