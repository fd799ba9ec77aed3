"""Phase one on the heads of some logs: the Spark work of a pass, in a number of jobs that does not grow with the logs.

Each log has its own settings, time and bounds, so that what is planned apart can be cleaned together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyroaring import BitMap

from hardpack.errors import BadInput, UncleanableLog
from hardpack.lake.door import IceTable
from hardpack.lake.files import DataFiles, FileRef
from hardpack.lake.history import Record
from hardpack.lake.key_filter import KeyFilters
from hardpack.lake.layout import columns_at
from hardpack.lake.sensing import late_files, may_lack_rows
from hardpack.lake.state import read_at, told
from hardpack.log.grouping import group_segments
from hardpack.log.horizons import Copied, Range, after_clean, after_expiry, due, horizon_from
from hardpack.log.model import LogState, LogView, Segment
from hardpack.log.selection import Decision, decide, left_alone
from hardpack.log.settings import Settings
from hardpack.log.transactions import held_after
from hardpack.passes import Job, run
from hardpack.report import PassReport
from hardpack.spark.dead_rows import (
    NULL_KEY,
    SUPERSEDED,
    DeadRows,
    aborted_rows,
    collect,
    duplicates,
    expired_markers,
    expired_tombstones,
    live_rows,
    union,
)
from hardpack.spark.duplicates import may_repeat, repeated_rows
from hardpack.spark.kernel import hash_function
from hardpack.spark.keys import KeyColumns, KeyFile
from hardpack.spark.narrow import Bounds, below, narrow_scan, with_bounds
from hardpack.spark.offset_map import map_ends
from hardpack.spark.superseded import find_superseded
from hardpack.spark.transactions import Markers, find_markers, first_open, refuse_missing_markers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Head:
    """One log of a pass: what is known of it, by which settings and at what time, and what was decided."""

    view: LogView
    settings: Settings
    now: int
    force: bool = False
    clock: Callable[[], int] | None = None
    """Tells how late it is, as `now` does, at any later time; None when time stands still."""
    map_end: int | None = None
    """Last offset that the offset map covers, None until it is known to be the round's last."""

    @property
    def name(self) -> str:
        """The text of its partition."""
        return str(self.view.partition)

    @cached_property
    def decision(self) -> Decision:
        """What the rules say of it."""
        return decide(self.view, self.settings, self.now, self.force)

    @property
    def horizon(self) -> int:
        """Delete horizon of the tombstones that it meets first, ms, if it commits as this is asked (invariant 5)."""
        commit = self.clock() if self.clock else self.now
        return horizon_from(max(self.now, commit), self.settings.delete_retention_ms)

    @property
    def copied(self) -> tuple[Segment, ...]:
        """The segments that Kafka would copy: those that begin before the map's end."""
        return tuple(s for s in self.view.segments if s.base_offset < self.reach.checkpoint)

    @cached_property
    def reach(self) -> Copied:
        """How far phase one goes."""
        decision = self.decision
        end = decision.bound - 1 if self.map_end is None else self.map_end
        behind = (s.base_offset for s in self.view.segments if s.base_offset > end)
        return Copied(decision.first_dirty, end + 1, next(behind, self.view.log_end), decision.bound)

    @property
    def bounds(self) -> Bounds:
        """The same as the Spark jobs take it."""
        r = self.reach
        return Bounds(self.view.partition, r.first_dirty, r.checkpoint, r.copied_to, r.first_uncleanable)


def with_last_stable(door: IceTable, table: Table, heads: Sequence[Head], base: int) -> list[Head]:
    """The same heads, knowing of open transactions: those are only seen in the rows."""
    columns = columns_at(table, heads[0].settings, base)
    if not columns.transactions:
        return list(heads)
    scan = _scan(door, heads, columns, base)
    starts = [Bounds(h.view.partition, h.decision.first_dirty, 0, 0, 0) for h in heads]
    opened = first_open(with_bounds(scan, starts).where("o >= first_dirty"))
    return [replace(h, view=_bounded(h.view, opened.get(h.name))) for h in heads]


def _bounded(view: LogView, opened: int | None) -> LogView:
    known = [o for o in (view.last_stable, opened) if o is not None]
    return replace(view, last_stable=min(known, default=None))


