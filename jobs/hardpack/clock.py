"""The clock, which is read at the outermost layer only, and the check of times that others give."""

from __future__ import annotations

import time

from hardpack.errors import BadInput
from hardpack.log.times import HOUR_MS, plus


def clock() -> int:
    """Reads the time, ms since the epoch."""
    return time.time_ns() // 1_000_000


def not_ahead(now: int, at: int) -> int:
    """Returns a time to change a table at, ms.

    Args:
        now: the time that was given.
        at: what the clock says.

    Raises:
        BadInput: it lies in the future, so that logs could not be cleaned before it has come.
    """
    if now > plus(at, HOUR_MS):
        raise BadInput(
            f"the time given, {now}, lies {now - at} ms in the future, expected ms since the epoch up to now; a log "
            "cleaned then could not be cleaned again before it has come (only a plan that is forced may)."
        )
    return now
