"""Many logs with settings and clocks of their own through the Spark path, as partitions of one table.

What a test cannot choose of a table is told to the engine instead: the bytes of a file (the sum of its rows'), when it
was modified, and the high watermark. An empty active segment has no file, so such a log counts as no longer written
(`active.segment=none`) until a segment is appended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

from hardpack.compaction.phase_one import phase_one_work, with_last_stable
from hardpack.compaction.phase_two import expire_logs, logs_to_expire
from hardpack.compaction.pipeline import run_pass
from hardpack.compaction.retention import logs_past_retention, retain_logs
from hardpack.compaction.session import TableSession
from hardpack.compaction.split import split_first
from hardpack.compaction.work import LogToClean, PassRequest
from hardpack.rules.horizons import horizon_of
from hardpack.rules.model import LogState, to_segments
from hardpack.rules.reference.cleaner import LogSegment
from hardpack.rules.selection import checkpoint_of
from hardpack.rules.settings import Settings
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.log_views import read_logs
from hardpack.table.state import STATE_PROPERTY, read_state, write_state

from tests.layouts import PLAIN, mapped

MAPPED = tuple(name for name in Settings.model_fields if name.startswith("column_") or name == "tombstone")
PORTIONS = 6
"""How many commits a pass would make about, if it rewrote the whole table."""
_names = count()


@dataclass
class LogUnderTest:
    """What the harness has to know of one log beside its rows in the table."""

    settings: Settings
    empty_active: int | None = None
    high_watermark: int | None = None
    bytes: dict[int, int] = field(default_factory=dict)
    modified: dict[int, int] = field(default_factory=dict)


class Batch:
    """Logs as partitions of one table. `seen` gives what a step left, in the words of the cases."""

    def __init__(self, catalog, spark, home, layout=PLAIN, in_portions=True):
        self.layout, self.columns, self.name = layout, mapped(layout), f"eq.logs{next(_names)}"
        self.table = layout.adopted(catalog, self.name) if layout.mixed else layout.create(catalog, self.name)
        self.spark, self.home, self.passes = spark, home, count()
        self.cleanings = count(0 if in_portions else 1, 1 if in_portions else 2)
        self.logs: dict[int, LogUnderTest] = {}
        self.left: dict[int, set[int]] = {}

    def create(self, logs):
        """Make the logs: partition -> (reference log, settings)."""
        states = {}
        for p, (log, settings) in logs.items():
            self.logs[p] = LogUnderTest(settings, high_watermark=log.high_watermark)
            if log.checkpoint is not None or log.log_start is not None:
                states[str(self.layout.log(p))] = LogState(checkpoint=log.checkpoint, log_start=log.log_start)
        for at in range(max(len(log.segments) for log, _ in logs.values())):
            self.append({p: log.segments[at] for p, (log, _) in logs.items() if at < len(log.segments)})
        if states:
            with self.table.transaction() as transaction:
                transaction.set_properties({STATE_PROPERTY: write_state(states)})

    def append(self, segments: dict[int, LogSegment]):
        """One new active segment for some logs, in one commit."""
        for p, segment in segments.items():
            log = self.logs[p]
            log.empty_active = None if segment.rows else segment.base
            log.bytes |= {r.offset: r.bytes for r in segment.rows}
            log.modified |= {r.offset: segment.modified for r in segment.rows}
            if p in self.left:
                self.left[p] |= {r.offset for r in segment.rows}
        if any(segment.rows for segment in segments.values()):
            self.layout.append(self.table, {p: segment.rows for p, segment in segments.items()})

    def logs_at(self, now: dict[int, int]):
        """The logs as the engine sees them, each with its settings and time."""
        if self.layout.mixed:
            split_first(self.session, 0)
        self.table.refresh()
        views = {self._number(v): v for v in read_logs(self.table, self.columns)}
        return [self._log(views[p], at) for p, at in now.items() if p in views]

    def _number(self, view):
        return self.layout.number(view.partition)

    def _log(self, view, now):
        log = self.logs[self._number(view)]
        files = [
            replace(f, bytes=self._sum(log.bytes, f, self._number(view)), modified=self._last(log.modified, f))
            for f in view.files
        ]
        end = view.state.log_end if log.empty_active is None else max(view.log_end, log.empty_active)
        view = replace(
            view,
            segments=to_segments(files, view.state.layout),
            state=replace(view.state, log_end=end),
            last_stable=log.high_watermark,
        )
        changes = {name: getattr(self.columns, name) for name in MAPPED}
        # files that get a filter are read one by one, others together
        changes["key_filter_min_rows"] = (1, 100_000)[view.log_end % 2]
        changes["active_segment"] = "newest" if log.empty_active is None else "none"
        return LogToClean(view, log.settings.model_copy(update=changes), now)

    def clean(self, now: dict[int, int]):
        """One selection and, of the due logs, one whole pass; partition -> LogToClean as it was decided."""
        known = self.logs_at(now)
        session = self.session()
        logs = with_last_stable(session, self.columns, session.base, known)
        due = [log for log in logs if log.decision.due]
        dropped = {}
        if due:
            work = phase_one_work(session, self._request("one", session), due[0].settings, due)
            dropped = {self._number(entry): entry for entry in run_pass(session, work).logs}
            session = self.session()
            states = read_state(self.name, self.table.properties)
            cleaned = {log.view.partition: log for log in due}
            views = [v for v in read_logs(self.table, self.columns) if v.partition in cleaned]
            assert all(v.state == states[str(v.partition)] for v in views)
            expiring = []
            for view in views:
                log = cleaned[view.partition]
                expiring += logs_to_expire([view], log.settings, log.now)
            expire_logs(session, self._request("two", session), due[0].settings, expiring)
        numbers = [self._number(log.view) for log in logs]
        return {p: (log, dropped.get(p)) for p, log in zip(numbers, logs, strict=True)}

    def retain(self, now: dict[int, int]):
        """One run of retention; partition -> number of segments deleted."""
        logs = self.logs_at(now)
        session = self.session()
        past = [past for log in logs for past in logs_past_retention([log.view], log.settings, log.now)]
        before = {self._number(log.view): len(log.view.segments) for log in logs}
        retain_logs(session, self._request("retention", session), self.columns, past)
        after = {self._number(log.view): len(log.view.segments) for log in self.logs_at(now)}
        return {p: n - after.get(p, 0) for p, n in before.items()}

    def session(self):
        """The table as it stands now, to be worked on."""
        self.table.refresh()
        return TableSession(self.table, lambda: JvmTable(self.spark, f"hardpack.{self.name}"), home=self.home)

    def advance_log_start(self, offsets: dict[int, int]):
        """Move where logs start, as Kafka's DeleteRecords does."""
        states = read_state(self.name, self.table.refresh().properties)
        for p, offset in offsets.items():
            name = str(self.layout.log(p))
            states[name] = replace(states.get(name, LogState()), log_start=offset)
        with self.table.transaction() as transaction:
            transaction.set_properties({STATE_PROPERTY: write_state(states)})

    def _request(self, phase, session):
        commit_bytes = None
        if phase == "one" and next(self.cleanings) % 2 == 0:
            # one that has enough to do ends in a few commits
            commit_bytes = int(self.table.current_snapshot().summary["total-files-size"]) // PORTIONS
        return PassRequest(self.name, phase, f"{next(self.passes)}", 0, session.base, commit_bytes=commit_bytes)

    def observe(self):
        """What is left: partition -> survivors, checkpoint, horizons, log_start, layout (segments with rows)."""
        self.table.refresh()
        rows = defaultdict(list)
        for r in sorted(self.layout.rows(self.table), key=lambda r: r["offset"]):
            rows[r["partition"]].append(r)
        self.left = {p: {r["offset"] for r in found} for p, found in rows.items()}
        out = {}
        for log in self.logs_at(dict.fromkeys(self.logs, 0)):
            p, view = self._number(log.view), log.view
            offsets = [r["offset"] for r in rows[p]]
            edges = [*(s.base_offset for s in view.segments), view.log_end]
            out[p] = {
                "survivors": offsets,
                "checkpoint": checkpoint_of(view),
                "horizons": _horizons(view.state, rows[p]),
                "log_start": view.log_start,
                "layout": [[low, [o for o in offsets if low <= o < high]] for low, high in pairwise(edges)],
            }
        return out

    def _sum(self, numbers, file, partition):
        left = self.left.get(partition)
        inside = (o for o in numbers if file.min_offset <= o <= file.max_offset)
        return sum(numbers[o] for o in inside if left is None or o in left)

    def _last(self, numbers, file):
        return max(n for o, n in numbers.items() if file.min_offset <= o <= file.max_offset)


def _horizons(state, rows):
    markers = {o: ms for ms, offsets in state.markers for o in offsets}
    found = {}
    for r in rows:
        if r["control"] is not None:
            horizon = markers.get(r["offset"])
        else:
            horizon = horizon_of(state, r["offset"]) if r["tombstone"] else None
        if horizon is not None:
            found[r["offset"]] = horizon
    return found
