"""What only a table can do to a log: each has a defined outcome, nothing lost, nothing resurrected (invariant 9)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hardpack import BadInput
from hardpack.rules.settings import read_settings
from hardpack.table.history import trusted_states
from hardpack.table.log_views import read_logs
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType

from tests.topics import T0, append, name_of, new_topic, offsets, row, rows_of

pytestmark = pytest.mark.spark


def cleaned(hp, table, now=T0, **arguments):
    return hp.clean(hp.plan(name_of(table), now=now, **arguments))


def view_of(table, partition=0):
    table.refresh()
    views = read_logs(table, read_settings("", table.properties))
    return next(v for v in views if v.partition == partition)


@pytest.fixture
def topic(hp, catalog):
    """Cleaned once: a@2 and b@1 are left below checkpoint 4, the tombstone c@3 waits."""
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, delete_retention_ms=100)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "a"), row(3, "c", None)]})
    append(table, {0: [row(10, "z")]})
    cleaned(hp, table)
    assert offsets(table) == [1, 2, 3, 10]
    return table


def test_late_rows_are_seen_and_cleaned_from_there_again(hp, topic):
    append(topic, {0: [row(0, "a"), row(3, "c", None), row(4, "b")]})
    append(topic, {0: [row(11, "y")]})
    assert view_of(topic).unseen_from == 0
    plan = hp.plan(name_of(topic), now=T0 + 1)
    assert (plan.logs[0].first_dirty, plan.logs[0].action) == (0, "clean")
    report = hp.clean(plan)
    assert offsets(topic) == [2, 3, 4, 10, 11]
    assert report.logs[0].duplicate == 1
    assert view_of(topic).unseen_from is None
    assert hp.verify(name_of(topic), now=T0 + 1).success


def test_late_rows_that_come_while_a_pass_runs_are_seen_after_it(hp, spark, topic, meanwhile):
    """Invariant 9: their sequence number is lower than that of the pass, which has not read them all the same."""
    append(topic, {0: [row(11, "b"), row(12, "y")]})
    append(topic, {0: [row(13, "y")]})
    name = name_of(topic)
    plan = hp.plan(name, now=T0 + 1)
    meanwhile(lambda: append(topic.refresh(), {0: [row(4, "b")]}))
    hp.clean(plan)
    assert offsets(topic) == [2, 3, 4, 10, 11, 12, 13]
    assert view_of(topic).unseen_from == 4
    spark.sql(
        f"CALL hardpack.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )
    assert view_of(topic).unseen_from == 4, (
        "what the pass wrote itself does not come late, even when its snapshot is gone"
    )
    cleaned(hp, topic, T0 + 2)
    assert offsets(topic) == [2, 3, 10, 11, 12, 13]
    assert view_of(topic).unseen_from is None
    assert hp.verify(name, now=T0 + 2).success


def test_phase_two_leaves_late_rows_to_phase_one(hp, topic):
    """Invariants 5 and 9: it would forget that they came late, and the tombstone of their key would be gone."""
    name = name_of(topic)
    append(topic, {0: [row(0, "c", "old")]})
    assert view_of(topic).unseen_from == 0
    plan = hp.plan(name, now=T0 + 100)
    assert "tombstones" not in plan.logs[0].reason
    assert hp.expire_after(plan).snapshot is None
    assert offsets(topic) == [0, 1, 2, 3, 10]
    assert view_of(topic).unseen_from == 0
    cleaned(hp, topic, T0 + 100, force=True)
    assert offsets(topic) == [1, 2, 3, 10]
    assert view_of(topic).unseen_from is None


def test_retention_does_not_forget_late_rows(hp, catalog):
    rules = {"min_cleanable_dirty_ratio": 0, "segment_bytes": 100, "cleanup_policy": "compact,delete"}
    table = new_topic(catalog, retention_ms=1000, **rules)
    for first in (0, 4, 8):
        append(table, {0: [row(first, f"k{first}"), row(first + 1, f"k{first + 1}")]}, at=T0 + first * 1000)
    cleaned(hp, table)
    append(table, {0: [row(6, "k4")]}, at=T0 + 6000)
    assert view_of(table).unseen_from == 6
    assert hp.apply_retention(name_of(table), now=T0 + 2000).snapshot is not None
    assert offsets(table) == [4, 5, 6, 8, 9]
    assert view_of(table).unseen_from == 6


def test_late_rows_are_seen_where_a_file_reaches_across_the_checkpoint(hp, topic):
    append(topic, {0: [row(5, "b"), row(12, "y")]})
    append(topic, {0: [row(13, "y")]})
    assert view_of(topic).unseen_from == 5


def test_a_late_tombstone_waits_its_own_time(hp, topic):
    """Invariant 5: the horizon of its neighbours is not its own, nor its own theirs: 3 may go since T0 + 100."""
    append(topic, {0: [row(0, "b", None), row(4, "d", None)]})
    append(topic, {0: [row(11, "y")]})
    name = name_of(topic)
    hp.clean_like_kafka(name, now=T0 + 100)
    assert offsets(topic) == [1, 2, 4, 10, 11]
    hp.expire_tombstones(name, now=T0 + 199)
    assert offsets(topic) == [1, 2, 4, 10, 11]
    hp.expire_tombstones(name, now=T0 + 200)
    assert offsets(topic) == [1, 2, 10, 11]


def test_late_rows_below_a_removed_tombstone_are_refused(hp, topic):
    """The tombstone that would delete them is gone, so a deleted key would come back."""
    name = name_of(topic)
    append(topic, {0: [row(11, "z")]})
    hp.clean_like_kafka(name, now=T0 + 100)
    assert offsets(topic) == [1, 2, 10, 11]
    append(topic, {0: [row(0, "c")]})
    append(topic, {0: [row(12, "z")]})
    entry = hp.plan(name, now=T0 + 101).logs[0]
    assert entry.action == "none"
    assert "a deleted key could come back" in entry.reason
    hp.resume(name, ["0"], trust_late_rows=True)
    assert cleaned(hp, topic, T0 + 102).logs
    assert offsets(topic) == [0, 1, 2, 11, 12]


def test_late_rows_are_refused_where_the_policy_says_so(hp, topic):
    hp.adopt(name_of(topic), {"late.rows": "refuse"})
    append(topic, {0: [row(0, "a")]})
    append(topic, {0: [row(11, "y")]})
    assert "late.rows=refuse" in hp.plan(name_of(topic), now=T0 + 1).logs[0].reason


def test_a_bin_pack_brings_no_late_rows(hp, spark, topic):
    append(topic, {0: [row(11, "y")]})
    spark.sql(
        f"CALL hardpack.system.rewrite_data_files(table => '{name_of(topic)}', options => map('rewrite-all','true'))"
    )
    assert view_of(topic).unseen_from is None


@pytest.mark.parametrize("version", ["2", "3"])
def test_row_level_deletes_on_input_files(hp, spark, catalog, version):
    """Position deletes and deletion vectors: deleted rows do not come back by the rewrite, and the ledger balances."""
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    name = name_of(table)
    spark.sql(
        f"ALTER TABLE hardpack.{name} "
        f"SET TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    rows = ", ".join(f"(0, {o}L, timestamp '2020-09-13', cast('{k}' as binary), 'v')" for o, k in enumerate("abacade"))
    spark.sql(f"INSERT INTO hardpack.{name} SELECT * FROM VALUES {rows} AS t(a, b, c, d, e) ORDER BY b")
    spark.sql(f"INSERT INTO hardpack.{name} VALUES (0, 9L, timestamp '2020-09-13', cast('b' as binary), 'v')")
    spark.sql(f"INSERT INTO hardpack.{name} VALUES (0, 10L, timestamp '2020-09-13', cast('z' as binary), 'v')")
    spark.sql(f"DELETE FROM hardpack.{name} WHERE offset = 3")
    files = spark.sql(f"SELECT count(*) FROM hardpack.{name}.delete_files").collect()[0][0]
    assert files == 1
    report = cleaned(hp, table)
    left = [r[0] for r in spark.sql(f"SELECT offset FROM hardpack.{name} ORDER BY offset").collect()]
    assert left == [4, 5, 6, 9, 10]
    assert (report.logs[0].rows_before, report.logs[0].rows_after, report.logs[0].superseded) == (8, 5, 3)
    assert hp.verify(name, now=T0).success


def test_equality_deletes_on_input_files(hp, spark, catalog, tmp_path):
    import pyarrow.parquet as pq

    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "z")]})
    name = name_of(table)
    file = tmp_path / "eq.parquet"
    identity = table.schema().find_field("offset").field_id
    field = pa.field("offset", pa.int64(), metadata={"PARQUET:field_id": str(identity)})
    pq.write_table(pa.table({"offset": [3]}, schema=pa.schema([field])), file)
    jvm = spark._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"hardpack.{name}")
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = identity
    data = next(iter(java.newScan().planFiles().iterator())).file()
    delete = (
        jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.spec())
        .ofEqualityDeletes(ids).withPath(f"file://{file}").withFormat("parquet")
        .withFileSizeInBytes(file.stat().st_size).withRecordCount(1).withPartition(data.partition()).build()
    )  # fmt: skip
    java.newRowDelta().addDeletes(delete).commit()
    table.refresh()
    report = cleaned(hp, table)
    left = [r[0] for r in spark.sql(f"SELECT offset FROM hardpack.{name} ORDER BY offset").collect()]
    assert left == [1, 2, 4]
    assert report.logs[0].rows_before == 4


def test_the_same_offset_twice_collapses_to_one(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(1, "b"), row(2, "c")]})
    append(table, {0: [row(3, "z")]})
    report = cleaned(hp, table)
    assert offsets(table) == [0, 1, 2, 3]
    assert (report.logs[0].duplicate, report.logs[0].superseded) == (1, 0)


def test_rows_that_differ_at_one_offset_are_refused(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "b", "one")]})
    append(table, {0: [row(1, "b", "two")]})
    append(table, {0: [row(3, "z")]})
    with pytest.raises(BadInput, match="share an offset with a row that differs, the first at offset 1"):
        cleaned(hp, table)
    assert offsets(table) == [0, 1, 1, 3]


def test_the_greater_leader_epoch_wins_an_offset(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    with table.update_schema() as update:
        update.add_column("epoch", IntegerType())
    hp.adopt(name_of(table), {"column.leader.epoch": "epoch"})

    def write(rows, epoch):
        columns = {"partition": 0, "timestamp": T0 * 1000, "epoch": epoch}
        schema = table.refresh().schema().as_arrow()
        data = {n: pa.array([v] * len(rows), pa.int64()).cast(schema.field(n).type) for n, v in columns.items()}
        data |= {"offset": [r.offset for r in rows], "key": [r.key for r in rows],
                 "value": [r.value.decode() for r in rows]}  # fmt: skip
        table.append(pa.table({n: pa.array(data[n], schema.field(n).type) for n in schema.names}, schema=schema))

    write([row(0, "c"), row(7, "a")], 3)
    write([row(7, "b"), row(8, "c")], 4)
    write([row(9, "z")], 4)
    cleaned(hp, table)
    assert [(r.offset, r.key) for r in rows_of(table)] == [(7, b"b"), (8, b"c"), (9, b"z")]


def test_files_that_overlap_are_one_segment(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(4, "b")]})
    append(table, {0: [row(1, "a"), row(3, "c")]})
    append(table, {0: [row(5, "b")]})
    assert [len(s.files) for s in view_of(table).segments] == [2, 1]
    cleaned(hp, table)
    assert offsets(table) == [1, 3, 4, 5]


def test_columns_added_renamed_and_moved(hp, spark, topic):
    name = name_of(topic)
    append(topic, {0: [row(11, "a")]})
    append(topic, {0: [row(12, "y")]})
    with topic.update_schema() as update:
        update.add_column("source", IntegerType())
        update.rename_column("key", "record_key")
        update.move_first("value")
    with pytest.raises(BadInput, match="no column 'key' for the key"):
        hp.plan(name, now=T0 + 1)
    hp.adopt(name, {"column.key": "record_key"})
    with pytest.raises(BadInput, match="'record_key', mapped to the key, was added or renamed after snapshot"):
        cleaned(hp, topic, T0 + 1)
    spark.sql(f"INSERT INTO hardpack.{name} VALUES ('v', 0, 13L, timestamp '2020-09-13', cast('x' as binary), 7)")
    cleaned(hp, topic, T0 + 1)
    kept = spark.sql(f"SELECT offset, string(record_key) k, value FROM hardpack.{name} ORDER BY offset").collect()
    assert [tuple(r) for r in kept] == [
        (1, "b", "v"), (3, "c", None), (10, "z", "v"), (11, "a", "v"), (12, "y", "v"), (13, "x", "v"),
    ]  # fmt: skip
    assert hp.verify(name, now=T0 + 1).success


def test_passes_from_before_the_logs_column_was_renamed_are_verified(hp, spark, topic):
    """A look at an old snapshot goes by the names that columns had then."""
    name = name_of(topic)
    with topic.update_schema() as update:
        update.rename_column("partition", "part")
    hp.adopt(name, {"column.partition": "part"})
    assert hp.verify(name, now=T0 + 1).success
    spark.sql(f"INSERT INTO hardpack.{name} VALUES (0, 11L, timestamp '2020-09-13', cast('a' as binary), 'v')")
    spark.sql(f"INSERT INTO hardpack.{name} VALUES (0, 12L, timestamp '2020-09-13', cast('y' as binary), 'v')")
    cleaned(hp, topic, T0 + 1)
    left = spark.sql(f"SELECT offset FROM hardpack.{name} ORDER BY offset").collect()
    assert [r.offset for r in left] == [1, 3, 10, 11, 12]
    assert hp.verify(name, now=T0 + 1).success


def test_a_changed_partition_spec(hp, spark, topic):
    name = name_of(topic)
    with topic.update_spec() as update:
        update.add_field("key", BucketTransform(2), "key_bucket")
    spark.sql(f"INSERT INTO hardpack.{name} VALUES (0, 11L, timestamp '2020-09-13', cast('a' as binary), 'v')")
    spark.sql(f"INSERT INTO hardpack.{name} VALUES (0, 12L, timestamp '2020-09-13', cast('y' as binary), 'v')")
    cleaned(hp, topic, T0 + 1)
    assert offsets(topic) == [1, 3, 10, 11, 12]


def test_a_table_rolled_back_takes_its_state_back_too(hp, spark, topic):
    name = name_of(topic)
    before = topic.refresh().current_snapshot().snapshot_id
    first = trusted_states(topic)["0"]
    append(topic, {0: [row(11, "a")]})
    append(topic, {0: [row(12, "y")]})
    cleaned(hp, topic, T0 + 1)
    assert trusted_states(topic.refresh())["0"].checkpoint == 12
    spark.sql(f"CALL hardpack.system.rollback_to_snapshot('{name}', {before})")
    assert trusted_states(topic.refresh())["0"] == first
    append(topic, {0: [row(11, "b")]})
    append(topic, {0: [row(12, "y")]})
    cleaned(hp, topic, T0 + 2)
    assert offsets(topic) == [2, 3, 10, 11, 12]


def test_a_table_emptied_and_filled_anew_starts_anew(hp, spark, topic):
    spark.sql(f"TRUNCATE TABLE hardpack.{name_of(topic)}")
    topic.refresh()
    append(topic, {0: [row(0, "a"), row(1, "a")]})
    append(topic, {0: [row(2, "b")]})
    assert view_of(topic).state.checkpoint is None
    cleaned(hp, topic, T0 + 1)
    assert offsets(topic) == [1, 2]


def test_a_log_that_lost_all_rows_is_known_and_harmless(hp, spark, topic):
    name = name_of(topic)
    append(topic, {1: [row(0, "a")]})
    spark.sql(f"DELETE FROM hardpack.{name} WHERE partition = 0")
    topic.refresh()
    assert hp.plan(name, now=T0 + 1, partitions=[0]).logs[0].reason == "the log is empty"
    assert hp.clean_like_kafka(name, now=T0 + 1) == []


def test_a_pass_in_the_past_is_refused(hp, topic):
    append(topic, {0: [row(11, "a")]})
    append(topic, {0: [row(12, "y")]})
    assert "lies 5 ms before its last pass" in hp.plan(name_of(topic), now=T0 - 5).logs[0].reason


def test_pauses_nest_and_resume_undoes_one(hp, topic):
    name = name_of(topic)
    append(topic, {0: [row(11, "a")]})
    append(topic, {0: [row(12, "y")]})
    hp.pause(name)
    hp.pause(name, [0])
    hp.resume(name, [0])
    assert hp.plan(name, now=T0 + 1).logs[0].reason == "paused"
    hp.resume(name)
    assert hp.plan(name, now=T0 + 1).logs[0].action == "clean"
    with pytest.raises(BadInput, match="neither paused nor marked by a pass"):
        hp.resume(name, [0])


def test_retention_deletes_whole_segments(hp, catalog):
    table = new_topic(catalog, cleanup_policy="compact,delete", retention_ms=1000)
    for at in range(4):
        append(table, {0: [row(2 * at, "a"), row(2 * at + 1, f"k{at}")]}, at=T0 + 1000 * at)
    report = hp.apply_retention(name_of(table), now=T0 + 2001)
    # segments of T0 and T0 + 1000 are older than a second, that of T0 + 2000 is not
    assert offsets(table) == [4, 5, 6, 7]
    assert report.logs[0].retention == 4
    assert view_of(table).log_start == 4
    assert hp.apply_retention(name_of(table), now=T0 + 2001).logs == ()


def test_what_retention_takes_after_a_pass_is_no_broken_guarantee(hp, spark, catalog):
    rules = {"min_cleanable_dirty_ratio": 0, "segment_bytes": 1000, "retention_ms": 1000}
    table = new_topic(catalog, cleanup_policy="compact,delete", **rules)
    name = name_of(table)
    append(table, {0: [row(0, "a"), row(1, "a"), row(2, "k")]}, at=T0)
    append(table, {0: [row(3, "b"), row(4, "c")]}, at=T0 + 1000)
    append(table, {0: [row(5, "z")]}, at=T0 + 1000)
    cleaned(hp, table)
    assert hp.apply_retention(name, T0 + 1500).logs[0].retention == 2
    append(table, {0: [row(6, "z")]}, at=T0 + 1000)
    assert offsets(table) == [3, 4, 5, 6]
    report = hp.verify(name, T0 + 1500)
    assert (report.success, report.note) == (True, "")
    # a row below the checkpoint that brings a key back is seen all the same
    append(table, {0: [row(2, "b")]}, at=T0 + 1000)
    report = hp.verify(name, T0 + 1500)
    assert not report.success
    assert report.passes_hold
