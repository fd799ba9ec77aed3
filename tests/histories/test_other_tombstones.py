"""Histories in which other rows become tombstones: each horizon is that of the rows which are tombstones now."""

import pytest
from hardpack.compaction import pipeline
from hardpack.errors import BadInput, Conflict
from hardpack.operations import pause
from hardpack.policy.file import load_policies

from tests.histories import foreign
from tests.histories.judging import Columns
from tests.histories.known import CLEAN, DAY, HOUR, T, _append, _create, _do
from tests.histories.steps import Step
from tests.histories.test_between_passes import offsets, whole_run
from tests.histories.test_edges import play, said

pytestmark = pytest.mark.histories


def put(world, *made, **changed):
    tab = world.lake.tabs[T]
    found = [foreign._row(world, tab, 0, offset, key, kind)._replace(**changed) for offset, key, kind in made]
    tab.commit(world.clock, "append", add=[tab.file(found, world.clock)])


def with_a_row(world, create, **changed):
    """A tombstone at 4, at 5 a row that may become one, and rows behind them in files of their own."""
    play(world, create)
    world.look = lambda *_: None
    put(world, (4, "a", "tombstone"))
    put(world, (5, "b", "value"), **changed)
    put(world, (6, "c", "value"))
    put(world, (7, "d", "value"))
    return world.lake.tabs[T]


@pytest.mark.parametrize("back", [False, True])
def test_a_rollback_behind_an_adoption_by_another_value(world, back):
    """The horizons of before were those of other rows (invariant 5)."""
    tab = with_a_row(
        world, _create(delete__retention__ms=str(DAY), idle__tombstones="expire", column__value="value"), ingested=None
    )
    whole_run(world)
    world.clock += DAY - HOUR
    before = tab.current
    world.hp.adopt(T, {"column.value": "ingested"})
    assert said(world).horizon(5) == world.clock + DAY
    if back:
        foreign._point(world, tab, before)
    world.clock += 2 * HOUR
    whole_run(world)
    assert 5 in offsets(world)
    world.clock += DAY + HOUR
    put(world, (8, "e", "value"))
    whole_run(world)
    world.clock += DAY + HOUR
    whole_run(world)
    assert 5 not in offsets(world), "they leave once their own horizon has passed"


@pytest.mark.parametrize(("before", "after"), [("null", "value empty"), ("none", "null")])
def test_a_pass_by_another_rule_is_not_published(world, monkeypatch, before, after):
    with_a_row(world, _create(delete__retention__ms=str(HOUR), tombstone=before), value="")
    plan = world.hp.plan(T, world.now)
    world.using(plan.settings)
    real = pipeline.choose

    def adopts(*given):
        monkeypatch.setattr(pipeline, "choose", real)
        world.hp.adopt(T, {"tombstone": after})
        return real(*given)

    monkeypatch.setattr(pipeline, "choose", adopts)
    monkeypatch.setattr(pipeline, "judge_pass", lambda *_: None)
    # the stand-in for Spark looks at a value, of which this rule has none
    monkeypatch.setattr(Columns, "of", classmethod(lambda cls, c: cls(4, c.value.field_id if c.value else 6)))
    with pytest.raises(Conflict, match="tombstones go by another rule"):
        world.hp.clean(plan)
    assert said(world).checkpoint is None


def test_a_policy_that_names_another_rule_waits_for_an_adoption(world, tmp_path):
    def policy(rule):
        file = tmp_path / "policies.yaml"
        settings = f"{{tombstone: '{rule}', delete.retention.ms: {DAY}, idle.tombstones: expire}}"
        file.write_text(f"policies: [{{name: p, tables: ['*.*'], settings: {settings}}}]")
        file.chmod(0o600)
        world.hp.policies = load_policies(file)

    policy("null")
    with_a_row(world, _create(), value="")
    whole_run(world)
    world.clock += DAY - HOUR
    policy("value empty")
    with pytest.raises(BadInput, match="its tombstones go by 'value empty', expected 'null' as when it was adopted"):
        whole_run(world)
    world.hp.adopt(T)
    assert said(world).horizon(5) == world.clock + DAY
    whole_run(world)
    assert 5 in offsets(world)


def test_a_resume_after_a_clock_ahead_reads_history_once(world, monkeypatch):
    play(world, _create(delete__retention__ms=str(DAY)))
    asked, real = [], pause.horizons_at
    play(world, *(step for log in range(5) for step in (_append("a", log=log), _append("b", log=log))), CLEAN)
    before = {log: found.horizons for log, found in world.hp.said(T).items()}
    play(world, Step("skew", {"ms": 365 * DAY}), *(_append("c-", "d", log=log) for log in range(5)), CLEAN)
    play(world, Step("skew", {"ms": 0}))
    monkeypatch.setattr(pause, "horizons_at", lambda *given: asked.append(given) or real(*given))
    play(world, _do("resume"))
    assert len(asked) == 1
    for log, found in world.hp.said(T).items():
        assert set(before[log]) <= {*found.horizons, *before[log]}
        assert all(ms <= world.clock + DAY for _, ms in found.horizons)
