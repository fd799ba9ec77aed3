"""What is due, from where to where: the rules of Kafka's LogCleanerManager."""

from dataclasses import replace

import pytest
from hardpack.rules.model import DataFile, LogState, LogView, SeenCommits, SnapshotRef, to_segments
from hardpack.rules.selection import decide, first_dirty_offset, steady_until
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX


def data_file(low, high, size=100, early=1000, late=None, path=None, came=0):
    late = early if late is None else late
    return DataFile(path or f"f{low}", size, high - low + 1, low, high, early, late, 0, 0, file_sequence_number=came)


def view(*files, **state):
    return LogView(0, to_segments(list(files)), LogState(**state))


THREE = (data_file(0, 9), data_file(10, 19), data_file(20, 29))


def test_the_active_segment_is_never_cleaned_and_counts_nowhere():
    decision = decide(view(*THREE), Settings(), now=10_000)
    assert (decision.first_dirty, decision.first_uncleanable) == (0, 20)
    assert (decision.clean_bytes, decision.cleanable_bytes) == (0, 200)


def test_without_an_active_segment_the_whole_log_is_cleanable():
    decision = decide(view(*THREE), Settings(active_segment="none"), now=10_000)
    assert (decision.first_uncleanable, decision.cleanable_bytes) == (30, 300)


def test_the_ratio_must_be_above_the_threshold_strictly():
    log = view(*THREE, checkpoint=10, log_end=30)
    assert decide(log, Settings(), now=10_000).ratio == 0.5
    assert not decide(log, Settings(), now=10_000).due
    assert decide(log, Settings(min_cleanable_dirty_ratio=0.49), now=10_000).due
    assert decide(log, Settings(), now=10_000, force=True).due


def test_force_does_nothing_where_nothing_is_dirty():
    assert not decide(view(*THREE, checkpoint=20, log_end=30), Settings(), now=10_000, force=True).due


def test_a_segment_that_the_checkpoint_cuts_counts_on_both_sides():
    decision = decide(view(*THREE, checkpoint=5, log_end=30), Settings(), now=10_000)
    assert (decision.clean_bytes, decision.cleanable_bytes) == (100, 200)


def test_min_lag_stops_at_the_first_young_segment_even_before_older_ones():
    files = (data_file(0, 9, early=100), data_file(10, 19, early=901), data_file(20, 29, early=50), data_file(30, 39))
    decision = decide(view(*files), Settings(min_compaction_lag_ms=100), now=1000)
    assert decision.first_uncleanable == 10


def test_of_segments_with_one_base_none_is_passed_over():
    # a file with one row, which the next file begins with too
    files = (data_file(0, 3, early=100), data_file(4, 4, early=990), data_file(4, 9, early=100), data_file(9, 12))
    settings = Settings(min_compaction_lag_ms=100)
    before = decide(view(*files), settings, now=1000)
    after = decide(view(*files, checkpoint=4, log_end=13), settings, now=1000)
    assert before.first_uncleanable == after.first_uncleanable == 4
    assert not after.due


def test_a_segment_exactly_as_old_as_min_lag_is_cleanable():
    files = (data_file(0, 9, early=900), data_file(10, 19, early=5000))
    assert decide(view(*files), Settings(min_compaction_lag_ms=100), now=1000).first_uncleanable == 10


def test_max_lag_makes_a_log_due_below_the_ratio_but_not_at_equality():
    files = (data_file(0, 9, size=1000), data_file(10, 19, early=500), data_file(20, 29))
    log = view(*files, checkpoint=10, log_end=30)
    assert not decide(log, Settings(max_compaction_lag_ms=500), now=1000).due
    late = decide(log, Settings(max_compaction_lag_ms=500), now=1001)
    assert (late.due, late.overdue_ms) == (True, 1)
    assert "max.compaction.lag.ms" in late.reason


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 0), (5, 5), (30, 30), (31, 0)])
def test_a_checkpoint_outside_the_log_starts_it_anew(checkpoint, expected):
    assert first_dirty_offset(view(*THREE, checkpoint=checkpoint)) == expected


def test_a_checkpoint_below_the_log_start_moves_up_to_it():
    assert first_dirty_offset(view(*THREE, checkpoint=5, log_start=10)) == 10


def test_an_end_whose_row_was_removed_is_remembered():
    assert first_dirty_offset(view(data_file(0, 9), checkpoint=40, log_end=40)) == 40


def test_files_whose_offsets_overlap_are_one_segment():
    segments = to_segments([data_file(20, 29), data_file(0, 12), data_file(10, 19)])
    assert [(s.base_offset, s.last_offset, s.bytes) for s in segments] == [(0, 19, 200), (20, 29, 100)]


def test_an_empty_log_is_not_due():
    assert not decide(LogView(0, (), LogState()), Settings(), now=0, force=True).due


def test_a_file_that_others_put_across_the_checkpoint_counts_by_its_offsets():
    """Else ten new rows in a gigabyte make a log due at every look."""
    packed = data_file(0, 99, size=1000, came=7)
    log = view(
        packed,
        data_file(100, 109, came=8),
        checkpoint=90,
        log_end=100,
        seen=SeenCommits(4, 5),
        snapshot=SnapshotRef(1, 5),
    )
    decision = decide(log, Settings(), now=10_000)
    assert (decision.clean_bytes, decision.cleanable_bytes, decision.due) == (900, 100, False)
    ended = replace(log, state=replace(log.state, seen=SeenCommits(6, 7), layout=(0, 100)))
    assert decide(ended, Settings(), now=10_000).cleanable_bytes == 1000, "as Kafka counts a segment a pass ended in"
    served = replace(ended, state=replace(ended.state, layout=(0, 90)))
    assert decide(served, Settings(), now=10_000).cleanable_bytes == 100, "phase two has rewritten what others packed"


