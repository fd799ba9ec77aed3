"""Delete horizons of one log: a short list of `(up to offset, horizon ms)`, by rising offset.

All tombstones first cleaned in one pass share a horizon (Kafka sets it per batch at the first recopy,
MemoryRecords.filterTo), so one entry per pass is enough. Markers of emptied transactions are listed one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from hardpack.rules.model import DataFile, Horizon, LastClean, LogState, LogView, SlowestReader, Unseen
from hardpack.rules.times import LONG_MAX, LONG_MIN, plus

Range = tuple[int, int]
"""Offsets from (inclusive) to (inclusive)."""
UNDATED = LONG_MAX
"""Takes the place of a horizon where tombstones still wait for a pass to give them one; it is never due."""
NEVER = UNDATED - 1
"""The horizon of tombstones that never go, as where delete.retention.ms says so."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a phase one goes. All values are offsets.

    Kafka recopies whole segments, so with a full offset map `copied_to` lies beyond the checkpoint. Between the two,
    only aborted rows leave, and tombstones get their horizon.
    """

    first_dirty: int
    map_end: int
    copied_to: int
    bound: int


def horizon_from(commit: int, delete_retention_ms: int) -> int:
    """Returns the delete horizon, ms, that a pass with its commit at this time, ms, gives to tombstones new to it."""
    return min(plus(commit, delete_retention_ms), NEVER)


def with_horizon(horizons: tuple[Horizon, ...], up_to: int, horizon_ms: int) -> tuple[Horizon, ...]:
    """Returns the horizons with one for tombstones after the last entry and up to `up_to`; earlier ones keep theirs."""
    if horizons and up_to <= horizons[-1][0]:
        return horizons
    # while tombstones never go, every pass gives NEVER, and the list must not grow with each of them
    before = horizons[:-1] if horizons and horizons[-1][1] == horizon_ms == NEVER else horizons
    return (*before, (up_to, horizon_ms))


def with_ranges(horizons: tuple[Horizon, ...], ranges: Collection[Range], horizon_ms: int) -> tuple[Horizon, ...]:
    """Returns the horizons with one of its own for late tombstones; the tombstones around them keep theirs.

    Args:
        horizons: the entries before; offsets after the last one are left to `with_horizon`.
        ranges: offset ranges of the late tombstones; every tombstone inside gets the horizon.
        horizon_ms: the horizon of the late tombstones, ms since the epoch.
    """
    if not horizons or not ranges:
        return horizons
    end = horizons[-1][0]
    inside = [(low, min(high, end)) for low, high in ranges if low <= end]
    edges = sorted({up_to for up_to, _ in horizons} | {low - 1 for low, _ in inside} | {high for _, high in inside})
    pieces = [(e, horizon_ms if in_ranges(tuple(inside), e) else _at(horizons, e)) for e in edges]
    # a new entry is needed only where its horizon differs from the next one's; entries from before stay
    before = {up_to for up_to, _ in horizons}
    following = [ms for _, ms in pieces[1:]] + [None]
    return tuple(p for p, after in zip(pieces, following, strict=True) if p[0] in before or p[1] != after)


def _undated(horizons: tuple[Horizon, ...]) -> list[Range]:
    """Returns the offset ranges in which tombstones still wait for a pass to give them a horizon."""
    starts = (LONG_MIN, *(up_to + 1 for up_to, _ in horizons))
    return [(start, up_to) for start, (up_to, ms) in zip(starts, horizons, strict=False) if ms == UNDATED]


def _at(horizons: tuple[Horizon, ...], offset: int) -> int:
    return next(ms for up_to, ms in horizons if offset <= up_to)


def covered_to(state: LogState) -> int:
    """Returns the last offset to which passes gave horizons, -1 when they gave none.

    It may lie beyond the checkpoint.
    """
    return state.horizons[-1][0] if state.horizons else -1


def horizon_of(state: LogState, offset: int) -> int | None:
    """Returns the horizon of a tombstone at an offset, ms, or None when it was never cleaned."""
    return next((ms for up_to, ms in state.horizons if offset <= up_to), None)


def without_empty(horizons: tuple[Horizon, ...], files: Iterable[DataFile]) -> tuple[Horizon, ...]:
    """Returns the horizons without the entries of ranges in which no file can hold a tombstone.

    Such a range then falls to the next entry, whose horizon is another. That changes nothing, as no tombstone is there.
    """
    spans: list[Range] = []
    for low, high in sorted((f.min_offset, f.max_offset) for f in files if f.tombstones != 0):
        if spans and low <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], high)
        else:
            spans.append((low, high))
    kept: list[Horizon] = []
    start = LONG_MIN
    for up_to, ms in horizons:
        at = bisect_left(spans, start, key=lambda span: span[1])
        if at < len(spans) and spans[at][0] <= up_to:
            kept.append((up_to, ms))
        start = up_to + 1
    return tuple(kept)


def dated_anew(state: LogState, horizon_ms: int) -> LogState:
    """Returns the state with one horizon for all offsets that passes have covered, as the tombstone rule has changed.

    Args:
        state: of the log.
        horizon_ms: the horizon, or `UNDATED` to let the next phase one give one.
    """
    if state.checkpoint is None:
        return state
    return replace(state, horizons=((max(covered_to(state), state.checkpoint - 1), horizon_ms),))


def dated(state: LogState, horizon_ms: int) -> LogState:
    """Returns the state with this horizon, ms, for tombstones below the checkpoint that a rollback left without one.

    Undated tombstones at the checkpoint or beyond it are late ones, and wait for the pass that covers them.
    """
    undated = {up_to for start, up_to in _undated(state.horizons) if start < (state.checkpoint or 0)}
    return replace(state, horizons=tuple((o, horizon_ms if o in undated else ms) for o, ms in state.horizons))


def undone_clock(
    state: LogState, now: int, delete_retention_ms: int, right_before: Collection[int] | None = None
) -> LogState:
    """Returns the state with the horizons put right that phases one gave by a clock in the future.

    Such a horizon becomes `now` plus `delete_retention_ms`, unless it is earlier. Horizons that are never due stay.

    Args:
        state: of the log.
        now: ms since the epoch.
        delete_retention_ms: how long such a tombstone stays from `now` on.
        right_before: the horizons, ms, that stood before the first of these phases one. None where no snapshot tells
            them: then only the horizon that the last phase one gave is put right.
    """
    right, given = horizon_from(now, delete_retention_ms), state.last_clean.given if state.last_clean else None

    def bounded(ms: int) -> int:
        wrong = ms == given if right_before is None else ms not in right_before
        return min(ms, right) if wrong and ms not in (NEVER, UNDATED) else ms

    return replace(
        state,
        last_clean=LastClean(now),
        horizons=tuple((up_to, bounded(ms)) for up_to, ms in state.horizons),
        markers=tuple((bounded(ms), offsets) for ms, offsets in state.markers),
    )


def due_ranges(state: LogState, now: int, slowest: SlowestReader | None = None) -> tuple[Range, ...]:
    """Returns the offsets below the checkpoint whose tombstones may go at `now` (Cleaner.shouldDiscard).

    Tombstones that got their horizon from a phase one at this very `now` are left out: in Kafka one pass does both, and
    it removes only what an earlier pass marked.

    Args:
        state: of the log.
        now: ms since the epoch.
        slowest: the reader that tombstones wait for; None for no reader. Tombstones that share a horizon go together,
            once the reader has passed all of them.
    """
    fresh = set(last.horizons) if (last := _clean_at(state, now)) else set[int]()
    ranges: list[Range] = []
    start = 0
    for up_to, horizon_ms in state.horizons:
        end = min(up_to, (state.checkpoint or 0) - 1)
        waits = slowest is not None and slowest.keeps(end, horizon_ms, now)
        if horizon_ms <= now and up_to not in fresh and start <= end and not waits:
            ranges.append((start, end))
        start = up_to + 1
    return tuple(ranges)


def _clean_at(state: LogState, now: int) -> LastClean | None:
    """Returns what the last phase one recorded if it ran at this very time, else None."""
    return state.last_clean if state.last_clean and state.last_clean.now == now else None


def due_markers(state: LogState, now: int, slowest: SlowestReader | None = None) -> tuple[int, ...]:
    """Returns the offsets of the transaction markers that may go at `now`; they do not wait for the checkpoint."""
    fresh = set(last.markers) if (last := _clean_at(state, now)) else set[int]()
    due = ((ms, o) for ms, offsets in state.markers if ms <= now for o in offsets if o not in fresh)
    return tuple(o for ms, o in due if slowest is None or not slowest.keeps(o, ms, now))


class Removable(NamedTuple):
    """What phase two may remove from a log. Offsets."""

    ranges: tuple[Range, ...]
    """Offsets of tombstones whose horizon has passed, first and last of each range."""
    markers: tuple[int, ...]


def removable(log: LogView, now: int) -> Removable:
    """Returns what phase two may remove from a log at `now`.

    While a row below the checkpoint is unseen, no marker goes, and no tombstone at or after the first such row. Phase
    one has to clean these rows first, as the tombstones of their keys may be among the due ones (invariant 9). A
    tombstone before the first unseen row deletes none of them.
    """
    ranges, markers = due_ranges(log.state, now, log.slowest), due_markers(log.state, now, log.slowest)
    if log.unseen_from is None:
        return Removable(ranges, markers)
    seen = tuple((low, min(high, log.unseen_from - 1)) for low, high in ranges if low < log.unseen_from)
    return Removable(seen, ())


def waiting_for_reader(log: LogView, now: int) -> bool:
    """Returns whether tombstones or markers of a log wait for nothing but the named reader."""
    alone = due_ranges(log.state, now), due_markers(log.state, now)
    return alone != (due_ranges(log.state, now, log.slowest), due_markers(log.state, now, log.slowest))


def waited_for(log: LogView, offset: int) -> str:
    """Returns a clause that names the reader which a tombstone past its horizon waits for; empty without a reader.

    Args:
        log: the view of the log.
        offset: of the tombstone.
    """
    reader, end = log.slowest, next((up_to for up_to, _ in log.state.horizons if offset <= up_to), offset)
    if reader is None:
        return ""
    shared = "" if end == offset else ", the last that shares its horizon"
    return f"reader {reader.name}, which goes on at offset {reader.position}, has to pass offset {end}{shared}"


def in_ranges(ranges: tuple[Range, ...], offset: int) -> bool:
    """Returns whether an offset lies in one of the ranges."""
    return any(low <= offset <= high for low, high in ranges)


def after_clean(
    state: LogState,
    copied: Reach,
    log_end: int,
    now: int,
    horizon: int,
    files: Collection[DataFile] | None = None,
    late_tombstones: Collection[Range] = (),
    emptied: Collection[int] = (),
    late_rows: bool = False,
) -> LogState:
    """Returns the state that phase one leaves: the checkpoint at the map's end, and horizons for tombstones new to it.

    Args:
        state: of the log before the pass.
        copied: how far the pass went.
        log_end: offset after the log's last row.
        now: the time that the pass decides by, ms.
        horizon: of tombstones and markers new to the pass, ms: the time of its commit plus delete.retention.ms.
        files: of the log before the pass, None when nobody knows where tombstones may be.
        late_tombstones: offset ranges of late tombstones, among the offsets that earlier passes covered.
        emptied: offsets of the transaction markers without a row left.
        late_rows: whether there are late rows that are no rewrite of rows that were there.
    """
    end = copied.copied_to - 1
    # late tombstones that an earlier pass knew of, and that lay beyond its reach, wait for a horizon too
    late = [*late_tombstones, *_undated(state.horizons)]
    horizons = with_ranges(state.horizons, [(low, high) for low, high in late if high > end], UNDATED)
    horizons = with_ranges(horizons, [(low, min(high, end)) for low, high in late if low <= end], horizon)
    horizons = with_horizon(horizons, copied.copied_to - 1, horizon)
    if files is not None:
        horizons = without_empty(horizons, files)
    before = state.horizons
    fresh = tuple(up_to for up_to, ms in horizons if (up_to, ms) not in before)
    met = {o for _, offsets in state.markers for o in offsets}
    new = tuple(sorted(set(emptied) - met))
    markers = (*state.markers, (horizon, new)) if new else state.markers
    given, passed = horizon if fresh or new else None, horizon <= now
    last = LastClean(now, given, fresh if passed else (), new if passed else ())
    checkpoint, unseen = copied.map_end, None
    if state.checkpoint is not None and checkpoint < state.checkpoint <= log_end:
        # the offset map was full before it had covered all late rows: they stay unseen, as a checkpoint never goes back
        unseen = Unseen(checkpoint, checkpoint if late_rows else None)
        checkpoint = state.checkpoint
    return replace(
        state,
        checkpoint=checkpoint,
        log_start=state.log_start if state.log_start is None else min(state.log_start, copied.first_dirty),
        unseen=unseen,
        log_end=max(state.log_end, log_end),
        trusted_to=0,
        horizons=horizons,
        markers=markers,
        last_clean=last,
    )


def after_expiry(
    state: LogState, served: tuple[Range, ...], markers: Collection[int] = (), expired_to: int = -1
) -> LogState:
    """Returns the state that phase two leaves, without the entries whose tombstones and markers are all gone.

    An entry may lie across the checkpoint, or across the first unseen row. Then only its tombstones before that are
    gone: the entry is split there, and its first part is never due again.

    Args:
        state: of the log before the pass.
        served: offset ranges whose tombstones were due.
        markers: offsets of the markers that left.
        expired_to: the greatest offset of a tombstone that left, -1 when none did.
    """
    ends = {end for _, end in served}
    gone = set(markers)
    left = ((ms, tuple(o for o in offsets if o not in gone)) for ms, offsets in state.markers)
    horizons = tuple(h for h in state.horizons if h[0] not in ends)
    cut = (ends - {up_to for up_to, _ in state.horizons}) | (ends & {(state.checkpoint or 0) - 1})
    for end in sorted(cut):
        if behind := tuple(h for h in horizons if h[0] > end):
            # of two neighbouring entries that are never due, the second one is enough
            before = tuple(h for h in horizons if h[0] < end)
            horizons = (*(before[:-1] if before[-1:] and before[-1][1] == NEVER else before), (end, NEVER), *behind)
    return replace(
        state,
        horizons=horizons,
        markers=tuple((ms, offsets) for ms, offsets in left if offsets),
        expired_to=max(state.expired_to, expired_to),
    )


def after_retention(state: LogState, log_start: int, expired_to: int = -1) -> LogState:
    """Returns the state that retention leaves, once the rows before the new log start are gone.

    A checkpoint below the new log start moves up to it, as in Kafka.

    Args:
        state: of the log before.
        log_start: the new log start.
        expired_to: the greatest offset of a tombstone that left, as far as metadata tells; -1 when none did.
    """
    markers = ((ms, tuple(o for o in offsets if o >= log_start)) for ms, offsets in state.markers)
    layout = tuple(b for b in state.layout if b >= log_start)
    unseen = state.unseen
    if unseen is not None:
        unseen_from, late_from = (
            None if o is None else max(o, log_start) for o in (unseen.unseen_from, unseen.late_from)
        )
        unseen = replace(unseen, unseen_from=unseen_from, late_from=late_from)
    return replace(
        state,
        checkpoint=None if state.checkpoint is None else max(state.checkpoint, log_start),
        log_start=log_start,
        unseen=unseen,
        expired_to=max(state.expired_to, expired_to),
        horizons=tuple(h for h in state.horizons if h[0] >= log_start),
        markers=tuple((ms, offsets) for ms, offsets in markers if offsets),
        layout=layout if len(layout) > 1 else (),
    )
