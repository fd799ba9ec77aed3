"""Histories by which a mend of another one would have broken a promise."""

import json

import pytest
from hardpack.rules.horizons import after_expiry
from hardpack.rules.model import LogState

from tests.histories import foreign
from tests.histories.known import CLEAN, DAY, HOUR, NIGHT, PACK_ALL, RUN, T, _advance, _append, _create, _do
from tests.histories.steps import Step
from tests.histories.table_changes import foreign_expire
from tests.histories.test_between_passes import EXPIRE, ample_map, full_map, offsets, put
from tests.histories.test_edges import play, rows, said
from tests.histories.verbs import lasting_bytes

pytestmark = pytest.mark.histories


def test_a_horizon_that_a_pass_gives_and_a_later_one_serves_is_no_growth():
    logs = {"0": {"checkpoint": 9, "end": 10}, "1": {"checkpoint": 9, "end": 10}}
    bare = lasting_bytes(json.dumps({"version": 3, "logs": logs}, separators=(",", ":")))
    one = {"0": logs["0"] | {"horizons": [[8, 1603196800000]], "clean_given": 1603196800000}, "1": logs["1"]}
    assert lasting_bytes(json.dumps({"version": 3, "logs": one})) == bare
    two = {"0": logs["0"] | {"horizons": [[7, 1603196800000], [8, 1603196800000]]}, "1": logs["1"]}
    assert lasting_bytes(json.dumps({"version": 3, "logs": two})) > bare
    assert (lasting_bytes(""), lasting_bytes("packed")) == (0, 6)


def test_rows_that_a_merge_puts_into_a_gap_of_the_log_are_late(world):
    """Behind the files that it rewrites is not behind the log (invariant 9)."""
    tab = play(
        world, _create(delete__retention__ms="0", segment__bytes="160"), _append("a", "x"), _append("x-", "b"),
        _append("c"), _append("d"), CLEAN, _advance(DAY), EXPIRE, _append("e"), _append("f"), RUN,
    )  # fmt: skip
    (old,) = (path for path, found in tab.visible(tab.current).items() if [row.offset for row in found] == [4])
    again = foreign._row(world, tab, 0, 5, "x", "value", world.clock)
    merged = [*tab.visible(tab.current)[old], again]
    tab.commit(world.clock, "overwrite", add=[tab.file(merged, world.clock)], remove=[old])
    world.look(T)
    assert said(world).reason.startswith("refused: rows arrived at offset 5, where tombstones up to 6 ")


@pytest.mark.parametrize(
    ("wrong", "mend"),
    [({"hardpack.tombstone": "nonsense"}, {"tombstone": "null"}),
     ({"hardpack.min.cleanable.dirty.ratio": "7"}, {"min.cleanable.dirty.ratio": "0.5", "tombstone": "ingested=0"})],
)  # fmt: skip
def test_adoption_mends_what_is_wrong_though_other_rows_are_tombstones_then(world, wrong, mend):
    tab = play(world, _create(delete__retention__ms=str(DAY)), _append("a", "b-"), _append("c"), _append("d"), RUN)
    tab.set_properties(wrong)
    world.hp.adopt(T, mend)
    assert said(world).checkpoint


def test_phase_two_behind_a_full_map_leaves_the_layout_and_the_horizons_of_the_pass(world):
    """With nothing late there it is as it was: nothing becomes due, and no horizon is given twice."""
    full_map(world, ratio="0.9")
    play(world, _advance(2 * HOUR))
    put_off = said(world).horizons[-1]
    before = said(world)
    play(world, EXPIRE)
    assert (before.due, said(world).due) == (False, False)
    assert said(world).horizons[-1] == put_off
    ample_map(world)
    play(world, _advance(8 * DAY), NIGHT)
    foreign_expire(world, world.lake.tabs[T], 1)
    world.look(T)
    play(world, _do("clean", force=True))
    assert said(world).horizon(14) in (put_off[1], None)


def test_what_phase_two_has_served_below_a_checkpoint_is_one_entry_however_often():
    state = LogState(checkpoint=10, horizons=((19, 5),))
    for checkpoint in (10, 12, 15):
        state = after_expiry(LogState(checkpoint=checkpoint, horizons=state.horizons), ((0, checkpoint - 1),))
    assert [up_to for up_to, _ in state.horizons] == [14, 19]


