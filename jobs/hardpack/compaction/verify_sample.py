"""Files that the check of a run does not read: all but a sample of a large log's clean files that the pass left alone.

A file that stands unchanged before and after a pass adds the same rows to both sides. Without it, every count of the
other rows stays right. Only whether its own rows should have gone is not checked.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

from hardpack.compaction.gate_sample import few
from hardpack.compaction.report import LogReport
from hardpack.rules.horizons import Range
from hardpack.rules.model import DataFile, LogView


@dataclass(frozen=True, slots=True)
class Settled:
    """The part of a log that the pass before its last one had settled: superseded rows had left it already."""

    below: int
    """Offset below which the part lies, at most the checkpoint before the last pass."""
    read: int
    """Sequence number up to which the settling pass had read files."""
    made: tuple[int, ...]
    """Sequence numbers of the files that the settling pass made."""

    @classmethod
    def of(cls, table: Table, log: LogReport, base: int | None, made: Sequence[int]) -> Settled | None:
        """Returns the part of a log that a pass settled; None where nobody can tell any more.

        Args:
            table: as pyiceberg loaded it.
            log: what the pass did to the log.
            base: the snapshot that it read.
            made: the snapshots that it made.
        """
        read = table.snapshot_by_id(base) if base is not None else None
        written = [snapshot for one in made if (snapshot := table.snapshot_by_id(one))]
        if log.checkpoint_after is None or read is None or len(written) < len(made):
            return None
        below = log.checkpoint_after if log.latest_to is None else min(log.checkpoint_after, log.latest_to)
        return cls(below, read.sequence_number or 0, tuple(one.sequence_number or 0 for one in written))

    def files(self, view: LogView) -> list[DataFile]:
        """Returns the files that lie in the settled part, and below every file that the settling pass did not know.

        Args:
            view: the log as the last pass read it.
        """
        late = [f for f in view.files if not self._knew(f)]
        below = min([self.below, *(f.min_offset for f in late)])
        return [f for f in view.files if f.max_offset < below]

    def _knew(self, file: DataFile) -> bool:
        return file.file_sequence_number <= self.read or file.file_sequence_number in self.made


def passed_over(
    views: Sequence[LogView],
    settled: Mapping[str, Settled],
    expired: Mapping[str, Sequence[Range]],
    limit: int,
    seed: str,
) -> set[str]:
    """Returns the paths of files that need not be read where a pass left them alone; what may supersede a row is read.

    Args:
        views: the logs as their last passes read them.
        settled: by log the part whose files may be passed over.
        expired: by log the offset ranges whose tombstones had to go; a file that may hold one is read.
        limit: rows of the logs up to which all files are read, and rows of the sample.
        seed: the same for the same pass.
    """
    if sum(f.rows for view in views for f in view.files) <= limit:
        return set()
    clean = [
        file
        for view in views
        if (part := settled.get(view.name))
        for file in part.files(view)
        if file.tombstones == 0
        or not any(low <= file.max_offset and file.min_offset <= high for low, high in expired[view.name])
    ]
    rng = random.Random(seed)  # noqa: S311  a sample, not a secret
    read = few(rng, clean, limit, lambda file: file.rows)
    return {file.path for file in clean} - {file.path for file in read}
