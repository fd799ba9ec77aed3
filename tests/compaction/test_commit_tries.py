"""A commit that others are faster than: tried again as the table says, from what it knows, and nothing left behind."""

from pathlib import Path

import pytest
from hardpack import Conflict
from hardpack.spark import commit
from hardpack.spark.commit import Commits

from tests.topics import T0, append, name_of, new_topic, offsets, row, superseded_once

pytestmark = pytest.mark.spark
DAY = 86_400_000


@pytest.fixture
def faster(monkeypatch):
    """Others append right before the swap of each of the first tries; gives the number of tries begun."""

    def plant(table, times):
        tries, updates, real = [], [], Commits._update

        def reach(point):
            if point != "before swap":
                return
            tries.append(point)
            if len(tries) <= times:
                append(table.refresh(), {0: [row(4 + len(tries), "z")]})

        monkeypatch.setattr(commit.faults, "reach", reach)
        monkeypatch.setattr(Commits, "_update", lambda *given: (updates.append(1), real(*given))[1])
        return tries, updates

    return plant


def metadata(table):
    """Manifests and manifest lists in the table's folder, and those of them that a snapshot names."""
    table.refresh()
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    named = {s.manifest_list for s in table.snapshots()}
    named |= {m.manifest_path for s in table.snapshots() for m in s.manifests(table.io)}
    return {p.name for p in folder.glob("*.avro")}, {path.rpartition("/")[2] for path in named}


def retries(table, number):
    with table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": str(number), "commit.retry.min-wait-ms": "1"})


def test_tries_share_one_update_and_leave_no_file_behind(hp, catalog, faster):
    table = superseded_once(catalog)
    retries(table, 3)
    plan = hp.plan(name_of(table), now=T0)
    tries, updates = faster(table, 3)
    hp.clean(plan)
    assert (len(tries), len(updates)) == (4, 1)
    assert offsets(table) == [1, 2, 3, 4, 5, 6, 7]
    there, named = metadata(table)
    assert there == named


def test_a_further_try_reads_no_manifest_again(hp, catalog, monkeypatch):
    """What a try costs is the same for a table of a few files and of a million: it reads what came meanwhile."""
    table = superseded_once(catalog)
    append(table, {1: [row(0, "a"), row(1, "b")]})
    plan = hp.plan(name_of(table), now=T0)
    old = [
        Path(m.manifest_path.removeprefix("file://")) for m in table.refresh().current_snapshot().manifests(table.io)
    ]
    assert len(old) > 1
    tries, hidden = [], []

    def reach(point):
        if point == "before swap":
            tries.append(point)
            if len(tries) == 1:
                append(table.refresh(), {0: [row(5, "z")]})
                hidden.extend(file.rename(file.with_suffix(".hidden")) for file in old)
        elif point == "after swap":
            while hidden:
                file = hidden.pop()
                file.rename(file.with_suffix(".avro"))

    monkeypatch.setattr(commit.faults, "reach", reach)
    hp.clean(plan)
    assert (len(tries), hidden) == (2, [])
    assert offsets(table) == [1, 2, 3, 4, 5]


def test_tries_end_where_the_table_says_and_leave_no_file_behind(hp, catalog, faster):
    table = superseded_once(catalog)
    retries(table, 1)
    plan = hp.plan(name_of(table), now=T0)
    tries, _ = faster(table, 2)
    with pytest.raises(Conflict, match="during each of 2 tries to commit"):
        hp.clean(plan)
    assert len(tries) == 2
    assert offsets(table) == [0, 1, 2, 3, 4, 5, 6]
    there, named = metadata(table)
    assert there == named


@pytest.mark.parametrize("lost", [0, 2])
def test_manifests_that_were_merged_into_others_stay_nowhere(hp, catalog, faster, lost):
    table = superseded_once(catalog)
    for offset in range(5, 9):
        append(table, {0: [row(offset, "a")]})
    with table.transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "2", "commit.retry.min-wait-ms": "1"})
    plan = hp.plan(name_of(table), now=T0)
    faster(table, lost)
    hp.clean(plan)
    cleaned = table.refresh().current_snapshot()
    assert len([m for m in cleaned.manifests(table.io) if m.added_snapshot_id == cleaned.snapshot_id]) == 1
    there, named = metadata(table)
    assert there == named


def test_an_entry_that_a_sink_looks_for_in_the_newest_snapshot_is_in_ours_too(hp, catalog):
    """AutoMQ reads its last commit's id from the current snapshot alone, to know after a failure whether it went on."""
    settings = {"cleanup_policy": "compact,delete", "retention_ms": DAY, "segment_bytes": 100, "delete_retention_ms": 0}
    table = new_topic(catalog, idle_tombstones="expire", **settings)
    append(table, {0: [row(0, "a"), row(1, "b", None)]})
    append(table, {0: [row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "d")]})
    rows = (
        table.scan(row_filter="offset = 4").to_arrow().set_column(1, table.schema().as_arrow().field("offset"), [[5]])
    )
    table.append(rows, snapshot_properties={"automq.commit.id": "one"})
    name = name_of(table)
    for verb in (
        lambda: hp.clean(hp.plan(name, now=T0)),
        lambda: hp.expire_tombstones(name, now=T0 + 10),
        lambda: hp.apply_retention(name, now=T0 + 10 * DAY),
        lambda: hp.pause(name, ["0"]),
    ):
        before = table.refresh().current_snapshot().snapshot_id
        verb()
        snapshot = table.refresh().current_snapshot()
        assert snapshot.snapshot_id != before
        assert snapshot.summary["automq.commit.id"] == "one"
