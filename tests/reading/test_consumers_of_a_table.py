"""Kafka's promises to consumers, held by a real table: read by offset, by Spark's batches, by its streams.

Consumers of every speed poll while real passes, retention, late rows and rollbacks change the table. They know what was
written, not what a pass does. The rules alone are tried on more lives in tests/rules/test_consumers.py.
HARDPACK_CONSUMER_TICKS makes each life longer.
"""

import os
import random
from dataclasses import dataclass, field

import pytest
from hardpack.operations.readers import Positions
from hardpack.rules.times import LONG_MAX
from hardpack.table.history import ancestors, is_append, is_hardpacks
from pyspark.sql import functions as F

from tests.topics import append, name_of, new_topic, row

pytestmark = [pytest.mark.spark]
TICKS = int(os.environ.get("HARDPACK_CONSUMER_TICKS", "10"))
T0 = 1_700_000_000_000
RETENTION = 8_000
LOGS = (0, 1)


@dataclass
class Consumer:
    """Polls one log by offset, some rows at a time, and keeps the state that it read."""

    log: int
    speed: int
    begun: int
    named: str = ""
    """Its name where tombstones wait for it."""
    position: int = 0
    state: dict = field(default_factory=dict)
    exact: bool = True
    ends: int = 0

    def poll(self, hp, life, now):
        if str(self.log) not in (reader := hp.reader(life.name)).partitions:
            return
        end = reader.end_offsets()[str(self.log)]
        rows = list(self.next_rows(reader))
        written = life.written[self.log]
        assert [o for o, _ in rows] == sorted({o for o, _ in rows}), "order is kept"
        if self.position >= life.checkpoints.get(self.log, 0):
            assert [o for o, _ in rows] == [o for o in sorted(written) if o >= self.position][: len(rows)], (
                "who stays within the head sees every record"
            )
        for offset, (key, value) in rows:
            assert written[offset] == (key, value), "a record at an offset never changes"
            self.state.pop(key, None)
            if value is not None:
                self.state[key] = value
            self.position = offset + 1
        if len(rows) < self.speed:
            self.position = max(self.position, end)
            self.at_the_end(life, now)
        if self.named:
            hp.set_reader(life.name, self.named, Positions("test", {str(self.log): self.position}))

    def next_rows(self, reader):
        left = self.speed
        for batch in reader.read([str(self.log)], start=self.position, columns=["offset", "key", "value"]):
            for one in batch.slice(0, left).to_pylist():
                yield one["offset"], (one["key"], one["value"])
                left -= 1
            if not left:
                return

    def at_the_end(self, life, now):
        self.ends += 1
        truth, missed = life.truth(self.log), life.missed_by(self)
        known = {key: value for key, value in truth.items() if key not in missed}
        assert {k: v for k, v in self.state.items() if k in known} == known, "the final state of each key is seen"
        self.exact &= now - self.begun < RETENTION
        if (self.exact or self.named) and not life.loses_rows:
            assert {k: v for k, v in self.state.items() if k not in missed} == known, "every delete is seen"
        self.begun = now


class Life:
    """A table, what was written to it, and those who read it."""

    def __init__(self, hp, seed, **settings):
        self.hp, self.rng, self.now = hp, random.Random(seed), T0
        self.loses_rows = "delete" in settings.get("cleanup_policy", "")
        wanted = {"min_cleanable_dirty_ratio": 0, "delete_retention_ms": RETENTION} | settings
        self.table = new_topic(hp.catalog, **wanted)
        self.name = name_of(self.table)
        self.written = {log: {} for log in LOGS}
        self.late = {log: {} for log in LOGS}
        """By offset of a row that came late when it did: consumers that were past it have missed it."""
        self.checkpoints, self.consumers, self.appended = {}, [], []
        self.passes = self.rolled_back = self.first = 0

    def append(self):
        """A commit; an offset is left out now and then, for a row that comes late."""
        rows = {log: [self._row(log) for _ in range(self.rng.randrange(1, 9))] for log in LOGS}
        self._bring(rows)

    def _row(self, log):
        offset = max(self.written[log], default=-1) + self.rng.choice([1, 1, 1, 2])
        value = None if self.rng.random() < 0.3 else f"v{offset}"
        made = row(offset, f"k{self.rng.randrange(6)}", value)
        self.written[log][offset] = (made.key, value)
        return made

    def _bring(self, rows):
        self.table.refresh()
        append(self.table, rows, self.now)
        self.first = self.first or sum(map(len, rows.values()))
        self.appended += [(log, r.offset) for log, found in rows.items() for r in found]

    def bring_late(self):
        """A row at an offset that was left out, of a key of its own or not."""
        log = self.rng.choice(LOGS)
        if free := sorted(set(range(max(self.written[log], default=0))) - self.written[log].keys()):
            offset = self.rng.choice(free)
            made = row(offset, f"k{self.rng.randrange(6)}", f"late{offset}")
            self.written[log][offset] = (made.key, f"late{offset}")
            self.late[log][offset] = self.now
            self._bring({log: [made]})
            for consumer in self.consumers:
                consumer.exact = False

    def clean(self):
        report = self.hp.clean(self.hp.plan(self.name, self.now))
        self.passes += report.snapshot is not None
        self.hp.expire_tombstones(self.name, self.now)
        if self.loses_rows:
            self.hp.apply_retention(self.name, self.now)
        for log in self.hp.describe(self.name).logs:
            ends = self.checkpoints.get(log.partition, 0), log.checkpoint or 0, log.log_start
            self.checkpoints[log.partition] = max(ends)

    def roll_back(self):
        """Somebody undoes the passes that came after the last append."""
        now = self.table.refresh().current_snapshot()
        snapshot = next(s for s in ancestors(self.table) if is_append(s) and not is_hardpacks(s))
        self.rolled_back += snapshot.snapshot_id != now.snapshot_id
        self.table.manage_snapshots().set_current_snapshot(snapshot.snapshot_id).commit()

    def truth(self, log):
        """The latest row of each key, of those that have not gone by age."""
        state, start = {}, self.checkpoints.get(log, 0) if self.loses_rows else 0
        for offset, (key, value) in sorted(self.written[log].items()):
            state.pop(key, None)
            if value is not None and offset >= start:
                state[key] = value
        return state

    def missed_by(self, consumer):
        """Keys of rows that came late; whoever was past them does not see them."""
        return {self.written[consumer.log][offset][0] for offset in self.late[consumer.log]}

    def live(self, ticks, each_tick=lambda: None, **chances):
        for tick in range(ticks):
            self.now += self.rng.choice([500, 3_000, 6_000])
            self.append()
            for what, chance in chances.items():
                if self.rng.random() < chance:
                    getattr(self, what)()
            if len(self.consumers) < 10:
                speed = self.rng.choice([1, 3, 10, 1000])
                self.consumers.append(Consumer(self.rng.choice(LOGS), speed, self.now))
            for consumer in self.consumers:
                if self.rng.random() < (0.2 if consumer.named else 0.8) or tick == ticks - 1:
                    consumer.poll(self.hp, self, self.now)
            each_tick()
        assert self.passes > ticks // 4
        assert sum(c.ends for c in self.consumers) > ticks // 2


