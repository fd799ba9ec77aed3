"""Into how many parts rows are divided that move from task to task: by the table, the cluster, or by who says it."""

from types import SimpleNamespace

import pytest
from hardpack import Hardpack
from hardpack.spark.shuffles import BY_SIZE, LEAST, MOST, SHUFFLE_PARTITIONS, fit_shuffles, shuffle_partitions
from hardpack.table.history import data_bytes

from tests.topics import append, name_of, new_topic, row

GIB = 1024**3


@pytest.mark.parametrize(
    ("table_bytes", "cores", "parts"),
    [
        (0, 2, LEAST),
        (GIB, 2, LEAST),
        (20 * GIB, 2, 80),
        # a table that is small for its cluster keeps the cores at work, but not for parts that are hardly worth a task
        (20 * GIB, 200, 400),
        (GIB, 200, 32),
        (100 * 1024 * GIB, 1000, MOST),
        (100 * 1024 * GIB, 100_000, MOST),
    ],
)
def test_parts_follow_table_and_cluster(table_bytes, cores, parts):
    assert shuffle_partitions(table_bytes, cores) == parts


@pytest.mark.parametrize(("ours", "after"), [({BY_SIZE: "true", SHUFFLE_PARTITIONS: "8"}, "80"),
                                             ({SHUFFLE_PARTITIONS: "33"}, "33")])  # fmt: skip
def test_a_number_that_somebody_gave_stays(ours, after):
    settings = dict(ours)
    conf = SimpleNamespace(get=lambda name, default=None: settings.get(name, default), set=settings.__setitem__)
    fit_shuffles(SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(defaultParallelism=2)), 20 * GIB)
    assert settings[SHUFFLE_PARTITIONS] == after


def test_the_size_is_that_of_the_current_snapshot(catalog):
    table = new_topic(catalog)
    assert data_bytes(table) == 0
    append(table, {0: [row(0, "a")]})
    assert data_bytes(table) == sum(task.file.file_size_in_bytes for task in table.refresh().scan().plan_files()) > 0


@pytest.mark.spark
def test_a_verb_on_a_large_table_divides_its_rows_further(catalog, spark, monkeypatch):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    hp = Hardpack(catalog, spark)
    try:
        monkeypatch.setattr("hardpack.api.data_bytes", lambda _: 20 * GIB)
        assert hp.session(name_of(table)).jvm
        assert spark.conf.get(SHUFFLE_PARTITIONS) == "80"
    finally:
        monkeypatch.undo()
        assert hp.session(name_of(table)).jvm
    assert spark.conf.get(SHUFFLE_PARTITIONS) == str(LEAST)
