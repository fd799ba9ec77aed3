"""The table's past as pyiceberg's metadata tells it: which passes were committed, and which state still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.lake.layout import table_name
from hardpack.lake.state import PASS_SUMMARY, PLAN_SUMMARY, STATE_PROPERTY, read_state
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
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def commits(table: Table) -> Iterator[Commit]:
    """Our commits among the current snapshot's ancestors, newest first."""
    for snapshot in ancestors(table):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if PASS_SUMMARY in summary:
            yield Commit(
                snapshot.snapshot_id, snapshot.parent_snapshot_id, summary[PLAN_SUMMARY], summary[PASS_SUMMARY]
            )


def trusted_states(table: Table) -> dict[str, LogState]:
    """State of every log, as it belongs to the current snapshot.

    A property outlives a rollback of the table, so the state of a pass that is no longer in the history is not
    taken from it but from the newest pass that is, or is that of a log never cleaned.
    """
    name = table_name(table)
    states = read_state(name, table.properties)
    lineage = list(ancestors(table))
    undone = {log for log, state in states.items() if _undone(state, lineage, table)}
    for log in undone:
        states[log] = LogState(paused=states[log].paused, uncleanable=states[log].uncleanable)
    for snapshot in lineage if undone else ():
        if _emptied(snapshot, table):
            break
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        then = read_state(name, summary) if STATE_PROPERTY in summary else {}
        for log in undone & then.keys():
            sequence = snapshot.sequence_number or 0
            states[log] = _with_snapshot(then[log], snapshot.snapshot_id, sequence)
        undone -= then.keys()
    return states


def _with_snapshot(state: LogState, snapshot: int, sequence: int) -> LogState:
    return replace(state, snapshot=(snapshot, sequence))


def _undone(state: LogState, lineage: list[Snapshot], table: Table) -> bool:
    """Whether the pass that left this state is not in the current snapshot's past, or all its rows were replaced."""
    if state.snapshot is None:
        return False
    snapshot, sequence = state.snapshot
    if any((s.sequence_number or 0) > sequence and _emptied(s, table) for s in lineage):
        return True
    if any(s.snapshot_id == snapshot for s in lineage):
        return False
    if table.snapshot_by_id(snapshot) is not None:
        return True
    # it has expired: it lies in the past unless the history steps over it
    return any((s.sequence_number or 0) < sequence for s in lineage) or not lineage


def _emptied(snapshot: Snapshot, table: Table) -> bool:
    """Whether somebody else's snapshot took every row that was there, as TRUNCATE and INSERT OVERWRITE do."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    parent = None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)
    if PLAN_SUMMARY in summary or parent is None or parent.summary is None:
        return False
    before = int(parent.summary.additional_properties.get("total-records", 0))
    return before > 0 and int(summary.get("deleted-records", 0)) >= before
