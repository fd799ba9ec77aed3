"""What other settings would have made of a table, told by its own snapshots; see `hardpack.rules.what_if`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.compaction.plan import chosen
from hardpack.compaction.report import LogReport, PassReport
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.rules.model import DataFile, Partition
from hardpack.rules.settings import Settings, with_value
from hardpack.rules.what_if import Arrival, LogHistory, Measured, replay
from hardpack.table.history import ancestors, commits, is_append, is_ours, is_split
from hardpack.table.log_views import table_logs
from hardpack.table.manifests import Change, ManifestReader

TRIED = ("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms")
"""The settings that a replay can try: those that decide when a pass runs."""


class Outcome(BaseModel):
    """What one value of a setting would have done."""

    model_config = ConfigDict(frozen=True)

    value: str
    passes: int
    passes_per_day: float
    bytes_written: int
    written_per_appended: float
    """Bytes that phase one writes for each byte that is appended."""
    worst_lag_ms: int
    """Greatest age of the oldest row that a pass could have taken, at any look."""
    dead_share: float
    """Superseded rows among those that a reader scans, over the whole time."""


class WhatIf(BaseModel):
    """A table's kept history, and what values of one setting would have made of it."""

    model_config = ConfigDict(frozen=True)

    table: str
    setting: str
    every_ms: int
    """Time between two looks."""
    begin: int
    """When the first rows of the replay came, ms."""
    end: int
    appends: int
    """Commits that brought rows."""
    bytes_appended: int
    passes: int
    """Commits of phase one that were made in that time."""
    bytes_written: int
    """By those."""
    unlike: int
    """Commits of others that changed rows, or files, and are passed over."""
    unmeasured: tuple[Partition, ...]
    """Logs of which no pass tells; all their rows count as alive."""
    outcomes: tuple[Outcome, ...]


@dataclass
class _Walk:
    """One log while the table's snapshots are gone through."""

    start: list[DataFile]
    """The files that were there at the beginning."""
    files: dict[str, DataFile] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    passes: list[Measured] = field(default_factory=list)
    checkpoint: int | None = None
    """Before the first pass."""

    def take(self, change: Change) -> None:
        for file in change.removed:
            self.files.pop(file.path, None)
        self.files |= {file.path: file for file in change.added}

    def measure(self, change: Change, report: LogReport) -> None:
        """Put down what a phase one did."""
        if not self.passes:
            self.checkpoint = report.checkpoint_before
        first, end = report.checkpoint_before or 0, report.checkpoint_after or 0
        tail = [f for f in self.files.values() if f.max_offset < first]
        head = [f for f in self.files.values() if first <= f.max_offset < end]
        # rows that lie under row-level deletes are counted by the report alone
        others = sum(f.rows for f in self.files.values() if f.max_offset >= end)
        head_rows = sum(f.rows for f in head)
        gone = {file.path for file in change.removed}
        self.passes.append(
            Measured(
                tail_rows=max(0, report.rows_before - others - head_rows),
                head_rows=head_rows,
                left_rows=max(0, report.rows_after - others),
                tail_bytes=sum(f.bytes for f in tail),
                head_bytes=sum(f.bytes for f in head),
                tail_bytes_rewritten=sum(f.bytes for f in tail if f.path in gone),
                head_bytes_rewritten=sum(f.bytes for f in head if f.path in gone),
                rows_written=sum(f.rows for f in change.added),
                bytes_written=report.bytes_written,
            )
        )

    def expire(self, report: LogReport) -> None:
        """Put down what a phase two took."""
        if self.passes:
            last = self.passes[-1]
            self.passes[-1] = replace(last, expired_rows=last.expired_rows + report.rows_before - report.rows_after)

    def history(self, partition: Partition, begin: int) -> LogHistory:
        below = [f for f in self.start if f.max_offset < (self.checkpoint or 0)]
        dirty = [Arrival(begin, f) for f in self.start if f not in below]
        return LogHistory(partition, (*dirty, *self.arrivals), _as_one(below), tuple(self.passes))


def _as_one(files: Sequence[DataFile]) -> DataFile | None:
    if not files:
        return None
    times = [t for f in files for t in (f.min_timestamp, f.max_timestamp) if t is not None]
    return DataFile(
        "", sum(f.bytes for f in files), sum(f.rows for f in files),
        min(f.min_offset for f in files), max(f.max_offset for f in files),
        min(times, default=None), max(times, default=None), None, None,
    )  # fmt: skip


