"""Replays a table's kept snapshots to tell what other settings would have done; see `hardpack.rules.what_if`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.clock import moment
from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.report import LogReport, PassReport
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.rules.model import DataFile, LogState, Partition, to_segments
from hardpack.rules.settings import Settings, with_value
from hardpack.rules.what_if import Arrival, LogHistory, Measured, looks_between, replay
from hardpack.table.history import ancestors, commits, is_append, is_hardpacks, is_split
from hardpack.table.log_views import table_logs
from hardpack.table.manifests import ManifestReader
from hardpack.table.snapshot_change import Change, change_of

TRIED = ("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms")
"""The settings that a replay can try: those that decide when a pass runs."""
MOST_LOOKS = 100_000
"""Eleven years of a look each hour, seventy days of one each minute."""


class Outcome(BaseModel):
    """What one value of a setting would have done."""

    model_config = ConfigDict(frozen=True)

    value: str
    passes: int
    passes_per_day: float
    logs_cleaned_per_day: float
    """A pass cleans one log or more."""
    bytes_written: int
    written_per_appended: float
    """Bytes that phase one writes for each byte that is appended."""
    worst_lag_ms: int
    """Greatest age of the oldest row that a pass could have taken, at any look."""
    dead_share: float
    """Superseded rows among those that a reader scans, over the whole time."""


TOLD = tuple(name for name in Outcome.model_fields if name != "value")


class WhatIf(BaseModel):
    """A table's kept history, and what each tried value of one setting would have done."""

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
    """Bytes that these commits of phase one wrote."""
    unlike: int
    """Commits of other writers that changed rows or files otherwise than by an append; the replay passes over them."""
    unmeasured: tuple[Partition, ...]
    """Logs that no kept pass has cleaned; all their rows count as alive."""
    outcomes: tuple[Outcome, ...]


