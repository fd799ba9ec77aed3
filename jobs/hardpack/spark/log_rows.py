"""The rows of some logs with the columns that the rules ask for alone, and how far a pass may touch the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hardpack.rules.horizons import Range
from hardpack.rules.model import Partition
from hardpack.spark.columns import in_logs, named, role_columns
from hardpack.spark.sql_text import quoted
from hardpack.table.columns import LogColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets that bound what a pass may touch of one log.

    The offset map covers `[first_dirty, map_end)`, the segments below `copied_to` are those that Kafka would copy,
    and `bound` is where the round ends. `expired` are the offsets of due tombstones.
    """

    partition: Partition
    first_dirty: int
    map_end: int
    copied_to: int
    bound: int
    expired: tuple[Range, ...] = ()


def log_rows(
    spark: SparkSession,
    name: str,
    snapshot: int,
    columns: LogColumns,
    partitions: Iterable[Partition] | None = None,
) -> DataFrame:
    """Reads all rows of some logs at a snapshot: the columns of `role_columns`, file and pos.

    Args:
        spark: the session.
        name: `catalog.namespace.table`.
        snapshot: its id.
        columns: as the snapshot's schema calls them.
        partitions: the logs; None for all.
    """
    from pyspark.sql import functions as F

    rows = spark.read.option("versionAsOf", snapshot).table(quoted(name))
    if partitions is not None:
        rows = rows.where(in_logs(columns, partitions))
    return rows.select(*named(role_columns(columns)), F.col("_file").alias("file"), F.col("_pos").alias("pos"))


def with_bounds(rows: DataFrame, bounds: Iterable[Bounds]) -> DataFrame:
    """Returns the rows with their log's bounds beside them: first_dirty, map_end, copied_to, bound, expired."""
    from pyspark.sql import functions as F

    limits = rows.sparkSession.createDataFrame(
        [
            (str(b.partition), b.first_dirty, b.map_end, b.copied_to, b.bound, [list(r) for r in b.expired])
            for b in bounds
        ],
        "p string, first_dirty long, map_end long, copied_to long, bound long, expired array<array<long>>",
    )
    return rows.join(F.broadcast(limits), "p")


def below(rows: DataFrame, greatest: int) -> DataFrame:
    """Returns the rows below an offset, by a condition with which Iceberg leaves files and row groups out."""
    from pyspark.sql import functions as F

    return rows.where(F.col("o") < greatest)


@dataclass(frozen=True)
class LogRows:
    """The rows of a pass's logs at its base, as frames. Spark analyses no frame that the pass does not ask for."""

    read: Callable[[], DataFrame]
    """Makes the frame of all rows."""
    repeated: DataFrame | None = None
    """Rows that do not count, as another row stands for their offset: p, o, file, pos. None where there can be none."""
    transactions: bool = False
    """Whether the rows tell of transactions."""

    @cached_property
    def all(self) -> DataFrame:
        """All rows."""
        return self.read()

    @property
    def deduplicated(self) -> DataFrame:
        """All rows but those in `repeated`."""
        if self.repeated is None:
            return self.all
        return self.all.join(self.repeated.select("file", "pos"), ["file", "pos"], "left_anti")

    def copied(self, bounds: Sequence[Bounds]) -> DataFrame:
        """Returns the rows that a pass may copy, with their bounds: rows below `copied_to`, and all control rows."""
        if self.transactions:
            return with_bounds(self.deduplicated, bounds).where("o < copied_to or control is not null")
        return with_bounds(below(self.deduplicated, max(b.copied_to for b in bounds)), bounds).where("o < copied_to")
