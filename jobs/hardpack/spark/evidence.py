"""Evidence for the guarantees: the rows of some logs before and after a pass, side by side.

A row is read in full (content hash) only from files that a pass removed or added; files that both sides share
give their keys and offsets once.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING, Any

from hardpack.lake.door import IceTable
from hardpack.log.settings import Settings
from hardpack.spark.narrow import control_type
from hardpack.spark.transactions import decided

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LINEAGE = ("_row_id", "_last_updated_sequence_number")


def evidence(
    table: IceTable,
    settings: Settings,
    shared: Iterable[Any],
    removed: Iterable[Any],
    added: Iterable[Any],
    hold: ExitStack,
    published: bool,
) -> DataFrame:
    """One row per row and side: p, k, o, tombstone, kind, before (0/1), after (0/1), content (hash; null if shared).

    `kind` is data, control, aborted, or truncated (a greater leader epoch has a row at the same offset).

    Args:
        table: the table's door.
        settings: its settings.
        shared: scan tasks of the files that stand on both sides.
        removed: scan tasks of the files of the side before only.
        added: scan tasks of the files of the side after only.
        hold: keeps the staged tasks until the caller has read the frame.
        published: whether the added files are committed; format v3's lineage can be read only then.
    """
    sides = [(list(shared), 1, 1, False), (list(removed), 1, 0, True), (list(added), 0, 1, True)]
    frames = [_side(table, settings, *side, hold, published) for side in sides if side[0]]
    if not frames:
        return table.spark.createDataFrame([], NOTHING)
    rows = reduce(lambda one, other: one.unionByName(other), frames)
    return _with_kind(rows, settings)


NOTHING = "p string, k binary, o long, tombstone boolean, kind string, before int, after int, content long"


def _with_kind(rows: DataFrame, settings: Settings) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if settings.column_leader_epoch:
        newest = F.max("epoch").over(Window.partitionBy("p", "o"))
        truncated = F.when(newest > F.coalesce("epoch", F.lit(-1)), "truncated")
        rows = rows.withColumn("truncated", truncated).drop("epoch")
        kinds = _with_kind(rows, settings.model_copy(update={"column_leader_epoch": None}))
        return kinds.withColumn("kind", F.coalesce("truncated", "kind")).drop("truncated")
    if not settings.transactions:
        return rows.withColumn("kind", F.lit("data"))
    own = [c for c in rows.columns if c not in ("pid", "tx", "control")]
    kind = F.when(F.col("outcome") == "abort", "aborted").otherwise("data")
    return (
        rows.where("control is null and not tx").select(*own, F.lit("data").alias("kind"))
        .unionByName(rows.where("control is not null").select(*own, F.lit("control").alias("kind")))
        .unionByName(decided(rows).select(*own, kind.alias("kind")))
    )  # fmt: skip


def _side(
    table: IceTable,
    settings: Settings,
    tasks: list[Any],
    before: int,
    after: int,
    wide: bool,
    hold: ExitStack,
    lineage: bool,
) -> DataFrame:
    from pyspark.sql import functions as F

    rows = table.read(hold.enter_context(table.staged(tasks)))
    if not lineage:
        rows = rows.drop(*LINEAGE)
    content = content_hash(rows) if wide else F.lit(None).cast("long")
    control = control_type(settings)
    transactional = []
    if settings.column_leader_epoch:
        transactional.append(F.col(settings.column_leader_epoch).cast("long").alias("epoch"))
    if settings.transactions:
        transactional += [
            F.col(settings.column_producer_id or "").cast("long").alias("pid"),
            (F.coalesce(F.col(settings.column_transactional or ""), F.lit(False)) & control.isNull()).alias("tx"),
            control.alias("control"),
        ]
    return rows.select(
        F.col(settings.column_partition).cast("string").alias("p"),
        F.col(settings.column_key).alias("k"),
        F.col(settings.column_offset).cast("long").alias("o"),
        (F.col(settings.column_value).isNull() & control.isNull()).alias("tombstone"),
        F.lit(before).alias("before"),
        F.lit(after).alias("after"),
        content.alias("content"),
        *transactional,
    )


def content_hash(rows: DataFrame) -> Column:
    """Hash of all columns, on format v3 the row's lineage too; xxhash64 passes over nulls, so they are hashed apart."""
    from pyspark.sql import functions as F

    names = sorted(rows.columns)
    kinds = {f.name: f.dataType.simpleString() for f in rows.schema.fields}
    # Spark hashes no maps
    values = [F.to_json(F.struct(n)) if "map<" in kinds[n] else F.col(n) for n in names]
    return F.xxhash64(*values, *(F.col(n).isNull() for n in names))
