"""Summarises a table and its history in a few numbers, from metadata alone, for pages and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Self

from pydantic import BaseModel, ConfigDict
from pyiceberg.table import Table

from hardpack.compaction.report import PassReport, Phase
from hardpack.operations.status import LogStatus
from hardpack.rules.causes import removed_by_cause
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import table_name
from hardpack.table.history import Commit, ancestors, bytes_in, commits, is_earlier_portion, summary_of


class PassTotals(BaseModel):
    """The totals of a pass over all its logs, from its report. Sizes are bytes, the time ms."""

    model_config = ConfigDict(frozen=True)

    phase: Phase
    plan: str
    now: int
    seconds: float
    snapshot: int
    logs: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int
    bytes_read: int
    bytes_written: int
    removed: dict[str, int]
    """Rows that left, by the name of the cause."""

    @property
    def reclaimed(self) -> int:
        """Bytes that the pass took out of the table."""
        return self.bytes_before - self.bytes_after

    @classmethod
    def of(cls, report: PassReport, snapshot: int) -> Self:
        """Returns the totals of a report; `snapshot` is the snapshot that its pass made."""
        sizes = "rows_before", "rows_after", "bytes_before", "bytes_after", "bytes_read", "bytes_written"
        return cls(
            phase=report.phase, plan=report.plan, now=report.now, seconds=report.seconds, snapshot=snapshot,
            logs=len(report.logs), removed={c.name: rows for c, rows in removed_by_cause(report.logs).items()},
            **{size: sum(getattr(log, size) for log in report.logs) for size in sizes},
        )  # fmt: skip


class Moment(BaseModel):
    """One snapshot of a table. Sizes are bytes, the time ms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: int
    bytes: int
    """Size of all data files."""
    added: int
    """Size of the files that this snapshot brought."""
    since_pass: int
    """Size of what has come since the last pass."""
    ended: PassTotals | None = None
    """Totals of the pass that ended with this snapshot; None where none did or its report cannot be read."""
    by_pass: bool = False
    """Whether a pass made the snapshot. Of a pass of several commits, the last one has the totals of all."""

    @property
    def dirty(self) -> float:
        """Share of the table that has come since the last pass, active segments included."""
        return self.since_pass / self.bytes if self.bytes else 0.0


class TableSummary(BaseModel):
    """Numbers of all logs of a table together. Where `error` is set, it says why there are no other numbers."""

    model_config = ConfigDict(frozen=True)

    table: str
    catalog: str = ""
    """Where it is, by its name in pyiceberg's configuration."""
    logs: int = 0
    rows: int = 0
    bytes: int = 0
    ratio: float = 0.0
    """Dirty ratio of the dirtiest log that may be cleaned."""
    due: int = 0
    """Logs that a run would clean now."""
    overdue_ms: int = 0
    uncleanable: int = 0
    """Logs that cannot be cleaned until somebody does something; see `LogStatus.held`."""
    tombstones_waiting: int | None = 0
    next_horizon: int | None = None
    last_pass: int | None = None
    passes: int = 0
    """Number of passes that the kept history still holds; `reclaimed` and `write_amplification` are of that history."""
    reclaimed: int = 0
    """Bytes that passes took out of the table."""
    write_amplification: float | None = None
    """Bytes written, by writers and by passes, for each byte that writers wrote."""
    error: str = ""


def history(table: Table, totals: dict[int, PassTotals] | None = None) -> list[Moment]:
    """Returns the snapshots that led to the current one, the oldest first, as far as they have not expired.

    Any writer of the table may write summaries: a size that is no number counts as 0, and an illegal report as none.

    Args:
        table: as it was loaded.
        totals: by snapshot the totals that an earlier call has read, as a report of thousands of logs takes long to
            read; it is brought up to date.

    Raises:
        OSError: a report stands in a file beside the table, and the storage does not answer.
    """
    moments: list[Moment] = []
    by_snapshot = {commit.snapshot: commit for commit in commits(table)}
    totals = {} if totals is None else totals
    for gone in totals.keys() - by_snapshot.keys():
        del totals[gone]
    clean = 0
    for snapshot in reversed(list(ancestors(table))):
        summary = summary_of(snapshot)
        total, added = (bytes_in(summary, name) for name in ("total-files-size", "added-files-size"))
        commit = by_snapshot.get(snapshot.snapshot_id)
        # the summary does not tell which part another writer rewrote or deleted: the clean part shrinks last
        clean = total if commit else min(clean, total)
        moments.append(
            Moment(
                at=snapshot.timestamp_ms,
                bytes=total,
                added=added,
                since_pass=total - clean,
                ended=_totals(commit, totals) if commit else None,
                by_pass=commit is not None or is_earlier_portion(snapshot),
            )
        )
    return moments


def _totals(commit: Commit, totals: dict[int, PassTotals]) -> PassTotals | None:
    """Returns the totals of a pass; None when the file with its report is gone, or holds no legal report."""
    if commit.snapshot not in totals:
        # a report that cannot be read is not noted as missing, as it may be there again later
        with suppress(ValueError):
            totals[commit.snapshot] = _read_totals(commit)
    return totals.get(commit.snapshot)


def _read_totals(commit: Commit) -> PassTotals:
    report = PassReport.from_summary(commit.report, commit.snapshot)
    counts = [n for log in report.logs for name, n in log if name != "partition" and isinstance(n, int)]
    if not all(0 <= n <= LONG_MAX for n in (*counts, report.now, report.seconds)):
        raise ValueError(commit.snapshot)
    return PassTotals.of(report, commit.snapshot)


def summarize(table: Table, logs: Sequence[LogStatus], moments: Iterable[Moment]) -> TableSummary:
    """Returns the summary of a table, from the status of its logs and its history.

    Args:
        table: as it was loaded.
        logs: how its logs stand.
        moments: its history.
    """
    all_moments = list(moments)
    passes = [m.ended for m in all_moments if m.ended]
    brought = sum(m.added for m in all_moments if not m.by_pass)
    rewritten = sum(m.added for m in all_moments if m.by_pass)
    waiting = [log.tombstones_waiting for log in logs]
    return TableSummary(
        table=table_name(table),
        logs=len(logs),
        rows=sum(log.rows for log in logs),
        bytes=sum(log.bytes for log in logs),
        ratio=max((log.ratio for log in logs if not log.held), default=0.0),
        due=sum(log.due for log in logs),
        overdue_ms=max((log.overdue_ms for log in logs), default=0),
        uncleanable=sum(log.held for log in logs),
        tombstones_waiting=None if None in waiting else sum(n or 0 for n in waiting),
        next_horizon=min((log.next_horizon for log in logs if log.next_horizon is not None), default=None),
        last_pass=max((one.now for one in passes), default=None),
        passes=len(passes),
        reclaimed=sum(one.reclaimed for one in passes),
        write_amplification=(brought + rewritten) / brought if brought else None,
    )
