"""Many logs with settings and clocks of their own through the Spark path, as partitions of one table.

What a test cannot choose of a table is told to the engine instead: the bytes of a file (the sum of its rows'), when it
was modified, and the high watermark. An empty active segment has no file, so such a log counts as no longer written
(`active.segment=none`) until a segment is appended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

import pyarrow as pa
from hardpack.heads import Head, clean_heads, expire_heads, with_last_stable
from hardpack.lake.door import IceTable
from hardpack.lake.sensing import read_logs
from hardpack.lake.state import STATE_PROPERTY, read_state, write_state
from hardpack.log.horizons import horizon_of
from hardpack.log.model import LogState, to_segments
from hardpack.log.reference import LogSegment
from hardpack.log.selection import checkpoint_of
from hardpack.log.settings import Settings
from hardpack.report import PassReport
from hardpack.retention import retain
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, BooleanType, IntegerType, LongType, NestedField, StringType

TYPES = {
    "partition": IntegerType(), "offset": LongType(), "timestamp": LongType(), "key": BinaryType(),
    "value": BinaryType(), "producer": LongType(), "transactional": BooleanType(), "control": StringType(),
    "batch": LongType(),
}  # fmt: skip
COLUMNS = Settings.model_validate(
    {
        "column.producer.id": "producer", "column.transactional": "transactional", "column.control": "control",
        "column.batch": "batch",
    }
)  # fmt: skip
MAPPED = ("column_producer_id", "column_transactional", "column_control", "column_batch")
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

    def __init__(self, catalog, spark, home):
        schema = Schema(*(NestedField(i, n, t) for i, (n, t) in enumerate(TYPES.items(), 1)))
        catalog.create_namespace_if_not_exists("eq")
        self.name = f"eq.logs{next(_names)}"
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))
        self.table = catalog.create_table(self.name, schema, partition_spec=spec)
        self.spark, self.home, self.passes = spark, home, count()
        self.logs: dict[int, LogUnderTest] = {}
        self.left: dict[int, set[int]] = {}

    def create(self, logs):
        """Make the logs: partition -> (reference log, settings)."""
        states = {}
        for p, (log, settings) in logs.items():
            self.logs[p] = LogUnderTest(settings, high_watermark=log.high_watermark)
            if log.checkpoint is not None or log.log_start is not None:
                states[str(p)] = LogState(checkpoint=log.checkpoint, log_start=log.log_start)
        for at in range(max(len(log.segments) for log, _ in logs.values())):
            self.append({p: log.segments[at] for p, (log, _) in logs.items() if at < len(log.segments)})
        if states:
            with self.table.transaction() as transaction:
                transaction.set_properties({STATE_PROPERTY: write_state(states)})

    def append(self, segments: dict[int, LogSegment]):
        """One new active segment for some logs, in one commit."""
        rows = [(p, r) for p, s in segments.items() for r in s.rows]
        for p, segment in segments.items():
            log = self.logs[p]
            log.empty_active = None if segment.rows else segment.base
            log.bytes |= {r.offset: r.bytes for r in segment.rows}
            log.modified |= {r.offset: segment.modified for r in segment.rows}
            if p in self.left:
                self.left[p] |= {r.offset for r in segment.rows}
        if not rows:
            return
        columns = {
            "partition": [p for p, _ in rows], "offset": [r.offset for _, r in rows],
            "timestamp": [r.timestamp for _, r in rows], "key": [r.key for _, r in rows],
            "value": [r.value for _, r in rows], "producer": [r.producer for _, r in rows],
            "transactional": [r.transactional for _, r in rows], "control": [r.control for _, r in rows],
            "batch": [r.batch for _, r in rows],
        }  # fmt: skip
        schema = self.table.schema().as_arrow()
        self.table.append(pa.table({n: pa.array(v, schema.field(n).type) for n, v in columns.items()}, schema=schema))

    def heads(self, now: dict[int, int]):
        """The logs as the engine sees them, each with its settings and time."""
        self.table.refresh()
        views = {v.partition: v for v in read_logs(self.table, COLUMNS)}
        return [self._head(views[p], at) for p, at in now.items() if p in views]

    def _head(self, view, now):
        log = self.logs[view.partition]
        files = [
            replace(f, bytes=self._sum(log.bytes, f, view.partition), modified=self._last(log.modified, f))
            for f in view.files
        ]
        end = view.state.log_end if log.empty_active is None else max(view.log_end, log.empty_active)
        view = replace(
            view,
            segments=to_segments(files, view.state.layout),
            state=replace(view.state, log_end=end),
            last_stable=log.high_watermark,
        )
        changes = {name: getattr(COLUMNS, name) for name in MAPPED}
        # files that get a filter are read one by one, others together
        changes["key_filter_min_rows"] = (1, 100_000)[view.log_end % 2]
        changes["active_segment"] = "newest" if log.empty_active is None else "none"
        return Head(view, log.settings.model_copy(update=changes), now)

    def clean(self, now: dict[int, int]):
        """One selection and, of the due logs, one whole pass; partition -> Head as it was decided."""
        heads = self.heads(now)
        base = self.table.current_snapshot().snapshot_id
        door = IceTable(self.spark, f"hardpack.{self.name}")
        heads = with_last_stable(door, self.table, heads, base)
        due = [h for h in heads if h.decision.due]
        dropped = {}
        if due:
            report = clean_heads(door, self.table, due, self._report("one", base), self.home)
            dropped = {entry.partition: entry for entry in report.logs}
            self.table.refresh()
            base = self.table.current_snapshot().snapshot_id
            states = read_state(self.name, self.table.properties)
            views = [v for v in read_logs(self.table, COLUMNS) if v.partition in {h.view.partition for h in due}]
            assert all(v.state == states[str(v.partition)] for v in views)
            door = IceTable(self.spark, f"hardpack.{self.name}")
            times = {h.name: h.now for h in due}
            expire_heads(door, self.table, views, times, self._report("two", base), due[0].settings, self.home)
        return {h.view.partition: (h, dropped.get(h.view.partition)) for h in heads}

    def retain(self, now: dict[int, int]):
        """One run of retention; partition -> number of segments deleted."""
        heads = self.heads(now)
        base = self.table.current_snapshot().snapshot_id
        door = IceTable(self.spark, f"hardpack.{self.name}")
        before = {h.view.partition: len(h.view.segments) for h in heads}
        retain(door, self.table, heads, self._report("retention", base))
        after = {h.view.partition: len(h.view.segments) for h in self.heads(now)}
        return {p: n - after.get(p, 0) for p, n in before.items()}

    def advance_log_start(self, offsets: dict[int, int]):
        """Move where logs start, as Kafka's DeleteRecords does."""
        states = read_state(self.name, self.table.refresh().properties)
        for p, offset in offsets.items():
            states[str(p)] = replace(states.get(str(p), LogState()), log_start=offset)
        with self.table.transaction() as transaction:
            transaction.set_properties({STATE_PROPERTY: write_state(states)})

    def _report(self, phase, base):
        return PassReport(table=self.name, phase=phase, plan=f"{next(self.passes)}", now=0, base=base)

    def observe(self):
        """What is left: partition -> survivors, checkpoint, horizons, log_start, layout (segments with rows)."""
        self.table.refresh()
        rows = defaultdict(list)
        found = self.table.scan(selected_fields=("partition", "offset", "value", "control")).to_arrow()
        for r in sorted(found.to_pylist(), key=lambda r: r["offset"]):
            rows[r["partition"]].append(r)
        self.left = {p: {r["offset"] for r in found} for p, found in rows.items()}
        out = {}
        for head in self.heads(dict.fromkeys(self.logs, 0)):
            p, view = head.view.partition, head.view
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
            horizon = horizon_of(state, r["offset"]) if r["value"] is None else None
        if horizon is not None:
            found[r["offset"]] = horizon
    return found
