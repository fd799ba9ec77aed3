"""Rows without a timestamp are as old as their commit, also once nothing but the state tells of it."""

import pytest

from tests.histories.engine import simulated
from tests.histories.known import DAY, T
from tests.histories.steps import Step
from tests.histories.world import World

RETENTION_DAYS = 10
NIGHTLY, ALL_BUT_ONE, RETENTION = (
    Step("nightly", {"t": T}),
    Step("foreign_expire", {"t": T, "keep": 1}),
    Step("retention", {"t": T}),
)


def left_each_day(*daily):
    """How many rows without a timestamp are left after each day, of four that came first; other logs go on."""
    rows = [["a", "value", 1, None], ["b", "value", 1, None]]
    settings = {"cleanup.policy": "compact,delete", "retention.ms": str(RETENTION_DAYS * DAY)}
    left = []
    with simulated():
        world = World()
        world.do(Step("create", {"t": T, "version": 2, "settings": settings}))
        for _ in range(2):
            world.do(Step("append", {"t": T, "logs": {"0": rows}}))
        for _ in range(2 * RETENTION_DAYS):
            world.do(Step("advance", {"ms": DAY}))
            # the commits of others, whose snapshots push the old ones out
            world.do(Step("append", {"t": T, "logs": {"1": [["a", "value", 1, "now"]]}}))
            for step in daily:
                world.do(step)
            tab = world.lake.tabs[T]
            left.append(sum(row.log == 0 for found in tab.visible(tab.current).values() for row in found))
    return left


@pytest.mark.parametrize("daily", [[NIGHTLY], [ALL_BUT_ONE, NIGHTLY]], ids=["by our nights", "others expire before"])
def test_rows_without_a_timestamp_reach_retention(daily):
    left = left_each_day(*daily)
    assert left[:RETENTION_DAYS] == [4] * RETENTION_DAYS
    assert left[RETENTION_DAYS + 1 :] == [0] * (RETENTION_DAYS - 1)


def test_a_limit_without_maintenance_they_are_as_old_as_the_oldest_snapshot_that_others_leave():
    """docs/limits.md says so: nothing but a night of maintenance notes when a file came."""
    assert left_each_day(ALL_BUT_ONE, RETENTION) == [4] * (2 * RETENTION_DAYS)
