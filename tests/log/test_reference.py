"""The reference cleaner: worked examples, and what must hold for any log."""

import pytest
from hardpack.log.model import LogState
from hardpack.log.reference import Row, clean, phase_one, phase_two
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topics import row


def offsets(rows):
    return [r.offset for r in rows]


def test_the_latest_row_of_a_key_stays_at_its_offset():
    rows = [row(0, "a"), row(1, "b"), row(2, "a"), row(3, "c"), row(4, "a")]
    out = phase_one(rows, LogState(), 0, 4, now=0, delete_retention_ms=10)
    assert offsets(out.rows) == [1, 2, 3, 4]
    assert out.state.checkpoint == 4
    assert out.state.horizons == ((3, 10),)


def test_rows_at_or_above_the_bound_neither_go_nor_supersede():
    rows = [row(0, "a"), row(1, "b"), row(2, "a"), row(3, None)]
    assert offsets(phase_one(rows, LogState(), 0, 2, 0, 0).rows) == [0, 1, 2, 3]


def test_the_clean_part_is_superseded_by_the_head():
    rows = [row(0, "a"), row(1, "b"), row(5, "a"), row(6, "z")]
    assert offsets(phase_one(rows, LogState(checkpoint=2), 2, 6, 0, 0).rows) == [1, 5, 6]


def test_keyless_rows_go_below_the_bound():
    out = phase_one([row(0, None), row(1, "a"), row(2, None)], LogState(), 0, 2, 0, 0)
    assert offsets(out.rows) == [1, 2]
    assert out.dropped["null_key"] == {0}


def test_an_empty_value_is_a_value():
    out = clean([Row(0, b"a", b"")], LogState(checkpoint=0, horizons=((0, 0),)), 0, 1, 100, 0)
    assert offsets(out.rows) == [0]


def test_a_tombstone_takes_two_passes():
    rows = [row(0, "a"), row(1, "a", None), row(2, "b"), row(3, "b")]
    first = clean(rows, LogState(), 0, 2, now=100, delete_retention_ms=0)
    assert offsets(first.rows) == [1, 2, 3]
    second = clean(first.rows, first.state, 2, 3, now=100, delete_retention_ms=0)
    assert offsets(second.rows) == [2, 3]


KEYS = st.sampled_from([None, b"a", b"b", b"c", b"d"])
VALUES = st.sampled_from([None, b"1", b""])


@st.composite
def histories(draw):
    rows = draw(st.lists(st.tuples(KEYS, VALUES), max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=4)))
    times = sorted(draw(st.lists(st.integers(0, 50), min_size=len(cuts), max_size=len(cuts))))
    retention = draw(st.integers(0, 30))
    return [Row(o, k, v) for o, (k, v) in enumerate(rows)], cuts, times, retention


@given(histories())
@settings(max_examples=300, deadline=None)
def test_any_history_keeps_the_guarantees(history):
    """Invariants 1 to 5 over several passes."""
    everything, cuts, times, retention = history
    by_offset = {r.offset: r for r in everything}
    rows, state = tuple(everything), LogState()
    first_seen: dict[int, int] = {}
    for cut, now in zip(cuts, times, strict=True):
        before = set(offsets(rows))
        start = state.checkpoint or 0
        if cut <= start:
            continue
        out = clean(rows, state, start, cut, now, retention)
        dropped = frozenset().union(*out.dropped.values())
        assert before == set(offsets(out.rows)) | dropped
        assert sum(map(len, out.dropped.values())) == len(dropped)
        assert all(by_offset[r.offset] == r for r in out.rows)
        assert all(o < cut for o in dropped)
        for offset in out.dropped["expired_tombstone"]:
            assert first_seen[offset] + retention <= now
        first_seen |= {o: now for o in offsets(out.rows) if o < cut and o not in first_seen}
        kept = [r for r in out.rows if r.offset < cut]
        assert len({r.key for r in kept}) == len(kept)
        latest = {r.key: r for r in everything if r.offset < cut and r.key is not None}
        assert {r.key for r in kept} >= {k for k, r in latest.items() if r.value is not None}
        assert all(latest[r.key] == r for r in kept)
        rows, state = out.rows, out.state


@given(histories())
@settings(max_examples=200, deadline=None)
def test_a_phase_run_twice_does_nothing_more(history):
    """Invariant 6."""
    everything, cuts, times, retention = history
    one = phase_one(everything, LogState(), 0, cuts[-1], times[-1], retention)
    again = phase_one(one.rows, one.state, 0, cuts[-1], times[-1] + 1, retention)
    assert again.rows == one.rows
    assert again.state.horizons == one.state.horizons
    two = phase_two(one.rows, one.state, times[-1] + retention + 1)
    assert phase_two(two.rows, two.state, times[-1] + retention + 1) == two.__class__(
        two.rows, two.state, {"expired_tombstone": frozenset()}
    )


def test_the_property_catches_a_cleaner_that_ignores_the_bound(monkeypatch):
    """A planted bug: the map takes the whole log."""
    import hardpack.log.reference as reference

    real = reference.offset_map
    monkeypatch.setattr(reference, "offset_map", lambda rows, low, _: real(rows, low, 2**62))
    with pytest.raises(AssertionError):
        test_any_history_keeps_the_guarantees()
