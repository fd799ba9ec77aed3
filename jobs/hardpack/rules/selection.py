"""Which logs are due and from where to where: Kafka's LogCleanerManager, on plain data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardpack.rules.horizons import due_ranges, removable
from hardpack.rules.late_rows import why_late_rows_refused, why_of_another_topic
from hardpack.rules.model import LogView, Segment
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX, is_time, minus, plus

MOST_TIED = 3
"""So many older files, tied to the newest by a chain of overlaps, make a log stuck; appends may overlap a little."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say of one log at one time. Offsets, bytes, ms."""

    first_dirty: int
    first_uncleanable: int
    """From here on nothing may be cleaned (OffsetsToClean)."""
    bound: int
    """Where a pass ends: `first_uncleanable` brought down to the base of the segment that holds it (LogToClean)."""
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    due: bool
    reason: str
    held: bool = False
    """Whether no pass will clean the log before somebody does something about it. A pause alone does not count: for a
    paused log it says whether the log is also marked or in trouble."""

    @property
    def ratio(self) -> float:
        """Share of the cleanable bytes in the clean plus cleanable ones (LogToClean.cleanableRatio)."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def checkpoint_of(log: LogView) -> int | None:
    """Returns the checkpoint, or the log start where that lies outside the log (LogCleanerManager.cleanableOffsets).

    Kafka writes such a reset whether or not the log is then cleaned.
    """
    checkpoint = log.state.checkpoint
    if checkpoint is not None and not log.log_start <= checkpoint <= log.log_end:
        return log.log_start
    return checkpoint


def first_dirty_offset(log: LogView) -> int:
    """Returns where the head begins: at the checkpoint, else the log start, but no later than the first unseen row."""
    checkpoint = checkpoint_of(log)
    start = log.log_start if checkpoint is None else checkpoint
    return start if log.unseen_from is None else min(start, log.unseen_from)


def closed_segments(log: LogView, settings: Settings, now: int) -> tuple[Segment, ...]:
    """Returns all segments but the active one.

    Kafka closes the active segment when a record comes that is `segment.ms` later than the first one
    (LogSegment.shouldRoll). Here it counts as closed from then on, whether or not a row comes.
    """
    if settings.active_segment == "none" or not log.segments:
        return log.segments
    # a segment that only a newer one closes stays open even where `now` is the greatest time there is
    return log.segments if _closes_at(log.segments[-1], settings) <= min(now, LONG_MAX - 1) else log.segments[:-1]


def _closes_at(newest: Segment, settings: Settings) -> int:
    """Returns from when on the newest segment counts as closed, ms; LONG_MAX where only a newer segment closes it."""
    if settings.segment_ms is None:
        return LONG_MAX
    first = newest.first_timestamp
    # where rows have no time the segment is as old as its file (LogSegment.timeWaitedForRoll)
    begun = first if is_time(first) else min(f.modified for f in newest.files)
    return plus(plus(begun, settings.segment_ms), 1)


def from_offset(segments: tuple[Segment, ...], offset: int) -> tuple[Segment, ...]:
    """Returns the segments from the one that holds the offset on (LogSegments.values(from, to)).

    Of two segments that share the offset at their border the later one counts.
    """
    at = bisect_left(segments, offset, key=lambda s: s.last_offset)
    if at + 1 < len(segments) and segments[at].base_offset < offset == segments[at + 1].base_offset:
        at += 1
    return segments[at:]


def first_uncleanable_offset(log: LogView, settings: Settings, first_dirty: int, now: int) -> tuple[int, str]:
    """Returns the offset from which on nothing may be cleaned, and why (LogCleanerManager.cleanableOffsets).

    The offset is the least of the last stable offset, the active segment's base and the base of the first dirty segment
    younger than min.compaction.lag.ms, but not below `first_dirty`.

    Returns:
        The offset and one of `active segment`, `end of log`, `min.compaction.lag.ms`, `open transaction`.
    """
    closed = closed_segments(log, settings, now)
    has_active = len(closed) < len(log.segments)
    end = log.segments[-1].base_offset if has_active else log.log_end
    bound, why = end, "active segment" if has_active else "end of log"
    if settings.min_compaction_lag_ms > 0:
        young_from = minus(now, settings.min_compaction_lag_ms)
        young = (s.base_offset for s in from_offset(closed, first_dirty) if s.largest_timestamp > young_from)
        if (first_young := next(young, bound)) < bound:
            bound, why = first_young, "min.compaction.lag.ms"
    if log.last_stable is not None and log.last_stable < bound:
        bound, why = log.last_stable, "open transaction"
    return max(first_dirty, bound), why


def floored(log: LogView, settings: Settings, offset: int, now: int) -> int:
    """Returns the base of the closed segment that holds the offset, else that of the active one, else the log end.

    See LogCleanerManager.calculateCleanableBytes.
    """
    closed = closed_segments(log, settings, now)
    if (holding := from_offset(log.segments, offset)) and holding[0] in closed:
        return holding[0].base_offset
    return log.segments[-1].base_offset if len(closed) < len(log.segments) else log.log_end


def overdue(log: LogView, settings: Settings, first_dirty: int, now: int) -> int:
    """Returns the ms by which the oldest dirty segment has passed max.compaction.lag.ms, else 0 (maxCompactionDelay).

    Kafka looks at the timestamp of a segment's first batch, which a table does not know, and ignores it if it is not
    positive. Here a segment that has rows both with and without a positive time counts as older than any other, so that
    it is due no later than in Kafka.
    """
    dirty = from_offset(closed_segments(log, settings, now), first_dirty)
    return past_max_lag([at for s in dirty if (at := _first_time(s)) is not None], settings, now)


def past_max_lag(stamps: Sequence[int], settings: Settings, now: int) -> int:
    """Returns the ms by which the earliest of some times has passed max.compaction.lag.ms, 0 where none has.

    Args:
        stamps: positive times of dirty rows, ms; Kafka ignores others, so they must not be given.
        settings: for the lag.
        now: ms since the epoch.
    """
    limit = minus(now, settings.max_compaction_lag_ms)
    return max(0, limit - min(stamps)) if stamps and limit > 0 else 0


def _first_time(segment: Segment) -> int | None:
    """Returns a time no later than that of the segment's first batch, ms; None where Kafka finds none that counts."""
    if segment.first_timestamp is None or segment.first_timestamp > 0:
        return segment.first_timestamp
    return 1 if any((f.max_timestamp or 0) > 0 for f in segment.files) else None


