"""Times for people. Whatever a table's metadata says, they can be shown."""

from __future__ import annotations

from datetime import UTC, datetime

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 and 9999 in ms, between which a date can be written."""


def moment(ms: int | None) -> str:
    """Returns a time as text; `never` of one that no calendar reaches, as of Kafka's Long.MAX, `-` of none."""
    if ms is None:
        return "-"
    if ms > LAST:
        return "never"
    return "long ago" if ms < FIRST else f"{date_of(ms):%Y-%m-%d %H:%M:%SZ}"


def date_of(ms: int) -> datetime:
    """Returns a time as a date, the nearest there is when a calendar does not reach it."""
    return datetime.fromtimestamp(min(max(ms, FIRST), LAST) / 1000, UTC)
