"""What a night records of a log is what history told of it, and nothing waits for a run that never comes."""

import pytest
from hardpack.rules.horizons import UNDATED
from hardpack.table.history import trusted_states

from tests.histories import foreign
from tests.histories.known import CLEAN, DAY, HOUR, NIGHT, RUN, T, _advance, _append, _create, _do, _late
from tests.histories.test_between_passes import offsets, whole_run
from tests.histories.test_edges import expired, play, rows, said
from tests.histories.test_other_tombstones import with_a_row

pytestmark = pytest.mark.histories
PACKED = _do("binpack", mode="replace", share=100)


def late_beside_packed_rows(world):
    """A log with a removed tombstone, whose seen rows others put into one file before a row comes late."""
    tab = expired(world)
    play(world, _append("p"), _append("q"), RUN, _advance(HOUR), PACKED, _late(10, "zz"))
    assert said(world).reason.startswith("refused: rows arrived")
    return tab


@pytest.mark.parametrize("nights", [1, 3])
def test_a_night_makes_no_packed_row_late(world, nights):
    """Else the log is refused for ever, or a person trusts rows that are none (invariant 9)."""
    late_beside_packed_rows(world)
    for _ in range(nights):
        # snapshots expire after five days
        play(world, NIGHT, _advance(4 * DAY))
    play(world, _do("delete", key="zz", percent=100))
    assert not said(world).reason.startswith("refused")
    play(world, _append("r"), RUN)
    assert said(world).checkpoint


def test_a_night_makes_no_row_late_that_others_packed_with_newer_ones(world):
    """A compaction takes the head's small files too, where no pass has been yet."""
    expired(world)
    play(world, _append("p"), _append("q"), RUN, _advance(HOUR), _append("r"), PACKED, _late(10, "zz"))
    for _ in range(3):
        play(world, NIGHT, _advance(4 * DAY))
    play(world, _do("delete", key="zz", percent=100))
    assert not said(world).reason.startswith("refused")


def test_a_rollback_to_before_a_night_makes_no_packed_row_late(world):
    """Its record does not hold there, and what packed the rows has expired."""
    expired(world)
    play(
        world, _append("p"), _append("q"), RUN, PACKED, _advance(2 * DAY), _append("r"), _advance(4 * DAY),
        _append("s"), NIGHT, _do("rollback", back=2),
    )  # fmt: skip
    assert not said(world).reason.startswith("refused")


def test_a_row_of_a_deleted_key_is_refused_where_a_rollback_left_no_pass_that_tells(world):
    """A night had expired all older passes; the tombstone is gone all the same (invariant 9)."""
    play(
        world, _create(delete__retention__ms="0", idle__tombstones="expire"), rows(("x", "tombstone", 2)),
        rows(("a", "value", 1)), RUN, _advance(DAY), _do("expire_tombstones"), _append("c"), _advance(6 * DAY),
        _append("d"), _advance(DAY + HOUR), RUN, NIGHT, _do("rollback", back=2),
    )  # fmt: skip
    assert said(world).checkpoint is None
    assert not said(world).reason.startswith("refused"), "rows that were there are none that came"
    play(world, _append("e"))
    assert not said(world).reason.startswith("refused"), "nor are rows behind them"
    play(world, _late(0, "x"))
    for step in (NIGHT, _do("pause", log=0), _do("resume", log=0), _append("f"), RUN, _advance(8 * DAY), NIGHT):
        play(world, step)
    assert said(world).reason.startswith("refused: rows arrived at offset 0, where tombstones up to 5 have been")
    play(world, _do("resume", log=0, trust=True), _append("g"), RUN)
    assert said(world).checkpoint


def test_rows_that_are_packed_after_a_late_one_was_deleted_on_read_are_not_late(world):
    late_beside_packed_rows(world)
    play(world, _do("delete", key="zz", percent=100, on_read=True), PACKED)
    assert not said(world).reason.startswith("refused")


def test_what_stands_behind_the_last_late_row_is_not_late_where_one_delete_takes_both(world):
    expired(world)
    play(world, _append("p"), _append("q"), RUN, _late(10, "a"), _do("delete", key="a", percent=100))
    assert not said(world).reason.startswith("refused")


def test_a_late_row_that_others_pack_with_seen_ones_stays_late_through_nights(world):
    late_beside_packed_rows(world)
    play(world, NIGHT, PACKED)
    for _ in range(3):
        play(world, NIGHT, _advance(4 * DAY))
        assert said(world).reason.startswith("refused: rows arrived")


def test_what_nights_record_of_packed_rows_does_not_grow(world):
    tab = late_beside_packed_rows(world)
    sizes = []
    for _ in range(8):
        play(world, _do("update", column="ingested", key="q"), PACKED, NIGHT, _advance(4 * DAY))
        sizes.append(len(trusted_states(world.lake.load_table(T))["0"].seen.further))
    assert max(sizes) <= 1, f"{sizes} commits recorded of {len(tab.paths(tab.current))} files"


def undated(world, **settings):
    """An idle log after a rollback over the adoption of another rule of tombstones."""
    tab = with_a_row(world, _create(delete__retention__ms=str(DAY), column__value="value", **settings), ingested=None)
    whole_run(world)
    world.clock += HOUR
    before = tab.current
    world.hp.adopt(T, {"column.value": "ingested"})
    foreign._point(world, tab, before)
    assert said(world).horizon(5) == UNDATED


def test_tombstones_that_a_rollback_left_without_a_horizon_leave_an_idle_log(world):
    undated(world, idle__tombstones="expire")
    world.hp.maintain(T, world.now)
    due = world.clock + DAY
    assert said(world).horizon(5) == due
    world.clock += HOUR
    world.hp.maintain(T, world.now)
    assert said(world).horizon(5) == due, "no night puts them off"
    world.clock = due
    whole_run(world)
    assert 5 not in offsets(world)


def test_a_horizon_that_no_run_has_given_yet_is_not_told_as_the_next(world):
    undated(world)
    assert world.hp.status(T, world.now)[0].next_horizon is None
    world.hp.maintain(T, world.now)
    assert world.hp.status(T, world.now)[0].next_horizon == world.clock + DAY


def test_rows_of_the_log_that_were_updated_on_read_are_as_old_as_those_they_replace(world):
    """A compaction that drops the hidden file takes what told so with it; the log did not start anew (invariant 6)."""
    play(
        world, _create(), _append("d", log=1), _append("d", "d", "d", log=1), CLEAN, _append("a", log=1),
        _do("delete", key="d", percent=100, on_read=False),
    )  # fmt: skip
    before = world.hp.said(T)[1].checkpoint
    play(world, _do("update_on_read", across=False, by_file=False), _do("drop_hidden"))
    assert world.hp.said(T)[1].checkpoint == before


def test_a_reason_tells_of_tombstones_that_wait_for_rows_which_cannot_be_cleaned_yet(world):
    """Others changed a row that now is in the active segment, which only another row closes."""
    play(
        world, _create(delete__retention__ms="0", idle__tombstones="expire", segment__ms=str(2**63 - 1)),
        _append("a"), _append("b-"), _append("c"), CLEAN, _do("update", column="ingested", key="a"),
        _do("binpack", mode="overwrite", share=100), _advance(DAY),
    )  # fmt: skip
    assert said(world).reason.endswith("tombstones past their horizon wait for rows behind it"), said(world).reason
    play(world, _append("e"), _append("f"), RUN, _advance(DAY), RUN)
    assert "wait for rows" not in said(world).reason
