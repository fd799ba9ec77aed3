"""Describes a table as Kafka's tools describe a topic: its settings, their origins, what passes know of its logs."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.session import TableSession
from hardpack.rules.late_rows import why_of_another_topic
from hardpack.rules.model import LogView, Partition
from hardpack.rules.selection import checkpoint_of
from hardpack.rules.settings import Origin, origins
from hardpack.table.columns import mapped_columns
from hardpack.table.readers import read_positions


class SettingInForce(BaseModel):
    """One setting, its value as text, and where the value comes from."""

    model_config = ConfigDict(frozen=True)

    name: str
    value: str
    origin: Origin


class LogDescription(BaseModel):
    """What passes know of one log. Offsets, ms; None and 0 where nothing is known."""

    model_config = ConfigDict(frozen=True)

    partition: Partition
    log_start: int
    log_end: int
    checkpoint: int | None
    horizons: tuple[tuple[int, int], ...]
    """Pairs of offset and horizon: tombstones up to the offset, and after the pair before, may go at the horizon."""
    markers: int
    """Transaction markers whose rows are all gone, which wait for their horizon."""
    expired_to: int
    """Greatest offset of a tombstone that may have been removed, -1 for none."""
    late: int | None
    """Lowest offset below the checkpoint that no pass has seen as it is now."""
    paused: int
    uncleanable: str
    """Why a refused pass marked it; empty when none did."""
    trouble: str
    """Why some rows cannot be placed in the log, so that its offsets leave them out; empty when all rows can."""
    last_pass: int | None
    """Id of the snapshot that the last pass made."""


class TableDescription(BaseModel):
    """One adopted table."""

    model_config = ConfigDict(frozen=True)

    table: str
    format_version: int
    snapshot: int | None
    columns: dict[str, str]
    """The mapped column of each role, by role."""
    settings: tuple[SettingInForce, ...]
    logs: tuple[LogDescription, ...]
    readers: dict[str, dict[str, int]]
    """The offset at which each reader goes on, by the reader's name and by log."""


def describe(session: TableSession, partitions: Sequence[Partition] | None = None) -> TableDescription:
    """Describes an adopted table by metadata alone; starts no JVM.

    Args:
        session: the table's.
        partitions: the logs, None for all.

    Raises:
        BadInput: the table or a setting is wrong, or there is no such partition.
    """
    settings = session.checked_settings()
    values, whence = settings.model_dump(by_alias=True), origins(session.table.properties, session.policy)
    views = wanted_logs(session.table, settings, partitions, session.memory).views
    return TableDescription(
        table=session.name,
        format_version=session.table.format_version,
        snapshot=session.base,
        columns=mapped_columns(settings),
        settings=tuple(
            SettingInForce(name=name, value=_text(value), origin=whence[name]) for name, value in values.items()
        ),
        logs=tuple(_log(view) for view in views),
        readers=_readers(session),
    )


def _readers(session: TableSession) -> dict[str, dict[str, int]]:
    readers: dict[str, dict[str, int]] = {}
    for (reader, log), position in read_positions(session.name, session.table.properties):
        readers.setdefault(reader, {})[log] = position.offset
    return readers


def _text(value: object) -> str:
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _log(view: LogView) -> LogDescription:
    state = view.state
    return LogDescription(
        partition=view.partition,
        log_start=view.log_start,
        log_end=view.log_end,
        checkpoint=checkpoint_of(view),
        horizons=state.horizons,
        markers=sum(len(offsets) for _, offsets in state.markers),
        expired_to=state.expired_to,
        late=view.unseen_from,
        paused=state.paused,
        uncleanable=state.uncleanable,
        trouble=view.trouble or why_of_another_topic(view),
        last_pass=state.snapshot.id if state.snapshot else None,
    )
