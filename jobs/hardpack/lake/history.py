"""The table's past as pyiceberg's metadata tells it: which passes were committed, and which state still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.lake.layout import table_name
from hardpack.lake.state import PASS_SUMMARY, PLAN_SUMMARY, STATE_PROPERTY, made_by, read_state
from hardpack.log.model import LogState


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot that a pass made: `plan` is `phase:id`, `report` the JSON of what it did."""

    snapshot: int
    parent: int | None
    plan: str
    report: str


def ancestors(table: Table) -> Iterator[Snapshot]:
    """The current snapshot and those before it, newest first, as far as they have not expired."""
    known = {s.snapshot_id: s for s in table.snapshots()}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        snapshot = known.get(snapshot.parent_snapshot_id or 0)


def commits(table: Table) -> Iterator[Commit]:
    """Our commits among the current snapshot's ancestors, newest first."""
    for snapshot in ancestors(table):
        summary = summary_of(snapshot)
        if PASS_SUMMARY in summary:
            yield Commit(
                snapshot.snapshot_id, snapshot.parent_snapshot_id, summary[PLAN_SUMMARY], summary[PASS_SUMMARY]
            )


def trusted_states(table: Table) -> dict[str, LogState]:
    """State of every log, as it belongs to the current snapshot.

    A property outlives a rollback of the table, so the state of a pass that is no longer in the history is not
    taken from it but from the newest pass that is, or is that of a log never cleaned. So it is when somebody replaced
    all rows of the table.
    """
    name = table_name(table)
    states = read_state(name, table.properties)
    past = _Past(table)
    undone = {log for log, state in states.items() if past.lacks(state)}
    for log in undone:
        states[log] = LogState(paused=states[log].paused, uncleanable=states[log].uncleanable)
    for snapshot in past.since_emptied if undone else ():
        summary = summary_of(snapshot)
        then = read_state(name, summary) if STATE_PROPERTY in summary else {}
        for log in undone & then.keys():
            states[log] = made_by(then[log], (snapshot.snapshot_id, snapshot.sequence_number or 0))
        undone -= then.keys()
    return states


class _Past:
    """The current snapshot's ancestors, looked through once for all logs."""

    def __init__(self, table: Table) -> None:
        self.known = {s.snapshot_id for s in table.snapshots()}
        lineage = list(ancestors(table))
        self.ids = {s.snapshot_id for s in lineage}
        self.oldest = min((s.sequence_number or 0 for s in lineage), default=None)
        parents = [*lineage, None][1:]
        emptied = (at for at, (s, parent) in enumerate(zip(lineage, parents, strict=True)) if _emptied(s, parent))
        at = next(emptied, None)
        self.since_emptied = lineage if at is None else lineage[:at]
        self.emptied = -1 if at is None else lineage[at].sequence_number or 0

    def lacks(self, state: LogState) -> bool:
        """Whether the pass that left this state is not in the past, or all its rows were replaced."""
        if state.snapshot is None:
            return False
        snapshot, sequence = state.snapshot
        if sequence < self.emptied:
            return True
        if snapshot in self.ids:
            return False
        # a pass that has expired lies in the past, unless the history steps over it
        return snapshot in self.known or self.oldest is None or self.oldest < sequence


def _emptied(snapshot: Snapshot, parent: Snapshot | None) -> bool:
    """Whether somebody else's snapshot took every row that was there, as TRUNCATE and INSERT OVERWRITE do."""
    summary = summary_of(snapshot)
    if PLAN_SUMMARY in summary or parent is None:
        return False
    before = int(summary_of(parent).get("total-records", 0))
    return before > 0 and int(summary.get("deleted-records", 0)) >= before


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """What the snapshot's summary says beside the operation."""
    return snapshot.summary.additional_properties if snapshot.summary else {}
