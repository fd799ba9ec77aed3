"""Histories that once broke a promise between two passes: what a full map, phase two, others or a person leave."""

import time

import pytest
from hardpack.compaction import pipeline
from hardpack.files.damage import readable
from hardpack.operations.status import table_status
from hardpack.table.catalog import open_table
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.update import AddPartitionSpecUpdate, SetDefaultSpecUpdate
from pyiceberg.transforms import IdentityTransform

from tests.histories import foreign
from tests.histories.known import CLEAN, DAY, HOUR, NIGHT, PACK_ALL, RUN, T, _advance, _append, _create, _do, _late
from tests.histories.steps import Step
from tests.histories.table_changes import foreign_expire
from tests.histories.test_edges import expired, play, rows, said

pytestmark = pytest.mark.histories
EXPIRE = _do("expire_tombstones")


def put(world, *found):
    """Rows of log 0 in one file, by offset, key and kind."""
    tab = world.lake.tabs[T]
    made = [foreign._row(world, tab, 0, *row) for row in found]
    tab.commit(world.clock, "append", add=[tab.file(made, world.clock)])
    world.look(T)


def offsets(world):
    tab = world.lake.tabs[T]
    return {row.offset for found in tab.visible(tab.current).values() for row in found}


def full_map(world, ratio="0"):
    """The offset map is full after two keys, inside the first segment: checkpoint 5, tombstones dated up to 14."""
    settings = {"log__cleaner__dedupe__buffer__size": "48", "min__cleanable__dirty__ratio": ratio}
    play(
        world, _create(delete__retention__ms=str(HOUR), idle__tombstones="expire", **settings),
        rows(("a", "tombstone", 1), ("b", "value", 1), ("c", "value", 5)), rows(("d", "value", 5)), _append("e"), CLEAN,
    )  # fmt: skip
    assert (said(world).checkpoint, said(world).horizons[0][0]) == (5, 14)


def ample_map(world):
    play(world, _do("settings", log__cleaner__dedupe__buffer__size=""))


def gone_tombstone(world):
    """A log whose tombstone of `x` at offset 6 is gone."""
    play(
        world, _create(delete__retention__ms=str(HOUR)), _append("x", "a"), _append("x-", "b"), _append("c"),
        _append("d"), RUN, _advance(DAY), _append("e"), _append("f"), RUN,
    )  # fmt: skip
    assert said(world).expired_to == 6


def test_phase_two_does_not_count_what_came_late_behind_a_full_map_as_seen(world):
    full_map(world)
    play(world, _advance(2 * HOUR))
    put(world, (12, "x", "tombstone"))
    play(world, EXPIRE)
    ample_map(world)
    play(world, CLEAN)
    assert 12 in offsets(world)
    assert said(world).horizon(12) == world.clock + HOUR


def test_a_late_tombstone_that_a_full_map_did_not_come_to_is_dated_by_the_next_pass(world):
    full_map(world)
    put(world, (12, "x", "tombstone"))
    play(world, CLEAN)
    ample_map(world)
    play(world, _advance(DAY), _append("k"), RUN)
    assert said(world).horizon(12) == world.clock + HOUR
    play(world, _advance(DAY), _append("l"), RUN)
    assert 12 not in offsets(world)


def test_tombstones_on_both_sides_of_a_full_map_are_no_reason_for_a_commit_at_every_run(world):
    full_map(world, ratio="0.7")
    play(world, _advance(2 * HOUR), RUN, RUN)
    before = len(world.lake.tabs[T].meta.snapshots)
    play(world, _advance(HOUR), RUN, _advance(HOUR), RUN)
    assert len(world.lake.tabs[T].meta.snapshots) == before


@pytest.mark.parametrize(("behind", "time"), [(1, "now"), (1, -1), (4, "now")])
def test_a_merge_that_puts_a_new_row_into_the_file_of_old_ones_forgets_nothing(world, behind, time):
    """Invariants 6 and 9; with offsets left out behind the old rows nobody can tell that all others were there."""
    gone_tombstone(world)
    tab, last = world.lake.tabs[T], said(world).checkpoint
    old = tab.paths(tab.current)
    merged = [row._replace(ingested=world.clock) for path in old for row in tab.visible(tab.current)[path]]
    end = max(row.offset for row in merged)
    new = foreign._row(world, tab, 0, end + behind, "n", "value", time)
    tab.commit(world.clock, "overwrite", add=[tab.file([*merged, new], world.clock)], remove=old)
    world.look(T)
    assert said(world).checkpoint == last
    assert said(world).reason.startswith("refused") == (behind > 1)
    put(world, (1, "x", "value"))
    assert said(world).reason.startswith("refused: rows arrived at offset 1,")


