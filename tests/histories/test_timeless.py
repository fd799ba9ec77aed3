"""Rows without a timestamp are as old as their commit, also once nothing but the state tells of it."""

from tests.histories.engine import simulated
from tests.histories.known import DAY, T
from tests.histories.steps import Step
from tests.histories.world import World

RETENTION_DAYS = 10


def test_rows_without_a_timestamp_reach_retention():
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
            world.do(Step("nightly", {"t": T}))
            tab = world.lake.tabs[T]
            left.append(sum(row.log == 0 for found in tab.visible(tab.current).values() for row in found))
    assert left[:RETENTION_DAYS] == [4] * RETENTION_DAYS
    assert left[RETENTION_DAYS + 1 :] == [0] * (RETENTION_DAYS - 1)
