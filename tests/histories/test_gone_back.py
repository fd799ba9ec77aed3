"""Others replace all rows, the passes from before expire, and then somebody goes back to the old rows."""

import pytest
from hardpack.table.history import trusted_states

from tests.histories.known import DAY, NIGHT, PACK_ALL, RUN, T, _advance, _append, _do
from tests.histories.test_between_passes import put
from tests.histories.test_edges import expired, play, said
from tests.histories.test_recorded import REFUSED, go

pytestmark = pytest.mark.histories


def replaced(world):
    return trusted_states(world.lake.load_table(T))["0"].replaced


BEHIND = _do("insert_overwrite", log=0, rows=[["k", "value", 1, "now"]], from_start=False)
"""Rows behind all others take their place: the log starts anew, as none of the old ones can stand there."""


@pytest.mark.parametrize("by", [_do("truncate"), BEHIND])
@pytest.mark.parametrize("cleaned", [False, True])
def test_a_refused_late_row_stays_so(world, cleaned, by):
    """The new rows' state says nothing of it (invariant 9)."""
    tab = expired(world)
    play(world, _advance(4 * DAY))
    put(world, (8, "x", "value"))
    there = tab.current
    assert said(world).reason.startswith(f"{REFUSED} 8")
    play(world, by, *[_append("u"), _append("v"), RUN] * cleaned, _advance(2 * DAY), NIGHT)
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


def test_seen_rows_that_others_had_packed_are_not_late_once_a_night_has_recorded_that(world):
    tab = expired(world)
    play(world, PACK_ALL, NIGHT, _advance(2 * DAY), _append("p"))
    there = tab.current
    play(world, _do("truncate"), _advance(4 * DAY), NIGHT)
    go(world, tab, there)
    assert not said(world).refused


def test_a_limit_a_late_row_deleted_before_the_undone_pass_counts_as_seen(world):
    """docs/limits.md says so; of a row that was left for that pass it does not hold."""
    tab = expired(world)
    play(world, _advance(4 * DAY))
    put(world, (8, "x", "value"))
    there = tab.current
    play(world, _do("delete", key="x", log=0), _append("u"), _append("v"), RUN, _advance(5 * DAY), NIGHT)
    go(world, tab, there)
    assert not said(world).refused
