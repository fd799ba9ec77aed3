"""Logs that no pass may touch: paused, uncleanable, or not of `compact` (LogCleanerManager.deletableLogs)."""

import pytest
from hardpack.compaction.alter_states import mark_uncleanable

from tests.topics import T0, append, name_of, new_topic, offsets, row, session_of

pytestmark = pytest.mark.spark
RULES = {
    "cleanup_policy": "compact,delete", "retention_ms": 10_000, "segment_bytes": 100, "delete_retention_ms": 100,
    "min_cleanable_dirty_ratio": 0, "idle_tombstones": "expire",
}  # fmt: skip
LATER = T0 + 1_000_000
"""Every tombstone is due by then, and every segment past its retention."""


def everything(hp, name):
    """Each verb that removes rows, as urgently as it can be asked."""
    hp.clean(hp.plan(name, now=LATER, force=True))
    hp.expire_tombstones(name, now=LATER)
    hp.expire_after(hp.plan(name, now=LATER, force=True))
    hp.apply_retention(name, now=LATER)


@pytest.mark.parametrize("mark", ["paused", "uncleanable"])
def test_nothing_touches_a_log_that_is_paused_or_uncleanable(hp, catalog, mark):
    table = new_topic(catalog, **RULES)
    for first in (0, 4):
        rows = [row(first, "a"), row(first + 1, "b", None), row(first + 2, "a")]
        append(table, {0: rows, 1: rows}, at=T0 + first)
    append(table, {0: [row(8, "z")], 1: [row(8, "z")]}, at=LATER)
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0 + 10))
    append(table, {0: [row(9, "z")], 1: [row(9, "z")]}, at=LATER)
    append(table, {0: [row(10, "y")], 1: [row(10, "y")]}, at=LATER)
    before = offsets(table)
    assert 5 in before, "its tombstone waits"
    if mark == "paused":
        hp.pause(name, ["0"])
    else:
        mark_uncleanable(session_of(table.refresh()), [0], "the gate refused")
    everything(hp, name)
    assert offsets(table) == before
    assert offsets(table, 1) == [9, 10], "its neighbour lost what was due"
    hp.resume(name, ["0"])
    everything(hp, name)
    assert offsets(table) == [9, 10]


def test_phase_two_leaves_a_log_that_is_only_deleted_by_segments(hp, catalog):
    rules = RULES | {"retention_ms": -1}
    table = new_topic(catalog, **rules)
    append(table, {0: [row(0, "a", None), row(1, "b")]})
    append(table, {0: [row(2, "c")]})
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0 + 10))
    hp.adopt(name, {"cleanup.policy": "delete"})
    everything(hp, name)
    assert offsets(table) == [0, 1, 2]
    hp.adopt(name, {"cleanup.policy": "compact"})
    everything(hp, name)
    assert offsets(table) == [1, 2]


def test_rows_that_differ_at_one_offset_stop_their_own_log_alone(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "b", "one")], 1: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(1, "b", "two")], 1: [row(2, "a")]})
    append(table, {0: [row(3, "z")], 1: [row(3, "z")]})
    name = name_of(table)
    report = hp.clean(hp.plan(name, now=T0))
    assert [log.partition for log in report.logs] == [1]
    assert (offsets(table, 0), offsets(table, 1)) == ([0, 1, 1, 3], [1, 2, 3])
    first, second = hp.status_of(table.refresh(), T0)
    assert (first.uncleanable, second.uncleanable) == (True, False)
    assert "with a row that differs, the first at offset 1" in first.reason