def clean_heads(door: IceTable, table: Table, heads: Sequence[Head], report: PassReport, home: Path) -> PassReport:
    """Phase one of some logs, as one commit.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's.
        heads: logs that are due, at least one; their settings map the same columns.
        report: what the pass is called, and its base snapshot.
        home: folder for validation results and Data Docs.

    Raises:
        UncleanableLog: keyless rows where they are refused, or rows that dispute an offset.
        GateRefused, Conflict: see `hardpack.passes.run`.
    """
    base = report.base or 0
    files = _files(door, table, heads[0].settings)
    columns = columns_at(table, heads[0].settings, base)
    whole = scan = _scan(door, heads, columns, base)
    repeated = None
    if repeating := [h.view.partition for h in heads if may_repeat(h.view)]:
        repeated = repeated_rows(door.spark, door.name, base, columns, repeating)
        scan = scan.join(repeated.select("file", "pos"), ["file", "pos"], "left_anti")
    heads = _with_map_ends(scan, heads, columns.transactions)
    rows = _within(scan, heads, columns.transactions)
    markers = Markers()
    if columns.transactions:
        _check_markers(table, heads, scan, report.table)
        markers = find_markers(rows, {h.name: h.view.state.last_batch for h in heads if h.view.state.last_batch})
    groups, seen = {h.name: _groups(h) for h in heads}, read_at(table, base)
    late = {h.name: _late_tombstones(door, table, h, rows) for h in heads}

    def find_dead(refs: Mapping[str, FileRef], hidden: Mapping[str, BitMap]) -> dict[str, DeadRows]:
        parts = []
        if columns.transactions:
            parts.append(aborted_rows(rows))
        if repeated is not None:
            parts.append(duplicates(with_bounds(repeated, [h.bounds for h in heads])))
        found = collect(union(parts)) if parts else {}
        settings = heads[0].settings
        keys = KeyColumns(
            settings.column_key, settings.column_offset, settings.column_value, settings.column_control,
            report.plan.encode(), settings.key_absent == "empty",
        )  # fmt: skip
        filters = _key_filters(files, settings)
        keyed = _key_files(heads, refs, found, hidden, files.merge_on_read)
        for path, more in find_superseded(door.spark, files, keyed, keys, filters).items():
            entry = found.setdefault(path, DeadRows(files.partition_of(refs[path].entry, settings.column_partition)))
            unseen = hidden.get(path, BitMap())
            entry.add(SUPERSEDED, more.superseded - unseen)
            entry.add(NULL_KEY, more.keyless - unseen)
            entry.erase = bool(more.erased)
        return _allowed(found, report.table, heads)

    after = {h.name: partial(_state_after, h, markers, groups[h.name], seen, late[h.name]) for h in heads}
    job = Job(
        report=report,
        settings=heads[0].settings,
        views=tuple(h.view for h in heads),
        groups=groups,
        record=Record.of(table),
        after={name: state_now() for name, state_now in after.items()},
        home=home,
        copied_to={h.name: h.reach.copied_to for h in heads},
        dated=after,
    )
    return run(door, files, job, find_dead, whole)


def _check_markers(table: Table, heads: Sequence[Head], rows: DataFrame, name: str) -> None:
    """See that no control row was deleted which decides about rows that a pass has not copied yet."""
    if lacking := may_lack_rows(table, (h.view for h in heads)):
        firsts = {h.name: h.reach.first_dirty for h in heads}
        starts = [Bounds(v.partition, max(firsts[str(v.partition)], v.state.checkpoint or 0), 0, 0, 0) for v in lacking]
        refuse_missing_markers(name, with_bounds(rows, starts).where("o >= first_dirty"))


def _files(door: IceTable, table: Table, settings: Settings) -> DataFiles:
    """The table's files, each task that may run at once with its share of the rate."""
    threads = settings.log_cleaner_threads or sys.maxsize
    at_once = min(threads, max(1, door.spark.sparkContext.defaultParallelism))
    return DataFiles.of(table, settings.log_cleaner_io_max_bytes_per_second / at_once, threads, settings)


def _key_filters(files: DataFiles, settings: Settings) -> KeyFilters:
    key = files.schema.find_field(settings.column_key)
    # control rows are no part of a filter
    identity = f"{hash_function()} {key.field_id} {settings.column_control} {settings.key_absent == 'empty'}"
    return KeyFilters(files.io, files.location, identity, settings.key_filter_min_rows)


