"""Where an offset map of bounded size ends, at scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def map_ends(
    rows: DataFrame, live: DataFrame, max_keys: Mapping[str, int], bases: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Returns the last offset that a full map covers, of the logs whose head has more keys than fit.

    See Cleaner.buildOffsetMap.

    The map is full with the first row of key number `max_keys` of a log; the next keyed row stops it. See
    `hardpack.rules.reference.offset_map.build_offset_map`, which this equals.

    Args:
        rows: all rows of the heads, with their bounds; `batch` beside them where it is mapped.
        live: the data rows among them that are not aborted.
        max_keys: by log the room of its map.
        bases: base offsets of the logs' segments.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    head = live.where("k is not null and o >= first_dirty and o < bound")
    firsts = head.groupBy("p", "k").agg(F.min("o").alias("first"))
    nth = F.row_number().over(Window.partitionBy("p").orderBy("first"))
    numbered = _beside(firsts.withColumn("n", nth), max_keys, "room").where("n = room")
    full = {r["p"]: r["first"] for r in numbered.collect()}
    if not full:
        return {}
    begins = F.col("batch") if "batch" in rows.columns else F.col("o")
    stops = {
        r["p"]: (r["stop"][0], r["stop"][1])
        for r in _beside(head, full, "full")
        .where("o > full")
        .groupBy("p")
        .agg(F.min(F.struct("o", begins.alias("begins"))).alias("stop"))
        .collect()
    }
    before = {
        r["p"]: r["o"]
        for r in _beside(rows, {p: at for p, (_, at) in stops.items()}, "begins_at")
        .where("o >= first_dirty and o < begins_at")
        .groupBy("p")
        .agg(F.max("o").alias("o"))
        .collect()
    }
    return {
        p: max(full[p], before.get(p, -1), max((b for b in bases[p] if b <= stop), default=0) - 1)
        for p, (stop, _) in stops.items()
    }


def _beside(rows: DataFrame, numbers: Mapping[str, int], name: str) -> DataFrame:
    from pyspark.sql import functions as F

    found = rows.sparkSession.createDataFrame(list(numbers.items()), f"p string, {name} long")
    return rows.join(F.broadcast(found), "p")
