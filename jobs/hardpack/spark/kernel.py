"""Which rows a later row of their key supersedes: plain NumPy on hashed keys, no Spark.

A key stands as 128 bits of hash, as in Kafka's SkimpyOffsetMap (there MD5); the log is hashed with it and, in one half,
a salt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap

from hardpack.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Longs = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

HEAD = np.uint64(1 << 63)
TOMBSTONE = np.uint64(1 << 62)
FILE_SHIFT = np.uint64(32)
POSITION = np.uint64(2**32 - 1)


@dataclass(frozen=True, slots=True)
class Keyed:
    """Rows as columns: two halves of the key's hash, offset, and place (flags, file number, position)."""

    high: Longs
    low: Longs
    offset: Longs
    place: Longs

    def __len__(self) -> int:
        return len(self.high)

    def where(self, chosen: Mask | NDArray[np.int64]) -> Keyed:
        """The chosen rows."""
        return Keyed(self.high[chosen], self.low[chosen], self.offset[chosen], self.place[chosen])

    def to_bytes(self) -> bytes:
        """Four columns, one after the other."""
        return np.concatenate([self.high, self.low, self.offset, self.place]).tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> Keyed:
        """What `to_bytes` wrote."""
        return cls(*np.frombuffer(blob, np.uint64).reshape(4, -1))

    @classmethod
    def concat(cls, parts: Sequence[Keyed]) -> Keyed:
        """All rows of the parts."""
        names = ("high", "low", "offset", "place")
        return cls(*(np.concatenate([getattr(p, n) for p in parts] or [np.empty(0, np.uint64)]) for n in names))


