"""Random logs with several passes each, many as partitions of one table: Spark against the reference cleaner."""

from __future__ import annotations

import os
import time

import pytest

from tests.equivalence.cases import compare
from tests.equivalence.histories import examples
from tests.equivalence.test_kafka_on_spark import play
from tests.equivalence.test_reference import step_of

LOGS = int(os.environ.get("HARDPACK_RANDOM_LOGS", "2000"))
SEED = int(os.environ.get("HARDPACK_RANDOM_SEED", "1"))
BATCH = 500
SAMPLE = 40


def expected(case):
    """What the reference cleaner leaves after each step."""
    log = case.log
    for step in case.steps:
        log, seen = step_of(log, step)
        seen.pop("deleted_segments", None)
        yield seen | {
            "survivors": [r.offset for r in log.rows],
            "checkpoint": log.checkpoint,
            "horizons": dict(log.horizons),
        }


def differences(catalog, spark, home, cases):
    """What the Spark path does differently, and how many cleanings there were."""
    wanted = [list(expected(c)) for c in cases]
    wrong, passes = [], 0
    for at, number, step, seen in play(catalog, spark, home, cases):
        passes += bool(seen.get("selected") and step.do == "clean")
        wrong += compare(f"log {at} step {number} ({step.do})", wanted[at][number], seen)
    return wrong, passes


def play_all(catalog, spark, home, number):
    started, passes = time.monotonic(), 0
    cases = examples(number, SEED)
    for at in range(0, len(cases), BATCH):
        wrong, done = differences(catalog, spark, home, cases[at : at + BATCH])
        assert wrong == [], "\n".join(wrong[:20])
        passes += done
        seconds = time.monotonic() - started
        print(
            f"{min(at + BATCH, len(cases))} random logs, {passes} passes, seed {SEED}, 0 differences, {seconds:.0f} s"
        )


@pytest.mark.spark
def test_some_random_logs_equal_the_reference_cleaner(catalog, spark, home):
    play_all(catalog, spark, home, SAMPLE)


@pytest.mark.equivalence
def test_many_random_logs_equal_the_reference_cleaner(catalog, spark, home):
    play_all(catalog, spark, home, LOGS)
