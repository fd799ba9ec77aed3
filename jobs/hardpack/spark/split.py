"""The split: a mixed file becomes files of one log each, row for row, which are in its Iceberg partition.

One Spark task splits the whole of a file and its rows never leave the task. Rows of a log come out by rising offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hardpack.errors import BadInput
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles, leaf
from hardpack.files.writer import write_files
from hardpack.rules.grouping import in_packs
from hardpack.rules.times import LONG_MAX
from hardpack.spark.rewrite import by_offset
from hardpack.table.columns import LogColumns
from hardpack.table.log_name import FOOTER_LENGTH, LogName

if TYPE_CHECKING:
    import pyarrow as pa

HELD_BYTES = 256 * 1024 * 1024
"""Arrow bytes of a file that are held at once; a larger one is read in several rounds, each for some of its logs."""

Batches = Callable[[], Iterator["pa.RecordBatch"]]
"""Reads the living rows of a file, from its beginning each time."""


def split_file(
    files: DataFiles, read: Batches, like: ContentFile, columns: LogColumns, target_bytes: int
) -> list[ContentFile]:
    """Writes the living rows of a file anew, those of each log to files of their own.

    Args:
        files: writes the table's files.
        read: reads the file's living rows.
        like: the file, in whose Iceberg partition the new files are.
        columns: the table's.
        target_bytes: size at which a new file ends.

    Returns:
        The new files, which no snapshot knows of.

    Raises:
        BadInput: a row names no log, or one whose name is too long for a file's bounds.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    held, rows = 0, dict[Any, int]()
    for batch in read():
        held += batch.nbytes
        for entry in pc.value_counts(_names(batch, columns.log)).to_pylist():
            rows[entry["values"]] = rows.get(entry["values"], 0) + entry["counts"]
    if None in rows:
        raise BadInput(
            f"{files.name}: {rows[None]:,} rows of data file {like.path} have no {str(columns.log)!r}, expected "
            "the log's in each; mend or delete them."
        )
    if columns.log.is_text and (long := [log for log in rows if _longest(columns.log, log) >= FOOTER_LENGTH]):
        raise BadInput(
            f"{files.name}: a log's name in column {str(columns.log)!r} has {_longest(columns.log, long[0])} "
            f"characters, and a file's metadata tells no more than {FOOTER_LENGTH - 1}; add a partition field with "
            f"ALTER TABLE … ADD PARTITION FIELD {columns.log.columns[0].name} and rewrite the files."
        )
    done: list[ContentFile] = []
    rounds = -(-held // HELD_BYTES)
    most = -(-sum(rows.values()) // max(1, rounds))
    try:
        for some in in_packs(sorted(rows.items()), lambda log: log[1], most):
            logs = [log for log, _ in some]
            if rows[logs[0]] > most:
                # this one log is too large to be held at once
                batches = partial(_of_logs, read, columns, logs)
                done += write_files(files, by_offset(batches, columns.offset), like, target_bytes)
                continue
            own = pa.Table.from_batches(_of_logs(read, columns, logs))
            # a row without an offset goes last; it is the trouble of its own log, not of the others in the file
            offsets = _cells(own, lambda batch: leaf(batch, columns.offset)).fill_null(LONG_MAX).to_numpy()
            cells = _cells(own, lambda batch: _names(batch, columns.log))
            places = pc.index_in(cells, pa.array(logs, cells.type)).to_numpy()
            ordered, ends = own.take(np.lexsort([offsets, places])), np.cumsum([0, *(rows[log] for log in logs)])
            for start, end in pairwise(ends):
                part = ordered.slice(start, end - start).combine_chunks()
                done += write_files(files, part.to_batches(), like, target_bytes)
    except BaseException:
        files.discard(file.path for file in done)
        raise
    return done


def _of_logs(read: Batches, columns: LogColumns, logs: Collection[Any]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in read():
        log = _names(batch, columns.log)
        wanted = batch.filter(pc.is_in(log, pa.array(logs, log.type)))
        if len(wanted):
            yield wanted


def _cells(rows: pa.Table, cells: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays([cells(batch) for batch in rows.to_batches()])


def _names(batch: pa.RecordBatch, log: LogName) -> pa.Array:
    """Returns the name of each row's log, null where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [leaf(batch, column) for column in log.columns]
    if len(parts) == 1:
        return parts[0]
    *_, number = parts
    named = pc.binary_join_element_wise(*(part.cast(pa.string()) for part in parts), "-")
    return pc.if_else(pc.greater_equal(number, 0), named, None)


def _longest(log: LogName, name: Any) -> int:
    """Returns the length, in characters, of the longest text among a log's values that name it."""
    return max(len(part) for part in log.values(name) or (name,) if isinstance(part, str))
