"""The reference cleaner: rows in, rows out, in one sitting. Every other part must equal it.

Rules: Kafka's `Cleaner.buildOffsetMapForSegment`, `Cleaner.shouldRetainRecord` and `MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hardpack.log.horizons import after_clean, after_expiry, due_ranges, in_ranges
from hardpack.log.model import LogState


@dataclass(frozen=True, slots=True)
class Row:
    """A record. `value` None is a tombstone, `key` None a keyless row."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass leaves: rows in offset order, the new state, and the dropped offsets by cause."""

    rows: tuple[Row, ...]
    state: LogState
    dropped: dict[str, frozenset[int]]


def offset_map(rows: Iterable[Row], first_dirty: int, first_uncleanable: int) -> dict[bytes, int]:
    """Key to greatest offset in the cleanable head."""
    latest: dict[bytes, int] = {}
    for row in rows:
        if row.key is not None and first_dirty <= row.offset < first_uncleanable:
            latest[row.key] = max(row.offset, latest.get(row.key, -1))
    return latest


def phase_one(
    rows: Iterable[Row], state: LogState, first_dirty: int, first_uncleanable: int, now: int, delete_retention_ms: int
) -> Outcome:
    """Drop what is superseded or keyless below the bound, give new tombstones a horizon, move the checkpoint."""
    ordered = sorted(rows, key=lambda r: r.offset)
    latest = offset_map(ordered, first_dirty, first_uncleanable)
    below = [r for r in ordered if r.offset < first_uncleanable]
    null_key = frozenset(r.offset for r in below if r.key is None)
    superseded = frozenset(r.offset for r in below if r.key is not None and latest.get(r.key, -1) > r.offset)
    kept = tuple(r for r in ordered if r.offset not in null_key and r.offset not in superseded)
    end = max([state.log_end, *(r.offset + 1 for r in ordered)])
    return Outcome(
        kept,
        after_clean(state, first_dirty, first_uncleanable, end, now, delete_retention_ms),
        {"superseded": superseded, "null_key": null_key},
    )


def phase_two(rows: Iterable[Row], state: LogState, now: int) -> Outcome:
    """Drop the tombstones whose horizon has passed."""
    due = due_ranges(state, now)
    ordered = sorted(rows, key=lambda r: r.offset)
    expired = frozenset(r.offset for r in ordered if is_tombstone(r) and in_ranges(due, r.offset))
    kept = tuple(r for r in ordered if r.offset not in expired)
    return Outcome(kept, after_expiry(state, due), {"expired_tombstone": expired})


def is_tombstone(row: Row) -> bool:
    """A keyed row without a value; an empty value is a value."""
    return row.key is not None and row.value is None


def clean(
    rows: Iterable[Row], state: LogState, first_dirty: int, first_uncleanable: int, now: int, delete_retention_ms: int
) -> Outcome:
    """One whole pass of Kafka's cleaner: both phases at one `now`."""
    one = phase_one(rows, state, first_dirty, first_uncleanable, now, delete_retention_ms)
    two = phase_two(one.rows, one.state, now)
    return Outcome(two.rows, two.state, one.dropped | two.dropped)
