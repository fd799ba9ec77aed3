"""What the rules work on: data files, segments, the state of a log and the view of it, as plain immutable data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Partition = int | str
Horizon = tuple[int, int]
"""`(up to offset, horizon ms)`: tombstones after the previous entry's offset, up to this one, may go at the time."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of one log, as its manifest entry tells. Offsets inclusive, times in ms, sizes in bytes."""

    path: str
    bytes: int
    rows: int
    min_offset: int
    max_offset: int
    min_timestamp: int
    max_timestamp: int
    tombstones: int | None
    """Rows with a null value, None when the metadata does not count them."""
    null_keys: int | None
    """Rows with a null key, None when the metadata does not count them."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of data files whose offset ranges overlap; most are one file."""

    files: tuple[DataFile, ...]

    @property
    def base_offset(self) -> int:
        """Offset of the first row."""
        return self.files[0].min_offset

    @property
    def last_offset(self) -> int:
        """Offset of the last row."""
        return max(f.max_offset for f in self.files)

    @property
    def bytes(self) -> int:
        """Size of its files."""
        return sum(f.bytes for f in self.files)

    @property
    def largest_timestamp(self) -> int:
        """Kafka's LogSegment.largestTimestamp."""
        return max(f.max_timestamp for f in self.files)

    @property
    def first_timestamp(self) -> int:
        """Kafka takes the first batch's; a table has no batches, so it is the smallest of the rows'."""
        return min(f.min_timestamp for f in self.files)


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log remembers between passes; lives in the table (cleaner-offset-checkpoint, delete horizons)."""

    checkpoint: int | None = None
    log_start: int = 0
    log_end: int = 0
    horizons: tuple[Horizon, ...] = ()
    last_clean: dict[str, Any] = field(default_factory=dict)
    """Of the last phase one: `now`, `from` and `to` offsets, `plan`."""


@dataclass(frozen=True, slots=True)
class LogView:
    """A log as metadata shows it."""

    partition: Partition
    segments: tuple[Segment, ...]
    state: LogState

    @property
    def log_end(self) -> int:
        """Offset after the last row ever seen; compaction may have removed that row."""
        return max([self.state.log_end, *(s.last_offset + 1 for s in self.segments)])

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All data files, by offset."""
        return tuple(f for s in self.segments for f in s.files)

    @property
    def bytes(self) -> int:
        """Size of all data files."""
        return sum(s.bytes for s in self.segments)

    @property
    def rows(self) -> int:
        """Rows in all data files."""
        return sum(f.rows for f in self.files)

    @property
    def tombstones_waiting(self) -> int:
        """Tombstones in the clean part, as far as the metadata counts them."""
        below = [f for f in self.files if f.max_offset < (self.state.checkpoint or 0)]
        return sum(f.tombstones or 0 for f in below)


def to_segments(files: list[DataFile]) -> tuple[Segment, ...]:
    """Data files of one log as segments in offset order; files whose offset ranges overlap are one segment."""
    segments: list[list[DataFile]] = []
    end = -1
    for file in sorted(files, key=lambda f: (f.min_offset, f.max_offset, f.path)):
        if segments and file.min_offset <= end:
            segments[-1].append(file)
        else:
            segments.append([file])
        end = max(end, file.max_offset)
    return tuple(Segment(tuple(s)) for s in segments)
