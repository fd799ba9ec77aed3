"""Rows of a topic that was made anew, beside the old one's: what tells them, and what must not be taken for them."""

from dataclasses import replace

import pytest
from hardpack.rules.late_rows import seem_of_another_topic, waits_for_trust, why_of_another_topic
from hardpack.rules.model import DataFile, LogState, LogView, SeenCommits, SnapshotRef, to_segments
from hardpack.rules.retention import expired_segments
from hardpack.rules.selection import decide, why_left_alone
from hardpack.rules.settings import Settings

SEEN = LogState(checkpoint=100, log_end=100, snapshot=SnapshotRef(7, 5), seen=SeenCommits(4, 5))


def rows(low, high, early, late=None, came=3):
    last = early if late is None else late
    return DataFile(f"f{low}-{came}", 100, high - low + 1, low, high, early, last, 0, 0, file_sequence_number=came)


def log(*files, late_from=0, **state):
    return LogView(0, to_segments(list(files)), replace(SEEN, **state), None, late_from, late_from)


OLD = (rows(20, 39, 1000, 1500), rows(40, 99, 1600, 2000, came=5))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([*OLD, rows(0, 9, 5000, came=6)], True),
        ([*OLD, rows(0, 9, 2000, came=6)], False),
        ([*OLD, rows(0, 9, 900, 5000, came=6)], False),
        # its first rows come again, and its next ones
        ([*OLD, rows(0, 9, 5000, came=6), rows(5, 15, 5500, came=7)], True),
        # an old row is put back beside the new ones
        ([*OLD, rows(0, 9, 5000, came=6), rows(10, 10, 990, came=7)], True),
        # the new topic has outgrown the old one
        ([*OLD, rows(0, 90, 5000, came=6), rows(91, 150, 6000, came=7)], True),
        # the old topic's first row is still there
        ([rows(0, 0, 1000), *OLD, rows(0, 9, 5000, came=6)], True),
        # it goes on after somebody has trusted it
        ([*OLD, rows(0, 9, 5000, came=5), rows(10, 15, 6000, came=6)], False),
        # a new leader has given out the last offsets anew, or a clock was ahead
        ([*OLD, rows(90, 110, 5000, came=6)], False),
        ([*OLD, rows(30, 30, 5000, came=6)], False),
        # others had written all old rows anew before the new ones came
        ([rows(20, 99, 1000, 2000, came=6), rows(0, 9, 5000, came=7)], True),
        ([rows(20, 99, 1000, 2000, came=6), rows(0, 9, 5000, came=7), rows(100, 110, 6000, came=8)], True),
        ([rows(0, 99, 1000, 2000, came=6), rows(0, 9, 5000, came=7)], True),
        ([rows(0, 9, 900, came=7), rows(20, 99, 1000, 2000, came=6)], False),
        # rows without a time tell nothing
        ([*OLD, rows(0, 9, None, came=6)], False),
        ([rows(20, 99, -1), rows(0, 9, 5000, came=6)], False),
        ([rows(20, 99, None), rows(0, 9, 5000, came=6)], False),
    ],
)
def test_a_log_that_begins_anew_with_newer_rows_is_of_another_topic(files, told):
    assert seem_of_another_topic(log(*files)) is told


def test_rows_that_no_pass_has_covered_are_not_late():
    assert not seem_of_another_topic(log(*OLD, rows(0, 9, 5000, came=6), late_from=None))


@pytest.mark.parametrize("late_rows", ["clean", "refuse"])
def test_nothing_touches_such_a_log_before_somebody_trusts_it(late_rows):
    settings = Settings(cleanup_policy="compact,delete", retention_bytes=0, late_rows=late_rows)
    two_topics = log(*OLD, rows(0, 9, 5000, came=6))
    decision = decide(two_topics, settings, now=10**6, force=True)
    assert (decision.due, decision.held) == (False, True)
    assert decision.reason == why_left_alone(two_topics)
    assert decision.reason.startswith(
        "refused: the rows from offset 0 on are of 5000 ms and later, all others of 2000 "
    )
    assert waits_for_trust(two_topics, settings)
    # by its size alone all but the last segment would go, the new rows first
    assert expired_segments(two_topics, settings, now=10**6).deleted


def test_the_reason_tells_of_tombstones_that_are_gone_too():
    two_topics = log(*OLD, rows(0, 9, 5000, came=6), expired_to=50)
    assert "new ones (and tombstones up to 50 are gone); delete" in why_of_another_topic(two_topics)


def test_trust_reaches_what_had_come_and_no_more():
    came = rows(0, 9, 5000, came=6)
    assert why_of_another_topic(log(*OLD, came, trusted_to=6)) == ""
    assert why_of_another_topic(log(*OLD, came, rows(10, 15, 5000, came=7), trusted_to=6))
