"""Settings of one log: Kafka's names, defaults and ranges, read from table properties under `hardpack.`.

Names and defaults: Kafka's TopicConfig and LogConfig. `segment.bytes` defaults to the table's target file size.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hardpack.errors import BadInput
from hardpack.rules.times import DAY_MS, LONG_MAX
from hardpack.rules.tombstones import NULL, TombstoneRule, tombstone_rule

PREFIX = "hardpack."
Long = Annotated[int, Field(le=LONG_MAX)]
"""A Java long, as Kafka takes it; the greatest one often means "never" or "any"."""
BYTES_PER_KEY = 24
"""Bytes of one entry of the offset map: an MD5 digest and an offset (SkimpyOffsetMap)."""


def dotted(field: str) -> str:
    """Returns Kafka's spelling of a field's name."""
    return field.replace("_", ".")


class Settings(BaseModel):
    """What a log is cleaned by. Sizes are bytes, times milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=dotted)

    cleanup_policy: Literal["compact", "delete", "compact,delete", "delete,compact"] = Field(
        "compact", description="`compact` keeps the latest row per key, `delete` drops old segments; both may be named"
    )
    min_cleanable_dirty_ratio: float = Field(0.5, ge=0, le=1, description="clean when the ratio is above this")
    min_compaction_lag_ms: Long = Field(0, ge=0, description="least time a row stays uncompacted")
    max_compaction_lag_ms: Long = Field(
        LONG_MAX, ge=1, description="a log whose oldest dirty segment is older is due, whatever its ratio"
    )
    delete_retention_ms: Long = Field(DAY_MS, ge=0, description="how long a tombstone stays after its first cleaning")
    segment_bytes: Long = Field(512 * 1024 * 1024, ge=14, description="size of the files written and merged to")
    segment_ms: Long | None = Field(
        None,
        ge=1,
        description="age of its first row from which on the newest segment counts as closed; unset: a newer closes it",
    )
    retention_ms: Long = Field(7 * DAY_MS, ge=-1, description="with `delete`: a segment older than this goes; -1 never")
    retention_bytes: Long = Field(-1, ge=-1, description="with `delete`: most bytes of a log; -1 any")
    log_cleaner_dedupe_buffer_size: Long | None = Field(
        None,
        ge=1,
        description="bytes of the offset map, 24 a key; a pass ends where it is full; unset: unlimited",
    )
    log_cleaner_io_buffer_load_factor: float = Field(0.9, gt=0, le=1, description="how full the offset map may get")
    log_cleaner_threads: Long | None = Field(
        None,
        ge=1,
        description="most tasks of a pass that read or write files at once; unset: as many as Spark runs",
    )
    log_cleaner_io_max_bytes_per_second: float = Field(
        sys.float_info.max,
        gt=0,
        allow_inf_nan=False,
        description="most bytes a second, in all tasks, that a pass reads for its offset map and copies",
    )

    active_segment: Literal["newest", "none"] = Field("newest", description="`none` for a log no longer written")
    idle_tombstones: Literal["keep", "expire"] = Field(
        "keep", description="Kafka removes due tombstones only in a pass that new rows cause; `expire` does not wait"
    )
    horizon_readers: Literal["ignore", "wait"] = Field(
        "ignore", description="`wait`: a tombstone stays, past its horizon too, until all named readers have passed it"
    )
    horizon_readers_limit_ms: Long = Field(
        7 * DAY_MS, ge=0, description="with `wait`: how long past its horizon a tombstone stays for a reader at most"
    )
    late_rows: Literal["clean", "refuse"] = Field(
        "clean", description="rows arriving below the checkpoint: `clean` from there again, or `refuse` the log"
    )
    null_keys: Literal["refuse", "drop"] = Field("refuse", description="`drop` removes keyless rows as Kafka's cleaner")
    tombstone: str = Field(
        NULL,
        description="which rows delete their key: `null` (no value), `none`, `COLUMN=VALUE|VALUE` or `COLUMN empty`",
        json_schema_extra={"grammar": "tombstone"},
    )
    key_absent: Literal["null", "empty"] | None = Field(
        None,
        description="what a row without a key has: `null`, or `empty` text or bytes; adoption asks where both may be",
    )
    duplicates_ignore: tuple[str, ...] = Field(
        (),
        description="columns, with commas between, that may differ in a row delivered again, as an ingestion time does",
    )

    commit_operation: Literal["overwrite", "replace"] = Field(
        "overwrite",
        description="Iceberg's name for what a pass does; `replace` lets Spark's streams read on, against the spec",
    )
    deletion_vector_max_ratio: float = Field(
        0.2,
        ge=0,
        le=1,
        description="with write.delete.mode=merge-on-read: dead share up to which a file is not rewritten",
    )
    deletion_vector_min_bytes: Long = Field(
        4 * 1024 * 1024, ge=0, description="a file smaller than this is rewritten, whatever its dead share"
    )
    key_filter_min_rows: Long = Field(
        100_000,
        ge=1,
        description="clean files of at least so many rows get a filter of their keys; set very high, none does",
    )
    audit_rows: Long = Field(
        1_000_000,
        ge=1,
        description="most rows of which the gate reads all; of more it, and a run's check, reads a sample that large",
    )

    maintenance: Literal["on", "off"] = Field(
        "on", description="`off`: snapshots, orphan files and manifests of the table are somebody else's to clean up"
    )
    orphan_age_ms: Long = Field(
        3 * DAY_MS,
        ge=DAY_MS,
        description="age from which a file no snapshot knows of goes; longer than any write takes",
    )

    column_partition: str = Field(
        "partition",
        min_length=1,
        description="column of the log's number or name, or two with a comma between: the topic's and the partition's",
    )
    column_offset: str = Field("offset", min_length=1, description="column of the record's offset, long")
    column_timestamp: str = Field("timestamp", min_length=1, description="timestamp, or long in milliseconds")
    column_key: str = Field(
        "key",
        min_length=1,
        description="column of the key, or several with commas between",
    )
    column_value: str = Field("value", min_length=1, description="column of the value, where `tombstone` is `null`")

    column_producer_id: str | None = Field(None, description="column of the producer's id, long; for transactions")
    column_transactional: str | None = Field(None, description="column telling rows of a transaction, boolean")
    column_control: str | None = Field(
        None, description="column of a control row's type: commit or abort, 1 or 0; null in other rows"
    )
    column_leader_epoch: str | None = Field(
        None, description="column of the leader epoch, int; the greatest wins where an offset stands twice"
    )
    column_batch: str | None = Field(
        None, description="column of the first offset of a row's batch; where a full offset map ends inside one"
    )

    @field_validator("cleanup_policy", mode="before")
    @classmethod
    def _without_blanks(cls, given: object) -> object:
        """Removes the blanks around the commas of a list, as Kafka does."""
        return ",".join(part.strip() for part in given.split(",")) if isinstance(given, str) else given

    @field_validator("duplicates_ignore", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        """Splits the text of a table property into names."""
        return tuple(name.strip() for name in given.split(",") if name.strip()) if isinstance(given, str) else given

    @field_validator("tombstone")
    @classmethod
    def _sentence(cls, given: str) -> str:
        """Returns the tombstone rule in the spelling of the grammar."""
        return tombstone_rule(given).text

    @model_validator(mode="after")
    def _map_holds_a_key(self) -> Self:
        """Refuses a map without room for one key (Cleaner's constructor)."""
        if self.max_keys is not None and self.max_keys < 1:
            raise ValueError(
                f"log.cleaner.dedupe.buffer.size ({self.log_cleaner_dedupe_buffer_size}) holds no key at 24 bytes and "
                f"load factor {self.log_cleaner_io_buffer_load_factor:g}"
            )
        return self

    @model_validator(mode="after")
    def _transactions_whole(self) -> Self:
        """Refuses settings that map one or two of the three columns of transactions without the rest."""
        mapped = [self.column_producer_id, self.column_transactional, self.column_control]
        if any(mapped) and not all(mapped):
            raise ValueError("column.producer.id, column.transactional and column.control are mapped all or none")
        return self

    @model_validator(mode="after")
    def _lags_agree(self) -> Self:
        """Refuses min.compaction.lag.ms above max.compaction.lag.ms, as Kafka does (LogConfig.validateValues)."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ValueError(
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) is above "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )
        return self

    @property
    def compacts(self) -> bool:
        """Whether the policy names `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether the policy names `delete`."""
        return "delete" in self.cleanup_policy

    @property
    def transactions(self) -> bool:
        """Whether the columns of transactions are mapped; if they are not, every row counts as committed."""
        return self.column_control is not None

    @property
    def map_slots(self) -> int | None:
        """Keys the offset map has slots for, None for any number (SkimpyOffsetMap.slots)."""
        size = self.log_cleaner_dedupe_buffer_size
        return None if size is None else min(size, 2**31 - 1) // BYTES_PER_KEY

    @property
    def max_keys(self) -> int | None:
        """Keys the offset map may hold, None for any number (Cleaner.buildOffsetMap)."""
        return None if self.map_slots is None else int(self.map_slots * self.log_cleaner_io_buffer_load_factor)

    @property
    def tombstone_rule(self) -> TombstoneRule:
        """What makes a row a tombstone."""
        return tombstone_rule(self.tombstone)

    @property
    def tombstone_column(self) -> str | None:
        """The column that tells which rows are tombstones, None where there are no tombstones."""
        rule = self.tombstone_rule
        return {"null": self.column_value, "none": None}.get(rule.kind, rule.column)


READER = "reader."
"""How the names of properties begin that record the position of a named reader."""
NONE: Mapping[str, str] = MappingProxyType({})
"""The settings of a table without a policy."""
TARGET: Literal["write.target-file-size-bytes"] = "write.target-file-size-bytes"
"""Iceberg's property that counts as segment.bytes when nothing else sets it."""


class PolicySettings(dict[str, str]):
    """What a policy sets, and globs of the settings that it locks, so that a table's own properties do not count."""

    def __init__(self, settings: Mapping[str, str], locked: Sequence[str] = ()) -> None:
        super().__init__(settings)
        self.locked = tuple(locked)


def default_text(value: object) -> str:
    """Returns a setting's default as a help text shows it: `none` or `no limit` in place of Python's values."""
    if value is None or value in ((), []):
        return "none"
    return "no limit" if value in (LONG_MAX, sys.float_info.max) else str(value)


def is_locked(name: str, policy: Mapping[str, str]) -> bool:
    """Returns whether a policy locks a setting, so that a table's own property does not count."""
    return isinstance(policy, PolicySettings) and any(fnmatchcase(name, glob) for glob in policy.locked)


def is_kept(name: str) -> bool:
    """Returns whether a table property, named without the prefix, is hardpack's own record and no setting."""
    return name in ("state", "fields") or name.startswith(READER)


def own_settings(properties: Mapping[str, str], policy: Mapping[str, str] = NONE) -> dict[str, str]:
    """Returns the settings among a table's properties that its policy does not lock, by names without the prefix."""
    own = {k.removeprefix(PREFIX): v for k, v in properties.items() if k.startswith(PREFIX)}
    return {k: v for k, v in own.items() if not is_kept(k) and not is_locked(k, policy)}


Order = Literal["filthiest", "overdue"]
"""Which of several logs is cleaned first."""


def read_settings(
    table: str, properties: Mapping[str, str], policy: Mapping[str, str] = NONE, verb: str = "adopt"
) -> Settings:
    """Returns the settings in force for a table.

    Args:
        table: its name, for messages.
        properties: the table's properties; those under `hardpack.` are read, and Iceberg's target file size.
        policy: what the table's policy sets; where it does not lock a setting, the table's own property wins. Names are
            without the prefix.
        verb: the command that sets them, for messages.

    Raises:
        BadInput: an unknown name, a value out of range, or two values that contradict each other.
    """
    own = own_settings(properties, policy)
    given = {**policy, **own}
    if "segment.bytes" not in given and (target := properties.get(TARGET)) and not is_locked("segment.bytes", policy):
        given["segment.bytes"] = target
    if unknown := next((name for name in given if "_" in name and name in Settings.model_fields), None):
        # pydantic would also accept the Python name of a field, which locks and displays do not know
        whose = "the policy's setting " if unknown in policy and unknown not in own else "table property hardpack."
        raise BadInput(f"{table}: {whose}{unknown} is not a setting; remove it, or write it {dotted(unknown)}.")
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if not first["loc"]:
            places = "settings, of the table or its policy," if policy else "table properties hardpack.*"
            raise BadInput(f"{table}: {first['ctx']['error']!s}; set one of the two {places} anew.") from None
        theirs, targets = name in policy and name not in own, name == "segment.bytes" and name not in {**policy, **own}
        what = f"the policy's setting {name}" if theirs else f"table property {TARGET if targets else PREFIX + name}"
        if first["type"] == "extra_forbidden":
            raise BadInput(
                f"{table}: {what} is not a setting; remove it or mend its name (`hardpack adopt --help` lists all)."
            ) from None
        command = f"`hardpack {verb} {table} --set {name}=VALUE`"
        mend = "mend it in the policy file" if theirs else f"mend it with {command}"
        if targets:
            mend = f"mend it, or set segment.bytes, which wins over it: {command}"
        raise BadInput(f"{table}: {what} is {first['input']!r}, expected: {_wish(first['msg'])}; {mend}.") from None


def with_value(settings: Settings, name: str, value: str) -> Settings:
    """Returns settings with one of them changed.

    Args:
        settings: those in force.
        name: of the setting to change, dotted.
        value: as a table property has it.

    Raises:
        BadInput: the value is out of range, or contradicts another.
    """
    try:
        return Settings.model_validate({**settings.model_dump(by_alias=True, exclude_none=True), name: value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        wish = f"expected: {_wish(first['msg'])}" if first["loc"] else str(first["ctx"]["error"])
        raise BadInput(f"{name} cannot be {value!r}, {wish}.") from None


Origin = Literal["table", "policy", "write.target-file-size-bytes", "default"]


def origins(properties: Mapping[str, str], policy: Mapping[str, str] = NONE) -> dict[str, Origin]:
    """Returns where the value of each setting comes from, by its dotted name.

    Args:
        properties: the table's.
        policy: what the table's policy sets.
    """
    own = own_settings(properties, policy)

    def origin(name: str) -> Origin:
        if name in own:
            return "table"
        if name in policy:
            return "policy"
        target = name == "segment.bytes" and TARGET in properties and not is_locked(name, policy)
        return TARGET if target else "default"

    return {name: origin(name) for name in map(dotted, Settings.model_fields)}


def _wish(message: str) -> str:
    return message.removeprefix("Input should be ").removeprefix("Value error, ").replace("'", "")
