"""What the check of a run passes over: of a large log's clean part, as the pass left it alone, all but a sample.

A file that stands unchanged before and after a pass adds the same rows to both sides. Without it every account of the
other rows holds as before; only whether its own rows should have gone is not looked at.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

from hardpack.compaction.report import PassReport
from hardpack.rules.model import DataFile, LogView
from hardpack.table.history import commits


@dataclass(frozen=True, slots=True)
class Settled:
    """The part of a log whose rows superseded each other already when its last pass began."""

    below: int
    """The checkpoint before the last pass."""
    read: int
    """Sequence number up to which the pass before that one had read files."""
    made: int
    """Sequence number of the files that it made."""

    @classmethod
    def of(cls, table: Table, checkpoint: int | None, base: int | None, made: int) -> Settled | None:
        """Returns what a pass had settled; None where nobody can tell any more.

        Args:
            table: as pyiceberg loaded it.
            checkpoint: the log's, as that pass left it.
            base: the snapshot that it read.
            made: the one that it made.
        """
        read, written = (table.snapshot_by_id(s) if s is not None else None for s in (base, made))
        if checkpoint is None or read is None or written is None:
            return None
        return cls(checkpoint, read.sequence_number or 0, written.sequence_number or 0)

    def holds(self, file: DataFile) -> bool:
        """Returns whether all rows of a file are among those that were settled; rows that came late are not."""
        return file.max_offset < self.below and (file.came <= self.read or file.came == self.made)


def settled_logs(table: Table, names: Collection[str]) -> dict[str, Settled]:
    """Returns of each log what the pass before its last one had settled, where that is still told.

    Args:
        table: as pyiceberg loaded it.
        names: the logs.
    """
    last, found = set[str](), dict[str, Settled]()
    for commit in commits(table):
        if not commit.report or not commit.as_mapped or last == set(names) == set(found):
            continue
        report = PassReport.from_summary(commit.report, commit.snapshot)
        for entry in report.logs if report.phase == "one" else ():
            name = str(entry.partition)
            if name in last and name not in found:
                part = Settled.of(table, entry.checkpoint_after, report.base, commit.snapshot)
                found |= {name: part} if part else {}
            elif name in names:
                last.add(name)
    return found


def passed_over(views: Sequence[LogView], settled: Mapping[str, Settled], limit: int, seed: str) -> set[str]:
    """Returns the files that need not be read where a pass left them alone. What may supersede a row is read whole.

    Args:
        views: the logs as they stand.
        settled: of each log that part of which files may be passed over.
        limit: rows up to which a table is read whole, and rows of the sample.
        seed: the same for the same pass.
    """
    if sum(f.rows for view in views for f in view.files) <= limit:
        return set()
    parts = [(settled.get(str(view.partition)), view.files) for view in views]
    clean = [f for part, files in parts if part for f in files if part.holds(f)]
    # a sample, not a secret
    random.Random(seed).shuffle(clean)  # noqa: S311
    read = 0
    for number, file in enumerate(clean):
        if read >= limit:
            return {f.path for f in clean[number:]}
        read += file.rows
    return set()
