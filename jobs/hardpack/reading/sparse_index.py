"""A table's sparse index: what footers and page indexes of its data files tell, each read once, and single pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import LongType
from pyroaring import BitMap

from hardpack.errors import BadInput
from hardpack.files.bloom_filter import hashed_bytes, rules_out
from hardpack.files.damage import readable
from hardpack.files.data_files import DataFiles, leaf
from hardpack.files.key_hash import longs
from hardpack.files.page_index import ColumnPages, CountedFile, Footer
from hardpack.files.row_deletes import read_positions_by_file
from hardpack.files.writer import RISING
from hardpack.reading.log_files import LogFile
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import LogColumns
from hardpack.table.footers import field_numbers
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.schema import Schema

T = TypeVar("T")
REMEMBERED = 1_000
"""Most data files whose footer and deleted rows are kept in memory, and most column chunks whose pages are."""
PER_MILLI = {"milliseconds": 1, "microseconds": 1000, "nanoseconds": 1_000_000}
"""How many of each of Parquet's units of time there are in one ms."""
RowRange = tuple[int, int]
"""The number of the first row, and the one after the last."""


@dataclass(frozen=True, slots=True)
class _ParquetFile:
    """What is known of one data file."""

    footer: Footer
    numbers: dict[int, int]
    """By field id, the number of the Parquet column."""
    begins: list[int]
    """Positions at which the row groups begin, and the one at which the last ends."""


