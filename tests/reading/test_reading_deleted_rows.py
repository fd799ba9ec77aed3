"""Rows that Spark deletes under merge-on-read are not read, nor found, on formats v2 and v3."""

import pytest
from hardpack.errors import BadInput
from hardpack.reading import sparse_index
from hardpack.reading.reader import TopicReader
from hardpack.table.columns import settings_of

from tests.compaction.test_vectors import Lazy
from tests.topics import T0, name_of, new_topic, row

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("version", "granularity"), [(2, "partition"), (2, "file"), (3, "file")])
def test_deleted_rows_are_not_read(catalog, spark, version, granularity):
    topic = Lazy(spark, name_of(new_topic(catalog)), version)
    spark.sql(f"ALTER TABLE hardpack.{topic.name} SET TBLPROPERTIES ('write.delete.granularity'='{granularity}')")
    for start in (0, 10, 20):
        topic.append([row(start + at, f"k{at}") for at in range(10)])
    spark.sql(f"DELETE FROM hardpack.{topic.name} WHERE offset IN (0, 5, 9, 10, 12, 29)")
    spark.sql(f"DELETE FROM hardpack.{topic.name} WHERE offset = 13")
    table = catalog.load_table(topic.name)
    reader = TopicReader(table, settings_of(table))
    read = [o for batch in reader.read() for o in batch["offset"].to_pylist()]
    assert read == topic.offsets == [*range(1, 5), *range(6, 9), 11, *range(14, 29)]
    for offset in range(31):
        found = reader.seek(0, offset)
        assert (found and found.offset) == next((o for o in read if o >= offset), None)
    assert reader.offset_for_time(0, T0).offset == 1


def test_a_delete_file_is_read_once_however_many_lie_on_a_file(catalog, spark, monkeypatch):
    """Nobody can tell here which of a partition's delete files lies on which data file."""
    monkeypatch.setattr(sparse_index, "REMEMBERED", 2)
    topic = Lazy(spark, name_of(new_topic(catalog)), 2)
    for start in range(0, 50, 10):
        topic.append([row(start + at, f"k{at}") for at in range(10)])
    for offset in (3, 13, 23, 33, 43):
        spark.sql(f"DELETE FROM hardpack.{topic.name} WHERE offset IN ({offset}, {offset + 1})")
    opened, real = [], sparse_index.read_positions_by_file
    monkeypatch.setattr(
        sparse_index, "read_positions_by_file", lambda f, d: (opened.append(d.file_path), real(f, d))[1]
    )
    table = catalog.load_table(topic.name)
    reader = TopicReader(table, settings_of(table))
    assert [o for batch in reader.read() for o in batch["offset"].to_pylist()] == topic.offsets
    assert len(topic.offsets) == 40
    assert len(opened) == len(set(opened)) == 5


def test_what_a_pass_left_is_read(catalog, spark, hp):
    topic = Lazy(spark, name_of(new_topic(catalog, min_cleanable_dirty_ratio=0, active_segment="none")), 2)
    for start in (0, 10, 20):
        topic.append([row(start + at, f"k{at}") for at in range(start // 10, 10)])
    hp.clean(hp.plan(topic.name, now=T0))
    reader = hp.reader(topic.name)
    assert [o for batch in reader.read() for o in batch["offset"].to_pylist()] == topic.offsets
    assert (reader.beginning_offsets(), reader.end_offsets()) == ({"0": 0}, {"0": 30})
    assert hp.seek(topic.name, 0, offset=0).offset == topic.offsets[0]
    assert hp.seek(topic.name, 0, time=T0 + 1) is None
    for both_or_none in ({}, {"offset": 1, "time": T0}):
        with pytest.raises(BadInput, match="either an offset or a time"):
            hp.seek(topic.name, 0, **both_or_none)
    assert next(hp.read(topic.name, [0], start=25))["offset"].to_pylist() == [o for o in topic.offsets if o >= 25]
