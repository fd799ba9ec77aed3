"""Null counts and bounds of columns from Parquet footers, where a manifest has none. Each footer is read once.

A manifest has no bounds of nested columns that pyiceberg wrote, of columns past the hundredth, and of files that some
sinks wrote. What footers told is kept beside the table, in a file for each such manifest. That file may be lost or
damaged at any time: the footers are then read again. What a manifest has is believed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import BinaryType, IntegerType, LongType, StringType, TimestampType, TimestamptzType

from hardpack.errors import BadInput
from hardpack.table.columns import table_name
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

log = logging.getLogger(__name__)

ColumnFacts = tuple[int | None, bytes | None, bytes | None]
"""A column's null count, lower and upper bound; bounds in Iceberg's single-value serialization. None where unknown."""
Schemas = list[tuple[Any, list[int | None]]]
"""The Parquet schemas met so far, each with the field ids of its columns. A sink's files have few different ones."""
SILENT: ColumnFacts = (None, None, None)
FOLDER = "metadata/hardpack-footers"
"""Folder under the table's location for what footers told."""
VERSION = 3
FOOTERS_AT_ONCE = 16
"""Footers that are read in parallel; on object storage each takes a request or two."""
MICROS = {"milliseconds": 1000, "microseconds": 1}


def name_mapping(table: Table) -> NameMapping | None:
    """Returns a table's name mapping, by which files without field ids are read; None when it has none.

    Raises:
        BadInput: it cannot be understood.
    """
    try:
        return table.name_mapping()
    except ValueError:
        raise BadInput(
            f"{table_name(table)}: table property {TableProperties.DEFAULT_NAME_MAPPING} is no name mapping, expected "
            "JSON as Iceberg's specification has it; set it anew, or remove it if all files have field ids."
        ) from None


def footers_name(manifest: str) -> str:
    """Returns the name of the file that keeps what the footers of a manifest's data files told.

    Args:
        manifest: its path.
    """
    return f"{hashlib.blake2b(manifest.encode(), digest_size=16).hexdigest()}.footers"


@dataclass(frozen=True)
class Footers:
    """The footers of one table's data files, which are asked for a few columns."""

    io: FileIO
    location: str
    """The table's location."""
    names: NameMapping | None
    columns: tuple[LogColumn, ...]

    def of(self, manifest: str, paths: Iterable[str]) -> dict[str, dict[int, ColumnFacts]]:
        """Returns by path and field id what the footers of data files tell, and keeps it beside the table.

        Files whose footer cannot be read are missing.

        Args:
            manifest: path of the manifest that lists the files.
            paths: of data files.
        """
        wanted = list(paths)
        by_file = self._kept(manifest)
        if missing := [path for path in wanted if path not in by_file]:
            by_file |= {path: columns for path, columns in self.look(missing).items() if columns}
            self._keep(manifest, by_file)
        return {path: by_file[path] for path in wanted if path in by_file}

    def _path(self, manifest: str) -> str:
        return f"{self.location.rstrip('/')}/{FOLDER}/{footers_name(manifest)}"

    @property
    def _identity(self) -> list[Any]:
        names = self.names.model_dump_json() if self.names else ""
        return [VERSION, names, *([column.field_id, str(column.field_type)] for column in self.columns)]

    def _kept(self, manifest: str) -> dict[str, dict[int, ColumnFacts]]:
        try:
            with self.io.new_input(self._path(manifest)).open() as stream:
                stored = json.loads(gzip.decompress(stream.read()))
            if stored["of"] != self._identity or stored["manifest"] != manifest:
                return {}
            return {
                path: {
                    int(number): (nulls, _bytes(low), _bytes(high)) for number, (nulls, low, high) in columns.items()
                }
                for path, columns in stored["files"].items()
            }
        except Exception:  # it is missing, damaged or foreign: the footers are read instead
            return {}

    def _keep(self, manifest: str, by_file: Mapping[str, Mapping[int, ColumnFacts]]) -> None:
        files = {
            path: {number: (nulls, _hex(low), _hex(high)) for number, (nulls, low, high) in columns.items()}
            for path, columns in by_file.items()
        }
        text = json.dumps({"of": self._identity, "manifest": manifest, "files": files})
        try:
            with self.io.new_output(self._path(manifest)).create(overwrite=True) as stream:
                stream.write(gzip.compress(text.encode()))
        except Exception as error:  # whoever only reads the table can do without
            log.info("what footers told is not kept beside %s: %s", self.location, type(error).__name__)

    def look(self, paths: Iterable[str]) -> dict[str, dict[int, ColumnFacts] | None]:
        """Returns by path and field id what the footers of data files tell, without keeping it.

        A file whose footer cannot be read has None.

        Args:
            paths: of data files.
        """
        wanted, schemas = list(paths), Schemas()
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return dict(zip(wanted, pool.map(lambda path: self._read(path, schemas), wanted), strict=True))

    def _read(self, path: str, schemas: Schemas) -> dict[int, ColumnFacts] | None:
        import pyarrow.parquet as pq

        try:
            with self.io.new_input(path).open() as stream:
                footer = pq.read_metadata(stream)
            numbers = self._numbers(footer, schemas)
            places = {number: at for at, number in enumerate(numbers) if number is not None}
            # a column that came into the table later is null in all rows of the file. `places` has primitive columns
            # alone, so that it does not tell whether structs and lists are there
            absent = [c for c in self.columns if places and c.field_type.is_primitive and not c.has_default]
            all_null = {c.field_id: (footer.num_rows, None, None) for c in absent}
            return all_null | {
                c.field_id: _column_facts(footer, places[c.field_id], c) for c in self.columns if c.field_id in places
            }
        except Exception as error:  # a damaged file is reported where its rows are read
            log.info("the footer of %s cannot be read: %s", os.path.basename(path), type(error).__name__)
            return None

    def _numbers(self, footer: pq.FileMetaData, schemas: Schemas) -> list[int | None]:
        """Returns the result of `field_numbers` for a footer's schema, which it keeps in `schemas` for like files."""
        for schema, known_numbers in schemas:
            if schema.equals(footer.schema):
                return known_numbers
        numbers = field_numbers(footer.schema, self.names)
        schemas.append((footer.schema, numbers))
        return numbers


