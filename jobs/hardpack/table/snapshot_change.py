"""What one snapshot did to each log: files that came and left, and rows that deletes took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)

from hardpack.rules.model import DataFile, Partition
from hardpack.table.manifests import ManifestReader, built

DELETED_PATH = 2147483546
"""Field id that the spec reserves for the path of the data file, in a file of position deletes."""
Counts = dict[Partition | None, int | None]
"""Rows by log, None where nobody can tell how many; under None those of which nobody can tell the log."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one snapshot did to one log."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    deleted: int | None
    """Rows that new row-level deletes take beside those that earlier ones took, None when they do not tell how many."""
    hidden: int = 0
    """Rows of the files that left which earlier deletes had taken, as far as these tell it."""


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
    listed, deletes = list(manifests), list[ManifestEntry]()
    for manifest in (m for m in listed if m.added_snapshot_id == snapshot):
        entries = manifest.fetch_manifest_entry(reader.io, discard_deleted=False)
        if manifest.content == ManifestContent.DELETES:
            deletes += entries
            continue
        reader.ask_footers(manifest, entries)
        for entry in (e for e in entries if e.data_file.record_count and e.status != ManifestEntryStatus.EXISTING):
            log, args = reader.placed(entry)
            (removed if entry.status == ManifestEntryStatus.DELETED else added).setdefault(log, []).append(args)
    came, out = built(added), built(removed)
    gone = {file.path.encode() for files in out.values() for file in files}
    before = [m for m in listed if m.content == ManifestContent.DELETES and m.added_snapshot_id != snapshot]
    deleted, hidden = _deleted(reader, deletes), _hidden(reader, deletes, before, gone) if gone else {}
    # rows that left with a file of which nobody can tell the log may have been of any
    left = [file.of_no_one_log() for file in out.pop(None, ())]
    came.pop(None, None)
    return {
        log: Change(tuple(came.get(log, ())), (*out.get(log, ()), *left), _of_log(deleted, log), hidden.get(log, 0))
        for log in {None, *came, *out, *deleted}
    }


def _deleted(reader: ManifestReader, deletes: Iterable[ManifestEntry]) -> Counts:
    """Returns the rows that a snapshot's own deletes take; of equality deletes nobody tells how many."""
    found = Counts()
    for entry in deletes:
        file, came = entry.data_file, entry.status == ManifestEntryStatus.ADDED
        log = reader.named_log(file)
        before = found.get(log, 0)
        if came:
            known = file.content == DataFileContent.POSITION_DELETES and before is not None
            found[log] = (before or 0) + file.record_count if known else None
        elif entry.status == ManifestEntryStatus.DELETED and _is_vector(file) and before is not None:
            # the vector that comes in its place names its rows again
            found[log] = before - file.record_count
    return found


def _hidden(
    reader: ManifestReader, deletes: Iterable[ManifestEntry], before: Iterable[ManifestFile], gone: Collection[bytes]
) -> dict[Partition | None, int]:
    """Returns the rows that earlier deletes had surely taken of data files that left.

    A deletion vector leaves with its file. Position deletes stay, and tell whose they are if they are one file's.
    """
    left = [e.data_file for e in deletes if e.status == ManifestEntryStatus.DELETED and _is_vector(e.data_file)]
    stay = [e.data_file for e in deletes if e.status == ManifestEntryStatus.EXISTING]
    stay += (file for manifest in before for file in reader.delete_files(manifest))
    found = defaultdict[Partition | None, int](int)
    for file in (*left, *(f for f in stay if _only_path(f) in gone)):
        found[reader.named_log(file)] += file.record_count
    return found


def _is_vector(file: IceFile) -> bool:
    return file.file_format == FileFormat.PUFFIN


def _only_path(file: IceFile) -> bytes | None:
    """Returns the path of the one data file that position deletes are of; None where they are of several."""
    low, high = ((bounds or {}).get(DELETED_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    return low if low == high and file.content == DataFileContent.POSITION_DELETES else None


def _of_log(found: Counts, log: Partition | None) -> int | None:
    """Returns the rows of a log; deletes that name no log may lie on any."""
    return found.get(log, None if None in found else 0)
