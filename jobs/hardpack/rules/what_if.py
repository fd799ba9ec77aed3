"""What other settings would have done to a table: a replay of its appends, where the real rules decide about passes.

Metadata tells when rows came, and how large they were, but not which keys they had. Their keys are estimated by how
many rows passes left: between two passes, all keys of a log are taken to be equally likely.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log1p

from hardpack.rules.model import DataFile, LastClean, LogState, LogView, Partition, Segment, to_segments
from hardpack.rules.selection import Decision, decide, steady_until
from hardpack.rules.settings import Settings
from hardpack.rules.times import DAY_MS, is_time

MANY = 1e18
"""Stands for an endless number of keys, so that no row is superseded."""
SURE = 50.0
"""Expected hits on a file from which on every file counts as hit; Poisson's law gives the share that is missed."""
TRIES = 200
"""Halvings in a search for a number of keys, enough for all digits of a float."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A data file of a log, and when its commit brought it, ms."""

    at: int
    file: DataFile


@dataclass(frozen=True, slots=True)
class Measured:
    """What a phase one found in a log, and left of it. Rows and bytes of files below the offset at which it ended."""

    tail_rows: int
    head_rows: int
    left_rows: int
    tail_bytes: int
    head_bytes: int
    tail_bytes_rewritten: int
    head_bytes_rewritten: int
    rows_written: int
    bytes_written: int
    expired_rows: int = 0
    """Rows that phase two removed after it, before the next phase one."""


@dataclass(frozen=True, slots=True)
class LogHistory:
    """What the kept snapshots tell of one log."""

    partition: Partition
    arrivals: tuple[Arrival, ...]
    """In order of time."""
    clean: DataFile | None
    """What was clean at the beginning, as one file; None where nothing was."""
    passes: tuple[Measured, ...]
    """In order of time."""
    waiting: tuple[DataFile, ...] = ()
    """Files that were there at the beginning and not clean yet."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one value of a setting would have done to a table."""

    passes: int
    """Commits of phase one."""
    logs_cleaned: int
    """Logs that these commits cleaned; a log counts once for each commit."""
    days: float
    bytes_appended: int
    bytes_written: int
    """Bytes that phase one wrote."""
    worst_lag_ms: int
    """Greatest age of the oldest row that a pass could have taken, at any look."""
    dead_share: float
    """Share of superseded rows in the rows that a reader scans, averaged over the whole time."""

    @property
    def passes_per_day(self) -> float:
        """Commits of phase one in 24 hours."""
        return self.passes / self.days if self.days else 0.0

    @property
    def logs_cleaned_per_day(self) -> float:
        """Logs that phase one cleans in 24 hours; a log counts once for each commit."""
        return self.logs_cleaned / self.days if self.days else 0.0

    @property
    def written_per_appended(self) -> float:
        """Bytes that passes write for each byte that is appended."""
        return self.bytes_written / self.bytes_appended if self.bytes_appended else 0.0


def distinct(living: float, keys: float, rows: float) -> float:
    """Returns how many keys are expected to have a row, once more rows of equally likely keys have come.

    Args:
        living: keys that had a row before.
        keys: how many keys there are.
        rows: how many rows have come since.
    """
    return living + (keys - living) * -expm1(-rows / keys)


def keys_behind(tail: int, head: int, left: int) -> float:
    """Estimates of how many equally likely keys the rows of a head are, by how many rows a pass left.

    Args:
        tail: rows of the tail before the pass.
        head: rows of the head before the pass.
        left: rows of both that the pass left.
    """
    low = float(max(tail, 1))
    if left <= tail:
        return low
    if left >= tail + head:
        return MANY
    high = MANY
    for _ in range(TRIES):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if distinct(tail, middle, head) < left else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A log between two passes: when the stretch began, `begin` rows had come and `living` rows were left."""

    begin: int
    living: float
    keys: float
    hits: float
    """Expected hits on each of the tail's files by one row of the head."""
    head_share: float
    """Share of the bytes of the head's files that is rewritten."""
    row_bytes: float
    """Size of a row as passes write it."""


