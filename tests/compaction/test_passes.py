"""The engine against small tables whose outcome is known."""

from random import Random

import pytest
from hardpack import Conflict
from hardpack.compaction.verify import must_hold
from hardpack.rules.model import SeenCommits, SnapshotRef
from hardpack.rules.settings import BYTES_PER_KEY, read_settings
from hardpack.table.history import Commit
from hardpack.table.log_views import read_logs
from hardpack.table.state import made_by, read_state

from tests.topics import T0, append, name_of, new_topic, offsets, row, superseded_once

pytestmark = pytest.mark.spark


def paths(table):
    table.refresh()
    return {f.path for v in read_logs(table, read_settings("", table.properties)) for f in v.files}


def three_segments(catalog, **settings):
    """The second segment holds nothing that is superseded, the last is active."""
    table = new_topic(catalog, **settings)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "a", None)], 1: [row(0, "x"), row(1, "x")]})
    append(table, {0: [row(5, "c"), row(6, "d")], 1: [row(2, "y")]})
    append(table, {0: [row(7, "b"), row(8, "e")], 1: [row(3, "x")]})
    append(table, {0: [row(9, "a"), row(10, "c")], 1: [row(4, "x")]})
    return table


def test_one_pass(hp, catalog):
    table = three_segments(catalog)
    name, before = name_of(table), paths(table)
    plan = hp.plan(name, now=T0)
    assert {p.partition: (p.first_dirty, p.first_uncleanable) for p in plan.logs} == {0: (0, 9), 1: (0, 4)}
    report = hp.clean(plan)
    assert offsets(table) == [2, 5, 6, 7, 8, 9, 10]
    assert offsets(table, 1) == [2, 3, 4]
    zero = next(entry for entry in report.logs if entry.partition == 0)
    assert (zero.rows_before, zero.rows_after, zero.superseded) == (9, 7, 2)
    assert (zero.files_rewritten, zero.files_written, zero.files_left_alone) == (1, 1, 3)
    assert zero.tombstones_waiting == 1
    after = paths(table)
    assert len(before - after) == 2
    assert len(after - before) == 1, "a file with no living row is removed, not rewritten"
    state = read_state(name, table.properties)
    assert (state["0"].checkpoint, state["1"].checkpoint) == (9, 4)
    assert state["0"].horizons == ((8, T0 + 86_400_000),)
    summary = table.current_snapshot().summary
    assert summary.operation.value == "overwrite"
    assert summary.additional_properties["hardpack.plan"] == f"one:{plan.id}"
    then = read_state(name, summary.additional_properties)
    made = table.current_snapshot()
    assert state == {
        p: made_by(found, SnapshotRef(made.snapshot_id, made.sequence_number)) for p, found in then.items()
    }
    assert {found.seen for found in state.values()} == {SeenCommits(made.sequence_number - 1, made.sequence_number)}


def test_the_same_plan_twice_is_one_commit(hp, catalog):
    table = three_segments(catalog)
    plan = hp.plan(name_of(table), now=T0)
    first, second = hp.clean(plan), hp.clean(plan)
    assert (second.repeated, second.snapshot, second.logs) == (True, first.snapshot, first.logs)
    assert table.refresh().current_snapshot().snapshot_id == first.snapshot
    assert hp.plan(name_of(table), now=T0).doing("clean") == ()


def test_phase_two_waits_for_the_horizon(hp, catalog):
    table = three_segments(catalog, delete_retention_ms=1000)
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0))
    assert hp.expire_tombstones(name, now=T0 + 999).snapshot is None
    report = hp.expire_tombstones(name, now=T0 + 1000)
    assert sum(e.expired_tombstone for e in report.logs) == 1
    assert offsets(table) == [5, 6, 7, 8, 9, 10]
    assert read_state(name, table.properties)["0"].horizons == ()
    again = hp.expire_tombstones(name, now=T0 + 1000)
    assert (again.repeated, again.snapshot) == (True, report.snapshot)
    assert hp.verify(name, now=T0 + 1000).success


