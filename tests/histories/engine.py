"""The stand-in for Spark: passes, gate and verification in memory by the plain rules, and the patches that plant it."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import hardpack.control
import hardpack.heads
import hardpack.maintenance
import hardpack.verify
from hardpack.errors import GateRefused, HardpackError, UncleanableLog
from hardpack.lake.packing import PassFolder
from hardpack.lake.sensing import late_files
from hardpack.lake.state import STATE_PROPERTY
from hardpack.log.causes import CAUSES
from hardpack.log.grouping import files_to_rewrite
from hardpack.log.offset_map import build_offset_map
from hardpack.log.row import Row as LogRow
from hardpack.log.selection import first_dirty_offset
from hardpack.passes import change_of
from hardpack.report import LogReport
from hardpack.spark.duplicates import may_repeat
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tests.histories.ice import Row

Dead = dict[int, str]
"""Cause by row."""


@dataclass
class Frame:
    """Stands for a DataFrame of which only the ends of offset maps are asked."""

    rows: list[Row] = field(default_factory=list)
    columns: Columns | None = None
    bounds: Sequence[Any] = ()
    files: Mapping[str, list[Row]] = field(default_factory=dict)

    def select(self, *_: Any) -> Frame:
        return self

    def join(self, *_: Any) -> Frame:
        return self

    where = join


@dataclass
class _Log:
    """One log at the base of a pass."""

    rows: dict[str, list[Row]]
    """Visible rows by file."""
    dead: Dead = field(default_factory=dict)

    @property
    def all(self) -> list[Row]:
        return [r for rows in self.rows.values() for r in rows]


def run(door: Any, files: Any, job: Any, find_dead: Any = None, scan: Any = None) -> Any:
    """A pass: find dead rows, write the hit files anew, judge, commit. Takes what `hardpack.passes.run` takes."""
    report, base, tab = job.report, job.report.base, door.tab
    snapshot = tab.meta.snapshot_by_id(base)
    visible, columns = tab.visible(snapshot), Columns.of(tab, job.settings)
    logs, reports, remove, add = {}, [], [], []
    for view in job.views:
        name = str(view.partition)
        own = _Log({f.path: visible[f.path] for f in view.files})
        own.dead = _dead(own.all, job, view, columns)
        logs[name] = own
        _refuse_keyless(job, view, own, columns)
    for view in job.views:
        name = str(view.partition)
        own, gone, new = logs[name], [], []
        hit = {p for p, rows in own.rows.items() if any(r.rid in own.dead for r in rows)}
        living = {p: _bytes(p, own, tab) for p in hit}
        for group in files_to_rewrite(job.groups[name], living):
            rows = [r for f in group for r in own.rows[f.path] if r.rid not in own.dead]
            gone += [f.path for f in group]
            new += [tab.file(rows, door.world.clock)] if rows else []
        reports.append(_report(job, view, own, gone, new, tab))
        remove, add = remove + gone, add + new
    report = report.model_copy(update={"logs": tuple(reports)})
    try:
        _gate(tab, logs, reports, add, columns)
        if planted := door.world.refuse_gate():
            raise GateRefused("a planted refusal.", tuple(str(v.partition) for v in job.views)[:planted])
        made = door.commit(
            base, change_of(_emptied(job, reports), report, PassFolder(tab.io, tab.meta.location), remove, add)
        )
    except HardpackError:
        for file in add:
            tab.store.delete(file.file_path)
        raise
    return report.model_copy(update={"snapshot": made})


@dataclass(frozen=True)
class Columns:
    """Cells by role, as the table's columns are named now."""

    key: int
    value: int

    @classmethod
    def of(cls, tab: Any, settings: Any) -> Columns:
        schema = tab.meta.schema()
        return cls(*(schema.find_field(c).field_id for c in (settings.column_key, settings.column_value)))


def _bytes(path: str, own: _Log, tab: Any) -> int:
    rows = len(tab.store.files[path])
    return (100 + 50 * rows) * sum(r.rid not in own.dead for r in own.rows[path]) // rows


