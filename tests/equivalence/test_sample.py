"""What runs every day of the equivalence on Spark, as one table: all cases, some of Kafka's logs, some random ones."""

from __future__ import annotations

import pytest

from tests.equivalence.cases import catalogue, compare, golden
from tests.equivalence.histories import examples
from tests.equivalence.test_kafka_on_spark import play
from tests.equivalence.test_random_logs import SEED, judged, with_expectations

pytestmark = pytest.mark.spark
EVERY, RANDOM = 8, 60


def test_all_cases_and_some_logs(catalog, spark, home, no_pages):
    known = [c for c in catalogue() if not c.out_of_scope] + golden()[::EVERY]
    cases = known + [with_expectations(c) for c in examples(RANDOM, SEED)]
    wrong = []
    for at, number, step, seen in play(catalog, spark, home, cases):
        if at < len(known):
            wrong += compare(f"{cases[at].id} step {number}", step.expect, seen)
        else:
            wrong += judged(f"random log {at - len(known)} step {number} ({step.do})", step, seen)
    assert wrong == [], "\n".join(wrong[:20])
    print(f"{len(known)} cases and logs of Kafka's, {RANDOM} random logs: 0 differences")
