"""The split: files that a writer left with rows of several logs become files of one log, row for row.

Sinks that write by table and not by topic partition leave such files. Nobody can tell from metadata which logs have
rows in one, so that they are taken apart before a pass looks at them. A split changes no row and no state: to the
passes its files are another writer's, of which they have seen nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from pyroaring import BitMap

from hardpack import faults
from hardpack.compaction.data_docs import page_title
from hardpack.compaction.gate import judge
from hardpack.compaction.phase_one import clean
from hardpack.compaction.plan import FilesToSplit, Plan
from hardpack.compaction.plan_check import check_base
from hardpack.compaction.planning import make_plan
from hardpack.compaction.publish import applied_before
from hardpack.compaction.report import PassReport, SplitReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.staging import discarded_on_failure
from hardpack.compaction.work import PassRequest, request_id
from hardpack.errors import Conflict, GateRefused
from hardpack.files.content_file import ContentFile
from hardpack.rules.grouping import in_packs
from hardpack.rules.model import Partition
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.spark.causes.dead_positions import deleted_rows
from hardpack.spark.commit import CommitChange
from hardpack.spark.evidence import Sample, Side, at_hand, evidence
from hardpack.spark.log_rows import log_rows
from hardpack.spark.rewrite import RewriteInput, living, write_anew
from hardpack.spark.scan_tasks import ScanTasks
from hardpack.spark.split import split_file
from hardpack.table.history import SPLIT_SUMMARY, WHOLE, ancestors, is_append
from hardpack.table.layout import check_layout
from hardpack.table.log_name import value_by_bounds
from hardpack.table.log_views import table_logs
from hardpack.table.manifests import keeps_logs_apart
from hardpack.table.schema_columns import LogColumn

SPLITS = 5
"""How often a verb splits again, for files that a writer added during the split before, until it gives up."""
COMMIT_BYTES, COMMIT_FILES = 64 * 1024**3, 2000
"""Most bytes and files of one commit of a split, so that a failed split of a large table does not begin anew."""


@dataclass(frozen=True)
class _Batch:
    """Files that one commit takes apart."""

    snapshot: int
    tasks: ScanTasks
    """Iceberg's scan task of each."""
    files: Mapping[str, ContentFile]
    deleted: Mapping[str, BitMap]
    """The positions that row-level deletes took of each."""
    appended: bool
    """Whether appends brought all of the files, so that nobody can have taken rows out of them before."""

    @property
    def rows(self) -> int:
        """Rows that readers see."""
        return sum(f.rows for f in self.files.values()) - sum(map(len, self.deleted.values()))


def clean_after_split(open_session: Callable[[], TableSession], plan: Plan, asked: FilesToSplit) -> PassReport:
    """Runs phase one of a plan that has files to split: splits them, and plans anew what it was asked for.

    Args:
        open_session: opens the plan's table.
        plan: with files to split.
        asked: those files, and what the plan was asked for.

    Raises:
        BadInput, GateRefused, Conflict: see `split_first` and `hardpack.compaction.phase_one.clean`.
    """
    session = open_session()
    if done := applied_before(session.table, PassRequest(plan.table, "one", plan.id, plan.now, None)):
        return done
    # where the plan's snapshot is no longer in the past, nobody can tell whether the plan was applied
    check_base(session, plan)
    check_layout(session.table, plan.settings)
    _, session = split_first(open_session, plan.now)
    fresh = make_plan(session, asked.asked_again(plan), plan.settings)
    again = fresh.model_copy(update={"made_for": plan.id, "unit_bytes": plan.unit_bytes})
    return clean(session, again).noted(str(asked))


def split_first(
    open_session: Callable[[], TableSession], now: int, dry_run: bool = False
) -> tuple[SplitReport, TableSession]:
    """Splits files of several logs until there are none; returns the report, and a session of the table as it is then.

    Args:
        open_session: opens the table.
        now: for the report, ms since the epoch.
        dry_run: only say how many files and bytes there are.

    Raises:
        Conflict: a writer adds such files faster than they can be split; else see `split`.
    """
    session = open_session()
    report = split(session, now, dry_run)
    for _ in range(SPLITS):
        if report.snapshot is None:
            return report, session
        session = open_session()
        later = split(session, now)
        if later.snapshot is None:
            return report, session
        report = report.and_then(later)
    raise Conflict(
        f"{session.name}: a writer added files with rows of several logs during each of {SPLITS} splits; run it again."
    )


def split(session: TableSession, now: int, dry_run: bool = False) -> SplitReport:
    """Takes all files apart that hold rows of several logs, in commits of bounded size.

    Args:
        session: the table's.
        now: for the report, ms since the epoch.
        dry_run: only say how many files and bytes there are.

    Raises:
        BadInput: a wrong table or setting, or a row that names no log.
        GateRefused: rows before and after differ; nothing of that commit was published.
        Conflict: one of the files was rewritten or deleted from meanwhile.
    """
    began, settings, table = time.monotonic(), session.checked_settings(), session.table
    apart = keeps_logs_apart(table, settings)
    mixed = [] if apart else table_logs(table, settings, memory=session.memory).mixed
    report = SplitReport(table=session.name, now=now, files=len(mixed), bytes=sum(f.bytes for f in mixed))
    if dry_run or not mixed:
        return report
    pages, snapshot, written = list[str](), session.base or 0, 0
    for files in in_packs(mixed, lambda file: file.bytes, COMMIT_BYTES, COMMIT_FILES):
        batch = _read(session, settings, snapshot, [file.path for file in files])
        if batch.files:
            # a batch is empty where other writers took its files away meanwhile
            new_files, page, snapshot = _split(session, settings, batch)
            pages += [page] if page else []
            written += new_files
    return report.model_copy(
        update={
            "snapshot": snapshot,
            "files_written": written,
            "seconds": round(time.monotonic() - began, 1),
            "data_docs": tuple(pages),
        }
    )


