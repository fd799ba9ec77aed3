"""A small step is done beside the driver: Spark's workers take longer to start than it takes."""

import pytest
from hardpack.spark import nearby
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


@pytest.mark.spark
@pytest.mark.parametrize("rows", [ROWS, 0])
def test_a_small_pass_has_spark_read_the_evidence_and_nothing_else(hp, spark, catalog, monkeypatch, rows):
    from hardpack.compaction import pipeline

    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    for offset in range(3):
        append(table, {0: [row(offset, "a")]})
    real = pipeline.read_inputs

    def read_inputs(session, work):
        nearby.ROWS = rows
        return real(session, work)

    monkeypatch.setattr(nearby, "ROWS", rows)
    monkeypatch.setattr(pipeline, "read_inputs", read_inputs)
    scheduler = spark._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    report = hp.clean(hp.plan(name_of(table)))
    jobs = scheduler.numTotalJobs() - before
    assert report.logs[0].superseded == 1
    # without that the count would mean nothing
    assert jobs == 1 if rows else jobs > 1