def test_a_pass_with_nothing_to_drop_still_moves_the_checkpoint(hp, catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b", None)]})
    append(table, {0: [row(2, "c")]})
    before = paths(table)
    report = hp.clean(hp.plan(name_of(table), now=T0))
    assert report.snapshot == table.refresh().current_snapshot().snapshot_id
    assert table.current_snapshot().summary.operation.value == "append"
    assert paths(table) == before
    assert read_state("", table.properties)["0"].checkpoint == 2


def test_idle_tombstones_wait_as_in_kafka_unless_told_otherwise(hp, catalog):
    table = three_segments(catalog, delete_retention_ms=0)
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0))
    assert {p.action for p in hp.plan(name, now=T0 + 1).logs} == {"none"}
    hp.adopt(name, {"idle.tombstones": "expire"})
    assert {p.partition: p.action for p in hp.plan(name, now=T0 + 1).logs}[0] == "expire"


def test_keyless_rows_are_dropped_when_the_setting_says_so(hp, catalog):
    table = new_topic(catalog, null_keys="drop", active_segment="none")
    append(table, {0: [row(0, None), row(1, "a"), row(2, None, None)], 1: [row(0, "a")]})
    report = hp.clean(hp.plan(name_of(table), now=T0))
    assert offsets(table) == [1]
    assert {e.partition: e.null_key for e in report.logs} == {0: 2, 1: 0}


def test_keyless_rows_are_refused_even_when_the_metadata_does_not_count_them(hp, catalog):
    table = new_topic(catalog, active_segment="none")
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.key": "none"})
    append(table, {0: [row(0, None), row(1, "a")]})
    append(table, {1: [row(0, "a"), row(1, "a")]})
    report = hp.clean(hp.plan(name_of(table), now=T0))
    assert "1 rows without a key in partition 0" in report.notes[0]
    assert (offsets(table), offsets(table, 1)) == ([0, 1], [1]), "the other log is cleaned"
    (entry,) = hp.plan(name_of(table), now=T0 + 1, partitions=[0]).logs
    assert (entry.action, entry.uncleanable) == ("none", True)
    hp.adopt(name_of(table), {"null.keys": "drop"})
    hp.resume(name_of(table), [0])
    hp.clean(hp.plan(name_of(table), now=T0 + 1))
    assert offsets(table) == [1]


def test_an_older_plan_is_refused_and_changes_nothing(hp, catalog):
    table = three_segments(catalog)
    name = name_of(table)
    old = hp.plan(name, now=T0)
    done = hp.clean(hp.plan(name, now=T0 + 1))
    with pytest.raises(Conflict, match=r"plan was made for snapshot .* plan again"):
        hp.clean(old)
    assert hp.clean_or_replan(old).snapshot is None, "planned anew there is nothing left to do"
    assert table.refresh().current_snapshot().snapshot_id == done.snapshot


