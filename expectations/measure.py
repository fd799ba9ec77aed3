"""One pass over the evidence of some logs: every number that the guarantees are judged by, per log.

The evidence has a row per row and side: p, k, o, tombstone, before, after, content (see hardpack.spark.evidence).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMITS = "p string, bound long, log_end long, expired array<array<long>>"


def measure(evidence: DataFrame, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count what would break a guarantee.

    Args:
        evidence: rows of both sides.
        logs: per log `partition` (text), `bound` (checkpoint after the pass), `log_end` (offset after the last row
            before it), `expired` (offset ranges whose tombstones had to go), `removed` (rows by the ledger).

    Returns:
        Per log: rows_before, rows_after, removed (the ledger's), duplicate_keys, wrong_latest, invented, altered,
        head_lost, late_tombstones.
    """
    from pyspark.sql import functions as F

    limits = evidence.sparkSession.createDataFrame(
        [(log["partition"], log["bound"], log["log_end"], log["expired"]) for log in logs], LIMITS
    )
    removable = "tombstone and k is not null and exists(expired, r -> o between r[0] and r[1])"
    rows = (
        evidence.groupBy("p", "k", "o", "tombstone")
        .agg(
            F.sum("before").alias("b"),
            F.sum("after").alias("a"),
            F.bit_xor(F.when(F.col("before") == 1, F.col("content"))).alias("content_before"),
            F.bit_xor(F.when(F.col("after") == 1, F.col("content"))).alias("content_after"),
        )
        .join(F.broadcast(limits), "p")
        .withColumn("removable", F.expr(removable))
    )
    keys = rows.groupBy("p", "k").agg(
        F.expr("sum(if(o < log_end, b, 0))").alias("rows_before"),
        F.expr("sum(if(o < log_end, a, 0))").alias("rows_after"),
        F.expr("sum(if(o < bound, a, 0))").alias("left"),
        F.expr("max(if(b > 0 and o < bound, 2 * o + int(removable), null))").alias("latest_before"),
        F.expr("max(if(a > 0 and o < bound, o, null))").alias("latest_after"),
        F.expr("sum(if(a > b and o < log_end, a - b, 0))").alias("invented"),
        F.expr("sum(if(a = b and content_before <> content_after, a, 0))").alias("altered"),
        F.expr("sum(if(o >= bound and b > a, b - a, 0))").alias("head_lost"),
        F.expr("sum(if(removable, a, 0))").alias("late_tombstones"),
    )
    expired = F.expr("latest_before % 2 = 1 and latest_after is null")
    present = F.expr("k is not null and latest_before is not null")
    right = F.expr("latest_after <=> latest_before div 2")
    counted = keys.groupBy("p").agg(
        *(F.sum(c).alias(c) for c in ("rows_before", "rows_after", "invented", "altered", "head_lost")),
        F.sum("late_tombstones").alias("late_tombstones"),
        F.expr("sum(int(k is not null and left > 1))").alias("duplicate_keys"),
        F.sum((present & ~right & ~expired).cast("int")).alias("wrong_latest"),
    )
    found = {row["p"]: row.asDict() for row in counted.collect()}
    return [_filled(log, found.get(log["partition"], {})) for log in logs]


NUMBERS = (
    "rows_before", "rows_after", "duplicate_keys", "wrong_latest", "invented", "altered", "head_lost",
    "late_tombstones",
)  # fmt: skip


def _filled(log: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: int(found.get(name) or 0) for name in NUMBERS}
    return {"partition": log["partition"], "removed": int(log["removed"]), **numbers}
