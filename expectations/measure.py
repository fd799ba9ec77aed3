"""One pass over the evidence of some logs: every number that the guarantees are judged by, per log.

The evidence has a row per row and side: p, k, o, tombstone, stands (before, after or both), content and kind (data,
control, aborted or truncated); see hardpack.spark.evidence. Its rows move once, by key; DuckDB groups them in Spark's
tasks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

LIMITS = ("p", "bound", "copied_to", "log_end", "expired", "passed", "ended")
NUMBERS = (
    "rows_before", "rows_after", "invented", "altered", "head_lost", "late_tombstones", "aborted_left", "control_lost",
    "duplicate_keys", "wrong_latest",
)  # fmt: skip
MEMORY = "512MB"
"""Memory that the grouping of one task may use; beyond it DuckDB writes to disk."""
# one thread, as Spark has a task per core; DuckDB sees no sizes, and would hold the rows in memory, not the limits
SETTINGS = {"threads": 1, "disabled_optimizers": "join_order,build_side_probe_side"}
COUNTED = """
with
rows as (
    select p, k, o, tombstone, kind,
        count(*) filter (stands <> 'after') as b,
        count(*) filter (stands <> 'before') as a,
        bit_xor(content) filter (stands <> 'after') as content_before,
        bit_xor(content) filter (stands <> 'before') as content_after
    from evidence
    group by all
),
judged as (
    select *, case when tombstone and k is not null
        then coalesce(list_bool_or(list_transform(expired, lambda r: o between r[1] and r[2])), false)
        else false end as removable,
        case when a > b
        then not coalesce(list_bool_or(list_transform(passed, lambda r: o between r[1] and r[2])), false)
        else false end as unknown
    from rows join limits using (p)
),
keys as (
    select p, k,
        sum(b) filter (o < log_end) as rows_before,
        sum(a) filter (o < log_end) as rows_after,
        -- offsets, not rows: an offset that stands twice is another matter
        count(*) filter (ended and o < bound and a > 0 and kind = 'data') as "left",
        -- with the offset whether it had to go
        max(2 * o::hugeint + removable::int) filter (b > 0 and o < bound and kind = 'data') as latest_before,
        max(o) filter (a > 0 and o < bound and kind = 'data') as latest_after,
        sum(a - b) filter (unknown and o < log_end) as invented,
        sum(a) filter (a = b and content_before <> content_after) as altered,
        sum(b - a) filter (b > a and (o >= copied_to or (o >= bound and kind = 'data'))) as head_lost,
        sum(a) filter (removable) as late_tombstones,
        sum(a) filter (ended and kind = 'aborted' and o < copied_to) as aborted_left,
        sum(b - a) filter (kind = 'control' and b > a) as control_lost
    from judged
    group by p, k
)
select p, sum(rows_before), sum(rows_after), sum(invented), sum(altered), sum(head_lost), sum(late_tombstones),
    sum(aborted_left), sum(control_lost),
    count(*) filter (k is not null and "left" > 1),
    count(*) filter (k is not null and latest_before is not null
        and latest_after is distinct from latest_before // 2 and not (latest_before % 2 = 1 and latest_after is null))
from keys
group by p
"""


def measure(evidence: DataFrame | pa.Table, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Counts what would break a guarantee, in Spark's tasks or, where the rows are at hand, in this process.

    Args:
        evidence: rows before and after the pass.
        logs: per log `partition` (text), `bound` (checkpoint after the pass), `log_end` (offset after the last row
            before it), `expired` (offset ranges whose tombstones had to go), `removed` (rows by the ledger); where
            they differ from `bound` and 0, `copied_to` (nothing from here on was touched) and `markers` (control rows
            that went by the ledger); `ended` (false while rows that have to go may be left, as portions of the pass
            follow); `causes` (the removed rows by cause, handed on as they are); where the evidence
            is that of some keys only, `counted` (rows before and after), `share` (one key of how many) and `passed`
            (offset ranges of which no rows before are there).

    Returns:
        Per log: rows_before, rows_after, removed, markers and causes (the ledger's), share, duplicate_keys,
        wrong_latest, invented, altered, head_lost, late_tombstones, aborted_left, control_lost.
    """
    import pyarrow as pa

    counted = _here(evidence, logs) if isinstance(evidence, pa.Table) else _in_tasks(evidence, logs)
    by_log = {row["p"]: row for row in counted}
    return [_filled(log, by_log.get(log["partition"], {})) for log in logs]


def _here(evidence: pa.Table, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for batch in counting(logs)(iter(evidence.to_batches())) for row in batch.to_pylist()]


def _in_tasks(evidence: DataFrame, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F

    # all rows of a key go to one task; rows without a key, maybe many, are compared by offset and spread by it
    met = evidence.repartition("p", F.when(F.col("k").isNull(), F.col("o")).otherwise(F.xxhash64("k")))
    counted = met.mapInArrow(counting(logs), ", ".join(["p string", *(f"{name} long" for name in NUMBERS)]))
    return [row.asDict() for row in counted.groupBy("p").agg(*(F.sum(n).alias(n) for n in NUMBERS)).collect()]


def counting(logs: Sequence[Mapping[str, Any]]) -> Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Returns the function by which a task counts the evidence of its keys, by log.

    A task has all rows of each of its keys, so that the numbers of all tasks add up.

    Args:
        logs: see `measure`.
    """
    import pyarrow as pa

    offset = pa.int64()
    ranges = pa.list_(pa.list_(offset))
    kinds = [pa.string(), offset, offset, offset, ranges, ranges, pa.bool_()]
    bounds = [
        (
            log["partition"], log["bound"], log.get("copied_to", log["bound"]), log["log_end"], log["expired"],
            log.get("passed", []), log.get("ended", True),
        )
        for log in logs
    ]  # fmt: skip
    limits = pa.table([pa.array(c, k) for c, k in zip(zip(*bounds, strict=True), kinds, strict=True)], LIMITS)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import duckdb

        first = next(batches, None)
        if first is None:
            return

        def rows() -> Iterator[pa.RecordBatch]:
            yield first
            yield from batches

        # Spark tells its Python workers in this variable which disks to spill to
        disk = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        with TemporaryDirectory(prefix="hardpack-gate-", dir=disk or None) as spilled:
            db = duckdb.connect(config=SETTINGS | {"memory_limit": MEMORY, "temp_directory": spilled})
            with db:
                db.register("limits", limits)
                db.register("evidence", pa.RecordBatchReader.from_batches(first.schema, rows()))
                counted = db.sql(COUNTED).to_arrow_table()
        numbers = pa.schema([("p", pa.string()), *((name, offset) for name in NUMBERS)])
        yield from counted.rename_columns(numbers.names).cast(numbers).to_batches()

    return count


def _filled(log: dict[str, Any], counts: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: int(counts.get(name) or 0) for name in NUMBERS}
    if "counted" in log:
        numbers |= {"rows_before": int(log["counted"][0]), "rows_after": int(log["counted"][1])}
    ledger = {"removed": int(log["removed"]), "markers": int(log.get("markers", 0)), "share": log.get("share", 1)}
    ledger["causes"] = log.get("causes", {})
    return {"partition": log["partition"], **ledger, **numbers}
