"""The state of a table's logs, in table property `hardpack.state`: versioned JSON, packed where it is long."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hardpack.errors import BadInput
from hardpack.rules.model import LastClean, LogState, LogView, Partition, Replaced, SeenCommits, SnapshotRef, Unseen
from hardpack.table.packing import packed, unpacked
from hardpack.table.state_columns import as_entries, columns_of, steps

if TYPE_CHECKING:
    from pyiceberg.table import Table

STATE_PROPERTY = "hardpack.state"
PASS_SUMMARY = "hardpack.pass"
PLAN_SUMMARY = "hardpack.plan"
VERSION, WITHOUT_REPLACED, WITHOUT_TRUST, WITHOUT_FURTHER = 6, 5, 4, 3
"""The versions that are written. One named `WITHOUT_…` is for states that have no such field, nor newer ones."""
MOST_PAUSES = 1_000_000
FEW_LOGS = 32
"""Number of logs from which on the text has one list per field. Fewer have an entry each, which people can read."""
MOST_TEXT = 512 * 1024
"""Characters of a packed text. A longer one leaves out layouts, without which a log works too; see `write_state`."""
Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]


def read_state(table: str, properties: Mapping[str, str]) -> dict[str, LogState]:
    """Reads the state of each log that has one, by the text of the log's partition value.

    Args:
        table: its name, for messages.
        properties: of the table, or of a snapshot's summary; of this version or an earlier one.

    Raises:
        BadInput: hardpack did not write the property, or a later version did.
    """
    raw = properties.get(STATE_PROPERTY)
    if raw is None:
        return {}
    try:
        stored = _VERSIONS.validate_json(as_entries(unpacked(raw)))
        if isinstance(stored, _StateV1):
            return {name: _migrated(entry) for name, entry in stored.logs.items()}
        return {name: _log_from(entry) for name, entry in stored.logs.items()}
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        wrong = f"{'.'.join(map(str, first['loc'])) or 'the text'}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        wrong = f"the text: {type(error).__name__}"
    raise BadInput(
        f"{table}: table property {STATE_PROPERTY} cannot be read ({wrong}), expected version {VERSION} or earlier as "
        "written by hardpack; set it to what an earlier metadata file has, or remove it to clean from the log start."
    )


def write_state(logs: Mapping[str, LogState]) -> str:
    """Returns the property's text for the states of a table's logs, once it was read back as a check.

    Long texts are packed. A packed text that is still longer than half a megabyte leaves out the layouts. The segments
    of the logs are then their files, and those that Kafka's cleaner would have merged no longer count as one.

    Raises:
        BadInput: a number in a state is no long, or the text does not read back as the states.
    """
    text = packed(_text(logs))
    if len(text) > MOST_TEXT:
        logs = {name: replace(state, layout=()) for name, state in logs.items()}
        text = packed(_text(logs))
    if read_state("the state to be written", {STATE_PROPERTY: text}) != dict(logs):
        raise BadInput("the state to be written does not read as it was given, so nothing was written; report it.")
    return text


def _text(logs: Mapping[str, LogState]) -> str:
    entries = {name: log_to_json(state) for name, state in sorted(logs.items())}
    # the lowest version that has the fields in use, so that older versions of hardpack can read it
    further = any(state.seen and state.seen.further for state in logs.values())
    trust = any(state.trusted_to for state in logs.values())
    replaced = any(state.replaced for state in logs.values())
    named = ((replaced, VERSION), (trust, WITHOUT_REPLACED), (further, WITHOUT_TRUST), (True, WITHOUT_FURTHER))
    version = {"version": next(number for is_needed, number in named if is_needed)}
    if len(entries) < FEW_LOGS:
        return json.dumps(version | {"logs": entries}, separators=(",", ":"))
    return json.dumps(version | columns_of(entries), separators=(",", ":"))


def state_of(logs: Mapping[str, LogState], partition: Partition) -> LogState:
    """Returns the state of one log, empty when it was never cleaned."""
    return logs.get(str(partition), LogState())


def seen_by_reading(table: Table, snapshot: int) -> SeenCommits:
    """Returns the commits that a pass over this snapshot has seen before it commits itself; see `made_by`."""
    commit = table.snapshot_by_id(snapshot)
    return SeenCommits(commit.sequence_number or 0 if commit else 0)


def made_by(state: LogState, snapshot: SnapshotRef) -> LogState:
    """Returns the state that a pass leaves, completed by the snapshot that the pass made."""
    seen = state.seen
    if seen and not seen.made:
        seen = seen._replace(made=snapshot.sequence_number)
    return replace(state, snapshot=snapshot, seen=seen)


def state_with_history(view: LogView, sequence: int, at: int | None = None) -> LogState:
    """Returns a log's state with what history tells of the log up to a commit, so that this history may expire.

    Args:
        view: the log at that commit.
        sequence: the commit's sequence number.
        at: id of the commit's snapshot; None where this tells of files that the pass itself writes.
    """
    if view.state.snapshot is None and view.state.seen is None:
        return view.state
    if (before := view.state.unseen) and before.known_at is None and before.late_from is not None:
        # late rows that a full offset map left over stand in files of that pass, which history counts as seen
        at = None
    unseen = Unseen(view.unseen_from, view.late_from, sequence, at)
    return replace(view.state, unseen=unseen, seen=_with_rewrites(view), log_end=view.log_end)


def _with_rewrites(view: LogView) -> SeenCommits | None:
    """Returns the commits that passes have seen, and later ones that brought only seen rows anew and rows of the head.

    `Unseen` has one offset for all files of a log. Once a rewrite's commit has expired, `Unseen` alone would make its
    files late beside late rows, or after a rollback to where it does not hold.
    """
    seen = view.state.seen
    if seen is None:
        return None
    there = {file.file_sequence_number for file in view.files}
    # further commits up to the last one of the pass are its portions
    kept = {n for n in seen.further if n <= seen.last or n in there}
    return seen._replace(further=tuple(sorted(kept | set(view.rewrites))))


def log_to_json(state: LogState) -> dict[str, Any]:
    """Returns one log's state as JSON data; fields that are None or empty are left out."""
    last, unseen = state.last_clean, state.unseen
    entry = {
        "checkpoint": state.checkpoint,
        "start": state.log_start,
        "end": state.log_end,
        "horizons": [list(h) for h in _stepped(state.horizons)],
        "clean": last.now if last else None,
        "clean_given": last.given if last else None,
        "clean_horizons": list(last.horizons) if last else [],
        "clean_markers": list(last.markers) if last else [],
        "markers": [[ms, steps(offsets)] for ms, offsets in state.markers],
        "layout": steps(state.layout),
        "last_batch": list(state.last_batch or ()),
        "expired_to": None if state.expired_to < 0 else state.expired_to,
        "trusted_to": state.trusted_to or None,
        "paused": state.paused or None,
        "uncleanable": state.uncleanable,
        "snapshot": list(state.snapshot or ()),
        "seen": _numbers(state.seen) if state.seen else [],
        "unseen": [unseen.unseen_from, unseen.late_from, unseen.known_to, *_given(unseen.known_at)] if unseen else [],
        "there_by": list(state.there_by or ()),
        "empty": state.empty or None,
        "replaced": [[one.by, one.expired_to, *_numbers(one.seen)] for one in state.replaced],
    }
    return {name: value for name, value in entry.items() if value is not None and value != [] and value != ""}


