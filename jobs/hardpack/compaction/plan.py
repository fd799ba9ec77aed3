"""The plan: per log what to do and why, from metadata alone. JSON in and out, named by the hash of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from hardpack.errors import BadInput
from hardpack.rules.grouping import in_packs
from hardpack.rules.horizons import Range
from hardpack.rules.model import DataFile, Partition
from hardpack.rules.selection import past_max_lag
from hardpack.rules.settings import Order, Settings
from hardpack.rules.times import LONG_MAX, plus

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
    """Offset from which on rows are not final, as far as the caller knew; a pass finds open transactions itself."""
    log_end: int
    clean_bytes: int
    cleanable_bytes: int
    ratio: float
    overdue_ms: int
    expired: tuple[Range, ...]
    """Offsets of tombstones whose horizon has passed, for people to read; phase two looks again when it runs."""
    uncleanable: bool = False
    """Whether a failed pass marked the log, which is left alone until it is resumed."""
    held: bool = False
    """Whether no pass will clean the log before somebody does something about it. A pause alone does not count: for a
    paused log it says whether the log is also marked or in trouble."""
    paused: bool = False
    until: int = 0
    """The time, ms, before which the decision stays as it is, as long as the table stays as it is."""

    @property
    def name(self) -> str:
        """The text of its partition."""
        return str(self.partition)

    @property
    def bytes(self) -> int:
        """Bytes that a pass may have to read."""
        return self.clean_bytes + self.cleanable_bytes

    def urgency(self, order: Order) -> tuple[float, float]:
        """Returns a sort key that is smaller for what goes first.

        It goes by ratio, as in Kafka (grabFilthiestCompactedLog), or with `overdue` by ms overdue before that.
        """
        return (-self.overdue_ms if order == "overdue" else 0, -self.ratio)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is asked for."""

    now: int
    """ms since the epoch."""
    partitions: Sequence[Partition] | None = None
    """Only these logs; None for all."""
    force: bool = False
    """Whether to clean whatever is cleanable, whatever the ratio."""
    last_stable: Mapping[str, int] | None = None
    """By partition the offset from which on rows are not final, from a caller who knows the high watermark."""
    interval: tuple[int, int] | None = None
    """Only logs whose cleanable head has rows of this time, ms, the end not included."""
    clock: int | None = None
    """What the clock says at the time `now`, ms; None if the plan's time is not to go on until the plan is applied."""
    order: Order = "filthiest"
    """Which log comes first, the filthiest as in Kafka or the most overdue."""


