"""What runs every day of the equivalence on Spark, as one table: all cases, some of Kafka's logs, some random ones."""

from __future__ import annotations

import pytest

from tests.equivalence.cases import catalogue, compare, golden
from tests.equivalence.histories import examples
from tests.equivalence.test_kafka_on_spark import play, rounds
from tests.equivalence.test_random_logs import SEED, judged, with_expectations

pytestmark = pytest.mark.spark
EVERY, RANDOM, ROUNDS = 8, 60, 3
"""Longer logs are left to `make test-equivalence`: a round is a pass, whatever takes part in it."""


def test_all_cases_and_some_logs(catalog, spark, home, no_pages):
    known = [case for case in catalogue() if not case.out_of_scope]
    known += [case for case in golden()[::EVERY] if len(rounds(case)) <= ROUNDS]
    made = [case for case in map(with_expectations, examples(RANDOM, SEED)) if len(rounds(case)) <= ROUNDS]
    cases = known + made
    wrong = []
    for at, number, step, seen in play(catalog, spark, home, cases):
        if at < len(known):
            wrong += compare(f"{cases[at].id} step {number}", step.expect, seen)
        else:
            wrong += judged(f"random log {at - len(known)} step {number} ({step.do})", step, seen)
    assert wrong == [], "\n".join(wrong[:20])
    print(f"{len(known)} cases and logs of Kafka's, {len(made)} random logs: 0 differences")
