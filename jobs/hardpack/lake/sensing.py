"""Logs as metadata shows them: one walk over a snapshot's manifests, no data read, no JVM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from hardpack.errors import BadInput, Conflict
from hardpack.lake.history import trusted_states
from hardpack.lake.layout import table_name
from hardpack.lake.manifests import ManifestReader, uncollected
from hardpack.lake.state import PLAN_SUMMARY, STATE_PROPERTY, state_of
from hardpack.log.model import DataFile, LogState, LogView, Partition, to_segments
from hardpack.log.settings import Settings


@dataclass
class _Seen:
    """What is known of one table: per manifest its files by log, and the logs' views as they were last given."""

    reads: tuple[object, ...]
    manifests: dict[str, dict[Partition, list[DataFile]]] = field(default_factory=dict)
    views: dict[Partition, LogView] = field(default_factory=dict)
    flagged: set[Partition | None] = field(default_factory=set)
    files: int = 0
    """How many data files are remembered."""


class Memory:
    """What was read of the tables' manifests, so that another look reads only new ones. For one thread at a time.

    Args:
        most_files: data files that are remembered, about a kilobyte each; of the tables looked at longest ago nothing
            is, once there are more.
    """

    def __init__(self, most_files: int = 2_000_000) -> None:
        self.most_files = most_files
        self._tables: dict[str, _Seen] = {}

    def of(self, table: Table, reader: ManifestReader) -> _Seen:
        """What is known of a table; nothing when other columns are looked at now."""
        seen = self._tables.pop(str(table.metadata.table_uuid), None)
        if seen is None or seen.reads != reader.reads:
            seen = _Seen(reader.reads)
        self._tables[str(table.metadata.table_uuid)] = seen
        return seen

    def forget(self) -> None:
        """Let go of the tables looked at longest ago, as long as there are too many files; the last one stays."""
        kept = 0
        for uuid, seen in reversed(self._tables.copy().items()):
            kept += seen.files
            if kept > self.most_files and kept > seen.files:
                del self._tables[uuid]


def read_logs(
    table: Table,
    settings: Settings,
    snapshot_id: int | None = None,
    memory: Memory | None = None,
    partitions: Iterable[Partition] | None = None,
) -> list[LogView]:
    """Every log of the table at a snapshot (default: the current one), by partition value.

    A log of which the state is known but no row is left is among them, without segments.

    Args:
        table: as pyiceberg loaded it.
        settings: for the columns.
        snapshot_id: of the snapshot.
        memory: what earlier looks at the current snapshot left; brought up to date.
        partitions: only these logs, those there are of them; manifests that hold none of them are not read, unless the
            memory knows the others already.

    Raises:
        BadInput: a file without offset bounds.
        Conflict: the snapshot asked for is gone.
    """
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise Conflict(f"{table_name(table)}: snapshot {snapshot_id} is gone; plan again.")
    reader = ManifestReader(table, settings)
    seen = (memory or Memory()).of(table, reader)
    states, manifests = trusted_states(table), snapshot.manifests(table.io) if snapshot else []
    wanted = None if partitions is None else {str(p) for p in partitions}
    if wanted is not None and not seen.manifests:
        # of the other logs only parts are found then, which nobody may remember
        seen, manifests = _Seen(reader.reads), reader.holding(manifests, wanted)
    with uncollected():
        _look(table, reader, seen, manifests, states)
    if memory:
        memory.forget()
    views = [view for _, view in sorted(seen.views.items(), key=lambda item: (str(type(item[0])), item[0]))]
    known = {str(v.partition) for v in views}
    text = isinstance(reader.partition.field_type, StringType)
    gone = ((name, state) for name, state in sorted(states.items()) if name not in known)
    views += [LogView(name if text else _number(table, name), (), state) for name, state in gone]
    return views if wanted is None else [view for view in views if str(view.partition) in wanted]


