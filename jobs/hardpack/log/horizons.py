"""Delete horizons of one log: a short list of `(up to offset, horizon ms)`, by rising offset.

All tombstones first cleaned in one pass share a horizon (Kafka sets it per batch at the first recopy,
MemoryRecords.filterTo), so one entry per pass is enough. Markers of emptied transactions have theirs one by one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from hardpack.log.model import Horizon, LogState, LogView

Range = tuple[int, int]
"""Offsets from (inclusive) to (inclusive)."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How far a phase one went. Offsets.

    Kafka recopies whole segments, so with a full offset map `copied_to` lies behind the checkpoint: what is in
    between keeps its rows but for aborted ones, and its tombstones get their horizon.
    """

    first_dirty: int
    checkpoint: int
    copied_to: int
    first_uncleanable: int


def with_horizon(horizons: tuple[Horizon, ...], up_to: int, horizon_ms: int) -> tuple[Horizon, ...]:
    """Give the tombstones up to an offset that have no horizon yet this one; the others keep theirs."""
    if horizons and up_to <= horizons[-1][0]:
        return horizons
    return (*horizons, (up_to, horizon_ms))


def before(horizons: tuple[Horizon, ...], offset: int) -> tuple[Horizon, ...]:
    """The horizons of the tombstones before an offset."""
    whole = tuple(h for h in horizons if h[0] < offset)
    split = next((ms for up_to, ms in horizons if up_to >= offset), None)
    start = whole[-1][0] if whole else -1
    return whole if split is None or start >= offset - 1 else (*whole, (offset - 1, split))


def horizon_of(state: LogState, offset: int) -> int | None:
    """The horizon of a tombstone at an offset, ms, or None when it was never cleaned."""
    return next((ms for up_to, ms in state.horizons if offset <= up_to), None)


def due_ranges(state: LogState, now: int) -> tuple[Range, ...]:
    """Offsets whose tombstones may go at `now` (Cleaner.shouldDiscard: horizon <= now), below the checkpoint.

    What the last phase one gave a horizon at this very `now` is left out: in Kafka one pass does both,
    and it removes only what an earlier pass marked.
    """
    fresh = state.last_clean.get("horizon_up_to") if state.last_clean.get("now") == now else None
    ranges: list[Range] = []
    start = state.log_start or 0
    for up_to, horizon_ms in state.horizons:
        end = min(up_to, (state.checkpoint or 0) - 1)
        if horizon_ms <= now and up_to != fresh and start <= end:
            ranges.append((start, end))
        start = up_to + 1
    return tuple(ranges)


def due_markers(state: LogState, now: int) -> tuple[int, ...]:
    """Offsets of the transaction markers that may go at `now`; they do not wait for the checkpoint."""
    fresh = set(state.last_clean.get("markers", ())) if state.last_clean.get("now") == now else set()
    return tuple(o for ms, offsets in state.markers if ms <= now for o in offsets if o not in fresh)


def due(log: LogView, now: int) -> tuple[tuple[Range, ...], tuple[int, ...]]:
    """What phase two may take at `now`: ranges of tombstones and offsets of markers.

    Nothing while rows came late: they are for phase one to look at first, as the tombstones of their keys may be
    among these (invariant 9).
    """
    return ((), ()) if log.late is not None else (due_ranges(log.state, now), due_markers(log.state, now))


def in_ranges(ranges: tuple[Range, ...], offset: int) -> bool:
    """Whether an offset lies in one of the ranges."""
    return any(low <= offset <= high for low, high in ranges)


def after_clean(
    state: LogState,
    copied: Copied,
    log_start: int,
    log_end: int,
    now: int,
    delete_retention_ms: int,
    emptied: Collection[int] = (),
) -> LogState:
    """The state that phase one leaves: checkpoint at the map's end, a horizon for what was met first.

    Args:
        state: before the pass.
        copied: how far it went.
        log_start: first offset of the log.
        log_end: offset after its last row.
        now: the pass's time, ms.
        delete_retention_ms: from now to the horizon.
        emptied: offsets of the transaction markers without a row left.
    """
    horizon = now + delete_retention_ms
    known_horizons = state.horizons
    if copied.first_dirty < (state.checkpoint or 0):
        # rows came late: no tombstone among them may take over the horizon of its neighbours
        known_horizons = before(known_horizons, copied.first_dirty)
    horizons = with_horizon(known_horizons, copied.copied_to - 1, horizon)
    last: dict[str, Any] = {"now": now, "from": copied.first_dirty, "to": copied.checkpoint}
    if horizons != known_horizons:
        last["horizon_up_to"] = copied.copied_to - 1
    known = {o for _, offsets in state.markers for o in offsets}
    markers = state.markers
    if fresh := tuple(sorted(set(emptied) - known)):
        markers = (*markers, (horizon, fresh))
        last["markers"] = list(fresh)
    return replace(
        state,
        checkpoint=copied.checkpoint,
        log_start=log_start,
        log_end=max(state.log_end, log_end),
        horizons=horizons,
        markers=markers,
        last_clean=last,
    )


def after_expiry(state: LogState, served: tuple[Range, ...], markers: Collection[int] = ()) -> LogState:
    """The state that phase two leaves: the entries whose tombstones and markers are all gone are forgotten."""
    ends = {end for _, end in served}
    gone = set(markers)
    left = ((ms, tuple(o for o in offsets if o not in gone)) for ms, offsets in state.markers)
    return replace(
        state,
        horizons=tuple(h for h in state.horizons if h[0] not in ends),
        markers=tuple((ms, offsets) for ms, offsets in left if offsets),
        expired_to=max([state.expired_to, *ends]),
    )


def after_retention(state: LogState, log_start: int) -> LogState:
    """The state when the rows before the new log start are gone; the checkpoint is reset when it is next read."""
    markers = ((ms, tuple(o for o in offsets if o >= log_start)) for ms, offsets in state.markers)
    layout = tuple(b for b in state.layout if b >= log_start)
    return replace(
        state,
        log_start=log_start,
        horizons=tuple(h for h in state.horizons if h[0] >= log_start),
        markers=tuple((ms, offsets) for ms, offsets in markers if offsets),
        layout=layout if len(layout) > 1 else (),
    )
