"""One pass over some logs of one table: find dead rows, rewrite or hide them, pass the gate, commit."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.table import Table
from pyroaring import BitMap

from hardpack import faults
from hardpack.audit import audited
from hardpack.errors import CommitUnknown, Conflict
from hardpack.gate import pass_gate
from hardpack.lake.commit import Change, Standing
from hardpack.lake.door import IceTable
from hardpack.lake.files import DataFiles, FileRef
from hardpack.lake.history import Record, commits
from hardpack.lake.layout import table_name
from hardpack.lake.packing import PassFolder
from hardpack.lake.row_deletes import on_one_file, write_positions
from hardpack.lake.state import PASS_SUMMARY, PLAN_SUMMARY, STATE_PROPERTY, made_by, read_state, state_of, write_state
from hardpack.log.causes import CAUSES
from hardpack.log.grouping import files_to_rewrite
from hardpack.log.horizons import Range
from hardpack.log.model import DataFile, LogState, LogView, Segment
from hardpack.log.removal import stays_under_vector
from hardpack.log.settings import Settings
from hardpack.report import LogReport, PassReport
from hardpack.spark.dead_rows import DeadRows, hidden_rows
from hardpack.spark.rewrite import Living, rewrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A pass to run: the logs as they were planned, and the state that each will have after it."""

    report: PassReport
    settings: Settings
    views: tuple[LogView, ...]
    groups: Mapping[str, Sequence[Sequence[Segment]]]
    """By partition the segments that become one."""
    record: Record
    """The states of all logs when the pass began; those of its own must still stand at its end."""
    after: Mapping[str, LogState]
    home: Path | None
    """Folder for validation results and Data Docs, None when nothing is validated."""
    copied_to: Mapping[str, int]
    """By partition the offset from which on nothing is touched."""
    expired: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)
    """Offset ranges whose tombstones have to go, by partition."""
    dated: Mapping[str, Callable[[], LogState]] = field(default_factory=dict)
    """By partition what tells the state of a log whose new horizons count from the time of the call."""

    def after_at_commit(self) -> dict[str, LogState]:
        """The states as they are when the pass commits now: a horizon counts from the commit (invariant 5)."""
        now = {name: replace(state_now(), empty=self.after[name].empty) for name, state_now in self.dated.items()}
        return dict(self.after) | now


def applied_before(table: Table, phase: Literal["one", "two"], plan: str) -> PassReport | None:
    """The report of a commit that carries this plan and phase, if the history holds one (invariant 6)."""
    for commit in commits(table):
        if commit.plan == f"{phase}:{plan}":
            known = PassReport(table=table_name(table), phase=phase, plan=plan, now=0, base=commit.parent)
            text = commit.report or known.summary_json()
            return PassReport.from_summary(text, commit.snapshot, repeated=True)
    return None


FindDead = Callable[[Mapping[str, FileRef], Mapping[str, BitMap]], dict[str, DeadRows]]
"""The narrow pass: given the logs' files and the positions in them that row-level deletes took, dead rows by file."""


