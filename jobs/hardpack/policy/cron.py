"""Cron expressions, of which some are well formed and yet name no moment."""

from __future__ import annotations

import re

from croniter import CroniterBadDateError, croniter

CRONS_YEARS = 130
"""From 1970 to beyond 2099, the last year that a cron expression can name."""


def wrong_of_cron(cron: str) -> str:
    """Returns what is wrong with a cron expression, empty for one that names a moment from 1970 on."""
    if not croniter.is_valid(cron):
        return f"{cron!r} is no cron expression, expected one as '0 * * * *', or '' for by hand only"
    if re.search(r"(^|[\s,])[Rr]([\s,(]|$)", cron):
        return f"{cron!r} names a moment at random, another each time it is read, expected one as '0 * * * *'"
    try:
        croniter(cron, 0, max_years_between_matches=CRONS_YEARS).get_next()
    except CroniterBadDateError:
        return f"{cron!r} names no day that there is, expected one as '0 * * * *'"
    return ""
