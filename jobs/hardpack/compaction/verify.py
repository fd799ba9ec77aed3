"""The guarantees on the published table: the snapshot before each log's last pass is compared with the current one."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table

from hardpack.compaction.data_docs import page_title, partitions
from hardpack.compaction.gate import judge, promise
from hardpack.compaction.gate_read import stand_as_read
from hardpack.compaction.last_passes import LastPasses, OwnSnapshots, Span, last_passes
from hardpack.compaction.own_expectations import with_own_expectations
from hardpack.compaction.report import Check, LogReport, VerifyReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.verify_sample import passed_over
from hardpack.errors import ExpectationFailed, GateRefused
from hardpack.rules.causes import CAUSES
from hardpack.rules.model import Partition
from hardpack.rules.settings import Settings
from hardpack.spark.evidence import Side, at_hand, evidence
from hardpack.table.columns import LogColumns
from hardpack.table.history import summary_of
from hardpack.table.log_views import read_logs, table_logs
from hardpack.table.manifests import keeps_logs_apart
from hardpack.table.state import PLAN_SUMMARY

if TYPE_CHECKING:
    from hardpack_expectations.checkpoint import Verdict

    from hardpack.spark.jvm_table import JvmTable

_Pair = tuple[tuple[int, int], list[LogReport]]
"""Two snapshots, and what passes did to logs between them."""


def verify(
    session: TableSession, now: int, partitions: Collection[Partition] | None = None, sample: bool = False
) -> VerifyReport:
    """Runs the guarantees and the user's own expectations on the current snapshot.

    The guarantees compare it with the snapshot before each log's last phase one.

    Args:
        session: the table's.
        now: for the report, ms.
        partitions: only these logs; None for all that a pass has touched.
        sample: read less, as the check of a run does. Of the clean files of a large log that its pass left alone it
            reads only some, see `passed_over`. It reads nothing where all logs stand as gates have read them, see
            `gate_read`.

    Raises:
        BadInput: a column is no longer the one that was mapped when the table was adopted.
    """
    started, table = time.monotonic(), session.table
    settings = session.checked_settings()
    passes = last_passes(table, None if partitions is None else {str(p) for p in partitions})
    read_before = sample and stand_as_read(table, settings, passes.by_log)
    spans = {} if read_before else passes.spans
    mixed = _mixed_files(session, settings) if spans else set[str]()
    verification = _Verification(session, settings, session.columns(settings), passes, mixed, sample)
    outcomes = [verification.at(span, logs) for span, logs in spans.items()]
    checks = tuple(Check.model_validate(r) for o in outcomes for verdict in o.verdicts for r in verdict.results)
    nothing = "" if passes.spans else "no pass of these logs is in the table's history, so there is nothing to compare"
    report = VerifyReport(
        table=session.name,
        now=now,
        success=all(c.success for c in checks),
        passes_hold=all(o.passes_hold for o in outcomes),
        seconds=round(time.monotonic() - started, 1),
        checks=checks,
        data_docs=tuple(verdict.page for o in outcomes for verdict in (*o.verdicts, *(o.alone or ()))),
        note=next((o.note for o in reversed(outcomes) if o.note), nothing),
        not_read_again=len(passes.by_log) if read_before else 0,
    )
    return with_own_expectations(session, report, partitions)


@dataclass(frozen=True)
class _Outcome:
    """What the expectations found of some logs."""

    verdicts: list[Verdict]
    note: str
    alone: list[Verdict] | None = None
    """Verdicts on each pass by itself, asked for where a guarantee is broken, as rows that came since may be why."""

    @property
    def passes_hold(self) -> bool:
        """Whether the passes kept every guarantee, whatever others did since."""
        return all(verdict.success for verdict in (self.verdicts if self.alone is None else self.alone))


@dataclass(frozen=True)
class _Verification:
    """One check of a table, with all that it needs."""

    session: TableSession
    settings: Settings
    columns: LogColumns
    passes: LastPasses
    mixed: Collection[str]
    """Files that wait to be split."""
    sample: bool

    def at(self, span: Span, logs: list[LogReport]) -> _Outcome:
        """Judges the logs whose last passes lie in a span of snapshots."""
        title, unread = _pass_of(self.session.table, span.made), self._left_out(span, logs)
        compared, note = self._compared(span, logs)
        verdicts = self._verdicts(compared, title, unread)
        if unread and not all(verdict.success for verdict in verdicts):
            # a row in a file that was not read may have superseded one that is gone, so all files are read
            verdicts = self._verdicts(compared, title)
        if all(verdict.success for verdict in verdicts):
            return _Outcome(verdicts, note)
        own = self.passes.alone(self.session.table, logs)
        alone = _by_themselves(self.session, self.columns, own, title)
        sound = span.until is not None and all(verdict.success for verdict in (*alone, verdicts[-1]))
        if sound and stand_as_read(self.session.table, self.settings, self.passes.of(logs)):
            # rows that came late broke the comparison, and retention has taken them since
            return _Outcome([*alone, verdicts[-1]], note)
        blame = "which kept every guarantee" if all(v.success for v in alone) else "which had broken a guarantee itself"
        said = f"rows came, or others changed some, after the pass of snapshot {span.made}, {blame}"
        return _Outcome(verdicts, said, alone)

    def _compared(self, span: Span, logs: list[LogReport]) -> tuple[list[_Pair], str]:
        """Returns which snapshots to compare and what passes removed between them, and a note for people."""
        table = self.session.table
        current = table.current_snapshot()
        now = current.snapshot_id if current else span.made
        at_any_time = (now, now), [_nothing_removed(entry) for entry in logs]
        lost = self._lost(span)
        if span.before is None or lost:
            return [at_any_time], f"{lost}, so only what must hold at any time was checked"
        if span.until is None:
            return [((span.before, now), logs)], ""
        # what retention took is missing rightly, so the passes are compared with the snapshot before it
        return [((span.before, span.until), logs), at_any_time], ""

    def _lost(self, span: Span) -> str:
        """Returns in words which snapshot of a span there is no more; empty where the table has all of them."""
        if span.before is None:
            return "the snapshot before the last pass is not told by the catalog"
        for snapshot, what in ((span.before, "the last pass"), (span.until, "a later removal")):
            if snapshot is not None and self.session.table.snapshot_by_id(snapshot) is None:
                return f"snapshot {snapshot} before {what} has expired"
        return ""

    def _verdicts(self, compared: list[_Pair], title: str, unread: Collection[str] = ()) -> list[Verdict]:
        return [_compare(self.session, self.columns, *one, title, mixed=self.mixed, unread=unread) for one in compared]

    def _left_out(self, span: Span, logs: Sequence[LogReport]) -> set[str]:
        """Returns files that the check of a run does not read, if they stand as they stood before its passes."""
        table, columns, settings = self.session.table, self.columns, self.settings
        if not self.sample or span.before is None or not (before := table.snapshot_by_id(span.before)):
            return set()
        # with transactions or leader epochs, rows in any other file may decide what a row is
        if columns.transactions or columns.leader_epoch:
            return set()
        rows = summary_of(before).get("total-records", "")
        if rows.isdecimal() and int(rows) <= settings.audit_rows:
            # a small table is read whole, and nothing more need be known of it
            return set()
        views = read_logs(table, settings, span.before, partitions=[log.partition for log in logs])
        expired = {log.name: log.expired for log in logs}
        seed = ",".join(f"{log.partition}:{log.checkpoint_after}" for log in logs)
        return passed_over(views, self.passes.settled, expired, settings.audit_rows, seed)


def _mixed_files(session: TableSession, settings: Settings) -> set[str]:
    """Returns the files that wait to be split, which are in no log yet; rows are read, so Spark is opened first."""
    table, _ = session.table, session.jvm
    return set() if keeps_logs_apart(table, settings) else {f.path for f in table_logs(table, settings).mixed}


def must_hold(report: VerifyReport) -> VerifyReport:
    """Returns the report if the passes kept every guarantee, whatever other writers did to the rows since.

    Raises:
        GateRefused: naming what broke.
        ExpectationFailed: a user's own critical expectation failed.
    """
    if not report.passes_hold:
        broken = ", ".join(sorted({c.expectation for c in report.checks if not c.success}))
        raise GateRefused(
            f"{report.table}: the published table breaks {broken}; see {', '.join(report.data_docs)}, and look at the "
            "task's log for an error of Spark before anything is undone.",
            pages=report.data_docs,
        )
    if report.failed_own:
        raise ExpectationFailed(
            f"{report.table}: your own expectations {', '.join(report.failed_own)} failed, and every guarantee holds; "
            f"see {report.data_docs[-1]}.",
            report.data_docs,
        )
    return report


def _by_themselves(
    session: TableSession, columns: LogColumns, own: Iterable[tuple[OwnSnapshots, list[LogReport]]], title: str
) -> list[Verdict]:
    """Judges each pass by the rows that it read and wrote, whatever came beside or after it."""
    return [_compare(session, columns, (base, made[-1]), logs, title, own=made) for (base, made), logs in own]


def _pass_of(table: Table, snapshot: int) -> str:
    """Returns which pass made a snapshot, for people."""
    commit = table.snapshot_by_id(snapshot)
    phase, _, plan = (summary_of(commit).get(PLAN_SUMMARY, "") if commit else "").partition(":")
    return f"phase {phase}, plan {plan}, snapshot {snapshot}" if plan else f"snapshot {snapshot}"


def _nothing_removed(entry: LogReport) -> LogReport:
    """Returns the report that nothing was removed, which can be promised of a snapshot compared with itself."""
    return entry.model_copy(update={cause.name: 0 for cause in CAUSES})


def _others_deleted(jvm: JvmTable, before: Mapping[str, Any], after: Mapping[str, Any], wrote: Collection[int]) -> bool:
    """Returns whether commits that are not the pass's put row-level deletes on files while it ran.

    Args:
        jvm: the table by Iceberg's JVM API.
        before: scan tasks of the snapshot that the pass read, by path.
        after: scan tasks of the last snapshot that it made, by path.
        wrote: sequence numbers of the snapshots that it made.
    """
    came = (jvm.new_deletes(before[path], after[path]) for path in before.keys() & after.keys())
    return any(number not in wrote for numbers in came for number in numbers)


def _number(task: Any) -> int:
    """Returns the sequence number of the commit that brought a task's data file."""
    return int(task.file().fileSequenceNumber())


