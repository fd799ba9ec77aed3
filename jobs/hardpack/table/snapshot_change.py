"""What one snapshot did to each log: files that came and left, and rows that deletes took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Change:
    """What one snapshot did to one log. What it tells of all its files together is reckoned once."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    deleted: int | None
    """Rows that new row-level deletes take beside those that earlier ones took, None when they do not tell how many."""
    hidden: int = 0
    """Rows of the files that left which earlier deletes had taken, as far as these tell it."""
    emptied: frozenset[str] = frozenset()
    """Paths of the files that left of which one earlier delete file, whose bounds name it, had taken every row."""
    brings_mixed: bool = False
    """Whether the snapshot brought files of which nobody can tell the log."""

    @cached_property
    def in_trouble(self) -> bool:
        """Whether a file left whose bounds are not the log's."""
        return any(f.trouble for f in self.removed)

    @cached_property
    def since(self) -> int | None:
        """Sequence number of the commit that brought the oldest of the files that left; None where none did."""
        return min((f.file_sequence_number for f in self.removed), default=None)

    @cached_property
    def last(self) -> int:
        """The last offset of the files that left, of which there is at least one."""
        return max(f.max_offset for f in self.removed)

    @cached_property
    def is_no_larger(self) -> bool:
        """Whether rows came, and no more than left, as by a commit that says of itself that it changes no row."""
        return 0 < self._rows_came <= self._rows_left

    def rewrites(self, file: DataFile) -> bool:
        """Returns whether a file that came holds rows that were there before, as far as counts and bounds can tell.

        The rows of the files that came beside those that left must be no more than these, and lie within their offsets
        and times.

        Args:
            file: one of those that came.
        """
        if not self.removed:
            # an update that leaves the old rows' files in place names them in deletes
            return self.deleted is not None and self.deleted >= self._rows_came
        return file.min_offset <= self.last and file.max_offset >= self._first and self._keeps_rows

    @cached_property
    def may_bring_more(self) -> bool:
        """Whether a rewrite has more rows than were to be seen in the files that left, some of them hidden."""
        return bool(self.hidden) and sum(f.rows for f in self._beside) > self._rows_left - self.hidden

    @cached_property
    def grows(self) -> bool:
        """Whether rows that were there before stand in new files with some behind them, as a MERGE leaves them.

        They begin among the offsets of those that left and before these end in time, and no more came than there are
        offsets behind these. A topic that was made anew begins when the old one has ended.
        """
        if not self.removed or not self._first <= min(f.min_offset for f in self.added) <= self.last:
            return False
        first = min((f.min_timestamp for f in self.added if f.min_timestamp is not None), default=None)
        last = max((f.max_timestamp for f in self.removed if f.max_timestamp is not None), default=None)
        overlaps = last is None or (first is not None and first <= last)
        return overlaps and self._growth <= self._offsets_behind

    @cached_property
    def grows_behind(self) -> bool:
        """Whether as many rows came as there are offsets behind the files that left, so that none lies between."""
        return self._growth == self._offsets_behind

    @cached_property
    def _first(self) -> int:
        return min(f.min_offset for f in self.removed)

    @cached_property
    def _rows_came(self) -> int:
        return sum(f.rows for f in self.added)

    @cached_property
    def _rows_left(self) -> int:
        return sum(f.rows for f in self.removed)

    @cached_property
    def _growth(self) -> int:
        return self._rows_came - self._rows_left + self.hidden

    @cached_property
    def _offsets_behind(self) -> int:
        return max(f.max_offset for f in self.added) - self.last

    @cached_property
    def _beside(self) -> list[DataFile]:
        """The files that came among the offsets of those that left."""
        return [f for f in self.added if f.min_offset <= self.last and f.max_offset >= self._first]

    @cached_property
    def _keeps_rows(self) -> bool:
        return (
            all(self._first <= f.min_offset and f.max_offset <= self.last for f in self._beside)
            and sum(f.rows for f in self._beside) <= self._rows_left
            and _times_within(self._beside, self.removed)
        )


