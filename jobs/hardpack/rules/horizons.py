"""Delete horizons of one log: a short list of `(up to offset, horizon ms)`, by rising offset.

All tombstones first cleaned in one pass share a horizon (Kafka sets it per batch at the first recopy,
MemoryRecords.filterTo), so one entry per pass is enough. Markers of emptied transactions have theirs one by one.
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
"""Stands for the horizon of tombstones that came late and that no pass has covered yet; no pass gives it."""
NEVER = UNDATED - 1
"""The horizon where delete.retention.ms says that tombstones stay."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a phase one went. Offsets.

    Kafka recopies whole segments, so with a full offset map `copied_to` lies behind the checkpoint: what is in
    between keeps its rows but for aborted ones, and its tombstones get their horizon.
    """

    first_dirty: int
    map_end: int
    copied_to: int
    bound: int


def horizon_from(commit: int, delete_retention_ms: int) -> int:
    """Returns the delete horizon, ms, of the tombstones that a pass meets first which commits at this time, ms."""
    return min(plus(commit, delete_retention_ms), NEVER)


def with_horizon(horizons: tuple[Horizon, ...], up_to: int, horizon_ms: int) -> tuple[Horizon, ...]:
    """Gives a horizon to the tombstones up to an offset that lie behind all that have one; the others keep theirs."""
    if horizons and up_to <= horizons[-1][0]:
        return horizons
    # each pass gives this one, and the list must not grow by it
    before = horizons[:-1] if horizons and horizons[-1][1] == horizon_ms == NEVER else horizons
    return (*before, (up_to, horizon_ms))


def with_ranges(horizons: tuple[Horizon, ...], ranges: Collection[Range], horizon_ms: int) -> tuple[Horizon, ...]:
    """Gives a horizon of their own to tombstones that came late, between others that keep theirs.

    Args:
        horizons: before; offsets behind the last entry are left to `with_horizon`.
        ranges: offsets that hold tombstones which came late, and no others.
        horizon_ms: theirs, ms since the epoch.
    """
    if not horizons or not ranges:
        return horizons
    end = horizons[-1][0]
    inside = [(low, min(high, end)) for low, high in ranges if low <= end]
    edges = sorted({up_to for up_to, _ in horizons} | {low - 1 for low, _ in inside} | {high for _, high in inside})
    pieces = [(e, horizon_ms if in_ranges(tuple(inside), e) else _at(horizons, e)) for e in edges]
    # an entry that says what the next one says is not needed, but for those that were there
    before = {up_to for up_to, _ in horizons}
    following = [ms for _, ms in pieces[1:]] + [None]
    return tuple(p for p, after in zip(pieces, following, strict=True) if p[0] in before or p[1] != after)


def _undated(horizons: tuple[Horizon, ...]) -> list[Range]:
    """Returns the offsets of tombstones that no pass has covered yet; nothing else is between others and never due."""
    starts = (LONG_MIN, *(up_to + 1 for up_to, _ in horizons))
    return [(start, up_to) for start, (up_to, ms) in zip(starts, horizons, strict=False) if ms == UNDATED]


def _at(horizons: tuple[Horizon, ...], offset: int) -> int:
    return next(ms for up_to, ms in horizons if offset <= up_to)


def covered_to(state: LogState) -> int:
    """Returns the last offset to which passes gave horizons, -1 when they gave none.

    It may lie behind the checkpoint.
    """
    return state.horizons[-1][0] if state.horizons else -1


def horizon_of(state: LogState, offset: int) -> int | None:
    """Returns the horizon of a tombstone at an offset, ms, or None when it was never cleaned."""
    return next((ms for up_to, ms in state.horizons if offset <= up_to), None)


def without_empty(horizons: tuple[Horizon, ...], files: Iterable[DataFile]) -> tuple[Horizon, ...]:
    """Forgets the horizons of ranges in which no file can hold a tombstone.

    The range then counts to the next entry, whose horizon is another: that changes nothing where there is none.
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
    """Returns the state with one horizon for all tombstones that passes have met, as other rows are tombstones now.

    Args:
        state: of the log.
        horizon_ms: the horizon, or `UNDATED`, so that the next phase one gives them theirs.
    """
    if state.checkpoint is None:
        return state
    return replace(state, horizons=((max(covered_to(state), state.checkpoint - 1), horizon_ms),))


def dated(state: LogState, horizon_ms: int) -> LogState:
    """Returns the state with this horizon, ms, where a rollback left tombstones without one.

    Late ones that no pass has covered lie at the checkpoint or behind it, and wait for that pass.
    """
    undated = {up_to for start, up_to in _undated(state.horizons) if start < (state.checkpoint or 0)}
    return replace(state, horizons=tuple((o, horizon_ms if o in undated else ms) for o, ms in state.horizons))