@pytest.mark.parametrize(
    ("value", "files"), [("v", [(1, 8)]), (Random(1).randbytes(20_000).hex(), [(1, 3), (4, 4), (7, 8)])]
)
def test_small_files_merge_and_stay_apart_from_a_large_one(hp, catalog, value, files):
    table = new_topic(catalog, active_segment="none")
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "z", value)]})
    append(table, {0: [row(5, "a"), row(6, "d")]})
    append(table, {0: [row(7, "d"), row(8, "a")]})
    hp.clean(hp.plan(name_of(table), now=T0))
    table.refresh()
    (view,) = read_logs(table, read_settings("", table.properties))
    assert [(f.min_offset, f.max_offset) for f in view.files] == files
    # Kafka would have made one segment of them
    assert [(s.base_offset, s.last_offset, len(s.files)) for s in view.segments] == [(0, 8, len(files))]
    assert offsets(table) == [1, 3, 4, 7, 8]


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_written_by_spark_keep_every_column(hp, spark, catalog, version):
    """Further partition fields, further columns of any kind, format v2 and v3 with its row lineage."""
    name = f"t.spark_v{version}"
    catalog.create_namespace_if_not_exists("t")
    spark.sql(
        f"CREATE TABLE hardpack.{name} (topic_partition string, offset bigint, timestamp timestamp, key string, "
        "value struct<a:int,b:array<string>,c:array<struct<x:int>>>, headers map<string,binary>, extra decimal(20,2), "
        "`list-of` array<struct<x:int>>, named map<string,struct<at:timestamp>>) USING iceberg "
        f"PARTITIONED BY (topic_partition, days(timestamp)) TBLPROPERTIES ('format-version'='{version}', "
        "'hardpack.cleanup.policy'='compact', 'hardpack.column.partition'='topic_partition', "
        "'hardpack.active.segment'='none')"
    )
    for start in (0, 10):
        spark.sql(
            f"INSERT INTO hardpack.{name} SELECT 'p/ü% ' || (id % 2), {start} + id, "
            f"timestamp_millis({T0} + (id % 3) * 86400000), 'k' || (id % 4), "
            "if(id % 5 = 4, null, struct(int(id) as a, array('x', string(id)) as b, "
            "  element_at(array(null, array(), array(struct(int(id) as x))), int(id % 3) + 1) as c)), "
            "map('h', binary('1')), id / 3, "
            "element_at(array(null, array(), array(struct(int(id) as x))), int(id % 3) + 1), "
            "element_at(array(null, map(), map('a', struct(timestamp_micros(id) as at))), int(id % 3) + 1) "
            "FROM range(10)"
        )
    lineage = ", _row_id, _last_updated_sequence_number" if version == "3" else ""
    select = f"SELECT * {lineage} FROM hardpack.{name}"
    before = {(r.topic_partition, r.offset): r for r in spark.sql(select).collect()}
    hp.clean(hp.plan(name, now=T0))
    after = {(r.topic_partition, r.offset): r for r in spark.sql(select).collect()}
    latest = {(r.topic_partition, r.key): k for k, r in sorted(before.items())}
    assert set(after) == set(latest.values())
    assert all(before[k] == r for k, r in after.items())
    assert hp.verify(name, now=T0).success


def test_no_staged_file_is_left_behind(hp, catalog, tmp_path):
    from pathlib import Path
    from urllib.parse import urlparse

    table = three_segments(catalog)
    hp.clean(hp.plan(name_of(table), now=T0))
    folder = Path(urlparse(table.location()).path)
    assert list(folder.rglob("*.puffin")) == []
    known = {f["file_path"] for f in table.refresh().inspect.all_files().to_pylist()}
    assert {str(p) for p in folder.rglob("*.parquet")} == {urlparse(k).path for k in known}


def test_what_stands_at_any_time_is_verified_when_the_snapshot_before_has_expired(hp, spark, catalog):
    table = three_segments(catalog)
    name = name_of(table)
    base = hp.clean(hp.plan(name, now=T0)).base
    spark.sql(f"CALL hardpack.system.expire_snapshots(table => '{name}', snapshot_ids => ARRAY({base}))")
    report = hp.verify(name, now=T0)
    assert report.success
    assert f"snapshot {base} before the last pass has expired" in report.note


def test_a_pass_whose_report_is_lost_is_not_held_against_the_one_before(hp, catalog, monkeypatch):
    """Orphan removal of others may delete the file of a long report."""
    table = three_segments(catalog)
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0))
    append(table, {0: [row(11, "e"), row(12, "f")]})
    lost, report = hp.clean(hp.plan(name, now=T0 + 1, force=True)).snapshot, Commit.report
    assert 5 not in offsets(table), "the second pass removed a row"
    monkeypatch.setattr(Commit, "report", property(lambda self: "" if self.snapshot == lost else report.func(self)))
    assert hp.verify(name, now=T0 + 1).success