class FilesToSplit(BaseModel):
    """Mixed files, and what to plan anew once they are split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int
    bytes: int
    overdue_ms: int = 0
    """By how much the oldest row in them has passed max.compaction.lag.ms."""
    partitions: tuple[Partition, ...] | None = None
    """The logs that were asked for, None for all; before the split nobody knows which logs there are."""
    last_stable: dict[str, int] | None = None
    interval: tuple[int, int] | None = None
    order: Order = "filthiest"

    @classmethod
    def of(cls, files: Sequence[DataFile], settings: Settings, request: PlanRequest) -> Self | None:
        """Returns what has to be split, None for no file.

        Args:
            files: those that may hold rows of several logs.
            settings: the table's.
            request: what the plan was asked for.
        """
        if not files:
            return None
        return cls(
            files=len(files),
            bytes=sum(f.bytes for f in files),
            overdue_ms=past_max_lag([at for f in files if (at := f.min_timestamp or 0) > 0], settings, request.now),
            partitions=None if request.partitions is None else tuple(request.partitions),
            last_stable=dict(request.last_stable) if request.last_stable else None,
            interval=request.interval,
            order=request.order,
        )

    def asked_again(self, plan: Plan) -> PlanRequest:
        """Returns the request by which to plan the table anew, once its mixed files are split.

        Args:
            plan: the plan that has these files to split.
        """
        return PlanRequest(
            plan.now, plan.partitions, plan.force, self.last_stable, self.interval, plan.clock, self.order
        )

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
    """What the clock said at the time `now`, ms; a commit that is later counts delete horizons from that much later."""
    force: bool
    settings: Settings
    merge_on_read: bool = False
    """Whether files with few dead rows may stay under deletion vectors."""
    split: FilesToSplit | None = None
    """The files to split before anything else, None where there are none."""
    made_for: str = ""
    """Id of the plan that this one replaces after a split; empty where it replaces none."""
    unit_bytes: int | None = None
    """Most bytes of files that one commit of phase one rewrites, but at least one run of files; None for no limit."""
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
        """Returns whether a log is among those planned, or may be among them once files are split."""
        return self.partitions is None or str(partition) in map(str, self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes that a pass over its logs, and a split before it, may have to read."""
        return (self.split.bytes if self.split else 0) + sum(log.bytes for log in self.logs)

    def urgency(self, order: Order) -> tuple[float, float]:
        """Returns the urgency of the most urgent log; the rows of mixed files count as dirty, as all of them may be."""
        split = [(-self.split.overdue_ms if order == "overdue" else 0, -1.0)] if self.split else []
        return min([*split, *(log.urgency(order) for log in self.logs)])

    @property
    def until(self) -> int:
        """The time before which another plan of the same table says the same, ms."""
        if self.split:
            # the plan says by how much the mixed files are overdue, which grows with time
            return self.now
        return min((log.until for log in self.logs), default=LONG_MAX)

    @property
    def id(self) -> str:
        """Hash of the content; a commit carries it, so that the same plan applied twice does nothing."""
        if self.made_for:
            return self.made_for
        # a plan that does not use a newer field keeps the id that an older version gave it
        without = {**self._unused_newer_fields, "made_for": True, "unit_bytes": True}
        if not self.split:
            without["split"] = True
        content = self.model_copy(update={"clock": None}).model_dump_json(by_alias=True, exclude=without)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def time_at(self, clock: int) -> int:
        """Returns the plan's time as it has gone on since, ms: `now` plus what the clock has moved on.

        Args:
            clock: what the clock says, ms.
        """
        return self.now if self.clock is None else plus(self.now, max(0, clock - self.clock))

    def to_json(self) -> str:
        """Returns the plan as JSON, one line."""
        unused = self._unused_newer_fields if self.unit_bytes else {**self._unused_newer_fields, "unit_bytes": True}
        return self.model_dump_json(by_alias=True, exclude=unused)

    @property
    def _unused_newer_fields(self) -> dict[str, Any]:
        """Fields, as pydantic excludes them, that older versions do not know and that say what these do anyway."""
        settings = {
            name
            for name in SETTINGS_SINCE_VERSION_1
            if getattr(self.settings, name) == Settings.model_fields[name].default
        }
        in_order = self.split and self.split.order == FilesToSplit.model_fields["order"].default
        return {"settings": settings, **({"split": {"order"}} if in_order else {})}

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

    def in_commits_of(self, unit_bytes: int) -> Plan:
        """Returns the plan with a limit on each commit of phase one, where a limit may matter.

        Args:
            unit_bytes: most bytes of files that a commit rewrites, but at least one run of files.
        """
        small = self.split is None and sum(log.bytes for log in self.doing("clean")) <= unit_bytes
        # older versions do not know the limit, so a small plan goes without it
        return self.model_copy(update={"unit_bytes": None if small else unit_bytes})

    def units(self, unit_bytes: int) -> list[Plan]:
        """Returns the work in plans of at most `unit_bytes` each, but of at least one log.

        A log that is larger is cleaned in several commits. A plan with files to split stays one piece, as nobody knows
        yet what there is to do after the split.
        """
        if self.split:
            return [self.in_commits_of(unit_bytes)]
        units = in_packs(self.doing("clean", "expire"), lambda log: log.bytes, unit_bytes)
        return [self.model_copy(update={"logs": tuple(u)}).in_commits_of(unit_bytes) for u in units]
