"""The plan: per log what to do and why, from metadata alone. JSON in and out, named by the hash of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pyiceberg.table import Table

from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.files.data_files import DataFiles
from hardpack.rules.horizons import Range, due, due_ranges, waiting_for_reader
from hardpack.rules.model import DataFile, LogView, Partition
from hardpack.rules.selection import decide, has_rows_of, left_alone, past_max_lag, refused_late_rows, steady_until
from hardpack.rules.settings import Order, Settings
from hardpack.rules.times import LONG_MAX, plus
from hardpack.table.columns import table_name
from hardpack.table.log_views import ManifestCache, TableLogs, read_logs, table_logs

SETTINGS_SINCE_VERSION_1 = ("segment_ms", "horizon_readers", "horizon_readers_limit_ms")
"""Settings that came after plans of version 1."""
Action = Literal["clean", "expire", "none"]


class LogPlan(BaseModel):
    """One log's decision. Offsets, bytes, ms. `clean` runs both phases, `expire` only phase two."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: Partition
    action: Action
    reason: str
    checkpoint: int | None
    first_dirty: int
    first_uncleanable: int
    bound: int
    """Where the round ends: `first_uncleanable` brought down to the base of its segment."""
    last_stable: int | None
    """From here on rows are not final, as far as the caller knew; open transactions are looked for when it runs."""
    log_end: int
    clean_bytes: int
    cleanable_bytes: int
    ratio: float
    overdue_ms: int
    expired: tuple[Range, ...]
    """Offsets whose tombstones' horizon has passed, for who reads the plan; phase two looks again when it runs."""
    uncleanable: bool = False
    """Whether a failed pass marked the log, which is left alone until it is resumed."""
    held: bool = False
    """Whether no pass will clean the log before somebody does something about it, other than to undo a pause."""
    paused: bool = False
    until: int = 0
    """The time before which the decision stays as it is while the table does, ms."""

    @property
    def bytes(self) -> int:
        """What a pass may have to read."""
        return self.clean_bytes + self.cleanable_bytes

    def urgency(self, order: Order) -> tuple[float, float]:
        """Smaller for what goes first: by ratio as in Kafka (grabFilthiestCompactedLog), or by ms overdue before it."""
        return (-self.overdue_ms if order == "overdue" else 0, -self.ratio)


