"""Maintenance, so that reclaimed bytes leave the storage: retention, snapshots, orphans, key filters, manifests."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyiceberg.table import Table

from hardpack.control import remember
from hardpack.lake.door import IceTable
from hardpack.lake.expiry import expire_before, least_kept
from hardpack.lake.history import summary_of
from hardpack.lake.key_filter import FOLDER, filter_name
from hardpack.lake.layout import settings_of, table_name
from hardpack.lake.manifests import table_files
from hardpack.lake.numbers import whole_number
from hardpack.lake.packing import FOLDER as PASSES
from hardpack.lake.packing import files_named
from hardpack.lake.places import inside, shared, why_not
from hardpack.lake.sensing import read_logs
from hardpack.log.retention import expired_segments
from hardpack.log.selection import left_alone
from hardpack.log.settings import NONE, Settings
from hardpack.report import MaintenanceReport
from hardpack.retention import apply_retention

DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
FILTER = re.compile(r"[0-9a-f]{32}\.parquet")
MANY_MANIFESTS = 100
"""Iceberg merges manifests by itself from here on (commit.manifest.min-count-to-merge), where writers let it."""


def maintain(
    door: IceTable,
    table: Table,
    now: int,
    others: Mapping[str, str],
    allowed: Sequence[str],
    policy: Mapping[str, str] = NONE,
    dry_run: bool = False,
) -> MaintenanceReport:
    """Free what the table no longer needs. No file outside the table's own location is deleted.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        now: ms since the epoch.
        others: where the other tables of the catalog lie, by name; nothing is deleted where two share a place.
        allowed: folders of which one must hold the table's location, see `hardpack.lake.catalog.allowed_places`.
        policy: settings of the table's policy.
        dry_run: only say how many snapshots could go and which files are orphans.
    """
    started, name, settings = time.monotonic(), table_name(table), settings_of(table, policy)
    before, bound = len(table.snapshots()), expire_before(table, now)
    done = MaintenanceReport(
        table=name, now=now, dry_run=dry_run, snapshots_before=before, snapshots_after=before, expired_before=bound
    )
    rows = 0
    if settings.deletes and not dry_run:
        rows = sum(log.retention for log in apply_retention(door, table, now, None, policy).logs)
        table.refresh()
    done = done.model_copy(update={"rows_past_retention": rows})
    if reason := _left_alone(table, settings, others, allowed):
        return done.model_copy(update={"notes": (reason,)})
    if dry_run:
        orphans, notes = _orphans(door, table, now - settings.orphan_age_ms, dry_run)
        old = sum(s.timestamp_ms < bound for s in table.snapshots())
        notes += [f"{old} snapshots are older than the bound", *(f"orphan: {path}" for path in orphans)]
        if settings.deletes:
            notes.append(f"{_past_retention(table, settings, now):,} rows are past their retention")
        return done.model_copy(update={"notes": tuple(notes)})
    # what history tells is kept before it expires
    remember(table, policy, lambda: door)
    own = table.location()
    deleted, left = door.expire_snapshots(bound, least_kept(table), lambda path: inside(path, own))
    orphans, notes = _orphans(door, table.refresh(), now - settings.orphan_age_ms, dry_run)
    filters = _stale_filters(door, table) + _stale_passes(door, table, now - settings.orphan_age_ms)
    manifests = _rewrite_manifests(door, table)
    if left:
        notes.append(f"{left} expired files stay, as they lie outside the table's location {own}")
    return done.model_copy(
        update={
            "seconds": round(time.monotonic() - started, 1),
            "snapshots_after": len(table.refresh().snapshots()), "files_deleted": deleted,
            "orphans_deleted": len(orphans), "filters_deleted": filters, "manifests_rewritten": manifests,
            "notes": tuple(notes),
        }
    )  # fmt: skip


def _left_alone(table: Table, settings: Settings, others: Mapping[str, str], allowed: Sequence[str]) -> str:
    """Why nothing of the table may be deleted; empty when it may."""
    if settings.maintenance == "off":
        return "maintenance is off for this table (setting maintenance)"
    if table.properties.get("gc.enabled", "true").lower() == "false":
        return "gc.enabled is false: other tables may use this one's files"
    if reason := why_not(table.location(), allowed):
        return reason
    for name, location in others.items():
        if shared(table.location(), location):
            return f"its files lie where those of {name} lie ({location}), which may need them"
    return ""


def _orphans(door: IceTable, table: Table, older_than: int, dry_run: bool) -> tuple[list[str], list[str]]:
    """Files that no snapshot knows of, in the table's own data folder alone, and why they were not looked for."""
    if elsewhere := next((table.properties[p] for p in DATA_PATHS if p in table.properties), None):
        return [], [f"orphans are not looked for: data lies in {elsewhere}, where other tables' may lie too"]
    if table.current_snapshot() is None:
        return [], []
    folder = f"{table.location().rstrip('/')}/data"
    return door.orphans(folder, _timestamp(older_than), dry_run), []


def _stale_filters(door: IceTable, table: Table) -> int:
    """Remove the key filters of files that are no longer in the table; how many."""
    kept = {filter_name(file.file_path) for file in table_files(table)}
    listed = door.listed(f"{table.location().rstrip('/')}/{FOLDER}/")
    stale = [p for p in listed if (name := p.rpartition("/")[2]) not in kept and FILTER.fullmatch(name)]
    door.delete_files(stale)
    return len(stale)


def _stale_passes(door: IceTable, table: Table, older_than: int) -> int:
    """Remove what passes wrote beside the table and no snapshot's summary names any more; how many files."""
    kept = files_named(text for snapshot in table.snapshots() for text in summary_of(snapshot).values())
    listed = door.listed(f"{table.location().rstrip('/')}/{PASSES}/")
    stale = [path for path, made in listed.items() if made < older_than and path.rpartition("/")[2] not in kept]
    door.delete_files(stale)
    return len(stale)


def _rewrite_manifests(door: IceTable, table: Table) -> int:
    """Put many small manifests into few; how many were rewritten."""
    snapshot = table.current_snapshot()
    lengths = [m.manifest_length for m in snapshot.manifests(table.io)] if snapshot else []
    size = "commit.manifest.target-size-bytes"
    target = whole_number(table_name(table), table.properties, size, 8 * 1024 * 1024, least=1)
    if len(lengths) < MANY_MANIFESTS or sum(lengths) > len(lengths) * target // 4:
        return 0
    return int(door.call("rewrite_manifests", "use_caching => false")[0]["rewritten_manifests_count"])


def _past_retention(table: Table, settings: Settings, now: int) -> int:
    views = [view for view in read_logs(table, settings) if not left_alone(view)]
    gone = (s for view in views for s in expired_segments(view, settings, now).deleted)
    return sum(f.rows for s in gone for f in s.files)


def _timestamp(ms: int) -> str:
    """A time in Spark's SQL, none earlier than the epoch."""
    ms = max(0, ms)
    return f"TIMESTAMP '{datetime.fromtimestamp(ms / 1000, UTC).strftime('%Y-%m-%d %H:%M:%S.%f')} UTC'"
