"""Backfills: which heads have rows of an interval."""

import pytest
from hardpack.rules.selection import decide, has_rows_of
from hardpack.rules.settings import Settings

from tests.rules.test_selection import data_file, view

LOG = view(
    data_file(0, 9, early=1000, late=1999), data_file(10, 19, early=2000, late=2999), data_file(20, 29, early=3000)
)


@pytest.mark.parametrize(
    ("interval", "checkpoint", "there"),
    [
        ((1000, 2000), None, True),
        ((0, 1000), None, False),
        ((1999, 2000), None, True),
        ((2500, 9000), None, True),
        ((3000, 9000), None, False),  # the active segment is not cleanable
        ((1000, 2000), 10, False),  # the tail was cleaned before
        ((1000, 2001), 10, True),
    ],
)
def test_the_cleanable_head_has_rows_of_the_interval(interval, checkpoint, there):
    log = LOG if checkpoint is None else view(*LOG.files, checkpoint=checkpoint, log_end=30)
    assert has_rows_of(log, decide(log, Settings(), now=10_000), interval) is there


def test_a_file_without_timestamps_is_of_the_time_it_was_committed():
    from dataclasses import replace

    old = replace(data_file(0, 9), min_timestamp=None, max_timestamp=None, modified=500)
    log = view(old, data_file(10, 19))
    decision = decide(log, Settings(), now=10_000)
    assert has_rows_of(log, decision, (0, 501))
    assert not has_rows_of(log, decision, (501, 900))
