"""The clock, read at the outermost layer only; checks of times that callers give; times as text for people."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import UTC, datetime

from hardpack.errors import BadInput
from hardpack.rules.times import DAY_MS, HOUR_MS, LONG_MAX, plus

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""Begin of the year 1 and end of the year 9999, ms; a date can be written of times between them."""

UNITS = (("d", DAY_MS), ("h", HOUR_MS), ("min", 60_000), ("s", 1000))
"""Units of time for people, and their ms."""


def clock() -> int:
    """Reads the time, ms since the epoch."""
    return time.time_ns() // 1_000_000


def not_ahead(now: int, at: int) -> int:
    """Returns a given time, ms, once it is known that a table may be changed at it.

    Args:
        now: the time that was given.
        at: what the clock says.

    Raises:
        BadInput: the time lies more than an hour in the future. Logs cleaned at it could not be cleaned again before it
            has come.
    """
    if now > plus(at, HOUR_MS):
        raise BadInput(
            f"the time given, {now}, lies {now - at} ms in the future, expected ms since the epoch up to now; a log "
            "cleaned then could not be cleaned again before it has come (only a plan that is forced may)."
        )
    return now


def before_the_end(now: int) -> int:
    """Returns a given time, ms, once it is known to be a time.

    Raises:
        BadInput: it is Kafka's Long.MAX or later, which stands for never, or lies before the year 1.
    """
    if not FIRST <= now < LONG_MAX:
        raise BadInput(f"the time given, {now}, is none, expected ms since the epoch below {LONG_MAX}.")
    return now


def time_of(text: str) -> int:
    """Reads a time from text, a number of ms since the epoch or ISO 8601 with UTC by default; returns ms.

    Raises:
        BadInput: it is neither.
    """
    try:
        if text.strip().lstrip("-").isdecimal():
            return _counted(text)
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInput(
            f"{text!r} is no time, expected ms as in 1767225600000, or ISO 8601, as in 2026-01-31T12:00Z."
        ) from None
    return round((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)


def _counted(text: str) -> int:
    """Reads a number of ms since the epoch.

    Raises:
        BadInput: the number looks like a day, as 20260131 does.
        ValueError: the time lies outside the years 1 to 9999.
    """
    if re.fullmatch(r"(19|20)\d{6}", text.strip()):
        with suppress(ValueError):
            day = datetime.fromisoformat(text.strip())
            raise BadInput(f"{text!r} would be ms since 1970, and looks like a day; write {day:%Y-%m-%d}.")
    if not FIRST <= (ms := int(text)) <= LAST:
        raise ValueError
    return ms


def moment(ms: int | None) -> str:
    """Returns a time as text: `-` for None, `never` after the year 9999, as Kafka's Long.MAX, `long ago` before 1."""
    if ms is None:
        return "-"
    if ms > LAST:
        return "never"
    return "long ago" if ms < FIRST else f"{date_of(ms):%Y-%m-%d %H:%M:%SZ}"


def span(ms: int) -> str:
    """Returns a duration as text, in the largest unit of `UNITS` that it reaches, else in ms."""
    return next((f"{ms / length:.1f} {unit}" for unit, length in UNITS if ms >= length), f"{ms} ms")


def date_of(ms: int) -> datetime:
    """Returns a time as a date; the first or last date that can be written for a time before or after it."""
    return datetime.fromtimestamp(min(max(ms, FIRST), LAST) / 1000, UTC)
