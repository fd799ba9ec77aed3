"""The dead rows of a pass: which rows are dead, by cause, as positions in the data files that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyroaring import BitMap

from hardpack.compaction.inputs import Inputs
from hardpack.compaction.session import TableSession
from hardpack.compaction.work import LogFacts, LogToClean, LogToExpire, PassWork
from hardpack.errors import UncleanableLog
from hardpack.files.key_reader import KeyColumns, KeyScanFile, key_filters
from hardpack.rules.causes import ABORTED, DUPLICATE, EXPIRED_MARKER, EXPIRED_TOMBSTONE, NULL_KEY, SUPERSEDED, Cause
from hardpack.spark.causes.dead_positions import (
    FileDeadRows,
    aborted_rows,
    collect,
    duplicates,
    expired_markers,
    expired_tombstones,
    union,
)
from hardpack.spark.causes.late_tombstones import late_tombstones
from hardpack.spark.causes.superseded import find_superseded
from hardpack.spark.causes.transactions import Markers, find_markers, refuse_missing_markers
from hardpack.spark.log_rows import Bounds, LogRows, below, with_bounds
from hardpack.table.log_views import may_lack_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class DeadRows:
    """The dead rows of a pass, and what else the rows of its logs tell."""

    files: Mapping[str, FileDeadRows]
    """Dead rows by path, of the files with a row that has to leave the log or the storage."""
    facts: Mapping[str, LogFacts]
    """What else the rows of each log tell, by log."""


def find_dead_rows(session: TableSession, inputs: Inputs) -> DeadRows:
    """Finds the rows that leave by the causes of the pass.

    Args:
        session: the table's.
        inputs: what the pass works on.

    Raises:
        UncleanableLog: keyless rows where they are refused, or a transaction whose outcome nobody can tell.
    """
    work = inputs.work
    if work.rows is None:
        return DeadRows({}, {})
    facts = _facts(session, work, work.rows)
    frames = [BY_SQL[cause](work, work.rows) for cause in work.causes if cause in BY_SQL]
    files = collect(union(frames)) if frames else {}
    if SUPERSEDED in work.causes:
        _add_superseded(session, inputs, files)
        _refuse_keyless(work, files)
    for path, rows in files.items():
        rows.deleted_before = inputs.deleted.get(path, rows.deleted_before)
    facts |= {log.name: LogFacts(expired_to=expired_to(files.values(), log.name)) for log in _to_expire(work)}
    return DeadRows({p: rows for p, rows in files.items() if rows.positions or rows.key_deleted}, facts)


def expired_to(files: Iterable[FileDeadRows], log: str) -> int:
    """Returns the greatest offset of a tombstone of a log that leaves because its horizon has passed; -1 without one.

    Args:
        files: dead rows of files, which may be of any log.
        log: the text of its partition.
    """
    return max((rows.expired_to for rows in files if rows.partition == log), default=-1)


def _to_clean(work: PassWork) -> list[LogToClean]:
    return [log for log in work.logs if isinstance(log, LogToClean)]


def _to_expire(work: PassWork) -> list[LogToExpire]:
    return [log for log in work.logs if isinstance(log, LogToExpire)]


def _facts(session: TableSession, work: PassWork, rows: LogRows) -> dict[str, LogFacts]:
    """Returns what the rows of logs in phase one tell, apart from which of them are dead."""
    logs = _to_clean(work)
    if not logs:
        return {}
    copied, markers = cache(lambda: rows.copied([log.bounds for log in logs])), Markers()
    if rows.transactions:
        _refuse_missing_markers(session, logs, rows.deduplicated)
        held = {log.name: log.view.state.last_batch for log in logs if log.view.state.last_batch}
        markers = find_markers(copied(), held)
    spark, name = session.jvm.spark, session.jvm.name
    return {
        log.name: LogFacts(
            markers.emptied.get(log.name, ()),
            markers.held.get(log.name),
            late_tombstones(spark, name, session.table, log.settings, log.view, copied),
        )
        for log in logs
    }


def _refuse_missing_markers(session: TableSession, logs: Sequence[LogToClean], rows: DataFrame) -> None:
    """Checks that no control row is missing which decides about rows that no pass has copied yet.

    Raises:
        UncleanableLog: such a control row may have been deleted.
    """
    if lacking := may_lack_rows(session.table, (log.view for log in logs)):
        firsts = {log.name: log.reach.first_dirty for log in logs}
        starts = [Bounds(v.partition, max(firsts[v.name], v.state.checkpoint or 0), 0, 0, 0) for v in lacking]
        refuse_missing_markers(session.name, with_bounds(rows, starts).where("o >= first_dirty"))


def _aborted(work: PassWork, rows: LogRows) -> DataFrame:
    return aborted_rows(rows.copied([log.bounds for log in _to_clean(work)]))


def _duplicates(work: PassWork, rows: LogRows) -> DataFrame:
    if rows.repeated is None:
        raise ValueError("duplicates are a cause only where offsets may repeat")
    return duplicates(with_bounds(rows.repeated, [log.bounds for log in _to_clean(work)]))


def _expired_tombstones(work: PassWork, rows: LogRows) -> DataFrame:
    logs = _to_expire(work)
    return expired_tombstones(with_bounds(below(rows.all, max(log.end for log in logs)), [log.bounds for log in logs]))


def _expired_markers(work: PassWork, rows: LogRows) -> DataFrame:
    return expired_markers(rows.all, {log.name: log.markers for log in _to_expire(work)})


BY_SQL: Mapping[Cause, Callable[[PassWork, LogRows], DataFrame]] = {
    ABORTED: _aborted,
    DUPLICATE: _duplicates,
    EXPIRED_TOMBSTONE: _expired_tombstones,
    EXPIRED_MARKER: _expired_markers,
}
"""Causes whose rows Spark's SQL finds, each with the function that makes the frame of these rows."""