def test_a_topic_made_anew_is_not_taken_for_one_that_grew(world):
    gone_tombstone(world)
    tab = world.lake.tabs[T]
    play(world, _advance(DAY))
    new = [foreign._row(world, tab, 0, offset, key, "value") for offset, key in enumerate("xyzuvw", 5)]
    tab.commit(world.clock, "overwrite", add=[tab.file(new, world.clock)], remove=tab.paths(tab.current))
    world.look(T)
    assert said(world).checkpoint is None


def test_a_late_row_is_late_in_the_file_that_phase_two_makes_of_its_own(world):
    """Others put it beside a tombstone that is due, and history expires."""
    play(
        world, _create(late__rows="refuse", delete__retention__ms=str(HOUR)), _append("a-", "b"),
        rows(("c", "value", 5)), _append("d"), CLEAN, _advance(DAY),
    )  # fmt: skip
    put(world, (8, "q", "value"))
    play(world, PACK_ALL, EXPIRE)
    assert 4 not in offsets(world)
    for _ in range(9):
        assert said(world).reason.endswith("the first at offset 8 (late.rows=refuse)")
        play(world, _advance(DAY), NIGHT)


def test_a_refused_row_that_is_deleted_is_refused_no_more_though_phase_two_put_it_down(world):
    play(
        world, _create(late__rows="refuse", delete__retention__ms="0"), _append("a-", "b"), _append("c", "d"),
        _append("e"), CLEAN, _advance(DAY), _late(99, "zz"), EXPIRE,
    )  # fmt: skip
    assert said(world).reason.startswith("refused: rows arrived")
    play(world, _do("delete", key="zz"))
    assert not said(world).reason.startswith("refused")


def test_a_refused_row_that_retention_takes_is_refused_no_more(world):
    expired(world, cleanup__policy="compact,delete", retention__ms=str(10 * DAY))
    put(world, (3, "x", "value", world.clock - 11 * DAY))
    assert said(world).reason.startswith("refused: rows arrived")
    play(world, _do("retention"))
    assert 3 not in offsets(world)
    assert not said(world).reason.startswith("refused")


def test_only_a_removed_tombstone_behind_it_refuses_a_late_row(world):
    play(
        world, _create(delete__retention__ms=str(HOUR)),
        rows(("a", "tombstone", 1), ("b", "value", 1), ("c", "value", 90)), _append("d"), RUN, _advance(DAY),
        _append("e"), _append("f"), RUN,
    )  # fmt: skip
    assert (said(world).checkpoint, said(world).expired_to) == (98, 4)
    play(world, _late(50, "zz"))
    assert said(world).due
    put(world, (2, "z", "value"))
    assert said(world).reason.startswith("refused: rows arrived at offset 2, where tombstones up to 4 ")


def test_where_no_tombstone_was_left_to_expire_none_refuses_a_late_row(world):
    play(
        world, _create(delete__retention__ms=str(HOUR), idle__tombstones="expire"), _append("a-", "b"),
        _append("a", "c"), _append("d"), RUN, _advance(DAY), RUN, _late(40, "zz"),
    )  # fmt: skip
    assert (said(world).expired_to, said(world).due) == (-1, True)


def test_a_file_that_others_take_away_while_a_pass_reads_it_marks_no_log(world, monkeypatch):
    tab = play(world, _create(), _append("a", "b"), _append("a", "c"), _append("d"))
    real, done = pipeline.find_dead_rows, []

    def read(session, inputs):
        if not done:
            done.append(True)
            foreign.binpack(world, tab, "replace", 100)
            foreign_expire(world, tab, 1)
            world.look(T)
            path = next(path for path in inputs.tasks if path not in tab.store.files)
            with readable(f"{inputs.work.name}: data file {path}"):
                raise FileNotFoundError(path)
        return real(session, inputs)

    monkeypatch.setattr(pipeline, "find_dead_rows", read)
    plan = world.hp.plan(T, world.now)
    world.using(plan.settings)
    world.hp.clean_or_replan(plan)
    assert done
    assert not said(world).uncleanable
    play(world, _append("e"), _append("f"), RUN)
    assert said(world).checkpoint


def test_any_number_of_bin_packs_between_two_passes_is_followed_back(world):
    """A chain as long as this was once given up, and deeper calls would end in an error of Python's."""
    tab = expired(world)
    for number in range(400):
        foreign.append(world, tab, {"0": [[f"k{number}", "value", 1, "now"]]})
        foreign.binpack(world, tab, "replace", 100)
    world.look(T)
    assert not said(world).reason.startswith("refused")
    play(world, NIGHT, _append("y"), _append("z"), RUN)
    assert said(world).checkpoint > 400


