"""Dead positions: one roaring bitmap per data file that holds a row to drop, whatever the cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from hardpack.log.horizons import Range
from hardpack.log.model import Partition
from hardpack.log.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

SUPERSEDED, NULL_KEY, EXPIRED = "superseded", "null_key", "expired_tombstone"
CAUSES = (SUPERSEDED, NULL_KEY, EXPIRED)
PER_FILE = "partition string, file string, cause string, rows long, positions binary"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a pass may touch of one log: the head `[first_dirty, end)`, and the offsets of due tombstones."""

    partition: Partition
    first_dirty: int
    end: int
    expired: tuple[Range, ...] = ()


@dataclass(slots=True)
class DeadRows:
    """Dead positions of one data file, and how many of them each cause claims."""

    partition: str
    positions: BitMap = field(default_factory=BitMap)
    causes: dict[str, int] = field(default_factory=dict)


def narrow_scan(spark: SparkSession, name: str, snapshot: int, settings: Settings, bounds: list[Bounds]) -> DataFrame:
    """The rows below each log's end at a snapshot: p, k, o, tombstone, first_dirty, expired, file, pos."""
    from pyspark.sql import functions as F

    part, offset = F.col(settings.column_partition), F.col(settings.column_offset)
    rows = (
        spark.read.option("versionAsOf", snapshot)
        .table(name)
        .where(part.isin([b.partition for b in bounds]) & (offset < max(b.end for b in bounds)))
        .select(
            part.cast("string").alias("p"),
            F.col(settings.column_key).alias("k"),
            offset.alias("o"),
            F.col(settings.column_value).isNull().alias("tombstone"),
            F.col("_file").alias("file"),
            F.col("_pos").alias("pos"),
        )
    )
    limits = spark.createDataFrame(
        [(str(b.partition), b.first_dirty, b.end, [list(r) for r in b.expired]) for b in bounds],
        "p string, first_dirty long, end long, expired array<array<long>>",
    )
    return rows.join(F.broadcast(limits), "p").where("o < end").drop("end")


def superseded(rows: DataFrame) -> DataFrame:
    """Rows with a newer row of their key in the cleanable head (Cleaner.shouldRetainRecord).

    The offset map is the head's greatest offset per key; one long per key keeps Spark's aggregate hashed.
    """
    from pyspark.sql import functions as F

    head = rows.where("k is not null and o >= first_dirty")
    offset_map = head.groupBy("p", "k").agg(F.max("o").alias("latest"))
    return _caused(rows.join(offset_map, ["p", "k"]).where("o < latest"), F.lit(SUPERSEDED))


def without_key(rows: DataFrame) -> DataFrame:
    """Rows without a key, which the cleaner drops up to the map's end."""
    from pyspark.sql import functions as F

    return _caused(rows.where("k is null"), F.lit(NULL_KEY))


def expired_tombstones(rows: DataFrame) -> DataFrame:
    """Keyed tombstones whose offset lies in a range of which the delete horizon has passed."""
    from pyspark.sql import functions as F

    due = F.expr("exists(expired, r -> o between r[0] and r[1])")
    return _caused(rows.where(F.col("tombstone") & F.col("k").isNotNull() & due), F.lit(EXPIRED))


def _caused(rows: DataFrame, cause: Column) -> DataFrame:
    return rows.select("p", "file", "pos", cause.alias("cause"))


def collect(dead: DataFrame) -> dict[str, DeadRows]:
    """Bitmaps by data file path, made on the executors, one Spark job for all logs."""
    files: dict[str, DeadRows] = {}
    for row in dead.groupBy("file").applyInArrow(_bitmaps, PER_FILE).collect():
        found = files.setdefault(row.file, DeadRows(row.partition))
        found.positions |= BitMap.deserialize(bytes(row.positions))
        found.causes[row.cause] = found.causes.get(row.cause, 0) + row.rows
    return files


def _bitmaps(table: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    def rows() -> Iterator[dict[str, Any]]:
        file, partition = table["file"][0].as_py(), table["p"][0].as_py()
        for cause in table["cause"].unique().to_pylist():
            positions = table.filter(pc.equal(table["cause"], cause))["pos"].to_numpy()
            bitmap = BitMap(positions.astype("uint32"))
            bitmap.run_optimize()
            yield {
                "partition": partition,
                "file": file,
                "cause": cause,
                "rows": len(positions),
                "positions": bitmap.serialize(),
            }

    schema = pa.schema(
        [("partition", pa.string()), ("file", pa.string()), ("cause", pa.string()), ("rows", pa.int64()),
         ("positions", pa.binary())]
    )  # fmt: skip
    return pa.Table.from_pylist(list(rows()), schema)
