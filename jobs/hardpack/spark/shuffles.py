"""Into how many parts Spark divides the rows of a table that it moves from task to task."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
BY_SIZE = "spark.hardpack.shuffle.bySize"
"""Setting that says: nobody has set a number of parts, so it may follow the table's size."""
LEAST, MOST = 8, 2000
PART_BYTES, SMALL_PART_BYTES = 256 * 1024**2, 32 * 1024**2
"""Bytes of the table's files for each part, and the fewest that a part may have where more parts keep cores at work."""


def shuffle_partitions(table_bytes: int, cores: int) -> int:
    """Returns into how many parts a shuffle of a table of this size is divided.

    Args:
        table_bytes: size of its data files.
        cores: tasks that run at once.
    """
    for_cores = min(2 * cores, table_bytes // SMALL_PART_BYTES)
    return max(LEAST, min(MOST, max(-(-table_bytes // PART_BYTES), for_cores)))


def fit_shuffles(spark: SparkSession, table_bytes: int) -> None:
    """Sets how many parts the next shuffles of a session have, unless whoever opened it has set a number.

    Args:
        spark: the session.
        table_bytes: size of the data files of the table that is worked on.
    """
    if not spark.conf.get(BY_SIZE, ""):
        return
    fitting = str(shuffle_partitions(table_bytes, spark.sparkContext.defaultParallelism))
    if spark.conf.get(SHUFFLE_PARTITIONS) != fitting:
        spark.conf.set(SHUFFLE_PARTITIONS, fitting)
