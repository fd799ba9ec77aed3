"""Metrics of written data files: counts and bounds of their columns, taken from the rows while they are written.

Iceberg's engines skip files by these numbers, so bounds contain every value or are absent. The modes are those of
Iceberg's `MetricsConfig`, the numbers those of its `ParquetUtil.fileMetrics`, with four differences:

- NaN values are counted.
- A column has bounds also where Arrow leaves out those of a row group (values over 4,096 bytes).
- UUIDs that Java and Parquet order differently have no bounds.
- The columns that sensing needs always have their metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
    UUIDType,
)

from hardpack.table.columns import LogColumns

if TYPE_CHECKING:
    import pyarrow as pa

NONE, COUNTS, FULL = -1, 0, 2**31 - 1
"""Metrics modes as numbers. A number n between COUNTS and FULL is `truncate(n)`: n characters or bytes of a value."""
DEFAULT_LENGTH = 16
DEFAULT = "write.metadata.metrics.default"
COLUMN = "write.metadata.metrics.column."
MOST_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
TRUNCATE = re.compile(r"truncate\((\d+)\)", re.IGNORECASE | re.ASCII)
HIGHEST, LAST_BEFORE_SURROGATES, FIRST_AFTER_SURROGATES = 0x10FFFF, 0xD7FF, 0xE000
"""Code points: no UTF-8 text holds the surrogates between the last two."""


def metrics_modes(
    schema: Schema, properties: Mapping[str, str], order: SortOrder, least: Mapping[int, int]
) -> dict[int, int]:
    """Returns the metrics mode of each primitive column by field id, as Iceberg's `MetricsConfig.forTable` has it.

    Args:
        schema: the table's.
        properties: the table's.
        order: the table's sort order; its columns get bounds unless a property of their own says otherwise.
        least: by field id, the mode that no property can lower.
    """
    named = properties.get(DEFAULT)
    default, inferred = _parsed(named or "", DEFAULT_LENGTH), set[int]()
    if named is None:
        most = _most_columns(properties)
        if len(_projected(schema.as_struct())) > most:
            default, inferred = NONE, _first_columns(schema, most)
    ordered = {field.source_id for field in order.fields if field.transform.preserves_order}
    modes = {}
    for number in schema.field_ids:
        if not isinstance(schema.find_type(number), PrimitiveType):
            continue
        mode = DEFAULT_LENGTH if number in inferred else default
        if number in ordered:
            mode = default if default > COUNTS else DEFAULT_LENGTH
        own = properties.get(f"{COLUMN}{schema.find_column_name(number)}")
        modes[number] = max(mode if own is None else _parsed(own, default), least.get(number, NONE))
    return modes


def sensed(columns: LogColumns) -> dict[int, int]:
    """Returns by field id the least metrics mode that sensing needs of the topic's columns."""
    modes = {c.field_id: FULL for c in (*columns.log.columns, columns.offset, columns.timestamp)}
    modes |= {c.field_id: COUNTS for c in columns.keys}
    if columns.value:
        modes[columns.value.field_id] = COUNTS if columns.tombstone.kind == "null" else FULL
    return modes


def _parsed(text: str, otherwise: int) -> int:
    """Returns the metrics mode that a text names, `otherwise` when it names none, as Iceberg does."""
    if (mode := {"none": NONE, "counts": COUNTS, "full": FULL}.get(text.lower())) is not None:
        return mode
    truncated = TRUNCATE.fullmatch(text)
    return int(truncated[1]) if truncated and 0 < int(truncated[1]) <= FULL else otherwise


def _most_columns(properties: Mapping[str, str]) -> int:
    most = properties.get(MOST_COLUMNS, "")
    return int(most) if most.isdecimal() else 100


def _children(kind: IcebergType) -> list[tuple[int, IcebergType]]:
    """Returns the field ids and types one level below a nested type, none for a primitive one."""
    if isinstance(kind, StructType):
        return [(field.field_id, field.field_type) for field in kind.fields]
    if isinstance(kind, ListType):
        return [(kind.element_id, kind.element_type)]
    if isinstance(kind, MapType):
        return [(kind.key_id, kind.key_type), (kind.value_id, kind.value_type)]
    return []


def _projected(kind: IcebergType) -> set[int]:
    """Returns the field ids that count towards Iceberg's maximum of columns with default metrics (`GetProjectedIds`).

    Key and value of a map count when the value is primitive.
    """
    children = _children(kind)
    if isinstance(kind, MapType):
        primitive = {number for number, _ in children} if kind.value_type.is_primitive else set()
    else:
        primitive = {number for number, child in children if child.is_primitive}
    return primitive.union(*(_projected(child) for _, child in children))


def _first_columns(schema: Schema, most: int) -> set[int]:
    """Returns the `most` field ids that get metrics in a table of more columns (`MetricsConfig.limitFieldIds`).

    On each level primitive columns come before those inside nested ones.
    """
    chosen: set[int] = set()

    def visit(kind: IcebergType) -> None:
        for number, child in _children(kind):
            if len(chosen) < most and child.is_primitive:
                chosen.add(number)
        for _, child in _children(kind):
            if len(chosen) < most:
                visit(child)

    visit(schema.as_struct())
    return chosen


