"""The stream of Kafka's own LogCompactionTester, with the counts that its algorithm gives.

Rows come from `java.util.Random(1)`: key `nextInt(messages / dups)`, a tombstone when `i % 100 < percentDeletes`, value
`i` (kafka.tools or o.a.k.tools LogCompactionTester).
"""

from __future__ import annotations

import pytest
from hardpack.rules.reference.cleaner import Log, LogSegment, clean
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings

from tests.equivalence.spark_path import Batch

NOW = 1_000_000
SETTINGS = Settings.model_validate({"min.cleanable.dirty.ratio": 0, "delete.retention.ms": 0, "null.keys": "drop"})
GOLDEN = [
    # messages, dups, percent of deletes, keys that live, keys that are deleted
    (1_000, 5, 0, 199, 0),
    (1_000, 5, 10, 181, 18),
    (100_000, 5, 10, 17_874, 1_975),
]


class JavaRandom:
    """`java.util.Random`: a linear congruential generator of 48 bits."""

    def __init__(self, seed):
        self.state = (seed ^ 0x5DEECE66D) & (2**48 - 1)

    def bits(self, number):
        self.state = (self.state * 0x5DEECE66D + 0xB) & (2**48 - 1)
        return self.state >> (48 - number)

    def next_int(self, bound):
        if bound & (bound - 1) == 0:
            return (bound * self.bits(31)) >> 31
        while True:
            found = self.bits(31)
            if found - found % bound + bound - 1 < 2**31:
                return found % bound


def stream(messages, dups, deletes):
    random = JavaRandom(1)
    keys = messages // dups
    for i in range(messages):
        key = str(random.next_int(keys)).encode()
        yield Row(i, key, None if i % 100 < deletes else str(i).encode(), timestamp=NOW - messages + i, batch=i)


def log_of(rows, segments=4):
    """The rows in so many closed segments, and an active one that closes the last."""
    size = len(rows) // segments
    cuts = [rows[at : at + size] for at in range(0, len(rows), size)]
    return Log((*(LogSegment(c[0].offset, tuple(c)) for c in cuts), closing(len(rows))))


def closing(offset):
    """A segment of one row whose key nobody else has."""
    return LogSegment(offset, (Row(offset, f"closing {offset}".encode(), b"", timestamp=NOW, batch=offset),))


def counts(rows):
    """Keys that live and keys that are deleted, without the closing rows."""
    own = [r for r in rows if not r.key.startswith(b"closing")]
    return sum(r.value is not None for r in own), sum(r.value is None for r in own)


def test_the_generator_is_javas():
    random = JavaRandom(1)
    assert [random.next_int(100) for _ in range(10)] == [85, 88, 47, 13, 54, 4, 34, 6, 78, 48]


@pytest.mark.parametrize(("messages", "dups", "deletes", "live", "deleted"), GOLDEN)
def test_the_reference_cleaner_leaves_the_golden_counts(messages, dups, deletes, live, deleted):
    rows = list(stream(messages, dups, deletes))
    first = clean(log_of(rows), SETTINGS, NOW).log
    assert counts(first.rows) == (live, deleted)
    last = {r.key: r for r in rows}
    kept = {r.key: r for r in first.rows if r.key in last}
    assert kept == last
    more = Log((*first.segments, closing(messages + 1)), first.checkpoint, first.log_start, None, first.horizons)
    assert counts(clean(more, SETTINGS, NOW + 1).log.rows) == (live, 0)


@pytest.mark.spark
def test_the_spark_path_leaves_the_golden_counts(catalog, spark, home):
    batch = Batch(catalog, spark, home)
    batch.create({at: (log_of(list(stream(*case[:3]))), SETTINGS) for at, case in enumerate(GOLDEN)})

    def left(at):
        found = batch.table.refresh().scan(row_filter=f"partition = {at}").to_arrow().to_pylist()
        return counts([Row(r["offset"], r["key"], r["value"]) for r in found])

    batch.clean(dict.fromkeys(range(len(GOLDEN)), NOW))
    assert [left(at) for at in range(len(GOLDEN))] == [case[3:] for case in GOLDEN]
    batch.append({at: closing(case[0] + 1) for at, case in enumerate(GOLDEN)})
    batch.clean(dict.fromkeys(range(len(GOLDEN)), NOW + 1))
    assert [left(at) for at in range(len(GOLDEN))] == [(case[3], 0) for case in GOLDEN]
