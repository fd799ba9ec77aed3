"""Dead positions: one roaring bitmap per data file that holds a row to drop, whatever the cause."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.puffin import bitmap
from hardpack.files.row_deletes import read_positions
from hardpack.rules.causes import ABORTED, CAUSES, DUPLICATE, EXPIRED_MARKER, EXPIRED_TOMBSTONE, Cause
from hardpack.spark.outcomes import decided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

LIVING = "living"
VECTORS_AT_ONCE = 16
"""How many delete files are read at once; on object storage each is a request of its own."""
PER_FILE = "partition string, file string, cause string, positions binary, last_offset long"


@dataclass(slots=True)
class FileDeadRows:
    """Dead positions of one data file, and how many of them each cause claims."""

    partition: str
    positions: BitMap = field(default_factory=BitMap)
    causes: dict[Cause, int] = field(default_factory=dict)
    deleted_before: BitMap = field(default_factory=BitMap)
    """Positions that row-level deletes had taken before the pass."""
    key_deleted: bool = False
    """Whether a row, dead now or deleted before, has a key that was deleted, so that the row must leave the storage."""
    expired_to: int = -1
    """The greatest offset of an expired tombstone among the dead rows, -1 where there is none."""

    def add(self, cause: Cause, positions: BitMap, last_offset: int = -1) -> None:
        """Adds rows to the dead ones; none of them is among those yet.

        Args:
            cause: the cause of all these rows.
            positions: their positions in the file.
            last_offset: the greatest of their offsets; it matters only for expired tombstones.
        """
        if positions:
            self.positions |= positions
            self.causes[cause] = self.causes.get(cause, 0) + len(positions)
            if cause is EXPIRED_TOMBSTONE:
                self.expired_to = max(self.expired_to, last_offset)

    @property
    def skipped(self) -> BitMap:
        """Positions that a rewrite leaves out: those of dead rows and of rows deleted before."""
        return self.positions | self.deleted_before

    @property
    def must_leave_storage(self) -> bool:
        """Whether a row of the file has to leave the storage: its key was deleted, or its cause demands it."""
        return self.key_deleted or any(cause.leaves_storage for cause in self.causes)


def live_rows(rows: DataFrame, transactions: bool) -> DataFrame:
    """Returns the data rows of whole logs that no transaction aborted."""
    if not transactions:
        return rows
    committed = decided(rows).where("outcome is null or outcome <> 'abort'").drop("outcome", "marker")
    return rows.where("control is null and not tx").unionByName(committed)


def aborted_rows(rows: DataFrame) -> DataFrame:
    """Returns the rows below `copied_to` of aborted transactions; `rows` are whole logs with their bounds."""
    from pyspark.sql import functions as F

    return _caused(decided(rows).where("outcome = 'abort' and o < copied_to"), F.lit(ABORTED.name))


def duplicates(repeated: DataFrame) -> DataFrame:
    """Returns the repeated rows below the offset map's end; for the offset of each, another row stands."""
    from pyspark.sql import functions as F

    return _caused(repeated.where("o < map_end"), F.lit(DUPLICATE.name))


def expired_tombstones(rows: DataFrame) -> DataFrame:
    """Returns the keyed tombstones whose offset lies in a range whose delete horizon has passed."""
    from pyspark.sql import functions as F

    due = F.expr("exists(expired, r -> o between r[0] and r[1])")
    return _caused(rows.where(F.col("tombstone") & F.col("k").isNotNull() & due), F.lit(EXPIRED_TOMBSTONE.name))


def expired_markers(rows: DataFrame, due: Mapping[str, Collection[int]]) -> DataFrame:
    """Returns the control rows whose delete horizon has passed; `due` has their offsets by log."""
    from pyspark.sql import functions as F

    listed = rows.sparkSession.createDataFrame(
        [(p, o) for p, offsets in due.items() for o in offsets], "p string, o long"
    )
    return _caused(rows.where("control is not null").join(F.broadcast(listed), ["p", "o"]), F.lit(EXPIRED_MARKER.name))


