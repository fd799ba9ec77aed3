"""Settings of one log: Kafka's names, defaults and ranges, read from table properties under `hardpack.`.

Names and defaults: Kafka's TopicConfig and LogConfig. `segment.bytes` defaults to the table's target file size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hardpack.errors import BadInput

PREFIX = "hardpack."
LONG_MAX = 2**63 - 1
DAY_MS = 86_400_000


def dotted(field: str) -> str:
    """Kafka's spelling of a field's name."""
    return field.replace("_", ".")


class Settings(BaseModel):
    """What a log is cleaned by. Sizes are bytes, times milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=dotted)

    cleanup_policy: Literal["compact"] = Field("compact", description="only `compact` is cleaned so far")
    min_cleanable_dirty_ratio: float = Field(0.5, ge=0, le=1, description="clean when the ratio is above this")
    min_compaction_lag_ms: int = Field(0, ge=0, description="least time a row stays uncompacted")
    max_compaction_lag_ms: int = Field(LONG_MAX, ge=1, description="greatest time until a row may be compacted")
    delete_retention_ms: int = Field(DAY_MS, ge=0, description="how long a tombstone stays after its first cleaning")
    segment_bytes: int = Field(512 * 1024 * 1024, ge=1024 * 1024, description="size of the files written")

    active_segment: Literal["newest", "none"] = Field("newest", description="`none` for a log no longer written")
    idle_tombstones: Literal["keep", "expire"] = Field(
        "keep", description="Kafka removes due tombstones only in a pass that new rows cause; `expire` does not wait"
    )
    null_keys: Literal["refuse", "drop"] = Field("refuse", description="`drop` removes keyless rows as Kafka's cleaner")

    column_partition: str = Field("partition", min_length=1, description="column of the log's number or name")
    column_offset: str = Field("offset", min_length=1, description="column of the record's offset, long")
    column_timestamp: str = Field("timestamp", min_length=1, description="timestamp, or long in milliseconds")
    column_key: str = Field("key", min_length=1, description="column of the key, binary or string")
    column_value: str = Field("value", min_length=1, description="column of the value; null makes a tombstone")

    @model_validator(mode="after")
    def _lags_agree(self) -> Self:
        """Kafka refuses min lag above max lag (LogConfig.validateValues)."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ValueError(
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) is above "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )
        return self

    @property
    def columns(self) -> tuple[str, str, str, str, str]:
        """The mapped columns: partition, offset, timestamp, key, value."""
        return self.column_partition, self.column_offset, self.column_timestamp, self.column_key, self.column_value


NOT_SETTINGS = frozenset({"state"})


def read_settings(table: str, properties: Mapping[str, str]) -> Settings:
    """The settings in force for a table.

    Args:
        table: its name, for messages.
        properties: the table's properties; those under `hardpack.` are read, and Iceberg's target file size.

    Raises:
        BadInput: a name nobody knows, a value out of range, or two values that contradict each other.
    """
    own = {k.removeprefix(PREFIX): v for k, v in properties.items() if k.startswith(PREFIX)}
    given = {k: v for k, v in own.items() if k not in NOT_SETTINGS}
    if "segment.bytes" not in given and (target := properties.get("write.target-file-size-bytes")):
        given["segment.bytes"] = target
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if not name:
            raise BadInput(
                f"{table}: {first['ctx']['error']!s}; set one of the two table properties hardpack.* anew."
            ) from None
        if first["type"] == "extra_forbidden":
            raise BadInput(
                f"{table}: table property hardpack.{name} is not a setting; "
                "remove it or mend its name (`hardpack adopt --help` lists all)."
            ) from None
        raise BadInput(
            f"{table}: table property hardpack.{name} is {first['input']!r}, expected: {_wish(first['msg'])}; "
            f"mend it with `hardpack adopt {table} --set {name}=VALUE`."
        ) from None


def _wish(message: str) -> str:
    return message.removeprefix("Input should be ").replace("'", "")
