"""Delete horizons of one log: a short list of `(up to offset, horizon ms)`, by rising offset.

All tombstones first cleaned in one pass share a horizon (Kafka sets it per batch at the first recopy,
MemoryRecords.filterTo), so one entry per pass is enough.
"""

from __future__ import annotations

from dataclasses import replace

from hardpack.log.model import Horizon, LogState

Range = tuple[int, int]
"""Offsets from (inclusive) to (inclusive)."""


def with_horizon(horizons: tuple[Horizon, ...], up_to: int, horizon_ms: int) -> tuple[Horizon, ...]:
    """Give the tombstones up to an offset that have no horizon yet this one; the others keep theirs."""
    if horizons and up_to <= horizons[-1][0]:
        return horizons
    return (*horizons, (up_to, horizon_ms))


def horizon_of(horizons: tuple[Horizon, ...], offset: int) -> int | None:
    """The horizon of a tombstone at an offset, ms, or None when it was never cleaned."""
    return next((ms for up_to, ms in horizons if offset <= up_to), None)


def due_ranges(state: LogState, now: int) -> tuple[Range, ...]:
    """Offsets whose tombstones may go at `now` (Cleaner.shouldDiscard: horizon <= now), below the checkpoint.

    What the last phase one gave a horizon at this very `now` is left out: in Kafka one pass does both,
    and it removes only what an earlier pass marked.
    """
    fresh = state.last_clean.get("horizon_up_to") if state.last_clean.get("now") == now else None
    ranges: list[Range] = []
    start = state.log_start
    for up_to, horizon_ms in state.horizons:
        end = min(up_to, (state.checkpoint or 0) - 1)
        if horizon_ms <= now and up_to != fresh and start <= end:
            ranges.append((start, end))
        start = up_to + 1
    return tuple(ranges)


def in_ranges(ranges: tuple[Range, ...], offset: int) -> bool:
    """Whether an offset lies in one of the ranges."""
    return any(low <= offset <= high for low, high in ranges)


def after_clean(
    state: LogState, first_dirty: int, first_uncleanable: int, log_end: int, now: int, delete_retention_ms: int
) -> LogState:
    """The state that phase one leaves: checkpoint at the bound, a horizon for the tombstones met first."""
    horizons = with_horizon(state.horizons, first_uncleanable - 1, now + delete_retention_ms)
    last = {"now": now, "from": first_dirty, "to": first_uncleanable}
    if horizons != state.horizons:
        last["horizon_up_to"] = first_uncleanable - 1
    return replace(
        state,
        checkpoint=first_uncleanable,
        log_end=max(state.log_end, log_end),
        horizons=horizons,
        last_clean=last,
    )


def after_expiry(state: LogState, served: tuple[Range, ...]) -> LogState:
    """The state that phase two leaves: the entries whose tombstones are all gone are forgotten."""
    ends = {end for _, end in served}
    return replace(state, horizons=tuple(h for h in state.horizons if h[0] not in ends))
