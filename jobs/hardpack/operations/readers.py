"""Records the positions of named readers, which tombstones wait for: by hand, or from a consumer group or stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.operations.alter_properties import alter_properties
from hardpack.operations.broker import SECONDS, admin_client, asked, committed_offsets
from hardpack.rules.horizons import waiting_for_reader
from hardpack.rules.model import LogView, Partition, SlowestReader
from hardpack.rules.selection import why_left_alone
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import LogColumns
from hardpack.table.readers import Position, properties_of, property_of, read_positions


class ReaderStatus(BaseModel):
    """How far a reader is in one log. Offsets, ms."""

    model_config = ConfigDict(frozen=True)

    table: str
    reader: str
    partition: str
    position: int
    """Offset at which the reader goes on."""
    log_end: int | None
    """Offset after the log's last row; None where the table has no such log yet."""
    at: int
    """When the position was recorded."""
    source: str
    waited_for: bool
    """Whether tombstones past their horizon wait for this reader now."""


@dataclass(frozen=True, slots=True)
class Positions:
    """A reader's positions as one source gives them: by log the offset at which the reader goes on."""

    source: str
    """Where the positions come from; empty when they are given by hand."""
    offsets: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{offset} of {log}" for log, offset in self.offsets.items())


def set_reader(session: TableSession, name: str, positions: Positions, now: int) -> list[str]:
    """Records how far a reader has come. Logs that are not named stay as they are.

    Args:
        session: the table's.
        name: the reader's.
        positions: its offsets.
        now: ms since the epoch.

    Returns:
        The logs in which the source went back. Tombstones may be gone there that the reader has not seen.

    Raises:
        BadInput: the table was not adopted, the reader's name or an offset is not legal, or an offset given by hand
            lies before the recorded one.
    """
    table, properties = session.name, session.table.properties
    session.checked_settings()
    back: list[str] = []
    wanted: dict[str, str] = {}
    for log, offset in positions.offsets.items():
        if not 0 <= offset <= LONG_MAX:
            raise BadInput(f"{table}: reader {name} cannot go on at offset {offset}, expected 0 to {LONG_MAX}.")
        key = property_of(table, name, log)
        before = _recorded(properties.get(key))
        if before and offset < before.offset:
            if not positions.source:
                raise BadInput(
                    f"{table}: reader {name} goes on at offset {before.offset} of partition {log} and cannot go back "
                    f"to {offset}; remove it first if it reads anew."
                )
            back.append(log)
        if before is None or (before.offset, before.source) != (offset, positions.source):
            wanted[key] = Position(offset=offset, at=now, source=positions.source).model_dump_json()
    if wanted:
        alter_properties(session, wanted)
    return back


def _recorded(text: str | None) -> Position | None:
    """Returns the recorded position; None where there is none, or it cannot be read and so is recorded anew."""
    try:
        return Position.model_validate_json(text) if text else None
    except ValidationError:
        return None


def remove_reader(session: TableSession, name: str) -> None:
    """Forgets a reader, so that nothing waits for it any more.

    Args:
        session: the table's.
        name: the reader's.

    Raises:
        BadInput: the table has no such reader.
    """
    keys = properties_of(session.table.properties, name)
    if not keys:
        raise BadInput(f"{session.name}: there is no reader {name}; `hardpack reader list {session.name}` shows all.")
    alter_properties(session, {}, keys)


def list_readers(session: TableSession, now: int) -> list[ReaderStatus]:
    """Returns how far each reader is in each log, and whether tombstones wait for it.

    Args:
        session: the table's.
        now: ms since the epoch.

    Raises:
        BadInput: the table or a property of it is wrong.
    """
    settings = session.checked_settings()
    views = {v.name: v for v in wanted_logs(session.table, settings, None, session.memory).views}
    return [
        ReaderStatus(
            table=session.name,
            reader=reader,
            partition=log,
            position=position.offset,
            log_end=views[log].log_end if log in views else None,
            at=position.at,
            source=position.source,
            waited_for=log in views and _waited_for(views[log], settings, reader, position.offset, now),
        )
        for (reader, log), position in read_positions(session.name, session.table.properties)
    ]