def _times_within(inside: Iterable[DataFile], removed: Iterable[DataFile]) -> bool:
    early = min((f.min_timestamp for f in removed if f.min_timestamp is not None), default=None)
    late = max((f.max_timestamp for f in removed if f.max_timestamp is not None), default=None)
    if early is None or late is None:
        return all(f.min_timestamp is None for f in inside)
    return all(
        (f.min_timestamp is None or f.min_timestamp >= early) and (f.max_timestamp is None or f.max_timestamp <= late)
        for f in inside
    )


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
    gone = {file.path.encode(): log for log, files in out.items() for file in files}
    before = [m for m in listed if m.content == ManifestContent.DELETES and m.added_snapshot_id != snapshot]
    deleted, (hidden, by_path) = _deleted(reader, deletes), _hidden(reader, deletes, before, gone)
    # rows that left with a file of which nobody can tell the log may have been of any
    left = [file.of_no_one_log() for file in out.pop(None, ())]
    mixed = bool(came.pop(None, ()))
    emptied = {
        log: frozenset(f.path for f in files if by_path[f.path.encode()] >= f.rows) for log, files in out.items()
    }
    return {
        log: Change(
            tuple(came.get(log, ())), (*out.get(log, ()), *left), _of_log(deleted, log), hidden.get(log, 0),
            emptied.get(log, frozenset()), mixed,
        )
        for log in {None, *came, *out, *deleted}
    }  # fmt: skip


def _deleted(reader: ManifestReader, deletes: Collection[ManifestEntry]) -> Counts:
    """Returns the rows that a snapshot's own deletes take; of equality deletes nobody tells how many."""
    counts = Counts()
    again = {_only_path(e.data_file) for e in deletes if e.status == ManifestEntryStatus.ADDED} - {None}
    for entry in deletes:
        file, came = entry.data_file, entry.status == ManifestEntryStatus.ADDED
        log = reader.named_log(file)
        before = counts.get(log, 0)
        if came:
            counted = file.content == DataFileContent.POSITION_DELETES and before is not None
            counts[log] = (before or 0) + file.record_count if counted else None
        elif entry.status != ManifestEntryStatus.DELETED or before is None:
            continue
        elif _is_vector(file) or _only_path(file) in again:
            # what comes in its place names its rows again
            counts[log] = before - file.record_count
    return counts


def _hidden(
    reader: ManifestReader,
    deletes: Collection[ManifestEntry],
    before: Iterable[ManifestFile],
    gone: Mapping[bytes, Partition | None],
) -> tuple[dict[Partition | None, int], Counter[bytes]]:
    """Returns the rows that earlier deletes had surely taken of data files that left, by log and by path.

    A deletion vector leaves with its file. Position deletes may stay, and tell whose they are if they are one file's.
    By path the rows of one delete file count alone, as two may name the same ones.

    Args:
        reader: the table's.
        deletes: what the snapshot did to deletes.
        before: manifests of earlier deletes, which stay.
        gone: by path the log of each data file that left.
    """
    hidden, by_path = defaultdict[Partition | None, int](int), Counter[bytes]()
    if not gone:
        return hidden, by_path
    left = [e.data_file for e in deletes if e.status == ManifestEntryStatus.DELETED]
    stay = [e.data_file for e in deletes if e.status == ManifestEntryStatus.EXISTING]
    stay += (file for manifest in before for file in reader.delete_files(manifest))
    alone = next(iter(gone.values())) if len(set(gone.values())) == 1 else None
    for file in (*left, *stay):
        if (path := _only_path(file)) is not None and path in gone:
            hidden[gone[path]] += file.record_count
            by_path[path] = max(by_path[path], file.record_count)
    for file in left:
        # where its bounds do not name the data file
        if _is_vector(file) and _only_path(file) is None:
            log = reader.named_log(file)
            hidden[alone if log is None else log] += file.record_count
    return hidden, by_path


def _is_vector(file: IceFile) -> bool:
    return file.file_format == FileFormat.PUFFIN


def _only_path(file: IceFile) -> bytes | None:
    """Returns the path of the one data file that position deletes are of; None where they are of several."""
    low, high = ((bounds or {}).get(DELETED_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    return low if low == high and file.content == DataFileContent.POSITION_DELETES else None


def _of_log(counts: Counts, log: Partition | None) -> int | None:
    """Returns the rows of a log; deletes that name no log may lie on any."""
    return counts.get(log, None if None in counts else 0)
