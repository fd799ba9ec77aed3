"""The first row of a log at an offset or of a time, found by bounds: of files, of their row groups, of pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from hardpack.files.page_index import CountedFile
from hardpack.reading.file_rows import Where
from hardpack.reading.log_files import LogFile
from hardpack.reading.sparse_index import RowRange, SparseIndex, fulfils
from hardpack.rules.times import LONG_MAX


class Found(BaseModel):
    """Where a row is. The offset is the log's; group, page and row count from 0."""

    model_config = ConfigDict(frozen=True)

    partition: str
    offset: int
    timestamp: int
    """ms since the epoch, -1 where the row has none."""
    file: str
    row_group: int
    page: int
    """Number of the page of the offset's column, in the row group."""
    row: int
    """Position of the row in the file."""
    bytes_read: int
    """Bytes of footers, page indexes and pages that it took to find the row; what was read before is not read again."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for: the first row at or after an offset, or of a time or later, ms."""

    by: Literal["offset", "time"]
    value: int

    def may_be_up_to(self, offset: int, time: int) -> bool:
        """Returns whether the row sought may be among rows of which these are the greatest offset and timestamp."""
        return (offset if self.by == "offset" else time) >= self.value

    def least(self, offset: int) -> int:
        """Returns the least offset that the row sought can have among rows of which this is the least offset."""
        return max(offset, self.value) if self.by == "offset" else offset


class _Place(NamedTuple):
    offset: int
    file: LogFile
    group: int
    page: int
    row: int
    """Position of the row in the row group."""
    timestamp: int | None
    """ms since the epoch, None where it was not read."""


def first_row(index: SparseIndex, log: str, files: Iterable[LogFile], where: Where, sought: Sought) -> Found | None:
    """Returns the first row of a log that is sought, None where there is none.

    Args:
        index: the table's.
        log: name of the log.
        files: the log's files, by their first offset.
        where: the filter for rows of the log in mixed files.
        sought: what is looked for.

    Raises:
        BadInput: a file is gone or damaged.
        Unavailable: the storage does not answer.
    """
    before, first = index.bytes_read, None
    for file in files:
        best = first.offset if first else LONG_MAX
        if sought.least(file.first_offset) >= best:
            break
        if sought.may_be_up_to(file.last_offset, file.latest):
            own = where if file.shared else {}
            first = index.by_pieces(file, partial(_first_in_file, index, file, own, sought, best)) or first
    if first is None:
        return None
    timestamp = first.timestamp
    if timestamp is None:
        timestamp = index.by_pieces(first.file, partial(_time, index, first))
    return Found(
        partition=log, offset=first.offset, timestamp=timestamp, file=first.file.content.path, row_group=first.group,
        page=first.page, row=index.positions(first.file, first.group)[0] + first.row,
        bytes_read=index.bytes_read - before,
    )  # fmt: skip


def _time(index: SparseIndex, place: _Place, opened: CountedFile) -> int:
    return int(index.millis(opened, place.file, place.group, (place.row, place.row + 1))[0])


def _first_in_file(
    index: SparseIndex, file: LogFile, where: Where, sought: Sought, best: int, opened: CountedFile
) -> _Place | None:
    """Returns the first row sought in a file, if its offset is less than `best`; else None."""
    first = None
    for least, group in _row_groups(index, file, sought):
        if sought.least(least) >= (first.offset if first else best):
            break
        for low, number, rows in _pages(index, opened, file, group, sought):
            if sought.least(low) >= (first.offset if first else best):
                break
            offsets = index.offsets(opened, file, group, rows)
            mask = (offsets >= 0) & (offsets < (first.offset if first else best))
            times = None if sought.by == "offset" else index.millis(opened, file, group, rows)
            mask &= (offsets if times is None else times) >= sought.value
            for column, wanted in where.items():
                mask &= fulfils(index.values(opened, file, group, column, rows), wanted)
            begin = index.positions(file, group)[0]
            mask[index.deleted(file, (begin + rows[0], begin + rows[1]))] = False
            if mask.any():
                at = int(np.where(mask, offsets, LONG_MAX).argmin())
                time = None if times is None else int(times[at])
                first = _Place(int(offsets[at]), file, group, number, rows[0] + at, time)
    return first


def _row_groups(index: SparseIndex, file: LogFile, sought: Sought) -> list[tuple[int, int]]:
    """Returns least offset and number of each row group that may hold the row sought, sorted by that offset."""
    groups = []
    for group in index.row_groups(file):
        low, high = index.bounds(file, group, index.columns.offset) or (file.first_offset, file.last_offset)
        if sought.may_be_up_to(high, index.latest(file, group)):
            groups.append((low, group))
    return sorted(groups)


def _pages(
    index: SparseIndex, opened: CountedFile, file: LogFile, group: int, sought: Sought
) -> list[tuple[int, int, RowRange]]:
    """Returns least offset, number and rows of each page of offsets that may hold the row sought, by that offset."""
    offsets = index.pages(opened, file, group, index.columns.offset)
    times = index.pages(opened, file, group, index.columns.timestamp) if sought.by == "time" else None
    pages = []
    for number, page in enumerate(offsets.pages if offsets else ()):
        latest = LONG_MAX
        if times:
            page_times = [index.in_millis(file, one.high) for one in times.covering(page.first_row, page.end_row)]
            latest = max(LONG_MAX if time is None else time for time in page_times)
        if sought.may_be_up_to(file.last_offset if page.high is None else page.high, latest):
            low = file.first_offset if page.low is None else page.low
            pages.append((low, number, (page.first_row, page.end_row)))
    return sorted(pages)
