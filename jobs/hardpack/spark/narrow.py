"""The narrow scan: of every row of some logs what the rules ask for, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardpack.lake.upkeep import quoted
from hardpack.log.horizons import Range
from hardpack.log.model import Partition
from hardpack.log.settings import Settings
from hardpack.spark.columns import column, key_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a pass may touch of one log. Offsets.

    The offset map covers `[first_dirty, checkpoint)`, the segments below `copied_to` are those that Kafka would copy,
    and `bound` is where the round ends. `expired` are the offsets of due tombstones.
    """

    partition: Partition
    first_dirty: int
    checkpoint: int
    copied_to: int
    bound: int
    expired: tuple[Range, ...] = ()


def narrow_scan(
    spark: SparkSession, name: str, snapshot: int, columns: Settings, partitions: Iterable[Partition]
) -> DataFrame:
    """All rows of some logs at a snapshot: p, k, o, tombstone, file, pos; with transactions pid, tx, control.

    Args:
        spark: the session.
        name: `catalog.namespace.table`.
        snapshot: its id.
        columns: settings whose column names are those that the snapshot's schema has.
        partitions: of which logs.
    """
    from pyspark.sql import functions as F

    part = column(columns.column_partition)
    control = control_type(columns)
    chosen: list[Column] = [
        part.cast("string").alias("p"),
        key_column(columns).alias("k"),
        column(columns.column_offset).cast("long").alias("o"),
        # a control row may have no value, but it deletes nothing
        (column(columns.column_value).isNull() & control.isNull()).alias("tombstone"),
        F.col("_file").alias("file"),
        F.col("_pos").alias("pos"),
        control.alias("control"),
    ]
    if columns.transactions:
        chosen += [
            column(columns.column_producer_id).cast("long").alias("pid"),
            (F.coalesce(column(columns.column_transactional), F.lit(False)) & control.isNull()).alias("tx"),
        ]
    if columns.column_batch:
        chosen.append(column(columns.column_batch).cast("long").alias("batch"))
    if columns.column_leader_epoch:
        chosen.append(column(columns.column_leader_epoch).cast("long").alias("epoch"))
    rows = spark.read.option("versionAsOf", snapshot).table(quoted(name))
    return rows.where(part.isin(list(partitions))).select(*chosen)


def control_type(columns: Settings) -> Column:
    """`commit` or `abort` for a control row, null for every other; Kafka writes them as 1 and 0."""
    from pyspark.sql import functions as F

    if not columns.transactions:
        return F.lit(None).cast("string")
    text = F.lower(column(columns.column_control).cast("string"))
    return F.when(text == "1", "commit").when(text == "0", "abort").otherwise(text)


def with_bounds(rows: DataFrame, bounds: Iterable[Bounds]) -> DataFrame:
    """The rows with their log's bounds beside them: first_dirty, checkpoint, copied_to, bound, expired."""
    from pyspark.sql import functions as F

    limits = rows.sparkSession.createDataFrame(
        [
            (str(b.partition), b.first_dirty, b.checkpoint, b.copied_to, b.bound, [list(r) for r in b.expired])
            for b in bounds
        ],
        "p string, first_dirty long, checkpoint long, copied_to long, bound long, expired array<array<long>>",
    )
    return rows.join(F.broadcast(limits), "p")


def below(rows: DataFrame, greatest: int) -> DataFrame:
    """The rows below an offset, which Iceberg uses to leave files and row groups out."""
    from pyspark.sql import functions as F

    return rows.where(F.col("o") < greatest)
