"""Transactions at scale: the rules of `hardpack.log.transactions` as Spark jobs over many logs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Held = Mapping[str, tuple[int, int]]
"""Per log the `(offset, producer id)` that ended its last round."""


def first_open(rows: DataFrame) -> dict[str, int]:
    """Per log the first offset of its earliest open transaction; logs without one are missing.

    Args:
        rows: from the first dirty offset on, to the end of the log.
    """
    from pyspark.sql import functions as F

    last = rows.where("control is not null").groupBy("p", "pid").agg(F.max("o").alias("decided"))
    undecided = rows.where("tx").join(last, ["p", "pid"], "left").where("decided is null or o > decided")
    found = undecided.groupBy("p").agg(F.min("o").alias("o")).collect()
    return {row["p"]: row["o"] for row in found}


def decided(rows: DataFrame) -> DataFrame:
    """Transactional rows with the outcome of their transaction: the producer's next control row.

    Args:
        rows: of whole logs, as the control row may lie in the active segment.

    Returns:
        The columns of `rows`, `outcome` (commit, abort or null) and `marker` (offset of the control row).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    later = Window.partitionBy("p", "pid").orderBy(F.col("o").desc()).rowsBetween(Window.unboundedPreceding, 0)
    marker = F.when(F.col("control").isNotNull(), F.col("o"))
    return (
        rows.where("tx or control is not null")
        .withColumn("outcome", F.last("control", ignorenulls=True).over(later))
        .withColumn("marker", F.last(marker, ignorenulls=True).over(later))
        .where("tx")
    )


@dataclass(slots=True)
class Markers:
    """Per log the markers of emptied transactions, and the transactional row that ends the round."""

    emptied: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, tuple[int, int]] = field(default_factory=dict)


def find_markers(rows: DataFrame, held: Held) -> Markers:
    """Which control rows below `copied_to` have no row of their transaction before them.

    Args:
        rows: of whole logs, with their bounds.
        held: see `hardpack.log.transactions.emptied_markers`.
    """
    from pyspark.sql import functions as F

    inside = rows.where("o < copied_to").select("p", "pid", "o", "tx", "control", "bound")
    ghosts = rows.sparkSession.createDataFrame(
        [(p, pid, o, True, None, None) for p, (o, pid) in held.items()],
        "p string, pid long, o long, tx boolean, control string, bound long",
    )
    met = decided(inside.unionByName(ghosts)).select("p", F.col("marker").alias("o")).distinct()
    emptied = inside.where("control is not null").join(met, ["p", "o"], "left_anti")
    ends = inside.where("tx and o = bound - 1")
    out = Markers()
    for row in (
        emptied.select("p", "o", F.lit(None).cast("long").alias("pid"))
        .unionByName(ends.select("p", "o", F.coalesce("pid", F.lit(-1).cast("long")).alias("pid")))
        .collect()
    ):
        if row["pid"] is None:
            out.emptied[row["p"]].append(row["o"])
        else:
            out.held[row["p"]] = (row["o"], row["pid"])
    return out
