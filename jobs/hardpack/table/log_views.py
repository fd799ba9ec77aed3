"""Logs as metadata shows them: one walk over a snapshot's manifests, no data read, no JVM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.errors import Conflict
from hardpack.rules.horizons import covered_to
from hardpack.rules.model import DataFile, LogState, LogView, Partition, SeenCommits, to_segments
from hardpack.rules.replaced import started_anew
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import table_name
from hardpack.table.history import ancestors, is_append, is_hardpacks, split_all_rows, trusted_states
from hardpack.table.lineage import Changes, Lineage, was_seen
from hardpack.table.manifest_cache import ManifestCache, Remembered
from hardpack.table.manifests import ManifestReader, keeps_logs_apart, uncollected
from hardpack.table.readers import slowest_readers
from hardpack.table.snapshot_change import Change, change_of
from hardpack.table.state import state_of


@dataclass(frozen=True, slots=True)
class TableLogs:
    """What the metadata of a snapshot tells of a table's logs."""

    views: list[LogView]
    """In the order of partition values."""
    mixed: list[DataFile]
    """Mixed files. Their rows are in no view, as if they had not come yet; a split brings them into their logs."""


def read_logs(
    table: Table,
    settings: Settings,
    snapshot_id: int | None = None,
    memory: ManifestCache | None = None,
    partitions: Iterable[Partition] | None = None,
) -> list[LogView]:
    """Returns the views of a table's logs at a snapshot; see `table_logs`."""
    return table_logs(table, settings, snapshot_id, memory, partitions).views


def table_logs(
    table: Table,
    settings: Settings,
    snapshot_id: int | None = None,
    memory: ManifestCache | None = None,
    partitions: Iterable[Partition] | None = None,
) -> TableLogs:
    """Returns every log of the table at a snapshot (default: the current one), and the mixed files.

    A log that has a state but no row left is among them, without segments.

    Args:
        table: as pyiceberg loaded it.
        settings: for the columns.
        snapshot_id: of the snapshot.
        memory: what earlier looks at the table's current snapshots remembered; it is brought up to date.
        partitions: the only logs to return, as far as they exist. Manifests that hold none of them are not read, where
            every partition spec names the log and the memory knows nothing of the table yet.

    Raises:
        Conflict: the snapshot asked for is gone.
    """
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise Conflict(f"{table_name(table)}: snapshot {snapshot_id} is gone; plan again.")
    reader = ManifestReader(table, settings)
    states, manifests = trusted_states(table), snapshot.manifests(table.io) if snapshot else []
    wanted = None if partitions is None else {str(p) for p in partitions}
    with (memory or ManifestCache()).lend(table, reader) as seen:
        if wanted is not None and not seen.manifests and keeps_logs_apart(table, settings):
            # only parts of the other logs are read, so this look must not be remembered
            seen, manifests = Remembered(reader.reads), reader.holding(manifests, wanted)
        with uncollected():
            lineage = _look(table, reader, seen, manifests, states)
    mixed = seen.waiting
    views = [view for _, view in sorted(seen.views.items(), key=lambda item: (str(type(item[0])), item[0]))]
    with_rows = {v.name for v in views}
    text = reader.columns.log.is_text
    unseen = {name: name if text else _number(name) for name in sorted(states.keys() - with_rows)}
    # the partition column has numbers, so no row can be of a log whose name is none
    gone = [(log, states[name]) for name, log in unseen.items() if log is not None]
    views += [LogView(log, (), _of_no_row(log, state, mixed, lineage)) for log, state in gone]
    views = [v for v in views if wanted is None or v.name in wanted]
    if readers := slowest_readers(table_name(table), table.properties, settings):
        views = [replace(view, slowest=readers.get(view.name)) for view in views]
    return TableLogs(views, mixed)