@dataclass(frozen=True, slots=True)
class HeadKeys:
    """Distinct keys by their hash, in rising order of the first half, and whether the last row of each is a tombstone.

    The head's go through the driver on their way to all tasks, so they are no more than that: 17 bytes a key.
    """

    high: Longs
    low: Longs
    tombstone: Mask

    def __len__(self) -> int:
        return len(self.high)

    @classmethod
    def of(cls, rows: Keyed) -> HeadKeys:
        """The keys of rows that each have another."""
        order = _by_key(rows)
        return cls(rows.high[order], rows.low[order], (rows.place[order] & TOMBSTONE) != 0)

    def to_bytes(self) -> bytes:
        """Three columns, one after the other."""
        return b"".join((self.high.tobytes(), self.low.tobytes(), self.tombstone.tobytes()))

    @classmethod
    def merged(cls, blobs: Sequence[bytes]) -> HeadKeys:
        """The keys of all that `to_bytes` wrote, no key in two of them."""

        def column(kind: type, first: int, last: int) -> NDArray[Any]:
            columns = [np.frombuffer(b, np.uint8)[first * len(b) // 17 : last * len(b) // 17] for b in blobs]
            return np.concatenate(columns or [np.empty(0, np.uint8)]).view(kind)

        high = column(np.uint64, 0, 8)
        # merges what is in order already
        order = np.argsort(high, kind="stable")
        return cls(high[order], column(np.uint64, 8, 16)[order], column(np.bool_, 16, 17)[order])


@cache
def _hasher() -> Any:
    import duckdb

    db = duckdb.connect()
    # Spark has a task per core
    db.execute("set threads = 1")
    return db


def high_half(keys: pa.Array, log: str) -> Longs:
    """The half of every key's hash that is the same in all passes; DuckDB's own hash function.

    Args:
        keys: binary, no nulls.
        log: whose keys; the same key in another log has another hash.
    """
    return _hashed("select hash(k, ?::blob) h from keys", keys, log.encode())


def low_half(keys: pa.Array, log: str, salt: bytes) -> Longs:
    """The other half, of one pass alone.

    Args:
        keys: binary, no nulls.
        log: whose keys.
        salt: what tells this pass from others.
    """
    # the salt stands before the key: two keys that collide behind one salt need not behind the other
    return _hashed("select hash(?::blob || k) h from keys", keys, b"\x9b" + salt + log.encode() + b"\x00")


def _hashed(query: str, keys: pa.Array, text: bytes) -> Longs:
    import pyarrow as pa

    db = _hasher()
    db.register("keys", pa.table({"k": keys}))
    found = db.execute(query, [text]).fetchnumpy()
    db.unregister("keys")
    return np.asarray(found["h"], np.uint64)


@cache
def hash_function() -> str:
    """Tells DuckDB's hash function from that of another version: what it makes of one key."""
    import pyarrow as pa

    return f"{int(high_half(pa.array([b'hardpack']), '')[0]):016x}"


def superseded(rows: Keyed) -> tuple[Mask, Mask]:
    """Rows behind which a row of the head stands with the same key (Cleaner.shouldRetainRecord).

    Of one log the head lies behind the tail, so a key's last row decides: is it of the head, all others are superseded.

    Args:
        rows: in rising order of offset within each log.

    Returns:
        The superseded rows, and those among them of which the last is a tombstone.
    """
    count = len(rows)
    if count < 2:
        return np.zeros(count, bool), np.zeros(count, bool)
    order = _by_key(rows)
    high, low = rows.high[order], rows.low[order]
    last = np.append((high[1:] != high[:-1]) | (low[1:] != low[:-1]), True)
    ends = np.flatnonzero(last)
    deciding, length = rows.place[order[ends]], np.diff(ends, prepend=-1)
    dead, erased = np.empty(count, bool), np.empty(count, bool)
    dead[order] = np.repeat((deciding & HEAD) != 0, length) & ~last
    erased[order] = np.repeat((deciding & TOMBSTONE) != 0, length)
    return dead, dead & erased


def _by_key(rows: Keyed) -> NDArray[np.int64]:
    """Row numbers by key, rising within a key.

    One plain sort of longs: the hash's upper bits and below them the row's number, several times faster than argsort.
    """
    number = np.uint64(max(1, int(len(rows) - 1).bit_length()))
    mask = (np.uint64(1) << number) - np.uint64(1)
    packed = (rows.high & ~mask) | np.arange(len(rows), dtype=np.uint64)
    packed.sort()
    order = (packed & mask).astype(np.int64)
    high = rows.high[order]
    near = (packed[1:] ^ packed[:-1]) <= mask
    mixed = near & ((high[1:] != high[:-1]) | (np.diff(rows.low[order]) != 0))
    if mixed.any():
        # rows whose keys share the upper bits come in order of number alone; there are a few such runs at most
        starts = np.concatenate([[0], np.flatnonzero(~near) + 1, [len(rows)]])
        for at in np.unique(np.searchsorted(starts, np.flatnonzero(mixed), side="right")):
            run = order[starts[at - 1] : starts[at]]
            run[:] = run[np.lexsort((run, rows.low[run], rows.high[run]))]
    return order


def among(rows: Keyed, keys: HeadKeys) -> NDArray[np.int64]:
    """Where each row's key stands among those given, -1 if nowhere."""
    high, low = keys.high, keys.low
    if not len(keys):
        return np.full(len(rows), -1)
    order = _by_key(rows)
    at = np.searchsorted(high, rows.high[order])
    at[at == len(high)] = 0
    hit = high[at] == rows.high[order]
    # two keys may share the upper half
    wrong = hit & (low[at] != rows.low[order])
    at[~hit | wrong] = -1
    if wrong.any():
        mixed = np.flatnonzero(np.isin(high, rows.high[order[wrong]]))
        held = dict(zip(zip(high[mixed].tolist(), low[mixed].tolist(), strict=True), mixed.tolist(), strict=True))
        rest = order[wrong]
        at[wrong] = [held.get(pair, -1) for pair in zip(rows.high[rest].tolist(), rows.low[rest].tolist(), strict=True)]
    out = np.empty(len(rows), np.int64)
    out[order] = at
    return out


def rising(rows: Keyed) -> Keyed:
    """The rows by offset; logs may mix, as their keys never meet."""
    if len(rows) < 2 or bool((rows.offset[1:] >= rows.offset[:-1]).all()):
        return rows
    return rows.where(np.argsort(rows.offset, kind="stable"))


def by_file(places: Longs) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """File numbers and the positions in each."""
    if not len(places):
        return
    ordered = np.sort(places & ~(HEAD | TOMBSTONE))
    files = (ordered >> FILE_SHIFT).astype(np.int64)
    starts = np.flatnonzero(np.diff(files, prepend=-1))
    for at, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield int(files[at]), (ordered[at:end] & POSITION).astype(np.uint32)


def longs(column: pa.Array) -> NDArray[np.int64]:
    """An integer column without nulls.

    Raises:
        BadInput: there are some.
    """
    if column.null_count:
        raise BadInput(f"{column.null_count:,} rows have no offset, expected it in the log; set or delete them.")
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)


def living_mask(rows: int, unread: bytes) -> Mask:
    """Which rows of a file are read, from the bitmap of those that are not; an empty text leaves none out."""
    mask = np.ones(rows, bool)
    if unread:
        mask[np.asarray(BitMap.deserialize(unread).to_array(), np.int64)] = False
    return mask
