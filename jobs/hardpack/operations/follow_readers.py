"""Asking the readers that a policy names how far they are, so that nobody has to put it down by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hardpack.compaction.session import TableSession
from hardpack.failures import of_table, sentence
from hardpack.operations.readers import Positions, group_offsets, logs_of, set_reader
from hardpack.operations.stream_checkpoint import checkpoint_positions
from hardpack.rules.reader_source import ReaderSource
from hardpack.table.readers import property_of
from hardpack.table.redaction import redacted


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of one reader."""

    table: str
    reader: str
    said: str
    """In words, one sentence."""
    exit_code: int = 0
    """0 where its position is as its source tells, or nothing waits for it."""


def follow_readers(
    open_session: Callable[[str], TableSession], sources: Sequence[ReaderSource], now: int
) -> Iterator[Followed]:
    """Puts down how far each reader is; one that cannot be asked holds up no other.

    A source is asked only where its answer counts: while tombstones or markers of the table wait, or where the reader
    has no position in one of its logs. So a table at rest is not written to. Where a reader has none and cannot be
    asked, it is put down at 0, so that no delete goes before it.

    Args:
        open_session: opens a table by its name.
        sources: the readers, and who tells of each.
        now: ms since the epoch.
    """
    for source in sources:
        try:
            yield Followed(source.table, source.name, _follow(open_session(source.table), source, now))
        except Exception as error:  # whatever it is, its sentence says which reader waits in vain
            said = f"{of_table(source.table, error)} Reader {source.name} could not be asked."
            yield Followed(source.table, source.name, redacted(said), sentence(error).exit_code)


def _follow(session: TableSession, source: ReaderSource, now: int) -> str:
    if session.checked_settings().horizon_readers == "ignore":
        return (
            f"{source.table}: nothing waits for reader {source.name}, as horizon.readers is ignore; set it to wait in "
            "the policy or the table"
        )
    logs = {str(view.partition): view for view in logs_of(session)}
    new = [log for log in logs if property_of(session.name, source.name, log) not in session.table.properties]
    waiting = [log for log, view in logs.items() if view.state.horizons or view.state.markers]
    if not new and not waiting:
        return f"{source.table}: no tombstone waits for reader {source.name}"
    try:
        found = told_by(session, source)
    except Exception:
        if new:
            set_reader(session, source.name, Positions("the policy, before it was asked", dict.fromkeys(new, 0)), now)
        raise
    found = Positions(found.source, {log: found.offsets[log] for log in found.offsets if log in {*new, *waiting}})
    back = set_reader(session, source.name, found, now)
    told = f"{source.table}: reader {source.name} goes on at {found}"
    return f"{told}; it went back in {', '.join(back)}, so deletes that it has not seen may be gone" if back else told


def told_by(session: TableSession, source: ReaderSource) -> Positions:
    """Returns what a reader's source tells.

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
