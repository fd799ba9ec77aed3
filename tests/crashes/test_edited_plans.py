"""Plans edited by hand: a sentence, or what the plan would have done anyway (invariants 1 and 3)."""

import json
import random

import pytest
from hardpack import HardpackError, Plan

from tests.topics import T0, append, name_of, new_topic, offsets, row

pytestmark = pytest.mark.spark


EDITS = 18
"""As many as `edits` has."""


def edits(rng, plan, snapshots):
    """A plan of somebody who knows its fields but not what they mean."""
    data = plan.model_dump(mode="json", by_alias=True)
    numbers = [-(2**63), -1, 0, 1, 2, 3, 5, 6, 99, 2**63 - 1]
    choices = {
        "snapshot": [*snapshots, 1, None], "now": [T0 - 1, T0 + 1, T0 + 10**6], "uuid": ["0" * 8], "force": [False],
        "merge_on_read": [True], "table": ["t.nothing"],
    }  # fmt: skip
    logs = {
        "action": ["none", "clean", "expire"], "partition": [1, 7, "0"], "checkpoint": numbers, "first_dirty": numbers,
        "first_uncleanable": numbers, "bound": numbers, "last_stable": numbers, "log_end": numbers,
        "clean_bytes": numbers, "expired": [[[0, 9]], [[-1, 2**62]]], "uncleanable": [True],
    }  # fmt: skip
    for field, values in choices.items():
        yield field, json.dumps(data | {field: rng.choice(values)})
    for field, values in logs.items():
        log = data["logs"][0] | {field: rng.choice(values)}
        yield field, json.dumps(data | {"logs": [log, *data["logs"][1:]]})
    yield "doubled", json.dumps(data | {"logs": data["logs"] * 2})


def test_plans_edited_by_hand_change_no_outcome_but_by_a_sentence(hp, catalog):
    """Invariants 1 and 3: offsets are found anew from the table, whatever the plan says."""
    rng, refused, applied = random.Random(1), 0, 0
    left = {0: [1, 2, 3, 4], 1: [1, 2]}

    def topic():
        table = new_topic(catalog, min_cleanable_dirty_ratio=0)
        append(table, {0: [row(0, "a"), row(1, "b")], 1: [row(0, "a"), row(1, "a")]})
        append(table, {0: [row(2, "a"), row(3, "c", None)], 1: [row(2, "b")]})
        append(table, {0: [row(4, "b")]})
        return table

    def living(table):
        return {p: offsets(table, p) for p in left}

    table = topic()
    for at in range(EDITS):
        plan = hp.plan(name_of(table), now=T0)
        field, text = list(edits(rng, plan, [s.snapshot_id for s in table.snapshots()]))[at]
        before = living(table)
        try:
            plan = Plan.from_json(text)
            hp.clean(plan)
            hp.expire_after(plan)
            applied += 1
        except HardpackError:
            refused += 1
            assert living(table) == before, f"{field}: refused, and yet something changed"
        found = living(table)
        for p in left:
            assert set(left[p]) <= set(found[p]), f"{field}: a row is gone that should have stayed"
        if found != before:
            assert hp.verify(name_of(table), now=T0).success, field
            table = topic()
    assert applied >= 3
    assert refused >= 3
