"""A small step is done beside the driver: Spark's workers take longer to start than it takes."""

import logging

import pytest
from hardpack.spark.nearby import BYTES, ROWS, runs_here

from tests.topics import append, name_of, new_topic, row


@pytest.mark.parametrize(
    ("files", "here"),
    [
        ([], True),
        ([(ROWS, BYTES)], True),
        ([(ROWS // 2, 1), (ROWS // 2, 1)], True),
        ([(ROWS, 1), (1, 1)], False),
        ([(1, BYTES), (1, 1)], False),
    ],
)
def test_what_is_small(files, here):
    assert runs_here(files) is here
    assert runs_here(iter(files)) is here


@pytest.fixture
def jobs_of_a_pass(hp, spark, catalog):
    """Jobs that Spark ran for it."""

    def clean():
        table, scheduler = new_topic(catalog, min_cleanable_dirty_ratio=0), spark._jsc.sc().dagScheduler()
        for offset in range(3):
            append(table, {0: [row(offset, "a")]})
        before = scheduler.numTotalJobs()
        assert hp.clean(hp.plan(name_of(table))).logs[0].superseded == 1
        return scheduler.numTotalJobs() - before

    return clean


@pytest.mark.spark
def test_a_small_pass_has_spark_read_the_evidence_and_nothing_else(beside_driver, jobs_of_a_pass, caplog):
    with caplog.at_level(logging.INFO):
        assert jobs_of_a_pass() == 1
    # it tells how it goes as a large one does
    assert "reading keys: 2 of 2 files" in caplog.text


@pytest.mark.spark
def test_a_large_pass_has_its_steps_done_in_workers(in_workers, jobs_of_a_pass):
    """Without that the other's count would mean nothing."""
    assert jobs_of_a_pass() > 3


@pytest.mark.spark
def test_evidence_that_does_not_come_is_counted_in_workers(beside_driver, jobs_of_a_pass, monkeypatch):
    from pyspark.sql.classic.dataframe import DataFrame

    asked = []

    def too_large(self):
        asked.append(self)
        raise MemoryError("as keys are long")

    monkeypatch.setattr(DataFrame, "toArrow", too_large)
    assert jobs_of_a_pass() > 1
    assert len(asked) == 1
