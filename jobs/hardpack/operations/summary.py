"""A table in a few numbers, and how it came to them: from metadata alone, for pages and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict
from pyiceberg.table import Table

from hardpack.compaction.report import PassReport
from hardpack.operations.status import LogStatus
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import table_name
from hardpack.table.history import ancestors, is_portion, summary_of
from hardpack.table.state import PASS_SUMMARY


class Moment(BaseModel):
    """One snapshot of a table. Sizes are bytes, the time ms."""

    model_config = ConfigDict(frozen=True)

    at: int
    bytes: int
    """Size of all data files."""
    added: int
    """Size of the files that this snapshot brought."""
    since_pass: int
    """What has come since the last pass."""
    report: PassReport | None = None
    """What hardpack did, when the snapshot is one of its own and ends a pass."""
    is_portion: bool = False
    """Whether the snapshot is one of a pass that was to go on with another; the report of the last tells of all."""

    @property
    def dirty(self) -> float:
        """Share of the table that has come since the last pass, active segments included."""
        return self.since_pass / self.bytes if self.bytes else 0.0


class TableSummary(BaseModel):
    """All logs of a table together; `error` says why there is nothing else."""

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
    """How many the table's history still holds; what follows is of these."""
    reclaimed: int = 0
    """Bytes that passes took out of the table."""
    write_amplification: float | None = None
    """Bytes written, by writers and by passes, for each byte that writers wrote."""
    error: str = ""


def history(table: Table) -> list[Moment]:
    """Returns the snapshots that led to the current one, the oldest first, as far as they have not expired.

    Whoever may write to the table writes its summaries: what is no number counts as 0, what is no report as none.
    """
    moments: list[Moment] = []
    clean = 0
    for snapshot in reversed(list(ancestors(table))):
        summary = summary_of(snapshot)
        total, added = (_bytes_in(summary, name) for name in ("total-files-size", "added-files-size"))
        report = _report_in(summary, snapshot.snapshot_id)
        # what others rewrite or delete takes from the clean part first, as far as the summary tells
        clean = total if report else min(clean, total)
        moments.append(
            Moment(
                at=snapshot.timestamp_ms,
                bytes=total,
                added=added,
                since_pass=total - clean,
                report=report,
                is_portion=is_portion(snapshot),
            )
        )
    return moments


def _bytes_in(summary: Mapping[str, str], name: str) -> int:
    text = summary.get(name, "")
    return min(int(text), LONG_MAX) if text.isdecimal() and len(text) < 100 else 0


def _report_in(summary: Mapping[str, str], snapshot: int) -> PassReport | None:
    try:
        report = PassReport.from_summary(summary[PASS_SUMMARY], snapshot)
    except (KeyError, ValueError):
        return None
    found = [n for log in report.logs for name, n in log if name != "partition" and isinstance(n, int)]
    return report if all(0 <= n <= LONG_MAX for n in (*found, report.now, report.seconds)) else None


def summarize(table: Table, logs: Sequence[LogStatus], moments: Iterable[Moment]) -> TableSummary:
    """Returns a table in a few numbers.

    Args:
        table: as it was loaded.
        logs: how its logs stand.
        moments: its history.
    """
    found = list(moments)
    reports = [m.report for m in found if m.report]
    brought = sum(m.added for m in found if not (m.report or m.is_portion))
    rewritten = sum(m.added for m in found if m.report or m.is_portion)
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
        last_pass=max((report.now for report in reports), default=None),
        passes=len(reports),
        reclaimed=sum(log.bytes_before - log.bytes_after for report in reports for log in report.logs),
        write_amplification=(brought + rewritten) / brought if brought else None,
    )
