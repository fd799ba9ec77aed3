"""Late tombstones, at offsets to whose tombstones earlier passes gave delete horizons (invariant 5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from hardpack.errors import BadInput
from hardpack.rules.horizons import Range
from hardpack.rules.model import LogView
from hardpack.rules.settings import Settings
from hardpack.spark.log_rows import log_rows
from hardpack.table.columns import columns_at
from hardpack.table.log_views import late_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_LATE = 1000
"""Late tombstones of a log that are told one by one. If there are more, their files' ranges count: some wait longer."""


def late_tombstones(
    spark: SparkSession, name: str, table: Table, settings: Settings, view: LogView, read: Callable[[], DataFrame]
) -> list[Range]:
    """Finds the offsets of late tombstones of one log.

    Args:
        spark: the session.
        name: `catalog.namespace.table`.
        table: the table by pyiceberg.
        settings: the log's.
        view: the log.
        read: makes the frame of the rows that the pass may copy; called only where there may be some.
    """
    late = late_files(table, settings, view)
    if not late:
        return []
    rows, end = read(), view.state.horizons[-1][0]
    tombstones = rows.where(rows["tombstone"] & rows["file"].isin([f.path for f in late]) & (rows["o"] <= end))
    tombstones = tombstones.select("o", "k")
    seen_to = view.state.seen.read if view.state.seen else 0
    for left in (s.snapshot_id for s in table.snapshots() if seen_to and s.sequence_number == seen_to):
        # other writers may have copied tombstones that the last pass saw into these files
        with suppress(BadInput):
            earlier = log_rows(spark, name, left, columns_at(table, settings, left), [view.partition])
            tombstones = tombstones.join(earlier.where("tombstone").select("o", "k"), ["o", "k"], "left_anti")
    offsets = sorted({row["o"] for row in tombstones.limit(MOST_LATE + 1).collect()})
    if len(offsets) > MOST_LATE:
        return sorted((f.min_offset, f.max_offset) for f in late)
    return [(offset, offset) for offset in offsets]