def _bytes_around(log: LogView, dirty: int, end: int) -> tuple[int, int]:
    """Returns the clean and cleanable bytes (LogCleanerManager.calculateCleanableBytes, LogToClean).

    The head may begin inside a segment. If the last pass ended there, the segment counts on both sides, as in Kafka. If
    another writer put files together across the checkpoint since, or rows came late, its bytes are divided by offsets:
    else a log with few new rows would always be due.
    """
    clean = sum(s.bytes for s in log.segments if s.base_offset < dirty)
    if dirty >= end:
        return clean, 0
    head = [s for s in from_offset(log.segments, dirty) if s.base_offset < end]
    cleanable = sum(s.bytes for s in head)
    cut = head[0] if head and head[0].base_offset < dirty else None
    if cut is None or _ended_inside(log, cut, dirty):
        return clean, cleanable
    share = cut.bytes * (dirty - cut.base_offset) // (cut.last_offset + 1 - cut.base_offset)
    return clean - cut.bytes + share, cleanable - share


def _ended_inside(log: LogView, segment: Segment, dirty: int) -> bool:
    """Returns whether the last pass ended inside a segment that nobody has rewritten since.

    A pass ends inside a segment when its offset map is full.
    """
    if log.state.seen is None:
        return True
    last_commit = log.state.seen.made or log.state.seen.read
    full = bool(log.state.layout) and log.state.layout[-1] > dirty
    return full and log.unseen_from is None and all(f.file_sequence_number <= last_commit for f in segment.files)


def _why_stuck(log: LogView, settings: Settings, dirty: int, now: int) -> str:
    """Returns why a log can never be cleaned though rows keep coming; empty when it can be.

    Files whose offsets overlap are one segment, and the newest is never cleaned: rows delivered twice at the border of
    two files, or one late file that reaches far, can tie all files together.
    """
    if len(closed_segments(log, settings, now)) == len(log.segments):
        return ""
    active = log.segments[-1]
    old = [f for f in active.files if dirty <= f.max_offset < active.last_offset]
    if len(old) < MOST_TIED:
        return ""
    return (
        f"stuck: {len(active.files)} files overlap in a chain from offset {active.base_offset} to {active.last_offset},"
        " so that all of them are the active segment; rewrite them by offset (rewrite_data_files with sort order "
        f"{settings.column_offset}), or set active.segment=none"
    )


def decide(log: LogView, settings: Settings, now: int, force: bool = False) -> Decision:
    """Decides whether the log is due, from where to where, and why (LogCleanerManager.grabFilthiestCompactedLog).

    Args:
        log: the view of the log.
        settings: its settings.
        now: ms since the epoch.
        force: clean whatever is cleanable, whatever the ratio.
    """
    if not log.segments:
        start = log.log_start
        return Decision(start, start, start, 0, 0, 0, False, "the log is empty")
    dirty = first_dirty_offset(log)
    uncleanable, bounded_by = first_uncleanable_offset(log, settings, dirty, now)
    end = floored(log, settings, uncleanable, now)
    clean, cleanable = _bytes_around(log, dirty, end)
    overdue_ms = overdue(log, settings, dirty, now)
    draft = Decision(dirty, uncleanable, end, clean, cleanable, overdue_ms, False, "")
    if left := why_left_alone(log):
        return replace(draft, reason=left, held=bool(_why_broken(log)))
    if held := _why_held(log, draft, settings, now):
        return replace(draft, reason=held, held=True)
    due, reason = _verdict(log, draft, settings, now, bounded_by, force)
    return replace(draft, due=due, reason=reason)


