"""Dead positions: one roaring bitmap per data file that holds a row to drop, whatever the cause."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from hardpack.lake.files import DataFiles
from hardpack.lake.puffin import bitmap
from hardpack.lake.row_deletes import on_one_file, read_positions
from hardpack.spark.transactions import decided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

SUPERSEDED, NULL_KEY, EXPIRED = "superseded", "null_key", "expired_tombstone"
ABORTED, MARKER, DUPLICATE = "aborted", "expired_marker", "duplicate"
CAUSES = (SUPERSEDED, NULL_KEY, EXPIRED, ABORTED, MARKER, DUPLICATE)
LIVING = "living"
READERS = 16
"""Deletion vectors read at once; on object storage each is a request of its own."""
PER_FILE = "partition string, file string, cause string, positions binary"


@dataclass(slots=True)
class DeadRows:
    """Dead positions of one data file, and how many of them each cause claims."""

    partition: str
    positions: BitMap = field(default_factory=BitMap)
    causes: dict[str, int] = field(default_factory=dict)
    hidden: BitMap = field(default_factory=BitMap)
    """Positions that row-level deletes had taken before."""
    erase: bool = False
    """Whether the key of a row, hidden or dead, was deleted, so that the row has to leave the storage."""

    def add(self, cause: str, positions: BitMap) -> None:
        """Take more rows as dead, none of which was yet."""
        if positions:
            self.positions |= positions
            self.causes[cause] = self.causes.get(cause, 0) + len(positions)

    @property
    def unread(self) -> BitMap:
        """What a rewrite leaves out: the dead rows and those deleted before."""
        return self.positions | self.hidden

    @property
    def gone(self) -> bool:
        """Whether a row has to leave the storage: its key was deleted, or it was not merely superseded."""
        return self.erase or not self.causes.keys() <= {SUPERSEDED}


def live_rows(rows: DataFrame, transactions: bool) -> DataFrame:
    """The data rows of whole logs that no transaction aborted."""
    if not transactions:
        return rows
    committed = decided(rows).where("outcome is null or outcome <> 'abort'").drop("outcome", "marker")
    return rows.where("control is null and not tx").unionByName(committed)


def aborted_rows(rows: DataFrame) -> DataFrame:
    """Rows of aborted transactions among those that are copied, of whole logs with their bounds."""
    from pyspark.sql import functions as F

    return _caused(decided(rows).where("outcome = 'abort' and o < copied_to"), F.lit(ABORTED))


def duplicates(repeated: DataFrame) -> DataFrame:
    """Rows that share their offset with the one that stands for it, up to the map's end."""
    from pyspark.sql import functions as F

    return _caused(repeated.where("o < checkpoint"), F.lit(DUPLICATE))


def expired_tombstones(rows: DataFrame) -> DataFrame:
    """Keyed tombstones whose offset lies in a range of which the delete horizon has passed."""
    from pyspark.sql import functions as F

    due = F.expr("exists(expired, r -> o between r[0] and r[1])")
    return _caused(rows.where(F.col("tombstone") & F.col("k").isNotNull() & due), F.lit(EXPIRED))


def expired_markers(rows: DataFrame, due: Mapping[str, Collection[int]]) -> DataFrame:
    """Control rows whose delete horizon has passed, by log and offset."""
    from pyspark.sql import functions as F

    listed = rows.sparkSession.createDataFrame(
        [(p, o) for p, offsets in due.items() for o in offsets], "p string, o long"
    )
    return _caused(rows.where("control is not null").join(F.broadcast(listed), ["p", "o"]), F.lit(MARKER))


def hidden_rows(
    files: DataFiles, deletes: Mapping[str, Sequence[Mapping[str, Any]]], sizes: Mapping[str, int], rows: DataFrame
) -> dict[str, BitMap]:
    """Positions that row-level deletes took, by data file: as deletes of it alone name them, else what a scan misses.

    Args:
        files: reads the table's files.
        deletes: Iceberg's JSON of the delete files, by path of the data file that they lie on.
        sizes: rows of each of these data files.
        rows: the narrow scan of whole logs.
    """
    from pyspark.sql import functions as F

    own = {path: found for path, found in deletes.items() if all(map(on_one_file, found))}

    def read(found: Sequence[Mapping[str, Any]]) -> BitMap:
        return BitMap.union(*(read_positions(files, delete) for delete in found))

    with ThreadPoolExecutor(READERS) as pool:
        hidden = dict(zip(own, pool.map(read, own.values()), strict=True))
    if others := [path for path in deletes if path not in own]:
        found = collect(_caused(rows.where(F.col("file").isin(others)), F.lit(LIVING)))
        hidden |= {path: BitMap(range(sizes[path])) for path in others}
        for path, living in found.items():
            hidden[path] -= living.positions
    return hidden


def union(parts: list[DataFrame]) -> DataFrame:
    """All of them."""
    return reduce(lambda one, other: one.unionByName(other), parts)


def _caused(rows: DataFrame, cause: Column) -> DataFrame:
    return rows.select("p", "file", "pos", cause.alias("cause"))


def collect(dead: DataFrame) -> dict[str, DeadRows]:
    """Bitmaps by data file path, made on the executors, one Spark job for all logs."""
    files: dict[str, DeadRows] = {}
    for row in dead.groupBy("file").applyInArrow(_bitmaps, PER_FILE).collect():
        found = files.setdefault(row.file, DeadRows(row.partition))
        found.add(row.cause, BitMap.deserialize(bytes(row.positions)))
    return files


def _bitmaps(table: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    def rows() -> Iterator[dict[str, Any]]:
        file, partition = table["file"][0].as_py(), table["p"][0].as_py()
        for cause in table["cause"].unique().to_pylist():
            positions = table.filter(pc.equal(table["cause"], cause))["pos"].to_numpy()
            found = bitmap(positions)
            found.run_optimize()
            yield {"partition": partition, "file": file, "cause": cause, "positions": found.serialize()}

    schema = pa.schema(
        [("partition", pa.string()), ("file", pa.string()), ("cause", pa.string()), ("positions", pa.binary())]
    )
    return pa.Table.from_pylist(list(rows()), schema)
