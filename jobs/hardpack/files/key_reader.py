"""Keys and offsets of a log's files, read with Arrow and hashed: the rows that the key scan works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from hardpack.files.canonical_keys import IDENTITY, keys_of, nulls_of
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles, ahead_bytes
from hardpack.files.key_filter import KeyFilters, Wanted
from hardpack.files.key_hash import (
    FILE_SHIFT,
    HEAD,
    TOMBSTONE,
    HashedRows,
    hash_function,
    high_half,
    living_mask,
    log_hash,
    longs,
    low_half,
)
from hardpack.files.puffin import bitmap
from hardpack.rules.tombstones import TombstoneRule
from hardpack.table.columns import LogColumns
from hardpack.table.read_ahead import files_ahead
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_HASHED = 100_000
"""Rows that are gathered before their keys are hashed: those of one small file cost more to hand over than to hash."""


@dataclass(frozen=True, slots=True)
class KeyScanFile:
    """One file of a log, and how the log's rules see its rows."""

    number: int
    file: ContentFile
    log: str
    first_dirty: int
    map_end: int
    tail: bool
    """Whether none of the rows that are read can be the last row of its key in the head."""
    skipped: bytes = b""
    """Bitmap of rows that are not read, as they are not in the log: deleted, aborted or, at their offset, repeated."""
    tombstones: bool = False
    """Whether to find out which of the file's rows are tombstones, for which the value is read."""
    hidden: bool = False
    """Whether only rows are read that were deleted before. They count as older than every other row of their key."""

    def of_hidden(self, positions: BitMap, number: int) -> KeyScanFile:
        """Returns this file to be read once more, for the rows that were deleted before.

        Args:
            positions: the positions of these rows.
            number: the number that the file goes by when it is read once more.
        """
        others = BitMap(range(self.file.rows)) - positions
        skipped = others.serialize() if others else b""
        return replace(self, number=number, tail=True, skipped=skipped, tombstones=False, hidden=True)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns read, and the salt of the hashes."""

    log: LogColumns
    salt: bytes


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one file that are not hashed yet."""

    keys: pa.Array
    log: tuple[np.uint64, np.uint64]
    """The log's hash, and its salted one."""
    offset: np.ndarray
    place: np.ndarray


