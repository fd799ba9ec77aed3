"""Named readers of a table: how far each has come, in table properties `hardpack.reader.NAME`.

A reader is whoever has to see the deletes: a consumer group of the topic, a Spark stream of the table, a nightly job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardpack.errors import BadInput
from hardpack.rules.model import SlowestReader
from hardpack.rules.settings import PREFIX, READER, Settings
from hardpack.rules.times import LONG_MAX

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
Offset = Annotated[int, Field(ge=0, le=LONG_MAX)]


class Reader(BaseModel):
    """How far a reader has come. Offsets and ms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    source: str = ""
    """Where the offsets were taken from; empty where somebody gave them."""
    at: int
    """When they were put down, ms."""
    offsets: dict[str, Offset]
    """By log the offset at which it goes on. Logs that are not named here it does not read."""


def property_of(table: str, name: str) -> str:
    """Returns the property that a reader's offsets stand in.

    Raises:
        BadInput: the name has other characters than a property's may have.
    """
    if not NAME.fullmatch(name):
        raise BadInput(f"{table}: {name!r} cannot be a reader's name, expected letters, digits, dots and hyphens.")
    return PREFIX + READER + name


def read_readers(table: str, properties: Mapping[str, str]) -> dict[str, Reader]:
    """Returns the readers that a table's properties name.

    Args:
        table: its name, for messages.
        properties: the table's.

    Raises:
        BadInput: a property cannot be read.
    """
    start, found = PREFIX + READER, dict[str, Reader]()
    for key, text in sorted(properties.items()):
        if key.startswith(start):
            try:
                found[key.removeprefix(start)] = Reader.model_validate_json(text)
            except ValidationError:
                raise BadInput(
                    f"{table}: table property {key} cannot be read, expected what `hardpack reader set` writes; set it "
                    "anew, or remove it."
                ) from None
    return found


def slowest_readers(table: str, properties: Mapping[str, str], settings: Settings) -> dict[str, SlowestReader]:
    """Returns for each log the named reader that is furthest back; nothing where tombstones wait for nobody.

    Args:
        table: its name, for messages.
        properties: the table's.
        settings: tell whether tombstones wait, and how long.

    Raises:
        BadInput: a property cannot be read.
    """
    if settings.horizon_readers == "ignore":
        return {}
    slowest: dict[str, SlowestReader] = {}
    for name, reader in read_readers(table, properties).items():
        for log, offset in reader.offsets.items():
            if log not in slowest or offset < slowest[log].position:
                slowest[log] = SlowestReader(name, offset, settings.horizon_readers_limit_ms)
    return slowest