def _look(
    table: Table,
    reader: ManifestReader,
    seen: Remembered,
    manifests: list[ManifestFile],
    states: Mapping[str, LogState],
) -> Lineage:
    """Brings what is remembered to these manifests: reads new ones, and makes those views anew that change."""
    listed = {m.manifest_path: m for m in manifests if m.content == ManifestContent.DATA}
    new = reader.files([m for path, m in listed.items() if path not in seen.manifests])
    flagged = reader.partitions_with_deletes(m for m in manifests if m.content == ManifestContent.DELETES)
    # from these logs files left, or their files stand in other manifests now
    gone = [by_log for path, by_log in seen.manifests.items() if path not in listed]
    stale = {p for by_log in gone for p in by_log if p is not None}
    seen.files += sum(len(f) for by_log in new.values() for f in by_log.values())
    seen.files -= sum(len(f) for by_log in gone for f in by_log.values())
    seen.manifests = {path: seen.manifests[path] for path in listed if path in seen.manifests} | new
    # mixed files may hold rows that passes knew, and where such a file left they may be back in any log
    waiting = [file.of_no_one_log() for file in seen.waiting]
    moved = any(None in by_log for by_log in (*gone, *new.values()))
    stale.update(seen.views if flagged != seen.flagged or moved else ())
    seen.flagged = flagged
    added: dict[Partition, list[DataFile]] = defaultdict(list)
    for by_log in new.values():
        for partition, files in by_log.items():
            if partition is not None:
                added[partition].extend(files)
    lineage = Lineage(table, _changes(table, reader, seen.changes))
    if lineage.oldest != seen.oldest:
        # what expired snapshots told must not count in some views, and in others no more
        stale.update(seen.views)
        seen.oldest = lineage.oldest
    for partition in {*stale, *added, *seen.views}:
        state, before = state_of(states, partition), seen.views.get(partition)
        if partition in stale or (before and seen.states[partition] != state):
            remembered = (f for by_log in seen.manifests.values() for f in by_log.get(partition, ()))
            files, before = [reader.dated(f) for f in remembered], None
        elif partition in added:
            files = added[partition]
        else:
            continue
        if {None, partition} & flagged:
            files = [replace(f, row_deletes=True) for f in files]
        if files:
            seen.views[partition] = _view(partition, files, state, lineage, before, waiting)
            seen.states[partition] = state
        else:
            seen.views.pop(partition, None)
    return lineage


def _view(
    partition: Partition,
    files: list[DataFile],
    state: LogState,
    lineage: Lineage,
    before: LogView | None,
    waiting: Sequence[DataFile],
) -> LogView:
    """Returns the view of a log.

    Args:
        partition: of the log.
        files: its data files; with `before`, only those that are not in it.
        state: of the log.
        lineage: of the table.
        before: the earlier view with the same state, to which the files are added; None to begin with no file.
        waiting: files that wait to be split, which may hold rows of the log that passes knew.
    """
    state = state if before is None else before.state
    files = [_no_younger(f, state) for f in files]
    has_history = state.snapshot or state.seen
    origins = [lineage.origin(partition, f, state) for f in files] if has_history and files else []
    judged = before is None and origins and not state.empty
    if judged and (by := lineage.replaced(partition, files, state, waiting)) is not None:
        state, origins = started_anew(state, by), []
    unseen, passed = state.unseen, _passed(partition, state, files, before, lineage)
    rewrites = _rewrites(partition, files, state, passed, lineage)
    unseen_froms = [_below(o.unseen_from, passed) for o in origins] + [unseen.unseen_from if unseen else None]
    late_froms = [_below(o.late_from, passed) for o in origins]
    if unseen and unseen.known_at is None:
        # late rows that a pass has seen and left over; what history had told is asked of each file instead
        late_froms.append(unseen.late_from)
    left_at = state.seen.last if state.seen else LONG_MAX
    if before is None:
        segments = to_segments(files, state.layout, left_at)
    else:
        unseen_froms.append(before.unseen_from)
        late_froms.append(before.late_from)
        rewrites = tuple(sorted({*before.rewrites, *rewrites}))
        end = max([before.segments[-1].last_offset, *state.layout[-1:]])
        if min(f.min_offset for f in files) > end:
            segments = before.segments + to_segments(files, state.layout, left_at)
        else:
            segments = to_segments([*before.files, *files], state.layout, left_at)
    late_from = _least(late_froms)
    packed = () if late_from is None else lineage.packed(partition, state)
    return LogView(partition, segments, state, None, _least(unseen_froms), late_from, packed=packed, rewrites=rewrites)


def _passed(
    partition: Partition, state: LogState, files: Iterable[DataFile], before: LogView | None, lineage: Lineage
) -> int:
    """Returns the offset below which rows that come are late."""
    passed = max(state.checkpoint or 0, state.log_start or 0)
    if state.checkpoint is not None or state.expired_to < 0:
        return passed
    # a rollback has undone the passes, but tombstones that they removed may be gone: rows that come among those that
    # are left may bring deleted keys back
    there = chain(before.files if before else (), files)
    end = max((f.max_offset for f in there if lineage.origin(partition, f, state).known is not False), default=-1)
    return max(passed, min(state.expired_to, end) + 1)


def _rewrites(
    partition: Partition, files: Iterable[DataFile], state: LogState, passed: int, lineage: Lineage
) -> tuple[int, ...]:
    """Returns the commits since the last pass that brought seen rows anew, and besides them only rows of the head.

    Args:
        partition: of the log.
        files: of the log.
        state: of the log.
        passed: the offset below which rows that come are late.
        lineage: of the table.
    """
    if not state.seen:
        return ()
    covered, seen = max(passed, covered_to(state) + 1), state.seen
    came = {f.file_sequence_number for f in files if f.file_sequence_number > seen.last and f.min_offset < covered}

    def is_told(sequence: int) -> bool:
        snapshot = lineage.commits.get(sequence)
        # a recorded commit vouches for all files that it brought: without history nobody knows those that have left,
        # and another writer may bring them back
        return (
            snapshot is not None and not is_append(snapshot) and not lineage.changed(snapshot, partition).brings_mixed
        )

    def is_seen(file: DataFile) -> bool:
        origin = lineage.origin(partition, file, state)
        return _below(origin.unseen_from, covered) is None and (origin.unseen_from is not None or not origin.fresh)

    brought = {n: lineage.changed(lineage.commits[n], partition).added for n in came if is_told(n)}
    return tuple(sorted(n for n, new in brought.items() if all(is_seen(f) for f in new if f.min_offset < covered)))


