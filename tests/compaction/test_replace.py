"""Passes as snapshots of operation `replace`: Spark's streams read on, and neighbours are seen as ever."""

import pytest
from hardpack import Conflict
from pyspark.errors import StreamingQueryException

from tests.topics import T0, append, name_of, new_topic, offsets, row, superseded_once

pytestmark = pytest.mark.spark
RULES = {"commit.operation": "replace", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
BIN_PACK = "CALL hardpack.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"
MERGE_ON_READ = "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"


@pytest.fixture
def topic(hp, catalog):
    table = superseded_once(catalog)
    hp.adopt(name_of(table), RULES)
    return table


def operation(table):
    return table.refresh().current_snapshot().summary.operation.value


@pytest.mark.parametrize(("of_passes", "reads_on"), [("replace", True), ("overwrite", False)])
def test_a_stream_reads_on_over_both_phases_and_retention(hp, spark, catalog, tmp_path, of_passes, reads_on):
    table = new_topic(catalog)
    name = name_of(table)
    more = {"cleanup.policy": "compact,delete", "retention.ms": "1000", "segment.bytes": "1000"}
    hp.adopt(name, RULES | {"commit.operation": of_passes} | more)

    def read():
        """The offsets that the stream has read until now."""
        out = str(tmp_path / "read")
        rows = spark.readStream.table(f"hardpack.{name}").writeStream.format("parquet").option("path", out)
        query = rows.option("checkpointLocation", str(tmp_path / "stream")).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(r.offset for r in spark.read.parquet(out).collect())

    append(table, {0: [row(0, "a"), row(1, "a", None), row(2, "b"), row(3, "d")]})
    append(table, {0: [row(4, "b"), row(5, "c")]}, at=T0 + 5000)
    append(table, {0: [row(6, "z")]}, at=T0 + 5000)
    assert read() == [0, 1, 2, 3, 4, 5, 6]
    found = []
    for work in (
        lambda: hp.clean(hp.plan(name, T0 + 10)),
        lambda: hp.expire_tombstones(name, T0 + 20),
        lambda: hp.apply_retention(name, T0 + 5500),
    ):
        before = table.refresh().current_snapshot().snapshot_id
        work()
        assert table.refresh().current_snapshot().snapshot_id != before
        found.append(operation(table))
    assert offsets(table) == [4, 5, 6]
    append(table, {0: [row(7, "y")]}, at=T0 + 6000)
    if reads_on:
        assert found == ["replace"] * 3
        assert read() == [0, 1, 2, 3, 4, 5, 6, 7]
        assert hp.verify(name, T0 + 6000).success
    else:
        assert "replace" not in found
        with pytest.raises(StreamingQueryException):
            read()


@pytest.mark.parametrize(
    ("statements", "left"),
    [
        pytest.param([BIN_PACK], [1, 2, 3, 4], id="bin-pack"),
        pytest.param(["DELETE FROM {t} WHERE offset = 1"], [2, 3, 4], id="DELETE"),
        pytest.param([MERGE_ON_READ, "DELETE FROM {t} WHERE offset = 1"], [2, 3, 4], id="row-level DELETE"),
        pytest.param(["UPDATE {t} SET value = 'w' WHERE offset = 1"], [1, 2, 3, 4], id="UPDATE"),
    ],
)
def test_a_pass_yields_to_who_changed_its_files(hp, spark, topic, meanwhile, statements, left):
    """Invariant 4."""
    name = name_of(topic)
    plan = hp.plan(name, T0)
    meanwhile(lambda: [spark.sql(s.format(t=f"hardpack.{name}")).collect() for s in statements])
    with pytest.raises(Conflict, match="not published"):
        hp.clean(plan)
    assert "hardpack.state" not in topic.refresh().properties
    append(topic.refresh(), {0: [row(9, "z")]})
    hp.clean(hp.plan(name, T0))
    assert (offsets(topic), operation(topic)) == ([*left, 9], "replace")


def test_appends_and_vectors_of_before_go_with_it(hp, spark, topic, meanwhile):
    """Invariant 7, on format v3 with deletion vectors, of which `replace` can add none."""
    name = name_of(topic)
    hp.adopt(name, {"deletion.vector.min.bytes": "0", "deletion.vector.max.ratio": "1"})
    spark.sql(MERGE_ON_READ.format(t=f"hardpack.{name}"))
    spark.sql(f"ALTER TABLE hardpack.{name} SET TBLPROPERTIES ('format-version'='3')")
    spark.sql(f"DELETE FROM hardpack.{name} WHERE offset = 3")
    plan = hp.plan(name, T0)
    assert not plan.merge_on_read
    insert = "INSERT INTO hardpack.%s VALUES (0, 5, TIMESTAMP '2020-09-13 12:26:40', X'65', 'v')"
    meanwhile(lambda: spark.sql(insert % name).collect())
    report = hp.clean(plan)
    assert report.logs[0].files_under_vectors == 0
    assert (offsets(topic), operation(topic)) == ([1, 2, 4, 5], "replace")
    assert hp.verify(name, T0).success
