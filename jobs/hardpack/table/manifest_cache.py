"""What is remembered of tables' manifests from look to look, so that a look reads only new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyiceberg.table import Table

from hardpack.rules.model import DataFile, LogState, LogView, Partition
from hardpack.table.manifests import ManifestReader
from hardpack.table.snapshot_change import Change


@dataclass
class Remembered:
    """What is known of one table: per manifest its files by log, and the logs' views as they were last given."""

    reads: tuple[object, ...]
    manifests: dict[str, dict[Partition | None, list[DataFile]]] = field(default_factory=dict)
    views: dict[Partition, LogView] = field(default_factory=dict)
    states: dict[Partition, LogState] = field(default_factory=dict)
    """The state on record, by log, with which the log's view was made."""
    flagged: set[Partition | None] = field(default_factory=set)
    """The logs that row-level deletes may lie on; None stands for all logs."""
    changes: dict[int, Mapping[Partition | None, Change]] = field(default_factory=dict)
    """What snapshots did to each log, by the snapshot's id; of those that had to be looked up."""
    oldest: int | None = None
    """Sequence number of the oldest snapshot of the table's past that had not expired at the last look."""
    files: int = 0
    """How many data files are remembered in `manifests`."""
    all_files: int = 0
    """How many data files were remembered in `manifests` and `changes` when the last look ended."""

    @property
    def waiting(self) -> list[DataFile]:
        """The files that may hold rows of several logs and wait to be split."""
        return [f for by_log in self.manifests.values() for f in by_log.get(None, ())]

    def count(self) -> None:
        """Brings `all_files` up to date."""
        changes = (change for by_log in self.changes.values() for change in by_log.values())
        self.all_files = self.files + sum(len(change.added) + len(change.removed) for change in changes)

    def forget_expired(self, table: Table) -> None:
        """Forgets what expired snapshots did."""
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        for gone in self.changes.keys() - there:
            del self.changes[gone]


class ManifestCache:
    """What was read of tables' manifests. One thread at a time has what is remembered of a table.

    Args:
        most_files: how many data files are remembered, about a kilobyte each; once there are more, the tables that
            were looked at longest ago are forgotten.
    """

    def __init__(self, most_files: int = 2_000_000) -> None:
        self.most_files = most_files
        self._tables: dict[str, Remembered] = {}

    @contextmanager
    def lend(self, table: Table, reader: ManifestReader) -> Iterator[Remembered]:
        """Lends what is remembered of a table for one look, which brings it up to date.

        It is empty where this look reads other columns than the last one. It is also empty after a look that failed,
        which may have updated only half of it.
        """
        uuid = str(table.metadata.table_uuid)
        known = self._tables.pop(uuid, None)
        if known is None or known.reads != reader.reads:
            known = Remembered(reader.reads)
        known.forget_expired(table)
        yield known
        known.count()
        self._tables[uuid] = known
        self._forget()

    def _forget(self) -> None:
        """Forgets the tables looked at longest ago while there are too many files; the newest look always stays."""
        files = 0
        for uuid, known in reversed(self._tables.copy().items()):
            files += known.all_files
            if files > self.most_files and files > known.all_files:
                # a thread that reads that table may have taken it out
                self._tables.pop(uuid, None)
