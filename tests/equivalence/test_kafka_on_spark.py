"""The Spark path against Kafka: the case catalogue and the logs that real Kafka cleaned (invariant 8)."""

from __future__ import annotations

import pytest

from tests.equivalence.cases import compare, golden
from tests.equivalence.spark_path import Batch
from tests.layouts import PLAIN

ABSENT = {"selected": False, "survivors": [], "checkpoint": None, "horizons": {}, "layout": []}
"""A log of which no row was ever written is not in the table."""


def rounds(case):
    """A case's steps in runs that each end with one that is judged, numbered: many logs take a round together."""
    found = [[]]
    for at, step in enumerate(case.steps):
        found[-1].append((at, step))
        if step.do in ("clean", "retention"):
            found.append([])
    return found if found[-1] else found[:-1]


def play(catalog, spark, home, cases, layout=PLAIN):
    """Run cases side by side as partitions of one table: per judged step (log, number, step, what was seen)."""
    batch = Batch(catalog, spark, home, layout)
    batch.create({at: (case.log, case.settings) for at, case in enumerate(cases)})
    turns = {at: rounds(case) for at, case in enumerate(cases)}
    for number in range(max(map(len, turns.values()))):
        now = {at: found[number] for at, found in turns.items() if number < len(found)}
        prepare(batch, now)
        last = {at: steps[-1] for at, steps in now.items() if steps[-1][1].do in ("clean", "retention")}
        seen = take(batch, {at: step for at, (_, step) in last.items()})
        left = batch.observe()
        for at, (position, step) in last.items():
            yield at, position, step, ABSENT | seen.get(at, {}) | left.get(at, {})


def prepare(batch, now):
    """Everything before the judged step: segments appended, log starts moved, settings changed."""
    assert {s.do for steps in now.values() for _, s in steps[:-1]} <= {
        "append_segment",
        "advance_log_start",
        "set_config",
    }
    for layer in range(max(map(len, now.values()))):
        steps = {at: s[layer][1] for at, s in now.items() if layer < len(s)}
        for at, step in steps.items():
            batch.logs[at].settings = step.settings
        if appended := {at: s for at, s in steps.items() if s.do == "append_segment"}:
            batch.append({at: s.segment for at, s in appended.items()})
            for at, step in appended.items():
                batch.logs[at].high_watermark = step.high_watermark
        if moved := {at: s.offset for at, s in steps.items() if s.do == "advance_log_start"}:
            batch.advance_log_start(moved)


def take(batch, steps):
    """Take the judged step of each log, the same kinds together."""
    seen = {}
    if retained := {at: s.now for at, s in steps.items() if s.do == "retention"}:
        seen |= {at: {"deleted_segments": n} for at, n in batch.retain(retained).items()}
    if cleaned := {at: s.now for at, s in steps.items() if s.do == "clean"}:
        for at, (head, entry) in batch.clean(cleaned).items():
            d = head.decision
            seen[at] = {
                "selected": d.due,
                "first_dirty": d.first_dirty,
                "first_uncleanable": d.first_uncleanable,
                "cleanable_bytes": d.cleanable_bytes,
                "total_bytes": d.clean_bytes + d.cleanable_bytes,
                "ratio": d.ratio,
                "null_key_dropped": entry.null_key if entry else 0,
            }
    return seen


def differences(catalog, spark, home, cases):
    """What the Spark path does differently from what the cases expect."""
    return [
        wrong
        for at, position, step, seen in play(catalog, spark, home, cases)
        for wrong in compare(f"{cases[at].id} step {position}", step.expect, seen)
    ]


@pytest.mark.equivalence
def test_all_logs_that_real_kafka_cleaned(catalog, spark, home, no_pages):
    assert differences(catalog, spark, home, golden()) == []
