"""The source from which a policy takes the position of a named reader."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardpack.rules.settings import dotted

READER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


class ReaderSource(BaseModel):
    """A reader of one table, and who tells its position: a broker, or a Spark stream's checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=dotted)

    table: str = Field(pattern=r"^[^*?\[]+$", description="the table that it reads, by its whole name")
    name: str = Field(pattern=READER_NAME, description="the reader's name")
    group: str = Field(
        "",
        pattern=r"^([^/]+/.+/[^/]+)?$",
        description="HOST:PORT/GROUP/TOPIC: what the consumer group has committed counts",
    )
    checkpoint: str = Field("", description="folder of a Spark stream's checkpoint: what it has finished counts")
    command_config: Path | None = Field(
        None, description="a file of librdkafka's properties, for a broker that asks for credentials"
    )

    @property
    def topic(self) -> str:
        """The topic that its group reads; empty where a checkpoint tells the position."""
        return self.group.rpartition("/")[2]

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if bool(self.group) == bool(self.checkpoint):
            raise ValueError(f"reader {self.name} of {self.table} needs a group or a checkpoint, one of them")
        if self.command_config and not self.group:
            raise ValueError(f"reader {self.name} of {self.table}: command.config goes with a group")
        return self
