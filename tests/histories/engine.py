"""The stand-in for Spark: dead rows, new files, gate and verification by the plain rules; the patches that plant it.

All other steps of a pass are the real ones: what is chosen, how it is counted, what is published.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hardpack.spark.log_rows
from hardpack.compaction import alter_states, inputs, phase_one, phase_two, pipeline, split, verify
from hardpack.compaction.dead_rows import DeadRows, expired_to
from hardpack.compaction.gate import GatePassed
from hardpack.compaction.session import TableSession
from hardpack.compaction.staging import Staged
from hardpack.compaction.work import LogFacts
from hardpack.errors import GateRefused, UncleanableLog
from hardpack.files.content_file import ContentFile, listed_file
from hardpack.operations import maintenance
from hardpack.rules.causes import DUPLICATE, EXPIRED_TOMBSTONE, NULL_KEY, SUPERSEDED, Cause
from hardpack.rules.reference.offset_map import build_offset_map
from hardpack.rules.reference.row import Row as LogRow
from hardpack.spark.causes.dead_positions import FileDeadRows
from hardpack.spark.map_end import BoundedMap
from hardpack.spark.rewrite import Rewritten
from hardpack.table import manifests
from hardpack.table.footers import Footers
from hardpack.table.log_views import late_files
from hardpack.table.state import STATE_PROPERTY
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap

from tests.histories import splitting
from tests.histories.ice import Row
from tests.histories.judging import Columns, all_but_one, broken, compare
from tests.histories.manifests import delete_file

Place = tuple[str, int]
"""File and position."""
Dead = dict[Place, Cause]


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


class SimFiles:
    """Stands for `DataFiles`: what is discarded leaves the store."""

    def __init__(self, session: Any) -> None:
        self.merge_on_read = session.jvm.tab.on_read
        self.schema, self.store = session.table.schema(), session.jvm.tab.store
        self.io, self.location = session.table.io, session.table.location()

    def discard(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.store.delete(path)


def deleted_rows(files: Any, deletes: Mapping[str, list[Any]], sizes: Any, rows: Frame) -> Any:
    """The positions that position deletes took, by data file."""
    return {path: BitMap(at for one in lying for at in one.positions) for path, lying in deletes.items()}


def standing(inputs: Any, log: Any) -> dict[tuple[str, int], Row]:
    """The rows of a log at the base of a pass that a reader sees, by file and position."""
    store, none = inputs.files.store, BitMap()
    return {
        (f.path, at): row
        for f in log.view.files
        for at, row in enumerate(store.files[f.path])
        if at not in inputs.deleted.get(f.path, none)
    }


def find_dead_rows(session: Any, inputs: Any) -> DeadRows:
    """Stands for how a pass finds dead rows, by the plain rules."""
    work, at = inputs.work, Columns.of(inputs.work.columns)
    files: dict[str, FileDeadRows] = {}
    for log in work.logs:
        rows = standing(inputs, log)
        dead = _expired(rows, log, at) if work.request.phase == "two" else _dead(rows, log, at)
        keyless = sum(cause is NULL_KEY for cause in dead.values())
        if keyless and log.settings.null_keys == "refuse":
            raise UncleanableLog("keyless rows.", (log.name,), f"{keyless} rows without a key")
        for (path, position), cause in dead.items():
            files.setdefault(path, FileDeadRows(log.name)).add(cause, BitMap([position]), rows[path, position].offset)
        for path in _with_deleted_keys(inputs, log, rows, at) if work.request.phase == "one" else ():
            files.setdefault(path, FileDeadRows(log.name)).key_deleted = True
    for path, found in files.items():
        found.deleted_before = inputs.deleted.get(path, BitMap())
    if work.request.phase == "one":
        return DeadRows(files, {log.name: _facts(session, inputs, log, at) for log in work.logs})
    return DeadRows(files, {log.name: LogFacts(expired_to=expired_to(files.values(), log.name)) for log in work.logs})


def _with_deleted_keys(inputs: Any, log: Any, rows: Mapping[Place, Row], at: Columns) -> Iterator[str]:
    """Files with a row, hidden ones too, of a key that is deleted now: it has to leave the storage."""
    first, end = log.reach.first_dirty, log.reach.map_end
    last: dict[str, Row] = {}
    for row in rows.values():
        if row[at.key] is not None and row.offset < end and row.offset >= last.get(row[at.key], row).offset:
            last[row[at.key]] = row
    deleted = {key: row.offset for key, row in last.items() if row[at.value] is None and row.offset >= first}
    for file in log.view.files:
        lying = inputs.files.store.files[file.path]
        if any(row.offset < deleted.get(row[at.key], -1) for row in lying):
            yield file.path


def _expired(rows: Mapping[Place, Row], log: Any, at: Columns) -> Dead:
    return {
        place: EXPIRED_TOMBSTONE
        for place, r in rows.items()
        if r[at.value] is None and r[at.key] is not None and any(low <= r.offset <= high for low, high in log.ranges)
    }


def _dead(rows: Mapping[Place, Row], log: Any, at: Columns) -> Dead:
    first, end = log.reach.first_dirty, log.reach.map_end
    dead: Dead = {}
    seen: dict[int, Row] = {}
    for place, row in sorted(rows.items(), key=lambda entry: (entry[1].offset, entry[1].rid)):
        if row.offset < end and row.offset in seen and log.view.may_repeat and row[1:] == seen[row.offset][1:]:
            dead[place] = DUPLICATE
        seen.setdefault(row.offset, row)
    latest: dict[str, int] = {}
    for place, row in rows.items():
        if row[at.key] is not None and first <= row.offset < end and place not in dead:
            latest[row[at.key]] = max(latest.get(row[at.key], -1), row.offset)
    for place, row in rows.items():
        if place in dead or row.offset >= end:
            continue
        if row[at.key] is None:
            dead |= {place: NULL_KEY} if row.offset >= first else {}
        elif row.offset < latest.get(row[at.key], -1):
            dead[place] = SUPERSEDED
    return dead


def _facts(session: Any, inputs: Any, log: Any, at: Columns) -> LogFacts:
    """Which tombstones came late."""
    late = late_files(session.table, log.settings, log.view)
    if not late:
        return LogFacts()
    state, tab = log.view.state, session.jvm.tab
    read = state.seen.read if state.seen else 0
    before = next((s for s in tab.meta.snapshots if read and s.sequence_number == read), None)
    known = {
        (r.log, r.offset, r[at.key]) for found in tab.visible(before).values() for r in found if r[at.value] is None
    }
    shown = tab.visible(tab.meta.snapshot_by_id(inputs.work.base))
    mine = [r for f in late for r in shown[f.path]]
    end = state.horizons[-1][0]
    offsets = {r.offset for r in mine if r[at.value] is None and r.offset <= end
               and (r.log, r.offset, r[at.key]) not in known}  # fmt: skip
    return LogFacts(late_tombstones=sorted((o, o) for o in offsets))


def write(session: Any, choice: Any) -> Staged:
    """Stands for how a pass writes: living rows in new files of the store."""
    tab, made, new = session.jvm.tab, [], []
    for run in choice.rewrite:
        rows = [r for p in run for at, r in enumerate(tab.store.files[p]) if at not in choice.skipped(p)]
        files = [tab.file(rows, session.jvm.world.clock, ours=True)] if rows else []
        new += files
        made.append(Rewritten(tuple(run), [_content_file(tab, file) for file in files]))
    log_of = {file.path: int(log.name) for log in choice.work.logs for file in log.view.files}
    vectors = [
        delete_file(tab, log_of[path], {path: frozenset(positions)}, session.jvm.world.clock)
        for path, positions in choice.hide.items()
    ]
    listed = [listed_file(v.file_path, "parquet", v.spec_id, [], v.file_size_in_bytes, v.record_count) for v in vectors]
    return Staged(choice, made, listed, new, vectors)


def _content_file(tab: Any, file: Any) -> ContentFile:
    rows = tab.store.files[file.file_path]
    nulls = {
        "null-value-counts": {"keys": list(file.null_value_counts), "values": list(file.null_value_counts.values())}
    }
    return listed_file(
        file.file_path, "parquet", tab.meta.default_spec_id, [rows[0].log], file.file_size_in_bytes, len(rows), **nulls
    )


def judge_pass(session: Any, ledger: Any, keys: Any = None) -> Any:
    """Stands for the gate: the guarantees on the rows before and after, by log."""
    choice, world = ledger.choice, session.jvm.world
    at = Columns.of(choice.work.columns)
    for log, entry in zip(choice.work.logs, ledger.logs, strict=True):
        gone = {(p, at) for earlier in ledger.earlier for p in earlier.staged.choice.removed
                for at in earlier.staged.choice.skipped(p)}  # fmt: skip
        before = {place: r for place, r in standing(choice.inputs, log).items() if place not in gone}
        after = [r for (path, position), r in before.items() if position not in choice.skipped(path)]
        if found := broken(list(before.values()), after, entry, at, choice.is_last):
            raise GateRefused(f"{entry.partition}: {', '.join(found)}.", (str(entry.partition),))
    if planted := world.refuse_gate():
        raise GateRefused("a planted refusal.", tuple(log.name for log in choice.work.logs)[:planted])
    rows = sum(file.rows for log in choice.work.logs for file in log.view.files)
    return GatePassed("", whole=rows <= choice.work.settings.audit_rows)


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


def bounded_maps(
    rows: Any, live: Any, max_keys: Mapping[str, int], bases: Mapping[str, list[int]]
) -> dict[str, BoundedMap]:
    """Where each map ends that is full, by the rules' own map."""
    maps = {}
    for bound in rows.bounds:
        name, at = str(bound.partition), rows.columns
        if name not in max_keys or at is None:
            continue
        own = [LogRow(r.offset, None if r[at.key] is None else str(r[at.key]).encode(), None)
               for r in rows.rows if r.log == int(name)]  # fmt: skip
        built = build_offset_map(own, bases[name], bound.first_dirty, bound.map_end, max_keys=max_keys[name])
        maps[name] = BoundedMap(len(built.latest), built.end if built.end < bound.map_end - 1 else None)
    return maps


