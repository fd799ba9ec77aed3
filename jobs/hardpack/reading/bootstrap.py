"""The state that a topic stands for: the latest row of each key, and where to go on in Kafka after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hardpack.files.canonical_keys import keys_of
from hardpack.files.data_files import leaf
from hardpack.files.hash_table import last_of_key
from hardpack.files.key_hash import high_half, log_hash, low_half
from hardpack.files.key_reader import deleting
from hardpack.reading.ordered import Rows
from hardpack.table.columns import LogColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Keys = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]
    """Two halves of the keys' hashes, and the rows' offsets, rising."""

GATHERED = 4 * 1024 * 1024
"""Rows, 24 bytes each, that are gathered before superseded ones are dropped."""


@dataclass(frozen=True)
class Bootstrap:
    """The state of a topic, and where to go on in Kafka after it. The rows are read once, as they are asked for."""

    snapshot_id: int | None
    """The snapshot that is read, None of a table without one."""
    offsets: Mapping[str, int]
    """By log the offset of the first record in Kafka that the state does not have; a log that the table does not know
    is not among them."""
    rows: Iterator[pa.RecordBatch]
    """The latest row of each key, in order of offset within each log; a key that was deleted has none."""


def latest_offsets(columns: LogColumns, rows: Iterator[Rows], salt: bytes) -> NDArray[np.int64]:
    """Returns the offset of the last row of each key, rising.

    Args:
        columns: the table's.
        rows: of one log by offset, with the columns of the key.
        salt: of the keys' hashes.
    """
    parts, waiting, most = [_reduced([])], 0, GATHERED
    plain, salted = log_hash(""), log_hash("", salt)
    for offsets, batch in rows:
        leaves = pa.RecordBatch.from_arrays([leaf(batch, c) for c in columns.keys], [c.name for c in columns.keys])
        keys, without = keys_of(leaves, columns)
        keys = keys.filter(pa.array(~without)).cast(pa.binary())
        parts.append((high_half(keys, plain), low_half(keys, salted, salt), offsets[~without]))
        waiting += len(keys)
        if waiting > most:
            parts, waiting = [_reduced(parts)], 0
            # with many keys, half as many further rows may come before the next reduction
            most = max(GATHERED, len(parts[0][0]) // 2)
    return _reduced(parts)[2]


def _reduced(parts: Sequence[_Keys]) -> _Keys:
    """Returns the last row of each key."""
    none = np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)
    high, low, offsets = (np.concatenate(column) for column in zip(none, *parts, strict=True))
    last = last_of_key(high, low) == np.arange(len(high))
    return high[last], low[last], offsets[last]


def state_rows(columns: LogColumns, read: Callable[[bool], Iterator[Rows]], salt: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the latest row of each key of a log, in order of offset, without tombstones.

    Args:
        columns: the table's.
        read: yields the log's rows by offset; given True with the columns of the key alone, given False with all.
        salt: of the keys' hashes.
    """
    latest = latest_offsets(columns, read(True), salt)
    for offsets, batch in read(False) if len(latest) else ():
        at = np.minimum(np.searchsorted(latest, offsets), len(latest) - 1)
        keep = latest[at] == offsets
        if columns.value:
            keep &= ~deleting(leaf(batch, columns.value), columns.tombstone)
        if keep.any():
            yield batch.filter(pa.array(keep))