def field_numbers(schema: pq.ParquetSchema, names: NameMapping | None) -> list[int | None]:
    """Returns the field id of each Parquet column; None for one that the table lacks or that is in a list or map.

    Args:
        schema: of a data file.
        names: the table's name mapping, for files without field ids.
    """
    arrow = schema.to_arrow_schema()
    # as Iceberg has it, names count only where no field has an id
    counting = None if has_ids(arrow) else names
    numbers = {".".join(path): _number(path, field, counting) for path, field in _leaves(arrow)}
    return [numbers.get(schema.column(at).path) for at in range(len(schema))]


def has_id(field: pa.Field) -> bool:
    """Returns whether a field of a Parquet file has a field id."""
    return b"PARQUET:field_id" in (field.metadata or {})


def has_ids(fields: Iterable[pa.Field]) -> bool:
    """Returns whether one of the fields, or of the fields nested in them, has a field id (ParquetSchemaUtil.hasIds)."""
    return any(has_id(field) or has_ids(inner_fields(field.type)) for field in fields)


def inner_fields(kind: pa.DataType) -> list[pa.Field]:
    """Returns the fields of a struct, the element of a list, key and value of a map; none of any other type."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return [kind.field(at) for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return [kind.value_field] if any(is_one(kind) for is_one in lists) else []


def _number(path: tuple[str, ...], field: pa.Field, names: NameMapping | None) -> int | None:
    if number := (field.metadata or {}).get(b"PARQUET:field_id"):
        return int(number)
    mapped, number = names.root if names else [], None
    for name in path:
        named = next((entry for entry in mapped if name in entry.names), None)
        # compared with None, because a mapped field without fields of its own counts as false
        mapped, number = ([], None) if named is None else (named.fields, named.field_id)
    return number


def _leaves(fields: Iterable[pa.Field], around: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.Field]]:
    """Yields the columns, and the fields of structs, with their paths; no role lies inside lists and maps."""
    import pyarrow as pa

    for field in fields:
        path = (*around, field.name)
        if pa.types.is_struct(field.type):
            yield from _leaves([field.type.field(at) for at in range(field.type.num_fields)], path)
        else:
            yield path, field


def _column_facts(footer: pq.FileMetaData, at: int, column: LogColumn) -> ColumnFacts:
    """Returns null count and bounds of one column over all row groups; no bounds where one with values lacks them."""
    nulls: int | None = 0
    values: list[Any] = []
    bounded, unit = True, _unit(footer, at)
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(at)
        stats = chunk.statistics
        if stats is None or not stats.has_null_count:
            nulls = None
        elif nulls is not None:
            nulls += stats.null_count
        if stats is not None and stats.has_min_max:
            values += [stats.min_raw, stats.max_raw]
        elif stats is None or not stats.has_null_count or stats.null_count < chunk.num_values:
            bounded = False
    if not bounded or not values or unit is None:
        return nulls, None, None
    return nulls, _single(column, min(values), unit), _single(column, max(values), unit)


def _unit(footer: pq.FileMetaData, at: int) -> int | None:
    """Returns the microseconds in a timestamp column's unit, 1 for other columns; None where bounds are of no use."""
    kind = json.loads(footer.schema.column(at).logical_type.to_json())
    if kind.get("Type") == "Timestamp":
        return MICROS.get(kind["timeUnit"])
    if kind.get("Type") == "Int" and not kind.get("isSigned", True):
        # the statistics' numbers are read as signed ones
        return None
    return None if footer.schema.column(at).physical_type == "INT96" else 1


def _single(column: LogColumn, value: Any, unit: int) -> bytes | None:
    kind = column.field_type
    if isinstance(kind, StringType | BinaryType):
        return value if isinstance(value, bytes) else None
    if isinstance(kind, IntegerType | LongType | TimestampType | TimestamptzType) and isinstance(value, int):
        return to_bytes(kind, value * unit)
    return None


def _hex(bound: bytes | None) -> str | None:
    return None if bound is None else bound.hex()


def _bytes(bound: str | None) -> bytes | None:
    return None if bound is None else bytes.fromhex(bound)
