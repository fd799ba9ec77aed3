"""The reference cleaner against Kafka: the case catalogue and the logs that real Kafka cleaned (invariant 8)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hardpack.rules.reference.cleaner import append_segment, clean, retain

from tests.equivalence.cases import catalogue, compare, golden


def step_of(log, step):
    """Take one step: the log after it, and what was seen in the words of the cases."""
    if step.do == "clean":
        out = clean(log, step.settings, step.now)
        d = out.decision
        return out.log, {
            "selected": d.due, "first_dirty": d.first_dirty, "first_uncleanable": d.first_uncleanable,
            "cleanable_bytes": d.cleanable_bytes, "total_bytes": d.clean_bytes + d.cleanable_bytes,
            "ratio": d.ratio, "null_key_dropped": len(out.dropped.get("null_key", ())),
        }  # fmt: skip
    if step.do == "append_segment":
        return replace(append_segment(log, step.segment), high_watermark=step.high_watermark), {}
    if step.do == "retention":
        after, deleted = retain(log, step.settings, step.now)
        return after, {"deleted_segments": deleted}
    if step.do == "advance_log_start":
        return replace(log, log_start=step.offset), {}
    assert step.do == "set_config", f"unknown step {step.do}"
    return log, {}


def findings(case):
    """Run a case through the reference cleaner: per step what differs from what is expected."""
    log, wrong = case.log, []
    for at, step in enumerate(case.steps):
        log, seen = step_of(log, step)
        seen |= {
            "survivors": [r.offset for r in log.rows],
            "checkpoint": log.checkpoint,
            "horizons": dict(log.horizons),
            "log_start": log.log_start,
            "layout": [[s.base, [r.offset for r in s.rows]] for s in log.segments],
        }
        wrong += compare(f"{case.id} step {at}", step.expect, seen, empties=True)
    return wrong


@pytest.mark.parametrize("case", catalogue(), ids=lambda c: c.id)
def test_case(case):
    if case.out_of_scope:
        # the case itself says why a table cannot have it
        pytest.skip(case.out_of_scope)
    assert findings(case) == []


def test_logs_that_real_kafka_cleaned():
    wrong = [w for case in golden() for w in findings(case)]
    assert wrong == []