@pytest.mark.parametrize(
    "steps",
    [
        [PACK_ALL, _do("update", column="ingested")],
        [_append(None), _append("d"), _do("update", column="ingested", key="b")],
        [_do("settings", min__compaction__lag__ms=str(30 * DAY)), _do("update", column="ingested", key="b"),
         _append("d")],
    ],
)  # fmt: skip
def test_due_tombstones_that_wait_for_changed_rows_are_no_reason_for_a_commit_at_every_run(world, steps):
    play(world, _create(delete__retention__ms=str(HOUR), idle__tombstones="expire"))
    play(world, _append("a", "b"), _append("b-"), _append("c"), RUN, _advance(1000), *steps, _advance(2 * HOUR), RUN)
    for step in (_advance(HOUR), NIGHT):
        assert not world.hp.plan(T, world.now).has_work
        play(world, step)
    assert 6 in offsets(world)


def test_a_tombstone_that_retention_took_refuses_a_late_row_of_its_key(world):
    keep = {"cleanup__policy": "compact,delete", "retention__ms": str(10 * DAY), "segment__bytes": "160"}
    play(world, _create(delete__retention__ms=str(HOUR), idle__tombstones="expire", **keep))
    first = Step("append", {"t": T, "logs": {"0": [["x", "tombstone", 3, world.clock]]}})
    play(
        world, first, _advance(9 * DAY), _append("b"), _append("c"), _append("d"), _append("e"), CLEAN,
        _advance(DAY + HOUR), _do("retention"), EXPIRE,
    )  # fmt: skip
    assert 6 not in offsets(world)
    put(world, (2, "x", "value", world.clock - 20 * DAY))
    assert said(world).reason.startswith("refused: rows arrived at offset 2, where tombstones up to 6 ")


@pytest.mark.parametrize("mode", ["starting", "replace"])
def test_a_bin_pack_of_old_and_new_rows_does_not_hide_that_a_topic_was_made_anew(world, mode):
    play(world, _create(), _append("a"), _append("b"), CLEAN, _advance(HOUR))
    play(world, _do("remake", log=0, rows=[["a", "value"]]), _do("binpack", mode=mode, share=100), _append("c"), RUN)
    assert said(world).held
    assert 0 in offsets(world)
    play(world, _do("resume", trust=True), _append("d"), CLEAN)
    assert 0 not in offsets(world)


@pytest.mark.parametrize("verb", ["clean", "retention", "scheduled"])
def test_rows_of_a_topic_made_anew_stay_until_somebody_trusts_them(world, verb):
    play(world, _create(cleanup__policy="compact,delete", retention__bytes="0"))
    play(world, _append("a"), _append("b"), CLEAN, _advance(HOUR), _do("remake", log=0, rows=[["a", "value"]]))
    assert said(world).held
    play(world, _do(verb))
    assert 0 in offsets(world)
    play(world, _do("resume", trust=True), _append("c"), CLEAN)
    assert 0 not in offsets(world)


@pytest.mark.parametrize(
    "steps",
    [
        [_do("binpack", mode="overwrite", share=100), _do("remake", log=0, rows=[["a", "value"]]), _append("c")],
        [_do("merge", log=0, key="a", rows=[["b", "tombstone", 2, "now"]], together=False), _append("v"),
         _do("remake", log=0, rows=[["v", "tombstone"]]), PACK_ALL],
        [_do("binpack", mode="overwrite", share=100), _append("w"), _do("remake", log=0, rows=[["w", "tombstone"]]),
         _do("binpack", mode="starting", share=30)],
    ],
)  # fmt: skip
def test_a_topic_made_anew_is_told_where_others_had_written_the_old_rows_anew(world, steps):
    play(world, _create(), _append("a", "b"), _append("a"), CLEAN, _advance(HOUR), *steps, RUN)
    assert said(world).held
    assert 0 in offsets(world)


@pytest.mark.parametrize("then", [[], [_do("binpack", mode="replace", share=100)]])
def test_a_topic_made_anew_goes_on_once_the_old_rows_are_deleted(world, then):
    play(world, _create(), _append("a"), _append("b"), CLEAN, _advance(HOUR))
    tab = play(world, _do("remake", log=0, rows=[["a", "value"], ["b", "value"]]), *then)
    newest = max(row.ts for found in tab.visible(tab.current).values() for row in found)
    foreign._rewrite(world, tab, lambda row: row if row.ts == newest else None)
    world.look(T)
    if then:
        # what the bin-pack took counts as there
        assert said(world).held
        play(world, _do("resume", trust=True))
    play(world, _append("c"), RUN, _append("d"), RUN)
    assert not said(world).held
    assert {0, 1} <= offsets(world)


