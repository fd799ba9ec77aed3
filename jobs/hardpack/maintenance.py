"""Maintenance, so that reclaimed bytes leave the storage: retention, snapshots, orphans, key filters, manifests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from hardpack.lake.door import IceTable
from hardpack.lake.expiry import expire_before, least_kept
from hardpack.lake.key_filter import FOLDER, filter_name
from hardpack.lake.layout import settings_of, table_name
from hardpack.log.settings import NONE
from hardpack.report import MaintenanceReport
from hardpack.retention import apply_retention

if TYPE_CHECKING:
    from pyspark.sql import Row

MANY_MANIFESTS = 100
"""Iceberg merges manifests by itself from here on (commit.manifest.min-count-to-merge), where writers let it."""


def maintain(
    door: IceTable, table: Table, now: int, policy: Mapping[str, str] = NONE, dry_run: bool = False
) -> MaintenanceReport:
    """Free what the table no longer needs, each step by Iceberg's own procedure.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        now: ms since the epoch.
        policy: settings of the table's policy.
        dry_run: only say what is expired and which files are orphans.
    """
    started, name, settings = time.monotonic(), table_name(table), settings_of(table, policy)
    before = len(table.snapshots())
    if settings.maintenance == "off":
        said = ("maintenance is off for this table (setting maintenance)",)
        return MaintenanceReport(table=name, now=now, snapshots_before=before, snapshots_after=before, notes=said)
    notes: list[str] = []
    rows = 0
    if settings.deletes and not dry_run:
        rows = sum(log.retention for log in apply_retention(door, table, now, None, policy).logs)
        table.refresh()
    bound = expire_before(table, now)
    deleted = 0
    if not dry_run:
        counts = door.call("expire_snapshots", f"older_than => {_timestamp(bound)}, retain_last => {least_kept(table)}")
        deleted = sum(counts[0])
    orphans = _orphans(door, table, now - settings.orphan_age_ms, dry_run, notes)
    filters = 0 if dry_run else _stale_filters(door, table.refresh())
    manifests = len(table.current_snapshot().manifests(table.io)) if table.current_snapshot() else 0  # type: ignore[union-attr]  # asked for
    rewritten = 0
    if manifests >= MANY_MANIFESTS and not dry_run:
        rewritten = door.call("rewrite_manifests", "use_caching => false")[0]["rewritten_manifests_count"]
    return MaintenanceReport(
        table=name, now=now, seconds=round(time.monotonic() - started, 1), rows_past_retention=rows,
        snapshots_before=before, snapshots_after=len(table.refresh().snapshots()), expired_before=bound,
        files_deleted=deleted, orphans_deleted=len(orphans), filters_deleted=filters, manifests_rewritten=rewritten,
        notes=tuple(notes),
    )  # fmt: skip


def _orphans(door: IceTable, table: Table, older_than: int, dry_run: bool, notes: list[str]) -> list[Row]:
    """Files that no snapshot knows of, in the table's own data folder alone: others may share one that is elsewhere."""
    folder = f"{table.location().rstrip('/')}/data"
    if elsewhere := next((table.properties[p] for p in DATA_PATHS if p in table.properties), None):
        notes.append(f"orphans are not looked for: data lies in {elsewhere}, where other tables' may lie too")
        return []
    if table.current_snapshot() is None:
        return []
    arguments = (
        f"older_than => {_timestamp(older_than)}, location => '{quoted(folder)}', dry_run => {str(dry_run).lower()}"
    )
    return door.call("remove_orphan_files", arguments)


DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")


def _stale_filters(door: IceTable, table: Table) -> int:
    """Remove the key filters of files that are no longer in the table; how many."""
    files = table.inspect.data_files(None)["file_path"].to_pylist() if table.current_snapshot() else []
    kept = {filter_name(path) for path in files}
    stale = [p for p in door.listed(f"{table.location().rstrip('/')}/{FOLDER}") if p.rpartition("/")[2] not in kept]
    door.delete_files(stale)
    return len(stale)


def _timestamp(ms: int) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(ms / 1000, UTC).strftime('%Y-%m-%d %H:%M:%S.%f')} UTC'"


def quoted(text: str) -> str:
    """Text inside a literal of Spark's SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
