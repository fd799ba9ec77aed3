"""Checks cron expressions, as one that is well formed may still name no moment."""

from __future__ import annotations

import re

from croniter import CroniterBadDateError, croniter

MOST_FIELDS = 6
"""Most fields of a cron expression; the sixth is for seconds."""


def wrong_of_cron(cron: str) -> str:
    """Returns what is wrong with a cron expression, empty for one that names a moment again and again."""
    if not croniter.is_valid(cron):
        return f"{cron!r} is no cron expression, expected one as '0 * * * *', or '' for by hand only"
    if len(cron.split()) > MOST_FIELDS:
        return f"{cron!r} names years, which Airflow does not follow, expected one as '0 * * * *'"
    if re.search(r"(^|[\s,])[Rr]([\s,(]|$)", cron):
        return f"{cron!r} names a moment at random, another each time it is read, expected one as '0 * * * *'"
    try:
        croniter(cron, 0).get_next()
    except CroniterBadDateError:
        return f"{cron!r} names no day that there is, expected one as '0 * * * *'"
    return ""
