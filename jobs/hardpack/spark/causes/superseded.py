"""The key scan: reads keys and offsets of the files that matter, hashes them, and finds dead positions key by key.

The head's rows are brought together by key in a shuffle of byte blobs. Then the tail's files are compared with the
head's keys. No row crosses into the JVM. Unless tombstones are told, a row that a later one of its own task supersedes
is settled there and never moves, so that a hot key costs no more than others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap

from hardpack.files.data_files import DataFiles
from hardpack.files.key_filter import KeyFilters
from hardpack.files.key_hash import HEAD, HashedRows, HeadKeys, by_file, rising, superseded
from hardpack.files.key_reader import KeyColumns, KeyScanFile, read_keys
from hardpack.rules.grouping import in_packs
from hardpack.spark.nearby import keep_to_one_core, runs_here
from hardpack.spark.progress import Progress
from hardpack.table.read_ahead import AHEAD_FILES, files_ahead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READING, LOOKING = "reading keys", "looking for them in clean files"
ROWS_PER_TASK = 2_000_000
ROWS_PER_BUCKET = 2_000_000
FEW_KEYS = 16_000_000
"""Rows of a head whose keys every task may hold, some 30 bytes each; of a larger one the tail's rows move as well."""

Piece = tuple[tuple[int, str], bytes]
"""File number, name of a field of `KeyScanResult`, and a bitmap of positions."""


@dataclass(frozen=True, slots=True)
class KeyScanResult:
    """Positions of one file: superseded rows, those of them whose key ends with a tombstone, and rows without a key."""

    superseded: BitMap = field(default_factory=BitMap)
    key_deleted: BitMap = field(default_factory=BitMap)
    keyless: BitMap = field(default_factory=BitMap)


def find_superseded(
    spark: SparkSession, files: DataFiles, scanned: Sequence[KeyScanFile], columns: KeyColumns, filters: KeyFilters
) -> dict[str, KeyScanResult]:
    """Returns by file path the positions of superseded rows and of rows without a key.

    Args:
        spark: the session.
        files: reads the table's files.
        scanned: the files with rows before their offset map's end, by log and offset; their numbers count up.
        columns: what to read.
        filters: the key filters of clean files, which are used and made.
    """
    head, tail = [k for k in scanned if not k.tail], [k for k in scanned if k.tail]
    few = bool(tail) and _rows(head) <= FEW_KEYS
    in_driver = runs_here(map(_moved, scanned))
    pieces = _meet_keys(spark.sparkContext, files, columns, head if few else scanned, few, in_driver)
    dead = [piece for piece in pieces if piece[0][0] >= 0]
    if few:
        keys = HeadKeys.merged([piece for (number, _), piece in pieces if number < 0])
        del pieces
        dead += _scan_tail(spark.sparkContext, files, columns, filters, tail, keys, in_driver)
    out: dict[str, KeyScanResult] = {}
    paths = {k.number: k.file.path for k in scanned}
    for (number, kind), positions in dead:
        getattr(out.setdefault(paths[number], KeyScanResult()), kind).update(BitMap.deserialize(positions))
    return out


def _moved(file: KeyScanFile) -> tuple[int, int]:
    return file.file.rows, file.file.bytes


