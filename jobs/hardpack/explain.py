"""Why the rows of a key are still there: the rules of the next pass, told of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.types import StringType

from hardpack.errors import BadInput
from hardpack.heads import Head, with_last_stable
from hardpack.lake.door import IceTable
from hardpack.lake.layout import check_layout, columns_at, settings_of, table_name
from hardpack.log.fate import KeyedRow, fates
from hardpack.log.model import Partition
from hardpack.log.settings import NONE, Settings
from hardpack.plan import chosen
from hardpack.report import KeyReport, KeyRow
from hardpack.spark.duplicates import may_repeat, repeated_rows
from hardpack.spark.narrow import narrow_scan
from hardpack.spark.transactions import decided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 1000
"""Most rows of a key that are shown, the newest first."""


def explain(
    door: IceTable,
    table: Table,
    key: bytes,
    now: int,
    partitions: Sequence[Partition] | None = None,
    policy: Mapping[str, str] = NONE,
) -> KeyReport:
    """Find a key's rows in the current snapshot and say what the next pass does to each.

    Reads the keys of the logs; the rest only where the key stands.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        key: as the key column has it; UTF-8 where that holds text.
        now: ms since the epoch.
        partitions: the logs to look at, None for all.
        policy: settings of the table's policy.

    Raises:
        BadInput: a wrong table or setting, an unknown partition, or the key is no text where the column holds text.
    """
    from pyspark.sql import functions as F

    settings = settings_of(table, policy)
    check_layout(table, settings)
    views, snapshot = chosen(table, settings, partitions), table.current_snapshot()
    report = KeyReport(table=table_name(table), snapshot=snapshot.snapshot_id if snapshot else None, now=now)
    if not views or report.snapshot is None:
        return report
    base, columns = report.snapshot, columns_at(table, settings, report.snapshot)
    heads = with_last_stable(door, table, [Head(view, settings, now) for view in views], base)
    scan = narrow_scan(door.spark, door.name, base, columns, [view.partition for view in views])
    o, control = F.col("o"), F.col("control")
    is_key = (F.col("k") == _as_stored(table, settings, key)) & control.isNull()
    newest = [row["o"] for row in scan.where(is_key).select(o).orderBy(o.desc()).limit(ROWS + 1).collect()]
    if not newest:
        return report
    offsets = newest[:ROWS]
    # what else a row has is read where the key was found
    here = o.isin(offsets)
    aborted, repeated = set[Place](), set[Place]()
    if columns.transactions:
        deciding = scan.where((o >= offsets[-1]) & (is_key | control.isNotNull()))
        aborted = _places(decided(deciding).where("outcome = 'abort'"))
    if repeating := [view.partition for view in views if may_repeat(view)]:
        repeated = _places(repeated_rows(door.spark, door.name, base, columns, repeating).where(here))
    rows: dict[str, list[tuple[str, KeyedRow]]] = {head.name: [] for head in heads}
    for row in scan.where(is_key & here).orderBy("o", "file", "pos", ascending=False).collect():
        place = row["file"], row["pos"]
        rows[row["p"]].append((row["file"], KeyedRow(row["o"], row["tombstone"], place in aborted, place in repeated)))
    told = tuple(entry for head in heads for entry in _told(head, rows[head.name]))
    return report.model_copy(update={"rows": told, "more": len(newest) > ROWS})


Place = tuple[str, int]
"""File and position."""


def _told(head: Head, rows: Sequence[tuple[str, KeyedRow]]) -> list[KeyRow]:
    return [
        KeyRow(
            partition=head.view.partition,
            offset=row.offset,
            tombstone=row.tombstone,
            file=file,
            becomes=fate.becomes,
            reason=fate.reason,
            not_before=fate.not_before,
        )
        for (file, row), fate in zip(
            rows, fates([row for _, row in rows], head.view, head.settings, head.now), strict=True
        )
    ]


def _places(rows: DataFrame) -> set[Place]:
    return {(row["file"], row["pos"]) for row in rows.select("file", "pos").collect()}


def _as_stored(table: Table, settings: Settings, key: bytes) -> str | bytes:
    if not isinstance(table.schema().find_field(settings.column_key).field_type, StringType):
        return key
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise BadInput(
            f"{table_name(table)}: the key asked for is no UTF-8, but column {settings.column_key!r} holds text; "
            "give it as text."
        ) from None