def _look(
    table: Table, reader: ManifestReader, seen: _Seen, manifests: list[ManifestFile], states: Mapping[str, LogState]
) -> None:
    """Bring what is known to these manifests: read the new ones, make the views anew that they or the state change."""
    listed = {m.manifest_path: m for m in manifests if m.content == ManifestContent.DATA}
    new = reader.files([m for path, m in listed.items() if path not in seen.manifests])
    flagged = reader.partitions_with_deletes(m for m in manifests if m.content == ManifestContent.DELETES)
    # files left these logs, or what is known of their files changed
    gone = [found for path, found in seen.manifests.items() if path not in listed]
    stale = {p for found in gone for p in found}
    stale.update(seen.views if flagged != seen.flagged else ())
    seen.files += sum(len(f) for found in new.values() for f in found.values())
    seen.files -= sum(len(f) for found in gone for f in found.values())
    seen.manifests = {path: seen.manifests[path] for path in listed if path in seen.manifests} | new
    seen.flagged = flagged
    added: dict[Partition, list[DataFile]] = defaultdict(list)
    for found in new.values():
        for partition, files in found.items():
            added[partition].extend(files)
    late = _Late(table)
    for partition in {*stale, *added, *seen.views}:
        state, before = state_of(states, partition), seen.views.get(partition)
        if partition in stale or (before and before.state != state):
            files, before = [f for found in seen.manifests.values() for f in found.get(partition, ())], None
        elif partition in added:
            files = added[partition]
        else:
            continue
        if {None, partition} & flagged:
            files = [replace(f, row_deletes=True) for f in files]
        if files:
            seen.views[partition] = _view(partition, files, state, late, before)
        else:
            seen.views.pop(partition, None)


def _view(partition: Partition, files: list[DataFile], state: LogState, late: _Late, before: LogView | None) -> LogView:
    """A log of these files and, if there is a view of it with the same state, of those in that view."""
    first_late = late.first(files, state)
    if before is None:
        return LogView(partition, to_segments(files, state.layout), state, late=first_late)
    known = [at for at in (before.late, first_late) if at is not None]
    end = max([before.segments[-1].last_offset, *state.layout[-1:]])
    if min(f.min_offset for f in files) > end:
        segments = before.segments + to_segments(files, state.layout)
    else:
        segments = to_segments([*before.files, *files], state.layout)
    return LogView(partition, segments, state, late=min(known, default=None))


class _Late:
    """Which files brought rows below a checkpoint that the pass which set it had not seen (invariant 9).

    A file's offsets do not tell when it came, its data sequence number does: after the snapshot that the pass read, and
    not that of the pass itself. A rewrite of rows that were there (operation `replace`, or `overwrite` with no more
    rows than before) brings none.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    def first(self, files: list[DataFile], state: LogState) -> int | None:
        """Lowest offset below the checkpoint among rows that the last pass had not seen, else None."""
        if state.snapshot is None or state.checkpoint is None:
            return None
        read, made = state.seen or (state.snapshot[1], 0)
        late = [
            f.min_offset
            for f in files
            if f.sequence > read and f.sequence != made and f.min_offset < state.checkpoint and self._brings_rows(f)
        ]
        return min(late, default=None)

    def _brings_rows(self, file: DataFile) -> bool:
        snapshot = None if file.added_by is None else self.table.snapshot_by_id(file.added_by)
        if snapshot is None or snapshot.summary is None:
            return True
        summary = snapshot.summary.additional_properties
        if snapshot.summary.operation == Operation.REPLACE or PLAN_SUMMARY in summary:
            return False
        if snapshot.summary.operation == Operation.OVERWRITE:
            return int(summary.get("added-records", 0)) > int(summary.get("deleted-records", 0))
        return True


def _number(table: Table, name: str) -> int:
    """The value of an integer partition column that a state names."""
    try:
        return int(name)
    except ValueError:
        raise BadInput(
            f"{table_name(table)}: table property {STATE_PROPERTY} names partition {name!r}, expected an integer; "
            "restore it from the last snapshot's summary or remove it to clean from the log start."
        ) from None
