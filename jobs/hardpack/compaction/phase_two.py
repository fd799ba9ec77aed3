"""Phase two: drop the tombstones and transaction markers whose delete horizon has passed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hardpack.compaction.alter_states import refused_logs_marked
from hardpack.compaction.pipeline import preview, run_pass
from hardpack.compaction.plan import Plan, PlanRequest
from hardpack.compaction.plan_check import planned_views
from hardpack.compaction.planning import make_plan
from hardpack.compaction.publish import applied_before
from hardpack.compaction.report import PassReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.work import LogToExpire, PassRequest, PassWork, request_id
from hardpack.rules.causes import EXPIRED_MARKER, EXPIRED_TOMBSTONE
from hardpack.rules.horizons import removable
from hardpack.rules.model import LogView
from hardpack.rules.selection import why_left_alone
from hardpack.rules.settings import Settings
from hardpack.spark.log_rows import LogRows, log_rows
from hardpack.table.columns import columns_at
from hardpack.table.history import trusted_states


def expire_tombstones(session: TableSession, plan: Plan, dry_run: bool = False) -> PassReport:
    """Runs phase two of the plan's logs, whatever their action, as one commit.

    Args:
        session: the table's.
        plan: of the table's state now.
        dry_run: report what the pass would do, and change nothing.

    Raises:
        BadInput: the plan is not for this table.
        Conflict: the table has moved on since it was planned.
        GateRefused: a guarantee would not hold; the logs are marked.
    """
    request = PassRequest(plan.table, "two", expiry_id(plan), plan.now, plan.snapshot)
    if done := applied_before(session.table, request):
        return done
    if plan.snapshot is None:
        return request.report()
    if plan.split and dry_run:
        return request.report().noted(str(plan.split))
    views = planned_views(session, plan, [p.name for p in plan.logs])
    logs = logs_to_expire(views, plan.settings, plan.now)
    request = replace(request, notes=(*request.notes, *filter(None, map(_given_up, logs))))
    return expire_logs(session, request, plan.settings, logs, dry_run)


def _given_up(log: LogToExpire) -> str:
    """Returns a note that tombstones go before a named reader has passed them; empty when none do."""
    reader = log.view.slowest
    early = [end for _, end in log.ranges if reader and end >= reader.position]
    if not reader or not early:
        return ""
    return (
        f"partition {log.view.partition}: tombstones up to offset {early[-1]} go, though reader {reader.name} goes on "
        f"at {reader.position}: {reader.limit_ms} ms have passed since their horizon (horizon.readers.limit.ms)"
    )


def expire_planned(session: TableSession, plan: Plan) -> PassReport:
    """Runs phase two of the logs that a plan's phase one cleaned, and of those planned for expiry alone.

    Args:
        session: the table's.
        plan: which phase one has applied.

    Raises:
        GateRefused, Conflict: see `hardpack.compaction.pipeline.run_pass`.
    """
    states = trusted_states(session.table).items()
    cleaned = {name for name, state in states if state.last_clean and state.last_clean.now == plan.now}
    planned = {p.name: p.action for p in plan.doing("clean", "expire")}
    if plan.split:
        # when the plan was made, nobody knew which logs had rows to clean in the mixed files
        planned |= {name: "clean" for name in cleaned if plan.is_about(name)}
    due = [name for name, action in planned.items() if action == "expire" or name in cleaned]
    return expire_tombstones(session, make_plan(session, PlanRequest(plan.now, due)))


def expiry_id(plan: Plan) -> str:
    """Names a request for phase two by what was asked: the table, the time, and the logs with their checkpoints.

    After a further phase one the checkpoints differ, so the same logs at the same time are a new request.
    """
    return request_id([plan.uuid, plan.now, sorted((p.name, p.checkpoint) for p in plan.logs)])


def logs_to_expire(views: Iterable[LogView], settings: Settings, now: int) -> list[LogToExpire]:
    """Returns the logs with a tombstone or marker that is due.

    Args:
        views: the logs.
        settings: theirs.
        now: ms.
    """
    logs = (
        LogToExpire(view, settings, now, *removable(view, now))
        for view in views
        if view.segments and settings.compacts and not why_left_alone(view)
    )
    return [log for log in logs if log.ranges or log.markers]


def expire_logs(
    session: TableSession, request: PassRequest, settings: Settings, logs: Sequence[LogToExpire], dry_run: bool = False
) -> PassReport:
    """Runs phase two of some logs as one commit.

    Args:
        session: the table's.
        request: what the pass is called, and its base.
        settings: the table's columns and files.
        logs: those with something due; without any, nothing is done.
        dry_run: report what the pass would do, and change nothing.

    Raises:
        GateRefused, Conflict: see `hardpack.compaction.pipeline.run_pass`.
    """
    if not logs or request.base is None:
        return request.report()
    columns, jvm, base = columns_at(session.table, settings, request.base), session.jvm, request.base
    partitions = [log.view.partition for log in logs]
    rows = LogRows(lambda: log_rows(jvm.spark, jvm.name, base, columns, partitions))
    causes = (EXPIRED_TOMBSTONE, EXPIRED_MARKER) if any(log.markers for log in logs) else (EXPIRED_TOMBSTONE,)
    work = PassWork(request, settings, session.columns(settings), tuple(logs), causes, rows)
    if dry_run:
        return preview(session, work)
    with refused_logs_marked(session):
        return run_pass(session, work)
