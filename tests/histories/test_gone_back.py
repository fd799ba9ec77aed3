"""Others take late rows, or all rows; the passes from before expire; then somebody goes back to these rows."""

import pytest
from hardpack.table.history import trusted_states

from tests.histories.known import DAY, HOUR, NIGHT, PACK_ALL, RUN, T, _advance, _append, _do
from tests.histories.test_between_passes import put
from tests.histories.test_edges import expired, play, said
from tests.histories.test_recorded import REFUSED, go

pytestmark = pytest.mark.histories
OVERWRITTEN = _do("insert_overwrite", log=0, rows=[["s", "value", 1, "now"]], from_start=False)
TAKEN = {
    "truncate": _do("truncate"),
    "insert overwrite": OVERWRITTEN,
    "delete": _do("delete", key="x", percent=100, on_read=False),
}


def replaced(world):
    return trusted_states(world.lake.load_table(T))["0"].replaced


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("taken", TAKEN)
def test_a_refused_late_row_stays_so(world, taken, cleaned):
    """Those passes that came after it had left have not seen it (invariant 9)."""
    tab = expired(world)
    play(world, _advance(4 * DAY))
    put(world, (8, "x", "value"))
    there = tab.current
    assert said(world).reason.startswith(f"{REFUSED} 8")
    play(world, TAKEN[taken], *[_append("u"), _append("v"), RUN] * cleaned, _advance(2 * DAY), NIGHT)
    go(world, tab, there)
    assert said(world).reason.startswith(f"{REFUSED} 8")
    play(world, *[_append("w"), RUN, _advance(6 * DAY), NIGHT] * 2)
    assert not replaced(world), "nobody can go back any more"
    assert said(world).reason.startswith(f"{REFUSED} 8")


@pytest.mark.parametrize("from_start", [False, True])
def test_new_rows_are_not_judged_by_what_was_removed_of_the_old_ones(world, from_start):
    """Somebody goes back to after the commit that replaced these, and before any pass over the new ones."""
    tab = expired(world)
    new = _do("insert_overwrite", log=0, rows=[["a", "value", 1, "now"]], from_start=from_start)
    play(world, new, _advance(DAY), _append("u"))
    there = tab.current
    play(world, _append("v"), RUN, _advance(5 * DAY), NIGHT)
    go(world, tab, there)
    assert not said(world).refused


@pytest.mark.parametrize(
    "rewritten",
    [[PACK_ALL], [PACK_ALL, NIGHT], [_do("update", column="ingested")], [_do("update", column="ingested"), NIGHT]],
)
def test_seen_rows_that_others_had_rewritten_are_not_late(world, rewritten):
    tab = expired(world)
    play(world, *rewritten, _advance(2 * DAY), _append("p"))
    there = tab.current
    play(world, _do("truncate"), _advance(4 * DAY), NIGHT)
    go(world, tab, there)
    assert not said(world).refused


def test_a_log_of_whose_passes_nobody_tells_starts_anew_too(world):
    tab = expired(world)
    play(world, _advance(4 * DAY), _append("o"))
    there = tab.current
    play(world, _do("truncate"), _advance(2 * DAY), NIGHT)
    go(world, tab, there)
    play(world, _do("truncate"), _advance(HOUR), _append("a"), _append("b"), NIGHT, RUN)
    assert (said(world).refused, said(world).expired_to) == (False, -1)
