"""Deletes of rows instead of rewrites: same rows, no deleted key is merely hidden (invariants 1, 4, 5)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from hardpack import Conflict, GateRefused
from hardpack.compaction import dead_rows
from hardpack.files.data_files import DataFiles
from hardpack.files.row_deletes import read_positions
from hardpack.rules.reference.cleaner import Log, LogSegment, append_segment, clean
from hardpack.rules.settings import Settings
from hardpack.spark.causes import superseded as find
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.columns import LogColumns, settings_of
from pyroaring import BitMap

from tests.topics import T0, append, name_of, new_topic, random_rows, row

pytestmark = pytest.mark.spark
RULES = {"min_cleanable_dirty_ratio": 0, "delete_retention_ms": 1000, "deletion_vector_min_bytes": 0}


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def lazy(catalog, spark, request):
    """Makes topics that allow merge-on-read."""

    def make(**settings):
        return Lazy(spark, name_of(new_topic(catalog, **RULES | settings)), request.param)

    return make


class Lazy:
    """A topic written by Spark: of format v3 pyiceberg reads but does not write."""

    def __init__(self, spark, name, version):
        self.sql, self.name, self.spark = spark.sql, name, spark
        allowed = f"'format-version'='{version}', 'write.delete.mode'='merge-on-read'"
        self.sql(f"ALTER TABLE hardpack.{name} SET TBLPROPERTIES ({allowed})")

    def append(self, rows):
        """One commit of one file."""
        at = datetime.fromtimestamp(T0 / 1000, UTC)
        values = [(0, r.offset, at, r.key, None if r.value is None else r.value.decode()) for r in rows]
        types = "partition int, `offset` long, timestamp timestamp, key binary, value string"
        frame = self.spark.createDataFrame(values, types).coalesce(1).sortWithinPartitions("offset")
        frame.writeTo(f"hardpack.{self.name}").append()

    @property
    def offsets(self):
        return [r[0] for r in self.sql(f"SELECT offset FROM hardpack.{self.name} ORDER BY 1").collect()]

    @property
    def files(self):
        return {r[0] for r in self.sql(f"SELECT file_path FROM hardpack.{self.name}.data_files").collect()}

    @property
    def vectors(self):
        """How many vectors lie on each file that has one."""
        found = self.sql(f"SELECT referenced_data_file FROM hardpack.{self.name}.delete_files").collect()
        return Counter(r[0] for r in found)

    @property
    def stored(self):
        """Keys and offsets that lie in the data files, hidden ones too."""
        found = [pq.read_table(path.removeprefix("file:"), columns=["key", "offset"]) for path in self.files]
        return {(r["key"].decode(), r["offset"]) for rows in found for r in rows.to_pylist()}


def cleaned(hp, table, now=T0):
    return hp.clean(hp.plan(table.name, now=now)).logs[0]


def test_a_file_with_few_dead_rows_stays_and_is_rewritten_once_they_are_many(hp, lazy):
    table = lazy(deletion_vector_max_ratio=0.4)
    table.append([row(o, f"k{o}") for o in range(10)])
    table.append([row(10, "k0"), row(11, "k1")])
    table.append([row(12, "z")])
    before = table.files
    report = cleaned(hp, table)
    assert table.offsets == list(range(2, 13))
    assert (report.files_under_vectors, report.files_rewritten, report.superseded) == (1, 0, 2)
    assert (report.rows_before, report.rows_after) == (13, 11)
    assert table.files == before
    table.append([row(13, "k2"), row(14, "k3")])
    table.append([row(15, "z")])
    cleaned(hp, table)
    assert table.offsets == list(range(4, 16))
    # one vector a file: the second took over what the first said
    assert max(table.vectors.values()) == 1
    assert hp.verify(table.name, now=T0).success
    table.append([row(16, "k4")])
    table.append([row(17, "z")])
    report = cleaned(hp, table)
    assert report.files_rewritten >= 1
    assert ("k0", 0) not in table.stored
    assert table.offsets == [*range(5, 12), 13, 14, 15, 16, 17]
    assert hp.verify(table.name, now=T0).success


def test_a_deleted_key_leaves_the_files_where_it_was_hidden(hp, lazy):
    table = lazy(deletion_vector_max_ratio=1)
    table.append([row(o, f"k{o}") for o in range(10)])
    table.append([row(10, "k0"), row(11, "k1")])
    table.append([row(12, "k0", None)])
    cleaned(hp, table)
    assert ("k0", 0) in table.stored
    table.append([row(13, "z")])
    report = cleaned(hp, table)
    assert {o for k, o in table.stored if k == "k0"} == {12}
    assert ("k1", 1) not in table.stored
    assert (report.superseded, report.files_under_vectors) == (1, 0)
    assert table.offsets == [*range(2, 10), 11, 12, 13]


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("lazy", [3], indirect=True)
def test_a_deleted_key_leaves_the_files_where_it_was_hidden_also_behind_a_late_row(hp, lazy, monkeypatch, few):
    """A late row puts the files that it lies before into the head, and rows that were deleted are no key's last."""
    monkeypatch.setattr(find, "FEW_KEYS", 10**6 if few else 0)
    table = lazy(deletion_vector_max_ratio=1)
    table.append([row(o, f"k{o}") for o in range(1, 10)])
    table.append([row(10, "k1"), row(11, "z")])
    table.append([row(12, "z")])
    cleaned(hp, table)
    assert ("k1", 1) in table.stored
    table.append([row(0, "late")])
    table.append([row(13, "k1", None), row(14, "y")])
    table.append([row(15, "y")])
    cleaned(hp, table)
    assert {o for k, o in table.stored if k == "k1"} == {13}
    # others deleted what was never cleaned, a row behind the tombstone of its key among it
    table.append([row(16, "a"), row(17, "b"), row(18, "b", None), row(19, "b"), row(20, "c")])
    table.sql(f"DELETE FROM hardpack.{table.name} WHERE offset IN (16, 17, 19)")
    table.append([row(21, "a", None)])
    table.append([row(22, "d")])
    cleaned(hp, table)
    assert {o for k, o in table.stored if k in "ab"} == {18, 21}
    assert table.offsets == [0, *range(2, 10), 12, 13, 15, 18, 20, 21, 22]
    assert hp.verify(table.name, now=T0).success