def _dead(rows: list[Row], job: Any, view: Any, at: Columns) -> Dead:
    name = str(view.partition)
    ranges = job.expired.get(name, ())
    if job.report.phase == "two":
        return {r.rid: "expired_tombstone" for r in rows if r[at.value] is None and r[at.key] is not None
                and any(low <= r.offset <= high for low, high in ranges)}  # fmt: skip
    first, end = first_dirty_offset(view), _reached(job.after[name])
    dead: Dead = {}
    seen: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: (r.offset, r.rid)):
        if row.offset < end and row.offset in seen and may_repeat(view) and row[1:] == seen[row.offset][1:]:
            dead[row.rid] = "duplicate"
        seen.setdefault(row.offset, row)
    latest: dict[str, int] = {}
    for row in rows:
        if row[at.key] is not None and first <= row.offset < end and row.rid not in dead:
            latest[row[at.key]] = max(latest.get(row[at.key], -1), row.offset)
    for row in rows:
        if row.rid in dead or row.offset >= end:
            continue
        if row[at.key] is None:
            dead |= {row.rid: "null_key"} if row.offset >= first else {}
        elif row.offset < latest.get(row[at.key], -1):
            dead[row.rid] = "superseded"
    return dead


def _refuse_keyless(job: Any, view: Any, own: _Log, at: Columns) -> None:
    keyless = sum(cause == "null_key" for cause in own.dead.values())
    if keyless and job.settings.null_keys == "refuse":
        raise UncleanableLog("keyless rows.", (str(view.partition),), f"{keyless} rows without a key")


def _reached(state: Any) -> int:
    """Where the pass that leaves a state ended."""
    return state.unseen.late if state.unseen else state.checkpoint or 0


def _emptied(job: Any, reports: Sequence[LogReport]) -> Any:
    """The job, knowing which logs it leaves without a row."""
    left = {str(entry.partition): entry.rows_after for entry in reports}
    return replace(job, after={name: replace(state, empty=not left[name]) for name, state in job.after.items()})


def repeated_rows(spark: Any, name: str, snapshot: int, columns: Any, partitions: Iterable[Any]) -> Frame:
    """Refuses what the real one refuses: two different rows at one offset."""
    tab = spark.world.lake.tabs[name.partition(".")[2]]
    for partition in partitions:
        contents: dict[int, set[Any]] = defaultdict(set)
        for rows in tab.visible(tab.meta.snapshot_by_id(snapshot)).values():
            for row in rows:
                if row.log == int(partition):
                    contents[row.offset].add(row[1:])
        if disputed := sorted(o for o, found in contents.items() if len(found) > 1):
            reason = f"rows share offset {disputed[0]} with a row that differs"
            raise UncleanableLog(f"{name}: {reason}.", (str(partition),), reason)
    return Frame()


def map_ends(rows: Any, live: Any, bounded: Mapping[str, int], bases: Mapping[str, list[int]]) -> dict[str, int]:
    """Where each map ends that is full, by the rules' own map."""
    ends = {}
    for bound in rows.bounds:
        name, at = str(bound.partition), rows.columns
        if name not in bounded or at is None:
            continue
        own = [LogRow(r.offset, None if r[at.key] is None else str(r[at.key]).encode(), None)
               for r in rows.rows if r.log == int(name)]  # fmt: skip
        end = build_offset_map(own, bases[name], bound.first_dirty, bound.checkpoint, max_keys=bounded[name]).end
        if end < bound.checkpoint - 1:
            ends[name] = end
    return ends


def narrow_scan(door: Any, name: str, snapshot: int, columns: Any, partitions: Iterable[Any]) -> Frame:
    """The rows of the table at a snapshot."""
    tab = door.tab
    shown = tab.visible(tab.meta.snapshot_by_id(snapshot))
    return Frame([r for rows in shown.values() for r in rows], Columns.of(tab, columns), (), shown)


