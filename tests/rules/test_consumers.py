"""Kafka's promises to consumers of a compacted topic hold for consumers of every speed, across passes; no JVM.

From Kafka's documentation, "What guarantees does log compaction provide?": order is kept and offsets never change; who
stays within the head sees every record; who starts at the beginning sees at least the final state of each key; and who
reaches the head within delete.retention.ms of starting sees every delete. The reference cleaner cleans; the engine is
held to it by other tests. The consumers know what was written, not what a pass does.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hardpack.rules.reference.cleaner import Log, LogSegment, append_segment, clean
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings

CONSUMERS = 8
TICKS = 40


@dataclass
class Consumer:
    """Polls by offset, some rows at a time, and keeps the state that it read."""

    speed: int
    begun: int
    """When it began, or was last at the end with nothing missed, ms."""
    position: int = 0
    state: dict = field(default_factory=dict)
    within_head: bool = True
    """Whether no pass has cleaned beyond its position since it began."""
    exact: bool = True
    """Whether it has come to the end within delete.retention.ms each time until now."""

    def poll(self, log, written, seen):
        rows = [r for r in log.rows if r.offset >= self.position][: self.speed]
        assert [r.offset for r in rows] == sorted({r.offset for r in rows}), "order is kept"
        for row in rows:
            assert row == written[row.offset], "a record at an offset never changes"
            if self.within_head:
                assert row.offset == self.position, "who stays within the head sees every record"
            self.position = row.offset + 1
            self.state.pop(row.key, None)
            if row.value is not None:
                self.state[row.key] = row.value
            seen["rows"] += 1
        if not rows:
            # only removed records are left before the end
            self.position = len(written)

    def at_the_end(self, written, now, retention, seen):
        truth, deleted = {}, set()
        for row in written:
            truth.pop(row.key, None)
            deleted.discard(row.key)
            if row.value is None:
                deleted.add(row.key)
            else:
                truth[row.key] = row.value
        assert {k: v for k, v in self.state.items() if k in truth} == truth, "the final state of each key is seen"
        assert self.state.keys() - truth.keys() <= deleted
        self.exact &= now - self.begun < retention
        if self.exact:
            assert self.state == truth, "every delete is seen within delete.retention.ms"
            seen["exact ends"] += 1
        self.begun = now
        seen["ends"] += 1


def life(seed, clean=clean):
    """One log and its consumers; counts what they saw."""
    rng, seen = random.Random(seed), Counter()
    retention = rng.choice([1, 2_000, 8_000])
    settings = Settings(
        min_cleanable_dirty_ratio=0, delete_retention_ms=retention, min_compaction_lag_ms=rng.choice([0, 1_500]),
        segment_bytes=rng.choice([20, 10**6]),
    )  # fmt: skip
    written, now, log, consumers = [], 1_000_000, Log((LogSegment(0, ()),)), []
    for _ in range(TICKS):
        now += rng.choice([100, 500, 3_000])
        if rng.random() < 0.8:
            rows = tuple(new_row(rng, len(written) + at, now) for at in range(rng.randrange(1, 9)))
            log = append_segment(log, LogSegment(len(written), rows, now))
            written += rows
        if rng.random() < 0.5:
            outcome = clean(log, settings, now)
            seen["passes"] += outcome.decision.due
            log = outcome.log
            for consumer in consumers:
                consumer.within_head &= consumer.position >= (log.checkpoint or 0)
        if len(consumers) < CONSUMERS and rng.random() < 0.5:
            fresh = Consumer(rng.choice([1, 3, 10, 100]), now)
            fresh.within_head = not log.checkpoint
            consumers.append(fresh)
        for consumer in consumers:
            if rng.random() < 0.8:
                consumer.poll(log, written, seen)
                if consumer.position == len(written):
                    consumer.at_the_end(written, now, retention, seen)
    return seen | Counter(lives=len(consumers))


def new_row(rng, offset, now):
    value = None if rng.random() < 0.3 else f"v{offset}".encode()
    return Row(offset, f"k{rng.randrange(6)}".encode(), value, now)


def test_two_thousand_lives():
    seen = sum((life(seed) for seed in range(280)), Counter())
    assert seen["lives"] >= 2_000
    assert min(seen["passes"], seen["ends"], seen["exact ends"]) > 1_000
    print(dict(seen))


def too_early(log, settings, now):
    """Tombstones go before their time."""
    return clean(log, settings.model_copy(update={"delete_retention_ms": 0}), now)


def out_of_order(log, settings, now):
    """The first two rows of a cleaned segment change places."""
    outcome = clean(log, settings, now)
    segments = [
        replace(s, rows=(*s.rows[1::-1], *s.rows[2:])) if s.base < (outcome.log.checkpoint or 0) else s
        for s in outcome.log.segments
    ]
    return replace(outcome, log=replace(outcome.log, segments=tuple(segments)))


def latest_lost(log, settings, now):
    """The last row below the checkpoint is lost."""
    outcome = clean(log, settings, now)
    checkpoint = outcome.log.checkpoint or 0
    below = [r.offset for r in outcome.log.rows if r.offset < checkpoint]
    segments = tuple(
        replace(s, rows=tuple(r for r in s.rows if r.offset not in below[-1:])) for s in outcome.log.segments
    )
    return replace(outcome, log=replace(outcome.log, segments=segments))


def renumbered(log, settings, now):
    """Rows move together."""
    outcome = clean(log, settings, now)
    first = outcome.log.segments[0]
    moved = tuple(replace(r, offset=first.base + at) for at, r in enumerate(first.rows))
    return replace(outcome, log=replace(outcome.log, segments=(replace(first, rows=moved), *outcome.log.segments[1:])))


def lives(fault):
    for seed in range(50):
        life(seed, fault)


@pytest.mark.parametrize("fault", [too_early, out_of_order, latest_lost, renumbered])
def test_a_planted_fault_breaks_a_promise(fault):
    with pytest.raises(AssertionError):
        lives(fault)
