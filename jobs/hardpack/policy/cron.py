"""Cron expressions, of which some are well formed and yet name no moment."""

from __future__ import annotations

import re
from datetime import datetime

from croniter import CroniterBadDateError, croniter

CRONS_YEARS = 130
"""From 1970 to beyond 2099, the last year that a cron expression can name."""


def wrong_of_cron(cron: str, after: datetime) -> str:
    """Returns what is wrong with a cron expression, empty for one by which something can be run again and again.

    Args:
        cron: the expression.
        after: the moment from which on it has to name another.
    """
    if not croniter.is_valid(cron):
        return f"{cron!r} is no cron expression, expected one as '0 * * * *', or '' for by hand only"
    if re.search(r"(^|[\s,])[Rr]([\s,(]|$)", cron):
        return f"{cron!r} names a moment at random, another each time it is read, expected one as '0 * * * *'"
    try:
        croniter(cron, after, max_years_between_matches=CRONS_YEARS).get_next()
    except CroniterBadDateError:
        return f"{cron!r} names no day that is to come, expected one as '0 * * * *'"
    return ""
