"""The state inside the table: property `hardpack.state`, compact JSON, versioned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardpack.errors import BadInput
from hardpack.log.model import LogState, Partition

if TYPE_CHECKING:
    from pyiceberg.table import Table

STATE_PROPERTY = "hardpack.state"
PASS_SUMMARY = "hardpack.pass"
PLAN_SUMMARY = "hardpack.plan"
VERSION = 1
MOST_PAUSES = 1_000_000
Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]


def read_state(table: str, properties: Mapping[str, str]) -> dict[str, LogState]:
    """State of every log the table has state for, by the text of its partition value.

    Raises:
        BadInput: the property is not ours or of a later version.
    """
    raw = properties.get(STATE_PROPERTY)
    if raw is None:
        return {}
    try:
        found = _State.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise BadInput(
            f"{table}: table property {STATE_PROPERTY} cannot be read ({where}: {first['msg']}), expected version "
            f"{VERSION} as written by hardpack; restore it from the last snapshot's summary or remove it to clean from "
            "the log start."
        ) from None
    return {name: _log_from(entry) for name, entry in found.logs.items()}


def write_state(logs: Mapping[str, LogState]) -> str:
    """The property's text for a table's logs."""
    entries = {name: log_to_json(state) for name, state in sorted(logs.items())}
    return json.dumps({"version": VERSION, "logs": entries}, separators=(",", ":"))


def state_of(logs: Mapping[str, LogState], partition: Partition) -> LogState:
    """State of one log, empty when it was never cleaned."""
    return logs.get(str(partition), LogState())


def read_at(table: Table, snapshot: int) -> tuple[int, int]:
    """`LogState.seen` of a pass that reads this snapshot, as long as it has made none of its own; see `made_by`."""
    found = table.snapshot_by_id(snapshot)
    return (found.sequence_number or 0 if found else 0), 0


def made_by(state: LogState, snapshot: tuple[int, int]) -> LogState:
    """The state that a pass leaves, once id and sequence number of its snapshot are known."""
    seen = (state.seen[0], snapshot[1]) if state.seen and not state.seen[1] else state.seen
    return replace(state, snapshot=snapshot, seen=seen)


def log_to_json(state: LogState) -> dict[str, Any]:
    """One log's state as JSON data."""
    always = {
        "checkpoint": state.checkpoint,
        "start": state.log_start,
        "end": state.log_end,
        "horizons": [list(h) for h in state.horizons],
        "last_clean": state.last_clean,
    }
    sometimes = {
        "markers": [[ms, _steps(offsets)] for ms, offsets in state.markers],
        "layout": _steps(state.layout),
        "last_batch": list(state.last_batch or ()),
        "expired_to": max(state.expired_to, 0),
        "paused": state.paused,
        "uncleanable": state.uncleanable,
        "snapshot": list(state.snapshot or ()),
        "seen": list(state.seen or ()),
    }
    return always | {name: value for name, value in sometimes.items() if value}


def _steps(offsets: Sequence[int]) -> list[int]:
    """Rising offsets as the first and the steps between them, which takes fewer digits."""
    return [o - before for o, before in zip(offsets, (0, *offsets), strict=False)]


class _Entry(BaseModel):
    """One log's state as it stands in the property."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    checkpoint: Long | None
    start: Long | None
    end: Long
    horizons: tuple[tuple[Long, Long], ...]
    last_clean: dict[str, Long | tuple[Long, ...] | None]
    markers: tuple[tuple[Long, tuple[Long, ...]], ...] = ()
    layout: tuple[Long, ...] = ()
    last_batch: tuple[Long, Long] | None = None
    expired_to: Long = -1
    paused: Annotated[int, Field(ge=0, le=MOST_PAUSES)] = 0
    uncleanable: str = ""
    snapshot: tuple[Long, Long] | None = None
    seen: tuple[Long, Long] | None = None


class _State(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Literal[1]
    logs: dict[str, _Entry]


def _log_from(entry: _Entry) -> LogState:
    return LogState(
        checkpoint=entry.checkpoint,
        log_start=entry.start,
        log_end=entry.end,
        horizons=entry.horizons,
        markers=tuple((ms, tuple(accumulate(offsets))) for ms, offsets in entry.markers),
        layout=tuple(accumulate(entry.layout)),
        last_batch=entry.last_batch,
        expired_to=entry.expired_to,
        paused=entry.paused,
        uncleanable=entry.uncleanable,
        snapshot=entry.snapshot,
        seen=entry.seen,
        last_clean=dict(entry.last_clean),
    )
