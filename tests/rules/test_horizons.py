"""Delete horizons: set once, served in order, never early (invariant 5)."""

from dataclasses import replace

import pytest
from hardpack.rules.horizons import (
    NEVER,
    UNDATED,
    Reach,
    after_clean,
    after_expiry,
    due_markers,
    due_ranges,
    horizon_from,
    horizon_of,
    removable,
    undone_clock,
    waiting_for_reader,
    with_horizon,
    with_ranges,
    without_empty,
)
from hardpack.rules.model import DataFile, LastClean, LogState, LogView, SlowestReader, Unseen
from hardpack.rules.times import LONG_MAX


def cleaned(state, low, high, end, now, retention, emptied=(), copied_to=None):
    reach = Reach(low, high, high if copied_to is None else copied_to, high)
    return after_clean(state, reach, end, now, now + retention, emptied=emptied)


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


def test_a_late_tombstone_has_a_horizon_of_its_own_and_moves_no_other():
    horizons = with_ranges(((9, 100), (19, 200)), [(4, 4), (9, 11)], 500)
    found = [horizon_of(LogState(horizons=horizons), o) for o in (0, 3, 4, 5, 8, 9, 11, 12, 19, 20)]
    assert found == [100, 100, 500, 100, 100, 500, 500, 200, 200, None]
    assert with_ranges((), [(4, 4)], 500) == ()
    assert with_ranges(((9, 100),), [(20, 21)], 500) == ((9, 100),)


def test_a_pass_over_late_rows_leaves_the_other_horizons_as_they_are():
    state = LogState(checkpoint=20, log_end=30, horizons=((9, 100), (19, 200)))
    reach = Reach(4, 25, 25, 25)
    after = after_clean(state, reach, 30, 1000, 1500, late_tombstones=[(4, 4)])
    found = {o: horizon_of(after, o) for o in (0, 4, 5, 9, 19, 24)}
    assert found == {0: 100, 4: 1500, 5: 100, 9: 100, 19: 200, 24: 1500}


def test_the_checkpoint_stays_when_late_rows_fill_the_offset_map():
    """Invariant 6; what the pass did not come to is remembered instead."""
    state = LogState(checkpoint=20, log_end=30)
    after = after_clean(state, Reach(4, 8, 10, 25), 30, 1000, 1500, late_rows=True)
    assert (after.checkpoint, after.unseen.unseen_from, after.unseen.late_from) == (20, 8, 8)


def test_a_range_without_a_tombstone_needs_no_entry():
    def file(low, high, tombstones):
        return DataFile(f"f{low}", 1, 1, low, high, 0, 0, tombstones, 0)

    horizons = ((9, 100), (19, 200), (29, 300))
    assert without_empty(horizons, [file(0, 9, 0), file(10, 14, 1), file(20, 29, None)]) == ((19, 200), (29, 300))
    assert without_empty(horizons, [file(5, 25, 1)]) == horizons
    assert without_empty(horizons, []) == ()


def test_a_horizon_at_the_end_of_time_stays_there():
    never = horizon_from(1000, LONG_MAX)
    assert never == NEVER < UNDATED
    assert due_ranges(replace(LogState(), checkpoint=10, horizons=((9, never),)), never - 1) == ()


def test_a_horizon_at_the_end_of_time_is_not_taken_for_one_that_was_never_given():
    never = horizon_from(1000, LONG_MAX)
    state = LogState(checkpoint=10, horizons=((9, never),), unseen=Unseen(None, None, 3))
    assert after_clean(state, Reach(10, 15, 15, 20), 20, 2000, 9000).horizons == ((9, never), (14, 9000))


def test_where_no_tombstone_ever_goes_the_list_does_not_grow():
    assert with_horizon(((9, NEVER),), 14, NEVER) == ((14, NEVER),)
    assert with_horizon(((9, 50),), 14, 50) == ((9, 50), (14, 50)), "each pass serves what earlier ones marked"


def test_what_a_clock_in_the_future_gave_counts_from_now_once_it_is_undone():
    first = cleaned(LogState(), 0, 10, 20, 1000, 5000)
    ahead = cleaned(cleaned(first, 10, 20, 30, 90_000, 7000), 20, 30, 40, 91_000, 7000)
    assert ahead.horizons == ((9, 6000), (19, 97_000), (29, 98_000))
    right = undone_clock(ahead, 2000, 3000, {6000})
    assert (right.horizons, right.last_clean) == (((9, 6000), (19, 5000), (29, 5000)), LastClean(2000))
    assert undone_clock(ahead, 2000, 3000).horizons == ((9, 6000), (19, 97_000), (29, 5000)), "nobody tells of others"


def test_tombstones_before_the_first_late_row_need_not_wait_for_it():
    state = LogState(checkpoint=20, horizons=((9, 50), (19, 50)))
    assert removable(LogView(0, (), state, unseen_from=5), 100) == (((0, 4),), ())
    assert removable(LogView(0, (), state, unseen_from=0), 100) == ((), ())
    assert removable(LogView(0, (), state), 100) == (((0, 9), (10, 19)), ())


def test_what_never_comes_is_not_undone_with_the_clock():
    state = LogState(horizons=((9, NEVER),), last_clean=LastClean(5000, NEVER))
    assert undone_clock(state, 1000, 10).horizons == ((9, NEVER),)


READ_TO_50 = SlowestReader("billing", 50, limit_ms=1000)


@pytest.mark.parametrize(
    ("position", "now", "due"),
    [(50, 100, ()), (99, 100, ()), (100, 100, ((0, 99),)), (50, 1099, ()), (50, 1100, ((0, 99),)),
     (0, LONG_MAX, ((0, 99),))],
)  # fmt: skip
def test_tombstones_of_one_horizon_wait_until_the_slowest_reader_has_passed_all_of_them(position, now, due):
    state = LogState(checkpoint=100, horizons=((99, 100),))
    assert due_ranges(state, now, replace(READ_TO_50, position=position)) == due
    assert due_ranges(state, now) == ((0, 99),)


def test_a_reader_that_has_passed_one_horizon_is_waited_for_at_the_next():
    state = LogState(checkpoint=100, horizons=((49, 10), (99, 20)), markers=((10, (7, 70)),))
    log = LogView(0, (), state, slowest=READ_TO_50)
    assert removable(log, 30) == (((0, 49),), (7,))
    assert waiting_for_reader(log, 30)
    assert not waiting_for_reader(replace(log, slowest=None), 30)
    assert removable(log, 1020) == (((0, 49), (50, 99)), (7, 70))


def test_what_a_reader_has_not_passed_keeps_its_horizon_through_a_pass():
    state = LogState(checkpoint=100, horizons=((49, 10), (99, 20)))
    ranges, _ = removable(LogView(0, (), state, slowest=READ_TO_50), 30)
    assert after_expiry(state, ranges).horizons == ((99, 20),)