def _numbers(seen: SeenCommits) -> list[int]:
    return [seen.read, seen.made, *seen.further]


def _given(number: int | None) -> list[int]:
    return [] if number is None else [number]


def _stepped(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return list(zip(steps([o for o, _ in pairs]), [ms for _, ms in pairs], strict=True))


class _AnyEntry(BaseModel):
    """The fields of one log's state that all versions have."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    markers: tuple[tuple[Long, tuple[Long, ...]], ...] = ()
    layout: tuple[Long, ...] = ()
    last_batch: tuple[Long, Long] | None = None
    expired_to: Long = -1
    paused: Annotated[int, Field(ge=0, le=MOST_PAUSES)] = 0
    uncleanable: str = ""
    snapshot: tuple[Long, Long] | None = None
    seen: Annotated[tuple[Long, ...], Field(min_length=2)] | None = None


class _Entry(_AnyEntry):
    """One log's state as it stands in the property, since version 2."""

    checkpoint: Long | None = None
    start: Long | None = None
    end: Long = 0
    horizons: tuple[tuple[Long, Long], ...] = ()
    clean: Long | None = None
    clean_given: Long | None = None
    clean_horizons: tuple[Long, ...] = ()
    clean_markers: tuple[Long, ...] = ()
    unseen: tuple[Long | None, Long | None, Long] | tuple[Long | None, Long | None, Long, Long] | None = None
    there_by: tuple[Long, Long] | None = None
    trusted_to: Long = 0
    empty: bool = False
    replaced: tuple[Annotated[tuple[Long, ...], Field(min_length=4)], ...] = ()


class _LastCleanV1(BaseModel):
    """What version 1 recorded of a log's last phase one, without the fields that are no longer used."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    now: Long | None = None
    horizon_up_to: Long | None = None
    markers: tuple[Long, ...] | None = ()


class _EntryV1(_AnyEntry):
    """One log's state as version 1 wrote it."""

    checkpoint: Long | None
    start: Long | None
    end: Long
    horizons: tuple[tuple[Long, Long], ...]
    last_clean: _LastCleanV1


class _State(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Literal[2, 3, 4, 5, 6]
    logs: dict[str, _Entry]


class _StateV1(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Literal[1]
    logs: dict[str, _EntryV1]


_VERSIONS: TypeAdapter[_State | _StateV1] = TypeAdapter(Annotated[_State | _StateV1, Field(discriminator="version")])


def _log_of(entry: _AnyEntry) -> LogState:
    """Returns a state with those fields that all versions have."""
    return LogState(
        markers=tuple((ms, tuple(accumulate(offsets))) for ms, offsets in entry.markers),
        layout=tuple(accumulate(entry.layout)),
        last_batch=entry.last_batch,
        expired_to=entry.expired_to,
        paused=entry.paused,
        uncleanable=entry.uncleanable,
        snapshot=SnapshotRef(*entry.snapshot) if entry.snapshot else None,
        seen=_seen(entry.seen) if entry.seen else None,
    )


def _seen(numbers: Sequence[int]) -> SeenCommits:
    read, made, *further = numbers
    return SeenCommits(read, made, tuple(further))


def _log_from(entry: _Entry) -> LogState:
    last = None
    if entry.clean is not None:
        last = LastClean(entry.clean, entry.clean_given, entry.clean_horizons, entry.clean_markers)
    ends = accumulate(step for step, _ in entry.horizons)
    return replace(
        _log_of(entry),
        checkpoint=entry.checkpoint,
        log_start=entry.start,
        log_end=entry.end,
        horizons=tuple(zip(ends, (ms for _, ms in entry.horizons), strict=True)),
        unseen=None if entry.unseen is None else Unseen(*entry.unseen),
        there_by=entry.there_by,
        trusted_to=entry.trusted_to,
        empty=entry.empty,
        replaced=tuple(Replaced(by, expired_to, _seen(seen)) for by, expired_to, *seen in entry.replaced),
        last_clean=last,
    )


def _migrated(entry: _EntryV1) -> LogState:
    """Returns the state that an entry of version 1 stands for.

    The start of the log is not taken over; retention sets it again. In version 1 it was either what retention had left
    or merely the first row that the first pass met. Rows that came before such a row belong to the log all the same.
    """
    last = entry.last_clean
    horizons = () if last.horizon_up_to is None else (last.horizon_up_to,)
    return replace(
        _log_of(entry),
        checkpoint=entry.checkpoint,
        log_end=entry.end,
        horizons=entry.horizons,
        last_clean=None if last.now is None else LastClean(last.now, None, horizons, last.markers or ()),
    )
