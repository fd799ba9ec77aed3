"""Kafka's logs laid out as sinks lay them out: whatever the shape, what is left is what Kafka's cleaner leaves."""

from __future__ import annotations

import os

import pytest

from tests.equivalence.cases import compare, golden
from tests.equivalence.histories import examples
from tests.equivalence.test_kafka_on_spark import play, rounds
from tests.equivalence.test_random_logs import SEED, judged, with_expectations
from tests.layouts import HOURLY, LAYOUTS, MIXED, MIXED_TOPICS

LOGS = int(os.environ.get("HARDPACK_LAYOUT_LOGS", "500"))


def differences(catalog, spark, home, layout, known, logs=()):
    """What comes out of a layout otherwise than Kafka's own cleaner, or the reference, left it."""
    cases = [*known, *map(with_expectations, logs)]
    wrong = []
    for at, number, step, seen in play(catalog, spark, home, cases, layout):
        where = f"{cases[at].id} step {number} ({step.do})"
        wrong += compare(where, step.expect, seen) if at < len(known) else judged(where, step, seen)
    return wrong


@pytest.mark.spark
@pytest.mark.parametrize("layout", [HOURLY, MIXED], ids=lambda layout: layout.name)
def test_some_logs_in_other_layouts(catalog, spark, home, no_pages, layout):
    few_rounds = [case for case in golden() if len(rounds(case)) <= 2]
    assert differences(catalog, spark, home, layout, few_rounds[:: len(few_rounds) // 8]) == []


@pytest.mark.equivalence
@pytest.mark.parametrize("layout", [*LAYOUTS, MIXED, MIXED_TOPICS], ids=lambda layout: layout.name)
def test_all_logs_in_each_layout(catalog, spark, home, no_pages, layout):
    known = golden()
    wrong = differences(catalog, spark, home, layout, known, examples(LOGS, SEED))
    print(f"{layout.name}: {len(known)} logs of Kafka's, {LOGS} random ones: {len(wrong)} differences")
    assert wrong == []