class Split(BaseModel):
    """Files that may hold rows of several logs, and what to plan anew once they are taken apart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int
    bytes: int
    overdue_ms: int = 0
    """By how much the oldest row in them has passed max.compaction.lag.ms."""
    partitions: tuple[Partition, ...] | None = None
    """The logs that were asked for, None for all; nobody knows yet which there are."""
    last_stable: dict[str, int] | None = None
    interval: tuple[int, int] | None = None

    @classmethod
    def of(cls, files: Sequence[DataFile], settings: Settings, now: int, **asked: Any) -> Self | None:
        """Returns what has to be split, None for no file.

        Args:
            files: those that may hold rows of several logs.
            settings: the table's.
            now: ms since the epoch.
            asked: what the plan was asked for.
        """
        if not files:
            return None
        late = past_max_lag([at for f in files if (at := f.min_timestamp or 0) > 0], settings, now)
        return cls(files=len(files), bytes=sum(f.bytes for f in files), overdue_ms=late, **asked)

    def __str__(self) -> str:
        """Returns what is done first, for people."""
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"split first: {files} that may hold rows of several logs"


class Plan(BaseModel):
    """What to do to one table, from one snapshot, at one time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    table: str
    uuid: str
    snapshot: int | None
    now: int
    clock: int | None = None
    """What the clock said when it was `now`, ms; a later commit counts delete horizons from as much later."""
    force: bool
    settings: Settings
    merge_on_read: bool = False
    """Whether files with few dead rows may stay under deletion vectors."""
    split: Split | None = None
    """What is taken apart before anything else, None where nothing has to be."""
    made_for: str = ""
    """Id of the plan in whose stead this one was made, after a split; empty for none."""
    logs: tuple[LogPlan, ...]

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.split or self.doing("clean", "expire"))

    @property
    def partitions(self) -> list[Partition] | None:
        """The logs that it is about; None for all there are, as a split may bring others."""
        if self.split:
            return None if self.split.partitions is None else list(self.split.partitions)
        return [log.partition for log in self.logs]

    def is_about(self, partition: Partition) -> bool:
        """Returns whether a log is of those planned, or may be once files are split."""
        return self.partitions is None or str(partition) in map(str, self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes that a pass over its logs, and a split before it, may have to read."""
        return (self.split.bytes if self.split else 0) + sum(log.bytes for log in self.logs)

    def urgency(self, order: Order) -> tuple[float, float]:
        """The most urgent log's; what has to be split may be all dirty."""
        split = [(-self.split.overdue_ms if order == "overdue" else 0, -1.0)] if self.split else []
        return min([*split, *(log.urgency(order) for log in self.logs)])

    @property
    def until(self) -> int:
        """The time before which another plan of the same table says the same, ms."""
        if self.split:
            # it says how late that is
            return self.now
        return min((log.until for log in self.logs), default=LONG_MAX)

    @property
    def id(self) -> str:
        """Hash of the content; a commit carries it, so that the same plan applied twice does nothing."""
        if self.made_for:
            return self.made_for
        # what a plan without it says has the name that an older version gave it
        new = {"made_for"} if self.split else {"made_for", "split"}
        without: dict[str, Any] = {**dict.fromkeys(new, True), "settings": self._newer_settings}
        content = self.model_copy(update={"clock": None}).model_dump_json(by_alias=True, exclude=without)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def time_at(self, clock: int) -> int:
        """Returns the plan's time as it has gone on since, ms.

        That is `now` and what the clock, ms, has moved on.
        """
        return self.now if self.clock is None else plus(self.now, max(0, clock - self.clock))

    def to_json(self) -> str:
        """Returns the plan as JSON, one line."""
        return self.model_dump_json(by_alias=True, exclude={"settings": self._newer_settings})

    @property
    def _newer_settings(self) -> set[str]:
        """Settings that older versions do not know, as far as they are what older versions did."""
        return {
            name
            for name in SETTINGS_SINCE_VERSION_1
            if getattr(self.settings, name) == Settings.model_fields[name].default
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the plan that `to_json` wrote.

        Raises:
            BadInput: it is no plan.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the text"
            raise BadInput(
                f"this is no plan ({where}: {first['msg']}); make one with `hardpack plan TABLE --json`."
            ) from None

    def doing(self, *actions: Action) -> tuple[LogPlan, ...]:
        """Returns the logs with one of the actions, in the plan's order."""
        return tuple(p for p in self.logs if p.action in actions)

    def units(self, unit_bytes: int) -> list[Plan]:
        """Returns the work in pieces of at most so many bytes (but at least one log), each a plan of its own.

        Where files have to be split nobody knows yet what there is to do after that, so that it is one piece.
        """
        if self.split:
            return [self]
        units: list[list[LogPlan]] = []
        size = 0
        for log in self.doing("clean", "expire"):
            if not units or size + log.bytes > unit_bytes:
                units.append([])
                size = 0
            units[-1].append(log)
            size += log.bytes
        return [self.model_copy(update={"logs": tuple(u)}) for u in units]


def make_plan(
    session: TableSession,
    now: int,
    partitions: Sequence[Partition] | None = None,
    force: bool = False,
    last_stable: Mapping[str, int] | None = None,
    order: Order = "filthiest",
    interval: tuple[int, int] | None = None,
    clock: int | None = None,
    settings: Settings | None = None,
) -> Plan:
    """Decides for every log of a table, from metadata alone.

    Args:
        session: the table's; its current snapshot is the plan's base.
        now: ms since the epoch.
        partitions: only these logs; None for all.
        force: clean whatever is cleanable, whatever the ratio.
        last_stable: by partition the offset from which on rows are not final, for who knows of a high watermark.
        order: which log comes first, the filthiest as in Kafka or the most overdue.
        interval: only logs whose cleanable head has rows of this time, ms, the end not included.
        clock: what the clock says when it is `now`, ms; None where time is not to go on until the plan is applied.
        settings: to decide by; None for those in force.

    Raises:
        BadInput: a wrong table or setting, or an unknown partition.
    """
    settings, table = settings or session.checked_settings(), session.table
    found = chosen(table, settings, partitions, session.memory, waiting_too=True)
    views = found.views
    if last_stable:
        views = [replace(view, last_stable=last_stable.get(str(view.partition))) for view in views]
    plans = [_plan_log(view, settings, now, force, interval) for view in views]
    return Plan(
        table=session.name,
        uuid=str(table.metadata.table_uuid),
        snapshot=session.base,
        now=now,
        clock=clock,
        force=force,
        settings=settings,
        merge_on_read=DataFiles.of(table).merge_on_read and settings.commit_operation == "overwrite",
        split=Split.of(
            found.mixed,
            settings,
            now,
            partitions=None if partitions is None else tuple(partitions),
            last_stable=dict(last_stable) if last_stable else None,
            interval=interval,
        ),
        logs=tuple(sorted(plans, key=lambda p: (p.action == "none", *p.urgency(order), str(p.partition)))),
    )


def chosen(
    table: Table,
    settings: Settings,
    partitions: Sequence[Partition] | None,
    memory: ManifestCache | None = None,
    waiting_too: bool = False,
) -> TableLogs:
    """Returns the logs of the wanted partitions, given as value or as its text; all when it is None.

    With `waiting_too` a log may be missing that can stand in files of several alone.

    Raises:
        BadInput: a partition that the table has not.
    """
    found = table_logs(table, settings, memory=memory, partitions=partitions)
    if partitions is None:
        return found
    by_name, wanted = {str(v.partition): v for v in found.views}, [str(p) for p in partitions]
    if (missing := [p for p in wanted if p not in by_name]) and not (found.mixed and waiting_too):
        there = ", ".join(str(v.partition) for v in read_logs(table, settings, memory=memory)) or "none"
        hidden = f"; others may be in {len(found.mixed)} files that are to be split" if found.mixed else ""
        raise BadInput(f"{table_name(table)}: there is no partition {missing[0]}, it has {there}{hidden}.")
    return replace(found, views=[by_name[p] for p in wanted if p in by_name])


def _plan_log(view: LogView, settings: Settings, now: int, force: bool, interval: tuple[int, int] | None) -> LogPlan:
    decision = decide(view, settings, now, force)
    expired = due_ranges(view.state, now, view.slowest)
    eager = force or settings.idle_tombstones == "expire"
    may = settings.compacts and not left_alone(view) and not refused_late_rows(view, settings)
    action: Action = "clean" if decision.due else "none"
    reason = decision.reason
    if not decision.due and eager and may and any(due(view, now)):
        action, reason = "expire", f"tombstones past their horizon; {reason}"
    if may and waiting_for_reader(view, now) and view.slowest:
        reader = view.slowest
        reason += f"; tombstones past their horizon wait for reader {reader.name}, at offset {reader.position}"
    if action != "none" and interval and not has_rows_of(view, decision, interval):
        action, reason = "none", "no cleanable row is of the interval asked for"
    return LogPlan(
        partition=view.partition,
        action=action,
        reason=reason,
        checkpoint=view.state.checkpoint,
        first_dirty=decision.first_dirty,
        first_uncleanable=decision.first_uncleanable,
        bound=decision.bound,
        last_stable=view.last_stable,
        log_end=view.log_end,
        clean_bytes=decision.clean_bytes,
        cleanable_bytes=decision.cleanable_bytes,
        ratio=decision.ratio,
        overdue_ms=decision.overdue_ms,
        expired=expired,
        uncleanable=bool(view.state.uncleanable),
        held=decision.held and not view.state.paused,
        paused=bool(view.state.paused),
        until=steady_until(view, settings, decision, now),
    )