class ColumnMetrics:
    """The metrics of a data file that is being written."""

    def __init__(self, schema: Schema, modes: Mapping[int, int]) -> None:
        """Begin with no rows.

        Args:
            schema: the table's; batches may have further columns after those of the schema.
            modes: metrics mode by field id.
        """
        self._schema, self._modes = schema, modes
        self._columns: dict[int, _Column] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch to the counts and bounds."""
        self._add_all(self._schema.as_struct(), batch.columns)

    def json(self) -> dict[str, dict[str, list[Any]]]:
        """Returns counts and bounds by the names that Iceberg's JSON of a content file has for them."""
        columns = sorted(self._columns.items())
        counted: dict[str, Callable[[_Column], Any]] = {
            "value-counts": lambda column: column.values,
            "null-value-counts": lambda column: column.nulls,
            "nan-value-counts": lambda column: column.nans,
            "lower-bounds": lambda column: _hex(column.lower()),
            "upper-bounds": lambda column: _hex(column.upper()),
        }
        return {name: pairs({number: of(column) for number, column in columns}) for name, of in counted.items()}

    def _add_all(self, struct: StructType, arrays: list[pa.Array]) -> None:
        for field, array in zip(struct.fields, arrays, strict=False):
            kind = field.field_type
            if isinstance(kind, StructType):
                # `flatten` gives nulls for the fields of a null struct
                self._add_all(kind, array.flatten())
            elif self._modes.get(field.field_id, NONE) > NONE and not isinstance(kind, UnknownType):
                column = self._columns.setdefault(field.field_id, _Column(kind, self._modes[field.field_id]))
                column.add(array)


@dataclass
class _Column:
    kind: IcebergType
    mode: int
    values: int = 0
    nulls: int = 0
    nans: int | None = None
    low: Any = None
    high: Any = None

    def add(self, array: pa.Array) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        self.values += len(array)
        self.nulls += array.null_count
        if isinstance(self.kind, FloatType | DoubleType):
            self.nans = (self.nans or 0) + (pc.sum(pc.is_nan(array)).as_py() or 0)
        if self.mode == COUNTS or isinstance(self.kind, GeometryType | GeographyType):
            return
        if isinstance(self.kind, StringType):
            # compared as bytes, since nothing has checked yet that the values are UTF-8
            array = array.cast(pa.large_binary())
        extremes = pc.min_max(array)
        low, high = _plain(extremes["min"]), _plain(extremes["max"])
        if low is None or low != low:
            # no values, or NaN only
            return
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def lower(self) -> bytes | None:
        return self._bound(self.low, lambda text: text[: self.mode], lambda value: value[: self.mode], -0.0)

    def upper(self) -> bytes | None:
        return self._bound(
            self.high, lambda text: text_above(text, self.mode), lambda value: bytes_above(value, self.mode), 0.0
        )

    def _bound(
        self, value: Any, text: Callable[[str], str | None], binary: Callable[[bytes], bytes | None], zero: float
    ) -> bytes | None:
        if value is None:
            return None
        if isinstance(self.kind, StringType):
            try:
                cut = text(value.decode())
            except UnicodeDecodeError:
                # engines order bytes that are not UTF-8 differently
                return None
            return None if cut is None else cut.encode()
        if isinstance(self.kind, BinaryType):
            return binary(value)
        if isinstance(self.kind, UUIDType) and any((self.low[at] ^ self.high[at]) & 0x80 for at in (0, 8)):
            # Iceberg's Java compares the halves of UUIDs as signed numbers: values between the bounds would lie outside
            return None
        if isinstance(self.kind, FloatType | DoubleType) and value == 0:
            # to Java -0.0 is less than 0.0, to SQL they are equal: both lie within these bounds
            value = zero
        # a column's values are of its kind, which no annotation can express
        return to_bytes(self.kind, value)  # type: ignore[arg-type]


def text_above(value: str, length: int) -> str | None:
    """Returns the least text of at most `length` characters that is not less than the value, None if there is none."""
    if len(value) <= length:
        return value
    for at in range(length - 1, -1, -1):
        point = ord(value[at])
        if point < HIGHEST:
            following = FIRST_AFTER_SURROGATES if point == LAST_BEFORE_SURROGATES else point + 1
            return value[:at] + chr(following)
    return None


def bytes_above(value: bytes, length: int) -> bytes | None:
    """Returns the least byte string up to `length` that is not less than the value, None if there is none."""
    if len(value) <= length:
        return value
    for at in range(length - 1, -1, -1):
        if value[at] < 0xFF:
            return value[:at] + bytes([value[at] + 1])
    return None


def pairs(by_field: Mapping[int, Any]) -> dict[str, list[Any]]:
    """Returns values by field id as Iceberg's JSON writes a map; fields whose value is None are left out."""
    known = {number: value for number, value in by_field.items() if value is not None}
    return {"keys": list(known), "values": list(known.values())}


def _plain(scalar: pa.Scalar) -> Any:
    """Returns a scalar as a Python value; a date or a time becomes the number that Arrow stores for it."""
    return scalar.value if hasattr(scalar, "value") else scalar.as_py()


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex().upper()
