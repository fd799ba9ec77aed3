"""Gauges under the names that Kafka's cleaner has for them, so that its dashboards fit.

They are those of LogCleaner and LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardpack.plan import Plan
    from hardpack.report import PassReport

Gauges = Mapping[str, float]


def sensed(plans: Iterable[Plan]) -> Gauges:
    """What the state of some tables says at the time of their plans.

    Returns:
        `max-dirty-percent` and `max-compaction-delay-secs` of the logs that may be cleaned, of the others
        `uncleanable-partitions-count` and `uncleanable-bytes`, and once a log was cleaned `time-since-last-run-ms`,
        the time since a log was last cleaned.
    """
    found = list(plans)
    logs = [log for plan in found for log in plan.logs]
    able = [log for log in logs if not log.uncleanable]
    gauges = {
        "max-dirty-percent": 100 * max((log.ratio for log in able), default=0.0),
        "max-compaction-delay-secs": max((log.overdue_ms for log in able), default=0) / 1000,
        "uncleanable-partitions-count": float(len(logs) - len(able)),
        "uncleanable-bytes": float(sum(log.cleanable_bytes for log in logs if log.uncleanable)),
    }
    if last := [log.last_clean for log in logs if log.last_clean is not None]:
        gauges["time-since-last-run-ms"] = float(max(plan.now for plan in found) - max(last))
    return gauges


def cleaned(reports: Iterable[PassReport]) -> Gauges:
    """What some passes did; nothing of no pass.

    Returns:
        `cleaner-recopy-percent`, the bytes written of those read, and `max-clean-time-secs`.
    """
    done = [report for report in reports if report.snapshot is not None and not report.repeated]
    if not done:
        return {}
    read = sum(log.bytes_read for report in done for log in report.logs)
    written = sum(log.bytes_written for report in done for log in report.logs)
    return {
        "cleaner-recopy-percent": 100 * written / read if read else 0.0,
        "max-clean-time-secs": max(report.seconds for report in done),
    }