def _key_files(
    heads: Iterable[Head],
    refs: Mapping[str, FileRef],
    found: Mapping[str, DeadRows],
    hidden: Mapping[str, BitMap],
    merge_on_read: bool,
) -> list[KeyFile]:
    """The files with rows that the offset map covers or that it may supersede, without the rows found dead before.

    Where rows stay in the storage though they were deleted, tombstones are told from other rows, and the tail's hidden
    rows are looked at too: a key that is deleted now has to leave the files where it is only hidden (invariant 5).
    """
    out: list[KeyFile] = []
    for head in heads:
        reach = head.reach
        near = [f for f in head.view.files if f.min_offset < reach.checkpoint]
        tails = {f.path for f in near if f.max_offset < reach.first_dirty}
        told = {f.path for f in near if f.path not in tails and f.tombstones != 0} if merge_on_read or hidden else set()
        for file in near:
            unread = found[file.path].positions if file.path in found else BitMap()
            if file.path in hidden and not (told and file.path in tails):
                unread = unread | hidden[file.path]
            out.append(
                KeyFile(
                    number=len(out),
                    ref=refs[file.path],
                    log=head.name,
                    first_dirty=reach.first_dirty,
                    checkpoint=reach.checkpoint,
                    tail=file.path in tails,
                    unread=unread.serialize() if unread else b"",
                    tombstones=file.path in told,
                )
            )
    return out


def _scan(door: IceTable, heads: Iterable[Head], columns: Settings, base: int) -> DataFrame:
    return narrow_scan(door.spark, door.name, base, columns, [h.view.partition for h in heads])


def _with_map_ends(scan: DataFrame, heads: Sequence[Head], transactions: bool) -> list[Head]:
    """The same with the end of each map that has not room for all keys."""
    bounded = {h.name: h.settings.max_keys for h in heads if h.settings.max_keys is not None}
    if not bounded:
        return list(heads)
    rows = _within(scan, [h for h in heads if h.name in bounded], transactions)
    bases = {h.name: [s.base_offset for s in h.view.segments] for h in heads}
    ends = map_ends(rows, live_rows(rows, transactions), bounded, bases)
    return [replace(h, map_end=ends.get(h.name)) for h in heads]


def _within(scan: DataFrame, heads: Iterable[Head], transactions: bool) -> DataFrame:
    """The rows that the pass has to see: what it may copy, and control rows wherever they are."""
    bounds = [h.bounds for h in heads]
    if transactions:
        return with_bounds(scan, bounds).where("o < copied_to or control is not null")
    return with_bounds(below(scan, max(b.copied_to for b in bounds)), bounds).where("o < copied_to")


def _groups(head: Head) -> list[list[Segment]]:
    left = head.view.segments[len(head.copied) :]
    following = left[0].base_offset if left else None
    return group_segments(head.copied, head.settings.segment_bytes, head.decision.bound, following)


def _state_after(
    head: Head,
    markers: Markers,
    groups: Sequence[Sequence[Segment]],
    seen: tuple[int, int],
    late_tombstones: Sequence[Range],
) -> LogState:
    view, reach = head.view, head.reach
    state = after_clean(
        view.state, reach, view.log_end, head.now, head.horizon, view.files, late_tombstones,
        markers.emptied.get(head.name, ()), view.arrived is not None,
    )  # fmt: skip
    held = held_after(markers.held.get(head.name), view.state.last_batch, reach.first_uncleanable)
    layout = (*(g[0].base_offset for g in groups), reach.copied_to)
    if state.unseen:
        # the pass ends before the old checkpoint, so what lies behind it is as it was
        layout = ()
        state = replace(state, unseen=replace(state.unseen, told_to=seen[0]))
    return replace(state, layout=layout, last_batch=held, seen=seen)


MOST_LATE = 1000
"""Late tombstones of a log that are told one by one; of more the files' ranges count, so that some wait longer."""