@pytest.mark.parametrize(
    ("few", "sampled", "lazy"), [(True, False, 2), (True, False, 3), (False, True, 3)], indirect=["lazy"]
)
def test_many_passes_equal_the_reference_and_no_deleted_key_is_left(hp, lazy, monkeypatch, few, sampled):
    for name, value in {"ROWS_PER_TASK": 100, "ROWS_PER_BUCKET": 70, "FEW_KEYS": 10**6 if few else 0}.items():
        monkeypatch.setattr(find, name, value)
    rng = random.Random(3)
    table = lazy(deletion_vector_max_ratio=0.6, segment_bytes=14, audit_rows=40 if sampled else 10**6)
    name, log = table.name, None
    settings = Settings.model_validate(
        {"min.cleanable.dirty.ratio": 0, "delete.retention.ms": 1000, "segment.bytes": 14}
    )
    hidden = 0
    for turn in range(6):
        start = log.rows[-1].offset if log else 0
        rows = random_rows(rng, start, 60, 40, null_keys=False)
        # most turns delete no key
        if turn % 3 != 2:
            rows = [replace(r, value=r.value or b"v") for r in rows]
        table.append(rows)
        segment = LogSegment(rows[0].offset, tuple(rows))
        log = append_segment(log, segment) if log else Log((segment,))
        now = T0 + turn * 1500
        reports = hp.clean_like_kafka(name, now=now)
        hidden += sum(entry.files_under_vectors for report in reports for entry in report.logs)
        log = clean(log, settings, now).log
        assert table.offsets == [r.offset for r in log.rows]
        deleted = {r.key.decode(): r.offset for r in log.rows if r.offset < (log.checkpoint or 0) and r.value is None}
        lying = table.stored
        assert not [(k, o) for k, o in lying if k in deleted and o < deleted[k]]
        living = {r.key.decode() for r in log.rows}
        assert {k for k, _ in lying} <= living
    assert hp.verify(name, now=now).success
    assert hidden > 3


@pytest.mark.parametrize("lazy", [3], indirect=True)
@pytest.mark.parametrize("looked_at", [40, 10**6])
def test_hiding_rows_that_are_not_superseded_is_not_published(hp, lazy, monkeypatch, looked_at):
    """A file that stays is read for its keys alone: what is hidden is seen all the same (invariants 1 and 4)."""
    table = lazy(deletion_vector_max_ratio=1, audit_rows=looked_at)
    table.append([row(o, f"k{o}") for o in range(200)])
    table.append([row(200 + o, f"k{o}") for o in range(5)])
    table.append([row(300, "z")])
    real, before = dead_rows.find_superseded, table.offsets

    def greedy(*arguments):
        found = real(*arguments)
        for places in found.values():
            places.superseded.update(BitMap(range(100)))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(dead_rows, "find_superseded", greedy)
        with pytest.raises(GateRefused, match="latest_record_per_key"):
            cleaned(hp, table)
    assert table.offsets == before
    hp.resume(table.name)
    report = cleaned(hp, table)
    assert (report.files_under_vectors, report.superseded) == (1, 5)


