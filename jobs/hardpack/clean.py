"""Phase one and phase two as verbs: a plan in, a report out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from hardpack.errors import BadInput
from hardpack.lake.door import IceTable
from hardpack.lake.layout import table_name
from hardpack.lake.sensing import read_logs
from hardpack.log.horizons import after_clean, after_expiry
from hardpack.log.model import LogView
from hardpack.log.settings import Settings
from hardpack.passes import Job, applied_before, run
from hardpack.plan import Plan, null_key_error
from hardpack.report import PassReport
from hardpack.spark.dead_rows import (
    NULL_KEY,
    Bounds,
    DeadRows,
    collect,
    expired_tombstones,
    narrow_scan,
    superseded,
    without_key,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def phase_one(door: IceTable, table: Table, plan: Plan, home: Path) -> PassReport:
    """Build the offset map, drop superseded and keyless rows, give new tombstones a horizon, move the checkpoint.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        plan: of the logs with action `clean`.
        home: folder for validation results and Data Docs.

    Raises:
        BadInput: the plan is not for this table or its log has moved on, or keyless rows are refused.
        GateRefused, Conflict: see `hardpack.passes.run`.
    """
    report = PassReport(table=plan.table, phase="one", plan=plan.id, now=plan.now, base=plan.snapshot)
    if done := applied_before(table, "one", plan.id):
        return done
    wanted = {str(p.partition): p for p in plan.doing("clean")}
    if not wanted or plan.snapshot is None:
        return report
    views = _planned_views(table, plan, list(wanted))
    bounds = [Bounds(v.partition, wanted[str(v.partition)].first_dirty, _end(plan, v)) for v in views]
    after = {
        str(v.partition): after_clean(
            v.state, b.first_dirty, b.end, v.log_end, plan.now, plan.settings.delete_retention_ms
        )
        for v, b in zip(views, bounds, strict=True)
    }

    def find_dead() -> dict[str, DeadRows]:
        rows = narrow_scan(door.spark, door.name, report.base or 0, plan.settings, bounds)
        parts = [superseded(rows)]
        if any(f.null_keys != 0 for v in views for f in v.files):
            parts.append(without_key(rows))
        return _allowed(_union(parts), plan.table, plan.settings)

    return run(door, Job(report, plan.settings, tuple(views), after, home), find_dead)


def phase_two(door: IceTable, table: Table, plan: Plan, home: Path) -> PassReport:
    """Drop the tombstones of the plan's logs whose horizon has passed; the plan must be of the current state.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        plan: whose logs' `expired` ranges are served, whatever their action.
        home: folder for validation results and Data Docs.
    """
    request = expiry_id(plan)
    report = PassReport(table=plan.table, phase="two", plan=request, now=plan.now, base=plan.snapshot)
    if done := applied_before(table, "two", request):
        return done
    due = {str(p.partition): p for p in plan.logs if p.expired}
    if not due or plan.snapshot is None:
        return report
    views = _planned_views(table, plan, list(due))
    expired = {name: p.expired for name, p in due.items()}
    bounds = [Bounds(v.partition, 0, v.state.checkpoint or 0, expired[str(v.partition)]) for v in views]
    after = {str(v.partition): after_expiry(v.state, expired[str(v.partition)]) for v in views}

    def find_dead() -> dict[str, DeadRows]:
        return collect(expired_tombstones(narrow_scan(door.spark, door.name, report.base or 0, plan.settings, bounds)))

    return run(door, Job(report, plan.settings, tuple(views), after, home, expired), find_dead)


def expiry_id(plan: Plan) -> str:
    """Names a request to expire by what was asked, so that a retry after the commit finds it done.

    The checkpoints are part of it: after a further phase one the same question at the same time is a new one.
    """
    asked = [plan.uuid, plan.now, sorted((str(p.partition), p.checkpoint) for p in plan.logs)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _end(plan: Plan, view: LogView) -> int:
    return next(p.first_uncleanable for p in plan.logs if p.partition == view.partition)


def _union(parts: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), parts)


def _allowed(dead: DataFrame, table: str, settings: Settings) -> dict[str, DeadRows]:
    found = collect(dead)
    keyless = {d.partition: d.causes[NULL_KEY] for d in found.values() if NULL_KEY in d.causes}
    if keyless and settings.null_keys == "refuse":
        raise null_key_error(table, sum(d.causes.get(NULL_KEY, 0) for d in found.values()), sorted(keyless))
    return found


def _planned_views(table: Table, plan: Plan, partitions: list[str]) -> list[LogView]:
    """The logs at the plan's snapshot, if the table still stands as it was planned.

    Raises:
        BadInput: another table, a log cleaned since, or an input file gone.
    """
    name = table_name(table)
    if str(table.metadata.table_uuid) != plan.uuid:
        raise BadInput(f"{name}: the plan was made for another table of this name; plan again.")
    then = _by_name(read_logs(table, plan.settings, plan.snapshot))
    current = table.current_snapshot()
    moved = current is None or current.snapshot_id != plan.snapshot
    now = _by_name(read_logs(table, plan.settings)) if moved else then
    planned = {str(p.partition): p for p in plan.logs}
    for partition in partitions:
        view, entry = then.get(partition), planned[partition]
        live = {f.path for f in now[partition].files} if partition in now else set()
        if view is None or view.state.checkpoint != entry.checkpoint or not {f.path for f in view.files} <= live:
            raise BadInput(
                f"{name}: the plan was made for snapshot {plan.snapshot}, and partition {partition} has been cleaned "
                "or rewritten since; plan again."
            )
    return [then[p] for p in partitions]


def _by_name(views: list[LogView]) -> Mapping[str, LogView]:
    return {str(v.partition): v for v in views}
