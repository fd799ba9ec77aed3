"""The reference cleaner: rows in, rows out, in one sitting. Every other part must equal it.

It cleans a log as Kafka's `Cleaner.doClean` does: select, map, rewrite every segment up to the map's end, group. State
that Kafka keeps in batches (delete horizons) stands beside the rows, by offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hardpack.rules.grouping import group_segments
from hardpack.rules.model import LogState, LogView, Segment
from hardpack.rules.reference.offset_map import OffsetMap, build_offset_map
from hardpack.rules.reference.row import Row
from hardpack.rules.reference.transactions import aborted_offsets, emptied_markers, last_stable_offset
from hardpack.rules.retention import expired_segments
from hardpack.rules.selection import Decision, checkpoint_of, decide
from hardpack.rules.settings import Settings
from hardpack.rules.transactions import held_after


@dataclass(frozen=True, slots=True)
class LogSegment:
    """Rows from a base offset on, in order; `modified` counts where no row has a timestamp, ms."""

    base: int
    rows: tuple[Row, ...]
    modified: int = 0


@dataclass(frozen=True, slots=True)
class Log:
    """One partition; the last segment is the active one."""

    segments: tuple[LogSegment, ...]
    checkpoint: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    horizons: Mapping[int, int] = field(default_factory=dict)
    """Delete horizon by offset, of tombstones and control rows."""
    last_batch: tuple[int, int] | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in order."""
        return tuple(r for s in self.segments for r in s.rows)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The log after a cleaning, the decision that was made of it, and the dropped offsets by cause."""

    log: Log
    decision: Decision
    dropped: Mapping[str, frozenset[int]] = field(default_factory=dict)


def clean(log: Log, settings: Settings, now: int) -> Outcome:
    """Selects the log at `now` and, if it is due, runs one whole pass at the same `now`."""
    view = view_of(log)
    decision = decide(view, settings, now)
    log = replace(log, checkpoint=checkpoint_of(view), log_start=view.log_start)
    if not decision.due:
        return Outcome(log, decision)
    aborted = aborted_offsets(log.rows)
    bases = [s.base for s in log.segments]
    offset_map = build_offset_map(log.rows, bases, decision.first_dirty, decision.bound, aborted, settings.max_keys)
    copied = [s for s in log.segments if s.base <= offset_map.end]
    input_rows = tuple(r for s in copied for r in s.rows)
    emptied = emptied_markers(input_rows, log.last_batch)
    dropped = _dropped(input_rows, offset_map, aborted, emptied, log.horizons, now)
    gone = frozenset().union(*dropped.values())
    return Outcome(
        replace(
            log,
            segments=(*_merged(log, copied, gone, settings, decision), *log.segments[len(copied) :]),
            checkpoint=offset_map.end + 1,
            horizons=_horizons(log.horizons, input_rows, gone, emptied, now + settings.delete_retention_ms),
            last_batch=held_after(last_of_round(input_rows, decision.bound), log.last_batch, decision.bound),
        ),
        decision,
        dropped,
    )


def _dropped(
    rows: tuple[Row, ...],
    offset_map: OffsetMap,
    aborted: frozenset[int],
    emptied: frozenset[int],
    horizons: Mapping[int, int],
    now: int,
) -> dict[str, frozenset[int]]:
    """Finds rows to drop by cause (Cleaner.shouldDiscard, shouldRetainRecord).

    The first cause that holds claims a row.
    """
    causes: dict[str, set[int]] = {
        c: set() for c in ("aborted", "expired_marker", "null_key", "superseded", "expired_tombstone")
    }
    for row in rows:
        passed = row.offset in horizons and horizons[row.offset] <= now
        if row.offset in aborted:
            causes["aborted"].add(row.offset)
        elif row.control is not None:
            if row.offset in emptied and passed:
                causes["expired_marker"].add(row.offset)
        elif row.offset <= offset_map.end:
            if row.key is None:
                causes["null_key"].add(row.offset)
            elif row.offset < offset_map.latest.get(row.key, -1):
                causes["superseded"].add(row.offset)
            elif row.value is None and passed:
                causes["expired_tombstone"].add(row.offset)
    return {cause: frozenset(offsets) for cause, offsets in causes.items()}


def _horizons(
    before: Mapping[int, int], rows: tuple[Row, ...], gone: frozenset[int], emptied: frozenset[int], horizon: int
) -> dict[int, int]:
    """Returns the horizons after a pass, without dropped rows.

    Each tombstone and each marker of an emptied transaction gets its horizon once, at its first recopy.
    """
    fresh = {
        r.offset: horizon
        for r in rows
        if (r.offset in emptied if r.control is not None else r.value is None) and r.offset not in before
    }
    return {offset: ms for offset, ms in {**before, **fresh}.items() if offset not in gone}


def _merged(
    log: Log, copied: list[LogSegment], gone: frozenset[int], settings: Settings, decision: Decision
) -> list[LogSegment]:
    """Returns one segment per group, with the base of the group's first."""
    by_base = {s.base: s for s in copied}
    following = log.segments[len(copied)].base if len(copied) < len(log.segments) else None
    out = []
    for group in group_segments([_segment(s) for s in copied], settings.segment_bytes, decision.bound, following):
        members = [by_base[s.base_offset] for s in group]
        rows = tuple(r for m in members for r in m.rows if r.offset not in gone)
        out.append(LogSegment(members[0].base, rows, members[-1].modified))
    return out


