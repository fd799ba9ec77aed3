"""What the next pass does to each row of one key, and why: the decisions of a pass, for single rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hardpack.rules.horizons import due_ranges, horizon_of, in_ranges, waited_for
from hardpack.rules.model import LogView
from hardpack.rules.retention import expired_segments
from hardpack.rules.selection import Decision, decide, first_uncleanable_offset, why_left_alone
from hardpack.rules.settings import Settings

Becomes = Literal["stays", "goes", "waits"]
"""`stays`: no pass drops the row. `goes`: the next one, or retention, does. `waits`: a pass does later, once it may."""


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """A data row of the key."""

    offset: int
    tombstone: bool = False
    aborted: bool = False
    """Whether its transaction was aborted."""
    repeated: bool = False
    """Whether another row with its offset stands for it; see `hardpack.spark.causes.duplicates`."""


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """What becomes of a row, why, and the time before which it does not go, ms, where that is known."""

    becomes: Becomes
    reason: str
    not_before: int | None = None


def row_verdicts(rows: Sequence[ExplainedRow], view: LogView, settings: Settings, now: int) -> list[RowVerdict]:
    """Says of each row of a key what retention or the next pass does to it (Cleaner.shouldRetainRecord, shouldDiscard).

    Args:
        rows: of one key in one log: at least those of the greatest offsets.
        view: the log, with the last stable offset that its open transactions set.
        settings: its settings.
        now: ms since the epoch.
    """
    # retention does not wait for transactions
    expired = expired_segments(replace(view, last_stable=None), settings, now).deleted
    retired = expired[-1].last_offset if expired and not why_left_alone(view) else -1
    decision = decide(view, settings, now)
    _, bounded_by = first_uncleanable_offset(view, settings, decision.first_dirty, now)
    standing = sorted(r.offset for r in rows if not (r.aborted or r.repeated))
    log = _Log(view, settings, now, decision, bounded_by)
    return [_past_retention(row, retired, settings) or _verdict_of(row, standing, log) for row in rows]


def _past_retention(row: ExplainedRow, retired: int, settings: Settings) -> RowVerdict | None:
    """Judges a row that only retention decides about; None for one that phase one or two decides about.

    Args:
        row: of the key.
        retired: last offset of the segments that the next retention deletes, -1 for none.
        settings: the log's.
    """
    if row.offset <= retired:
        return RowVerdict("goes", "its segment lies before the log start or is past retention.ms or retention.bytes; "
                          "the next retention deletes it")  # fmt: skip
    if not settings.compacts:
        return RowVerdict("stays", "cleanup.policy is delete, so that it goes with its segment by retention alone")
    return None


@dataclass(frozen=True, slots=True)
class _Log:
    view: LogView
    settings: Settings
    now: int
    decision: Decision
    bounded_by: str

    def out_of_reach(self, what: str) -> RowVerdict:
        return RowVerdict("waits", f"{what}; no pass may go that far yet ({self.bounded_by})")

    def phase_one(self, what: str) -> RowVerdict:
        if self.decision.due:
            return RowVerdict("goes", f"{what}; the next phase one drops it")
        return RowVerdict("waits", f"{what}; no phase one is due: {self.decision.reason}")


def _verdict_of(row: ExplainedRow, standing: Sequence[int], log: _Log) -> RowVerdict:
    decision = log.decision
    if row.repeated or row.aborted:
        what = "its transaction was aborted" if row.aborted else "another row stands for its offset"
        return log.phase_one(what) if row.offset < decision.bound else log.out_of_reach(what)
    newest = standing[-1]
    superseding = [o for o in standing if o > row.offset and decision.first_dirty <= o < decision.bound]
    if superseding:
        return log.phase_one(f"offset {superseding[-1]} supersedes it")
    if row.tombstone:
        # this may also be a tombstone that is superseded by a row where no pass may go yet
        return _tombstone(row, log)
    if newest == row.offset:
        return RowVerdict("stays", "the last row of its key")
    if newest >= decision.bound:
        return log.out_of_reach(f"offset {newest} supersedes it")
    return RowVerdict(
        "stays", f"offset {newest} supersedes it, but both lie below the checkpoint: see `hardpack verify`"
    )


def _tombstone(row: ExplainedRow, log: _Log) -> RowVerdict:
    """Judges a tombstone that nothing in reach supersedes: it waits for its delete horizon (KIP-534)."""
    decision, state, what = log.decision, log.view.state, "a tombstone"
    horizon = horizon_of(state, row.offset)
    if horizon is None:
        if row.offset >= decision.bound:
            return log.out_of_reach(what)
        when = "the next phase one" if decision.due else f"no phase one is due ({decision.reason}), the next one"
        return RowVerdict(
            "waits", f"{what}; {when} gives it a delete horizon {log.settings.delete_retention_ms} ms later"
        )
    if horizon > log.now:
        return RowVerdict("waits", f"{what}; its delete horizon has not passed", horizon)
    if log.view.unseen_from is not None and row.offset >= log.view.unseen_from:
        return RowVerdict(
            "waits", f"{what}; rows came late, which phase one looks at before any tombstone goes", horizon
        )
    # phase two follows phase one, which moves the checkpoint
    then = replace(state, checkpoint=decision.bound) if decision.due else state
    slowest = log.view.slowest
    if in_ranges(due_ranges(then, log.now), row.offset) and not in_ranges(
        due_ranges(then, log.now, slowest), row.offset
    ):
        return RowVerdict("waits", f"{what}; {waited_for(log.view, row.offset)} (horizon.readers=wait)", horizon)
    if not in_ranges(due_ranges(then, log.now), row.offset):
        return RowVerdict(
            "waits", f"{what}; a pass of this very time marked it, or it lies above the checkpoint", horizon
        )
    if decision.due or log.settings.idle_tombstones == "expire":
        return RowVerdict("goes", f"{what}; its delete horizon has passed, and the next phase two drops it", horizon)
    return RowVerdict("waits", f"{what}; phase two follows the next phase one (idle.tombstones=keep)", horizon)
