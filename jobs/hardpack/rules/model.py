"""What the rules work on: data files, segments, the state of a log and the view of it, as plain immutable data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from hardpack.rules.times import LONG_MAX, is_time, plus

Partition = int | str
Horizon = tuple[int, int]
"""`(up to offset, horizon ms)`: tombstones after the previous entry's offset, up to this one, may go at that time."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of one log, as its manifest entry tells. Offsets inclusive, times in ms, sizes in bytes."""

    path: str
    bytes: int
    rows: int
    min_offset: int
    max_offset: int
    min_timestamp: int | None
    """None when no row has a timestamp."""
    max_timestamp: int | None
    tombstones: int | None
    """Rows that delete their key, None when the metadata does not tell."""
    null_keys: int | None
    """Rows with a null key, None when the metadata does not count them."""
    modified: int = 0
    """When it was committed, as far as the table still knows."""
    data_sequence_number: int = 0
    """Iceberg's data sequence number."""
    added_by: int | None = None
    """The snapshot that added it."""
    row_deletes: bool = False
    """Whether row-level deletes may lie on it, so that not all its rows are there."""
    file_sequence_number: int = 0
    """Sequence number of the commit that brought the file; a rewrite may keep an older data sequence number."""
    trouble: str = ""
    """Why its rows cannot be placed in the log; empty when they can. Its offsets mean nothing while it has trouble."""
    iceberg_partition: str = ""
    """Names its partition spec and values: only files of the same Iceberg partition can be written into one."""

    @property
    def timed(self) -> bool:
        """Whether a row has a timestamp."""
        return is_time(self.max_timestamp)

    def of_no_one_log(self) -> DataFile:
        """Returns the file marked as mixed: it may hold rows of several logs, so its bounds are those of no log."""
        return replace(self, trouble="nobody can tell its log")


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of rows between two base offsets; in a table the data files that lie there."""

    base_offset: int
    last_offset: int
    bytes: int
    largest_timestamp: int
    """Greatest timestamp of the rows, else the time of modification, ms (Kafka's LogSegment.largestTimestamp)."""
    first_timestamp: int | None
    """Smallest timestamp of the rows, ms, None without one. Kafka takes the first batch's; a table has no batches."""
    files: tuple[DataFile, ...] = ()
    null_keys: int = 0
    """Rows with a null key, as far as the metadata tells, without files whose rows may be gone by row-level deletes."""

    @classmethod
    def of(cls, files: Iterable[DataFile], base_offset: int | None = None) -> Segment:
        """Returns the segment that data files make up, in order of offset.

        Args:
            files: at least one.
            base_offset: where the segment began before compaction took its first rows.
        """
        ordered = tuple(sorted(files, key=lambda f: (f.min_offset, f.max_offset, f.path)))
        latest = [f.max_timestamp or 0 for f in ordered if f.timed]
        return cls(
            base_offset=ordered[0].min_offset if base_offset is None else min(base_offset, ordered[0].min_offset),
            last_offset=max(f.max_offset for f in ordered),
            bytes=sum(f.bytes for f in ordered),
            largest_timestamp=max(latest) if latest else max(f.modified for f in ordered),
            first_timestamp=min((f.min_timestamp for f in ordered if f.min_timestamp is not None), default=None),
            files=ordered,
            null_keys=sum(f.null_keys or 0 for f in ordered if not f.row_deletes),
        )


@dataclass(frozen=True, slots=True)
class Unseen:
    """Rows below a checkpoint that no pass has taken into account yet. Offsets; None where there is no such row."""

    unseen_from: int | None = None
    """The lowest of these rows: cleaning begins there again."""
    late_from: int | None = None
    """The lowest of these rows that is no rewrite of a row from before; a deleted key could come back by it."""
    known_to: int = 0
    """Sequence number of the last commit that these offsets take into account."""
    known_at: int | None = None
    """The snapshot of that commit, where the offsets were recorded between two passes; None where a pass did so."""


class SnapshotRef(NamedTuple):
    """A snapshot of the table."""

    id: int
    sequence_number: int


class SeenCommits(NamedTuple):
    """The commits that a pass has seen: all up to the snapshot that it read, and those that it made itself.

    Commits of other writers between these are not among them. All values are sequence numbers; `made` is 0 before the
    pass has made its last commit.
    """

    read: int
    made: int = 0
    further: tuple[int, ...] = ()
    """The commits of the pass's earlier portions. Numbers above `made` are later commits, of any writer, that brought
    seen rows anew, and no others but rows of the head."""

    def by_passes(self, sequence_number: int) -> bool:
        """Returns whether a pass read or made the commit, which excludes later commits that are only recorded here."""
        return self.holds(sequence_number) and sequence_number <= self.last

    def holds(self, sequence_number: int) -> bool:
        """Returns whether the commit of a sequence number is among the seen ones."""
        return sequence_number <= self.read or sequence_number == self.made or sequence_number in self.further

    @property
    def last(self) -> int:
        """Sequence number of the newest commit that a pass read or made."""
        return max(self.read, self.made)


class Replaced(NamedTuple):
    """What passes had done to the former rows of a log, which were all replaced; a rollback may bring them back."""

    by: int
    """Sequence number of a commit by which these rows were replaced."""
    expired_to: int
    """Greatest offset of a tombstone that may have been removed."""
    seen: SeenCommits


@dataclass(frozen=True, slots=True)
class LastClean:
    """When a log's last phase one ran, and which tombstones and markers it gave a horizon."""

    now: int
    """The time that the phase one decided by, ms."""
    given: int | None = None
    """The horizon that the phase one gave, ms; None where nothing got one."""
    horizons: tuple[int, ...] = ()
    """Offsets of the entries of `LogState.horizons` that got `given`, if it had passed already at `now`; else empty."""
    markers: tuple[int, ...] = ()
    """Offsets of the transaction markers that got `given`, if it had passed already at `now`; else empty."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log remembers between passes, kept in the table (Kafka's cleaner-offset-checkpoint, delete horizons)."""

    checkpoint: int | None = None
    log_start: int | None = None
    """First offset that retention left. None when retention took nothing: then the log starts at its first row."""
    log_end: int = 0
    horizons: tuple[Horizon, ...] = ()
    markers: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """`(horizon ms, offsets)` of the transaction markers whose rows are all gone."""
    layout: tuple[int, ...] = ()
    """Base offsets of the segments that the last pass left (Kafka merges small ones), and where the last one ends."""
    last_batch: tuple[int, int] | None = None
    """`(offset, producer id)` of the transactional row that ended the last round; see `rules.transactions`."""
    expired_to: int = -1
    """Greatest offset of a tombstone that may have been removed, -1 for none."""
    trusted_to: int = 0
    """Sequence number of the commit up to which a person has trusted late rows, 0 where nobody has."""
    paused: int = 0
    """How often the log was paused and not resumed."""
    uncleanable: str = ""
    """Why the log is left alone until somebody resumes it; empty when it is not left alone."""
    snapshot: SnapshotRef | None = None
    """The snapshot that the last pass made."""
    seen: SeenCommits | None = None
    """The commits seen by the last pass that took every row below the checkpoint into account."""
    unseen: Unseen | None = None
    """What was known of rows below the checkpoint that no pass has seen, when history was last looked through."""
    there_by: tuple[int, int] | None = None
    """`(sequence number, ms)`: the rows of all commits up to this number were in the log at this time.

    It dates rows without a timestamp whose commit has expired."""
    empty: bool = False
    """Whether the last pass left the log without a row."""
    replaced: tuple[Replaced, ...] = ()
    """What was known of rows before the log started anew, oldest first, where tombstones of theirs had been removed."""
    last_clean: LastClean | None = None

    @property
    def last_pass_sequence(self) -> int:
        """Sequence number of the snapshot that the last pass made, 0 before the first."""
        return self.snapshot.sequence_number if self.snapshot else 0

    @property
    def seen_commits(self) -> SeenCommits:
        """The commits that passes have seen; where `seen` is None, all up to the last pass's own commit."""
        return self.seen or SeenCommits(self.last_pass_sequence)


@dataclass(frozen=True, slots=True)
class SlowestReader:
    """The named reader of a log that is furthest back, for which tombstones wait."""

    name: str
    position: int
    """Offset at which it goes on."""
    limit_ms: int
    """How long after its delete horizon a tombstone waits at most, ms."""

    def keeps(self, offset: int, horizon_ms: int, now: int) -> bool:
        """Returns whether a tombstone waits for the reader, though its delete horizon has passed."""
        return offset >= self.position and plus(horizon_ms, self.limit_ms) > now


@dataclass(frozen=True, slots=True)
class LogView:
    """A log as metadata shows it."""

    partition: Partition
    segments: tuple[Segment, ...]
    """In order of offset."""
    state: LogState
    last_stable: int | None = None
    """Last stable offset: rows from here on are not decided yet; None when all are."""
    unseen_from: int | None = None
    """Lowest offset of an unseen row below the checkpoint or the log start that retention left; None without one. Such
    a row arrived late, or another writer rewrote it."""
    late_from: int | None = None
    """Lowest offset of an unseen row there that is no rewrite of a row from before; None without one."""
    slowest: SlowestReader | None = None
    """The reader that tombstones wait for; None where they wait for no reader."""
    packed: tuple[DataFile, ...] = ()
    """Files that other writers' compactions have replaced since the last pass; empty where no row came late."""
    rewrites: tuple[int, ...] = ()
    """Sequence numbers of commits since the last pass that brought rows seen by it, and no others but of the head."""

    @property
    def name(self) -> str:
        """The text of its partition."""
        return str(self.partition)

    @property
    def log_start(self) -> int:
        """First offset of the log. Compaction does not move it; rows that arrive before it lower it."""
        if self.state.log_start is not None:
            return self.state.log_start if self.unseen_from is None else min(self.state.log_start, self.unseen_from)
        return min([*(s.base_offset for s in self.segments[:1]), *self.state.layout[:1]], default=0)

    @property
    def trouble(self) -> str:
        """Why the log cannot be cleaned as it stands; empty when it can."""
        return next((f.trouble for f in self.files if f.trouble), "")

    @property
    def log_end(self) -> int:
        """Offset after the last row ever seen; compaction may have removed that row."""
        return max(self.state.log_end, self.segments[-1].last_offset + 1 if self.segments else 0)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All data files, by offset."""
        return tuple(f for s in self.segments for f in s.files)

    @property
    def may_repeat(self) -> bool:
        """Whether metadata allows an offset to stand twice in the log."""
        return may_repeat((file.min_offset, file.max_offset, file.rows) for file in self.files)

    @property
    def timeless(self) -> tuple[DataFile, ...]:
        """The data files of segments without any timestamp, whose age is that of their commits."""
        without = (s for s in self.segments if not any(f.timed for f in s.files))
        return tuple(f for s in without for f in s.files)

    @property
    def bytes(self) -> int:
        """Size of all data files."""
        return sum(s.bytes for s in self.segments)

    @property
    def rows(self) -> int:
        """Rows in all data files."""
        return sum(f.rows for f in self.files)

    @property
    def tombstones_waiting(self) -> int | None:
        """Tombstones in the clean part, None when the metadata does not tell how many."""
        return tombstones_below(self.files, self.state.checkpoint or 0)


def tombstones_below(files: Iterable[DataFile], end: int) -> int | None:
    """Returns how many tombstones some files hold below an offset, None when the metadata does not tell.

    It does not tell where it counts no tombstones for a file, or where a file with tombstones lies across the offset.
    """
    near = [f for f in files if f.min_offset < end]
    counts = [f.tombstones for f in near if f.tombstones is not None and (f.max_offset < end or not f.tombstones)]
    return sum(counts) if len(counts) == len(near) else None


def may_repeat(files: Iterable[tuple[int, int, int]]) -> bool:
    """Returns whether an offset may stand twice in a log: files overlap, or one has more rows than offsets.

    Args:
        files: least offset, greatest offset and rows of each, by least offset.
    """
    end = -1
    for low, high, rows in files:
        if low <= end or rows > high - low + 1:
            return True
        end = max(end, high)
    return False


def to_segments(
    files: Iterable[DataFile], layout: tuple[int, ...] = (), left_at: int = LONG_MAX
) -> tuple[Segment, ...]:
    """Returns the data files of one log as segments in offset order.

    Args:
        files: of the log.
        layout: base offsets of the segments that the last pass left, see `LogState.layout`.
        left_at: sequence number of the commit by which it left them; the layout does not hold for later files.

    Files whose offset ranges overlap are one segment, and so are files between two base offsets of the layout. Files
    that share no more than the offset at their border are two segments, as when a source delivers its last record
    again. As one segment, a chain of such files could never be cleaned.
    """
    runs: list[list[DataFile]] = []
    indexes: list[int] = []
    end = -1
    for file in sorted(files, key=lambda f: (f.min_offset, f.max_offset, f.path)):
        own = layout if file.file_sequence_number <= left_at else ()
        index = _layout_index(own, file.min_offset)
        if runs and (file.min_offset < end or (index >= 0 and index == indexes[-1])):
            runs[-1].append(file)
        else:
            runs.append([file])
            indexes.append(index)
        if file.max_offset > end:
            end, indexes[-1] = file.max_offset, _layout_index(own, file.max_offset)
    return tuple(
        Segment.of(run, _base(layout if run[0].file_sequence_number <= left_at else (), run[0].min_offset))
        for run in runs
    )


def _layout_index(layout: tuple[int, ...], offset: int) -> int:
    """Returns the index of the layout's segment that holds the offset, -1 outside."""
    at = bisect_right(layout, offset) - 1
    return at if at < len(layout) - 1 else -1


def _base(layout: tuple[int, ...], offset: int) -> int | None:
    at = _layout_index(layout, offset)
    return layout[at] if at >= 0 else None
