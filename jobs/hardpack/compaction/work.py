"""What a pass is to do: how it is called, which logs, how far, and by which causes rows leave."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hardpack.compaction.report import PassReport, Phase
from hardpack.rules.causes import Cause
from hardpack.rules.grouping import group_segments
from hardpack.rules.horizons import Range, Reach, after_clean, after_expiry, covered_to, horizon_from, removable
from hardpack.rules.model import LogState, LogView, SeenCommits, Segment, SlowestReader
from hardpack.rules.selection import Decision, decide
from hardpack.rules.settings import Settings
from hardpack.rules.transactions import held_after
from hardpack.spark.log_rows import Bounds, LogRows
from hardpack.table.columns import LogColumns
from hardpack.table.lineage import was_seen
from hardpack.table.state import state_with_history


def request_id(asked: list[Any]) -> str:
    """Names a request by a hash of what was asked, so that a retry after the commit finds it done.

    Args:
        asked: JSON data.
    """
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PassRequest:
    """What a pass is called, and when and from where it works. Times are ms."""

    table: str
    phase: Phase
    plan: str
    """Id of the plan, by which a repeated request is known."""
    now: int
    base: int | None
    """The snapshot that it reads."""
    clock: Callable[[], int] | None = None
    """Returns the pass's time at a later moment, ms, as `now` is that of its begin; None if time stands still."""
    notes: tuple[str, ...] = ()
    """Remarks for people, such as why a planned log was left out."""
    commit_bytes: int | None = None
    """Most bytes of files that one commit rewrites, but at least one run of files; None for no limit."""

    @property
    def plan_summary(self) -> str:
        """The text by which the summary of a snapshot names the request that made it."""
        return f"{self.phase}:{self.plan}"

    def report(self, **outcome: Any) -> PassReport:
        """Makes the report of the pass.

        Args:
            outcome: fields of `PassReport` beside those that the request tells.
        """
        return PassReport(
            table=self.table, phase=self.phase, plan=self.plan, now=self.now, base=self.base, notes=self.notes,
            **outcome,
        )  # fmt: skip

    def commit_time(self) -> int:
        """Returns the time, ms, from which the delete horizons of a commit made now count."""
        return max(self.now, self.clock()) if self.clock else self.now


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the rows of a log tell a pass, apart from which of them are dead."""

    emptied: Sequence[int] = ()
    """Offsets of the markers of transactions of which no row is left."""
    last_batch: tuple[int, int] | None = None
    """`(offset, producer id)` of the transactional row that ends the round."""
    late_tombstones: Sequence[Range] = ()
    """Offset ranges of late tombstones, among the offsets to which earlier passes gave horizons."""
    expired_to: int = -1
    """The greatest offset of a tombstone that leaves because its horizon has passed, -1 when none does."""


@dataclass(frozen=True)
class LogWork(ABC):
    """One log of a pass, and the settings and the time, ms, that its rules go by. Subclasses say what is done to it."""

    view: LogView
    settings: Settings
    now: int

    @property
    def name(self) -> str:
        """The text of its partition."""
        return self.view.name

    @property
    def groups(self) -> list[list[Segment]]:
        """The segments in groups, each of which becomes one segment."""
        return [[segment] for segment in self.view.segments]

    @property
    def copied_to(self) -> int | None:
        """The offset from which on nothing is touched; None where whole segments leave."""
        return None

    @property
    def expired(self) -> tuple[Range, ...]:
        """Offset ranges whose tombstones have to go."""
        return ()

    @property
    def buffer_utilization_percent(self) -> float | None:
        """How much of the room for an offset map is used, percent; None without a map, or where it is not bounded."""
        return None

    def takes_from(self, reader: SlowestReader) -> bool:
        """Returns whether the pass removes a tombstone or marker that has to wait for a reader."""
        return False

    @abstractmethod
    def state_after(self, facts: LogFacts, base: int | None, seen: SeenCommits, commit: int) -> LogState:
        """Returns the state that the pass leaves.

        Args:
            facts: what the log's rows tell.
            base: the snapshot that the pass read.
            seen: the commits that it sees.
            commit: the time of the commit, ms.
        """


@dataclass(frozen=True)
class LogToClean(LogWork):
    """A log in phase one (Kafka's LogToClean)."""

    force: bool = False
    last_mapped: int | None = None
    """Last offset that the offset map covers; while it is None, the map counts as covering all below the bound."""
    mapped_keys: int | None = None
    """Keys that the offset map holds, None where it is not bounded."""

    @cached_property
    def decision(self) -> Decision:
        """What the rules decide about the log."""
        return decide(self.view, self.settings, self.now, self.force)

    @cached_property
    def reach(self) -> Reach:
        """How far phase one goes."""
        decision = self.decision
        end = decision.bound - 1 if self.last_mapped is None else self.last_mapped
        behind = (s.base_offset for s in self.view.segments if s.base_offset > end)
        return Reach(decision.first_dirty, end + 1, next(behind, self.view.log_end), decision.bound)

    @property
    def bounds(self) -> Bounds:
        """How far phase one goes, as Spark's jobs take it."""
        r = self.reach
        return Bounds(self.view.partition, r.first_dirty, r.map_end, r.copied_to, r.bound)

    @cached_property
    def groups(self) -> list[list[Segment]]:
        """The segments that Kafka would copy, as they begin before the map's end, in groups that become one each."""
        copied = tuple(s for s in self.view.segments if s.base_offset < self.reach.map_end)
        left = self.view.segments[len(copied) :]
        following = left[0].base_offset if left else None
        return group_segments(copied, self.settings.segment_bytes, self.decision.bound, following)

    @property
    def copied_to(self) -> int:
        """The offset at which the segments end that Kafka would copy."""
        return self.reach.copied_to

    @property
    def buffer_utilization_percent(self) -> float | None:
        """Keys in the offset map, percent of those that its buffer has slots for (SkimpyOffsetMap.utilization)."""
        slots = self.settings.map_slots
        return None if slots is None or self.mapped_keys is None else round(100 * self.mapped_keys / slots, 2)

    def state_after(self, facts: LogFacts, base: int | None, seen: SeenCommits, commit: int) -> LogState:
        """Returns the state with its checkpoint, new horizons and layout; a horizon counts from the commit."""
        view, reach = self.view, self.reach
        horizon = horizon_from(max(self.now, commit), self.settings.delete_retention_ms)
        state = after_clean(
            view.state, reach, view.log_end, self.now, horizon, view.files, facts.late_tombstones, facts.emptied,
            view.late_from is not None,
        )  # fmt: skip
        if state.unseen:
            state = replace(state, unseen=replace(state.unseen, known_to=seen.read))
        held = held_after(facts.last_batch, view.state.last_batch, reach.bound)
        return replace(state, layout=self._layout, last_batch=held, seen=seen)

    @property
    def _layout(self) -> tuple[int, ...]:
        """The base offsets of the segments that the pass leaves; segments beyond its reach stay as they were."""
        end = self.reach.copied_to
        left_end = max(self.view.state.layout, default=end)
        behind = [s.base_offset for s in self.view.segments if end < s.base_offset < left_end]
        copied = (*(group[0].base_offset for group in self.groups), end)
        return (*copied, *behind, left_end) if end < left_end else copied


@dataclass(frozen=True)
class LogToExpire(LogWork):
    """A log in phase two."""

    ranges: tuple[Range, ...] = ()
    """Offsets whose tombstones' horizon has passed."""
    markers: tuple[int, ...] = ()
    """Offsets of transaction markers whose horizon has passed."""

    @property
    def expired(self) -> tuple[Range, ...]:
        """Offset ranges whose tombstones have to go."""
        return self.ranges

    def takes_from(self, reader: SlowestReader) -> bool:
        """Returns whether a tombstone or marker that goes has to wait for a reader."""
        ranges, markers = removable(replace(self.view, slowest=reader), self.now)
        return not (set(self.ranges) <= set(ranges) and set(self.markers) <= set(markers))

    @property
    def end(self) -> int:
        """The checkpoint: no tombstone at or beyond it goes."""
        return self.view.state.checkpoint or 0

    @property
    def copied_to(self) -> int:
        """The checkpoint, or the end of what was copied: a marker may lie between them."""
        return max([self.end, *self.view.state.layout[-1:]])

    @property
    def bounds(self) -> Bounds:
        """What may go, as Spark's jobs take it."""
        return Bounds(self.view.partition, 0, self.end, self.end, self.end, self.ranges)

    def state_after(self, facts: LogFacts, base: int | None, seen: SeenCommits, commit: int) -> LogState:
        """Returns the state without the horizons that were served; unseen rows stay recorded for phase one."""
        view = self.view
        # beyond the checkpoint, tombstones may have come late among offsets that have their horizon already
        met = covered_to(view.state)
        behind = self.end <= met and any(
            f.min_offset <= met and f.tombstones != 0 and not was_seen(f, view.state) for f in view.files
        )
        all_seen = view.unseen_from is None and not behind
        state = replace(view.state, seen=seen, unseen=None) if all_seen else state_with_history(view, seen.read, base)
        after = after_expiry(state, self.ranges, self.markers, facts.expired_to)
        return replace(after, log_end=view.log_end)


@dataclass(frozen=True)
class PassWork:
    """A pass to run."""

    request: PassRequest
    settings: Settings
    """Settings of the table and its files, the same for all logs."""
    columns: LogColumns
    """Columns as the table calls them now."""
    logs: tuple[LogWork, ...]
    causes: tuple[Cause, ...]
    """The causes by which rows leave; each row leaves by exactly one of them."""
    rows: LogRows | None = None
    """The logs' rows, None where no row is read."""
    dry_run: bool = False
    """Whether nothing may be written, not even key filters."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.request.table

    @property
    def base(self) -> int:
        """The snapshot that the pass reads."""
        return self.request.base or 0
