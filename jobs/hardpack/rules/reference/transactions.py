"""Transactions on rows: the last stable offset, what was aborted, which markers have lost all their rows.

Kafka keeps an index of aborted transactions and a tracker per pass (CleanedTransactionMetadata). Rows alone tell the
same: a transactional row belongs to the next control row of its producer, because a control row is removed only when
no row of its transaction is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from hardpack.rules.reference.row import Control, Row


def last_stable_offset(rows: Iterable[Row], log_end: int) -> int:
    """Returns the first offset of the earliest transaction still open, else the end of the log.

    See UnifiedLog.lastStableOffset.
    """
    first: dict[int | None, int] = {}
    for row in sorted(rows, key=lambda r: r.offset):
        if row.control is not None:
            first.pop(row.producer, None)
        elif row.transactional:
            first.setdefault(row.producer, row.offset)
    return min(first.values(), default=log_end)


def aborted_offsets(rows: Iterable[Row]) -> frozenset[int]:
    """Returns the offsets of the transactional rows whose producer's next control row is an abort.

    See Cleaner.collectAbortedTransactions.
    """
    decided: dict[int | None, Control] = {}
    aborted: set[int] = set()
    for row in sorted(rows, key=lambda r: r.offset, reverse=True):
        if row.control is not None:
            decided[row.producer] = row.control
        elif row.transactional and decided.get(row.producer) == "abort":
            aborted.add(row.offset)
    return frozenset(aborted)


def emptied_markers(rows: Iterable[Row], last_batch: tuple[int, int] | None = None) -> frozenset[int]:
    """Returns the offsets of control rows whose transaction has no row (CleanedTransactionMetadata.onControlBatchRead).

    Args:
        rows: those a pass reads, before it drops any.
        last_batch: `(offset, producer id)` of the transactional row that ended the last round. Kafka keeps that
            batch, emptied, until the next round has read it, so its transaction counts as met once more
            (Cleaner.cleanInto: `batch.nextOffset == firstUncleanableOffset` is RETAIN_EMPTY).
    """
    met: set[int | None] = set()
    empty: set[int] = set()
    held = last_batch
    for row in sorted(rows, key=lambda r: r.offset):
        if held and held[0] < row.offset:
            met.add(held[1])
            held = None
        if row.control is not None:
            if row.producer not in met:
                empty.add(row.offset)
            met.discard(row.producer)
        elif row.transactional:
            met.add(row.producer)
    return frozenset(empty)
