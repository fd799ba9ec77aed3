"""Histories in which something happens between the portions of a pass (invariants 1, 4, 6 and 9)."""

from contextlib import suppress

import pytest
from hardpack.compaction import phase_one, pipeline
from hardpack.errors import Conflict, UncleanableLog
from hardpack.table.state import read_state

from tests.histories.steps import Step

pytestmark = pytest.mark.histories
T = "t.a"


def do(world, kind, **args):
    world.do(Step(kind, {"t": T, **args}))


def create(world, unit_bytes=1, **settings):
    """A table of which each file is a segment, and a portion."""
    given = {name.replace("__", "."): value for name, value in settings.items()}
    rules = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.bytes": "14"}
    do(world, "create", settings=rules | given, unit_bytes=unit_bytes)


def append(world, keys, log="0"):
    do(world, "append", logs={log: [[None if key == "-" else key, "value", 1, "now"] for key in keys]})


def offsets(world):
    tab = world.lake.tabs[T]
    return sorted(row.offset for rows in tab.visible(tab.current).values() for row in rows)


def states(world):
    return read_state(T, world.lake.tabs[T].meta.properties)


def planned(world):
    """What to do now; the oracle is told by which settings."""
    plan = world.hp.plan(T, world.now)
    world.using(plan.settings)
    return plan


def filled(world):
    """Three segments that each keep a row, so that a pass ends in three commits, and an active one."""
    create(world)
    for at, last in enumerate("uvw"):
        append(world, f"ab{last}{at}")
    append(world, "ab")
    append(world, "z")


def interrupted(world, at, *step):
    """A pass, and a step of others beside one of its commits, each of which looks up twice."""
    do(world, "ambush", at=at, step=[step[0], {"t": T, **step[1]}])
    with suppress(Conflict):
        world.hp.clean(planned(world))
    assert world.interrupted


@pytest.mark.parametrize("at", [2, 4])
def test_a_rollback_behind_a_portion_ends_the_pass(world, at):
    filled(world)
    before = offsets(world)
    interrupted(world, at, "rollback", {"back": at // 2})
    assert offsets(world) == before
    assert states(world) == {}
    do(world, "clean")
    assert offsets(world) == [6, 7, 10, 11, 14, 15, 16, 17, 18]
    assert world.hp.verify(T, world.now).success


@pytest.mark.parametrize("on_read", [True, False])
def test_a_delete_in_the_file_of_a_portion_is_not_the_passs_doing(world, on_read):
    filled(world)
    interrupted(world, 2, "delete", {"key": "u", "percent": 100, "on_read": on_read})
    assert states(world)["0"].checkpoint
    assert world.hp.verify(T, world.now).passes_hold


def test_a_table_is_whole_after_a_pass_that_died(world):
    filled(world)
    do(world, "clean")
    append(world, "uv")
    append(world, "z")
    do(world, "dies", commits=0)
    assert world.counts["died"] == 1
    assert world.hp.verify(T, world.now).success
    do(world, "clean")
    assert world.hp.verify(T, world.now).success


def test_a_log_that_a_pass_empties_keeps_its_checkpoint_when_the_pass_dies(world):
    create(world, null__keys="drop", active__segment="none", unit_bytes=None)
    append(world, "--")
    for _ in range(2):
        append(world, "abu", log="1")
    do(world, "clean")
    world.unit_bytes = 1
    checkpoint = states(world)["0"].checkpoint
    append(world, "--")
    for keys in ("abx", "abuy", "abux"):
        append(world, keys, log="1")
    do(world, "dies", commits=0)
    assert world.counts["died"] == 1
    do(world, "clean")
    assert states(world)["0"].checkpoint > checkpoint
    assert world.hp.verify(T, world.now).success


def test_a_log_that_turns_out_to_be_uncleanable_is_left_out_of_the_next_plan(world, monkeypatch):
    filled(world)
    for keys in ("abc", "abd", "ab", "z"):
        append(world, keys, log="1")
    real, bad = pipeline.write, {path for path, rows in world.store.files.items() if rows and rows[0].log == 1}

    def write(session, choice):
        if choice.removed & bad:
            raise UncleanableLog("t.a: a file of partition 1 is damaged.", ("1",), "a data file is damaged")
        return real(session, choice)

    monkeypatch.setattr(pipeline, "write", write)
    plan = planned(world)
    with pytest.raises(Conflict, match=r"3 portions .* \(t.a: a file of partition 1 is damaged.\); plan again"):
        world.hp.clean(plan)
    assert states(world)["1"].uncleanable
    report = world.hp.clean_or_replan(plan)
    assert [(entry.partition, entry.checkpoint_after) for entry in report.logs] == [(0, 18)]


def test_nothing_is_asked_of_a_snapshot_once_it_is_published(world, monkeypatch):
    """Else the files of a portion would be deleted when the catalog does not answer."""
    filled(world)

    def unanswered(*_):
        raise ConnectionResetError

    monkeypatch.setattr("tests.histories.jvm_table.SimJvmTable.sequence_number", unanswered)
    world.hp.clean(planned(world))
    assert offsets(world) == [6, 7, 10, 11, 14, 15, 16, 17, 18]


@pytest.mark.parametrize(("unit_bytes", "commits"), [(None, 1), (1, 3)])
def test_what_was_old_enough_when_it_was_planned_goes_though_the_clock_was_set_back(world, unit_bytes, commits):
    """A plan that is forced may lie ahead of the clock (invariant 3)."""
    filled(world)
    world.unit_bytes = unit_bytes
    do(world, "settings", min__compaction__lag__ms="3600000")
    world.do(Step("advance", {"ms": 3_600_000}))
    do(world, "plan", slot=0, force=True)
    world.do(Step("skew", {"ms": -172_800_000}))
    do(world, "apply", slot=0)
    assert world.counts["portion"] + world.counts["pass one"] == commits
    assert offsets(world) == [6, 7, 10, 11, 14, 15, 16, 17, 18]


def test_an_error_of_a_log_that_the_pass_has_not_ends_it(world, monkeypatch):
    """To leave out no log would be to try the same again for ever."""
    filled(world)
    tries = []

    def other(*_):
        tries.append(1)
        assert len(tries) < 3
        raise UncleanableLog("t.a: a file of partition 7 is damaged.", (), "a data file is damaged")

    monkeypatch.setattr(phase_one, "run_pass", other)
    with pytest.raises(UncleanableLog, match="partition 7"):
        world.hp.clean(planned(world))
    assert len(tries) == 1
