"""Arithmetic on times and sizes that saturates where Kafka's longs end, so that "never" stays never."""

from __future__ import annotations

from typing import TypeGuard

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def is_time(ms: int | None) -> TypeGuard[int]:
    """Returns whether a row's timestamp, or a bound of timestamps, is a time: Kafka's -1 is none (RecordBatch)."""
    return ms is not None and ms >= 0


def plus(ms: int, span_ms: int) -> int:
    """Adds a span to a time; what would pass Long.MAX, Kafka's idiom for "never", is Long.MAX."""
    return max(LONG_MIN, min(ms + span_ms, LONG_MAX))


def minus(ms: int, span_ms: int) -> int:
    """Takes a span from a time, never below the smallest long."""
    return plus(ms, -span_ms)
