"""How many keys an offset map of bounded size holds, and where it ends, by Spark for many logs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BoundedMap:
    """What an offset map with room for a limited number of keys holds and covers."""

    keys: int
    """How many keys the map holds."""
    last: int | None = None
    """The last offset that it covers; None where all keys of the head fit."""


def bounded_maps(
    rows: DataFrame, live: DataFrame, max_keys: Mapping[str, int], bases: Mapping[str, Sequence[int]]
) -> dict[str, BoundedMap]:
    """Returns by log the bounded offset maps; a log whose head has no key is missing (Cleaner.buildOffsetMap).

    A map is full with the first row of the log's key number `max_keys`, and the next keyed row stops it. The result
    equals that of `hardpack.rules.reference.offset_map.build_offset_map`.

    Args:
        rows: all rows of the heads, with their bounds; `batch` beside them where it is mapped.
        live: the data rows among them that are not aborted.
        max_keys: by log the number of keys that its map has room for.
        bases: base offsets of the logs' segments.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    head = live.where("k is not null and o >= first_dirty and o < bound")
    firsts = head.groupBy("p", "k").agg(F.min("o").alias("first"))
    nth = F.row_number().over(Window.partitionBy("p").orderBy("first"))
    last_first = F.max(F.when(F.col("n") == F.col("room"), F.col("first")))
    counted = (
        _beside(firsts.withColumn("n", nth), max_keys, "room")
        .groupBy("p")
        .agg(F.count("*").alias("keys"), last_first.alias("full"))
        .collect()
    )
    held = {r["p"]: min(r["keys"], max_keys[r["p"]]) for r in counted}
    full = {r["p"]: r["full"] for r in counted if r["full"] is not None}
    ends = _ends(rows, head, full, bases) if full else {}
    return {p: BoundedMap(keys, ends.get(p)) for p, keys in held.items()}


def _ends(
    rows: DataFrame, head: DataFrame, full: Mapping[str, int], bases: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Returns by log the last offset that its map covers; a log is missing when no further keyed row stops its map.

    Args:
        rows: see `bounded_maps`.
        head: the keyed rows of the heads.
        full: by log the offset at which its map is full.
        bases: see `bounded_maps`.
    """
    from pyspark.sql import functions as F

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

    numbered = rows.sparkSession.createDataFrame(list(numbers.items()), f"p string, {name} long")
    return rows.join(F.broadcast(numbered), "p")
