"""What one snapshot did to each log: files that came and left, and rows that deletes took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    hidden: int | None = 0
    """Rows of the files that left which earlier deletes had taken at most; None when nobody tells."""


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
    deletes = _Deletes(reader)
    for manifest in manifests:
        of_deletes, own = manifest.content == ManifestContent.DELETES, manifest.added_snapshot_id == snapshot
        if not own and not of_deletes:
            continue
        entries = manifest.fetch_manifest_entry(reader.io, discard_deleted=not own)
        if of_deletes:
            deletes.take(entries, own)
            continue
        reader.ask_footers(manifest, entries)
        for entry in (e for e in entries if e.data_file.record_count and e.status != ManifestEntryStatus.EXISTING):
            log, args = reader.placed(entry)
            (removed if entry.status == ManifestEntryStatus.DELETED else added).setdefault(log, []).append(args)
    came, out = built(added), built(removed)
    hidden = deletes.hidden([file.path.encode() for files in out.values() for file in files])
    # rows that left with a file of which nobody can tell the log may have been of any
    left = [file.of_no_one_log() for file in out.pop(None, ())]
    came.pop(None, None)
    deleted = deletes.deleted
    return {
        log: Change(tuple(came.get(log, ())), (*out.get(log, ()), *left), _of_log(deleted, log), _hidden(hidden, log))
        for log in {None, *came, *out, *deleted}
    }


class _Deletes:
    """The row-level deletes around a snapshot.

    Args:
        reader: the table's.
    """

    def __init__(self, reader: ManifestReader) -> None:
        self._reader = reader
        self.deleted = Counts()
        """Rows that the snapshot's own deletes take beside those that earlier ones took."""
        self._left, self._stay = list[IceFile](), list[IceFile]()

    def take(self, entries: Iterable[ManifestEntry], own: bool) -> None:
        """Takes the entries of a manifest.

        Args:
            entries: of delete files.
            own: whether the snapshot wrote it.
        """
        for entry in entries:
            file, came = entry.data_file, entry.status == ManifestEntryStatus.ADDED
            if not own or entry.status == ManifestEntryStatus.EXISTING:
                self._stay.append(file)
                continue
            # a deletion vector names again what the one in whose place it comes had named
            self._count(self.deleted, file, 1 if came else -1)
            if not came:
                self._left.append(file)

    def hidden(self, paths: Sequence[bytes]) -> Counts:
        """Returns the rows, at most, that earlier deletes had taken of data files that leave."""
        found = Counts()
        for file in (*self._left, *(f for f in self._stay if _may_lie_on(f, paths))):
            self._count(found, file)
        return found

    def _count(self, found: Counts, file: IceFile, sign: int = 1) -> None:
        """Adds the rows that a delete file names; of equality deletes nobody tells how many they take."""
        log = self._reader.named_log(file)
        before = found.get(log, 0)
        known = file.content == DataFileContent.POSITION_DELETES and before is not None
        found[log] = (before or 0) + sign * file.record_count if known else None


def _may_lie_on(file: IceFile, paths: Sequence[bytes]) -> bool:
    """Returns whether a delete file that stays may lie on some data files that leave; a deletion vector leaves too."""
    if file.file_format == FileFormat.PUFFIN:
        return False
    low, high = ((bounds or {}).get(DELETED_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None:
        return bool(paths)
    return any(low <= path and path[: len(high)] <= high for path in paths)


def _of_log(found: Counts, log: Partition | None) -> int | None:
    """Returns the rows of a log; deletes that name no log may lie on any."""
    return found.get(log, None if None in found else 0)


def _hidden(found: Counts, log: Partition | None) -> int | None:
    """Returns the most rows of a log that deletes can have taken, those counted that name no log."""
    own, of_any = found.get(log, 0), found.get(None, 0)
    return None if own is None or of_any is None else own + (of_any if log is not None else 0)