def _add_superseded(session: TableSession, inputs: Inputs, files: dict[str, FileDeadRows]) -> None:
    """Adds superseded and keyless rows, which the key scan finds, to the dead rows in `files`."""
    work, columns = inputs.work, inputs.work.columns
    read = KeyColumns(columns, work.request.plan.encode())
    scanned = _files_to_scan(inputs, files)
    log_of = {one.file.path: one.log for one in scanned}
    filters = key_filters(inputs.files, columns, work.settings.key_filter_min_rows, makes=not work.dry_run)
    for path, result in find_superseded(session.jvm.spark, inputs.files, scanned, read, filters).items():
        rows, deleted = files.setdefault(path, FileDeadRows(log_of[path])), inputs.deleted.get(path, BitMap())
        rows.add(SUPERSEDED, result.superseded - deleted)
        rows.add(NULL_KEY, result.keyless - deleted)
        rows.key_deleted = bool(result.key_deleted)


def _files_to_scan(inputs: Inputs, dead: Mapping[str, FileDeadRows]) -> list[KeyScanFile]:
    """Returns the files for the key scan: those with rows that the offset map covers or that it may supersede.

    Rows that are dead already are skipped.

    Deleted rows may stay in the storage. The scan then tells tombstones from other rows, and, where the head may hold
    one, reads deleted rows too: a key that is deleted now has to leave the files where it is only hidden (invariant 5).
    Deleted rows of the tail are read with its other rows. Those of the head are read apart, as a deleted row is never
    the last of its key.
    """
    scanned: list[KeyScanFile] = []
    merge_on_read, deleted = inputs.files.merge_on_read, inputs.deleted
    for log in _to_clean(inputs.work):
        reach = log.reach
        near = [f for f in log.view.files if f.min_offset < reach.map_end]
        tail = {f.path for f in near if f.max_offset < reach.first_dirty}
        stays = merge_on_read or bool(deleted)
        telling = {f.path for f in near if f.path not in tail and f.tombstones != 0} if stays else set[str]()
        for file in near:
            skipped = dead[file.path].positions if file.path in dead else BitMap()
            hidden = deleted.get(file.path, BitMap())
            if not (telling and file.path in tail):
                skipped = skipped | hidden
            scan = KeyScanFile(
                number=len(scanned),
                file=inputs.data_files[file.path],
                log=log.name,
                first_dirty=reach.first_dirty,
                map_end=reach.map_end,
                tail=file.path in tail,
                skipped=skipped.serialize() if skipped else b"",
                tombstones=file.path in telling,
            )
            scanned.append(scan)
            if hidden and telling and not scan.tail:
                scanned.append(scan.of_hidden(hidden, len(scanned)))
    return scanned


def _refuse_keyless(work: PassWork, files: Mapping[str, FileDeadRows]) -> None:
    strict = {log.name for log in work.logs if log.settings.null_keys == "refuse"}
    keyless = [rows for rows in files.values() if rows.partition in strict and NULL_KEY in rows.causes]
    if keyless:
        count, partitions = sum(r.causes[NULL_KEY] for r in keyless), tuple(sorted({r.partition for r in keyless}))
        raise UncleanableLog(
            f"{work.name}: {count:,} rows without a key in partition {', '.join(partitions)}, a compacted topic has "
            f"none; `hardpack adopt {work.name} --set null.keys=drop` drops them as Kafka's cleaner would.",
            partitions,
            f"{count:,} rows without a key where null.keys=refuse",
        )