def undone_clock(
    state: LogState, now: int, delete_retention_ms: int, right_before: Collection[int] | None = None
) -> LogState:
    """Returns the state when the last phases one were made by a clock in the future.

    What they gave a horizon counts from `now`, but for what is never due.

    Args:
        state: of the log.
        now: ms since the epoch.
        delete_retention_ms: what such a tombstone gets from now on.
        right_before: the horizons that stood before the first of them; None where nobody tells, so that only those
            count from now that the last one gave.
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

    What the last phase one gave a horizon at this very `now` is left out: in Kafka one pass does both,
    and it removes only what an earlier pass marked.

    Args:
        state: the log's.
        now: ms since the epoch.
        slowest: the reader that tombstones wait for. What shares a horizon goes together, once it has passed all of it.
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
    """Returns the last phase one if it was at this very time."""
    return state.last_clean if state.last_clean and state.last_clean.now == now else None


def due_markers(state: LogState, now: int, slowest: SlowestReader | None = None) -> tuple[int, ...]:
    """Returns the offsets of the transaction markers that may go at `now`; they do not wait for the checkpoint."""
    fresh = set(last.markers) if (last := _clean_at(state, now)) else set[int]()
    due = ((ms, o) for ms, offsets in state.markers if ms <= now for o in offsets if o not in fresh)
    return tuple(o for ms, o in due if slowest is None or not slowest.keeps(o, ms, now))


class Removable(NamedTuple):
    """What phase two may take of a log. Offsets."""

    ranges: tuple[Range, ...]
    """Offsets of tombstones whose horizon has passed, first and last of each range."""
    markers: tuple[int, ...]


def removable(log: LogView, now: int) -> Removable:
    """Returns what phase two may take at `now`.

    From the first row on that came late nothing goes: phase one has to look at late rows first, as the tombstones of
    their keys may be among these (invariant 9). A tombstone before it deletes none of them.
    """
    ranges, markers = due_ranges(log.state, now, log.slowest), due_markers(log.state, now, log.slowest)
    if log.unseen_from is None:
        return Removable(ranges, markers)
    seen = tuple((low, min(high, log.unseen_from - 1)) for low, high in ranges if low < log.unseen_from)
    return Removable(seen, ())


def waiting_for_reader(log: LogView, now: int) -> bool:
    """Returns whether tombstones or markers of a log, or their neighbours, would be due but for a reader."""
    alone = due_ranges(log.state, now), due_markers(log.state, now)
    return alone != (due_ranges(log.state, now, log.slowest), due_markers(log.state, now, log.slowest))


def waited_for(log: LogView, offset: int) -> str:
    """Returns whom a tombstone past its horizon waits for, as a clause; empty where it waits for nobody.

    Args:
        log: the view of the log.
        offset: the tombstone's.
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
    """Returns the state that phase one leaves: checkpoint at the map's end, a horizon for what was met first.

    Args:
        state: before the pass.
        copied: how far it went.
        log_end: offset after the log's last row.
        now: the time that the pass decides by, ms.
        horizon: of what it meets first, ms: the time of its commit and delete.retention.ms.
        files: of the log before the pass, None when nobody knows where tombstones may be.
        late_tombstones: offsets, among those that earlier passes covered, of tombstones that came since.
        emptied: offsets of the transaction markers without a row left.
        late_rows: whether rows came late that are no rewrite of rows that were there.
    """
    end = copied.copied_to - 1
    # what an earlier pass saw coming late and did not come to
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
        # rows came late and the offset map is full before it is through with them; a checkpoint never goes back
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
    """Returns the state that phase two leaves: the entries whose tombstones and markers are all gone are forgotten.

    Of an entry that lies across the checkpoint, or across rows that phase one has to look at first, those before are
    gone, and nothing there is due again.

    Args:
        state: before the pass.
        served: offsets whose tombstones were due.
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
            # of two neighbours that are never due the second is enough
            before = tuple(h for h in horizons if h[0] < end)
            horizons = (*(before[:-1] if before[-1:] and before[-1][1] == NEVER else before), (end, NEVER), *behind)
    return replace(
        state,
        horizons=horizons,
        markers=tuple((ms, offsets) for ms, offsets in left if offsets),
        expired_to=max(state.expired_to, expired_to),
    )


def after_retention(state: LogState, log_start: int, expired_to: int = -1) -> LogState:
    """Returns the state when the rows before the new log start are gone.

    The checkpoint goes up with it, as in Kafka.

    Args:
        state: before.
        log_start: the new one.
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
