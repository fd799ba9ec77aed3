"""Gauges under the names that Kafka's cleaner has for them, so that its dashboards fit.

They are those of LogCleaner and LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardpack.compaction.plan import Plan
    from hardpack.compaction.report import PassReport

Gauges = Mapping[str, float]


def sensed(plans: Iterable[Plan], looked: int, unreadable: int = 0, since: int | None = None) -> Gauges:
    """Returns the gauges of one look at all tables of a policy.

    Args:
        plans: the plans of the tables that could be read.
        looked: when the look ended by the clock, ms.
        unreadable: number of adopted tables that could not be read. Each counts as one log, as its logs are unknown.
        since: ms since the start of the last run that ended well; None when there was none.

    Returns:
        `uncleanable-partitions-count`, `uncleanable-bytes`: logs that stay as they are until somebody does something.
        `paused-partitions-count`, which Kafka does not have: to its cleaner a paused log is no candidate
        (LogCleanerManager.grabFilthiestCompactedLog), and uncleanable only where it is marked.
        `max-dirty-percent` and `max-compaction-delay-secs`: logs that may be cleaned.
        `last-look-time-secs`, seconds since the epoch: Kafka does not need it, as its cleaner looks every 15 s.
        `time-since-last-run-ms`, where `since` is given (LogCleanerManager.timeOfLastRun).
    """
    all_plans = list(plans)
    logs = [log for plan in all_plans for log in plan.logs]
    held = [log for log in logs if log.held]
    # Kafka's cleaner passes over a log whose cleanup.policy is only delete (LogCleanerManager: config.compact)
    compacted = [log for plan in all_plans if plan.settings.compacts for log in plan.logs]
    able = [log for log in compacted if not (log.held or log.paused)]
    # the logs of mixed files are unknown before a split: all rows of the files may be dirty
    split = [plan.split for plan in all_plans if plan.split]
    delays = [log.overdue_ms for log in able] + [one.overdue_ms for one in split]
    gauges = {
        "max-dirty-percent": 100 * max([*(log.ratio for log in able), *(1.0 for _ in split)], default=0.0),
        "max-compaction-delay-secs": max(delays, default=0) / 1000,
        "uncleanable-partitions-count": float(len(held) + unreadable),
        "uncleanable-bytes": float(sum(log.cleanable_bytes for log in held)),
        "paused-partitions-count": float(sum(log.paused for log in logs)),
        "last-look-time-secs": looked // 1000,
    }
    return gauges if since is None else gauges | {"time-since-last-run-ms": float(since)}


def died(units: int) -> Gauges:
    """Returns the gauge of a run's units that did not reach their end, as when a driver was killed.

    Args:
        units: number of such units. A unit does not count when each of its tables has an error that says why it ended.

    Returns:
        `DeadThreadCount`. A cleaner thread of Kafka's that died stays dead; the next run does a unit again.
    """
    return {"DeadThreadCount": float(units)}


def cleaned(reports: Iterable[PassReport]) -> Gauges:
    """Returns the gauges of the passes that made a snapshot; empty when none did.

    Returns:
        `cleaner-recopy-percent`, the bytes written in percent of the bytes read; `max-clean-time-secs`; and, where an
        offset map is bounded, `max-buffer-utilization-percent` of the fullest map.
    """
    done = [report for report in reports if report.snapshot is not None and not report.repeated]
    if not done:
        return {}
    read = sum(log.bytes_read for report in done for log in report.logs)
    written = sum(log.bytes_written for report in done for log in report.logs)
    full = [p for report in done for log in report.logs if (p := log.buffer_utilization_percent) is not None]
    return {
        "cleaner-recopy-percent": 100 * written / read if read else 0.0,
        "max-clean-time-secs": max(report.seconds for report in done),
        **({"max-buffer-utilization-percent": max(full)} if full else {}),
    }
