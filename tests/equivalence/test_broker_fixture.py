"""The broker of the equivalence test does what the test relies on: one pass at a time, and every record readable."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from infra.kafka import Broker, content
from tests.conftest import ROOT
from tests.equivalence.produce import CUTS, SEGMENTS, close_segment, produce

pytestmark = pytest.mark.kafka
TOPIC = "stream"
PARTITIONS = (0, 1)
RETENTION_MS = 2_000
# A log that is not compact is no candidate, so nothing is cleaned before the policy changes, and then all closed
# segments at once. A minimum lag could not hold back rows by their own timestamps without deciding what is cleaned.
HELD = CUTS | {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": str(RETENTION_MS),
}


@contextmanager
def timed(step):
    start = time.monotonic()
    yield
    print(f"{step}: {time.monotonic() - start:.1f} s")


@pytest.fixture
def broker():
    with timed("up and down, all in all"), Broker(ROOT / ".hardpack") as found:
        yield found


def dump(broker):
    return [broker.dump(TOPIC, p) for p in PARTITIONS]


def wait_cleaned(broker):
    for p in PARTITIONS:
        broker.wait_cleaned(TOPIC, p, broker.segments(TOPIC, p)[-1], 30)


def aborted(log):
    """Offsets of aborted rows: the next marker of their producer says so."""
    found, ends = set(), {}
    for record in reversed(log):
        if record.control:
            ends[record.producer_id] = record.control
        elif record.transactional and ends[record.producer_id] == "abort":
            found.add(record.offset)
    return found


def lasting(record):
    """What no pass may change."""
    return (record.offset, record.timestamp, record.key, record.value, record.producer_id, record.producer_epoch,
            record.transactional, record.control)  # fmt: skip


def tombstones(log):
    return [r for r in log if r.value is None and not r.control]


def now_of_pass(log, earlier=()):
    """The cleaner's clock in the pass that left this log: every horizon it set is one retention later."""
    known = {r.delete_horizon for r in earlier}
    (horizon,) = {r.delete_horizon for r in log} - known - {None}
    return horizon - RETENTION_MS


def test_the_broker_cleans_in_single_passes_that_can_be_read_back(broker):
    broker.create_topic(TOPIC, len(PARTITIONS), HELD)
    with timed("produce"):
        produce(broker, TOPIC, len(PARTITIONS))
    with timed("dump before"):
        before = dump(broker)
    active = [broker.segments(TOPIC, p)[-1] for p in PARTITIONS]
    for p in PARTITIONS:
        assert [r.offset for r in before[p]] == list(range(len(before[p])))
        assert sorted({r.segment for r in before[p]}) == broker.segments(TOPIC, p)
        assert len(broker.segments(TOPIC, p)) == SEGMENTS + 1
        assert [r.control for r in before[p] if r.control].count("abort") == 3
        assert aborted(before[p]) & {r.offset for r in tombstones(before[p])}
        assert any(r.value == b"" for r in before[p])
        assert broker.checkpoint(TOPIC, p) is None

    start = time.time() * 1000
    with timed("first pass"):
        broker.configure(TOPIC, {"cleanup.policy": "compact"})
        wait_cleaned(broker)
    with timed("dump after"):
        after = dump(broker)
    for p in PARTITIONS:
        assert broker.passes(TOPIC, p) == [(0, active[p])]
        assert broker.checkpoint(TOPIC, p) == active[p]
        assert len(after[p]) < len(before[p]) / 2
        assert set(map(lasting, after[p])) < set(map(lasting, before[p]))
        assert not aborted(before[p]) & {r.offset for r in after[p]}
        assert [r.control for r in after[p] if r.control] == [r.control for r in before[p] if r.control]
        assert start - 1 <= now_of_pass(after[p]) <= time.time() * 1000
        assert all(r.delete_horizon for r in tombstones(after[p]) if r.offset < active[p])

    horizon = max(r.delete_horizon or 0 for log in after for r in log)
    time.sleep(max(0, horizon / 1000 - time.time()) + 0.01)
    with timed("second pass"):
        close_segment(broker, TOPIC, len(PARTITIONS), 1)
        wait_cleaned(broker)
    last = dump(broker)
    for p in PARTITIONS:
        end = broker.segments(TOPIC, p)[-1]
        assert broker.passes(TOPIC, p) == [(0, active[p]), (active[p], end)]
        assert broker.checkpoint(TOPIC, p) == end == len(before[p])
        assert now_of_pass(last[p], after[p]) >= horizon
        assert not {r.offset for r in tombstones(last[p])} & set(range(active[p]))
        # markers whose rows went in the pass before get a horizon now
        assert {bool(r.delete_horizon) for r in last[p] if r.control == "abort"} == {True}


@pytest.mark.parametrize(
    ("printed", "sizes", "expected"),
    [
        (" key: k payload: v", (1, 1), (b"k", b"v")),
        (" key: k", (1, -1), (b"k", None)),
        (" key: k payload: ", (1, 0), (b"k", b"")),
        (" key:  payload: v", (0, 1), (b"", b"v")),
        (" payload: v", (-1, 1), (None, b"v")),
        ("", (-1, -1), (None, None)),
        (" key: a payload: b payload:  key: c", (12, 7), (b"a payload: b", b" key: c")),
    ],
)
def test_missing_and_empty_are_told_apart(printed, sizes, expected):
    assert content(printed, *sizes) == expected
