"""The state inside the table: property `hardpack.state`, compact JSON, versioned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from hardpack.errors import BadInput
from hardpack.log.model import LogState, Partition

STATE_PROPERTY = "hardpack.state"
PASS_SUMMARY = "hardpack.pass"
PLAN_SUMMARY = "hardpack.plan"
VERSION = 1


def read_state(table: str, properties: Mapping[str, str]) -> dict[str, LogState]:
    """State of every log the table has state for, by the text of its partition value.

    Raises:
        BadInput: the property is not ours or of a later version.
    """
    raw = properties.get(STATE_PROPERTY)
    if raw is None:
        return {}
    try:
        data = json.loads(raw)
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}")
        return {name: _log_from(entry) for name, entry in data["logs"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{table}: table property {STATE_PROPERTY} cannot be read ({error}), expected version {VERSION} as written "
            "by hardpack; restore it from the last snapshot's summary or remove it to clean from the log start."
        ) from None


def write_state(logs: Mapping[str, LogState]) -> str:
    """The property's text for a table's logs."""
    entries = {name: log_to_json(state) for name, state in sorted(logs.items())}
    return json.dumps({"version": VERSION, "logs": entries}, separators=(",", ":"))


def state_of(logs: Mapping[str, LogState], partition: Partition) -> LogState:
    """State of one log, empty when it was never cleaned."""
    return logs.get(str(partition), LogState())


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
    }
    return always | {name: value for name, value in sometimes.items() if value}


def _steps(offsets: Sequence[int]) -> list[int]:
    """Rising offsets as the first and the steps between them, which takes fewer digits."""
    return [o - before for o, before in zip(offsets, (0, *offsets), strict=False)]


def _log_from(entry: Mapping[str, Any]) -> LogState:
    def pair(name: str) -> tuple[int, int] | None:
        return (int(entry[name][0]), int(entry[name][1])) if entry.get(name) else None

    return LogState(
        checkpoint=None if entry["checkpoint"] is None else int(entry["checkpoint"]),
        log_start=None if entry["start"] is None else int(entry["start"]),
        log_end=int(entry["end"]),
        horizons=tuple((int(o), int(ms)) for o, ms in entry["horizons"]),
        markers=tuple((int(ms), tuple(accumulate(offsets))) for ms, offsets in entry.get("markers", ())),
        layout=tuple(accumulate(entry.get("layout", ()))),
        last_batch=pair("last_batch"),
        expired_to=int(entry.get("expired_to", -1)),
        paused=int(entry.get("paused", 0)),
        uncleanable=str(entry.get("uncleanable", "")),
        snapshot=pair("snapshot"),
        last_clean=dict(entry["last_clean"]),
    )