class KeyModel:
    """An estimate of how many rows of a log are alive once a number of rows has come, and of what a pass rewrites."""

    def __init__(self, history: LogHistory) -> None:
        """Reads what the passes of a log's history tell.

        Args:
            history: of the log. Without a pass all its rows count as alive.
        """
        begin, living = 0, float(history.clean.rows if history.clean else 0)
        self.stretches: list[_Stretch] = []
        for measured in history.passes:
            if not measured.head_rows:
                continue
            keys = keys_behind(measured.tail_rows, measured.head_rows, measured.left_rows)
            self.stretches.append(
                _Stretch(begin, living, keys, _hits(measured), _head_share(measured), _row_bytes(measured, history))
            )
            begin += measured.head_rows
            living = float(max(0, measured.left_rows - measured.expired_rows))
        last = self.stretches[-1] if self.stretches else _Stretch(0, living, MANY, 0.0, 0.0, _arrived_row(history))
        self.stretches.append(_Stretch(begin, living, last.keys, last.hits, last.head_share, last.row_bytes))
        self._begins = [s.begin for s in self.stretches]

    def at(self, rows: int) -> _Stretch:
        """Returns the stretch during which this number of rows had come."""
        return self.stretches[max(0, bisect_right(self._begins, rows) - 1)]

    def living(self, rows: int) -> float:
        """Returns how many rows are their key's last once `rows` have come; rows clean at the beginning count too."""
        stretch = self.at(rows)
        return distinct(stretch.living, max(stretch.keys, stretch.living, 1.0), rows - stretch.begin)

    def missed(self, begin: int, end: int) -> float:
        """Returns the share of the tail's files that no row hits, of the rows that come between two counts of rows."""
        hits = 0.0
        for at, stretch in enumerate(self.stretches):
            until = self.stretches[at + 1].begin if at + 1 < len(self.stretches) else inf
            hits += stretch.hits * max(0.0, min(end, until) - max(begin, stretch.begin))
        return exp(-min(hits, SURE))


def _hits(measured: Measured) -> float:
    share = measured.tail_bytes_rewritten / measured.tail_bytes if measured.tail_bytes else 1.0
    return (SURE if share >= 1 else min(SURE, -log1p(-share))) / (1 if share >= 1 else measured.head_rows)


def _head_share(measured: Measured) -> float:
    return min(1.0, measured.head_bytes_rewritten / measured.head_bytes) if measured.head_bytes else 1.0


def _row_bytes(measured: Measured, history: LogHistory) -> float:
    return measured.bytes_written / measured.rows_written if measured.rows_written else _arrived_row(history)


def _arrived_row(history: LogHistory) -> float:
    files = [a.file for a in history.arrivals] or [*history.waiting, *([history.clean] if history.clean else [])]
    rows = sum(f.rows for f in files)
    return sum(f.bytes for f in files) / rows if rows else 0.0