def what_if(
    session: TableSession,
    now: int,
    setting: str,
    values: Sequence[str],
    every: int,
    partitions: Sequence[Partition] | None = None,
) -> WhatIf:
    """Replays a table's kept history with other values of a setting. Metadata only; starts no JVM.

    Args:
        session: the table's.
        now: when the history ends, ms since the epoch.
        setting: one of `TRIED`.
        values: to try.
        every: ms between two looks.
        partitions: the logs, None for all.

    Raises:
        BadInput: the table, the setting or a value is wrong, there is no such partition, or no kept snapshot tells of
            a pass.
    """
    if setting not in TRIED:
        raise BadInput(f"{setting} cannot be tried, expected one of {', '.join(TRIED)}.")
    if every < 1:
        raise BadInput(f"a look every {every} ms cannot be, expected 1 or more.")
    settings = session.checked_settings()
    tried = [with_value(settings, setting, value) for value in values]
    wanted = {v.partition for v in chosen(session.table, settings, partitions, session.memory).views}
    walk = _Table(session.table, settings)
    logs = [log.history(p, walk.begin) for p, log in walk.logs.items() if p in wanted]
    if not any(log.passes for log in logs):
        raise BadInput(
            f"{session.name}: no kept snapshot tells of a pass, so nobody knows how many rows are superseded; clean it "
            "once, or keep snapshots longer (history.expire.max-snapshot-age-ms)."
        )
    outcomes, appended = [], 0
    for value, one in zip(values, tried, strict=True):
        found = replay(logs, one, every, now)
        appended = found.bytes_appended
        outcomes.append(
            Outcome(
                value=value,
                passes=found.passes,
                passes_per_day=found.passes_per_day,
                bytes_written=found.bytes_written,
                written_per_appended=found.written_per_appended,
                worst_lag_ms=found.worst_lag_ms,
                dead_share=found.dead_share,
            )
        )
    return WhatIf(
        table=session.name,
        setting=setting,
        every_ms=every,
        begin=min((a.at for log in logs for a in log.arrivals), default=now),
        end=now,
        appends=walk.appends,
        bytes_appended=appended,
        passes=walk.passes,
        bytes_written=sum(p.bytes_written for log in logs for p in log.passes),
        unlike=walk.unlike,
        unmeasured=tuple(log.partition for log in logs if not log.passes),
        outcomes=tuple(outcomes),
    )


class _Table:
    """The kept snapshots of a table, gone through from the oldest on."""

    def __init__(self, table: Table, settings: Settings) -> None:
        self.reader, self.io = ManifestReader(table, settings), table.io
        self.reports = {c.snapshot: _report(c.report, c.snapshot) for c in commits(table) if c.as_mapped}
        self.appends = self.passes = self.unlike = 0
        lineage = list(ancestors(table))[::-1]
        self.logs: dict[Partition, _Walk] = defaultdict(lambda: _Walk([]))
        self.begin = lineage[0].timestamp_ms if lineage else 0
        # some expire snapshots and forget that there was a parent
        if lineage and (lineage[0].sequence_number or 0) > 1:
            for view in table_logs(table, settings, lineage.pop(0).snapshot_id).views:
                files = list(view.files)
                self.logs[view.partition] = _Walk(files, {f.path: f for f in files})
        for snapshot in lineage:
            self._take(snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        changes = self.reader.change(snapshot.manifests(self.io), snapshot.snapshot_id)
        report = self.reports.get(snapshot.snapshot_id)
        brings = is_append(snapshot) or is_split(snapshot)
        self.appends += is_append(snapshot)
        self.passes += report is not None and report.phase == "one"
        self.unlike += not brings and not is_ours(snapshot)
        for log in report.logs if report else ():
            if report and report.phase == "one":
                self.logs[log.partition].measure(changes.get(log.partition, Change((), (), 0)), log)
            elif report and report.phase == "two":
                self.logs[log.partition].expire(log)
        for partition, change in changes.items():
            if partition is None:
                continue
            walk = self.logs[partition]
            if brings:
                walk.arrivals += [Arrival(snapshot.timestamp_ms, f) for f in change.added]
            walk.take(change)


def _report(text: str, snapshot: int) -> PassReport | None:
    return PassReport.from_summary(text, snapshot) if text else None


def tried_values(text: str) -> tuple[str, list[str]]:
    """Reads what to try, as in `min.cleanable.dirty.ratio=0.1,0.3`.

    Raises:
        BadInput: it names no value.
    """
    name, _, values = text.partition("=")
    found = [v.strip() for v in values.split(",") if v.strip()]
    if not found:
        raise BadInput(f"{text!r} names nothing to try, expected NAME=VALUE,VALUE as in {TRIED[0]}=0.1,0.3.")
    return name.strip().removeprefix("hardpack."), found