@dataclass
class SparseIndex:
    """The sparse index of one table's data files. A row of a file stands at a position, and in a row group."""

    files: DataFiles
    columns: LogColumns
    bytes_read: int = 0
    """Bytes of footers, page indexes and pages that were read."""
    _known: dict[str, _ParquetFile] = field(default_factory=dict)
    _pages: dict[tuple[str, int, int], ColumnPages] = field(default_factory=dict)
    _deletes: dict[str, dict[str, BitMap]] = field(default_factory=dict)
    """Deleted positions by delete file and data file. A delete file may lie on many data files, so none is dropped."""
    _gone: dict[str, BitMap] = field(default_factory=dict)

    def by_pieces(self, file: LogFile, work: Callable[[CountedFile], T]) -> T:
        """Runs work that reads pieces of a file, and returns what the work returns.

        Raises:
            BadInput: the file is gone, damaged or no Parquet file.
            Unavailable: the storage does not answer.
        """
        path = file.content.path

        def once() -> T:
            with self.files.io.new_input(path).open() as stream:
                opened = CountedFile(stream, file.content.bytes)
                try:
                    return work(opened)
                finally:
                    self.bytes_read += opened.given

        self.files.expect_parquet(file.content)
        with readable(f"{self.files.name}: data file {path}", lambda: self.files.read_through(path), once):
            return once()

    def _of(self, file: LogFile) -> _ParquetFile:
        path = file.content.path
        if path not in self._known:
            footer = self.by_pieces(file, Footer)
            field_ids = field_numbers(footer.arrow.schema, self.files.names)
            numbers = {number: at for at, number in enumerate(field_ids) if number is not None}
            if not numbers:
                raise BadInput(
                    f"{self.files.name}: data file {path} has none of the table's columns by field id or "
                    "schema.name-mapping.default; set that property, or have Iceberg write the file anew "
                    "(rewrite_data_files)."
                )
            asked = (self.columns.offset, self.columns.timestamp, *self.columns.log.columns)
            footer.want(numbers[column.field_id] for column in asked if column.field_id in numbers)
            begins = np.cumsum([0, *map(footer.rows, range(footer.arrow.num_row_groups))]).tolist()
            _keep(self._known, path, _ParquetFile(footer, numbers, begins))
        return self._known[path]

    def rows(self, file: LogFile, projected: Schema, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yields some columns of all rows in some row groups, deleted rows too; the footer is not read again.

        Raises:
            BadInput: the file is gone or damaged.
            Unavailable: the storage does not answer.
        """
        footer = self._of(file).footer.arrow
        return self.files.rows(file.content, projected, groups, use_threads=True, footer=footer)

    def row_groups(self, file: LogFile) -> list[int]:
        """Returns the numbers of a file's row groups that have rows."""
        begins = self._of(file).begins
        return [group for group in range(len(begins) - 1) if begins[group] < begins[group + 1]]

    def is_rising(self, file: LogFile) -> bool:
        """Returns whether the file itself says that its rows are by offset."""
        return RISING.encode() in (self._of(file).footer.arrow.metadata or {})

    def positions(self, file: LogFile, group: int) -> RowRange:
        """Returns the position of a row group's first row, and the position after its last one."""
        begins = self._of(file).begins
        return begins[group], begins[group + 1]

    def bounds(self, file: LogFile, group: int, column: LogColumn) -> tuple[Any, Any] | None:
        """Returns least and greatest value of a column in a row group, None where nothing tells them."""
        parquet = self._of(file)
        if (number := parquet.numbers.get(column.field_id)) is None:
            return None
        stats = parquet.footer.arrow.row_group(group).column(number).statistics
        try:
            return (stats.min, stats.max) if stats is not None and stats.has_min_max else None
        except (ValueError, OverflowError):
            # Python cannot represent the value
            return None

    def not_ruled_out(self, file: LogFile, groups: Sequence[int], wanted: Mapping[LogColumn, Any]) -> list[int]:
        """Returns the row groups that may have a row with the wanted values, by their Bloom filters, if they have any.

        Args:
            file: the file of the row groups.
            groups: their numbers.
            wanted: the values, as Python has them.

        Raises:
            BadInput: the file is gone or damaged.
            Unavailable: the storage does not answer.
        """
        asked = {group: list(self._bloom_filters(file, group, wanted)) for group in groups}
        if not any(asked.values()):
            return list(groups)
        return self.by_pieces(
            file, lambda opened: [group for group, own in asked.items() if not any(rules_out(opened, *o) for o in own)]
        )

    def _bloom_filters(self, file: LogFile, group: int, wanted: Mapping[LogColumn, Any]) -> Iterator[tuple[int, bytes]]:
        """Yields of each Bloom filter where it begins in the file, and the bytes of the wanted value that it hashes."""
        parquet = self._of(file)
        for column, value in wanted.items():
            if (number := parquet.numbers.get(column.field_id)) is None:
                continue
            chunk = parquet.footer.arrow.row_group(group).column(number)
            # pyarrow tells where Bloom filters begin from its version 25 on
            start, hashed = getattr(chunk, "bloom_filter_offset", None), hashed_bytes(value, chunk.physical_type)
            if start is not None and hashed is not None:
                yield start, hashed

    def latest(self, file: LogFile, group: int) -> int:
        """Returns the greatest timestamp of a row group, ms; -1 without that column, Long.MAX if nothing tells it."""
        parquet, column = self._of(file), self.columns.timestamp
        if (number := parquet.numbers.get(column.field_id)) is None:
            return -1
        stats = parquet.footer.arrow.row_group(group).column(number).statistics
        raw = stats.max_raw if stats is not None and stats.has_min_max else None
        return LONG_MAX if (millis := self.in_millis(file, raw)) is None else millis

    def pages(self, opened: CountedFile, file: LogFile, group: int, column: LogColumn) -> ColumnPages | None:
        """Returns the pages of a column in a row group, None where the file has no such column."""
        parquet = self._of(file)
        if (number := parquet.numbers.get(column.field_id)) is None:
            return None
        at = file.content.path, group, number
        if at not in self._pages:
            _keep(self._pages, at, ColumnPages(opened, parquet.footer, group, number))
        return self._pages[at]

    def values(self, opened: CountedFile, file: LogFile, group: int, column: LogColumn, rows: RowRange) -> pa.Array:
        """Returns a column's values in some rows of a row group, in Parquet's physical type if the file has it."""
        if (pages := self.pages(opened, file, group, column)) is not None:
            return pages.values(opened, *rows)
        # a column that the file does not have is the same in all rows: a partition value, a default, or null
        first = next(self.files.rows(file.content, self.files.schema.select(column.name), [group]))
        return pa.repeat(leaf(first, column)[0], rows[1] - rows[0])

    def offsets(self, opened: CountedFile, file: LogFile, group: int, rows: RowRange) -> NDArray[np.int64]:
        """Returns the offsets of some rows of a row group, -1 where a row of another log has none."""
        return longs(self.values(opened, file, group, self.columns.offset, rows).fill_null(-1))

    def millis(self, opened: CountedFile, file: LogFile, group: int, rows: RowRange) -> NDArray[np.int64]:
        """Returns the timestamps of some rows of a row group, ms since the epoch, -1 where there is none."""
        times = self.values(opened, file, group, self.columns.timestamp, rows)
        return as_millis(times, self._per_milli(file) or 1)

    def in_millis(self, file: LogFile, raw: Any) -> int | None:
        """Returns a bound of the timestamp column, as Parquet has it, in ms; None where it tells nothing."""
        per = self._per_milli(file)
        return raw // per if isinstance(raw, int) and per else None

    def _per_milli(self, file: LogFile) -> int | None:
        parquet, column = self._of(file), self.columns.timestamp
        if isinstance(column.field_type, LongType):
            return 1
        if (number := parquet.numbers.get(column.field_id)) is None:
            return None
        kind = json.loads(parquet.footer.arrow.schema.column(number).logical_type.to_json())
        return PER_MILLI.get(kind.get("timeUnit", ""))

    def deleted(self, file: LogFile, positions: RowRange) -> NDArray[np.int64]:
        """Returns which rows of a range row-level deletes took, as numbers that count from the first row of the range.

        Raises:
            BadInput: a delete file is gone, damaged or of a format that is not read here.
            Unavailable: the storage does not answer.
        """
        path = file.content.path
        if path not in self._gone:
            _keep(self._gone, path, BitMap.union(BitMap(), *self._named(file)))
        taken = self._gone[path]
        own = taken & BitMap(range(*positions)) if taken else taken
        return np.asarray(own.to_array(), np.int64) - positions[0]

    def _named(self, file: LogFile) -> Iterator[BitMap]:
        """Yields the positions of a file that its delete files name, each of which is read once."""
        for delete in file.deletes:
            if delete.file_path not in self._deletes:
                self._deletes[delete.file_path] = read_positions_by_file(self.files, delete)
            if rows := self._deletes[delete.file_path].get(file.content.path):
                yield rows


K = TypeVar("K")


def _keep(remembered: dict[K, T], at: K, what: T) -> None:
    """Adds an entry, and drops the oldest one if there are `REMEMBERED` already."""
    if len(remembered) >= REMEMBERED:
        remembered.pop(next(iter(remembered)))
    remembered[at] = what


def fulfils(column: pa.Array, wanted: pa.Scalar) -> NDArray[np.bool_]:
    """Returns which values of a column equal the wanted one; a null scalar stands for no value."""
    if not wanted.is_valid:
        return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    # pages hold texts as bytes
    same = column if column.type == wanted.type else column.cast(wanted.type)
    return np.asarray(pc.fill_null(pc.equal(same, wanted), False))


def as_millis(column: pa.Array, per_milli: int = 1) -> NDArray[np.int64]:
    """Returns timestamps in ms since the epoch, -1 where there is none, as Kafka has it.

    Args:
        column: of an Arrow type of times, or of numbers.
        per_milli: how many of these numbers one ms has.
    """
    if pa.types.is_timestamp(column.type):
        column, per_milli = column.cast(pa.timestamp("us", column.type.tz)), 1000
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    return np.where(valid, np.asarray(column.cast(pa.int64()).fill_null(0)) // per_milli, -1)
