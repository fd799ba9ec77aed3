"""Named readers of a table: how far each has come in each log, in table properties `hardpack.reader.NAME:LOG`.

A reader is whoever has to see the deletes: a consumer group of the topic, a Spark stream of the table, a nightly job.
Each property holds the position of one reader in one log, so that two recorded at once do not overwrite each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardpack.errors import BadInput
from hardpack.rules.model import SlowestReader
from hardpack.rules.reader_source import READER_NAME
from hardpack.rules.settings import PREFIX, READER, Settings
from hardpack.rules.times import LONG_MAX

NAME = re.compile(READER_NAME)
Offset = Annotated[int, Field(ge=0, le=LONG_MAX)]


class Position(BaseModel):
    """How far a reader has come in a log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    offset: Offset
    """The offset at which the reader goes on."""
    at: int
    """When this was recorded, ms."""
    source: str = ""
    """Where the position was read; empty where a person gave it."""


class ReaderOfLog(NamedTuple):
    """A named reader, and a log that it reads."""

    reader: str
    log: str


def property_of(table: str, name: str, log: str) -> str:
    """Returns the name of the table property that holds a reader's position in a log.

    Raises:
        BadInput: the reader's name has characters that it may not have.
    """
    if not NAME.fullmatch(name):
        raise BadInput(f"{table}: {name!r} cannot be a reader's name, expected letters, digits, dots and hyphens.")
    return f"{PREFIX}{READER}{name}:{log}"


def properties_of(properties: Mapping[str, str], name: str) -> list[str]:
    """Returns the names of the table properties that hold a reader's positions, whether or not they can be read."""
    return [key for key in properties if key.startswith(f"{PREFIX}{READER}{name}:")]


def is_position(key: str) -> bool:
    """Returns whether a table property holds a reader's position."""
    return key.startswith(PREFIX + READER)


def at_the_start(properties: Mapping[str, str], logs: Iterable[str], now: int) -> dict[str, str]:
    """Returns table properties that put each named reader at offset 0 of some logs.

    Args:
        properties: the table's, which have the readers' names.
        logs: names of the logs that the table has now.
        now: the time to record, ms since the epoch.
    """
    names = {key.removeprefix(PREFIX + READER).partition(":")[0] for key in properties if is_position(key)}
    begin = Position(offset=0, at=now).model_dump_json()
    return {f"{PREFIX}{READER}{name}:{log}": begin for log in logs for name in sorted(names)}


def read_positions(table: str, properties: Mapping[str, str]) -> Iterator[tuple[ReaderOfLog, Position]]:
    """Yields the position of each reader in each log that it reads.

    Args:
        table: its name, for messages.
        properties: the table's.

    Raises:
        BadInput: a property cannot be read.
    """
    start = PREFIX + READER
    for key, text in sorted(properties.items()):
        if key.startswith(start):
            reader, _, log = key.removeprefix(start).partition(":")
            try:
                yield ReaderOfLog(reader, log), Position.model_validate_json(text)
            except ValidationError:
                raise BadInput(
                    f"{table}: table property {key} cannot be read, expected what `hardpack reader set` writes; set it "
                    f"anew, or remove it with `hardpack reader remove {table} {reader}`."
                ) from None


def slowest_readers(table: str, properties: Mapping[str, str], settings: Settings) -> dict[str, SlowestReader]:
    """Returns for each log the named reader that is furthest back; empty where tombstones wait for no reader.

    Args:
        table: its name, for messages.
        properties: the table's.
        settings: say whether tombstones wait for readers, and how long.

    Raises:
        BadInput: a property cannot be read.
    """
    if settings.horizon_readers == "ignore":
        return {}
    slowest: dict[str, SlowestReader] = {}
    for (reader, log), position in read_positions(table, properties):
        if log not in slowest or position.offset < slowest[log].position:
            slowest[log] = SlowestReader(reader, position.offset, settings.horizon_readers_limit_ms)
    return slowest
