"""The offset map on rows: key to greatest offset, and where a map of bounded size ends (Cleaner.buildOffsetMap)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hardpack.rules.reference.row import Row


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Key to greatest offset, and the last offset that the map covers."""

    latest: dict[bytes, int]
    end: int


def build_offset_map(
    rows: Iterable[Row],
    bases: Iterable[int],
    first_dirty: int,
    bound: int,
    aborted: frozenset[int] = frozenset(),
    max_keys: int | None = None,
) -> OffsetMap:
    """Walks `[first_dirty, bound)` in order and puts every keyed row into the map, tombstones included.

    Control rows, aborted rows and keyless rows are passed over. When the map holds `max_keys` keys and one more keyed
    row comes, even one whose key is there, the walk stops. The map's end is then the last row put, or the end of the
    last batch or segment read in full, whichever is greater. So it passes over offsets that no row has.

    Args:
        rows: of one log; rows outside the range do not matter.
        bases: base offsets of the log's segments.
        first_dirty: where to start.
        bound: base offset of the segment to stop before.
        aborted: offsets of aborted rows.
        max_keys: room of the map, None for any number.
    """
    latest: dict[bytes, int] = {}
    edges = sorted(b for b in bases if first_dirty < b < bound)
    end = batch = -1
    last = first_dirty - 1
    for row in sorted(rows, key=lambda r: r.offset):
        if not first_dirty <= row.offset < bound:
            continue
        begins = row.offset if row.batch is None else row.batch
        if begins != batch:
            # every row before this one is of a batch read in full, and so are the segments that end before it
            end = max([end, last, *(b - 1 for b in edges if last < b <= row.offset)])
            batch = begins
        if row.key is not None and row.control is None and row.offset not in aborted:
            if max_keys is not None and len(latest) >= max_keys:
                return OffsetMap(latest, end)
            latest[row.key] = row.offset
            end = max(end, row.offset)
        last = row.offset
    return OffsetMap(latest, bound - 1)