def test_trust_holds_where_somebody_goes_back_to_before_it_and_no_pass_is_left(world):
    play(world, _create(delete__retention__ms=str(HOUR), idle__tombstones="expire"))
    play(world, _append("w-"), _append("u"), CLEAN, _advance(2 * HOUR), EXPIRE)
    tab = play(world, _do("late", log=0, rows=[[10, "w", "value"]]))
    before = tab.meta.current_snapshot_id
    play(world, _advance(8 * DAY), _append("d"), _do("resume", log=0, trust=True), CLEAN, _append("a"), NIGHT)
    at = [s.snapshot_id for s in tab.meta.snapshots].index(before)
    play(world, _do("set_snapshot", pick=at), _append("e"), CLEAN)
    assert not said(world).held


def test_a_row_that_came_late_and_that_retention_took_fails_no_check(world):
    play(world, _create(cleanup__policy="compact,delete", retention__bytes="400"))
    play(world, _append("y"), _append("w"), CLEAN, _append("d"), _do("late", log=0, rows=[[5, "v", "tombstone"]]))
    assert not world.hp.verify(T, world.now).success
    play(world, _do("retention"))
    assert 0 not in offsets(world)
    assert world.hp.verify(T, world.now).success


def test_a_replace_that_brings_a_row_more_is_not_believed_beside_files_of_several_logs(world):
    keys = (["a", "x"], ["x-", "b"], ["c"], ["d"])
    both = [step for names in keys for step in (_append(*names), _append(*names, log=1))]
    later = [step for name in "ef" for step in (_append(name), _append(name, log=1))]
    play(world, _create(by_log=False, delete__retention__ms=str(HOUR)), *both, RUN, _advance(DAY), *later, RUN)
    tab = play(world, _do("mixed", rows=[[key, "value", 1, "now"] for key in "gghh"]))
    shown = tab.visible(tab.current)
    every = [row for found in shown.values() for row in found] + [foreign._row(world, tab, 0, 5, "x", "value")]
    files = [[row for row in every if row.log == log] for log in (0, 1)]
    files = [tab.file(sorted(found, key=lambda row: row.offset), world.clock) for found in files]
    tab.commit(world.clock, "replace", add=files, remove=list(shown))
    world.look(T)
    assert said(world).reason.startswith("refused: rows arrived")


@pytest.mark.parametrize("verb", ["expire_tombstones", "retention"])
def test_late_rows_that_a_full_map_left_stay_refused_whatever_else_is_done(world, verb):
    keep = {"cleanup__policy": "compact,delete", "retention__ms": str(DAY // 2), "segment__bytes": "160"}
    play(world, _create(delete__retention__ms=str(HOUR), idle__tombstones="expire", **keep))
    first = Step("append", {"t": T, "logs": {"0": [["a", "tombstone", 1, world.clock - DAY]]}})
    play(world, first, rows(("b", "value", 9)), rows(("c", "value", 1)), rows(("d", "value", 1)), _append("e"), CLEAN)
    put(world, *((offset, key, "value") for offset, key in zip((6, 7, 8, 9), "pqrs", strict=True)))
    play(world, _do("settings", log__cleaner__dedupe__buffer__size="48"), CLEAN, _do("settings", late__rows="refuse"))
    words = "refused: rows arrived late, the first at offset 7"
    assert said(world).reason.startswith(words)
    play(world, _advance(2 * HOUR), _do(verb))
    assert 4 not in offsets(world)
    assert said(world).reason.startswith(words)


@pytest.mark.parametrize(("gap", "late"), [(1, False), (2, True)])
def test_a_merge_into_the_file_behind_the_checkpoint_is_late_where_it_leaves_offsets_out(world, gap, late):
    """The last row, which the source delivered twice, is dirty; the rows before it in its file are not."""
    three = [["d", "value", 2, "now"], ["c", "tombstone", 3, "now"], ["a", "tombstone", 3, "now"]]
    first = Step("append", {"t": T, "logs": {"0": three}})
    again = Step("append", {"t": T, "logs": {"0": []}, "chain": True})
    merge = _do("merge", log=0, key="a", rows=[["c", "value", gap, "now"]], together=True)
    play(world, _create(late__rows="refuse"), first, again, RUN, merge)
    assert said(world).reason.startswith("refused: rows arrived late") == late


@pytest.mark.parametrize("what", [_do("insert_overwrite", log=0, rows=[["s", "value", 1, "now"]]), _do("truncate")])
def test_no_state_of_a_world_that_was_replaced_lands_on_the_new_one(world, what):
    """Its plan was made before, and its checkpoint would hide the new rows (invariant 6)."""
    play(world, _create(delete__retention__ms="0"), _append("a"), _append("b"), _append("c"), _do("plan", slot=0))
    play(world, what, _append("d"), _do("apply", slot=0))
    assert said(world).checkpoint is None
    assert world.counts["Conflict in apply"] == 1
