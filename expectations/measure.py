"""One pass over the evidence of some logs: every number that the guarantees are judged by, per log.

The evidence has a row per row and side: p, k, o, tombstone, before, after, content, and with transactions kind (data,
control or aborted); see hardpack.spark.evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMITS = "p string, bound long, copied_to long, log_end long, expired array<array<long>>"


def measure(evidence: DataFrame, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count what would break a guarantee.

    Args:
        evidence: rows of both sides.
        logs: per log `partition` (text), `bound` (checkpoint after the pass), `log_end` (offset after the last row
            before it), `expired` (offset ranges whose tombstones had to go), `removed` (rows by the ledger); where
            they differ from `bound` and 0, `copied_to` (nothing from here on was touched) and `markers` (control rows
            that went by the ledger); where the evidence is that of some keys only, `counted` (rows before and after)
            and `share` (one key of how many).

    Returns:
        Per log: rows_before, rows_after, removed and markers (the ledger's), duplicate_keys, wrong_latest, invented,
        altered, head_lost, late_tombstones, aborted_left, control_lost.
    """
    from pyspark.sql import functions as F

    limits = evidence.sparkSession.createDataFrame(
        [
            (log["partition"], log["bound"], log.get("copied_to", log["bound"]), log["log_end"], log["expired"])
            for log in logs
        ],
        LIMITS,
    )
    removable = "tombstone and k is not null and exists(expired, r -> o between r[0] and r[1])"
    if "kind" not in evidence.columns:
        evidence = evidence.withColumn("kind", F.lit("data"))
    rows = (
        evidence.groupBy("p", "k", "o", "tombstone", "kind")
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
        # offsets, not rows: an offset that stands twice is another matter
        F.expr("sum(if(o < bound and a > 0 and kind = 'data', 1, 0))").alias("left"),
        F.expr("max(if(b > 0 and o < bound and kind = 'data', 2 * o + int(removable), null))").alias("latest_before"),
        F.expr("max(if(a > 0 and o < bound and kind = 'data', o, null))").alias("latest_after"),
        F.expr("sum(if(a > b and o < log_end, a - b, 0))").alias("invented"),
        F.expr("sum(if(a = b and content_before <> content_after, a, 0))").alias("altered"),
        F.expr("sum(if(b > a and (o >= copied_to or (o >= bound and kind = 'data')), b - a, 0))").alias("head_lost"),
        F.expr("sum(if(removable, a, 0))").alias("late_tombstones"),
        F.expr("sum(if(kind = 'aborted' and o < copied_to, a, 0))").alias("aborted_left"),
        F.expr("sum(if(kind = 'control' and b > a, b - a, 0))").alias("control_lost"),
    )
    expired = F.expr("latest_before % 2 = 1 and latest_after is null")
    present = F.expr("k is not null and latest_before is not null")
    right = F.expr("latest_after <=> latest_before div 2")
    counted = keys.groupBy("p").agg(
        *(F.sum(c).alias(c) for c in SUMS),
        F.expr("sum(int(k is not null and left > 1))").alias("duplicate_keys"),
        F.sum((present & ~right & ~expired).cast("int")).alias("wrong_latest"),
    )
    found = {row["p"]: row.asDict() for row in counted.collect()}
    return [_filled(log, found.get(log["partition"], {})) for log in logs]


SUMS = (
    "rows_before", "rows_after", "invented", "altered", "head_lost", "late_tombstones", "aborted_left", "control_lost",
)  # fmt: skip
NUMBERS = (*SUMS, "duplicate_keys", "wrong_latest")


def _filled(log: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: int(found.get(name) or 0) for name in NUMBERS}
    if "counted" in log:
        numbers |= {"rows_before": int(log["counted"][0]), "rows_after": int(log["counted"][1])}
    ledger = {"removed": int(log["removed"]), "markers": int(log.get("markers", 0)), "share": log.get("share", 1)}
    return {"partition": log["partition"], **ledger, **numbers}
