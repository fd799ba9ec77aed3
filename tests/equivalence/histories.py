"""Random logs with their settings, clocks and steps, as Hypothesis strategies; the domain of the equivalence."""

from __future__ import annotations

from collections.abc import Callable

from hardpack.rules.reference.cleaner import Log, LogSegment
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import BYTES_PER_KEY, LONG_MAX, Settings
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.equivalence.cases import Case, Step

KEYS = [None, *(f"k{i}".encode() for i in range(7))]
WEIGHTS = {"plain": 6, "data": 4, "commit": 1, "abort": 1}


class _Writer:
    """Goes on appending to one log; remembers which producers have an open transaction."""

    def __init__(self, draw, start, transactions):
        self.draw, self.offset, self.transactions = draw, start, transactions
        self.open: set[int] = set()

    def segment(self, time, shortest=1):
        """Rows of one new segment from a time on; the first batch is the oldest."""
        base = self.offset
        rows = []
        for number in range(self.draw(st.integers(shortest, 7))):
            rows += self._batch(time + (self.draw(st.integers(0, 900)) if number else 0))
        self.offset += self.draw(st.sampled_from([0, 0, 1, 4]))
        return LogSegment(base, tuple(rows))

    def _batch(self, time):
        kind = self.draw(st.sampled_from([k for k, n in WEIGHTS.items() for _ in range(n)]))
        producer = self.draw(st.integers(1, 3))
        if not self.transactions or kind == "plain":
            return self._rows(time, None, self.draw(st.sampled_from([1, 1, 1, 2, 3])))
        if kind == "data":
            self.open.add(producer)
            return self._rows(time, producer, self.draw(st.sampled_from([1, 1, 2, 3])))
        self.open.discard(producer)
        marker = Row(self.offset, None, None, time, 100, producer, True, kind, self.offset)
        self.offset += 1
        return [marker]

    def _rows(self, time, producer, number):
        first = self.offset
        rows = []
        for _ in range(number):
            key, living = self.draw(st.sampled_from(KEYS)), self.draw(st.integers(0, 3))
            value = f"v{self.offset}".encode() if living else None
            rows.append(Row(self.offset, key, value, time, 100, producer, producer is not None, None, first))
            self.offset += 1
        self.offset += self.draw(st.sampled_from([0, 0, 0, 0, 1, 3]))
        return rows


@st.composite
def histories(draw, transactions=None):
    """A log with several segments, and steps: appends, changed settings, cleanings, retention."""
    limits = {
        "min.cleanable.dirty.ratio": draw(st.sampled_from([0.0, 0.0, 0.0, 0.3, 0.6])),
        "delete.retention.ms": draw(st.sampled_from([0, 300, 1000, 4000])),
        "min.compaction.lag.ms": draw(st.sampled_from([0, 0, 0, 1, 500, 2500])),
        "segment.bytes": draw(st.sampled_from([2**30, 2**30, 300, 900, 1500])),
        "cleanup.policy": draw(st.sampled_from(["compact", "compact", "compact,delete"])),
        "retention.ms": draw(st.sampled_from([-1, 3000, 8000])),
        "retention.bytes": draw(st.sampled_from([-1, 1200, 3000])),
        "log.cleaner.io.buffer.load.factor": 1.0,
        "null.keys": "drop",
    }
    keys = draw(st.sampled_from([None, None, None, 1, 2, 3, 5]))
    if keys is not None:
        limits["log.cleaner.dedupe.buffer.size"] = keys * BYTES_PER_KEY
    else:
        # the oldest row of a segment that a full map has split is not that of its first batch
        limits["max.compaction.lag.ms"] = draw(st.sampled_from([LONG_MAX, 2501, 6000]))
    now = 5000
    writer = _Writer(
        draw, draw(st.sampled_from([0, 0, 7])), draw(st.booleans()) if transactions is None else transactions
    )
    log = Log(tuple(writer.segment(now - 4000 + 1000 * i) for i in range(draw(st.integers(2, 4)))))
    steps, in_force = [], Settings.model_validate(limits)
    begin = in_force
    for _ in range(draw(st.integers(2, 5))):
        now += draw(st.sampled_from([0, 1, 300, 1000, 4000]))
        if draw(st.integers(0, 3)) == 0:
            limits = limits | {"delete.retention.ms": draw(st.sampled_from([0, 300, 1000, 4000]))}
            in_force = Settings.model_validate(limits)
        if in_force.deletes and draw(st.integers(0, 2)) == 0:
            steps.append(Step("retention", now, settings=in_force))
        steps.append(Step("clean", now, settings=in_force))
        if draw(st.integers(0, 4)):
            segment = writer.segment(now - draw(st.sampled_from([0, 100, 1000])))
            steps.append(Step("append_segment", segment=segment, settings=in_force))
    return Case("random", "", (), begin, log, tuple(steps))


def examples(number: int, at: int) -> list[Case]:
    """So many histories, each another, the same for the same seed."""
    found: dict[str, Case] = {}

    @seed(at)
    @settings(
        max_examples=2 * number, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(histories())
    def gather(case):
        found[repr(case)] = case

    gather()
    return list(found.values())[:number]


def breaks(rule: Callable[[Case], None]) -> bool:
    """Returns whether some history breaks a rule, as one with a planted bug should; it is not made smaller."""
    some = settings(max_examples=300, deadline=None, database=None, phases=(Phase.generate,))
    try:
        given(histories())(some(rule))()
    except AssertionError:
        return True
    return False
