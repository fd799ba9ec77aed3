"""Asks how far the readers that a policy names are, and records it, so that nobody has to do it by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hardpack.compaction.session import TableSession
from hardpack.failures import as_hardpack_error, of_table
from hardpack.operations.readers import Positions, group_offsets, logs_of, may_be_of, set_reader
from hardpack.operations.stream_checkpoint import checkpoint_positions
from hardpack.rules.model import LogView
from hardpack.rules.reader_source import ReaderSource
from hardpack.rules.times import LONG_MAX
from hardpack.table.readers import property_of, read_positions
from hardpack.table.redaction import redacted

UNASKED = "the policy, before it was asked"
"""Source that is recorded with a reader's first position, before its own source was asked."""
NO_SUCH = "the policy, as its source knows no such partition"
"""Source that is recorded with a reader's position behind all offsets, which no tombstone waits for."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The result of asking how far one reader is."""

    table: str
    reader: str
    said: str
    """The result in one sentence."""
    exit_code: int = 0
    """0 where the position is recorded as the source tells it, or nothing waits for the reader."""


def follow_readers(
    open_session: Callable[[str], TableSession], sources: Sequence[ReaderSource], now: int
) -> Iterator[Followed]:
    """Records how far each reader is; a source that cannot be asked does not hold up the other readers.

    A source is asked only where its answer counts: while tombstones or markers of the table wait, or where the reader
    has no position in one of its logs. So a table at rest is not written to. Before any source is asked, each reader
    without a position is recorded at 0, so that tombstones wait for it.

    Args:
        open_session: opens a table by its name.
        sources: the readers, each with the source of its positions.
        now: ms since the epoch.
    """
    failed = dict[int, Exception]()
    for at, source in enumerate(sources):
        try:
            _begin(open_session(source.table), source, now)
        except Exception as error:  # the second loop reports any failure, in the reader's turn
            failed[at] = error
    for at, source in enumerate(sources):
        try:
            if at in failed:
                raise failed[at]
            yield Followed(source.table, source.name, _follow(open_session(source.table), source, now))
        except Exception as error:  # any failure becomes a sentence that names the reader
            said = f"{of_table(source.table, error)} Reader {source.name} could not be asked."
            yield Followed(source.table, source.name, redacted(said), as_hardpack_error(error).exit_code)


def _ignored(session: TableSession) -> bool:
    return session.checked_settings().horizon_readers == "ignore"


def _begin(session: TableSession, source: ReaderSource, now: int) -> None:
    """Records a reader at 0 in each log that its source may tell of and in which it has no position yet."""
    if _ignored(session):
        return
    logs = [view.name for view in logs_of(session)]
    new = [log for log in logs if property_of(session.name, source.name, log) not in session.table.properties]
    # a consumer group's topic tells nothing of logs that hold other topics
    if own_logs := [log for log in new if not source.topic or may_be_of(session, source.topic, log)]:
        set_reader(session, source.name, Positions(UNASKED, dict.fromkeys(own_logs, 0)), now)


def _follow(session: TableSession, source: ReaderSource, now: int) -> str:
    if _ignored(session):
        return (
            f"{source.table}: nothing waits for reader {source.name}, as horizon.readers is ignore; set it to wait in "
            "the policy or the table"
        )
    recorded = {of.log: position for of, position in read_positions(session.name, session.table.properties)
             if of.reader == source.name}  # fmt: skip
    unasked = {log for log, position in recorded.items() if position.source == UNASKED}
    waiting = {view.name for view in logs_of(session) if _holds_deletes(view)}
    if not unasked and not waiting:
        return f"{source.table}: no tombstone waits for reader {source.name}"
    positions = positions_of(session, source)
    if lost := unasked - positions.offsets.keys():
        # the reader's topic has fewer partitions than the table, so the reader reads nothing of these logs
        set_reader(session, source.name, Positions(NO_SUCH, dict.fromkeys(lost, LONG_MAX)), now)
    counts = unasked | waiting | (positions.offsets.keys() - recorded.keys())
    positions = Positions(positions.source, {log: offset for log, offset in positions.offsets.items() if log in counts})
    back = set_reader(session, source.name, positions, now)
    sentence = f"{source.table}: reader {source.name} goes on at {positions}"
    return (
        f"{sentence}; it went back in {', '.join(back)}, so deletes that it has not seen may be gone"
        if back
        else sentence
    )


def _holds_deletes(view: LogView) -> bool:
    return bool(view.state.horizons or view.state.markers)


def positions_of(session: TableSession, source: ReaderSource) -> Positions:
    """Returns the positions of a reader, as its source tells them.

    Args:
        session: the table's.
        source: a consumer group or a checkpoint.

    Raises:
        BadInput: there is no such group, topic or checkpoint, or it is not of this table.
        Unavailable: the broker or the storage does not answer.
    """
    if source.group:
        return group_offsets(session, source.group, source.command_config)
    return checkpoint_positions(session, source.checkpoint)
