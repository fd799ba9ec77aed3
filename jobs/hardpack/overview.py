"""A table in a few numbers, and how it came to them: from metadata alone, for pages and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict
from pyiceberg.table import Table

from hardpack.lake.history import ancestors, summary_of
from hardpack.lake.layout import table_name
from hardpack.lake.state import PASS_SUMMARY
from hardpack.report import PassReport
from hardpack.status import LogStatus


class Moment(BaseModel):
    """One snapshot of a table. Sizes are bytes, the time ms."""

    model_config = ConfigDict(frozen=True)

    at: int
    bytes: int
    """Of all data files."""
    added: int
    """Of the files that this snapshot brought."""
    since_pass: int
    """What has come since the last pass."""
    report: PassReport | None = None
    """What hardpack did, when the snapshot is one of its own."""

    @property
    def dirty(self) -> float:
        """Share of the table that has come since the last pass, active segments included."""
        return self.since_pass / self.bytes if self.bytes else 0.0


class TableSummary(BaseModel):
    """All logs of a table together; `error` says why there is nothing else."""

    model_config = ConfigDict(frozen=True)

    table: str
    logs: int = 0
    rows: int = 0
    bytes: int = 0
    ratio: float = 0.0
    """Of the dirtiest log that may be cleaned."""
    due: int = 0
    """Logs that a run would clean now."""
    overdue_ms: int = 0
    uncleanable: int = 0
    """Logs that a failed pass marked."""
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
    """The snapshots that led to the current one, the oldest first, as far as they have not expired."""
    moments: list[Moment] = []
    clean = 0
    for snapshot in reversed(list(ancestors(table))):
        summary = summary_of(snapshot)
        total = int(summary.get("total-files-size", 0))
        text = summary.get(PASS_SUMMARY)
        # what others rewrite or delete takes from the clean part first, as far as the summary tells
        clean = total if text else min(clean, total)
        moments.append(
            Moment(
                at=snapshot.timestamp_ms,
                bytes=total,
                added=int(summary.get("added-files-size", 0)),
                since_pass=total - clean,
                report=PassReport.from_summary(text, snapshot.snapshot_id) if text else None,
            )
        )
    return moments


def summarize(table: Table, logs: Sequence[LogStatus], moments: Iterable[Moment]) -> TableSummary:
    """A table in a few numbers.

    Args:
        table: as it was loaded.
        logs: how its logs stand.
        moments: its history.
    """
    found = list(moments)
    reports = [m.report for m in found if m.report]
    brought = sum(m.added for m in found if not m.report)
    rewritten = sum(m.added for m in found if m.report)
    waiting = [log.tombstones_waiting for log in logs]
    return TableSummary(
        table=table_name(table),
        logs=len(logs),
        rows=sum(log.rows for log in logs),
        bytes=sum(log.bytes for log in logs),
        ratio=max((log.ratio for log in logs if not log.uncleanable), default=0.0),
        due=sum(log.due for log in logs),
        overdue_ms=max((log.overdue_ms for log in logs), default=0),
        uncleanable=sum(log.uncleanable for log in logs),
        tombstones_waiting=None if None in waiting else sum(n or 0 for n in waiting),
        next_horizon=min((log.next_horizon for log in logs if log.next_horizon is not None), default=None),
        last_pass=max((report.now for report in reports), default=None),
        passes=len(reports),
        reclaimed=sum(log.bytes_before - log.bytes_after for report in reports for log in report.logs),
        write_amplification=(brought + rewritten) / brought if brought else None,
    )