def _report(job: Any, view: Any, own: _Log, gone: list[str], new: list[Any], tab: Any) -> LogReport:
    name, causes = str(view.partition), Counter(own.dead.values())
    left = [f for f in view.files if f.path not in gone]
    return LogReport(
        partition=view.partition,
        checkpoint_before=view.state.checkpoint,
        checkpoint_after=job.after[name].checkpoint,
        copied_to=job.copied_to[name],
        latest_to=job.after[name].unseen.late if job.after[name].unseen else None,
        log_end=view.log_end,
        rows_before=len(own.all),
        rows_after=len(own.all) - len(own.dead),
        bytes_before=view.bytes,
        bytes_after=sum(f.bytes for f in left) + sum(f.file_size_in_bytes for f in new),
        expired=job.expired.get(name, ()),
        files_rewritten=len(gone),
        files_written=len(new),
        **causes,
    )


def broken(before: list[Row], after: list[Row], entry: Any, at: Columns) -> list[str]:
    """The guarantees that do not hold between two sets of rows of a log, as the suite of expectations has them."""
    bound, end = (entry.checkpoint_after or 0) if entry.latest_to is None else entry.latest_to, entry.log_end
    copied = entry.copied_to if entry.copied_to is not None else bound
    had, has = Counter(r[1:] for r in before), Counter(r[1:] for r in after)
    tomb = {r[1:] for r in (*before, *after) if r[at.value] is None and r[at.key] is not None
            and any(low <= r.offset <= high for low, high in entry.expired)}  # fmt: skip
    found = []
    latest = {
        r[at.key]: r for r in sorted(before, key=lambda r: r.offset) if r.offset < bound and r[at.key] is not None
    }
    left: dict[str, set[int]] = defaultdict(set)
    for row in after:
        if row.offset < bound and row[at.key] is not None:
            left[row[at.key]].add(row.offset)
    wrong = (k for k, r in latest.items() if max(left[k], default=None) != r.offset
             and not (r[1:] in tomb and not left[k]))  # fmt: skip
    if any(wrong) or any(len(offsets) > 1 for offsets in left.values()):
        found.append("expect_latest_record_per_key")
    if any(n > had[c] for c, n in has.items() if c[1] < end):
        found.append("expect_kept_records_unchanged")
    if any(n > has[c] for c, n in had.items() if c[1] >= copied):
        found.append("expect_head_untouched")
    if any(c in has for c in tomb):
        found.append("expect_no_tombstone_past_horizon")
    if sum(n for c, n in had.items() if c[1] < end) - sum(n for c, n in has.items() if c[1] < end) != entry.removed:
        found.append("expect_ledger_balances")
    return found


def _gate(tab: Any, logs: Mapping[str, _Log], reports: Sequence[LogReport], new: list[Any], at: Columns) -> None:
    for entry in reports:
        own = logs[str(entry.partition)]
        if found := broken(own.all, [r for r in own.all if r.rid not in own.dead], entry, at):
            raise GateRefused(f"{entry.partition}: {', '.join(found)}.", (str(entry.partition),))


def compare(
    door: Any,
    settings: Any,
    name: str,
    snapshots: tuple[int, int],
    logs: list[Any],
    home: Any,
    did: str = "",
    own: bool = False,
) -> Any:
    """Stands for `hardpack.verify._compare`."""
    tab, at = door.tab, Columns.of(door.tab, settings)
    sides = []
    for number in snapshots:
        door.scan_tasks(number, settings.column_partition, [])
        sides.append(tab.visible(tab.meta.snapshot_by_id(number)))
    if own:
        wrote = tab.meta.snapshot_by_id(snapshots[1])
        new = {e.data_file.file_path for e in tab.entries(wrote) if e.file_sequence_number == wrote.sequence_number}
        sides[1] = {p: rows for p, rows in sides[1].items() if p in sides[0] or p in new}
        parent = tab.meta.snapshot_by_id(wrote.parent_snapshot_id or 0)
        removed = set(tab.paths(parent)) - set(tab.paths(wrote))
        if sides[0].keys() - sides[1].keys() - removed:
            sides[0], logs = sides[1], [entry.model_copy(update={c.name: 0 for c in CAUSES}) for entry in logs]
    sides = [[r for found in side.values() for r in found] for side in sides]
    failed: dict[str, list[str]] = defaultdict(list)
    for entry in logs:
        own = [[r for r in side if r.log == int(entry.partition)] for side in sides]
        for expectation in broken(*own, entry, at):
            failed[expectation].append(str(entry.partition))
    results = [{"expectation": e, "success": False, "observed": "", "partitions": []} for e in failed]
    return SimpleNamespace(success=not failed, failed=list(failed), results=results, page="", broken=())


