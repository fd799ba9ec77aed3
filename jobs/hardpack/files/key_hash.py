"""Which rows a later row of their key supersedes: plain NumPy on hashed keys, no Spark.

A hash of 128 bits stands for a key, as in Kafka's SkimpyOffsetMap (there MD5). Both halves of the hash include the log,
and one half also a salt.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap

from hardpack.errors import BadInput
from hardpack.files.hash_table import KeyTable, last_of_key
from hardpack.files.key_filter import Wanted
from hardpack.files.puffin import bitmap

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
class HashedRows:
    """Rows as columns: two halves of the key's hash, offset, and place (flags, file number, position)."""

    high: Longs
    low: Longs
    offset: Longs
    place: Longs

    def __len__(self) -> int:
        return len(self.high)

    def where(self, chosen: Mask | NDArray[np.int64]) -> HashedRows:
        """Returns the chosen rows."""
        return HashedRows(self.high[chosen], self.low[chosen], self.offset[chosen], self.place[chosen])

    def to_bytes(self) -> bytes:
        """Returns the four columns as bytes, one after the other."""
        return np.concatenate([self.high, self.low, self.offset, self.place]).tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> HashedRows:
        """Returns what `to_bytes` wrote."""
        return cls(*np.frombuffer(blob, np.uint64).reshape(4, -1))

    @classmethod
    def concat(cls, parts: Sequence[HashedRows]) -> HashedRows:
        """Returns all rows of the parts."""
        names = ("high", "low", "offset", "place")
        return cls(*(np.concatenate([getattr(p, n) for p in parts] or [np.empty(0, np.uint64)]) for n in names))