def deleted_rows(
    files: DataFiles, deletes: Mapping[str, Sequence[ContentFile]], sizes: Mapping[str, int], rows: DataFrame
) -> dict[str, BitMap]:
    """Returns by data file path the positions of the rows that row-level deletes took.

    A delete file that lies on one data file is read. Where other delete files lie on a data file, the positions are
    those that a scan of the table does not return.

    Args:
        files: reads the table's files.
        deletes: the delete files, by path of the data file that they lie on.
        sizes: number of rows of each of these data files, by path.
        rows: all rows of whole logs.
    """
    from pyspark.sql import functions as F

    own = {path: lying for path, lying in deletes.items() if all(delete.on_one_file for delete in lying)}

    def read(lying: Sequence[ContentFile]) -> BitMap:
        return BitMap.union(*(read_positions(files, delete) for delete in lying))

    with ThreadPoolExecutor(VECTORS_AT_ONCE) as pool:
        deleted = dict(zip(own, pool.map(read, own.values()), strict=True))
    if others := [path for path in deletes if path not in own]:
        deleted |= {path: BitMap(range(sizes[path])) for path in others}
        for _, _, path, living, _ in _positions(_caused(rows.where(F.col("file").isin(others)), F.lit(LIVING))):
            deleted[path] -= living
    return deleted


def union(parts: list[DataFrame]) -> DataFrame:
    """Returns the rows of all frames, which have the same columns."""
    return reduce(lambda one, other: one.unionByName(other), parts)


def _caused(rows: DataFrame, cause: Column) -> DataFrame:
    return rows.select("p", "file", "pos", "o", cause.alias("cause"))


def collect(dead: DataFrame) -> dict[str, FileDeadRows]:
    """Returns the dead positions by data file path. Executors make the bitmaps, in one Spark job for all logs."""
    by_name, files = {cause.name: cause for cause in CAUSES}, dict[str, FileDeadRows]()
    for name, partition, path, positions, last_offset in _positions(dead):
        files.setdefault(path, FileDeadRows(partition)).add(by_name[name], positions, last_offset)
    return files


def _positions(rows: DataFrame) -> Iterator[tuple[str, str, str, BitMap, int]]:
    """Yields cause, partition, path, positions and the greatest offset for each file and cause."""
    # sorted instead of grouped by file, as Spark 3.5 cannot hand groups on in Arrow
    together = rows.repartition("file").sortWithinPartitions("file", "cause")
    for row in together.mapInArrow(_bitmaps, PER_FILE).collect():
        yield row.cause, row.partition, row.file, BitMap.deserialize(bytes(row.positions)), row.last_offset


def _bitmaps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields a bitmap for each file and cause. Their rows lie together, but may reach from one batch into the next."""
    import pyarrow as pa

    columns = pa.schema(
        [("partition", pa.string()), ("file", pa.string()), ("cause", pa.string()), ("positions", pa.binary()),
         ("last_offset", pa.int64())]
    )  # fmt: skip

    def whole(of: tuple[str, str, str], positions: BitMap, last_offset: int) -> pa.RecordBatch:
        positions.run_optimize()
        return pa.RecordBatch.from_pylist(
            [dict(zip(columns.names, (*of, positions.serialize(), last_offset), strict=True))], columns
        )

    last, positions, last_offset = None, BitMap(), -1
    for batch in batches:
        for begin, end in _runs(batch):
            of = (batch["p"][begin].as_py(), batch["file"][begin].as_py(), batch["cause"][begin].as_py())
            if last and of != last:
                yield whole(last, positions, last_offset)
                positions, last_offset = BitMap(), -1
            positions |= bitmap(batch["pos"][begin:end].to_numpy())
            last_offset = max(last_offset, int(batch["o"][begin:end].to_numpy().max()))
            last = of
    if last:
        yield whole(last, positions, last_offset)


def _runs(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """Returns begin and end of each run of rows whose file and cause are the same."""
    if not batch.num_rows:
        return []
    file, cause = (batch[name].dictionary_encode().indices.to_numpy() for name in ("file", "cause"))
    cuts = np.flatnonzero((np.diff(file) != 0) | (np.diff(cause) != 0)) + 1
    return list(pairwise([0, *cuts.tolist(), batch.num_rows]))