def _late_tombstones(door: IceTable, table: Table, head: Head, rows: DataFrame) -> list[Range]:
    """Offsets of tombstones that came late, among those to which earlier passes gave horizons (invariant 5)."""
    late = late_files(table, head.settings, head.view)
    if not late:
        return []
    end = head.view.state.horizons[-1][0]
    found = rows.where(rows["tombstone"] & rows["file"].isin([f.path for f in late]) & (rows["o"] <= end))
    found = found.select("o", "k")
    read = (head.view.state.seen or (0, 0))[0]
    for left in (s.snapshot_id for s in table.snapshots() if read and s.sequence_number == read):
        # others may have copied tombstones that the last pass saw into these files
        with suppress(BadInput):
            columns = columns_at(table, head.settings, left)
            known = narrow_scan(door.spark, door.name, left, columns, [head.view.partition])
            found = found.join(known.where("tombstone").select("o", "k"), ["o", "k"], "left_anti")
    offsets = sorted({row["o"] for row in found.limit(MOST_LATE + 1).collect()})
    if len(offsets) > MOST_LATE:
        return sorted((f.min_offset, f.max_offset) for f in late)
    return [(offset, offset) for offset in offsets]


def _allowed(found: dict[str, DeadRows], table: str, heads: Sequence[Head]) -> dict[str, DeadRows]:
    strict = {h.name for h in heads if h.settings.null_keys == "refuse"}
    keyless = [d for d in found.values() if d.partition in strict and NULL_KEY in d.causes]
    if keyless:
        rows, partitions = sum(d.causes[NULL_KEY] for d in keyless), tuple(sorted({d.partition for d in keyless}))
        raise UncleanableLog(
            f"{table}: {rows:,} rows without a key in partition {', '.join(partitions)}, a compacted topic has none; "
            f"`hardpack adopt {table} --set null.keys=drop` drops them as Kafka's cleaner would.",
            partitions,
            f"{rows:,} rows without a key where null.keys=refuse",
        )
    return found


def _looked_at(view: LogView, seen: tuple[int, int]) -> LogState:
    """The state of a log of which a pass reads a snapshot; late rows stay to be cleaned."""
    return replace(view.state, seen=seen, unseen=None) if view.late is None else told(view, seen[0])


def expire_heads(
    door: IceTable, table: Table, views: Sequence[LogView], now: Mapping[str, int], report: PassReport,
    settings: Settings, home: Path,
) -> PassReport:  # fmt: skip
    """Phase two of some logs, as one commit: drop the tombstones and markers whose horizon has passed.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's.
        views: the logs; those with nothing due are passed over.
        now: by partition the time, ms.
        report: what the pass is called, and its base snapshot.
        settings: for the columns and the size of files.
        home: folder for validation results and Data Docs.

    Raises:
        GateRefused, Conflict: see `hardpack.passes.run`.
    """
    logs = {str(v.partition): v for v in views if v.segments and settings.compacts and not left_alone(v)}
    found = {n: due(v, now[n]) for n, v in logs.items()}
    serving = {n: v for n, v in logs.items() if any(found[n])}
    ranges, markers = {n: found[n][0] for n in serving}, {n: found[n][1] for n in serving}
    if not serving or report.base is None:
        return report
    seen = read_at(table, report.base)
    columns = columns_at(table, settings, report.base)
    scan = narrow_scan(door.spark, door.name, report.base, columns, [v.partition for v in serving.values()])
    ends = {n: v.state.checkpoint or 0 for n, v in serving.items()}
    bounds = [Bounds(v.partition, 0, ends[n], ends[n], ends[n], ranges[n]) for n, v in serving.items()]

    def find_dead(*_: object) -> dict[str, DeadRows]:
        parts = [expired_tombstones(with_bounds(below(scan, max(ends.values())), bounds))]
        if any(markers.values()):
            parts.append(expired_markers(scan, markers))
        return collect(union(parts))

    job = Job(
        report=report,
        settings=settings,
        views=tuple(serving.values()),
        groups={n: [[s] for s in v.segments] for n, v in serving.items()},
        record=Record.of(table),
        after={
            n: replace(after_expiry(_looked_at(v, seen), ranges[n], markers[n]), log_end=v.log_end)
            for n, v in serving.items()
        },
        home=home,
        # a marker may lie between the checkpoint and the end of what was copied
        copied_to={n: max([ends[n], *v.state.layout[-1:]]) for n, v in serving.items()},
        expired={n: ranges[n] for n in serving},
    )
    return run(door, _files(door, table, settings), job, find_dead, scan)
