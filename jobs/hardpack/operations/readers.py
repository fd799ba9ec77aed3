"""Named readers, which tombstones wait for: put down by hand, from a consumer group or from a Spark stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from hardpack.compaction.plan import chosen
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.operations.alter_properties import alter_properties
from hardpack.operations.broker import SECONDS, admin_client, asked, retrying
from hardpack.rules.horizons import waiting_for_reader
from hardpack.rules.model import Partition
from hardpack.table.columns import LogColumns
from hardpack.table.readers import Reader, property_of, read_readers


class ReaderStatus(BaseModel):
    """How far a reader is in one log. Offsets, ms."""

    model_config = ConfigDict(frozen=True)

    table: str
    reader: str
    partition: str
    position: int
    """Offset at which it goes on."""
    log_end: int | None
    """None where the table has no such log yet."""
    at: int
    """When the position was put down."""
    source: str
    waited_for: bool
    """Whether tombstones past their horizon wait for it now."""


@dataclass(frozen=True, slots=True)
class Positions:
    """What a source tells of a reader: by log the offset at which it goes on."""

    source: str
    offsets: Mapping[str, int]


def set_reader(session: TableSession, name: str, found: Positions, now: int) -> list[str]:
    """Puts down how far a reader has come. Logs that are not named stay as they are.

    Args:
        session: the table's.
        name: the reader's.
        found: its offsets.
        now: ms since the epoch.

    Returns:
        The logs in which its source went back, by which deletes may have gone that it will not see.

    Raises:
        BadInput: the table was not adopted, a name or an offset cannot be, or offsets given by hand go back.
    """
    table, key = session.name, property_of(session.name, name)
    session.checked_settings()
    before = read_readers(table, session.table.properties).get(name)
    known = before.offsets if before else {}
    if wrong := next((offset for offset in found.offsets.values() if offset < 0), None):
        raise BadInput(f"{table}: reader {name} cannot go on at offset {wrong}, expected 0 or more.")
    back = [log for log, offset in found.offsets.items() if offset < known.get(log, 0)]
    if back and not found.source:
        raise BadInput(
            f"{table}: reader {name} goes on at offset {known[back[0]]} of partition {back[0]} and cannot go back to "
            f"{found.offsets[back[0]]}; remove it first if it reads anew."
        )
    put = Reader(source=found.source, at=now, offsets={**known, **found.offsets})
    alter_properties(session, {key: put.model_dump_json()})
    return back


def remove_reader(session: TableSession, name: str) -> None:
    """Forgets a reader, so that nothing waits for it any more.

    Args:
        session: the table's.
        name: the reader's.

    Raises:
        BadInput: the table has no such reader.
    """
    key = property_of(session.name, name)
    if key not in session.table.properties:
        raise BadInput(f"{session.name}: there is no reader {name}; `hardpack reader list {session.name}` shows all.")
    alter_properties(session, {}, [key])


def list_readers(session: TableSession, now: int) -> list[ReaderStatus]:
    """Tells how far each reader is, and whether tombstones wait for it.

    Args:
        session: the table's.
        now: ms since the epoch.

    Raises:
        BadInput: the table or a property of it is wrong.
    """
    views = {str(v.partition): v for v in chosen(session.table, session.checked_settings(), None, session.memory).views}
    found: list[ReaderStatus] = []
    for name, reader in read_readers(session.name, session.table.properties).items():
        for log, offset in reader.offsets.items():
            view = views.get(log)
            slowest = view.slowest if view else None
            found.append(
                ReaderStatus(
                    table=session.name,
                    reader=name,
                    partition=log,
                    position=offset,
                    log_end=view.log_end if view else None,
                    at=reader.at,
                    source=reader.source,
                    waited_for=bool(view and slowest and slowest.name == name and waiting_for_reader(view, now)),
                )
            )
    return found


def given_offset(session: TableSession, partitions: Sequence[Partition] | None, offset: int) -> Positions:
    """Returns an offset that somebody gives for some logs.

    Args:
        session: the table's.
        partitions: the logs, None for all.
        offset: at which the reader goes on.

    Raises:
        BadInput: a partition that the table has not.
    """
    views = chosen(session.table, session.checked_settings(), partitions, session.memory).views
    return Positions("", {str(view.partition): offset for view in views})


def group_offsets(session: TableSession, place: str, command_config: Path | None = None) -> Positions:
    """Returns how far a consumer group is in a topic; where it has committed nothing it is at 0.

    Args:
        session: the table's.
        place: `HOST:PORT/GROUP/TOPIC`.
        command_config: see `admin_client`.

    Raises:
        BadInput: the place is none, or there is no such topic or group.
        Unavailable: the broker does not answer.
    """
    brokers, *names = place.split("/")
    if not brokers or len(names) != 2 or not all(names):
        raise BadInput(
            f"{place!r} names no group and topic of a broker, expected HOST:PORT/GROUP/TOPIC, as in "
            "kafka:9092/billing/orders."
        )
    group, topic = names
    columns = LogColumns.of(session.table.schema(), session.checked_settings())
    admin = admin_client(brokers, command_config)
    from confluent_kafka import TopicCollection

    with asked(place):
        # a question for the metadata of one topic by its name would make it, where brokers make topics by themselves
        told = admin.describe_topics(TopicCollection([topic]), request_timeout=SECONDS)[topic].result(SECONDS + 1)
        committed = retrying(lambda: _committed(admin, group))
    at = {p.partition: p.offset for p in committed if p.topic == topic and p.offset >= 0}
    if not at:
        raise BadInput(f"{place}: the group has committed no offset of the topic; mend its name, or let it begin.")
    both, numbers = len(columns.log.columns) > 1, sorted(p.id for p in told.partitions)
    return Positions(f"group {place}", {f"{topic}-{n}" if both else str(n): at.get(n, 0) for n in numbers})


def _committed(admin: Any, group: str) -> Any:
    """Returns all that a group has committed, as a broker's client has it."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    wanted = [ConsumerGroupTopicPartitions(group)]
    told = admin.list_consumer_group_offsets(wanted, request_timeout=SECONDS, require_stable=True)
    return told[group].result(SECONDS + 1).topic_partitions
