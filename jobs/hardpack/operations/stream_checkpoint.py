"""Reads from the checkpoint of a Spark stream how far the stream has read a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, LocalFileSystem
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput, Unavailable
from hardpack.operations.readers import Positions, logs_of
from hardpack.rules.model import Partition
from hardpack.rules.settings import Settings
from hardpack.table.history import ancestors, is_append, summary_of
from hardpack.table.manifests import ManifestReader
from hardpack.table.redaction import redacted


def checkpoint_positions(session: TableSession, path: str) -> Positions:
    """Returns for each log the offset before which a stream has read all rows that were appended.

    A stream counts in snapshots: rows of snapshots after the last that it has read, late rows too, it has not read.

    Args:
        session: the table's.
        path: of the checkpoint's folder, or its URI as Spark takes it.

    Raises:
        BadInput: there is no checkpoint of a stream that reads this table, or its snapshot is no longer kept.
        Unavailable: the storage does not answer.
    """
    lineage = {s.snapshot_id: s for s in ancestors(session.table)}
    shown = redacted(path)
    mine = [offset for offset in _offsets_in(path, shown) if offset["snapshot_id"] in lineage]
    if not mine:
        raise BadInput(
            f"{session.name}: the checkpoint {shown} tells of no kept snapshot of the table; mend its path, or keep "
            "snapshots longer (history.expire.max-snapshot-age-ms)."
        )
    # a stream may read the table by several sources; the one that is furthest back counts
    each = [_positions(session, _read_whole(lineage[o["snapshot_id"]], o, lineage)) for o in mine]
    return Positions(f"checkpoint {shown}", {log: min(own[log] for own in each) for log in each[0]})


def _offsets_in(path: str, shown: str) -> list[dict[str, Any]]:
    """Returns the offsets up to which a stream's last finished batch has read each of its Iceberg sources."""
    try:
        system, root = _opened(path)
        names = (file.base_name for file in system.get_file_info(FileSelector(f"{root}/commits")))
        batch = max(int(name) for name in names if name.isdecimal())
        with system.open_input_stream(f"{root}/offsets/{batch}") as stream:
            lines = stream.read().decode().splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
    except (FileNotFoundError, ValueError, RecursionError, pa.ArrowException):
        raise BadInput(
            f"{shown} is no checkpoint of a Spark stream that has finished a batch; mend its path."
        ) from None
    except OSError as error:
        raise Unavailable(f"{shown}: the storage does not answer ({redacted(str(error))}); try again.") from None
    return [one for one in entries if isinstance(one.get("snapshot_id"), int) and isinstance(one.get("position"), int)]


def _opened(path: str) -> tuple[FileSystem, str]:
    """Returns the file system and the path of a folder that Spark names; Hadoop's s3a and s3n are Arrow's `s3`."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return LocalFileSystem(), path
    if scheme == "file":
        return LocalFileSystem(), "/" + rest.lstrip("/")
    opened: tuple[FileSystem, str] = FileSystem.from_uri(f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}")
    return opened


def _read_whole(last: Snapshot, offset: Mapping[str, Any], lineage: Mapping[int, Snapshot]) -> Snapshot | None:
    """Returns the last snapshot that a stream has read completely; None when there is none.

    Args:
        last: the snapshot that the stream read last, perhaps in part.
        offset: the stream's offset in it: `position` counts files, `scan_all_files` tells if it reads older ones too.
        lineage: the kept snapshots of the table's history, by id.
    """
    all_files = bool(offset.get("scan_all_files"))
    files = summary_of(last).get("total-data-files" if all_files else "added-data-files")
    if files is not None and offset["position"] >= int(files):
        return last
    return None if all_files else lineage.get(last.parent_snapshot_id or 0)


def _positions(session: TableSession, read: Snapshot | None) -> dict[str, int]:
    """Returns for each log the offset before which all appended rows are of snapshots up to `read`; 0 without one."""
    views = logs_of(session)
    if read is None:
        return {view.name: 0 for view in views}
    at = {view.name: view.log_end for view in views}
    for log, offset in _unread(session.table, session.settings, read):
        for name in at if log is None else [str(log)]:
            at[name] = min(at.get(name, offset), offset)
    return at


def _unread(table: Table, settings: Settings, read: Snapshot) -> Iterator[tuple[Partition | None, int]]:
    """Yields log and least offset of each data file that was appended after a snapshot; a mixed file's log is None."""
    reader = ManifestReader(table, settings)
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == read.snapshot_id:
            return
        if not is_append(snapshot):
            continue
        own_manifests = [m for m in snapshot.manifests(table.io) if m.added_snapshot_id == snapshot.snapshot_id]
        for by_log in reader.files([m for m in own_manifests if m.content == ManifestContent.DATA]).values():
            for log, files in by_log.items():
                yield from ((log, f.min_offset) for f in files if f.added_by == snapshot.snapshot_id)