@dataclass(frozen=True)
class HeadKeys:
    """The head's distinct keys by their hash, and whether the last row of each is a tombstone.

    They go through the driver on their way to all tasks, so they hold no more than that: 17 bytes a key.
    """

    high: Longs
    low: Longs
    tombstone: Mask

    @cached_property
    def table(self) -> KeyTable:
        """The look-up of these keys, which each process makes once when it is first asked for."""
        return KeyTable(self.high, self.low)

    @cached_property
    def wanted(self) -> Wanted:
        """Tells most other keys from these by the first half of the hash; each process makes it once, when asked."""
        return Wanted(self.high)

    @classmethod
    def of(cls, rows: HashedRows) -> HeadKeys:
        """Returns the keys of rows of which no two have the same key."""
        return cls(rows.high, rows.low, (rows.place & TOMBSTONE) != 0)

    def to_bytes(self) -> bytes:
        """Returns the three columns as bytes, one after the other."""
        return b"".join((self.high.tobytes(), self.low.tobytes(), self.tombstone.tobytes()))

    @classmethod
    def merged(cls, blobs: Sequence[bytes]) -> HeadKeys:
        """Returns the keys of several results of `to_bytes`, of which no two have a key in common."""

        def column(kind: type, first: int, last: int) -> NDArray[Any]:
            columns = [np.frombuffer(b, np.uint8)[first * len(b) // 17 : last * len(b) // 17] for b in blobs]
            return np.concatenate(columns or [np.empty(0, np.uint8)]).view(kind)

        return cls(column(np.uint64, 0, 8), column(np.uint64, 8, 16), column(np.bool_, 16, 17))


_OWN = threading.local()


def _hasher() -> Any:
    """Returns this thread's connection to DuckDB: one that two threads share mixes up their results."""
    import duckdb

    if not hasattr(_OWN, "db"):
        # one thread, as Spark has a task per core
        _OWN.db = duckdb.connect(config={"threads": 1})
    return _OWN.db


def high_half(keys: pa.Array, of_log: Longs | np.uint64) -> Longs:
    """Returns the half of each key's hash that is the same in all passes, by DuckDB's own hash function.

    Args:
        keys: binary, no nulls.
        of_log: the hash of each row's log, or of the one log of all rows. It gives a key another hash in another log.
    """
    return _hashed(keys, "k") ^ of_log


def low_half(keys: pa.Array, of_log: Longs | np.uint64, salt: bytes) -> Longs:
    """Returns the salted half of each key's hash, which is another in each pass.

    Args:
        keys: binary, no nulls.
        of_log: the salted hash of each row's log, or of the one log of all rows.
        salt: what tells this pass from other passes.
    """
    # the salt stands before the key: two keys that collide behind one salt need not collide behind another
    before = "".join(f"\\x{byte:02X}" for byte in b"\x9b" + salt + b"\x00")
    return _hashed(keys, f"'{before}'::blob || k") ^ of_log


def _hashed(keys: pa.Array, what: str) -> Longs:
    import pyarrow as pa

    hashed = _hasher().from_arrow(pa.table({"k": keys})).project(f"hash({what}) h").fetchnumpy()
    return np.asarray(hashed["h"], np.uint64)


@cache
def log_hash(log: str, salt: bytes = b"") -> np.uint64:
    """Returns the hash of a log, which keeps its keys' hashes apart from those of other logs.

    One half of a key's hash takes it without a salt, the other half with the salt.
    """
    import pyarrow as pa

    return np.uint64(_hashed(pa.array([salt + b"log " + log.encode()]), "k")[0])


@cache
def hash_function() -> str:
    """Returns the hash of one fixed key, which tells DuckDB's hash function from that of another version."""
    import pyarrow as pa

    return f"{int(high_half(pa.array([b'hardpack']), log_hash(''))[0]):016x}"


def superseded(rows: HashedRows) -> tuple[Mask, Mask]:
    """Returns which rows have a later row of the head with the same key (Cleaner.shouldRetainRecord).

    In a log the head lies behind the tail, so a key's last row decides: if it is in the head, it supersedes all other
    rows of the key.

    Args:
        rows: in rising order of offset within each log.

    Returns:
        The superseded rows, and those among them whose key has a tombstone as its last row.
    """
    last = last_of_key(rows.high, rows.low)
    deciding = rows.place[last]
    dead = ((deciding & HEAD) != 0) & (last != np.arange(len(rows)))
    return dead, dead & ((deciding & TOMBSTONE) != 0)


def rising(rows: HashedRows) -> HashedRows:
    """Returns the rows by rising offset; rows of several logs may mix, as keys of different logs never match.

    At offset 0 those of the head come last, because rows that were deleted before are read as if they stood there.
    """
    if np.count_nonzero(rows.offset == 0) > 1:
        return rows.where(np.lexsort(((rows.place & HEAD) != 0, rows.offset)))
    if len(rows) < 2 or bool((rows.offset[1:] >= rows.offset[:-1]).all()):
        return rows
    return rows.where(np.argsort(rows.offset, kind="stable"))


def by_file(places: Longs) -> Iterator[tuple[int, BitMap]]:
    """Yields each file number with the positions of its rows."""
    if not len(places):
        return
    files = (places & ~(HEAD | TOMBSTONE)) >> FILE_SHIFT
    # NumPy sorts numbers of two bytes by counting, longer ones by comparing
    order = np.argsort(files.astype(np.uint16) if files.max() < 1 << 16 else files, kind="stable")
    files = files[order]
    starts = np.flatnonzero(np.diff(files.astype(np.int64), prepend=-1))
    for at, end in zip(starts, [*starts[1:], len(files)], strict=True):
        yield int(files[at]), bitmap(places[order[at:end]] & POSITION)


def longs(column: pa.Array) -> NDArray[np.int64]:
    """Returns the values of a column of offsets, which must have no nulls.

    Raises:
        BadInput: it has nulls.
    """
    if column.null_count:
        raise BadInput(f"{column.null_count:,} rows have no offset, expected it in the log; set or delete them.")
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)


def living_mask(rows: int, skipped: bytes) -> Mask:
    """Returns which rows of a file are read.

    Args:
        rows: how many rows the file has.
        skipped: bitmap of the rows that are not read; empty bytes leave no row out.
    """
    mask = np.ones(rows, bool)
    if skipped:
        mask[np.asarray(BitMap.deserialize(skipped).to_array(), np.int64)] = False
    return mask
