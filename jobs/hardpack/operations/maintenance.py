"""Maintenance, so that reclaimed bytes leave the storage: retention, snapshots, orphans, key filters, manifests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from pyiceberg.table import Table

from hardpack.compaction.report import MaintenanceReport
from hardpack.compaction.retention import apply_retention
from hardpack.compaction.session import TableSession
from hardpack.files.key_filter import FOLDER, filter_name
from hardpack.operations.pause import remember
from hardpack.rules.settings import Settings
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.columns import table_name
from hardpack.table.footers import FOLDER as FOOTERS
from hardpack.table.footers import footers_name
from hardpack.table.history import summary_of
from hardpack.table.numeric_properties import whole_number
from hardpack.table.packing import FOLDER as PASSES
from hardpack.table.packing import files_named
from hardpack.table.places import inside, shared, why_not
from hardpack.table.snapshot_expiry import expire_before, least_kept
from hardpack.table.table_files import manifests_of, table_files

DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
FILTER = re.compile(r"[0-9a-f]{32}\.parquet")
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
OF_A_COMMIT = re.compile(rf"(?:snap-\d+-\d+-(?P<list>{UUID})|(?P<manifest>{UUID})-m\d+)\.avro")
"""Names that Iceberg gives to the manifests and manifest list of one try to commit; others may be of staged commits."""
KEPT_FOOTERS = re.compile(r"[0-9a-f]{32}\.footers")
MANY_MANIFESTS = 100
"""Iceberg merges manifests by itself from here on (commit.manifest.min-count-to-merge), where writers let it."""


def maintain(
    session: TableSession, now: int, others: Mapping[str, str], allowed: Sequence[str], dry_run: bool = False
) -> MaintenanceReport:
    """Expires and deletes what the table no longer needs. No file outside the table's own location is deleted.

    Args:
        session: the table's.
        now: ms since the epoch.
        others: locations of the catalog's other tables, by name; nothing is deleted where two tables share a place.
        allowed: folders of which one must hold the table's location, see `hardpack.table.catalog.allowed_places`.
        dry_run: only say how many snapshots could expire and which files are orphans.
    """
    started, name, table, settings = time.monotonic(), session.name, session.table, session.settings
    jvm = session.jvm
    before, bound = len(table.snapshots()), expire_before(table, now)
    done = MaintenanceReport(
        table=name, now=now, dry_run=dry_run, snapshots_before=before, snapshots_after=before, expired_before=bound
    )
    rows = 0
    if settings.deletes:
        rows = sum(log.retention for log in apply_retention(session, now, None, dry_run).logs)
        table.refresh()
    done = done.model_copy(update={"rows_past_retention": 0 if dry_run else rows})
    would = [f"{rows:,} rows are past their retention"] if dry_run and settings.deletes else []
    if reason := _left_alone(table, settings, others, allowed):
        return done.model_copy(update={"notes": (*would, reason)})
    if dry_run:
        orphans, notes = _orphans(jvm, table, now - settings.orphan_age_ms, dry_run)
        old = sum(s.timestamp_ms < bound for s in table.snapshots())
        notes += [f"{old} snapshots are older than the bound", *(f"orphan: {path}" for path in orphans)]
        return done.model_copy(update={"notes": (*notes, *would)})
    # the states keep what snapshots tell of unseen rows, before these snapshots expire
    remember(session, now)
    own = table.location()
    deleted, left = jvm.expire_snapshots(bound, least_kept(table), lambda path: inside(path, own))
    orphans, notes = _orphans(jvm, table.refresh(), now - settings.orphan_age_ms, dry_run)
    filters = (
        _stale_filters(jvm, table)
        + _stale_footers(jvm, table)
        + _stale_passes(jvm, table, now - settings.orphan_age_ms)
    )
    manifests = _rewrite_manifests(jvm, table)
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
    """Returns why nothing of the table may be deleted; empty when it may."""
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


def _orphans(jvm: JvmTable, table: Table, older_than: int, dry_run: bool) -> tuple[list[str], list[str]]:
    """Deletes the files that no snapshot references; returns their paths, and why some were not looked for.

    A dry run only returns them. Only the table's own folders of data and metadata are searched.
    """
    if elsewhere := next((table.properties[p] for p in DATA_PATHS if p in table.properties), None):
        left = f"orphans are not looked for: data lies in {elsewhere}, where other tables' may lie too"
        return _orphan_manifests(jvm, table, older_than, dry_run), [left]
    if table.current_snapshot() is None:
        return [], []
    folder = f"{table.location().rstrip('/')}/data"
    orphans = jvm.orphans(folder, _timestamp(older_than), dry_run)
    return orphans + _orphan_manifests(jvm, table, older_than, dry_run), []


def _orphan_manifests(jvm: JvmTable, table: Table, older_than: int, dry_run: bool) -> list[str]:
    """Deletes manifests of tries to commit that became no snapshot; returns their paths. A dry run only returns them.

    A process that dies between two tries leaves such manifests behind.
    """
    if "write.metadata.path" in table.properties:
        return []
    folder = f"{table.location().rstrip('/')}/metadata"
    in_use = {m.manifest_path.rpartition("/")[2] for m in manifests_of(table)}
    commits = {commit for s in table.snapshots() if (commit := _commit(s.manifest_list))}
    # a listing may spell the folder differently from the table (file:/ for file:///)
    suspects = {
        f"{folder}/{name}": made_at
        for path, made_at in jvm.listed(f"{folder}/").items()
        if made_at < older_than
        and (commit := _commit(path))
        and commit not in commits
        and (name := path.rpartition("/")[2]) not in in_use
    }
    # older snapshots may still need a suspect; Iceberg deletes only what no snapshot references
    return jvm.orphans_among(suspects, _timestamp(older_than), dry_run) if suspects else []


def _commit(path: str) -> str:
    """Returns the id of the try to commit that wrote a manifest or manifest list; empty for any other file."""
    folder, _, name = path.rpartition("/")
    named = OF_A_COMMIT.fullmatch(name) if folder.endswith("/metadata") else None
    return (named["list"] or named["manifest"]) if named else ""


def _stale_filters(jvm: JvmTable, table: Table) -> int:
    """Deletes the key filters of files that are no longer in the table; returns how many."""
    named = {filter_name(file.file_path) for file in table_files(table)}
    return _delete_unnamed(jvm, table, FOLDER, lambda name, _: name not in named and bool(FILTER.fullmatch(name)))


def _stale_footers(jvm: JvmTable, table: Table) -> int:
    """Deletes kept footers that belong to manifests which the table no longer has; returns how many files."""
    named = {footers_name(m.manifest_path) for m in manifests_of(table)}
    return _delete_unnamed(
        jvm, table, FOOTERS, lambda name, _: name not in named and bool(KEPT_FOOTERS.fullmatch(name))
    )


def _stale_passes(jvm: JvmTable, table: Table, older_than: int) -> int:
    """Deletes files that passes wrote beside the table and that no snapshot's summary names; returns how many.

    Files made at `older_than`, ms, or later stay.
    """
    named = files_named(text for snapshot in table.snapshots() for text in summary_of(snapshot).values())
    return _delete_unnamed(jvm, table, PASSES, lambda name, made_at: name not in named and made_at < older_than)


def _delete_unnamed(jvm: JvmTable, table: Table, folder: str, stale: Callable[[str, int], bool]) -> int:
    """Deletes the files of a folder beside the table that are stale by name and time, ms; returns how many."""
    listed = jvm.listed(f"{table.location().rstrip('/')}/{folder}/")
    gone = [path for path, made_at in listed.items() if stale(path.rpartition("/")[2], made_at)]
    jvm.delete_files(gone)
    return len(gone)


def _rewrite_manifests(jvm: JvmTable, table: Table) -> int:
    """Rewrites many small manifests into few, when the table has many; returns how many were rewritten."""
    lengths = [m.manifest_length for m in manifests_of(table)]
    size = "commit.manifest.target-size-bytes"
    target = whole_number(table_name(table), table.properties, size, 8 * 1024 * 1024, least=1)
    if len(lengths) < MANY_MANIFESTS or sum(lengths) > len(lengths) * target // 4:
        return 0
    return jvm.rewrite_manifests()


def _timestamp(ms: int) -> str:
    """Returns a time, ms, as a timestamp in Spark's SQL; a time before the epoch becomes the epoch."""
    ms = max(0, ms)
    return f"TIMESTAMP '{datetime.fromtimestamp(ms / 1000, UTC).strftime('%Y-%m-%d %H:%M:%S.%f')} UTC'"