def last_of_round(rows: tuple[Row, ...], bound: int) -> tuple[int, int] | None:
    """Returns `(offset, producer id)` of the transactional row that ends the round, None when no such row does.

    Kafka keeps the batch of that row even when it is emptied.
    """
    last = rows[-1] if rows else None
    if last is None or last.offset + 1 != bound or not last.transactional or last.control is not None:
        return None
    return last.offset, last.producer if last.producer is not None else -1


def retain(log: Log, settings: Settings, now: int) -> tuple[Log, int]:
    """Returns the log after one run of retention, and the number of segments deleted."""
    view = replace(view_of(log), last_stable=log.high_watermark)
    retained = expired_segments(view, settings, now)
    left = log.segments[len(retained.deleted) :] or (LogSegment(retained.log_start, (), now),)
    after = replace(log, segments=left, log_start=retained.log_start)
    still = {r.offset for r in after.rows}
    horizons = {o: ms for o, ms in log.horizons.items() if o in still}
    return replace(after, horizons=horizons), len(retained.deleted)


def append_segment(log: Log, segment: LogSegment) -> Log:
    """Rolls the log: the new segment becomes the active one.

    It replaces an empty one of its base (Kafka's LocalLog.roll).
    """
    before = log.segments[:-1] if log.segments[-1].base == segment.base else log.segments
    return replace(log, segments=(*before, segment))


def view_of(log: Log) -> LogView:
    """Returns the log as selection sees it."""
    segments = tuple(_segment(s) for s in log.segments)
    end = max(segments[-1].last_offset + 1, log.segments[-1].base)
    high_watermark = end if log.high_watermark is None else log.high_watermark
    stable = min(high_watermark, last_stable_offset(log.rows, end))
    return LogView(0, segments, LogState(log.checkpoint, log.log_start, end), stable)


def _segment(segment: LogSegment) -> Segment:
    stamps = [r.timestamp for r in segment.rows if r.timestamp is not None]
    largest = max(stamps, default=-1)
    return Segment(
        base_offset=segment.base,
        last_offset=max([segment.base - 1, *(r.offset for r in segment.rows)]),
        bytes=sum(r.bytes for r in segment.rows),
        largest_timestamp=largest if largest >= 0 else segment.modified,
        first_timestamp=_first_batch_timestamp(segment.rows),
    )


def _first_batch_timestamp(rows: tuple[Row, ...]) -> int | None:
    """Returns the largest timestamp of the first batch, ms, None without one (LogSegment.getFirstBatchTimestamp)."""
    first = [r for r in rows if (r.offset if r.batch is None else r.batch) == rows[0].offset]
    return max((r.timestamp for r in first if r.timestamp is not None), default=None)
