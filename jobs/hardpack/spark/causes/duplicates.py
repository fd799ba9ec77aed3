"""Offsets that stand twice in one log. A Kafka log cannot hold them, so they are settled before Kafka's rules apply.

Equal rows collapse to one; columns that duplicates.ignore names need not be equal. Of rows that differ, the one with
the greatest leader epoch is the log's; Kafka has truncated the others after an unclean leader election. Without a
leader epoch nobody can tell which row is the log's, and the log is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hardpack.errors import UncleanableLog
from hardpack.rules.model import Partition
from hardpack.spark.columns import in_logs, named, role_columns
from hardpack.spark.evidence import content_hash
from hardpack.spark.sql_text import quoted
from hardpack.table.columns import LogColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def repeated_rows(
    spark: SparkSession, name: str, snapshot: int, columns: LogColumns, partitions: Iterable[Partition]
) -> DataFrame:
    """Returns the rows of some logs for whose offset another row stands: p, o, file, pos.

    Args:
        spark: the session.
        name: `catalog.namespace.table`.
        snapshot: its id.
        columns: as the snapshot's schema calls them.
        partitions: the logs to look at.

    Raises:
        UncleanableLog: rows with one offset differ and no leader epoch decides between them.
    """
    from pyspark.sql import functions as F

    others = _others(spark, name, snapshot, columns, partitions)
    disputed = others.where("epoch <=> first_epoch and content <> first_content")
    by_log = disputed.groupBy("p").agg(F.count("o").alias("rows"), F.min("o").alias("o")).collect()
    if by_log:
        first = min(by_log, key=lambda row: row["p"])
        reason = f"{first['rows']:,} rows share an offset with a row that differs, the first at offset {first['o']}"
        raise UncleanableLog(
            f"{name}: in partition {first['p']} {reason}; delete the wrong ones, map the column of the leader epoch "
            "with --set column.leader.epoch=NAME, name columns that may differ with --set duplicates.ignore=NAME, or, "
            "where topics share the table, name logs by both with --set column.partition=TOPIC,PARTITION.",
            tuple(sorted(row["p"] for row in by_log)),
            reason,
        )
    return others.select("p", "o", "file", "pos")


def truncated_rows(
    spark: SparkSession, name: str, snapshot: int, columns: LogColumns, partitions: Iterable[Partition]
) -> DataFrame:
    """Returns the rows that Kafka truncated: a row of a greater leader epoch has their offset. Gives p, o, file, pos.

    Rows that differ within one leader epoch are not refused here.

    Args:
        spark: the session.
        name: `catalog.namespace.table`.
        snapshot: its id.
        columns: as the snapshot's schema calls them, a leader epoch among them.
        partitions: the logs to look at.
    """
    others = _others(spark, name, snapshot, columns, partitions)
    return others.where("not epoch <=> first_epoch").select("p", "o", "file", "pos")


def _others(
    spark: SparkSession, name: str, snapshot: int, columns: LogColumns, partitions: Iterable[Partition]
) -> DataFrame:
    """Returns all rows but the first of each offset, each beside the epoch and the content of that first row."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    table = spark.read.option("versionAsOf", snapshot).table(quoted(name))
    roles = role_columns(columns)
    roles.setdefault("epoch", F.lit(0).cast("long"))
    rows = table.where(in_logs(columns, partitions)).select(
        *named(roles, "p", "o", "epoch"),
        content_hash(table.drop(*columns.ignored)).alias("content"),
        F.col("_file").alias("file"),
        F.col("_pos").alias("pos"),
    )
    same = Window.partitionBy("p", "o").orderBy(F.col("epoch").desc_nulls_last(), "file", "pos")
    return (
        rows.withColumn("rank", F.row_number().over(same))
        .withColumn("first_epoch", F.first("epoch").over(same))
        .withColumn("first_content", F.first("content").over(same))
        .where("rank > 1")
    )
