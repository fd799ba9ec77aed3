"""Tells how each log of a table stands, from metadata alone."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from hardpack.compaction.session import TableSession
from hardpack.rules.horizons import UNDATED
from hardpack.rules.model import DataFile, LogView, Partition
from hardpack.rules.selection import checkpoint_of, decide
from hardpack.rules.settings import Settings
from hardpack.rules.times import is_time
from hardpack.table.log_views import table_logs

MIXED = "several"
"""Stands in place of a log's name for mixed files, which have to be split."""


class LogStatus(BaseModel):
    """One log at one time. Sizes are bytes, times ms. The offsets are the bounds that a pass would have now."""

    model_config = ConfigDict(frozen=True)

    table: str
    partition: Partition
    rows: int
    bytes: int
    files: int
    ratio: float
    due: bool
    reason: str
    checkpoint: int | None
    first_dirty: int
    first_uncleanable: int
    log_end: int
    overdue_ms: int
    dirty_age_ms: int | None
    """Age of the oldest row that no pass has covered; 0 without such rows, None where a file of them has no time."""
    tombstones_waiting: int | None
    """None when the table's metadata does not count them."""
    next_horizon: int | None
    """When the next tombstone or marker may go; None where none waits, or none has its time yet."""
    uncleanable: bool = False
    """Whether a failed pass marked the log, which is left alone until it is resumed."""
    held: bool = False
    """Whether no pass will clean the log before somebody does something about it. A pause alone does not count: a
    paused log is held only when it is also marked or in trouble."""


def table_status(session: TableSession, now: int) -> list[LogStatus]:
    """Returns how every log of an adopted table stands; all mixed files together are one entry more.

    Args:
        session: the table's.
        now: ms since the epoch.

    Raises:
        BadInput: the table or a setting is wrong.
    """
    settings = session.checked_settings()
    logs = table_logs(session.table, settings, memory=session.memory)
    mixed = [_mixed_status(session.name, logs.mixed, now)] if logs.mixed else []
    return [*(_log_status(session.name, view, settings, now) for view in logs.views), *mixed]


def _mixed_status(table: str, files: Sequence[DataFile], now: int) -> LogStatus:
    times = [f.min_timestamp for f in files]
    return LogStatus(
        table=table,
        partition=MIXED,
        rows=sum(f.rows for f in files),
        bytes=sum(f.bytes for f in files),
        files=len(files),
        ratio=1.0,
        due=True,
        reason="files that may hold rows of several logs, which the next pass splits",
        checkpoint=None,
        first_dirty=0,
        first_uncleanable=0,
        log_end=0,
        overdue_ms=0,
        dirty_age_ms=_age(times, now),
        tombstones_waiting=None,
        next_horizon=None,
    )


def _log_status(table: str, view: LogView, settings: Settings, now: int) -> LogStatus:
    decision = decide(view, settings, now)
    dirty = [f.min_timestamp for f in view.files if f.max_offset >= decision.first_dirty]
    waiting = view.state.horizons if view.tombstones_waiting != 0 else ()
    horizons = [ms for ms in (*(ms for _, ms in waiting), *(ms for ms, _ in view.state.markers)) if ms != UNDATED]
    return LogStatus(
        table=table,
        partition=view.partition,
        rows=view.rows,
        bytes=view.bytes,
        files=len(view.files),
        ratio=decision.ratio,
        due=decision.due,
        reason=decision.reason,
        checkpoint=checkpoint_of(view),
        first_dirty=decision.first_dirty,
        first_uncleanable=decision.first_uncleanable,
        log_end=view.log_end,
        overdue_ms=decision.overdue_ms,
        dirty_age_ms=_age(dirty, now),
        tombstones_waiting=view.tombstones_waiting,
        next_horizon=min(horizons, default=None),
        uncleanable=bool(view.state.uncleanable),
        held=decision.held,
    )


def _age(times: Sequence[int | None], now: int) -> int | None:
    """Returns the age, ms, of the oldest of several times; 0 without any, None where one of them is no time."""
    known = [time for time in times if is_time(time)]
    return max(0, now - min(known, default=now)) if len(known) == len(times) else None