def test_consumers_of_every_speed_across_passes_and_named_ones_however_slow(hp):
    life = Life(hp, 1, horizon_readers="wait", horizon_readers_limit_ms=LONG_MAX, idle_tombstones="expire")
    for log in LOGS:
        life.consumers.append(Consumer(log, 1000, T0, named=f"slow{log}"))
        hp.set_reader(life.name, f"slow{log}", Positions("test", {str(log): 0}))
    gone = []

    def tombstones_left():
        gone.append(sum(log.expired_to for log in hp.describe(life.name).logs))

    life.live(TICKS, tombstones_left, clean=0.8)
    assert max(gone) > 0, "tombstones went, once readers had passed them"


def test_consumers_across_late_rows_and_rollbacks(hp):
    life = Life(hp, 2)
    life.live(TICKS, clean=0.7, roll_back=0.5, bring_late=0.4)
    assert life.rolled_back
    assert any(life.late.values())


def test_consumers_across_retention(hp):
    Life(hp, 3, cleanup_policy="compact,delete", retention_ms=20_000).live(TICKS, clean=0.8)


def test_sparks_batches_streams_and_increments_see_what_they_are_promised(hp, tmp_path):
    """A batch by offset is what the reader gives; a stream and an increment bring each appended row once."""
    life, spark = Life(hp, 4), hp.spark
    place, streamed, snapshots = f"hardpack.{life.name}", [], []

    def read():
        options = {"streaming-skip-overwrite-snapshots": "true", "streaming-skip-delete-snapshots": "true"}
        rows = spark.readStream.options(**options).table(place).select("partition", "offset")
        run = rows.writeStream.foreachBatch(lambda batch, _: streamed.extend(map(tuple, batch.collect())))
        run.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    def compare():
        snapshots.append(life.table.refresh().current_snapshot().snapshot_id)
        consumer = life.consumers[-1]
        wanted = (F.col("partition") == consumer.log) & (F.col("offset") >= consumer.position)
        spark.catalog.refreshTable(place)
        batch = spark.table(place).where(wanted).orderBy("offset").select("offset", "key", "value").collect()
        consumer.speed = LONG_MAX
        own = list(consumer.next_rows(hp.reader(life.name)))
        assert [(r.offset, (bytes(r.key), r.value)) for r in batch] == own
        if len(snapshots) % 4 == 0:
            read()

    life.live(TICKS, compare, clean=0.6)
    read()
    assert sorted(streamed) == sorted(life.appended), "a stream that passes over passes has each appended row once"
    first, *later = life.table.refresh().snapshots()
    span = {"start-snapshot-id": first.snapshot_id, "end-snapshot-id": later[-1].snapshot_id}
    added = spark.read.format("iceberg").options(**span).load(place).select("partition", "offset").collect()
    assert sorted(map(tuple, added)) == sorted(life.appended[life.first :]), (
        "as has what it reads between two snapshots"
    )


def test_a_tombstone_that_goes_too_early_is_found_out(hp):
    life = Life(hp, 5, delete_retention_ms=0, active_segment="none")
    consumer = Consumer(0, 1, T0)
    for offset, value in ((0, "v0"), (1, None), (2, "v2")):
        made = row(offset, "b" if offset == 2 else "a", value)
        life.written[0][offset] = (made.key, value)
        life._bring({0: [made]})
        if not offset:
            consumer.poll(hp, life, T0)
        else:
            life.now += 1000
            life.clean()
    consumer.speed = 10
    with pytest.raises(AssertionError, match="every delete is seen"):
        consumer.poll(hp, life, life.now)
