"""How far a Spark stream that reads a table has come, told by its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyarrow.fs import FileSelector, FileSystem, LocalFileSystem
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.operations.readers import Positions
from hardpack.rules.model import Partition
from hardpack.rules.settings import Settings
from hardpack.table.history import ancestors, is_append, summary_of
from hardpack.table.log_views import read_logs
from hardpack.table.manifests import ManifestReader


def checkpoint_positions(session: TableSession, path: str) -> Positions:
    """Returns the offset of each log up to which a stream has read all that was appended.

    A stream counts in snapshots. What came after the last one that it has read, late rows too, it has not seen.

    Args:
        session: the table's.
        path: of the checkpoint's folder, or its URI.

    Raises:
        BadInput: there is no checkpoint of a stream that reads this table, or its snapshot is no longer kept.
    """
    table, settings = session.table, session.checked_settings()
    lineage = {s.snapshot_id: s for s in ancestors(table)}
    mine = next((offset for offset in _told_by(path) if offset["snapshot_id"] in lineage), None)
    if mine is None:
        raise BadInput(
            f"{session.name}: the checkpoint {path} tells of no kept snapshot of the table; mend its path, or keep "
            "snapshots longer (history.expire.max-snapshot-age-ms)."
        )
    read = _read_whole(lineage[mine["snapshot_id"]], mine, lineage)
    return Positions(f"checkpoint {path}", _positions(table, settings, read))


def _told_by(path: str) -> list[dict[str, Any]]:
    """Returns the offsets of Iceberg's sources that the last finished batch of a stream went to."""
    try:
        system, root = FileSystem.from_uri(path) if "://" in path else (LocalFileSystem(), path)
        names = (file.base_name for file in system.get_file_info(FileSelector(f"{root}/commits")))
        batch = max(int(name) for name in names if name.isdecimal())
        with system.open_input_stream(f"{root}/offsets/{batch}") as stream:
            lines = stream.read().decode().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
    except (OSError, ValueError):
        raise BadInput(f"{path} is no checkpoint of a Spark stream that has finished a batch; mend its path.") from None
    return [one for one in found if isinstance(one.get("snapshot_id"), int) and isinstance(one.get("position"), int)]


def _read_whole(last: Snapshot, told: Mapping[str, Any], lineage: Mapping[int, Snapshot]) -> Snapshot | None:
    """Returns the last snapshot of which a stream has read all files that it reads of it, None for none."""
    all_files = bool(told.get("scan_all_files"))
    files = int(summary_of(last).get("total-data-files" if all_files else "added-data-files", "0"))
    if told["position"] >= files:
        return last
    return None if all_files else lineage.get(last.parent_snapshot_id or 0)


def _positions(table: Table, settings: Settings, read: Snapshot | None) -> dict[str, int]:
    ends = {str(view.partition): 0 for view in read_logs(table, settings)}
    if read is None:
        return ends
    for view in read_logs(table, settings, read.snapshot_id):
        # what the state says of the log's end may be of later rows
        ends[str(view.partition)] = view.segments[-1].last_offset + 1 if view.segments else 0
    for log, offset in _came_after(table, settings, read):
        ends[str(log)] = min(ends.get(str(log), 0), offset)
    return ends


def _came_after(table: Table, settings: Settings, read: Snapshot) -> Iterator[tuple[Partition, int]]:
    """Yields the least offset of what each later append brought to each log."""
    reader = ManifestReader(table, settings)
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == read.snapshot_id:
            return
        if is_append(snapshot):
            for log, change in reader.change(snapshot.manifests(table.io), snapshot.snapshot_id).items():
                if log is not None and change.added:
                    yield log, min(file.min_offset for file in change.added)
