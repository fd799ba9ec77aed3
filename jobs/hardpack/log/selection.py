"""Which logs are due and from where to where: Kafka's LogCleanerManager, on plain data."""

from __future__ import annotations

from dataclasses import dataclass

from hardpack.log.model import LogView, Segment
from hardpack.log.settings import Settings


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say of one log at one time. Offsets, bytes, ms."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    due: bool
    reason: str

    @property
    def ratio(self) -> float:
        """Cleanable bytes of clean plus cleanable ones (LogToClean.cleanableRatio)."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def first_dirty_offset(log: LogView) -> int:
    """Where the head begins (LogCleanerManager.cleanableOffsets): a checkpoint outside the log starts it anew."""
    start, checkpoint = log.state.log_start, log.state.checkpoint
    if checkpoint is None or checkpoint < start or checkpoint > log.log_end:
        return start
    return checkpoint


def closed_segments(log: LogView, settings: Settings) -> tuple[Segment, ...]:
    """All segments but the active one."""
    return log.segments if settings.active_segment == "none" else log.segments[:-1]


def _from(segments: tuple[Segment, ...], offset: int) -> tuple[Segment, ...]:
    """Segments from the one holding the offset on (LogSegments.nonActiveLogSegmentsFrom)."""
    return tuple(s for s in segments if s.last_offset >= offset)


def first_uncleanable_offset(log: LogView, settings: Settings, first_dirty: int, now: int) -> tuple[int, str]:
    """Where a pass must end, floored to a segment, and what bounds it (LogCleanerManager.cleanableOffsets).

    Returns:
        The offset and one of `active segment`, `min.compaction.lag.ms`, `end of log`.
    """
    closed = closed_segments(log, settings)
    has_active = len(closed) < len(log.segments)
    bound = log.segments[-1].base_offset if has_active else log.log_end
    why = "active segment" if has_active else "end of log"
    if settings.min_compaction_lag_ms > 0:
        young = (s for s in _from(closed, first_dirty) if s.largest_timestamp > now - settings.min_compaction_lag_ms)
        if (first_young := next(young, None)) is not None and first_young.base_offset < bound:
            bound, why = first_young.base_offset, "min.compaction.lag.ms"
    return max(first_dirty, bound), why


def overdue(log: LogView, settings: Settings, first_dirty: int, now: int) -> int:
    """Ms by which the oldest dirty row has passed max.compaction.lag.ms, else 0 (maxCompactionDelay)."""
    stamps = [s.first_timestamp for s in _from(closed_segments(log, settings), first_dirty) if s.first_timestamp > 0]
    limit = now - settings.max_compaction_lag_ms
    return max(0, limit - min(stamps)) if stamps else 0


def decide(log: LogView, settings: Settings, now: int, force: bool = False) -> Decision:
    """Is the log due, from where to where, and why (LogCleanerManager.grabFilthiestCompactedLog).

    Args:
        log: the view of the log.
        settings: its settings.
        now: ms since the epoch.
        force: clean whatever is cleanable, whatever the ratio.
    """
    if not log.segments:
        return Decision(log.state.log_start, log.state.log_start, 0, 0, 0, False, "the log is empty")
    dirty = first_dirty_offset(log)
    end, bounded_by = first_uncleanable_offset(log, settings, dirty, now)
    clean = sum(s.bytes for s in log.segments if s.base_offset < dirty)
    cleanable = 0
    if dirty < end:
        cleanable = sum(s.bytes for s in _from(log.segments, dirty) if s.base_offset < end)
    late = overdue(log, settings, dirty, now) if dirty < end else 0
    draft = Decision(dirty, end, clean, cleanable, late, False, "")
    due, reason = _verdict(draft, settings, bounded_by, force)
    return Decision(dirty, end, clean, cleanable, late, due, reason)


def _verdict(d: Decision, settings: Settings, bounded_by: str, force: bool) -> tuple[bool, str]:
    if not d.cleanable_bytes:
        return False, f"nothing dirty below the bound ({bounded_by})"
    threshold = settings.min_cleanable_dirty_ratio
    if d.ratio > threshold:
        return True, f"dirty ratio {d.ratio:.3f} is above {threshold:g}"
    if d.overdue_ms > 0:
        return True, f"overdue by {d.overdue_ms} ms under max.compaction.lag.ms"
    if force:
        return True, f"forced at dirty ratio {d.ratio:.3f}"
    return False, f"dirty ratio {d.ratio:.3f} is not above {threshold:g}"
