"""Which segments retention deletes: Kafka's UnifiedLog.deleteOldSegments, whole segments from the oldest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hardpack.rules.model import LogView, Segment
from hardpack.rules.settings import Settings
from hardpack.rules.times import minus


@dataclass(frozen=True, slots=True)
class ExpiredSegments:
    """The segments of one log that retention deletes, and where the log then starts."""

    deleted: tuple[Segment, ...]
    log_start: int


def expired_segments(log: LogView, settings: Settings, now: int) -> ExpiredSegments:
    """Returns the segments of a log that retention deletes at `now`, and the log start that this leaves.

    With `delete` in the policy these are the segments before the log start, then those that retention.bytes leaves no
    room for, then those older than retention.ms. With `compact` alone they are only the segments before the log start.
    A segment that reaches past the high watermark (here `last_stable`) stays, and so do all segments after it. An empty
    active segment stays too.

    Args:
        log: the view of the log.
        settings: its settings.
        now: ms since the epoch.
    """
    left = list(log.segments)
    deleted: list[Segment] = []
    start = log.log_start

    def delete_while(goes: Callable[[Segment, int | None], bool]) -> None:
        nonlocal start
        gone = 0
        for at, segment in enumerate(left):
            following = left[at + 1].base_offset if at + 1 < len(left) else None
            if following is None and segment.bytes == 0:
                break
            stable = log.last_stable is None or log.last_stable >= (log.log_end if following is None else following)
            if not stable or not goes(segment, following):
                break
            gone += 1
        if gone:
            deleted.extend(left[:gone])
            del left[:gone]
            start = max(start, left[0].base_offset if left else log.log_end)

    # of two segments that share a border, the first may still hold the row at the log start
    delete_while(lambda s, following: following is not None and following <= start and s.last_offset < start)
    if settings.deletes:
        delete_while(_too_large(left, settings.retention_bytes))
        delete_while(lambda s, _: 0 <= settings.retention_ms < minus(now, s.largest_timestamp))
    return ExpiredSegments(tuple(deleted), start)


def _too_large(segments: Sequence[Segment], limit: int) -> Callable[[Segment, int | None], bool]:
    """Returns a test that lets segments go while the bytes that are left stay at or above the limit."""
    total = sum(s.bytes for s in segments)
    surplus = total - limit if 0 <= limit <= total else -1

    def goes(segment: Segment, _: int | None) -> bool:
        nonlocal surplus
        if surplus - segment.bytes < 0:
            return False
        surplus -= segment.bytes
        return True

    return goes
