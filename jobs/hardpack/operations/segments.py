"""The segments of a table's logs, from metadata alone: what listing a log's folder shows in Kafka, and more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.session import TableSession
from hardpack.operations.status import MIXED
from hardpack.rules.model import DataFile, LogView, Partition, Segment
from hardpack.rules.selection import Decision, closed_segments, decide
from hardpack.rules.times import is_time

Part = Literal["clean", "dirty", "too young", "active", "in trouble", "to be split"]


class SegmentStatus(BaseModel):
    """One segment of a log at one time. Sizes are bytes, times ms. Rows under row-level deletes are counted too."""

    model_config = ConfigDict(frozen=True)

    table: str
    partition: Partition
    base_offset: int | None
    """Offset at which the segment began; compaction may have taken its first rows since. None when it is in trouble."""
    last_offset: int | None
    rows: int
    bytes: int
    first_timestamp: int | None
    """The least timestamp of a row, None where a row has none."""
    largest_timestamp: int
    """The greatest timestamp of a row; the time of the segment's commit where no row has one."""
    tombstones: int | None
    """None when the table's metadata does not count them."""
    part: Part
    """Clean: below the checkpoint. Dirty: a pass may clean it. Too young: from the first uncleanable offset on, by
    `min.compaction.lag.ms` or an open transaction. Active: the newest, until it counts as closed. In trouble: nobody
    can place its rows in the log, of which nothing is cleaned then. To be split: no segment, but all files that may
    hold rows of several logs, which the next pass takes apart."""
    trouble: str
    """Why the segment is in trouble; empty when it is not."""
    files: tuple[str, ...]


def table_segments(
    session: TableSession, now: int, partitions: Sequence[Partition] | None = None
) -> list[SegmentStatus]:
    """Returns the segments of an adopted table's logs, by log and base offset. Starts no JVM.

    Args:
        session: the table's.
        now: ms since the epoch.
        partitions: the logs, None for all.

    Raises:
        BadInput: the table or a setting is wrong, or there is no such partition.
    """
    settings = session.checked_settings()
    segments, logs = list[SegmentStatus](), wanted_logs(session.table, settings, partitions, session.memory)
    for view in logs.views:
        closed = len(closed_segments(view, settings, now))
        segments += _segments(session.name, view, closed, decide(view, settings, now))
    return [*segments, _to_be_split(session.name, logs.mixed)] if logs.mixed else segments


def _to_be_split(table: str, files: Sequence[DataFile]) -> SegmentStatus:
    firsts = [f.min_timestamp for f in files]
    last = max((f.max_timestamp for f in files if is_time(f.max_timestamp)), default=None)
    return SegmentStatus(
        table=table,
        partition=MIXED,
        base_offset=None,
        last_offset=None,
        rows=sum(f.rows for f in files),
        bytes=sum(f.bytes for f in files),
        first_timestamp=min(filter(is_time, firsts)) if all(map(is_time, firsts)) else None,
        largest_timestamp=max(f.modified for f in files) if last is None else last,
        tombstones=_tombstones(files),
        part="to be split",
        trouble="",
        files=tuple(f.path for f in files),
    )


def _segments(table: str, view: LogView, closed: int, decision: Decision) -> Iterator[SegmentStatus]:
    for number, segment in enumerate(view.segments):
        trouble = next((file.trouble for file in segment.files if file.trouble), "")
        yield SegmentStatus(
            table=table,
            partition=view.partition,
            base_offset=None if trouble else segment.base_offset,
            last_offset=None if trouble else segment.last_offset,
            rows=sum(file.rows for file in segment.files),
            bytes=segment.bytes,
            first_timestamp=segment.first_timestamp if is_time(segment.first_timestamp) else None,
            largest_timestamp=segment.largest_timestamp,
            tombstones=_tombstones(segment.files),
            part="in trouble" if trouble else _part(segment, number >= closed, decision),
            trouble=trouble,
            files=tuple(file.path for file in segment.files),
        )


def _tombstones(files: Iterable[DataFile]) -> int | None:
    """Returns the number of tombstones in several files; None where the metadata of one does not count them."""
    counts = [file.tombstones for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _part(segment: Segment, active: bool, decision: Decision) -> Part:
    if segment.last_offset < decision.first_dirty:
        return "clean"
    if active:
        return "active"
    return "dirty" if segment.base_offset < decision.bound else "too young"
