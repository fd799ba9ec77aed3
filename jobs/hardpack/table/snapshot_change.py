"""What one snapshot did to each log: files that came and left, and rows that deletes took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus, ManifestFile

from hardpack.rules.model import DataFile, Partition
from hardpack.table.manifests import ManifestReader, built

Counts = dict[Partition | None, int | None]
"""Rows by log, None where nobody can tell how many; under None those of which nobody can tell the log."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one snapshot did to one log."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    deleted: int | None
    """Rows that new row-level deletes take beside those that earlier ones took, None when they do not tell how many."""
    hidden: int | None = 0
    """Rows of the log that earlier deletes had taken at most, which a rewrite leaves out; None when nobody tells."""


def change_of(
    reader: ManifestReader, manifests: Iterable[ManifestFile], snapshot: int
) -> dict[Partition | None, Change]:
    """Reads what a snapshot did to each log, under None to all that none of its files names.

    Args:
        reader: the table's.
        manifests: those that the snapshot's manifest list names.
        snapshot: its id.
    """
    added, removed = (dict[Partition | None, list[tuple[Any, ...]]]() for _ in range(2))
    deleted, hidden, before = Counts(), Counts(), []
    for manifest in manifests:
        if manifest.added_snapshot_id != snapshot:
            before += [manifest] if manifest.content == ManifestContent.DELETES else []
            continue
        entries = manifest.fetch_manifest_entry(reader.io, discard_deleted=False)
        reader.ask_footers(manifest, entries)
        for entry in entries:
            file, status = entry.data_file, entry.status
            if manifest.content == ManifestContent.DELETES:
                if status != ManifestEntryStatus.EXISTING:
                    # a deletion vector names again what the one in whose place it comes had named
                    _count(reader, deleted, file, 1 if status == ManifestEntryStatus.ADDED else -1)
                if status != ManifestEntryStatus.ADDED:
                    _count(reader, hidden, file)
            elif file.record_count and status in (ManifestEntryStatus.DELETED, ManifestEntryStatus.ADDED):
                log, args = reader.placed(entry)
                (removed if status == ManifestEntryStatus.DELETED else added).setdefault(log, []).append(args)
    for manifest in before if removed else ():
        for entry in manifest.fetch_manifest_entry(reader.io, discard_deleted=True):
            _count(reader, hidden, entry.data_file)
    came, out = built(added), built(removed)
    # rows that left with a file of which nobody can tell the log may have been of any
    left = [file.of_no_one_log() for file in out.pop(None, ())]
    came.pop(None, None)
    return {
        log: Change(tuple(came.get(log, ())), (*out.get(log, ()), *left), _of_log(deleted, log), _of_log(hidden, log))
        for log in {None, *came, *out, *deleted}
    }


def _count(reader: ManifestReader, found: Counts, file: IceFile, sign: int = 1) -> None:
    """Adds the rows that a delete file names; of equality deletes nobody tells how many they take."""
    log = reader.named_log(file)
    before = found.get(log, 0)
    known = file.content == DataFileContent.POSITION_DELETES and before is not None
    found[log] = (before or 0) + sign * file.record_count if known else None


def _of_log(found: Counts, log: Partition | None) -> int | None:
    """Returns the rows of a log; deletes that name no log may lie on any."""
    return found.get(log, None if None in found else 0)
