"""The rewrite: hit files are read and their living rows written anew, group by group, in offset order.

A group is read once, or in several rounds if its rows are out of offset order. One Spark task does the whole of a group
and its rows never leave the task: no join, no shuffle, no row in the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hardpack import faults
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import BATCH_ROWS, DataFiles, ahead_bytes, leaf
from hardpack.files.key_hash import living_mask, longs
from hardpack.files.writer import write_files
from hardpack.rules.grouping import in_packs
from hardpack.rules.times import LONG_MAX
from hardpack.spark.nearby import keep_to_one_core, runs_here
from hardpack.spark.progress import Progress
from hardpack.table.read_ahead import files_ahead
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SORT_BYTES = 256 * 1024 * 1024
"""Arrow bytes of a group out of offset order that are sorted at once; a larger one is read in several rounds."""


TASK_BYTES = 16 * 1024 * 1024
"""File bytes up to which small groups share a task: beginning one takes as long as copying more than a megabyte."""
GROUPS_AT_ONCE = 8
"""Groups of few rows that are written side by side: a distant storage takes longer to answer than they take to copy."""


class _OutOfOrder(Exception):
    """Rows do not come in rising order of offset."""


@dataclass(frozen=True, slots=True)
class RewriteInput:
    """A file and the bitmap of its rows that are not copied."""

    file: ContentFile
    skipped: bytes


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Paths of a group's old files, and the new files made of them: one file, or several where it grew too large."""

    old: tuple[str, ...]
    new: list[ContentFile]


def rewrite(
    spark: SparkSession,
    files: DataFiles,
    groups: Iterable[Sequence[RewriteInput]],
    offset: LogColumn,
    target_bytes: int,
) -> list[Rewritten]:
    """Writes the living rows of each group's files to new files.

    Args:
        spark: the session.
        files: reads and writes the table's files.
        groups: files that become one, in offset order.
        offset: the column of offsets.
        target_bytes: size at which a new file ends.

    Returns:
        For each group the old paths and the new files, which no snapshot knows yet.
    """
    return write_anew(spark, files, groups, "rewriting", lambda group: _rewrite(files, group, offset, target_bytes))


def write_anew(
    spark: SparkSession,
    files: DataFiles,
    groups: Iterable[Sequence[RewriteInput]],
    what: str,
    write: Callable[[Sequence[RewriteInput]], list[ContentFile]],
) -> list[Rewritten]:
    """Writes groups of files anew: in Spark's tasks, or a small step in the driver's own process.

    A task that fails deletes the new files that it has written.

    Args:
        spark: the session.
        files: reads and writes the table's files.
        groups: files that are written together; where neighbours differ in their Iceberg partition the group is cut.
        what: what is being done, for people.
        write: makes the new files of a group.
    """
    # files of different specs or partition values cannot become one
    tasks = [list(same) for group in groups for _, same in groupby(group, key=lambda file: file.file.iceberg_partition)]
    if not tasks:
        return []
    if runs_here((file.file.rows, file.file.bytes) for task in tasks for file in task):
        beside = Progress(None, f"{files.name}: {what}", *_size(tasks))
        return _paired(tasks, beside.of(lambda: _write_all(files, tasks, write)))
    # the longest first, so that none is left to run alone at the end
    tasks.sort(key=_bytes, reverse=True)
    packs = in_packs(tasks, _bytes, TASK_BYTES)
    slices = min(len(packs), files.threads)
    # Spark makes a slice of packs that follow each other, so packs are put such that no slice gets all the long ones
    packs = [pack for first in range(slices) for pack in packs[first::slices]]
    tasks = [task for pack in packs for task in pack]
    work = spark.sparkContext.parallelize(packs, slices)
    progress = Progress(spark.sparkContext, f"{files.name}: {what}", *_size(tasks))

    fault = faults.armed()

    def rewritten(pack: list[list[RewriteInput]]) -> list[list[ContentFile]]:
        keep_to_one_core()
        faults.arm(fault)
        done = _write_all(files, pack, write)
        progress.did(*_size(pack))
        return done

    with progress.logged():
        return _paired(tasks, work.flatMap(rewritten).collect())


def _paired(tasks: Iterable[Sequence[RewriteInput]], new_files: Iterable[list[ContentFile]]) -> list[Rewritten]:
    return [Rewritten(tuple(file.file.path for file in task), new) for task, new in zip(tasks, new_files, strict=True)]