@dataclass
class _Walk:
    """The history of one log, collected snapshot by snapshot."""

    start: tuple[DataFile, ...] = ()
    """The log's files when the kept history begins."""
    state: LogState = field(default_factory=LogState)
    """State of the log when the kept history begins; it gives the checkpoint where no pass is kept."""
    files: dict[str, DataFile] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    passes: list[Measured] = field(default_factory=list)
    checkpoint: int | None = None
    """The log's checkpoint before the first kept pass."""

    def take(self, change: Change) -> None:
        for file in change.removed:
            self.files.pop(file.path, None)
        self.files |= {file.path: file for file in change.added}

    def measure(self, change: Change, report: LogReport) -> None:
        """Adds the numbers of one phase one, from its report and its change of files."""
        if not self.passes:
            self.checkpoint = report.checkpoint_before
        first, end = report.checkpoint_before or 0, report.checkpoint_after or 0
        segments = to_segments(self.files.values())
        tail = [f for s in segments if s.base_offset < first for f in s.files]
        head = [f for s in segments if first <= s.base_offset < end for f in s.files]
        # only the report leaves out rows under row-level deletes; the row count of a file includes them
        others = sum(f.rows for s in segments if s.base_offset >= max(first, end) for f in s.files)
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
        """Adds the rows that a phase two removed to the numbers of the phase one before it."""
        if self.passes:
            last = self.passes[-1]
            self.passes[-1] = replace(last, expired_rows=last.expired_rows + report.rows_before - report.rows_after)

    def history(self, partition: Partition) -> LogHistory:
        """Returns the collected history of the log, as a replay takes it."""
        end = (self.checkpoint if self.passes else self.state.checkpoint) or 0
        below, waiting = list[DataFile](), list[DataFile]()
        for segment in to_segments(self.start):
            (below if segment.base_offset < end else waiting).extend(segment.files)
        return LogHistory(partition, tuple(self.arrivals), _as_one(below), tuple(self.passes), tuple(waiting))


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
        BadInput: the table, the setting or a value is wrong, there is no such partition, no kept snapshot tells of a
            pass, or the history has more than `MOST_LOOKS` looks.
    """
    if setting not in TRIED:
        raise BadInput(f"{setting} cannot be tried, expected one of {', '.join(TRIED)}.")
    if every < 1:
        raise BadInput(f"a look every {every} ms cannot be, expected 1 or more.")
    settings = session.checked_settings()
    tried = [with_value(settings, setting, value) for value in values]
    wanted = {v.partition for v in wanted_logs(session.table, settings, partitions, session.memory).views}
    walk = _Table(session.table, settings, now)
    logs = [log.history(p) for p, log in walk.logs.items() if p in wanted]
    if not any(log.passes for log in logs):
        if walk.passes_later:
            raise BadInput(
                f"{session.name}: no kept snapshot tells of a pass before {moment(now)}, the first one that is known "
                f"is of {moment(min(walk.passes_later))}; name a later time with --now, or leave it out."
            )
        raise BadInput(
            f"{session.name}: no kept snapshot tells of a pass, so nobody knows how many rows are superseded; clean it "
            "once, or keep snapshots longer (history.expire.max-snapshot-age-ms)."
        )
    begin = min((a.at for log in logs for a in log.arrivals), default=now)
    if (looks := len(looks_between(begin, now, every))) > MOST_LOOKS:
        raise BadInput(
            f"{session.name}: from {moment(begin)} to {moment(now)} there are {looks:,} looks, expected {MOST_LOOKS:,} "
            "at most; look less often with --every-ms."
        )
    outcomes, appended = [], 0
    for value, one in zip(values, tried, strict=True):
        replayed = replay(logs, one, every, now)
        appended = replayed.bytes_appended
        outcomes.append(Outcome.model_validate({"value": value, **{n: getattr(replayed, n) for n in TOLD}}))
    own = walk.passes(wanted, begin)
    return WhatIf(
        table=session.name,
        setting=setting,
        every_ms=every,
        begin=begin,
        end=now,
        appends=len(walk.appends(wanted)),
        bytes_appended=appended,
        passes=len(own),
        bytes_written=sum(log.bytes_written for logs in own for log in logs),
        unlike=walk.unlike,
        unmeasured=tuple(log.partition for log in logs if not log.passes),
        outcomes=tuple(outcomes),
    )


class _Table:
    """The history of all logs of a table, collected from its kept snapshots, the oldest first."""

    def __init__(self, table: Table, settings: Settings, until: int) -> None:
        self.reader, self.io = ManifestReader(table, settings), table.io
        self.reports = {c.snapshot: _report(c.report, c.snapshot) for c in commits(table) if c.as_mapped}
        self.unlike = 0
        self._appended: list[set[Partition]] = []
        self._cleaned: list[tuple[int, PassReport]] = []
        self._ends = {p: s for s, report in self.reports.items() if report for p in report.portions}
        self._portions: dict[int, list[dict[Partition | None, Change]]] = defaultdict(list)
        self.passes_later = [
            s.timestamp_ms for s in ancestors(table) if s.timestamp_ms > until and self.reports.get(s.snapshot_id)
        ]
        lineage = [s for s in ancestors(table) if s.timestamp_ms <= until][::-1]
        self.logs: dict[Partition, _Walk] = defaultdict(_Walk)
        # some writers that expire snapshots drop the parent's id too, so the sequence number tells of older snapshots
        if lineage and (lineage[0].sequence_number or 0) > 1:
            for view in table_logs(table, settings, lineage.pop(0).snapshot_id).views:
                self.logs[view.partition] = _Walk(view.files, view.state, files={f.path: f for f in view.files})
        for snapshot in lineage:
            self._take(snapshot)

    def appends(self, logs: Set[Partition]) -> list[set[Partition]]:
        """Returns the commits that brought rows to one of these logs, each as the logs that it brought rows to."""
        return [brought for brought in self._appended if brought & logs]

    def passes(self, logs: Set[Partition], since: int) -> list[list[LogReport]]:
        """Returns, for each commit of phase one from a time on, ms, its reports on these logs."""
        by_commit = (
            [log for log in report.logs if log.partition in logs] for at, report in self._cleaned if at >= since
        )
        return [of_logs for of_logs in by_commit if of_logs]

    def _take(self, snapshot: Snapshot) -> None:
        changes = change_of(self.reader, snapshot.manifests(self.io), snapshot.snapshot_id)
        if end := self._ends.get(snapshot.snapshot_id):
            self._portions[end].append(changes)
            return
        changes = _as_one_commit([*self._portions.pop(snapshot.snapshot_id, []), changes])
        report = self.reports.get(snapshot.snapshot_id)
        brings = (is_append(snapshot) and not is_hardpacks(snapshot)) or is_split(snapshot)
        self.unlike += not brings and not is_hardpacks(snapshot)
        if report and report.phase == "one":
            self._cleaned.append((snapshot.timestamp_ms, report))
            for log in report.logs:
                self.logs[log.partition].measure(changes.get(log.partition, Change((), (), 0)), log)
        elif report and report.phase == "two":
            for log in report.logs:
                self.logs[log.partition].expire(log)
        brought = {log for log, change in changes.items() if log is not None and change.added} if brings else set()
        if brought:
            self._appended.append(brought)
        for partition, change in changes.items():
            if partition is None:
                continue
            if partition in brought:
                self.logs[partition].arrivals += [Arrival(snapshot.timestamp_ms, f) for f in change.added]
            self.logs[partition].take(change)


def _as_one_commit(portions: Sequence[dict[Partition | None, Change]]) -> dict[Partition | None, Change]:
    """Returns by log what the commits of one pass did together."""
    if len(portions) == 1:
        return portions[0]
    added = defaultdict[Partition | None, list[DataFile]](list)
    removed = defaultdict[Partition | None, list[DataFile]](list)
    for log, change in (item for portion in portions for item in portion.items()):
        added[log] += change.added
        removed[log] += change.removed
    return {log: Change(tuple(added[log]), tuple(removed[log]), None) for log in added}


def _report(text: str, snapshot: int) -> PassReport | None:
    return PassReport.from_summary(text, snapshot) if text else None


def tried_values(text: str) -> tuple[str, list[str]]:
    """Reads a setting and the values to try, as in `min.cleanable.dirty.ratio=0.1,0.3`.

    Raises:
        BadInput: it names no value.
    """
    name, _, values = text.partition("=")
    tried = [v.strip() for v in values.split(",") if v.strip()]
    if not tried:
        raise BadInput(f"{text!r} names nothing to try, expected NAME=VALUE,VALUE as in {TRIED[0]}=0.1,0.3.")
    return name.strip().removeprefix("hardpack."), tried