def _meet_keys(
    sc: Any, files: DataFiles, columns: KeyColumns, scanned: Sequence[KeyScanFile], few: bool, in_driver: bool
) -> list[Piece]:
    """Brings all rows of a key together and returns the dead positions.

    With `few` the head's distinct keys are returned too, under negative numbers in the place of file numbers.
    """
    if not scanned:
        return []
    buckets = max(1, min(-(-_rows(scanned) // ROWS_PER_BUCKET), 65_536))
    # where tombstones are told, rows meet unsettled: another task may have the tombstone that deletes their key
    settle = not any(k.tombstones for k in scanned)
    if in_driver:
        progress = _progress(None, files, READING, scanned)
        return progress.of(lambda: list(_meet(_send(files, columns, scanned, 1, settle), few)))
    progress = _progress(sc, files, READING, scanned)
    sent = _parallel(sc, scanned, files.threads).flatMap(
        lambda task: _counted(progress, task, _send(files, columns, task, buckets, settle))
    )
    met = sent.partitionBy(buckets, lambda bucket: bucket).mapPartitions(lambda rows: _meet(rows, few))
    with progress.logged():
        pieces: list[Piece] = met.reduceByKey(_or, min(buckets, 200)).collect()
    return pieces


def _scan_tail(
    sc: Any,
    files: DataFiles,
    columns: KeyColumns,
    filters: KeyFilters,
    tail: Sequence[KeyScanFile],
    keys: HeadKeys,
    in_driver: bool,
) -> list[Piece]:
    """Returns what the head's keys supersede in the tail. Every task holds these keys, so no row of the tail moves."""
    if in_driver:
        return _progress(None, files, LOOKING, tail).of(lambda: list(_probe(files, columns, filters, tail, keys)))
    held = sc.broadcast(keys)
    progress = _progress(sc, files, LOOKING, tail)
    probed = _parallel(sc, tail, files.threads).flatMap(
        lambda task: _counted(progress, task, _probe(files, columns, filters, task, held.value))
    )
    try:
        with progress.logged():
            dead: list[Piece] = probed.collect()
    finally:
        held.destroy()
    return dead


def _progress(sc: Any, files: DataFiles, what: str, scanned: Sequence[KeyScanFile]) -> Progress:
    return Progress(sc, f"{files.name}: {what}", len(scanned), sum(k.file.bytes for k in scanned))


def _counted(progress: Progress, task: Sequence[KeyScanFile], pieces: Iterator[Any]) -> Iterator[Any]:
    keep_to_one_core()
    yield from pieces
    progress.did(len(task), sum(k.file.bytes for k in task))


def _rows(scanned: Iterable[KeyScanFile]) -> int:
    return sum(k.file.rows for k in scanned)


def _parallel(sc: Any, scanned: Sequence[KeyScanFile], threads: int) -> Any:
    tasks = in_packs(scanned, lambda file: file.file.rows, ROWS_PER_TASK)
    return sc.parallelize(tasks, min(len(tasks), threads))


def _send(
    files: DataFiles, columns: KeyColumns, task: Sequence[KeyScanFile], buckets: int, settle: bool
) -> Iterator[tuple[int, bytes | Piece]]:
    """Yields by bucket the rows that a row of another task may supersede, and the positions that are settled."""
    parts: list[HashedRows] = []
    keyless: dict[int, BitMap] = defaultdict(BitMap)
    for rows, without in read_keys(files, columns, task):
        for number, positions in without.items():
            keyless[number].update(positions)
        parts.append(rows)
        # a file with far more rows than others is sent part by part
        if sum(map(len, parts)) >= ROWS_PER_TASK:
            yield from _scattered(parts, buckets, settle)
            parts = []
    yield from ((number % buckets, ((number, "keyless"), rows.serialize())) for number, rows in keyless.items())
    yield from _scattered(parts, buckets, settle)


def _scattered(parts: Sequence[HashedRows], buckets: int, settle: bool) -> Iterator[tuple[int, bytes | Piece]]:
    """Yields the positions that are settled among these rows, and by bucket the rows that are not."""
    rows = rising(HashedRows.concat(parts))
    left = np.arange(len(rows))
    if settle:
        settled, _ = superseded(rows)
        yield from ((piece[0][0] % buckets, piece) for piece in _pieces("superseded", rows.place[settled]))
        left = np.flatnonzero(~settled)
    # buckets are made of the salted half, so that nobody can choose keys that all fall into one
    bucket = (rows.low[left] % np.uint64(buckets)).astype(np.uint16)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for number in range(buckets):
        own = left[order[ends[number] : ends[number + 1]]]
        if len(own):
            yield number, rows.where(own).to_bytes()


def _meet(sent: Iterable[tuple[int, Any]], few: bool) -> Iterator[Piece]:
    blobs: list[HashedRows] = []
    own = 0
    for bucket, piece in sent:
        if isinstance(piece, bytes):
            own = bucket
            blobs.append(HashedRows.from_bytes(piece))
        else:
            yield piece
    if blobs:
        blobs.sort(key=lambda rows: int(rows.offset[0]))
        rows = rising(HashedRows.concat(blobs))
        dead, key_deleted = superseded(rows)
        yield from _pieces("superseded", rows.place[dead])
        yield from _pieces("key_deleted", rows.place[key_deleted])
        if few:
            yield (-1 - own, "superseded"), HeadKeys.of(rows.where(~dead & ((rows.place & HEAD) != 0))).to_bytes()


def _probe(
    files: DataFiles, columns: KeyColumns, filters: KeyFilters, task: Sequence[KeyScanFile], keys: HeadKeys
) -> Iterator[Piece]:
    small = [file for file in task if file.file.rows < filters.min_rows]
    large = [file for file in task if file.file.rows >= filters.min_rows]
    with ThreadPoolExecutor(AHEAD_FILES) as pool:

        def begin(file: KeyScanFile) -> Future[np.ndarray | None]:
            return pool.submit(filters.read, file.file, file.log)

        for file, reading in files_ahead(large, begin, lambda file: file.file.rows * 8):
            filter_hashes = reading.result()
            if filter_hashes is not None and not keys.wanted.any_in(filter_hashes):
                continue
            # else the filter stays in memory while the file is read
            del filter_hashes, reading
            dead, hashes = _held_against(files, columns, [file], keys)
            # a file with a row to drop gets no filter: it is about to be rewritten, and a filter speaks of all rows
            if not (file.skipped or dead):
                filters.keep(file.file, file.log, hashes)
            yield from _pieces_of(dead)
    yield from _pieces_of(_held_against(files, columns, small, keys)[0])


def _held_against(
    files: DataFiles, columns: KeyColumns, some: Sequence[KeyScanFile], keys: HeadKeys
) -> tuple[dict[int, KeyScanResult], list[np.ndarray]]:
    """Compares files with the head's keys, and returns the dead positions by file number.

    Also returns the first halves of the hashes of the files' keys, of which a key filter is made.
    """
    dead, hashes = defaultdict[int, KeyScanResult](KeyScanResult), list[np.ndarray]()

    def near(high: np.ndarray) -> np.ndarray:
        hashes.append(high)
        return keys.wanted.near(high)

    for rows, without in read_keys(files, columns, some, near):
        for number, positions in without.items():
            dead[number].keyless.update(positions)
        at = keys.table.find(rows.high, rows.low)
        hit = at >= 0
        for number, positions in by_file(rows.place[hit]):
            dead[number].superseded.update(positions)
        for number, positions in by_file(rows.place[hit][keys.tombstone[at[hit]]]):
            dead[number].key_deleted.update(positions)
    return dead, hashes


def _pieces_of(dead: Mapping[int, KeyScanResult]) -> Iterator[Piece]:
    for number, one in dead.items():
        for kind in ("superseded", "key_deleted", "keyless"):
            if places := getattr(one, kind):
                yield (number, kind), places.serialize()


def _pieces(kind: str, places: np.ndarray) -> Iterator[Piece]:
    for number, positions in by_file(places):
        yield (number, kind), positions.serialize()


def _or(one: bytes, other: bytes) -> bytes:
    return (BitMap.deserialize(one) | BitMap.deserialize(other)).serialize()