def log_rows(spark: Any, name: str, snapshot: int, columns: Any, partitions: Iterable[Any]) -> Frame:
    """The rows of the table at a snapshot."""
    tab = spark.tab
    shown = tab.visible(tab.meta.snapshot_by_id(snapshot))
    at = Columns.of(columns)
    return Frame([r for rows in shown.values() for r in rows], at, (), shown)


def with_bounds(rows: Frame, bounds: Iterable[Any]) -> Frame:
    """The rows, which know the bounds of a pass."""
    return Frame(rows.rows, rows.columns, list(bounds), rows.files)


def look(footers: Footers, paths: Iterable[str]) -> dict[str, dict[int, Any]]:
    """What the footers of data files tell."""
    store: Any = footers.io
    return {path: store.store.footers.get(path, {}) for path in paths}


def _manifests(snapshot: Snapshot, io: Any) -> list[ManifestFile]:
    io.store.read()
    return list(io.store.lists[snapshot.manifest_list])


def _entries(manifest: ManifestFile, io: Any, discard_deleted: bool = True) -> list[Any]:
    io.store.read()
    found = io.store.manifests[manifest.manifest_path]
    return [e for e in found if not discard_deleted or e.status.name != "DELETED"]


def commit_state(table: Any, state: str, summary: Mapping[str, str]) -> None:
    """Stands for `alter_states._commit`: an empty snapshot, if the table is as it was loaded."""
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
    (manifests, "opened_ahead", lambda io, manifests: [io] * len(manifests)),
    (Footers, "look", look),
    (split, "_read", splitting.read),
    (split, "_split", splitting.split),
    (Footers, "_kept", lambda footers, manifest: dict(footers.io.store.kept_footers.get(manifest, {}))),
    (Footers, "_keep", lambda footers, manifest, by_file: footers.io.store.kept_footers.update({manifest: by_file})),
    (inputs, "deleted_rows", deleted_rows),
    (pipeline, "find_dead_rows", find_dead_rows),
    (pipeline, "write", write),
    (pipeline, "gate_keys", lambda *_: None),
    (pipeline, "judge_pass", judge_pass),
    (TableSession, "data_files", lambda session, settings: SimFiles(session)),
    (phase_one, "log_rows", log_rows),
    (phase_two, "log_rows", log_rows),
    (phase_one, "live_rows", lambda rows, _: rows),
    (phase_one, "repeated_rows", repeated_rows),
    (phase_one, "bounded_maps", bounded_maps),
    (hardpack.spark.log_rows, "with_bounds", with_bounds),
    (hardpack.spark.log_rows, "below", lambda rows, _: rows),
    (maintenance, "_stale_filters", lambda *_: 0),
    (alter_states, "_commit", commit_state),
    (verify, "_compare", compare),
    (verify, "passed_over", all_but_one),
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
