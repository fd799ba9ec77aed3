"""What one snapshot did to each log: data files that it added and removed, and rows that its deletes took."""

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
"""Numbers of rows by log, None where the number is unknown. Under None are the rows whose log is unknown."""


@dataclass(frozen=True)
class Change:
    """What one snapshot did to one log. Figures over all of its files are computed once."""

    added: tuple[DataFile, ...]
    """The log's data files that the snapshot added."""
    removed: tuple[DataFile, ...]
    """The log's data files that it removed, and all mixed ones, marked by `DataFile.of_no_one_log`."""
    deleted: int | None
    """Rows that its row-level deletes take beside those that earlier ones took; None when they do not tell how many."""
    hidden: int = 0
    """Rows of the removed files that earlier deletes had taken, as far as these tell."""
    emptied: frozenset[str] = frozenset()
    """Paths of removed files of which one earlier delete file had taken every row; its bounds name that data file."""
    brings_mixed: bool = False
    """Whether the snapshot added mixed files, which may hold rows of this log too."""

    @cached_property
    def in_trouble(self) -> bool:
        """Whether the bounds of a removed file are not the log's, as those of a mixed one; see `DataFile.trouble`."""
        return any(f.trouble for f in self.removed)

    @cached_property
    def since(self) -> int | None:
        """Sequence number of the commit that brought the oldest of the removed files; None where there are none."""
        return min((f.file_sequence_number for f in self.removed), default=None)

    @cached_property
    def last(self) -> int:
        """The greatest offset of the removed files, of which there must be at least one."""
        return max(f.max_offset for f in self.removed)

    @cached_property
    def is_no_larger(self) -> bool:
        """Whether rows were added, and no more than were removed, as by a `replace` commit, which changes no row."""
        return 0 < self._rows_came <= self._rows_left

    def rewrites(self, file: DataFile) -> bool:
        """Returns whether an added file holds rows that were there before, as far as counts and bounds can tell.

        It must overlap the removed files in offsets. All added files that do so must hold no more rows than the removed
        ones, and lie within their offsets and times. Where no file was removed, deletes must take as many rows as came.

        Args:
            file: one of the added files.
        """
        if not self.removed:
            # a merge-on-read update leaves the old rows' files in place and takes these rows by deletes
            return self.deleted is not None and self.deleted >= self._rows_came
        return file.min_offset <= self.last and file.max_offset >= self._first and self._keeps_rows

    @cached_property
    def may_bring_more(self) -> bool:
        """Whether a rewrite has more rows than could be seen in the removed files, of which deletes had hidden some."""
        return bool(self.hidden) and sum(f.rows for f in self._beside) > self._rows_left - self.hidden

    @cached_property
    def grows(self) -> bool:
        """Whether the added files may hold the old rows and new ones behind them, as a MERGE leaves them.

        The added files must begin among the removed files' offsets, and before these end in time: a topic that was made
        anew begins when the old one has ended. No more rows may come beyond the old ones than there are offsets behind.
        """
        if not self.removed or not self._first <= min(f.min_offset for f in self.added) <= self.last:
            return False
        first = min((f.min_timestamp for f in self.added if f.min_timestamp is not None), default=None)
        last = max((f.max_timestamp for f in self.removed if f.max_timestamp is not None), default=None)
        overlaps = last is None or (first is not None and first <= last)
        return overlaps and self._growth <= self._offsets_behind

    @cached_property
    def grows_behind(self) -> bool:
        """Whether as many rows came beyond the old ones as there are offsets behind, so that none lies between."""
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
        """Rows that were added beyond those that could be seen in the removed files."""
        return self._rows_came - self._rows_left + self.hidden

    @cached_property
    def _offsets_behind(self) -> int:
        """How many offsets lie behind the removed files, up to the end of the added ones."""
        return max(f.max_offset for f in self.added) - self.last

    @cached_property
    def _beside(self) -> list[DataFile]:
        """The added files whose offsets overlap those of the removed files."""
        return [f for f in self.added if f.min_offset <= self.last and f.max_offset >= self._first]

    @cached_property
    def _keeps_rows(self) -> bool:
        """Whether the added files beside the removed ones hold no more rows, within their offsets and times."""
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
    """Reads what a snapshot did to each log; under None, what it did to every log that none of its files names.

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
    # a removed mixed file may have held rows of any log
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
    """Returns by log the rows that a snapshot's own deletes take; None for equality deletes, which do not tell."""
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
            # the delete file that comes in its place names its rows again
            counts[log] = before - file.record_count
    return counts


def _hidden(
    reader: ManifestReader,
    deletes: Collection[ManifestEntry],
    before: Iterable[ManifestFile],
    gone: Mapping[bytes, Partition | None],
) -> tuple[dict[Partition | None, int], Counter[bytes]]:
    """Returns the rows that earlier deletes had surely taken of removed data files, by log and by path.

    A deletion vector leaves with its data file. Position deletes may stay; they count where their bounds name one of
    the removed files. By path only the delete file with the most rows counts, as two may name the same rows.

    Args:
        reader: the table's.
        deletes: entries of delete files in the manifests that the snapshot wrote.
        before: manifests of earlier deletes, which stay.
        gone: by path the log of each removed data file.
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
        # a vector whose bounds do not name its data file counts by log, and not by path
        if _is_vector(file) and _only_path(file) is None:
            log = reader.named_log(file)
            hidden[alone if log is None else log] += file.record_count
    return hidden, by_path


def _is_vector(file: IceFile) -> bool:
    return file.file_format == FileFormat.PUFFIN


def _only_path(file: IceFile) -> bytes | None:
    """Returns the path of the one data file that position deletes lie on; None where they may lie on several."""
    low, high = ((bounds or {}).get(DELETED_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    return low if low == high and file.content == DataFileContent.POSITION_DELETES else None


def _of_log(counts: Counts, log: Partition | None) -> int | None:
    """Returns a log's number of rows; None where it has no entry and deletes that name no log may lie on it."""
    return counts.get(log, None if None in counts else 0)