@dataclass
class _Log:
    """One log while its history is replayed."""

    history: LogHistory
    model: KeyModel
    clean: DataFile | None
    dirty: tuple[Segment, ...]
    came: int
    """Rows that have come, without those that were clean at the beginning."""
    rows: int
    """Rows that are in the log."""
    checkpoint: int | None = None
    cleaned: int = 0
    """How many of the rows that have come lie below the checkpoint."""
    next: int = 0
    """Index of the arrival that comes next."""
    steady_until: int = 0
    waits_since: int | None = None
    """The oldest time, ms, of a row that a pass may take; None where there is none."""

    @classmethod
    def of(cls, history: LogHistory) -> _Log:
        start, waiting = history.clean, sum(f.rows for f in history.waiting)
        return cls(
            history, KeyModel(history), start, to_segments(history.waiting), waiting,
            waiting + (start.rows if start else 0), start.max_offset + 1 if start else None,
        )  # fmt: skip

    def arrive(self, at: int) -> int:
        """Adds the files that have come by a time, ms, and returns their bytes."""
        size, new = 0, list[DataFile]()
        while self.next < len(self.history.arrivals) and self.history.arrivals[self.next].at <= at:
            file = self.history.arrivals[self.next].file
            new.append(file)
            size += file.bytes
            self.next += 1
        if new:
            rows = sum(f.rows for f in new)
            self.came, self.rows, self.steady_until = self.came + rows, self.rows + rows, 0
            if self.dirty and min(f.min_offset for f in new) <= self.dirty[-1].last_offset:
                self.dirty = to_segments([*(f for s in self.dirty for f in s.files), *new])
            else:
                self.dirty += to_segments(new)
        return size

    def look(self, settings: Settings, now: int) -> Decision | None:
        """Returns what the rules decide now, None while their last decision, which was to wait, still holds."""
        if now < self.steady_until:
            return None
        clean = to_segments([self.clean]) if self.clean else ()
        last = None if self.checkpoint is None else LastClean(0)
        state = LogState(self.checkpoint, log_end=self.checkpoint or 0, last_clean=last)
        view = LogView(self.history.partition, clean + self.dirty, state)
        decision = decide(view, settings, now)
        takes = (f for s in self.dirty if s.base_offset < decision.bound for f in s.files)
        self.waits_since = min((_time_of(f) for f in takes), default=None)
        self.steady_until = steady_until(view, settings, decision, now)
        return decision

    def run(self, decision: Decision) -> float:
        """Cleans the log as a decision says, and returns the bytes that this writes."""
        head = [f for s in self.dirty if s.base_offset < decision.bound for f in s.files]
        head_rows = sum(f.rows for f in head)
        tail, end = (self.clean.rows if self.clean else 0), self.cleaned + head_rows
        stretch, left = self.model.at(end), self.model.living(end)
        rewritten = (1 - self.model.missed(self.cleaned, end)) * tail + stretch.head_share * head_rows
        written = left * rewritten / max(1, tail + head_rows) * stretch.row_bytes
        files = [*head, *([self.clean] if self.clean else [])]
        self.clean = DataFile(
            "", round(left * stretch.row_bytes), round(left),
            min(f.min_offset for f in files), decision.bound - 1,
            min((f.min_timestamp for f in files if f.min_timestamp is not None), default=None),
            max((f.max_timestamp for f in files if f.max_timestamp is not None), default=None),
            None, None,
        )  # fmt: skip
        self.dirty = tuple(s for s in self.dirty if s.base_offset >= decision.bound)
        self.rows = self.clean.rows + sum(f.rows for s in self.dirty for f in s.files)
        self.checkpoint, self.cleaned = decision.bound, end
        self.waits_since, self.steady_until = None, 0
        return written


def looks_between(begin: int, until: int, every: int) -> range:
    """Returns the times of looks, ms, at whole multiples of a span since the epoch, both ends included."""
    return range(-(-begin // every) * every, until + 1, every)


def _time_of(file: DataFile) -> int:
    """Returns the time of a file's first row, ms, else that of its commit."""
    first = file.min_timestamp
    return first if is_time(first) else file.modified


def replay(logs: Sequence[LogHistory], settings: Settings, every: int, until: int) -> Replayed:
    """Replays the appends of a table under given settings, with looks at regular times.

    Args:
        logs: what is known of each log.
        settings: the settings to try.
        every: ms between two looks, which are at whole multiples of it since the epoch.
        until: when the history ends, ms.
    """
    states = [_Log.of(history) for history in logs]
    times = {a.at for history in logs for a in history.arrivals}
    begin = min(times, default=until)
    looks = looks_between(begin, until, every)
    passes = cleaned = appended = worst = 0
    written = dead = scanned = 0.0
    rows = float(sum(log.rows for log in states))
    alive = min(rows, sum(log.model.living(log.came) for log in states))
    before = begin
    for now in sorted(times.union(looks)):
        dead += (rows - alive) * (now - before)
        scanned += rows * (now - before)
        before = now
        appended += sum(log.arrive(now) for log in states)
        if now % every == 0:
            due = 0
            for log in states:
                decision = log.look(settings, now)
                if log.waits_since is not None:
                    worst = max(worst, now - log.waits_since)
                if decision is not None and decision.due:
                    written, due = written + log.run(decision), due + 1
            passes, cleaned = passes + (due > 0), cleaned + due
        rows = float(sum(log.rows for log in states))
        alive = min(rows, sum(log.model.living(log.came) for log in states))
    dead += (rows - alive) * max(0, until - before)
    scanned += rows * max(0, until - before)
    days = max(0, until - begin) / DAY_MS
    return Replayed(passes, cleaned, days, appended, round(written), worst, dead / scanned if scanned else 0.0)