def _no_younger(file: DataFile, state: LogState) -> DataFile:
    """Returns a file dated no later than the time by which the state says it was there: its commit may have expired."""
    sequence, ms = state.there_by or (-1, 0)
    return replace(file, modified=min(file.modified, ms)) if file.file_sequence_number <= sequence else file


def _of_no_row(log: Partition, state: LogState, mixed: Sequence[DataFile], lineage: Lineage) -> LogState:
    """Returns the state of a log that shows no row.

    Such a log starts anew, as other writers have taken its rows. It keeps its state where passes left it empty, and
    where mixed files may hold rows that passes knew.
    """
    if state.empty or state.snapshot is None:
        return state
    waiting = [file.of_no_one_log() for file in mixed]
    goes_on = waiting and lineage.replaced(log, (), state, waiting) is None
    return state if goes_on else started_anew(state, lineage.newest)


def late_files(table: Table, settings: Settings, view: LogView) -> list[DataFile]:
    """Returns the files of a log that may hold tombstones without a horizon, though a pass covered their offsets.

    Args:
        table: as pyiceberg loaded it.
        settings: for the columns.
        view: the log.
    """
    covered = covered_to(view.state)
    near = [f for f in view.files if f.min_offset <= covered and f.tombstones != 0 and not was_seen(f, view.state)]
    if not near:
        return []
    lineage = Lineage(table, _changes(table, ManifestReader(table, settings)))
    origins = [(f, lineage.origin(view.partition, f, view.state)) for f in near]
    return [
        f for f, origin in origins if origin.fresh and (origin.unseen_from is None or origin.unseen_from <= covered)
    ]


def may_lack_rows(table: Table, views: Iterable[LogView]) -> list[LogView]:
    """Returns the logs from which other writers may have deleted rows before a pass copied them, as history tells.

    Args:
        table: as pyiceberg loaded it.
        views: the logs.
    """
    # where a full offset map ends inside a segment, the pass copied the rest too, and judged the rows that it took
    harmless = {s.sequence_number for s in ancestors(table) if is_append(s) or is_hardpacks(s) or split_all_rows(s)}

    def lacks(view: LogView) -> bool:
        copied = max(covered_to(view.state), (view.state.checkpoint or 0) - 1)
        return any(f.row_deletes or f.file_sequence_number not in harmless for f in view.files if f.max_offset > copied)

    return [view for view in views if lacks(view)]


def rewritten_unseen(table: Table, view: LogView) -> bool:
    """Returns whether files of a log were rewritten by commits of which its state knows nothing yet.

    Such commits are those of other writers, and those of a phase two that left late rows to phase one.

    Args:
        table: as pyiceberg loaded it.
        view: the log.
    """
    state = view.state
    # only up to the snapshot that the pass read: it has not seen what came while it ran
    seen = state.seen or SeenCommits(0)
    seen_to = max(seen.read, state.unseen.known_to if state.unseen else 0)
    commits = {s.sequence_number: s for s in ancestors(table) if (s.sequence_number or 0) > seen_to}
    return any(
        (commit := commits.get(f.file_sequence_number))
        and not is_append(commit)
        and not seen.holds(f.file_sequence_number)
        for f in view.files
    )


def _changes(
    table: Table, reader: ManifestReader, remembered: dict[int, Mapping[Partition | None, Change]] | None = None
) -> Changes:
    """Returns a function that tells what a snapshot did to each log, and reads each snapshot once."""
    changes = {} if remembered is None else remembered

    def change(snapshot: Snapshot) -> Mapping[Partition | None, Change]:
        if snapshot.snapshot_id not in changes:
            changes[snapshot.snapshot_id] = change_of(reader, snapshot.manifests(table.io), snapshot.snapshot_id)
        return changes[snapshot.snapshot_id]

    return change


def _least(offsets: Iterable[int | None]) -> int | None:
    return min((o for o in offsets if o is not None), default=None)


def _below(offset: int | None, passed: int) -> int | None:
    return offset if offset is not None and offset < passed else None


def _number(name: str) -> int | None:
    """Returns the value of an integer partition column that a state names; None where it is none."""
    try:
        return int(name)
    except ValueError:
        return None
