"""Evidence for the guarantees: the rows of some logs before and after a pass, side by side, all or those of some keys.

A row is read in full (content hash) only from files that a pass removed or added; files that both sides share
give their keys and offsets once. Iceberg's own reader reads them, not the one that the pass used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from hardpack.lake.door import IceTable
from hardpack.log.settings import Settings
from hardpack.spark.columns import column, key_column
from hardpack.spark.narrow import control_type
from hardpack.spark.transactions import decided

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

WHOLE_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's JSON writer, which else ends a time at its milliseconds."""
LINEAGE = ("_row_id", "_last_updated_sequence_number")
Stands = Literal["before", "after", "both"]
"""Where rows stand: before a pass, after it, or in files that it leaves alone."""


@dataclass(frozen=True)
class Side:
    """Files that stand before a pass, after it, or both."""

    tasks: Sequence[Any]
    """Scan tasks."""
    stands: Stands
    wide: bool = False
    """Whether rows are read in full, for their content."""
    values: bool = True
    """Whether tombstones are told, for which the value is read; else no row counts as one. The same on all sides: a row
    is known by it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One key of so many, which ones by a seed; rows without a key and control rows are always among them."""

    share: int
    seed: int

    def holds(self, key: Column, control: Column) -> Column:
        """Whether a row is looked at."""
        from pyspark.sql import functions as F

        # as text the seed is no part of the code that Spark generates, which then serves the next sample too
        chosen = F.pmod(F.xxhash64(key, F.lit(str(self.seed))), F.lit(self.share)) == 0
        return chosen | key.isNull() | control.isNotNull()


def evidence(
    table: IceTable,
    settings: Settings,
    sides: Iterable[Side],
    hold: ExitStack,
    published: bool,
    sample: Sample | None = None,
) -> DataFrame:
    """One row per row and side: p, k, o, tombstone, kind, stands, content (hash; null if not read).

    `kind` is data, control, aborted, or truncated (a greater leader epoch has a row at the same offset).

    Args:
        table: the table's door.
        settings: its settings.
        sides: the files of both sides.
        hold: keeps the staged tasks until the caller has read the frame.
        published: whether the files after are committed; format v3's lineage can be read only then.
        sample: which keys are looked at, None for all.
    """
    frames = [_side(table, settings, side, hold, published, sample) for side in sides if side.tasks]
    if not frames:
        return table.spark.createDataFrame([], NOTHING)
    rows = reduce(lambda one, other: one.unionByName(other), frames)
    return _with_kind(rows, settings)


NOTHING = "p string, k binary, o long, tombstone boolean, kind string, stands string, content long"


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
    table: IceTable, settings: Settings, side: Side, hold: ExitStack, lineage: bool, sample: Sample | None
) -> DataFrame:
    from pyspark.sql import functions as F

    rows = table.read(hold.enter_context(table.staged(side.tasks)))
    if not lineage:
        rows = rows.drop(*LINEAGE)
    if sample:
        rows = rows.where(sample.holds(key_column(settings), control_type(settings)))
    content = content_hash(rows) if side.wide else F.lit(None).cast("long")
    control = control_type(settings)
    tombstone = column(settings.column_value).isNull() & control.isNull() if side.values else F.lit(False)
    transactional = []
    if settings.column_leader_epoch:
        transactional.append(column(settings.column_leader_epoch).cast("long").alias("epoch"))
    if settings.transactions:
        transactional += [
            column(settings.column_producer_id).cast("long").alias("pid"),
            (F.coalesce(column(settings.column_transactional), F.lit(False)) & control.isNull()).alias("tx"),
            control.alias("control"),
        ]
    return rows.select(
        column(settings.column_partition).cast("string").alias("p"),
        key_column(settings).alias("k"),
        column(settings.column_offset).cast("long").alias("o"),
        tombstone.alias("tombstone"),
        # a text is no part of the code that Spark generates, compiles and warms up, so all sides share it
        F.lit(side.stands).alias("stands"),
        content.alias("content"),
        *transactional,
    )


def content_hash(rows: DataFrame) -> Column:
    """Hash of all columns, on format v3 the row's lineage too; xxhash64 passes over nulls, so they are hashed apart."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    names = sorted(rows.columns)
    kinds = {f.name: f.dataType for f in rows.schema.fields}
    # Spark's hash has no maps, and does not tell a missing list or struct inside another from an empty one
    values = [
        F.to_json(F.struct(_without_maps(column(n), kinds[n])), WHOLE_TIMES)
        if isinstance(kinds[n], ArrayType | MapType | StructType)
        else column(n)
        for n in names
    ]
    return F.xxhash64(*values, *(column(n).isNull() for n in names))


def _without_maps(value: Column, kind: DataType) -> Column:
    """Lists of key and value in place of maps: as JSON a binary key of a map is its address in memory."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, MapType):
        to, item = kind.keyType, kind.valueType
        return F.transform(
            F.map_entries(value),
            lambda e: F.struct(_without_maps(e["key"], to).alias("k"), _without_maps(e["value"], item).alias("v")),
        )
    if "map<" not in kind.simpleString():
        return value
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda e: _without_maps(e, kind.elementType))
    if isinstance(kind, StructType):
        fields = [_without_maps(value[f.name], f.dataType).alias(f.name) for f in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    return value
