"""A pass takes a bounded number of Spark jobs, however many logs it covers."""

from __future__ import annotations

import pytest
from hardpack.rules.reference.cleaner import Log, LogSegment
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import BYTES_PER_KEY, Settings

from tests.equivalence.spark_path import Batch

MORE = 8
SETTINGS = {"min.cleanable.dirty.ratio": 0, "null.keys": "drop"}
BOUNDED = SETTINGS | {"log.cleaner.dedupe.buffer.size": 3 * BYTES_PER_KEY, "log.cleaner.io.buffer.load.factor": 1.0}


def log():
    rows = [Row(o, f"k{o % 5}".encode(), b"v", timestamp=o, producer=1, transactional=o < 6, batch=o) for o in range(8)]
    rows[6] = Row(6, None, None, timestamp=6, producer=1, transactional=True, control="abort", batch=6)
    return Log((LogSegment(0, tuple(rows)), LogSegment(8, (Row(8, b"z", b"v", timestamp=8, batch=8),))))


def jobs_of(catalog, spark, home, logs, settings):
    batch = Batch(catalog, spark, home, in_portions=False)
    batch.create({at: (log(), Settings.model_validate(settings)) for at in range(logs)})
    before = spark._jsc.sc().dagScheduler().numTotalJobs()
    batch.clean(dict.fromkeys(range(logs), 100))
    return spark._jsc.sc().dagScheduler().numTotalJobs() - before


def compared(catalog, spark, home, settings, number):
    one, many = (jobs_of(catalog, spark, home, logs, settings) for logs in (1, number))
    print(f"Spark jobs of a pass with transactions and its gate: 1 log {one}, {number} logs {many}")
    assert many <= one + MORE


@pytest.mark.spark
def test_50_logs_take_hardly_more_jobs_than_one_with_full_maps(catalog, spark, home):
    compared(catalog, spark, home, BOUNDED, 50)


@pytest.mark.equivalence
@pytest.mark.parametrize("settings", [SETTINGS, BOUNDED], ids=["whole maps", "full maps"])
def test_200_logs_take_hardly_more_jobs_than_one(catalog, spark, home, settings):
    compared(catalog, spark, home, settings, 200)
