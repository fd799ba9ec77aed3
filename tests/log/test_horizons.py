"""Delete horizons: set once, served in order, never early (invariant 5)."""

from hardpack.log.horizons import after_clean, after_expiry, due_ranges, horizon_of, with_horizon
from hardpack.log.model import LogState


def test_a_horizon_is_set_once():
    horizons = with_horizon((), 9, 100)
    assert with_horizon(horizons, 9, 500) == horizons
    assert with_horizon(horizons, 19, 500) == ((9, 100), (19, 500))
    assert [horizon_of(with_horizon(horizons, 19, 500), o) for o in (0, 9, 10, 19, 20)] == [100, 100, 500, 500, None]


def test_ranges_are_due_at_their_horizon_and_not_before():
    state = LogState(checkpoint=20, horizons=((9, 100), (19, 50)))
    assert due_ranges(state, 49) == ()
    assert due_ranges(state, 50) == ((10, 19),)
    assert due_ranges(state, 100) == ((0, 9), (10, 19))


def test_nothing_above_the_checkpoint_is_due():
    assert due_ranges(LogState(checkpoint=5, horizons=((9, 100),)), 100) == ((0, 4),)


def test_a_pass_does_not_remove_what_it_marked_itself():
    marked = after_clean(LogState(), 0, 10, 20, now=1000, delete_retention_ms=0)
    assert marked.horizons == ((9, 1000),)
    assert due_ranges(marked, 1000) == ()
    assert due_ranges(marked, 1001) == ((0, 9),)


def test_a_later_pass_at_the_same_time_removes_what_the_earlier_marked():
    first = after_clean(LogState(), 0, 10, 20, now=1000, delete_retention_ms=0)
    second = after_clean(first, 10, 20, 30, now=1000, delete_retention_ms=0)
    assert due_ranges(second, 1000) == ((0, 9),)


def test_served_entries_are_forgotten():
    state = LogState(checkpoint=20, horizons=((9, 100), (19, 200)))
    assert after_expiry(state, due_ranges(state, 150)).horizons == ((19, 200),)
