"""Which snapshots a table can do without: old ones that no sink finds its way back by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hardpack.lake.history import ancestors, summary_of
from hardpack.lake.state import PLAN_SUMMARY, read_state

DAY_MS = 86_400_000
MAX_AGE = "history.expire.max-snapshot-age-ms"
MIN_KEPT = "history.expire.min-snapshots-to-keep"
SILENT_MS = 30 * DAY_MS
"""A sink that has written nothing for so long is taken to be gone."""
OFFSETS_OF_CONNECT = "kafka.connect.offsets."
"""Kafka Connect's Iceberg sink: where it stands in its control topic, by topic and group (Coordinator)."""
FLINK = ("flink.job-id", "flink.operator-id")
SPARK = ("spark.sql.streaming.queryId",)
"""Flink's IcebergFilesCommitter and Spark's streaming write look for their last checkpoint or epoch by these."""


def expire_before(table: Table, now: int) -> int:
    """Snapshots from this time on stay, ms since the epoch.

    Those older than the table's own `history.expire.max-snapshot-age-ms` (Iceberg's default: five days) may go, except

    - what was the current snapshot at any time of the last day: a pass may be working from it;
    - the last one in which a sink that still writes noted how far it is;
    - where others rewrote or replaced rows since a log's last pass, as only the history tells those from new rows.

    Args:
        table: as it was loaded.
        now: ms since the epoch.
    """
    bounds = [now - int(table.properties.get(MAX_AGE, 5 * DAY_MS))]
    lineage = list(ancestors(table))
    bounds += [s.timestamp_ms for s in lineage if s.timestamp_ms <= now - DAY_MS][:1]
    bounds += [s.timestamp_ms for s in _last_of_each_sink(table, now)]
    bounds += [s.timestamp_ms for s in _others_since_a_pass(table, lineage)]
    return min(bounds)


def least_kept(table: Table) -> int:
    """How many snapshots stay however old they are."""
    return int(table.properties.get(MIN_KEPT, 1))


def _last_of_each_sink(table: Table, now: int) -> Iterator[Snapshot]:
    """Of all branches: a sink may commit to one of its own."""
    seen: set[str] = set()
    for snapshot in sorted(table.snapshots(), key=lambda s: s.timestamp_ms, reverse=True):
        sinks = set(_sinks(summary_of(snapshot))) - seen
        seen |= sinks
        if sinks and snapshot.timestamp_ms >= now - SILENT_MS:
            yield snapshot


def _others_since_a_pass(table: Table, newest_first: Sequence[Snapshot]) -> Iterator[Snapshot]:
    """Snapshots of others that are more than appends, later than some log's last pass, each with the one before it."""
    passes = [state.snapshot[1] for state in read_state("", table.properties).values() if state.snapshot]
    if not passes:
        return
    for snapshot, parent in zip(newest_first, [*newest_first[1:], None], strict=True):
        appends = snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND
        ours = PLAN_SUMMARY in summary_of(snapshot)
        if (snapshot.sequence_number or 0) > min(passes) and not appends and not ours:
            yield snapshot
            if parent:
                yield parent


def _sinks(summary: Mapping[str, str]) -> Iterator[str]:
    yield from (name for name in summary if name.startswith(OFFSETS_OF_CONNECT))
    for names in (FLINK, SPARK):
        if names[0] in summary:
            yield " ".join(f"{name}={summary.get(name, '')}" for name in names)