def _compare(
    session: TableSession,
    columns: LogColumns,
    snapshots: tuple[int, int],
    logs: list[LogReport],
    title: str,
    own: Sequence[int] = (),
    mixed: Collection[str] = (),
    unread: Collection[str] = (),
) -> Verdict:
    """Judges the rows of two snapshots against what passes did to logs between them.

    With `own`, the snapshots that one pass made, only rows that this pass read or wrote are judged. Files in `mixed`,
    which wait to be split, are passed over, as other writers may have made them of files from before. Files in `unread`
    are passed over where they stand in both snapshots with the same deletes.
    """
    jvm, name = session.jvm, session.name
    base, current = snapshots
    values = [p.partition for p in logs]
    page = page_title(name, values, f"published {current}")
    among = columns.log.among(values)
    before, after = jvm.scan_tasks(base, among), jvm.scan_tasks(current, among)
    if own:
        wrote = {snapshot: jvm.sequence_number(snapshot) for snapshot in own}
        after = after.only([p for p in after if p in before or _number(after[p]) in wrote.values()])
        began = before
        for portion in own[:-1]:
            tasks = jvm.scan_tasks(portion, among)
            began |= tasks.only([p for p in tasks if p not in began and _number(tasks[p]) == wrote[portion]])
        rows_taken = jvm.delete_manifests(current) and _others_deleted(jvm, began, after, set(wrote.values()))
        if rows_taken or began.keys() - after.keys() - set().union(*map(jvm.removed_files, own)):
            # others took files or rows while the pass ran: what it removed can no longer be told from what they did
            before, logs = after, [_nothing_removed(entry) for entry in logs]
    after = after.only([path for path in after if path not in mixed])
    shared = before.keys() & after.keys()
    if jvm.delete_manifests(base) or jvm.delete_manifests(current):
        shared = {path for path in shared if jvm.deletes(before[path]) == jvm.deletes(after[path])}
    passed = shared.intersection(unread)
    with ExitStack() as hold:
        sides = [
            Side(after.only(shared - passed), "both"),
            Side(before.only(before.keys() - shared), "before", wide=True),
            Side(after.only(after.keys() - shared), "after", wide=True),
        ]
        rows = evidence(jvm, columns, sides, hold, lineage=jvm.has_lineage(base))
        # files without bounds may be of other logs
        rows = at_hand(rows.where(rows["p"].isin([str(value) for value in values])), sides)
        about = {"Pass": title, "Snapshot": f"{current}, as published", "Compared with": f"snapshot {base}"}
        if passed:
            about["Read"] = f"all but {len(passed):,} of {len(after):,} files; the pass left these alone"
        return judge(
            rows, name, page, [promise(p) for p in logs], session.home, about | {"Partitions": partitions(values)}
        )
