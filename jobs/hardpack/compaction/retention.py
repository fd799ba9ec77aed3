"""Retention: whole segments leave from the old end of a log, by metadata alone, so that no gate reads rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardpack.compaction.choice import Choice
from hardpack.compaction.dead_rows import DeadRows
from hardpack.compaction.inputs import Inputs
from hardpack.compaction.ledger import Ledger
from hardpack.compaction.plan import FilesToSplit, PlanRequest
from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.publish import publish
from hardpack.compaction.report import LogReport, PassReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.staging import Staged
from hardpack.compaction.work import LogFacts, LogWork, PassRequest, PassWork, request_id
from hardpack.errors import Conflict
from hardpack.files.data_files import DataFiles
from hardpack.rules.causes import RETENTION
from hardpack.rules.horizons import after_retention
from hardpack.rules.model import LogState, LogView, Partition, SeenCommits
from hardpack.rules.retention import ExpiredSegments, expired_segments
from hardpack.rules.selection import why_left_alone
from hardpack.rules.settings import Settings
from hardpack.table.history import Record
from hardpack.table.state import seen_by_reading, state_with_history


@dataclass(frozen=True)
class LogPastRetention(LogWork):
    """A log that retention takes whole segments from."""

    retired: ExpiredSegments

    def state_after(self, facts: LogFacts, base: int | None, seen: SeenCommits, commit: int) -> LogState:
        """Returns the state with the new log start."""
        view = self.view
        if view.state.snapshot:
            state = state_with_history(view, seen.read, base)
        else:
            # rows may arrive below the new log start while the first pass of a log is under way
            state = replace(view.state, seen=view.state.seen or SeenCommits(seen.read))
        gone = [f.max_offset for segment in self.retired.deleted for f in segment.files if f.tombstones != 0]
        state = replace(state, log_end=view.log_end)
        return after_retention(state, self.retired.log_start, max(gone, default=-1))

    def report(self) -> LogReport:
        """Returns the report of the log: which rows leave, and what stays."""
        view, files = self.view, [f for segment in self.retired.deleted for f in segment.files]
        rows, size = sum(f.rows for f in files), sum(f.bytes for f in files)
        return LogReport(
            partition=view.partition,
            checkpoint_before=view.state.checkpoint,
            checkpoint_after=view.state.checkpoint,
            log_start=self.retired.log_start,
            log_end=view.log_end,
            rows_before=view.rows,
            rows_after=view.rows - rows,
            bytes_before=view.bytes,
            bytes_after=view.bytes - size,
            retention=rows,
            tombstones_waiting=None,
            files_left_alone=len(view.files) - len(files),
        )


def apply_retention(
    session: TableSession, now: int, partitions: Sequence[Partition] | None, dry_run: bool = False
) -> PassReport:
    """Deletes the segments that the policies of a table's logs no longer keep, as one commit.

    Args:
        session: the table's.
        now: ms since the epoch.
        partitions: only these logs; None for all.
        dry_run: report what would leave, and change nothing.

    Raises:
        BadInput: a wrong table or setting, or an unknown partition.
        Conflict: a file to delete was rewritten meanwhile.
    """
    settings = session.checked_settings()
    logs = wanted_logs(session.table, settings, partitions)
    if logs.mixed and not dry_run:
        raise Conflict(f"{session.name}: a writer added files with rows of several logs meanwhile; run it again.")
    views = logs.views
    asked = [str(session.table.metadata.table_uuid), now, session.base, [v.name for v in views]]
    request = PassRequest(session.name, "retention", request_id(asked), now, session.base)
    report = retain_logs(session, request, settings, logs_past_retention(views, settings, now), dry_run)
    return report.noted(str(FilesToSplit.of(logs.mixed, settings, PlanRequest(now)))) if logs.mixed else report


def logs_past_retention(views: Sequence[LogView], settings: Settings, now: int) -> list[LogPastRetention]:
    """Returns the logs that have segments to delete.

    Args:
        views: the logs.
        settings: theirs.
        now: ms since the epoch.
    """
    logs = (
        LogPastRetention(view, settings, now, expired_segments(view, settings, now))
        for view in views
        if not why_left_alone(view)
    )
    return [log for log in logs if log.retired.deleted]


def retain_logs(
    session: TableSession,
    request: PassRequest,
    settings: Settings,
    logs: Sequence[LogPastRetention],
    dry_run: bool = False,
) -> PassReport:
    """Deletes the segments that the logs no longer keep, as one commit.

    Args:
        session: the table's.
        request: what the pass is called, and its base.
        settings: the table's columns.
        logs: those that have segments to delete; without any, nothing is done.
        dry_run: report what would leave, and change nothing.

    Raises:
        Conflict: a file to delete was rewritten meanwhile.
    """
    began, entries = time.monotonic(), tuple(log.report() for log in logs)
    if not logs or request.base is None or dry_run:
        return request.report(logs=entries)
    table, work = session.table, PassWork(request, settings, session.columns(settings), tuple(logs), (RETENTION,))
    tasks = session.jvm.scan_tasks(request.base, work.columns.log.among(log.view.partition for log in logs))
    inputs = Inputs(
        work, DataFiles.of(table), tasks, {}, {}, {}, Record.of(table),
        seen_by_reading(table, request.base), began,
    )  # fmt: skip
    gone = [f.path for log in logs for segment in log.retired.deleted for f in segment.files]
    choice = Choice(inputs, DeadRows({}, {}), {}, [gone])
    return publish(session, Ledger(Staged(choice, ()), entries))