def run(table: IceTable, files: DataFiles, job: Job, find_dead: FindDead, scan: DataFrame) -> PassReport:
    """Run the pass; nothing is published before the gate has agreed.

    Args:
        table: the table's door.
        files: reads and writes its data files.
        job: what to do.
        find_dead: the narrow pass.
        scan: the narrow scan of the logs.

    Raises:
        GateRefused: a guarantee does not hold on the staged result.
        Conflict: an input file or a log's state changed meanwhile.
    """
    started = time.monotonic()
    base = job.report.base
    if base is None:
        return job.report
    faults.reach("begun")
    tasks = table.scan_tasks(base, job.settings.column_partition, [v.partition for v in job.views])
    flagged = (f.path for v in job.views for f in v.files if f.row_deletes)
    deletes = {path: lying for path in flagged if (lying := table.deletes(tasks[path]))}
    refs = table.refs(tasks)
    hidden = hidden_rows(files, deletes, {path: refs[path].rows for path in deletes}, scan)
    dead = {path: rows for path, rows in find_dead(refs, hidden).items() if rows.positions or rows.erase}
    for path, rows in dead.items():
        rows.hidden = hidden.get(path, rows.hidden)
    faults.reach("dead rows found")
    vectored = _vectored(files, job, refs, dead, deletes)
    log.info("%s: %d files hold rows to drop, %d of them stay", job.report.table, len(dead), len(vectored))
    left = {p: refs[p].bytes * (refs[p].rows - len(d.unread)) // refs[p].rows for p, d in dead.items()}
    living = {path: size for path, size in left.items() if path not in vectored}
    fixed = {*vectored, *deletes}
    runs = [run for v in job.views for run in files_to_rewrite(job.groups[str(v.partition)], living, fixed)]
    hit = {file.path for run in runs for file in run}
    groups = [_living_of(run, refs, dead) for run in runs]
    made = rewrite(table.spark, files, groups, job.settings.column_offset, job.settings.segment_bytes)
    entries = [entry for one in made for entry in one.new]
    vectors: list[dict[str, Any]] = []
    try:
        faults.reach("rewritten")
        vectors = write_positions(files, vectored, refs)
        if vectors:
            faults.reach("vectors written")
        taken = {path: len(positions) for path, positions in hidden.items()}
        written: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for entry in entries:
            written[files.partition_of(entry, job.settings.column_partition)].append(entry)
        logs = tuple(
            _log_report(files, job, view, dead, hit, vectored, written[str(view.partition)], taken)
            for view in job.views
        )
        new = [table.content_file(entry) for entry in entries]
        named = [table.content_file(entry) for entry in vectors]
        new_tasks = {str(entry["file-path"]): table.task_of(file) for entry, file in zip(entries, new, strict=True)}
        new_tasks |= {p: table.task_of(tasks[p].file(), [v]) for p, v in zip(vectored, named, strict=True)}
        verdict = pass_gate(table, job, logs, audited(job, tasks, [*hit, *vectored], vectored, made, new_tasks))
        faults.reach("gate passed")
        job = replace(
            job, after={str(e.partition): replace(job.after[str(e.partition)], empty=not e.rows_after) for e in logs}
        )
        report = job.report.model_copy(update={"logs": logs, "seconds": round(time.monotonic() - started, 1)})
        change = replace(
            change_of(job, report, PassFolder(files.io, files.location), [tasks[path].file() for path in hit], new),
            vectors=named,
            replaced=[delete for path in vectored for delete in table.lying_on(tasks[path])],
            partitions=(job.settings.column_partition, [v.partition for v in job.views]),
        )
        snapshot = table.commit(base, change)
    except CommitUnknown:
        # the files may be the table's by now; if not, orphan removal takes them
        raise
    except Exception:
        files.discard([*entries, *vectors])
        raise
    faults.reach("committed")
    return report.model_copy(update={"snapshot": snapshot, "data_docs": verdict.page})


def change_of(job: Job, report: PassReport, folder: PassFolder, remove: Iterable[Any], add: Iterable[Any]) -> Change:
    """What the commit of a pass does: files out and in, the logs' new state, the report in the summary."""
    return Change(
        remove=remove,
        add=add,
        properties=lambda standing: {STATE_PROPERTY: _next_state(job, standing)},
        summary={
            PLAN_SUMMARY: f"{report.phase}:{report.plan}",
            PASS_SUMMARY: folder.kept(report.summary_json()),
            STATE_PROPERTY: folder.kept(write_state(job.after_at_commit())),
        },
        rewrites=job.settings.commit_operation == "replace",
    )


def _living_of(run: Iterable[DataFile], refs: Mapping[str, FileRef], dead: Mapping[str, DeadRows]) -> list[Living]:
    """The files of a run that have a row to copy."""
    unread = {f.path: dead[f.path].unread if f.path in dead else BitMap() for f in run}
    return [Living(refs[path], rows.serialize()) for path, rows in unread.items() if len(rows) < refs[path].rows]


def _vectored(
    files: DataFiles,
    job: Job,
    refs: Mapping[str, FileRef],
    dead: Mapping[str, DeadRows],
    deletes: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, BitMap]:
    """The files that stay as they are, with what their new deletion vectors or position deletes name."""
    if not files.merge_on_read:
        return {}
    # other deletes may lie on several files, so that they cannot be replaced with one file's
    fit = {path: rows for path, rows in dead.items() if all(map(on_one_file, deletes.get(path, ())))}
    return {
        path: rows.unread
        for path, rows in fit.items()
        if stays_under_vector(refs[path].rows, refs[path].bytes, len(rows.unread), rows.gone, job.settings)
    }


def _next_state(job: Job, standing: Standing) -> str:
    """The table's state with these logs moved on, refused when the pass no longer fits what stands."""
    name, base = job.report.table, job.report.base
    if moved := job.record.why_moved(base, standing.ancestors):
        raise Conflict(f"{name}: {moved}; plan again, nothing was published.")
    current = read_state(name, standing.properties)
    own = {str(view.partition) for view in job.views}
    known = {log for log in current.keys() | own if job.record.stands(log, state_of(current, log))}
    if changed := sorted(own - known):
        raise Conflict(
            f"{name}: another pass cleaned partition {changed[0]} meanwhile, or somebody paused or resumed it; plan "
            "again, nothing was published."
        )
    current |= {log: state for log, state in job.record.trusted.items() if log in known}
    after = {log: made_by(state, standing.made) for log, state in job.after_at_commit().items()}
    return write_state({**current, **after})


def _log_report(
    files: DataFiles,
    job: Job,
    view: LogView,
    dead: Mapping[str, DeadRows],
    rewritten: Collection[str],
    vectored: Mapping[str, BitMap],
    own: list[dict[str, Any]],
    taken: Mapping[str, int],
) -> LogReport:
    name = str(view.partition)
    hit = [f for f in view.files if f.path in rewritten]
    left = [f for f in view.files if f.path not in rewritten]
    dying = [dead[f.path] for f in view.files if f.path in dead]
    causes = {cause.name: sum(rows.causes.get(cause.name, 0) for rows in dying) for cause in CAUSES}
    unseen = {f.path: len(vectored[f.path]) if f.path in vectored else taken.get(f.path, 0) for f in left}
    after = job.after[name]
    below = [f for f in left if f.max_offset < (after.checkpoint or 0)]
    waiting = [f.tombstones for f in below] + [files.nulls_in(f, job.settings.column_value) for f in own]
    return LogReport(
        partition=view.partition,
        checkpoint_before=view.state.checkpoint,
        checkpoint_after=after.checkpoint,
        copied_to=job.copied_to[name],
        log_end=view.log_end,
        rows_before=view.rows - sum(taken.get(f.path, 0) for f in view.files),
        rows_after=sum(f.rows - unseen[f.path] for f in left) + sum(f["record-count"] for f in own),
        bytes_before=view.bytes,
        bytes_after=sum(f.bytes for f in left) + sum(f["file-size-in-bytes"] for f in own),
        bytes_read=sum(f.bytes for f in hit),
        bytes_written=sum(f["file-size-in-bytes"] for f in own),
        latest_to=after.unseen.late if after.unseen else None,
        expired=job.expired.get(name, ()),
        tombstones_waiting=None if None in waiting else sum(n or 0 for n in waiting),
        files_rewritten=len(hit),
        files_written=len(own),
        files_under_vectors=sum(f.path in vectored for f in left),
        files_left_alone=sum(f.path not in vectored for f in left),
        **causes,
    )
