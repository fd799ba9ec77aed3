"""The reference cleaner: worked examples, and what must hold for any log."""

from dataclasses import replace

from hardpack.rules.reference import cleaner as reference
from hardpack.rules.reference.cleaner import Log, LogSegment, append_segment, clean
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings
from hypothesis import given, settings

from tests.equivalence.histories import breaks, histories
from tests.equivalence.test_reference import step_of
from tests.topics import row

ALWAYS = Settings.model_validate({"min.cleanable.dirty.ratio": 0, "delete.retention.ms": 10, "null.keys": "drop"})


def log_of(*segments, **state):
    """A log of segments given as lists of rows; the last is active."""
    return Log(tuple(LogSegment(rows[0].offset, tuple(rows)) for rows in segments), **state)


def offsets(log):
    return [r.offset for r in log.rows]


def test_the_latest_row_of_a_key_stays_at_its_offset():
    log = log_of([row(0, "a"), row(1, "b"), row(2, "a"), row(3, "c")], [row(4, "a")])
    out = clean(log, ALWAYS, now=0)
    assert offsets(out.log) == [1, 2, 3, 4]
    assert out.log.checkpoint == 4


def test_the_active_segment_neither_goes_nor_supersedes():
    out = clean(log_of([row(0, "a"), row(1, "b")], [row(2, "a"), row(3, None)]), ALWAYS, now=0)
    assert offsets(out.log) == [0, 1, 2, 3]


def test_the_clean_part_is_superseded_by_the_head():
    log = log_of([row(0, "a"), row(1, "b")], [row(5, "a")], [row(6, "z")], checkpoint=2)
    assert offsets(clean(log, ALWAYS, now=0).log) == [1, 5, 6]


def test_keyless_rows_go_below_the_bound():
    out = clean(log_of([row(0, None), row(1, "a")], [row(2, None)]), ALWAYS, now=0)
    assert offsets(out.log) == [1, 2]
    assert out.dropped["null_key"] == {0}


def test_an_empty_value_is_a_value():
    log = log_of([Row(0, b"a", b"")], [row(1, "z")], horizons={0: 0})
    assert offsets(clean(log, ALWAYS, now=100).log) == [0, 1]


def test_a_segment_rolled_at_the_base_of_an_empty_one_takes_its_place():
    empty = Log((LogSegment(3, ()),))
    log = append_segment(empty, LogSegment(3, (row(3, "a"), row(4, "b"))))
    log = append_segment(log, LogSegment(5, (row(5, "c"),)))
    assert [s.base for s in log.segments] == [3, 5]
    assert offsets(clean(log, ALWAYS, now=0).log) == [3, 4, 5]


def test_a_tombstone_takes_two_passes():
    none = Settings.model_validate({"min.cleanable.dirty.ratio": 0, "delete.retention.ms": 0})
    log = log_of([row(0, "a"), row(1, "a", None)], [row(2, "b")], [row(3, "b")])
    first = clean(replace(log, segments=log.segments[:2]), none, now=100)
    assert offsets(first.log) == [1, 2]
    second = clean(replace(first.log, segments=(*first.log.segments, log.segments[2])), none, now=100)
    assert offsets(second.log) == [2, 3]


def keeps_the_guarantees(case):
    """Invariants 1 to 5 over several passes."""
    written = {r.offset: r for s in case.log.segments for r in s.rows}
    log, horizons = case.log, {}
    for step in case.steps:
        before = log
        log, seen = step_of(log, step)
        written |= {r.offset: r for r in log.rows if r.offset not in written}
        if step.do != "clean" or not seen["selected"]:
            continue
        out = clean(before, step.settings, step.now)
        dropped = frozenset().union(*out.dropped.values())
        assert len(set(offsets(log))) == len(offsets(log))
        assert set(offsets(before)) == set(offsets(log)) | dropped
        assert sum(map(len, out.dropped.values())) == len(dropped)
        assert all(written[r.offset] == r for r in log.rows)
        assert all(o < out.decision.bound for o in dropped)
        for offset in out.dropped["expired_tombstone"] | out.dropped["expired_marker"]:
            assert horizons[offset] <= step.now
        assert all(log.horizons[o] == ms for o, ms in horizons.items() if o in log.horizons)
        fresh = {ms for o, ms in log.horizons.items() if o not in horizons}
        assert fresh <= {step.now + step.settings.delete_retention_ms}
        horizons = dict(log.horizons)
        kept = [r for r in log.rows if r.offset < log.checkpoint and r.control is None]
        assert len({r.key for r in kept}) == len(kept)


@given(histories())
@settings(max_examples=300, deadline=None)
def test_any_history_keeps_the_guarantees(case):
    keeps_the_guarantees(case)


def test_the_property_catches_a_cleaner_that_ignores_the_bound(monkeypatch):
    """A planted bug: the map takes the whole log."""
    real = reference.build_offset_map

    def unbounded(rows, bases, low, high, *rest):
        return reference.OffsetMap(real(rows, bases, low, 2**62, *rest).latest, high - 1)

    monkeypatch.setattr(reference, "build_offset_map", unbounded)
    assert breaks(keeps_the_guarantees)