def test_a_log_that_no_pass_touched_has_nothing_to_verify(hp, catalog):
    report = hp.verify(name_of(three_segments(catalog)), now=T0)
    assert (report.checks, report.success) == ((), True)
    assert "no pass of these logs" in report.note


def test_verify_finds_what_another_writer_broke(hp, spark, catalog):
    table = three_segments(catalog)
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0))
    spark.sql(f"DELETE FROM hardpack.{name} WHERE partition = 0 AND offset = 7")
    report = hp.verify(name, now=T0)
    assert {c.expectation for c in report.checks if not c.success} == {
        "expect_latest_record_per_key",
        "expect_ledger_balances",
    }
    assert report.passes_hold, "that was not the pass's doing"
    assert "others changed some" in report.note
    assert must_hold(report)


def test_phase_two_does_not_mind_keyless_rows_of_a_later_head(hp, catalog):
    table = three_segments(catalog, delete_retention_ms=0, min_cleanable_dirty_ratio=0)
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0))
    append(table, {0: [row(20, None)], 1: [row(20, "a")]})
    append(table, {0: [row(21, "a")], 1: [row(21, "a")]})
    assert "without a key" in hp.plan(name, now=T0 + 1, partitions=[0]).logs[0].reason
    assert sum(e.expired_tombstone for e in hp.expire_tombstones(name, now=T0 + 1).logs) == 1


def test_what_a_pass_tells_is_written_with_the_credentials_of_its_files(hp, catalog, monkeypatch):
    """A pass may outlive the credentials that came with the table; those of its files are renewed."""
    from hardpack.compaction import publish, session

    made, used = [], []
    real, folder = session.TableSession.data_files, publish.PassFolder
    monkeypatch.setattr(
        session.TableSession, "data_files", lambda self, settings: made.append(real(self, settings)) or made[-1]
    )
    monkeypatch.setattr(publish, "PassFolder", lambda io, location: used.append(io) or folder(io, location))
    table = superseded_once(catalog)
    hp.clean(hp.plan(name_of(table), now=T0))
    assert [io is files.io for io, files in zip(used, made, strict=True)] == [True]


def test_the_state_does_not_grow_where_no_tombstone_comes(hp, catalog):
    rules = {"min_cleanable_dirty_ratio": 0, "active_segment": "none", "delete_retention_ms": 10**12}
    table = new_topic(catalog, **rules)
    sizes = []
    for turn in range(6):
        append(table, {p: [row(100 + 2 * turn, f"k{turn % 2}"), row(101 + 2 * turn, "b")] for p in range(3)})
        hp.clean(hp.plan(name_of(table), now=T0 + turn))
        properties = table.refresh().properties
        assert {s.horizons for s in read_state("", properties).values()} <= {()}
        sizes.append(len(properties["hardpack.state"]))
    assert max(sizes[3:]) <= sizes[2] + 20, "bytes"


def test_how_full_an_offset_map_became(hp, catalog):
    """Ten slots, of which nine may be used (SkimpyOffsetMap.utilization)."""
    room = {"log_cleaner_dedupe_buffer_size": 10 * BYTES_PER_KEY, "log_cleaner_io_buffer_load_factor": 0.9}
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, active_segment="none", null_keys="drop", **room)

    def percent():
        (log,) = hp.clean(hp.plan(name_of(table), now=T0, force=True)).logs
        return log.buffer_utilization_percent

    append(table, {0: [row(n, f"k{n % 5}") for n in range(8)]})
    assert percent() == 50
    append(table, {0: [row(n, f"k{n}") for n in range(10, 30)]})
    assert [percent() for _ in range(3)] == [90, 90, 20]
    append(table, {0: [row(40, None)]})
    assert percent() == 0


def test_an_offset_map_that_nothing_bounds_is_not_full(hp, catalog):
    (log,) = hp.clean(hp.plan(name_of(superseded_once(catalog)), now=T0)).logs
    assert log.buffer_utilization_percent is None
