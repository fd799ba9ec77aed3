"""Rows that row-level deletes of others hide, when a MERGE writes their files anew: no late row passes for them."""

import pytest
from pyiceberg.manifest import ManifestContent

from tests.histories import foreign
from tests.histories.known import T, _do, _late
from tests.histories.manifests import delete_file
from tests.histories.test_edges import expired, hide, merged_on_read, merged_on_write, play, said

pytestmark = pytest.mark.histories
HIDDEN = "bcdefgh"


def with_hidden_rows(world, **settings):
    tab = expired(world, **settings)
    hide(tab, HIDDEN, world)
    assert not is_refused(world)
    return tab


def is_refused(world):
    world.look(T)
    return said(world).reason.startswith("refused: rows arrived")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("by_log", [True, False])
@pytest.mark.parametrize("merge", [merged_on_write, merged_on_read])
def test_a_row_in_the_place_of_a_hidden_one_is_late(world, merge, by_log, version):
    """Deletes of one data file are of its log, also where no partition of the table names that (invariant 9)."""
    tab = with_hidden_rows(world, by_log=by_log, version=version)
    merge(world, tab, [6])
    assert is_refused(world)


@pytest.mark.parametrize("upgraded", [False, True])
def test_deletes_that_name_earlier_ones_again_take_no_more_rows(world, upgraded):
    """Engines put a data file's deletes together: the new file or vector takes the place of the old file."""
    tab = with_hidden_rows(world)
    if upgraded:
        play(world, _do("upgrade", to=3))
    merged_on_read(world, tab, [6])
    assert is_refused(world)


def test_a_vector_that_takes_the_place_of_another_hides_no_row_of_a_file_that_left(world):
    """One commit of an engine may write some files anew and others' vectors."""
    tab = with_hidden_rows(world, version=3, late__rows="refuse", segment__bytes="300")
    shown = tab.visible(tab.current)
    stays = next(p for p, found in shown.items() if any(row.key == "a" for row in found))
    leaves, found = next((p, found) for p, found in shown.items() if any(row.key == "j" for row in found))
    vectors = [p for m in tab._lists(tab.current, ManifestContent.DELETES) for p in tab.store.live[m.manifest_path]]
    (old,) = (p for p in vectors if stays in tab.store.positions[p])
    updated = [row._replace(ingested=world.clock) for row in found]
    same = delete_file(tab, 0, {stays: tab.store.positions[old][stays]}, world.clock)
    tab.commit(world.clock, "overwrite", add=[tab.file(updated, world.clock)], deletes=[same], remove=[leaves, old])
    assert not is_refused(world)


@pytest.mark.parametrize("drops", [False, True])
def test_deletes_may_leave_with_their_data_file(world, drops):
    tab = with_hidden_rows(world)
    path, seen = next((p, r) for p, r in tab.visible(tab.current).items() if any(row.key == "a" for row in r))
    deletes = [p for m in tab._lists(tab.current, ManifestContent.DELETES) for p in tab.store.live[m.manifest_path]]
    left = [p for p in deletes if drops and path in tab.store.positions[p]]
    made = [*seen, foreign._row(world, tab, 0, 6, "x", "value", seen[0].ts)]
    file = tab.file(sorted(made, key=lambda row: row.offset), world.clock)
    tab.commit(world.clock, "overwrite", add=[file], remove=[path, *left])
    assert is_refused(world)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_a_late_row_stays_late_when_the_file_that_an_update_hid_it_in_leaves(world, version, packed):
    """A merge-on-read UPDATE leaves the old files in place, and a compaction of others takes them (invariant 9)."""
    expired(world, version=version)
    play(world, _late(20, "x"), _do("update_on_read", across=False, by_file=False))
    assert is_refused(world)
    play(world, _do("drop_hidden"))
    if packed:
        play(world, _do("binpack", mode="replace", share=100, by_key=False))
    assert is_refused(world)
