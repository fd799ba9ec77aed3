"""Delete horizons: set once, served in order, never early (invariant 5)."""

from hardpack.log.horizons import (
    Copied,
    after_clean,
    after_expiry,
    due_markers,
    due_ranges,
    horizon_of,
    with_horizon,
)
from hardpack.log.model import LogState


def cleaned(state, low, high, end, now, retention, emptied=(), copied_to=None):
    reach = Copied(low, high, high if copied_to is None else copied_to, high)
    return after_clean(state, reach, 0, end, now, retention, emptied)


def test_a_horizon_is_set_once():
    horizons = with_horizon((), 9, 100)
    assert with_horizon(horizons, 9, 500) == horizons
    assert with_horizon(horizons, 19, 500) == ((9, 100), (19, 500))
    assert [horizon_of(LogState(horizons=with_horizon(horizons, 19, 500)), o) for o in (0, 9, 10, 19, 20)] == [
        100,
        100,
        500,
        500,
        None,
    ]


def test_ranges_are_due_at_their_horizon_and_not_before():
    state = LogState(checkpoint=20, horizons=((9, 100), (19, 50)))
    assert due_ranges(state, 49) == ()
    assert due_ranges(state, 50) == ((10, 19),)
    assert due_ranges(state, 100) == ((0, 9), (10, 19))


def test_nothing_above_the_checkpoint_is_due():
    assert due_ranges(LogState(checkpoint=5, horizons=((9, 100),)), 100) == ((0, 4),)


def test_a_pass_does_not_remove_what_it_marked_itself():
    marked = cleaned(LogState(), 0, 10, 20, 1000, 0)
    assert marked.horizons == ((9, 1000),)
    assert due_ranges(marked, 1000) == ()
    assert due_ranges(marked, 1001) == ((0, 9),)


def test_a_later_pass_at_the_same_time_removes_what_the_earlier_marked():
    first = cleaned(LogState(), 0, 10, 20, 1000, 0)
    second = cleaned(first, 10, 20, 30, 1000, 0)
    assert due_ranges(second, 1000) == ((0, 9),)


def test_served_entries_are_forgotten():
    state = LogState(checkpoint=20, horizons=((9, 100), (19, 200)))
    assert after_expiry(state, due_ranges(state, 150)).horizons == ((19, 200),)


def test_a_full_map_marks_all_that_was_copied_but_only_what_was_mapped_may_go():
    state = cleaned(LogState(), 0, 5, 20, 1000, 0, copied_to=10)
    assert state.horizons == ((9, 1000),)
    assert due_ranges(state, 1001) == ((0, 4),)
    later = cleaned(state, 5, 10, 20, 1001, 0)
    assert later.horizons == ((9, 1000),)
    assert due_ranges(later, 1001) == ((0, 9),)


def test_markers_get_a_horizon_of_their_own_once():
    first = cleaned(LogState(), 0, 10, 20, 1000, 5, emptied=[3])
    second = cleaned(first, 10, 20, 30, 1002, 5, emptied=[3, 12])
    assert second.markers == ((1005, (3,)), (1007, (12,)))
    assert due_markers(second, 1004) == ()
    assert due_markers(second, 1005) == (3,)
    assert after_expiry(second, (), (3,)).markers == ((1007, (12,)),)


def test_a_pass_does_not_remove_the_markers_it_found_empty():
    state = cleaned(LogState(), 0, 10, 20, 1000, 0, emptied=[3])
    assert due_markers(state, 1000) == ()
    assert due_markers(state, 1001) == (3,)
