"""Why a pass removed a row: the one list that reports, tables, pages and charts walk, so that their numbers add up.

Each removed row has one cause; rows before less rows after is the sum over all causes (invariant 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Cause(NamedTuple):
    """One cause of removal."""

    name: str
    """The field of a log's report that counts the rows removed by this cause."""
    label: str
    """The cause's name for people, as in the heading of a column."""
    meaning: str
    leaves_storage: bool = True
    """Whether rows removed by it must leave the storage at once, not merely under a deletion vector (invariant 5)."""


SUPERSEDED = Cause("superseded", "superseded", "a later row of the same key is there", leaves_storage=False)
NULL_KEY = Cause("null_key", "no key", "the row has no key, and null.keys is drop")
EXPIRED_TOMBSTONE = Cause("expired_tombstone", "expired", "a tombstone whose delete horizon has passed")
ABORTED = Cause("aborted", "aborted", "a row of a transaction that was aborted")
EXPIRED_MARKER = Cause(
    "expired_marker", "markers", "the end of a transaction of which no row is left, past its delete horizon"
)
DUPLICATE = Cause("duplicate", "duplicates", "the offset stood twice")
RETENTION = Cause("retention", "retention", "the segment was past retention.ms or retention.bytes")
CAUSES = (SUPERSEDED, NULL_KEY, EXPIRED_TOMBSTONE, ABORTED, EXPIRED_MARKER, DUPLICATE, RETENTION)
"""All causes; each has a field in `hardpack.compaction.report.LogReport`."""


def rows_removed(log: Any, cause: Cause) -> int:
    """Returns how many rows of a log one cause removed, by the log's report or by that report as a JSON mapping."""
    return int(log.get(cause.name, 0) if isinstance(log, Mapping) else getattr(log, cause.name))


def removed_by_cause(logs: Iterable[Any]) -> dict[Cause, int]:
    """Returns how many rows each cause removed from logs, for causes that removed any, in the order of `CAUSES`."""
    reports = list(logs)
    sums = {cause: sum(rows_removed(log, cause) for log in reports) for cause in CAUSES}
    return {cause: rows for cause, rows in sums.items() if rows}
