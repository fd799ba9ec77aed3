"""Rows that others took from a log since its last pass: what has to be known of them, should somebody go back there."""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.table.snapshots import Operation

from hardpack.rules.model import DataFile, LogState, Partition
from hardpack.table.history import is_append, is_hardpacks, is_split
from hardpack.table.lineage import Lineage, was_seen


def late_rows_left(lineage: Lineage, log: Partition, state: LogState, passed: int) -> int:
    """Returns the last commit since a log's last pass by which others may have taken late rows; 0 of none.

    Args:
        lineage: of the table.
        log: whose rows.
        state: of the log.
        passed: the offset below which rows that come are late.
    """

    def may_be_late(file: DataFile) -> bool:
        late_from = lineage.origin(log, file, state).late_from
        return bool(file.trouble) or (late_from is not None and late_from < passed)

    for sequence, snapshot in sorted(lineage.commits.items(), reverse=True):
        if state.seen_commits.by_passes(sequence) or is_append(snapshot) or is_hardpacks(snapshot):
            continue
        change = lineage.changed(snapshot, log)
        packs = snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE
        if is_split(snapshot) or (packs and change.keeps_all_rows):
            continue
        if any(map(may_be_late, change.removed)):
            return sequence
    return 0


def with_rewrites(lineage: Lineage, log: Partition, state: LogState) -> LogState:
    """Returns the state with the commits among those seen that brought seen rows alone, into files that have left.

    No pass has seen these, and once they have expired nobody could tell their rows from late ones.

    Args:
        lineage: of the table.
        log: whose rows.
        state: of the log.
    """
    removing = (snapshot for snapshot in lineage.commits.values() if not is_append(snapshot))
    gone = [file for snapshot in removing for file in lineage.changed(snapshot, log).removed]
    late = {f.file_sequence_number for f in gone if f.trouble or lineage.origin(log, f, state).late_from is not None}
    again = {f.file_sequence_number for f in gone if not was_seen(f, state)} - late
    seen = state.seen_commits
    return replace(state, seen=seen._replace(further=tuple(sorted({*seen.further, *again}))))
