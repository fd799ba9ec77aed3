"""Explains why the rows of a key are still there, by the rules that the next pass applies to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table
from pyiceberg.types import UUIDType

from hardpack.compaction.phase_one import with_last_stable
from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.report import KeyReport, KeyRow
from hardpack.compaction.session import TableSession
from hardpack.compaction.work import LogToClean
from hardpack.errors import BadInput
from hardpack.rules.model import Partition
from hardpack.rules.row_verdicts import ExplainedRow, row_verdicts
from hardpack.spark.causes.duplicates import repeated_rows, truncated_rows
from hardpack.spark.columns import key_as_json
from hardpack.spark.log_rows import LogRows, log_rows
from hardpack.spark.outcomes import decided
from hardpack.table.columns import LogColumns, columns_at
from hardpack.table.given_key import given_values
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SPARK_TYPES = {"timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
"""Spark's names for the types that have another name in Iceberg."""

ROWS = 1000
"""Most rows of a key that are shown, the newest first."""


def explain(session: TableSession, key: bytes, now: int, partitions: Sequence[Partition] | None = None) -> KeyReport:
    """Finds a key's rows in the current snapshot and says what the next pass does to each.

    It reads the keys of the logs, and other columns only of rows that have the key.

    Args:
        session: the table's.
        key: as the key column has it; UTF-8 where that column holds text; JSON by column names where the key is several
            columns or of another type.
        now: ms since the epoch.
        partitions: the logs to look at, None for all.

    Raises:
        BadInput: a wrong table or setting, an unknown partition, or a key that does not fit the key's columns.
    """
    from pyspark.sql import functions as F

    settings, table = session.checked_settings(), session.table
    all_logs = wanted_logs(table, settings, partitions)
    if all_logs.mixed:
        raise BadInput(
            f"{session.name}: {len(all_logs.mixed)} files may hold rows of several logs, and the key; "
            f"`hardpack split {session.name}` takes them apart."
        )
    views = all_logs.views
    report = KeyReport(table=session.name, snapshot=session.base, now=now)
    if not views or report.snapshot is None:
        return report
    base, columns, jvm = report.snapshot, columns_at(table, settings, report.snapshot), session.jvm
    logs = with_last_stable(session, settings, base, [LogToClean(view, settings, now) for view in views])
    scan = log_rows(jvm.spark, jvm.name, base, columns, [view.partition for view in views])
    o, control = F.col("o"), F.col("control")
    is_key = _has_key(table, columns, key) & control.isNull()
    newest = [row["o"] for row in scan.where(is_key).select(o).orderBy(o.desc()).limit(ROWS + 1).collect()]
    if not newest:
        return report
    offsets = newest[:ROWS]
    # other columns are read only at the offsets where the key was found
    at_offsets = o.isin(offsets)
    aborted, repeated = set[Place](), set[Place]()
    repeating = [view.partition for view in views if view.may_repeat]
    if columns.transactions:
        cuts = columns.leader_epoch and repeating
        cut_off = truncated_rows(jvm.spark, jvm.name, base, columns, repeating) if cuts else None
        standing = LogRows(lambda: scan, cut_off).deduplicated
        deciding = standing.where((o >= offsets[-1]) & (is_key | control.isNotNull()))
        aborted = _places(decided(deciding).where("outcome = 'abort'"))
    if repeating:
        repeated = _places(repeated_rows(jvm.spark, jvm.name, base, columns, repeating).where(at_offsets))
    rows: dict[str, list[tuple[str, ExplainedRow]]] = {log.name: [] for log in logs}
    for row in scan.where(is_key & at_offsets).orderBy("o", "file", "pos", ascending=False).collect():
        place = row["file"], row["pos"]
        rows[row["p"]].append(
            (row["file"], ExplainedRow(row["o"], row["tombstone"], place in aborted, place in repeated))
        )
    key_rows = tuple(entry for log in logs for entry in _key_rows(log, rows[log.name]))
    return report.model_copy(update={"rows": key_rows, "more": len(newest) > ROWS})


Place = tuple[str, int]
"""A row's data file and its position in that file."""


def _key_rows(log: LogToClean, rows: Sequence[tuple[str, ExplainedRow]]) -> list[KeyRow]:
    return [
        KeyRow(
            partition=log.view.partition,
            offset=row.offset,
            tombstone=row.tombstone,
            file=file,
            becomes=fate.becomes,
            reason=fate.reason,
            not_before=fate.not_before,
        )
        for (file, row), fate in zip(
            rows, row_verdicts([row for _, row in rows], log.view, log.settings, log.now), strict=True
        )
    ]


def _places(rows: DataFrame) -> set[Place]:
    return {(row["file"], row["pos"]) for row in rows.select("file", "pos").collect()}


def _has_key(table: Table, columns: LogColumns, key: bytes) -> Column:
    """Returns a Spark condition that is true for the rows of a key.

    Raises:
        BadInput: the key does not fit the columns.
    """
    from pyspark.sql import functions as F

    values = given_values(table, columns, key)
    if columns.plain_key is not None:
        return F.col("k") == values[columns.plain_key]
    return F.col("k") == key_as_json([_literal(column, value) for column, value in values.items()])


def _literal(column: LogColumn, value: Any) -> Column:
    from pyspark.sql import functions as F

    kind = column.field_type
    # Spark has a UUID as text
    spark_type = "string" if isinstance(kind, UUIDType) else SPARK_TYPES.get(str(kind), str(kind))
    return F.lit(value) if isinstance(value, bytes) else F.lit(value).cast(spark_type)