def _late_tombstones(door: Any, table: Any, head: Any, rows: Frame) -> list[tuple[int, int]]:
    """Stands for `hardpack.heads._late_tombstones`."""
    late = late_files(table, head.settings, head.view)
    if not late:
        return []
    state, at, tab = head.view.state, rows.columns, door.tab
    read, paths = (state.seen or (0, 0))[0], {f.path for f in late}
    before = next((s for s in tab.meta.snapshots if read and s.sequence_number == read), None)
    mine = [r for p, found in rows.files.items() if p in paths for r in found]
    shown = [r for found in tab.visible(before).values() for r in found]
    known = {(r.log, r.offset, r[at.key]) for r in shown if r[at.value] is None}
    end = state.horizons[-1][0]
    return sorted({(r.offset, r.offset) for r in mine if r[at.value] is None and r.offset <= end
                   and (r.log, r.offset, r[at.key]) not in known})  # fmt: skip


def _files(door: Any, table: Any, settings: Any) -> Any:
    return SimpleNamespace(merge_on_read=False)


def _manifests(snapshot: Snapshot, io: Any) -> list[ManifestFile]:
    return list(io.store.lists[snapshot.manifest_list])


def _entries(manifest: ManifestFile, io: Any, discard_deleted: bool = True) -> list[Any]:
    found = io.store.manifests[manifest.manifest_path]
    return [e for e in found if not discard_deleted or e.status.name != "DELETED"]


def commit_state(table: Any, state: str, summary: Mapping[str, str]) -> None:
    """Stands for `hardpack.control._commit`: a snapshot that adds nothing, if the table is as it was loaded."""
    tab = table.catalog.tabs[".".join(table.name())]
    if tab.meta.format_version == 3:
        # as pyiceberg does
        raise NotImplementedError("Writing V3 is not yet supported")
    if tab.meta is not table.metadata:
        raise CommitFailedException("the table has moved on")
    tab.publish(tab.build(table.catalog.clock(), "append", extra=summary), {STATE_PROPERTY: state})


PATCHES: list[tuple[Any, str, Any]] = [
    (Snapshot, "manifests", _manifests),
    (ManifestFile, "fetch_manifest_entry", _entries),
    (hardpack.heads, "run", run),
    (hardpack.heads, "_files", _files),
    (hardpack.heads, "_late_tombstones", _late_tombstones),
    (hardpack.heads, "narrow_scan", narrow_scan),
    (hardpack.heads, "with_bounds", lambda rows, bounds: Frame(rows.rows, rows.columns, list(bounds), rows.files)),
    (hardpack.heads, "below", lambda rows, _: rows),
    (hardpack.heads, "live_rows", lambda rows, _: rows),
    (hardpack.heads, "repeated_rows", repeated_rows),
    (hardpack.heads, "map_ends", map_ends),
    (hardpack.maintenance, "_stale_filters", lambda *_: 0),
    (hardpack.control, "_commit", commit_state),
    (hardpack.verify, "_compare", compare),
]
"""All that is replaced of hardpack and of pyiceberg, and by what."""


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """While this holds, hardpack works on tables in memory."""
    real = [(owner, name, owner.__dict__[name]) for owner, name, _ in PATCHES if name in owner.__dict__]
    for owner, name, stand_in in PATCHES:
        setattr(owner, name, stand_in)
    try:
        yield
    finally:
        for owner, name, before in real:
            setattr(owner, name, before)
