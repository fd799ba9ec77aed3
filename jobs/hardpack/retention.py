"""Retention as a verb: whole segments leave from the old end of a log, by metadata alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyiceberg.table import Table

from hardpack.heads import Head
from hardpack.lake.door import IceTable
from hardpack.lake.history import Record
from hardpack.lake.layout import check_layout, settings_of, table_name
from hardpack.lake.packing import PassFolder
from hardpack.lake.state import read_at, told
from hardpack.log.horizons import after_retention
from hardpack.log.model import LogState, LogView, Partition
from hardpack.log.retention import Retained, expired_segments
from hardpack.log.selection import left_alone
from hardpack.log.settings import NONE
from hardpack.passes import Job, change_of
from hardpack.plan import chosen
from hardpack.report import LogReport, PassReport


def apply_retention(
    door: IceTable,
    table: Table,
    now: int,
    partitions: Sequence[Partition] | None,
    policy: Mapping[str, str] = NONE,
) -> PassReport:
    """Retention of a table's logs at one time.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        now: ms since the epoch.
        partitions: only these logs; None for all.
        policy: settings of the table's policy.
    """
    settings, name, snapshot = settings_of(table, policy), table_name(table), table.current_snapshot()
    check_layout(table, settings)
    views = chosen(table, settings, partitions)
    base = snapshot.snapshot_id if snapshot else None
    asked = json.dumps([str(table.metadata.table_uuid), now, base, [str(v.partition) for v in views]])
    request = hashlib.sha256(asked.encode()).hexdigest()[:16]
    report = PassReport(table=name, phase="retention", plan=request, now=now, base=base)
    return retain(door, table, [Head(v, settings, now) for v in views], report)


def retain(door: IceTable, table: Table, heads: Sequence[Head], report: PassReport) -> PassReport:
    """Delete the segments that the logs' policies no longer keep, as one commit; no data is read.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's.
        heads: the logs, each with its settings and time.
        report: what the pass is called, and its base snapshot.

    Raises:
        Conflict: a file to delete was rewritten meanwhile.
    """
    heads = [h for h in heads if not left_alone(h.view)]
    outcomes = {h.name: expired_segments(h.view, h.settings, h.now) for h in heads}
    heads = [h for h in heads if outcomes[h.name].deleted]
    if not heads or report.base is None:
        return report
    logs = tuple(_log_report(h.view, outcomes[h.name]) for h in heads)
    read = read_at(table, report.base)[0]
    job = Job(
        report=report.model_copy(update={"logs": logs}),
        settings=heads[0].settings,
        views=tuple(h.view for h in heads),
        groups={},
        record=Record.of(table),
        after={h.name: _state_after(h.view, outcomes[h.name], read) for h in heads},
        home=None,
        copied_to={},
    )
    tasks = door.scan_tasks(report.base, job.settings.column_partition, [h.view.partition for h in heads])
    gone = [tasks[f.path].file() for h in heads for s in outcomes[h.name].deleted for f in s.files]
    snapshot = door.commit(report.base, change_of(job, job.report, PassFolder.of(table), gone, []))
    return job.report.model_copy(update={"snapshot": snapshot})


def _state_after(view: LogView, outcome: Retained, read: int) -> LogState:
    empty = len(outcome.deleted) == len(view.segments)
    # rows may arrive below the new log start while the first pass of a log is under way
    state = told(view, read) if view.state.snapshot else replace(view.state, seen=(read, 0))
    return after_retention(replace(state, log_end=view.log_end, empty=empty), outcome.log_start)


def _log_report(view: LogView, outcome: Retained) -> LogReport:
    gone = [f for s in outcome.deleted for f in s.files]
    rows = sum(f.rows for f in gone)
    return LogReport(
        partition=view.partition,
        checkpoint_before=view.state.checkpoint,
        checkpoint_after=view.state.checkpoint,
        log_start=outcome.log_start,
        log_end=view.log_end,
        rows_before=view.rows,
        rows_after=view.rows - rows,
        bytes_before=view.bytes,
        bytes_after=view.bytes - sum(f.bytes for f in gone),
        retention=rows,
        tombstones_waiting=None,
        files_left_alone=len(view.files) - len(gone),
    )
