"""Phase one: drop superseded, keyless and aborted rows, give tombstones a delete horizon, move the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hardpack.compaction.alter_states import mark_uncleanable, refused_logs_marked
from hardpack.compaction.pipeline import preview, run_pass
from hardpack.compaction.plan import Plan
from hardpack.compaction.plan_check import planned_views
from hardpack.compaction.publish import applied_before
from hardpack.compaction.report import PassReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.work import LogToClean, PassRequest, PassWork
from hardpack.errors import BadInput, Conflict, UncleanableLog, UnfitFile
from hardpack.rules.causes import ABORTED, DUPLICATE, NULL_KEY, SUPERSEDED
from hardpack.rules.model import LogView
from hardpack.rules.selection import first_dirty_offset
from hardpack.rules.settings import Settings
from hardpack.spark.causes.dead_positions import live_rows
from hardpack.spark.causes.duplicates import repeated_rows, truncated_rows
from hardpack.spark.causes.transactions import first_open
from hardpack.spark.log_rows import Bounds, LogRows, log_rows, with_bounds
from hardpack.spark.map_end import BoundedMap, bounded_maps
from hardpack.table.columns import columns_at
from hardpack.table.history import ancestors, is_earlier_portion, summary_of
from hardpack.table.state import PLAN_SUMMARY
from hardpack.table.table_files import table_files


def clean(session: TableSession, plan: Plan, dry_run: bool = False) -> PassReport:
    """Runs phase one of a plan. A log that cannot be cleaned is marked, and the others go on.

    Args:
        session: the table's.
        plan: its logs with action `clean` are cleaned.
        dry_run: report what the pass would do, and change nothing.

    Raises:
        BadInput: the plan is not for this table, or none of its logs can be cleaned.
        Conflict: the table has moved on since it was planned.
        GateRefused: a guarantee would not hold; the logs are marked.
    """
    request = PassRequest(
        plan.table, "one", plan.id, plan.now, plan.snapshot,
        clock=lambda: plan.time_at(session.clock()), commit_bytes=plan.unit_bytes,
    )  # fmt: skip
    if done := applied_before(session.table, request):
        return done
    if plan.split and dry_run:
        return request.report().noted(str(plan.split))
    entries = {p.name: p for p in plan.doing("clean")}
    if not entries or plan.snapshot is None:
        return request.report()
    views = [
        replace(view, last_stable=entries[view.name].last_stable)
        for view in planned_views(session, plan, list(entries))
    ]
    logs = [LogToClean(v, plan.settings, plan.now, plan.force) for v in views]
    logs = with_last_stable(session, plan.settings, plan.snapshot, logs)
    due = [log for log in logs if log.decision.due]
    notes = tuple(f"partition {log.name}: {log.decision.reason}" for log in logs if log not in due)
    return clean_logs(session, replace(request, notes=notes), plan.settings, due, dry_run)


def clean_logs(
    session: TableSession, request: PassRequest, settings: Settings, logs: Sequence[LogToClean], dry_run: bool = False
) -> PassReport:
    """Runs phase one of some logs; as in Kafka, a log on which it fails is left alone and the others go on.

    Args:
        session: the table's.
        request: what the pass is called.
        settings: the table's columns and files.
        logs: those that are due.
        dry_run: report what the pass would do, and change nothing.

    Raises:
        BadInput: none of the logs can be cleaned.
        GateRefused, Conflict: see `hardpack.compaction.pipeline.run_pass`.
    """
    while logs:
        try:
            work = phase_one_work(session, request, settings, logs)
            if dry_run:
                return preview(session, work)
            with refused_logs_marked(session):
                return run_pass(session, work)
        except BadInput as error:
            bad = _in_logs(error, logs)
            if not bad:
                raise
            if gone := _left_meanwhile(session, error, logs):
                raise Conflict(
                    f"{session.name}: others took {gone} out of the table and expired the snapshot that the pass read; "
                    "plan again, what was staged was not published."
                ) from error
            if not dry_run:
                mark_uncleanable(session, bad.partitions, bad.reason)
            left = [log for log in logs if log.name not in bad.partitions]
            if not left or len(left) == len(logs):
                raise
            logs = left
            if published := _published(session, request):
                raise Conflict(
                    f"{session.name}: {published} portions of this pass were published when a log turned out to be "
                    f"uncleanable ({error}); plan again, and the others go on without it."
                ) from error
            request = replace(request, notes=(*request.notes, f"{error}"))
    return request.report()


def _published(session: TableSession, request: PassRequest) -> int:
    """Returns how many portions of a pass that has not come to its end are in the table."""
    own = (s for s in ancestors(session.table.refresh()) if is_earlier_portion(s))
    return sum(summary_of(snapshot).get(PLAN_SUMMARY) == request.plan_summary for snapshot in own)


def _in_logs(error: BadInput, logs: Sequence[LogToClean]) -> UncleanableLog | None:
    """Returns the error as one of some logs, if it says so itself or names a data file of theirs; else None."""
    if isinstance(error, UncleanableLog):
        return error
    named = tuple(log.name for log in logs if any(f.path in str(error) for f in log.view.files))
    unfit = "a data file cannot be read in the table's columns"
    reason = unfit if isinstance(error, UnfitFile) else "a data file is damaged or missing"
    return UncleanableLog(str(error), named, reason) if named else None


def _left_meanwhile(session: TableSession, error: BadInput, logs: Sequence[LogToClean]) -> str | None:
    """Returns a data file that an error names and that the table no longer has; None where it has them all."""
    named = [f.path for log in logs for f in log.view.files if f.path in str(error)]
    in_table = {f.file_path for f in table_files(session.table.refresh())} if named else set[str]()
    return next((path for path in named if path not in in_table), None)


def phase_one_work(
    session: TableSession, request: PassRequest, settings: Settings, logs: Sequence[LogToClean]
) -> PassWork:
    """Makes the work of phase one: how far each log's offset map reaches, and by which causes rows can leave.

    Args:
        session: the table's.
        request: what the pass is called, and its base.
        settings: the table's columns and files.
        logs: at least one.

    Raises:
        UncleanableLog: rows with one offset differ, and nobody can tell which is the log's.
    """
    base = request.base or 0
    columns = columns_at(session.table, settings, base)
    jvm, repeated = session.jvm, None
    if repeating := [log.view.partition for log in logs if log.view.may_repeat]:
        repeated = repeated_rows(jvm.spark, jvm.name, base, columns, repeating)
    partitions = [log.view.partition for log in logs]
    rows = LogRows(lambda: log_rows(jvm.spark, jvm.name, base, columns, partitions), repeated, columns.transactions)
    able = {ABORTED: columns.transactions, DUPLICATE: repeated is not None, SUPERSEDED: True, NULL_KEY: True}
    causes = tuple(cause for cause, is_able in able.items() if is_able)
    return PassWork(request, settings, session.columns(settings), tuple(_with_bounded_maps(logs, rows)), causes, rows)


def _with_bounded_maps(logs: Sequence[LogToClean], rows: LogRows) -> list[LogToClean]:
    """Adds to each log with a bounded offset map how many keys the map holds, and where it ends."""
    bounded = {log.name: log.settings.max_keys for log in logs if log.settings.max_keys is not None}
    if not bounded:
        return list(logs)
    heads = rows.copied([log.bounds for log in logs if log.name in bounded])
    bases = {log.name: [s.base_offset for s in log.view.segments] for log in logs}
    maps = bounded_maps(heads, live_rows(heads, rows.transactions), bounded, bases)
    maps = {name: BoundedMap(0) for name in bounded} | maps
    return [
        replace(log, last_mapped=own_map.last, mapped_keys=own_map.keys) if (own_map := maps.get(log.name)) else log
        for log in logs
    ]


def with_last_stable(
    session: TableSession, settings: Settings, base: int, logs: Sequence[LogToClean]
) -> list[LogToClean]:
    """Returns the logs with the last stable offset that their open transactions set; only rows tell of these.

    Args:
        session: the table's.
        settings: the table's columns.
        base: the snapshot to read.
        logs: at least one.
    """
    columns = columns_at(session.table, settings, base)
    if not columns.transactions:
        return list(logs)
    spark, name = session.jvm.spark, session.jvm.name
    repeating = [log.view.partition for log in logs if log.view.may_repeat] if columns.leader_epoch else []
    # a row that Kafka truncated neither ends a transaction nor keeps one open
    cut_off = truncated_rows(spark, name, base, columns, repeating) if repeating else None
    rows = LogRows(lambda: log_rows(spark, name, base, columns, [log.view.partition for log in logs]), cut_off)
    starts = [Bounds(log.view.partition, first_dirty_offset(log.view), 0, 0, 0) for log in logs]
    opened = first_open(with_bounds(rows.deduplicated, starts).where("o >= first_dirty"))
    return [replace(log, view=_bounded(log.view, opened.get(log.name))) for log in logs]


def _bounded(view: LogView, opened: int | None) -> LogView:
    bounds = [offset for offset in (view.last_stable, opened) if offset is not None]
    return replace(view, last_stable=min(bounds, default=None))