def _bytes(group: Sequence[RewriteInput]) -> int:
    return sum(file.file.bytes for file in group)


def _size(groups: Iterable[Sequence[RewriteInput]]) -> tuple[int, int]:
    """Returns the number of files of the groups, and their bytes."""
    all_groups = list(groups)
    return sum(map(len, all_groups)), sum(map(_bytes, all_groups))


def _write_all(
    files: DataFiles,
    groups: Iterable[Sequence[RewriteInput]],
    write: Callable[[Sequence[RewriteInput]], list[ContentFile]],
) -> list[list[ContentFile]]:
    """Writes the groups and returns the new files of each; when one fails, the new files of all are deleted."""
    some, in_order, written = list(groups), list[list[ContentFile]](), list[list[ContentFile]]()
    # few groups are written side by side: more rows would take memory, and more time from each other than a distant
    # storage's answers take
    few = sum(file.file.rows for group in some for file in group) <= BATCH_ROWS

    def noted(group: Sequence[RewriteInput]) -> list[ContentFile]:
        written.append(write(group))
        return written[-1]

    # made here, so that the threads share one: each of them would make its own
    _ = files.throttle
    try:
        with ThreadPoolExecutor(min(GROUPS_AT_ONCE, files.threads)) as pool:
            for new in (pool.map if few else map)(noted, some):
                in_order.append(new)
                faults.reach("file written")
    except BaseException:
        files.discard(file.path for new in written for file in new)
        raise
    return in_order


def _rewrite(
    files: DataFiles, group: Sequence[RewriteInput], offset: LogColumn, target_bytes: int
) -> list[ContentFile]:
    try:
        return write_files(files, _rising(living(files, group), offset), group[0].file, target_bytes)
    except _OutOfOrder:
        # the second try stands behind this block: inside, the error's trace would hold on to the reader that stopped,
        # and to what it had read
        pass
    return write_files(files, by_offset(lambda: living(files, group), offset), group[0].file, target_bytes)


def living(files: DataFiles, group: Iterable[RewriteInput]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some files that are to be copied, file after file, batch by batch."""
    import pyarrow as pa

    for file, batches in files_ahead(
        group, lambda file: files.read_whole(file.file), lambda file: ahead_bytes(file.file)
    ):
        mask, at = living_mask(file.file.rows, file.skipped), 0
        for batch in batches:
            living = mask[at : at + len(batch)]
            at += len(batch)
            if living.all():
                yield batch
            elif living.any():
                yield batch.filter(pa.array(living))


def _rising(batches: Iterable[pa.RecordBatch], offset: LogColumn) -> Iterator[pa.RecordBatch]:
    end = None
    for batch in batches:
        offsets = longs(leaf(batch, offset))
        if (end is not None and offsets[0] < end) or (offsets[1:] < offsets[:-1]).any():
            raise _OutOfOrder
        end = offsets[-1]
        yield batch


def by_offset(read: Callable[[], Iterator[pa.RecordBatch]], offset: LogColumn) -> Iterator[pa.RecordBatch]:
    """Yields rows by rising offset; rows without an offset come last.

    All rows are read in each of several rounds, and a round holds the rows of one slice of the offsets alone.

    Args:
        read: yields the rows, from the first on each time it is called.
        offset: the column of offsets.
    """
    import pyarrow as pa

    def offsets_of(batch: pa.RecordBatch) -> np.ndarray:
        return longs(leaf(batch, offset).fill_null(LONG_MAX))

    bytes_seen, seen = 0, []
    for batch in read():
        bytes_seen += batch.nbytes
        seen.append(offsets_of(batch))
    offsets = np.sort(np.concatenate(seen))
    rounds = -(-bytes_seen // SORT_BYTES)
    starts = [*offsets[:: -(-len(offsets) // rounds)], None]
    for start, end in pairwise(starts):
        parts = []
        for batch in read():
            own = offsets_of(batch)
            # the last slice has no end, as no offset lies behind the greatest one that there can be
            parts.append(batch.filter(pa.array((own >= start) & (True if end is None else own < end))))
        slice_offsets = np.concatenate([offsets_of(part) for part in parts])
        yield from (
            pa.Table.from_batches(parts).take(np.argsort(slice_offsets, kind="stable")).combine_chunks().to_batches()
        )
