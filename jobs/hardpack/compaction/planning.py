"""Planning: what to do to each log of a table at one time and why, from metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.table import Table

from hardpack.compaction.plan import Action, FilesToSplit, LogPlan, Plan, PlanRequest
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.files.data_files import DataFiles
from hardpack.rules.horizons import due_ranges, removable, waiting_for_reader
from hardpack.rules.late_rows import why_late_rows_refused
from hardpack.rules.model import LogView, Partition
from hardpack.rules.selection import decide, has_rows_of, steady_until, why_left_alone
from hardpack.rules.settings import Settings
from hardpack.table.columns import table_name
from hardpack.table.log_views import TableLogs, read_logs, table_logs
from hardpack.table.manifest_cache import ManifestCache
from hardpack.table.readable import check_readable


def make_plan(session: TableSession, request: PlanRequest, settings: Settings | None = None) -> Plan:
    """Makes the plan of a table: decides for every log what to do and why, from metadata alone.

    Args:
        session: the table's; its current snapshot is the plan's base.
        request: for which time and which logs, and how.
        settings: to decide by; None for those in force.

    Raises:
        BadInput: a wrong table or setting, or an unknown partition.
    """
    settings, table = settings or session.checked_settings(), session.table
    check_readable(table)
    logs = wanted_logs(table, settings, request.partitions, session.memory, waiting_too=True)
    views = logs.views
    if request.last_stable:
        views = [replace(view, last_stable=request.last_stable.get(view.name)) for view in views]
    plans = [_plan_log(view, settings, request) for view in views]
    return Plan(
        table=session.name,
        uuid=str(table.metadata.table_uuid),
        snapshot=session.base,
        now=request.now,
        clock=request.clock,
        force=request.force,
        settings=settings,
        merge_on_read=DataFiles.of(table).merge_on_read and settings.commit_operation == "overwrite",
        split=FilesToSplit.of(logs.mixed, settings, request),
        logs=tuple(sorted(plans, key=lambda p: (p.action == "none", *p.urgency(request.order), p.name))),
    )


def wanted_logs(
    table: Table,
    settings: Settings,
    partitions: Sequence[Partition] | None,
    memory: ManifestCache | None = None,
    waiting_too: bool = False,
) -> TableLogs:
    """Returns some logs of a table, and the files that are to be split.

    Args:
        table: as pyiceberg loaded it.
        settings: that fit the table.
        partitions: which logs, each given as value or as its text; None for all.
        memory: what earlier looks at the manifests left.
        waiting_too: accept a wanted log that is not known yet, while mixed files may hold it.

    Raises:
        BadInput: a partition that the table has not.
    """
    logs = table_logs(table, settings, memory=memory, partitions=partitions)
    if partitions is None:
        return logs
    # a log that is named twice is meant once
    by_name, wanted = {v.name: v for v in logs.views}, list(dict.fromkeys(map(str, partitions)))
    if (missing := [p for p in wanted if p not in by_name]) and not (logs.mixed and waiting_too):
        names = ", ".join(v.name for v in read_logs(table, settings, memory=memory)) or "none"
        hidden = f"; others may be in {len(logs.mixed)} files that are to be split" if logs.mixed else ""
        raise BadInput(f"{table_name(table)}: there is no partition {missing[0]}, it has {names}{hidden}.")
    return replace(logs, views=[by_name[p] for p in wanted if p in by_name])


def _plan_log(view: LogView, settings: Settings, request: PlanRequest) -> LogPlan:
    now = request.now
    decision = decide(view, settings, now, request.force)
    expired = due_ranges(view.state, now, view.slowest)
    eager = request.force or settings.idle_tombstones == "expire"
    may = settings.compacts and not why_left_alone(view) and not why_late_rows_refused(view, settings)
    action: Action = "clean" if decision.due else "none"
    reason = decision.reason
    if not decision.due and eager and may and any(removable(view, now)):
        action, reason = "expire", f"tombstones past their horizon; {reason}"
    if may and waiting_for_reader(view, now) and view.slowest:
        reader = view.slowest
        reason += f"; tombstones past their horizon wait for reader {reader.name}, at offset {reader.position}"
    if action != "none" and request.interval and not has_rows_of(view, decision, request.interval):
        action, reason = "none", "no cleanable row is of the interval asked for"
    return LogPlan(
        partition=view.partition,
        action=action,
        reason=reason,
        checkpoint=view.state.checkpoint,
        first_dirty=decision.first_dirty,
        first_uncleanable=decision.first_uncleanable,
        bound=decision.bound,
        last_stable=view.last_stable,
        log_end=view.log_end,
        clean_bytes=decision.clean_bytes,
        cleanable_bytes=decision.cleanable_bytes,
        ratio=decision.ratio,
        overdue_ms=decision.overdue_ms,
        expired=expired,
        uncleanable=bool(view.state.uncleanable),
        held=decision.held,
        paused=bool(view.state.paused),
        until=steady_until(view, settings, decision, now),
    )
