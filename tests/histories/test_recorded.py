"""What a night records of rewrites by others vouches for no other file, and holds where the table goes back."""

import pytest
from hardpack.table.history import trusted_states

from tests.histories.known import CLEAN, DAY, HOUR, NIGHT, PACK_ALL, RUN, T, _advance, _append, _create, _do
from tests.histories.test_between_passes import ample_map, full_map, offsets, put
from tests.histories.test_edges import expired, play, rows, said

pytestmark = pytest.mark.histories
REFUSED = "refused: rows arrived at offset"


def state(world):
    return trusted_states(world.lake.load_table(T))["0"]


def pack(world, tab, only, *cuts):
    """Others put the files that `only` says of their first row together, into files that end at each cut."""
    shown = {path: found for path, found in tab.visible(tab.current).items() if only(found[0])}
    packed = sorted((row for found in shown.values() for row in found), key=lambda row: row.offset)
    parts = [
        [r for r in packed if low < r.offset <= high] for low, high in zip((-1, *cuts), (*cuts, 10**9), strict=True)
    ]
    tab.commit(world.clock, "replace", add=[tab.file(part, world.clock) for part in parts if part], remove=list(shown))
    world.look(T)
    return tab.current


def every(_):
    return True


def go(world, tab, snapshot):
    at = [s.snapshot_id for s in tab.meta.snapshots].index(snapshot.snapshot_id)
    play(world, _do("set_snapshot", pick=at))


def test_a_recorded_rewrite_vouches_for_no_file_that_has_left(world):
    """A rollback may bring the file with the late row back (invariant 9)."""
    tab = expired(world)
    play(world, _append("p"), _append("q"), RUN, _advance(2 * DAY))
    put(world, (8, "x", "value"))
    packed = pack(world, tab, every, 5)
    play(world, _do("update", column="ingested", key="b"), _advance(4 * DAY), _append("s"), NIGHT)
    go(world, tab, packed)
    assert said(world).reason.startswith(f"{REFUSED} 8")


@pytest.mark.parametrize("untouched", [3, 4])
def test_rows_of_the_head_that_are_packed_with_seen_ones_hide_no_topic_made_anew(world, untouched):
    play(world, _create(), _append("a"), _append("b"), _append("c"), CLEAN, _advance(HOUR))
    tab = play(world, _do("remake", log=0, rows=[["a", "value"]]), _append("w"))
    pack(world, tab, lambda row: row.offset > untouched)
    play(world, NIGHT, _append("y"), RUN)
    assert said(world).held
    assert 0 in offsets(world)


def test_a_bin_pack_that_also_writes_a_file_of_the_head_is_recorded(world):
    tab = expired(world)
    play(world, _append("p"), _append("q"), RUN, _advance(HOUR), _append("r"))
    pack(world, tab, every, said(world).checkpoint - 1)
    put(world, (6, "zz", "value"))
    for _ in range(3):
        play(world, NIGHT, _advance(4 * DAY))
    play(world, _do("delete", key="zz", percent=100))
    assert not said(world).reason.startswith("refused")


def test_late_tombstones_behind_a_full_map_are_not_recorded_as_seen(world):
    """Else they would have the horizon of those around them (invariant 5)."""
    full_map(world, ratio="0.99")
    put(world, (12, "x", "tombstone"))
    tab = world.lake.tabs[T]
    play(world, _append("g"), _do("pause", log=0))
    for _ in range(4):
        pack(world, tab, lambda row: row.key in "eg")
        play(world, NIGHT, _advance(4 * DAY))
    pack(world, tab, lambda row: row.offset == 12)
    play(world, NIGHT, _do("resume", log=0))
    ample_map(world)
    play(world, _do("settings", min__cleanable__dirty__ratio="0"), CLEAN)
    assert said(world).horizon(12) == world.clock + HOUR


def test_a_night_dates_no_tombstone_that_waits_for_its_pass(world):
    full_map(world)
    put(world, (12, "x", "tombstone"))
    play(world, CLEAN)
    before = state(world).horizons
    play(world, NIGHT)
    assert state(world).horizons == before
    ample_map(world)
    play(world, _advance(DAY), _append("k"), RUN)
    assert said(world).horizon(12) == world.clock + HOUR


@pytest.fixture
def untold(world):
    """A log after a rollback to where no pass is left that tells of it; tombstones up to 9 are gone."""
    tab = play(
        world, _create(delete__retention__ms="0", idle__tombstones="expire"), rows(("q", "value", 1)),
        _advance(2 * DAY), rows(("x", "tombstone", 5), ("a", "value", 1)), _append("b"), RUN, _advance(DAY),
        _do("expire_tombstones"), _append("c"), _advance(6 * DAY), _append("d"), _advance(DAY + HOUR), RUN, NIGHT,
        _do("rollback", back=2),
    )  # fmt: skip
    assert said(world).checkpoint is None
    return tab


def test_rows_that_others_pack_after_such_a_rollback_are_not_late(world, untold):
    play(world, _do("settings", min__compaction__lag__ms=str(30 * DAY)))
    pack(world, untold, lambda row: row.offset <= 10)
    for _ in range(4):
        play(world, NIGHT, _advance(4 * DAY), _append("z"))
    assert not said(world).reason.startswith("refused")
    assert len(state(world).seen.further) == 1


def test_a_late_row_is_refused_after_such_a_rollback_though_others_packed_all(world, untold):
    play(world, PACK_ALL, _append("e"))
    put(world, (7, "x", "value"))
    assert said(world).reason.startswith("refused")


def test_a_late_row_stays_refused_after_another_such_rollback(world, untold):
    """Retention goes on beside it and leaves a state of its own."""
    put(world, (7, "x", "value"))
    there = untold.current
    play(world, _do("settings", cleanup__policy="compact,delete", retention__ms=str(9 * DAY)), _do("retention"))
    go(world, untold, there)
    assert said(world).reason.startswith(f"{REFUSED} 7")


def test_a_late_row_that_was_refused_stays_so_where_a_rollback_left_no_pass_that_tells(world):
    """Retention came after it, which takes no late row into account."""
    tab = play(
        world, _create(delete__retention__ms="0", idle__tombstones="expire"), rows(("q", "value", 1)),
        _advance(2 * DAY), rows(("x", "tombstone", 5), ("a", "value", 1)), _append("b"), RUN, _advance(DAY),
        _do("expire_tombstones"), _advance(6 * DAY), _append("c"),
    )  # fmt: skip
    put(world, (7, "x", "value"))
    there = tab.current
    assert said(world).reason.startswith(REFUSED)
    play(
        world, _advance(DAY), _do("settings", cleanup__policy="compact,delete", retention__ms=str(8 * DAY)),
        _do("retention"), NIGHT,
    )  # fmt: skip
    go(world, tab, there)
    assert said(world).checkpoint is None
    assert said(world).reason.startswith(f"{REFUSED} 7")
