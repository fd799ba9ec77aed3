"""The table's past as pyiceberg's metadata tells it: which passes were committed, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.table import Table

from hardpack.lake.state import PASS_SUMMARY, PLAN_SUMMARY


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot that a pass made: `plan` is `phase:id`, `report` the JSON of what it did."""

    snapshot: int
    parent: int | None
    plan: str
    report: str


def commits(table: Table) -> Iterator[Commit]:
    """Our commits among the current snapshot's ancestors, newest first, as far as they have not expired."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if PASS_SUMMARY in summary:
            yield Commit(
                snapshot.snapshot_id, snapshot.parent_snapshot_id, summary[PLAN_SUMMARY], summary[PASS_SUMMARY]
            )
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
