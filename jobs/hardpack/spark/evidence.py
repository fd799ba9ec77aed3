"""Evidence for the guarantees: rows of some logs before and after a pass, side by side, all or those of sampled keys.

A row is read in full (content hash) only from files that a pass removed or added; files that both sides share
give their keys and offsets once. Iceberg's own reader reads them, not the one that the pass used.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal

from hardpack.spark.columns import WHOLE_TIMES, column, control_type, key_column, named, role_columns
from hardpack.spark.jvm_table import JvmTable
from hardpack.spark.nearby import runs_here
from hardpack.spark.outcomes import decided
from hardpack.spark.scan_tasks import ScanTasks
from hardpack.table.columns import LogColumns
from hardpack.table.readable import ROW_LINEAGE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

log = logging.getLogger(__name__)
Stands = Literal["before", "after", "both"]
"""Where rows stand: before a pass, after it, or in files that it leaves alone."""


@dataclass(frozen=True)
class Side:
    """Files that stand before a pass, after it, or both."""

    tasks: ScanTasks
    stands: Stands
    wide: bool = False
    """Whether rows are read in full, for their content."""
    values: bool = True
    """Whether to tell tombstones, for which the value is read; if not, no row counts as one. It is the same on all
    sides, as a row is known by it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of one key in `share`, chosen by a seed. Keyless rows and control rows are always in it."""

    share: int
    seed: int
    drawn_from: Sample | None = None
    """The sample whose keys this one chooses from, None for all keys."""

    @property
    def whole_share(self) -> int:
        """One key of how many is in the sample, counted among all keys."""
        return self.share * (self.drawn_from.whole_share if self.drawn_from else 1)

    def holds(self, key: Column, control: Column) -> Column:
        """Returns the condition that a row is in the sample."""
        from pyspark.sql import functions as F

        # as text the seed is no part of the code that Spark generates, which then serves the next sample too
        chosen = F.pmod(F.xxhash64(key, F.lit(str(self.seed))), F.lit(self.share)) == 0
        held = chosen | key.isNull() | control.isNotNull()
        return self.drawn_from.holds(key, control) & held if self.drawn_from else held


def evidence(
    table: JvmTable,
    columns: LogColumns,
    sides: Iterable[Side],
    hold: ExitStack,
    lineage: bool,
    sample: Sample | None = None,
    read_before: DataFrame | None = None,
) -> DataFrame:
    """Returns a row for each row of each side: p, k, o, tombstone, kind, stands, content (hash; null if not read).

    `kind` is data, control, aborted, or truncated (a greater leader epoch has a row at the same offset).

    Args:
        table: the table by Iceberg's JVM API.
        columns: the table's.
        sides: the files of both sides.
        hold: keeps the staged tasks until the caller has read the frame.
        lineage: whether rows are compared by their row lineage too, which format v3 tells of published rows.
        sample: which keys are looked at, None for all.
        read_before: rows that `keys_of` has read, which stand on both sides.
    """
    frames = [_side(table, columns, side, hold, lineage, sample) for side in sides if side.tasks]
    frames += [_as_both_sides(read_before, columns)] if read_before is not None else []
    if not frames:
        return table.spark.createDataFrame([], NOTHING)
    rows = reduce(lambda one, other: one.unionByName(other), frames)
    return _with_kind(rows, columns)


def at_hand(rows: DataFrame, sides: Iterable[Side]) -> DataFrame | pa.Table:
    """Returns evidence of few rows as an Arrow table of this process, so that no worker has to start for it.

    Evidence of many rows, or that the driver cannot collect, is returned as it is.

    Args:
        rows: the evidence.
        sides: the files that the evidence is of.
    """
    # Spark 3.5 has no `toArrow`
    if not hasattr(rows, "toArrow") or not runs_here(size for side in sides for size in side.tasks.sizes()):
        return rows
    try:
        return rows.toArrow()
    except Exception as error:
        # keys may be longer than a driver takes; and if a file cannot be read, reading it in the workers says why
        log.info("the evidence is counted by Spark's workers, as it did not come: %s", type(error).__name__)
        return rows


NOTHING = "p string, k binary, o long, tombstone boolean, kind string, stands string, content long"


def _with_kind(rows: DataFrame, columns: LogColumns) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if columns.leader_epoch:
        newest = F.max("epoch").over(Window.partitionBy("p", "o"))
        truncated = F.when(newest > F.coalesce("epoch", F.lit(-1)), "truncated")
        rows, others = rows.withColumn("kind", truncated).drop("epoch"), replace(columns, leader_epoch=None)
        if not columns.transactions:
            return rows.withColumn("kind", F.coalesce("kind", F.lit("data")))
        # a truncated control row decides about no row
        standing = _with_kind(rows.where("kind is null").drop("kind"), others)
        return standing.unionByName(rows.where("kind is not null").select(*standing.columns))
    if not columns.transactions:
        return rows.withColumn("kind", F.lit("data"))
    own = [c for c in rows.columns if c not in ("pid", "tx", "control")]
    kind = F.when(F.col("outcome") == "abort", "aborted").otherwise("data")
    return (
        rows.where("control is null and not tx").select(*own, F.lit("data").alias("kind"))
        .unionByName(rows.where("control is not null").select(*own, F.lit("control").alias("kind")))
        .unionByName(decided(rows).select(*own, kind.alias("kind")))
    )  # fmt: skip


def keys_of(table: JvmTable, columns: LogColumns, side: Side, hold: ExitStack, sample: Sample | None) -> DataFrame:
    """Reads keys and offsets of files once, where `evidence` is asked for several times.

    Args:
        table: the table by Iceberg's JVM API.
        columns: the table's.
        side: the files.
        hold: keeps the staged tasks until the caller has read the frame.
        sample: which keys are looked at, None for all.

    Returns:
        The rows, each with the path of its `file`.
    """
    from pyspark.sql import functions as F

    rows = table.read(hold.enter_context(table.staged(side.tasks)))
    if sample:
        rows = rows.where(sample.holds(key_column(columns), control_type(columns)))
    roles = role_columns(columns, side.values)
    return rows.select(*named(roles, *_roles(roles), "control"), F.col("_file").alias("file"))


def _as_both_sides(rows: DataFrame, columns: LogColumns) -> DataFrame:
    from pyspark.sql import functions as F

    roles = [*_roles(rows.columns), *(["control"] if columns.transactions else [])]
    return rows.select(*roles, F.lit("both").alias("stands"), F.lit(None).cast("long").alias("content"))


def _roles(available: Collection[str]) -> list[str]:
    """Returns the roles that the gate asks of a row, as far as they are available."""
    return ["p", "k", "o", "tombstone", *(role for role in ("epoch", "pid", "tx") if role in available)]


def _side(
    table: JvmTable, columns: LogColumns, side: Side, hold: ExitStack, lineage: bool, sample: Sample | None
) -> DataFrame:
    from pyspark.sql import functions as F

    rows = table.read(hold.enter_context(table.staged(side.tasks)))
    if not lineage:
        rows = rows.drop(*ROW_LINEAGE)
    if sample:
        rows = rows.where(sample.holds(key_column(columns), control_type(columns)))
    content = content_hash(rows) if side.wide else F.lit(None).cast("long")
    roles = role_columns(columns, side.values)
    return rows.select(
        *named(roles, *_roles(roles), *(["control"] if columns.transactions else [])),
        # a text is no part of the code that Spark generates, compiles and warms up, so all sides share it
        F.lit(side.stands).alias("stands"),
        content.alias("content"),
    )


def content_hash(rows: DataFrame) -> Column:
    """Returns a hash of all columns of a frame, of row lineage too where the frame has it.

    Whether a value is null is hashed beside the value, as xxhash64 passes over nulls.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import NullType

    # a column of Iceberg's type unknown holds nothing, and Iceberg's reader does not read it
    kinds = {f.name: f.dataType for f in rows.schema.fields if not isinstance(f.dataType, NullType)}
    return F.xxhash64(*(part for name in sorted(kinds) for part in _hashed(column(name), kinds[name])))


def _hashed(value: Column, kind: DataType) -> list[Column]:
    """Returns the columns to hash for a value; for a struct these are its fields, which cost far less than its text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    # Spark cannot tell fields from each other whose names differ in case alone
    if isinstance(kind, StructType) and len({name.lower() for name in kind.names}) == len(kind.names):
        fields = [f for f in kind.fields if not isinstance(f.dataType, NullType)]
        return [value.isNull(), *(part for f in fields for part in _hashed(value[f.name], f.dataType))]
    # Spark's hash takes no maps, and does not tell a null list inside another list from an empty one
    if isinstance(kind, ArrayType | MapType | StructType) or kind.typeName() == "variant":
        return [F.to_json(F.struct(_without_maps(value, kind)), WHOLE_TIMES), value.isNull()]
    return [value, value.isNull()]


def _without_maps(value: Column, kind: DataType) -> Column:
    """Returns a value with lists of key and value in the place of maps.

    In Spark's JSON of a map, a binary key is its address in memory.
    """
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