def read_keys(
    files: DataFiles,
    columns: KeyColumns,
    some: Iterable[KeyScanFile],
    near: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Iterator[tuple[HashedRows, dict[int, BitMap]]]:
    """Yields the hashed rows before the offset map's end, part by part, and which rows have no key.

    Rows without a key are given as positions by file number. Offsets are all 0 when `near` is given, which is for files
    of the tail, and for rows that were deleted before.

    Args:
        files: reads the table's files.
        columns: what to read.
        some: the files; small ones that follow each other share a part.
        near: returns which rows are wanted at all, by the first halves of their keys' hashes; None for every row.
    """
    waiting: list[_Rows] = []
    keyless: dict[int, BitMap] = {}
    # `near` is for the tail: its rows are known to lie below the first dirty offset, so their offsets are not read
    offset = None if near else columns.log.offset

    def begin(file: KeyScanFile) -> Iterator[pa.RecordBatch]:
        return files.read(file.file, [*columns.log.keys, offset, columns.log.control, _telling(columns, file)])

    for file, batches in files_ahead(some, begin, lambda file: ahead_bytes(file.file)):
        for rows, without in _chosen(columns, file, offset, batches):
            waiting.append(rows)
            if without:
                keyless[file.number] = without | keyless.get(file.number, BitMap())
            if sum(len(r.place) for r in waiting) >= ROWS_HASHED:
                yield _hashed(waiting, columns.salt, near), keyless
                waiting, keyless = [], {}
    if waiting:
        yield _hashed(waiting, columns.salt, near), keyless


def _hashed(rows: Sequence[_Rows], salt: bytes, near: Callable[[np.ndarray], np.ndarray] | None) -> HashedRows:
    import pyarrow as pa

    keys = pa.chunked_array([r.keys for r in rows]).combine_chunks()
    high_of, low_of = (np.repeat(h, [len(r.place) for r in rows]) for h in zip(*(r.log for r in rows), strict=True))
    offset, place = (np.concatenate([getattr(r, n) for r in rows]) for n in ("offset", "place"))
    high = high_half(keys, high_of)
    if near:
        few = near(high)
        keys, low_of = keys.filter(pa.array(few)), low_of[few]
        high, offset, place = high[few], offset[few], place[few]
    return HashedRows(high, low_half(keys, low_of, salt), offset, place)


def _telling(columns: KeyColumns, file: KeyScanFile) -> LogColumn | None:
    """Returns the column that tells which rows are tombstones, None where the file is not asked for them."""
    return columns.log.value if file.tombstones else None


def _chosen(
    columns: KeyColumns, file: KeyScanFile, offset: LogColumn | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[_Rows, BitMap]]:
    import pyarrow as pa

    readable = living_mask(file.file.rows, file.skipped)
    log = log_hash(file.log), log_hash(file.log, columns.salt)
    at = 0
    names = columns.log
    value = _telling(columns, file)
    for batch in batches:
        keys, without = keys_of(batch, names)
        # rows that were deleted go before all others, so that they supersede none of them
        offsets = longs(batch[offset.name]) if offset and not file.hidden else np.zeros(len(batch), np.int64)
        inside = readable[at : at + len(batch)] & (offsets < file.map_end)
        if names.control:
            inside &= nulls_of(batch[names.control.name])
        positions = np.arange(at, at + len(batch), dtype=np.uint64)
        at += len(batch)
        keyless = bitmap(positions[inside & without])
        place = (np.uint64(file.number) << FILE_SHIFT) | positions
        if not file.hidden:
            place[offsets >= file.first_dirty] |= HEAD
        if value:
            place[deleting(batch[value.name], names.tombstone)] |= TOMBSTONE
        chosen = inside & ~without
        if not chosen.all():
            keys, offsets, place = keys.filter(pa.array(chosen)), offsets[chosen], place[chosen]
        yield _Rows(keys.cast(pa.binary()), log, offsets.astype(np.uint64), place), keyless


def key_filters(files: DataFiles, columns: LogColumns, min_rows: int, makes: bool) -> KeyFilters:
    """Returns the key filters of a table's files.

    Args:
        files: reads the table's files.
        columns: the table's.
        min_rows: files of fewer rows have no filter.
        makes: whether files without a filter get one.
    """
    # a filter leaves control rows out, so it depends on the column that tells them
    control = columns.control.name if columns.control else None
    numbers = "+".join(str(column.field_id) for column in columns.keys)
    encoding = "" if columns.plain_key else f" {IDENTITY}"
    identity = f"{hash_function()} {numbers} {control} {columns.empty_key_is_absent}{encoding}"
    return KeyFilters(files.io, files.location, identity, min_rows, makes)


def one_key(columns: LogColumns, values: Mapping[LogColumn, pa.Scalar], log: str) -> Wanted:
    """Returns one key of a log in the form in which key filters are asked for it.

    Args:
        columns: the table's.
        values: the key's value in each of its columns.
        log: the text of its partition.
    """
    import pyarrow as pa

    row = [pa.array([values[column].as_py()], values[column].type) for column in columns.keys]
    keys, _ = keys_of(pa.RecordBatch.from_arrays(row, [column.name for column in columns.keys]), columns)
    return Wanted(high_half(keys.cast(pa.binary()), log_hash(log)))


def deleting(column: pa.Array, rule: TombstoneRule) -> np.ndarray:
    """Returns which rows are tombstones.

    Args:
        column: the values of the column that the rule looks at.
        rule: the table's.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if rule.kind == "null":
        return nulls_of(column)
    if rule.kind == "empty":
        deletes = pc.equal(pc.binary_length(column), 0)
    else:
        deletes = pc.is_in(column.cast(pa.string()), pa.array(rule.values, pa.string()))
    return np.asarray(pc.fill_null(deletes, False))
