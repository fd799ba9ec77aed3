"""Which snapshots a table can do without: old ones by which no writer looks up how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.rules.times import DAY_MS, minus
from hardpack.table.columns import table_name
from hardpack.table.history import ancestors, is_hardpacks, is_split, summary_of
from hardpack.table.numeric_properties import whole_number

MAX_AGE = "history.expire.max-snapshot-age-ms"
MIN_KEPT = "history.expire.min-snapshots-to-keep"
SILENT_MS = 30 * DAY_MS
"""Time in ms: a writer without a commit for so long is taken to be gone."""
TOGETHER = (("flink.job-id", "flink.operator-id"), ("spark.sql.streaming.queryId",))
"""Entries by whose values Flink's committer and Spark's streaming write look up their last checkpoint or epoch."""
EVERYBODYS = frozenset(
    {"spark.app.id", "engine-name", "engine-version", "app-id", "iceberg-version", "environment-context"}
)
"""Entries that say which engine wrote a snapshot, and nothing of how far a writer is."""
ICEBERGS = ("added-", "deleted-", "removed-", "total-", "changed-", "manifests-", "entries-", "partitions.", "trino_")
"""Prefixes of the entries that count what a snapshot did (SnapshotSummary), and of like entries of engines."""
OTHERS = frozenset(
    {"partition-summaries-included", "replace-partitions", "wap.id", "published-wap-id", "source-snapshot-id"}
)


def expire_before(table: Table, now: int) -> int:
    """Returns the time from which on snapshots stay, ms since the epoch.

    Snapshots older than the table's own `history.expire.max-snapshot-age-ms` (Iceberg's default: five days) may expire,
    except

    - those that were the current snapshot at any time of the last day: a pass may be working from one;
    - the newest with each thing that a writer noted in a summary, as sinks do to know how far they are.

    Args:
        table: as pyiceberg loaded it.
        now: ms since the epoch.

    Raises:
        BadInput: the table's own age is no whole number.
    """
    bounds = [minus(now, whole_number(table_name(table), table.properties, MAX_AGE, 5 * DAY_MS))]
    bounds += [s.timestamp_ms for s in ancestors(table) if s.timestamp_ms <= now - DAY_MS][:1]
    bounds += [s.timestamp_ms for s in _last_of_each_writer(table, now)]
    return min(bounds)


def least_kept(table: Table) -> int:
    """Returns how many snapshots stay however old they are.

    Raises:
        BadInput: the table's property is no whole number above 0.
    """
    return whole_number(table_name(table), table.properties, MIN_KEPT, 1, least=1)


def _last_of_each_writer(table: Table, now: int) -> Iterator[Snapshot]:
    """Yields, for each thing that writers note in summaries, the newest snapshot that has it.

    Snapshots of all branches are searched, as a sink may commit to its own. Writers that are gone are left out.
    """
    seen: set[str] = set()
    for snapshot in sorted(table.snapshots(), key=lambda s: s.timestamp_ms, reverse=True):
        notes = set() if is_hardpacks(snapshot) or is_split(snapshot) else set(_notes(summary_of(snapshot)))
        if notes - seen and snapshot.timestamp_ms >= now - SILENT_MS:
            yield snapshot
        seen |= notes


def _notes(summary: Mapping[str, str]) -> Iterator[str]:
    """Yields what writers noted in a summary: an entry's name or, where several writers share it, name and value."""
    rest = set(summary)
    for names in TOGETHER:
        if names[0] in summary:
            yield " ".join(f"{name}={summary.get(name, '')}" for name in names)
        rest -= {name for name in rest if name.startswith(names[0].partition(".")[0] + ".")}
    yield from (n for n in rest - EVERYBODYS - OTHERS if not n.startswith(ICEBERGS))