def test_rows_deleted_by_others_meanwhile_stop_the_commit(hp, lazy, spark, meanwhile):
    table = lazy(deletion_vector_max_ratio=1)
    table.append([row(o, f"k{o}") for o in range(10)])
    table.append([row(10, "k0"), row(11, "k1")])
    table.append([row(12, "z")])
    plan = hp.plan(table.name, now=T0)
    meanwhile(lambda: spark.sql(f"DELETE FROM hardpack.{table.name} WHERE offset = 5"))
    with pytest.raises(Conflict):
        hp.clean(plan)
    assert table.offsets == [o for o in range(13) if o != 5]
    cleaned(hp, table)
    assert table.offsets == [2, 3, 4, 6, 7, 8, 9, 10, 11, 12]


def test_a_rollback_meanwhile_is_a_conflict_and_no_unknown_outcome(hp, lazy, spark, catalog, meanwhile):
    """The base is no longer of the past (invariant 7); the files that would be hidden in are all still there."""
    table = lazy(deletion_vector_max_ratio=1)
    table.append([row(o, f"k{o}") for o in range(10)])
    table.append([row(10, "k0"), row(11, "k1")])
    table.append([row(12, "z")])
    before = catalog.load_table(table.name).current_snapshot().snapshot_id
    table.append([row(13, "z")])
    plan = hp.plan(table.name, now=T0)
    meanwhile(lambda: spark.sql(f"CALL hardpack.system.rollback_to_snapshot('{table.name}', {before})"))
    with pytest.raises(Conflict):
        hp.clean(plan)
    assert table.offsets == list(range(13))
    assert "hardpack.state" not in catalog.load_table(table.name).properties
    cleaned(hp, table)
    assert table.offsets == list(range(2, 13))


def test_a_table_that_does_not_allow_it_is_rewritten(hp, catalog):
    table = new_topic(catalog, **RULES)
    append(table, {0: [row(o, f"k{o}") for o in range(10)]})
    append(table, {0: [row(10, "k0")]})
    append(table, {0: [row(11, "z")]})
    report = hp.clean(hp.plan(name_of(table), now=T0)).logs[0]
    assert (report.files_under_vectors, report.files_rewritten) == (0, 1)


@pytest.mark.parametrize("lazy", [3], indirect=True)
def test_what_people_set_on_a_format_that_pyiceberg_does_not_write(hp, lazy):
    table = lazy()
    table.append([row(0, "a")])
    table.append([row(1, "a")])
    hp.adopt(table.name, {"delete.retention.ms": "5", "audit.rows": "7"})
    assert hp.adopt(table.name, {"delete.retention.ms": "6", "audit.rows": ""}).delete_retention_ms == 6
    properties = hp.catalog.load_table(table.name).properties
    assert properties["hardpack.delete.retention.ms"] == "6"
    assert "hardpack.audit.rows" not in properties
    assert hp.pause(table.name, [0])["0"].paused == 1
    assert hp.pause(table.name)["0"].paused == 2
    assert hp.plan(table.name, now=T0).logs[0].reason.startswith("paused 2 times")
    hp.resume(table.name)
    hp.resume(table.name)
    assert hp.plan(table.name, now=T0).logs[0].action == "clean"


def test_deletes_that_icebergs_java_wrote_are_read(lazy, catalog, spark):
    table = lazy()
    table.append([row(o, f"k{o}") for o in range(500)])
    spark.sql(f"DELETE FROM hardpack.{table.name} WHERE offset % 7 = 3 OR offset > 300 AND offset < 400")
    door = JvmTable(spark, f"hardpack.{table.name}")
    loaded = catalog.load_table(table.name)
    columns = LogColumns.of(loaded.schema(), settings_of(loaded))
    (task,) = door.scan_tasks(loaded.current_snapshot().snapshot_id, columns.log.among([0])).values()
    (delete,) = door.deletes(task)
    gone = BitMap(o for o in range(500) if o % 7 == 3 or 300 < o < 400)
    assert read_positions(DataFiles.of(loaded), delete) == gone