def test_a_row_that_comes_late_into_a_large_segment_is_no_half_of_it():
    files = data_file(0, 99, size=1000), data_file(95, 95, size=10, came=8)
    log = view(
        *files,
        data_file(100, 109, came=9),
        checkpoint=100,
        log_end=110,
        seen=SeenCommits(4, 5),
        snapshot=SnapshotRef(1, 5),
    )
    decision = decide(replace(log, unseen_from=95), Settings(), now=10_000)
    assert (decision.first_dirty, decision.clean_bytes, decision.cleanable_bytes) == (95, 959, 51)


def test_a_pause_hides_no_mark_of_a_log():
    """Somebody has to mend it, whether it is paused or not."""
    paused, marked = view(*THREE, paused=2), view(*THREE, uncleanable="the gate refused")
    both = view(*THREE, paused=1, uncleanable="the gate refused")
    found = [decide(log, Settings(), now=10_000) for log in (paused, marked, both)]
    assert [decision.held for decision in found] == [False, True, True]
    assert [decision.reason for decision in found] == [
        "paused 2 times and not resumed",
        "uncleanable until it is resumed: the gate refused",
        "paused; uncleanable until it is resumed: the gate refused",
    ]


def test_a_chain_of_files_that_share_their_borders_can_be_cleaned():
    files = [data_file(10 * at, 10 * at + 10) for at in range(5)]
    decision = decide(view(*files), Settings(), now=10_000)
    assert (decision.first_dirty, decision.bound, decision.due) == (0, 40, True)


def test_a_log_whose_files_are_all_tied_together_is_stuck_and_says_so():
    files = [data_file(10 * at, 10 * at + 15) for at in range(5)]
    decision = decide(view(*files), Settings(), now=10_000, force=True)
    assert (decision.due, decision.held) == (False, True)
    assert decision.reason.startswith("stuck: 5 files overlap in a chain from offset 0 to 55")
    assert not decide(view(*files[:3]), Settings(), now=10_000).held, "a few may be chance"
    assert decide(view(*files), Settings(active_segment="none"), now=10_000).due


def test_one_wide_late_file_ties_a_log_together_too():
    files = [*(data_file(10 * at, 10 * at + 9) for at in range(5)), data_file(3, 47)]
    decision = decide(view(*files), Settings(), now=10_000, force=True)
    assert (decision.due, decision.held) == (False, True)
    assert decision.reason.startswith("stuck: 6 files overlap in a chain from offset 0 to 49")


@pytest.mark.parametrize("early", [0, -1])
def test_a_row_without_a_time_does_not_switch_the_lag_off(early):
    files = (data_file(0, 9, early=early, late=500), data_file(10, 19))
    decision = decide(view(*files), Settings(max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1), now=10_000)
    assert decision.due
    assert decision.overdue_ms > 0
    assert not decide(
        view(data_file(0, 9, early=early, late=early), data_file(10, 19)),
        Settings(max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1), now=10_000,
    ).due  # fmt: skip


def test_rows_put_before_the_first_are_of_the_log():
    """A log start moves up by retention only."""
    log = view(data_file(4, 9), data_file(10, 19), checkpoint=10, log_end=20)
    assert log.log_start == 4
    assert replace(log, state=replace(log.state, log_start=10)).log_start == 10
    assert replace(log, unseen_from=2, state=replace(log.state, log_start=10)).log_start == 2


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1])
def test_legal_extremes_of_times_and_sizes_decide_something(value):
    names = ["min_compaction_lag_ms", "delete_retention_ms", "retention_ms", "retention_bytes"]
    settings = Settings(**dict.fromkeys(names, value))
    for now in (0, 1, 2**63 - 1):
        assert decide(view(*THREE), settings, now).reason


DAY = 86_400_000


@pytest.mark.parametrize(
    ("segment_ms", "now", "bound"),
    [
        (None, 10**15, 20), (DAY, 1000 + DAY, 20), (DAY, 1001 + DAY, 30), (LONG_MAX, 10**15, 20),
        (None, LONG_MAX, 20), (None, 10**30, 20),
    ],
)  # fmt: skip
def test_the_newest_segment_counts_as_closed_at_an_age(segment_ms, now, bound):
    settings = Settings(segment_ms=segment_ms, min_cleanable_dirty_ratio=0)
    decision = decide(view(*THREE), settings, now)
    assert decision.bound == bound
    if segment_ms == DAY:
        assert steady_until(view(*THREE), settings, decide(view(*THREE), settings, 2000), 2000) == 1001 + DAY


@pytest.mark.parametrize("stamp", [None, -1])
def test_a_newest_segment_without_times_is_as_old_as_its_file(stamp):
    newest = replace(data_file(20, 29, early=stamp), modified=5000)
    log, settings = view(*THREE[:2], newest), Settings(segment_ms=DAY)
    assert decide(log, settings, 5000 + DAY).bound == 20
    assert decide(log, settings, 5001 + DAY).bound == 30


def test_a_newer_file_is_active_again():
    settings = Settings(segment_ms=DAY)
    log = view(*THREE, data_file(30, 39, early=5 * DAY), checkpoint=30, log_end=40)
    assert decide(log, settings, 5 * DAY).first_uncleanable == 30