def _waited_for(view: LogView, settings: Settings, reader: str, offset: int, now: int) -> bool:
    if settings.horizon_readers == "ignore" or not settings.compacts or why_left_alone(view):
        return False
    alone = SlowestReader(reader, offset, settings.horizon_readers_limit_ms)
    return waiting_for_reader(replace(view, slowest=alone), now)


def logs_of(session: TableSession, partitions: Sequence[Partition] | None = None) -> list[LogView]:
    """Returns a table's logs, even where a recorded position cannot be read, since it may be recorded anew.

    Args:
        session: the table's.
        partitions: the logs, None for all.

    Raises:
        BadInput: the table or a setting is wrong, or there is no such partition.
    """
    settings = session.checked_settings().model_copy(update={"horizon_readers": "ignore"})
    return wanted_logs(session.table, settings, partitions, session.memory).views


def given_offset(session: TableSession, partitions: Sequence[Partition] | None, offset: int) -> Positions:
    """Returns positions at one offset, given by hand, for each of the logs.

    Args:
        session: the table's.
        partitions: the logs, None for all.
        offset: at which the reader goes on.

    Raises:
        BadInput: the table has no log yet, or has no such partition.
    """
    views = logs_of(session, partitions)
    if not views:
        raise BadInput(
            f"{session.name}: the table has no log yet for a reader to be in; set it once rows have come, and files of "
            "several logs were split, as the next pass does."
        )
    return Positions("", {view.name: offset for view in views})


def group_offsets(session: TableSession, place: str, command_config: Path | None = None) -> Positions:
    """Returns how far a consumer group is in a Kafka topic; it is at 0 in a partition without a committed offset.

    Args:
        session: the table's.
        place: `HOST:PORT/GROUP/TOPIC`.
        command_config: see `admin_client`.

    Raises:
        BadInput: the place is not HOST:PORT/GROUP/TOPIC, there is no such topic or group, or the topic is not the
            table's.
        Unavailable: the broker does not answer.
    """
    brokers, _, names = place.partition("/")
    group, _, topic = names.rpartition("/")
    if not (brokers and group and topic):
        raise BadInput(
            f"{place!r} names no group and topic of a broker, expected HOST:PORT/GROUP/TOPIC, as in "
            "kafka:9092/billing/orders."
        )
    admin = admin_client(brokers, command_config)
    from confluent_kafka import TopicCollection

    with asked(place):
        # asking for a topic's metadata by its name would create it on a broker with auto.create.topics.enable
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=SECONDS)[topic].result(SECONDS + 1)
        numbers = [partition.id for partition in described.partitions]
        at = committed_offsets(brokers, group, topic, numbers, command_config)
    if not at:
        raise BadInput(f"{place}: the group has committed no offset of the topic; mend its name, or let it begin.")
    return Positions(f"group {place}", _by_log(session, topic, {n: at.get(n, 0) for n in numbers}))


def _by_log(session: TableSession, topic: str, offsets: Mapping[int, int]) -> dict[str, int]:
    """Returns the offsets of a Kafka topic's partitions, by the names of the table's logs."""
    logs = {v.name for v in logs_of(session)}
    by_number = {str(number): offset for number, offset in sorted(offsets.items())}
    by_topic = {f"{topic}-{number}": offset for number, offset in by_number.items()}
    by_log = by_topic if _names_topics(session) or logs & by_topic.keys() else by_number
    if logs and not logs & by_log.keys():
        raise BadInput(
            f"{session.name}: no log is a partition of topic {topic}, the table has {', '.join(sorted(logs))}; mend "
            "the topic's name."
        )
    return by_log


def may_be_of(session: TableSession, topic: str, log: str) -> bool:
    """Returns whether a log may be a partition of a Kafka topic, as far as its name says.

    Args:
        session: the table's.
        topic: its name.
        log: as the table names it.
    """
    before, _, number = log.rpartition("-")
    return (before == topic or not (before or _names_topics(session))) and number.isdecimal()


def _names_topics(session: TableSession) -> bool:
    """Returns whether several columns name the table's logs, such as topic and partition."""
    return len(LogColumns.of(session.table.schema(), session.settings).log.columns) > 1