def has_rows_of(log: LogView, decision: Decision, interval: tuple[int, int]) -> bool:
    """Returns whether the cleanable head may have rows of a time interval, by the bounds of its segments.

    Args:
        log: the view of the log.
        decision: where its head begins and ends.
        interval: ms, the end not included.
    """
    start, end = interval
    head = from_offset(log.segments, decision.first_dirty)
    return any(
        (s.first_timestamp is None or s.first_timestamp < end) and s.largest_timestamp >= start
        for s in head
        if s.base_offset < decision.bound
    )


def steady_until(log: LogView, settings: Settings, decision: Decision, now: int) -> int:
    """Returns the time, ms, before which the decision stays as it is, as long as the log stays as it is.

    A decision changes with time when the newest segment closes, when a segment becomes old enough for
    min.compaction.lag.ms or overdue, when a delete horizon passes, and when the limit of a reader is over. All else
    that a decision looks at lies in the log.
    """
    if decision.overdue_ms or ((last := log.state.last_clean) and last.now >= now):
        return now
    closed = closed_segments(log, settings, now)
    closes_at = [] if len(closed) == len(log.segments) else [_closes_at(log.segments[-1], settings)]
    dirty = from_offset(closed, decision.first_dirty)
    ages = [plus(s.largest_timestamp, settings.min_compaction_lag_ms) for s in dirty if settings.min_compaction_lag_ms]
    late_at = [plus(at, settings.max_compaction_lag_ms) for s in dirty if (at := _first_time(s)) is not None]
    overdue_at = [plus(at, 1) for at in late_at]
    waits = [ms for _, ms in log.state.horizons] + [ms for ms, _ in log.state.markers]
    given_up = [plus(ms, log.slowest.limit_ms) for ms in waits] if log.slowest else []
    return min((at for at in (*closes_at, *ages, *overdue_at, *waits, *given_up) if at > now), default=LONG_MAX)


def _verdict(log: LogView, d: Decision, settings: Settings, now: int, bounded_by: str, force: bool) -> tuple[bool, str]:
    if not settings.compacts:
        return False, f"cleanup.policy is {settings.cleanup_policy}"
    if (last := log.state.last_clean) and last.now > now:
        return False, f"the time asked for lies {last.now - now} ms before its last pass"
    waits = log.unseen_from is not None and due_ranges(log.state, now, log.slowest) != removable(log, now).ranges
    # phase two leaves tombstones alone until phase one has looked at late rows
    waits = waits and settings.idle_tombstones == "expire"
    if not d.cleanable_bytes:
        nothing = f"nothing dirty below the bound ({bounded_by})"
        return False, f"{nothing}, and tombstones past their horizon wait for rows behind it" if waits else nothing
    threshold = settings.min_cleanable_dirty_ratio
    if d.ratio > threshold:
        return True, f"dirty ratio {d.ratio:.3f} is above {threshold:g}"
    if d.overdue_ms > 0:
        return True, f"overdue by {d.overdue_ms} ms under max.compaction.lag.ms"
    if force:
        return True, f"forced at dirty ratio {d.ratio:.3f}"
    if waits:
        return True, "rows came late, and tombstones past their horizon wait for them"
    return False, f"dirty ratio {d.ratio:.3f} is not above {threshold:g}"


def _why_held(log: LogView, d: Decision, settings: Settings, now: int) -> str:
    """Returns why a log that is in order waits until somebody does something about it; empty when it does not."""
    if not settings.compacts:
        return ""
    refused = why_late_rows_refused(log, settings) or _why_keyless_refused(log, d, settings)
    return refused or ("" if d.cleanable_bytes else _why_stuck(log, settings, d.first_dirty, now))


def why_left_alone(log: LogView) -> str:
    """Returns why neither a pass nor retention may touch the log; empty when they may.

    See LogCleanerManager.deletableLogs.
    """
    pauses = log.state.paused
    paused = f"paused {pauses} times and not resumed" if pauses > 1 else "paused" if pauses else ""
    return "; ".join(reason for reason in (paused, _why_broken(log)) if reason)


def _why_broken(log: LogView) -> str:
    """Returns what is wrong with the log itself, which undoing its pauses would not mend; empty when nothing is."""
    if log.state.uncleanable:
        return f"uncleanable until it is resumed: {log.state.uncleanable}"
    if log.trouble:
        return f"uncleanable: {log.trouble}"
    return why_of_another_topic(log)


def _why_keyless_refused(log: LogView, d: Decision, settings: Settings) -> str:
    """Returns why rows without a key keep a log from being cleaned; empty when they do not.

    Control rows have no key either, so with transactions only a scan of the rows can tell.
    """
    if settings.null_keys == "drop" or settings.transactions or not d.cleanable_bytes:
        return ""
    rows = sum(s.null_keys for s in log.segments if s.base_offset < d.bound)
    if not rows:
        return ""
    return (
        f"uncleanable: {rows:,} rows without a key, a compacted topic has none; null.keys=drop drops them as Kafka's "
        "cleaner would"
    )