def test_one_resume_undoes_all_passes_by_a_clock_ahead(world):
    play(
        world, _create(delete__retention__ms=str(DAY)), _append("a", "b-"), _append("c"),
        Step("skew", {"ms": 365 * DAY}), CLEAN, _append("d-"), _append("e"), _advance(HOUR), CLEAN,
        Step("skew", {"ms": 0}), _do("resume"),
    )  # fmt: skip
    assert {ms for _, ms in said(world).horizons} == {world.clock + DAY}
    play(world, _advance(3 * DAY), _append("f"), _append("g"), RUN)
    assert not {5, 7} & offsets(world)


def test_a_table_that_is_partitioned_by_log_at_last_keeps_what_passes_knew(world):
    """One file of several logs, not split yet, is rewritten beside the cleaned ones."""
    both = [step for keys in (["a", "x"], ["a", "x-", "b"], ["c"], ["d"]) for step in _of_two(*keys)]
    later = [step for keys in (["e"], ["f"]) for step in _of_two(*keys)]
    play(world, _create(by_log=False, delete__retention__ms=str(HOUR)), *both, RUN, _advance(DAY), *later, RUN)
    before = {log: one.checkpoint for log, one in world.hp.said(T).items()}
    tab = play(world, _do("mixed", rows=[[key, "value", 1, "now"] for key in "gghh"]))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"), spec_id=1)
    tab.swap(tab.updated(AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=1)))
    foreign.binpack(world, tab, "replace", 100)
    world.look(T)
    now = world.hp.said(T)
    assert {log: one.checkpoint for log, one in now.items()} == before
    assert not any(one.refused for one in now.values())


def _of_two(*keys):
    return _append(*keys), _append(*keys, log=1)


def test_status_does_not_say_that_no_tombstone_waits_in_a_file_across_the_checkpoint(world):
    settings = {"min__cleanable__dirty__ratio": "0.9", "idle__tombstones": "expire"}
    play(world, _create(delete__retention__ms=str(HOUR), **settings), _append("a", "b-"), _append("c"), CLEAN)
    due = said(world).horizon(5)
    play(world, _append("d"), PACK_ALL, _append("e"))
    session = world.hp.session(T)
    (status,) = table_status(session, world.now)
    assert (status.tombstones_waiting, status.next_horizon) == (None, due)


@pytest.mark.parametrize("waits", [False, True], ids=["never dated", "dated long ago"])
def test_rows_that_become_tombstones_by_another_column_wait_their_time_and_go(world, waits):
    """Invariant 5: adoption says what a tombstone is from now on."""
    before, after = ("value", "ingested") if waits else ("ingested", "value")
    play(world, _create(delete__retention__ms=str(DAY), idle__tombstones="expire", column__value=before))
    tab, world.look = world.lake.tabs[T], lambda *_: None
    first = [foreign._row(world, tab, 0, 4, "a", "tombstone" if waits else "value"), *_deleted(world, tab, waits)]
    tab.commit(world.clock, "append", add=[tab.file(first, world.clock)])
    for offset in (6, 7):
        row = foreign._row(world, tab, 0, offset, f"k{offset}", "value")
        tab.commit(world.clock, "append", add=[tab.file([row], world.clock)])
    whole_run(world)
    world.clock += 2 * DAY
    world.hp.adopt(T, {"column.value": after})
    assert said(world).horizon(5) == world.clock + DAY
    whole_run(world)
    assert 5 in offsets(world)
    world.clock += DAY
    whole_run(world)
    assert 5 not in offsets(world)
    assert open_table(world.lake, T).properties["hardpack.column.value"] == after


def _deleted(world, tab, by_ingested):
    """The row at offset 5, which the column in force later makes a tombstone."""
    row = foreign._row(world, tab, 0, 5, "b", "value" if by_ingested else "tombstone")
    return [row._replace(ingested=None) if by_ingested else row]


def whole_run(world):
    plan = world.hp.plan(T, world.now)
    world.using(plan.settings)
    world.hp.clean_or_replan(plan)
    world.hp.expire_after(plan)


def test_a_look_at_many_files_that_others_rewrote_twice_takes_no_longer_for_each(world):
    """What a commit did is reckoned once, and not for each of its files: that took an hour for 10,000."""
    play(world, _create(), _append("a"), _append("b"), RUN)
    tab = world.lake.tabs[T]
    files = [tab.file([foreign._row(world, tab, 0, 10 + n, f"k{n}", "value")], world.clock) for n in range(2000)]
    tab.commit(world.clock, "append", add=files)
    for _ in range(2):
        world.clock += 1
        foreign.update(world, tab, "ingested", log=0)
    began = time.process_time()
    assert said(world).first_dirty == 4
    assert time.process_time() - began < 10