def _read(session: TableSession, settings: Settings, snapshot: int, paths: Sequence[str]) -> _Batch:
    jvm, columns = session.jvm, session.columns(settings)
    tasks = jvm.tasks_of(snapshot, paths)
    files = tasks.data_files({path: int(t.file().dataSequenceNumber()) for path, t in tasks.items()})
    deletes = {path: lying for path, task in tasks.items() if (lying := jvm.deletes(task))}
    deleted = dict[str, BitMap]()
    if deletes:
        rows = log_rows(jvm.spark, jvm.name, snapshot, columns)
        deleted = deleted_rows(session.data_files(settings), deletes, {p: files[p].rows for p in deletes}, rows)
    appends = {s.sequence_number for s in ancestors(session.table) if is_append(s)}
    appended = all(int(task.file().fileSequenceNumber()) in appends for task in tasks.values())
    return _Batch(snapshot, tasks, files, deleted, appended)


def _split(session: TableSession, settings: Settings, batch: _Batch) -> tuple[int, str, int]:
    """Splits the files of a batch; returns the number of new files, the page of the gate, and the new snapshot."""
    jvm, columns, files = session.jvm, session.columns(settings), session.data_files(settings)
    groups = [[RewriteInput(f, batch.deleted.get(p, BitMap()).serialize())] for p, f in batch.files.items()]

    def write(group: Sequence[RewriteInput]) -> list[ContentFile]:
        return split_file(files, lambda: living(files, group), group[0].file, columns, settings.segment_bytes)

    faults.reach("begun")
    rewritten = write_anew(jvm.spark, files, groups, "splitting", write)
    new = [file for one in rewritten for file in one.new]
    with discarded_on_failure(files, [file.path for file in new]):
        java_files = [jvm.java_file(file) for file in new]
        whole = WHOLE if batch.appended and not batch.deleted else ""
        page = _judge(session, settings, batch, list(zip(new, java_files, strict=True))) if new or batch.rows else ""
        change = CommitChange(
            remove=[task.file() for task in batch.tasks.values()],
            add=java_files,
            properties=lambda _: {},
            summary={SPLIT_SUMMARY: f"{whole}{request_id([batch.snapshot, sorted(batch.files)])}"},
            rewrites=True,
        )
        return len(new), page, jvm.commit(batch.snapshot, change).id


def _judge(session: TableSession, settings: Settings, batch: _Batch, new: Sequence[tuple[ContentFile, Any]]) -> str:
    """Checks that each row is still there, unchanged, in a file of its log; returns the gate's page.

    Raises:
        GateRefused: a row is missing, added or changed, or a new file does not prove its log.
    """
    jvm, name = session.jvm, session.name
    # a split carries every row over, so what rows tell of transactions and epochs does not matter
    columns = session.columns(settings)
    columns = replace(columns, producer_id=None, transactional=None, control=None, leader_epoch=None, batch=None)
    spans, rows = dict[Partition, tuple[int, int]](), Counter[Partition]()
    for file, _ in new:
        # hardpack writes the bounds of these columns uncut
        log = columns.log.of([value_by_bounds(c, file.column_metrics(c.field_id), None) for c in columns.log.columns])
        if log is None:
            raise GateRefused(f"{name}: a file of one log does not prove it; report it with the table's metadata.")
        rows[log] += file.rows
        low, high = spans.get(log, (0, 0))
        first, last = _offsets(columns.offset, file)
        spans[log] = min(low, first), max(high, min(last, LONG_MAX - 1) + 1)
    share = -(-batch.rows // settings.audit_rows)
    promises = [
        # a split drops no row, from the first offset of a log on
        {"partition": str(log), "bound": low, "copied_to": low, "log_end": end, "expired": [], "removed": 0}
        | ({"counted": [rows[log], rows[log]], "share": share} if share > 1 else {})
        for log, (low, end) in sorted(spans.items())
    ]
    sides = [
        Side(batch.tasks, "before", wide=True),
        Side(jvm.new_tasks((file, java, ()) for file, java in new), "after", wide=True),
    ]
    sample = Sample(share, batch.snapshot % 2**31) if share > 1 else None
    about = {"Split": f"{len(batch.files)} files of several logs, before it was published", "Logs": str(len(spans))}
    with ExitStack() as hold:
        gathered = at_hand(evidence(jvm, columns, sides, hold, lineage=False, sample=sample), sides)
        verdict = judge(
            gathered, name, page_title(name, (), f"split of {batch.snapshot}"), promises, session.home, about
        )
    if not verdict.success or rows.total() != batch.rows:
        lost = batch.rows - rows.total()
        raise GateRefused(
            f"{name}: the split of {len(batch.files)} files broke {', '.join(verdict.failed) or f'{lost} rows'}, so "
            f"nothing was published; see {verdict.page} and report it with the table's metadata.",
            (),
            (verdict.page,),
        )
    page: str = verdict.page
    return page


def _offsets(offset: LogColumn, file: ContentFile) -> tuple[int, int]:
    """Returns the least and the greatest offset of a file that was written here, 0 and -1 where no row has one."""
    _, low, high = file.column_metrics(offset.field_id)
    if low is None or high is None:
        return 0, -1
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
