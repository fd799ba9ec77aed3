"""Phase one and phase two as verbs: a plan in, a report out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pyiceberg.table import Table

from hardpack.errors import BadInput, Conflict, UncleanableLog
from hardpack.heads import Head, clean_heads, expire_heads, with_last_stable
from hardpack.lake.door import IceTable
from hardpack.lake.history import ancestors
from hardpack.lake.layout import check_layout, table_name
from hardpack.lake.sensing import read_logs
from hardpack.lake.state import read_at
from hardpack.log.model import LogView
from hardpack.passes import applied_before
from hardpack.plan import LogPlan, Plan
from hardpack.report import PassReport


def phase_one(door: IceTable, table: Table, plan: Plan, home: Path, clock: Callable[[], int], mark: Mark) -> PassReport:
    """Build the offset map, drop superseded, keyless and aborted rows, give horizons, move the checkpoint.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        plan: of the logs with action `clean`.
        home: folder for validation results and Data Docs.
        clock: tells the time, ms.
        mark: tells the state of logs why they cannot be cleaned.

    Raises:
        BadInput: the plan is not for this table, or none of its logs can be cleaned.
        Conflict: the table has moved on since it was planned.
        GateRefused: see `hardpack.passes.run`.
    """
    report = PassReport(table=plan.table, phase="one", plan=plan.id, now=plan.now, base=plan.snapshot)
    if done := applied_before(table, "one", plan.id):
        return done
    entries = {str(p.partition): p for p in plan.doing("clean")}
    if not entries or plan.snapshot is None:
        return report
    views = _planned_views(table, plan, list(entries))
    heads = [
        Head(
            replace(v, last_stable=entries[str(v.partition)].last_stable),
            plan.settings,
            plan.now,
            plan.force,
            lambda: plan.time_at(clock()),
        )
        for v in views
    ]
    heads = with_last_stable(door, table, heads, plan.snapshot)
    due = [h for h in heads if h.decision.due]
    notes = tuple(f"partition {h.name}: {h.decision.reason}" for h in heads if h not in due)
    report = report.model_copy(update={"notes": notes})
    while due:
        try:
            return clean_heads(door, table, due, report, home)
        except BadInput as error:
            bad = _in_logs(error, due)
            if not bad:
                raise
            # as Kafka leaves a log alone that it failed on, and goes on with the others
            mark(bad.partitions, bad.reason)
            due = [h for h in due if h.name not in bad.partitions]
            if not due:
                raise
            report = report.model_copy(update={"notes": (*report.notes, f"{error}")})
    return report


Mark = Callable[[Sequence[str], str], object]
"""Takes partitions and the reason for which they are left alone until somebody resumes them."""


def _in_logs(error: BadInput, heads: Sequence[Head]) -> UncleanableLog | None:
    """The error as one of some logs: as it says itself, or as it names a data file of theirs."""
    if isinstance(error, UncleanableLog):
        return error
    named = tuple(h.name for h in heads if any(f.path in str(error) for f in h.view.files))
    return UncleanableLog(str(error), named, "a data file is damaged or missing") if named else None


def phase_two(door: IceTable, table: Table, plan: Plan, home: Path) -> PassReport:
    """Drop the tombstones and markers of the plan's logs whose horizon has passed; the plan must be of the state now.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        plan: of which logs, whatever their action.
        home: folder for validation results and Data Docs.

    Raises:
        BadInput: the plan is not for this table.
        Conflict: the table has moved on since it was planned.
        GateRefused: see `hardpack.passes.run`.
    """
    request = expiry_id(plan)
    report = PassReport(table=plan.table, phase="two", plan=request, now=plan.now, base=plan.snapshot)
    if done := applied_before(table, "two", request):
        return done
    if plan.snapshot is None:
        return report
    views = _planned_views(table, plan, [str(p.partition) for p in plan.logs])
    now = {str(v.partition): plan.now for v in views}
    return expire_heads(door, table, views, now, report, plan.settings, home)


def expiry_id(plan: Plan) -> str:
    """Names a request to expire by what was asked, so that a retry after the commit finds it done.

    The checkpoints are part of it: after a further phase one the same question at the same time is a new one.
    """
    asked = [plan.uuid, plan.now, sorted((str(p.partition), p.checkpoint) for p in plan.logs)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _planned_views(table: Table, plan: Plan, partitions: list[str]) -> list[LogView]:
    """The logs at the plan's snapshot, if the table still stands as it was planned.

    Raises:
        BadInput: another table, or its columns no longer fit the plan's settings.
        Conflict: a log cleaned since, or an input file gone.
    """
    name = table_name(table)
    if str(table.metadata.table_uuid) != plan.uuid:
        raise BadInput(f"{name}: the plan was made for another table of this name; plan again.")
    check_layout(table, plan.settings)
    then = {str(v.partition): v for v in read_logs(table, plan.settings, plan.snapshot, partitions=partitions)}
    current = table.current_snapshot()
    moved = current is None or current.snapshot_id != plan.snapshot
    if moved and plan.snapshot not in {s.snapshot_id for s in ancestors(table)}:
        raise Conflict(
            f"{name}: snapshot {plan.snapshot}, which the plan was made from, is no longer in the table's past, as "
            "after a rollback or when the table was replaced; plan again."
        )
    now = {str(v.partition): v for v in read_logs(table, plan.settings, partitions=partitions)} if moved else then
    planned, (read, _) = {str(p.partition): p for p in plan.logs}, read_at(table, plan.snapshot or 0)
    for partition in partitions:
        view, entry = then.get(partition), planned[partition]
        live = {f.path for f in now[partition].files} if partition in now else set()
        stays = view is not None and {f.path for f in view.files} <= live
        if view is None or not stays or _passed_since(view, entry, read):
            raise Conflict(
                f"{name}: the plan was made for snapshot {plan.snapshot}, and partition {partition} has been cleaned "
                "or rewritten since; plan again."
            )
    return [then[p] for p in partitions]


def _passed_since(view: LogView, entry: LogPlan, read: int) -> bool:
    """Whether a pass of a log came after the commit of this sequence number, which its plan was made for."""
    # a pass over late rows moves no checkpoint when its map is full of them
    return view.state.checkpoint != entry.checkpoint or (view.state.snapshot or (0, 0))[1] > read
