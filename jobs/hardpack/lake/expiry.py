"""Which snapshots a table can do without: old ones that no sink finds its way back by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.lake.history import ancestors, summary_of

DAY_MS = 86_400_000
MAX_AGE = "history.expire.max-snapshot-age-ms"
MIN_KEPT = "history.expire.min-snapshots-to-keep"
SILENT_MS = 30 * DAY_MS
"""A sink that has written nothing for so long is taken to be gone."""
OFFSETS_OF_CONNECT = "kafka.connect.offsets."
"""Kafka Connect's Iceberg sink: where it stands in its control topic, by topic and group (Coordinator)."""
IDENTITIES = ("flink.job-id", "spark.sql.streaming.queryId")
"""Flink's IcebergFilesCommitter and Spark's streaming write look for their last checkpoint or epoch by these."""


def expire_before(table: Table, now: int) -> int:
    """Snapshots from this time on stay, ms since the epoch.

    Those older than the table's own `history.expire.max-snapshot-age-ms` (Iceberg's default: five days) may go, but
    not the last one in which a sink that still writes noted how far it is, nor any after that.

    Args:
        table: as it was loaded.
        now: ms since the epoch.
    """
    bound = now - int(table.properties.get(MAX_AGE, 5 * DAY_MS))
    return min([bound, *(s.timestamp_ms for s in _last_of_each_sink(ancestors(table), now))])


def least_kept(table: Table) -> int:
    """How many snapshots stay however old they are."""
    return int(table.properties.get(MIN_KEPT, 1))


def _last_of_each_sink(newest_first: Iterable[Snapshot], now: int) -> Iterator[Snapshot]:
    seen: set[str] = set()
    for snapshot in newest_first:
        sinks = set(_sinks(summary_of(snapshot))) - seen
        seen |= sinks
        if sinks and snapshot.timestamp_ms >= now - SILENT_MS:
            yield snapshot


def _sinks(summary: Mapping[str, str]) -> Iterator[str]:
    for name, value in summary.items():
        if name.startswith(OFFSETS_OF_CONNECT):
            yield name
        elif name in IDENTITIES:
            yield f"{name}={value}"
