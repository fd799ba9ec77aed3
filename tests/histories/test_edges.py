"""Histories that the generator does not make: rare writers, files that are lost, columns that are mapped anew."""

import importlib
import time

import pytest
from hardpack.errors import BadInput, Conflict
from hardpack.table.columns import settings_of
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.table.snapshots import Summary

from tests.histories import foreign
from tests.histories.jvm_table import SimJvmTable
from tests.histories.known import CLEAN, DAY, NIGHT, RUN, T, _advance, _append, _create, _do, _late
from tests.histories.manifests import delete_file
from tests.histories.oracle import Violation
from tests.histories.steps import Step

pytestmark = pytest.mark.histories


def play(world, *steps):
    for step in steps:
        world.do(step)
    return world.lake.tabs[T]


def said(world):
    return world.hp.said(T)[0]


def rows(*found):
    return Step("append", {"t": T, "logs": {"0": [[*one, "now"] for one in found]}})


def expired(world, **settings):
    """A log whose tombstone of `x` is gone, and in whose first file other rows stand."""
    more = [(key, "value", 1) for key in "cdefghi"]
    return play(
        world, _create(delete__retention__ms="0", idle__tombstones="expire", **settings),
        rows(("x", "value", 1), ("a", "value", 1), ("b", "value", 5), *more),
        rows(("x", "tombstone", 1), ("j", "value", 1), ("l", "value", 1)),
        _append("n"), _append("o"), CLEAN, _advance(DAY), _do("expire_tombstones"),
    )  # fmt: skip


def test_a_pass_file_that_is_lost_does_not_make_an_older_state_hold(world):
    """A late row of a deleted key stays refused (invariant 9), an older pass knows of no removed tombstone."""
    tab = play(
        world, _create(delete__retention__ms="0"), rows(("x", "value", 1), ("a", "value", 5), ("b", "value", 1)),
        _append("x-", "c"), _append("n"), _append("o"), CLEAN, _append("p"), _advance(DAY), RUN,
    )  # fmt: skip
    before = said(world)
    newest = [s for s in tab.meta.snapshots if "hardpack.state" in s.summary.additional_properties][-1]
    told = Summary(
        newest.summary.operation, **newest.summary.additional_properties | {"hardpack.state": f"file:{0:064}"}
    )
    lost = newest.model_copy(update={"summary": told})
    tab.swap(tab.meta.model_copy(update={"snapshots": [lost if s is newest else s for s in tab.meta.snapshots]}))
    assert said(world) == before
    play(world, _late(20, "x"))
    assert said(world).reason.startswith("refused: rows arrived")


def test_a_storage_that_does_not_answer_is_no_lost_file(world, monkeypatch):
    from hardpack.table.packing import PassFolder

    def away(io: FileIO, location: str) -> None:
        raise ConnectionError("reset by peer")

    folder = PassFolder(expired(world).io, "mem://lake")
    monkeypatch.setattr(type(folder.io), "new_input", away)
    with pytest.raises(ConnectionError):
        folder.text(f"file:{0:064}")


def hide(tab, keys, world):
    for path in tab.paths(tab.current):
        if at := frozenset(n for n, r in enumerate(tab.store.files[path]) if r.key in keys):
            tab.commit(world.clock, "delete", deletes=[delete_file(tab, 0, {path: at}, world.clock)])
    world.look(T)


def merged_on_write(world, tab, late):
    """MERGE of others: Spark writes the rows that change and those that are new into one file."""
    path, seen = next((p, r) for p, r in tab.visible(tab.current).items() if any(row.key == "a" for row in r))
    new = [*seen, *(foreign._row(world, tab, 0, o, "x", "value", seen[0].ts) for o in late)]
    assert len(new) <= len(tab.store.files[path])
    file = tab.file(sorted(new, key=lambda r: r.offset), world.clock)
    tab.commit(world.clock, "overwrite", add=[file], remove=[path])


def merged_on_read(world, tab, late):
    """MERGE of others on format v3: a file's new deletion vector names again what the old one had named."""
    hidden = tab.hidden(tab.current)
    path, row = next((p, row) for p, r in tab.visible(tab.current).items() for row in r if row.key == "a")
    listed = [m.manifest_path for m in tab._lists(tab.current, ManifestContent.DELETES)]
    old = [p for at in listed for p in tab.store.live[at] if path in tab.store.positions[p]]
    new = [row._replace(ingested=world.clock), *(foreign._row(world, tab, 0, o, "x", "value", row.ts) for o in late)]
    taken = hidden.get(path, frozenset()) | {tab.store.files[path].index(row)}
    assert len(new) <= len(taken)
    vector = delete_file(tab, 0, {path: taken}, world.clock)
    tab.commit(world.clock, "overwrite", add=[tab.file(new, world.clock)], deletes=[vector], remove=old)


@pytest.mark.parametrize("merge", [merged_on_write, merged_on_read])
def test_rows_that_come_in_the_place_of_hidden_ones_are_new(world, merge):
    """Else one of a deleted key would come back (invariant 9)."""
    tab = expired(world, **{} if merge is merged_on_write else {"version": 3})
    hide(tab, "bcdefgh", world)
    assert not said(world).reason.startswith("refused")
    merge(world, tab, [6])
    world.look(T)
    assert said(world).reason.startswith("refused: rows arrived")


def test_an_update_of_a_file_with_hidden_rows_brings_nothing(world):
    tab = expired(world)
    hide(tab, "bc", world)
    merged_on_write(world, tab, [])
    world.look(T)
    assert not said(world).reason.startswith("refused")


def test_a_refused_row_that_is_deleted_is_refused_no_more_though_a_night_put_it_down(world):
    play(
        world, _create(delete__retention__ms="0"), _append("x", "a"), _append("x-", "c"), _append("n"), _append("o"),
        CLEAN, _append("p"), _advance(DAY), RUN, _append("q"), _append("s"), _late(20, "zz"), _advance(1000),
        _do("update", column="ingested", key="q"), NIGHT,
    )  # fmt: skip
    assert said(world).reason.startswith("refused: rows arrived")
    play(world, _do("delete", key="zz"))
    assert said(world).due


def test_a_refused_row_that_is_deleted_is_refused_no_more_though_retention_put_it_down(world):
    """The first segments leave by size, the late row's is not among them."""
    play(
        world, _create(delete__retention__ms="0"), _append("w"), _append("x", "a"), _append("x-", "c"), _append("n"),
        _append("o"), CLEAN, _append("p"), _advance(DAY), RUN, _append("q"), _append("s"), _late(60, "zz"),
        _advance(1000),
    )  # fmt: skip
    assert said(world).reason.startswith("refused: rows arrived")
    play(world, _do("settings", cleanup__policy="compact,delete", retention__bytes="700"), _do("retention"))
    assert world.counts["pass retention"]
    play(world, _do("settings", cleanup__policy="compact", retention__bytes=""), _do("delete", key="zz"))
    assert not said(world).reason.startswith("refused")


@pytest.mark.parametrize("trouble", ["negative", "unbounded"])
def test_a_night_does_not_record_the_offsets_of_a_file_in_trouble(world, trouble):
    tab = expired(world)
    play(world, _append("p"), _append("q"))
    bad = foreign._row(world, tab, 0, -1, "z", "value")
    tab.commit(world.clock, "append", add=[tab.file([bad], world.clock)])
    play(world, _do("update", column="ingested", key="q"))
    before = tab.meta.properties["hardpack.state"]
    play(world, NIGHT)
    assert tab.meta.properties["hardpack.state"] == before


def test_a_table_that_was_made_anew_under_its_name_starts_anew(world):
    """CREATE OR REPLACE TABLE keeps properties and old snapshots; its first snapshot has no parent (invariant 6)."""
    tab = expired(world)
    assert said(world).checkpoint
    tab.swap(tab.meta.model_copy(update={"current_snapshot_id": None, "refs": {}}))
    new = [foreign._row(world, tab, 0, offset, key, "value") for offset, key in ((4, "x"), (5, "y"))]
    tab.commit(world.clock, "append", add=[tab.file(new, world.clock)])
    assert said(world).checkpoint is None
    assert not said(world).reason.startswith("refused")


def test_phase_two_and_maintenance_take_no_time_that_lies_ahead(world):
    tab = play(
        world, _create(delete__retention__ms=str(30 * DAY), idle__tombstones="expire"), _append("a", "b-"),
        _append("c"), _append("d"), CLEAN,
    )  # fmt: skip
    world.using(settings_of(world.lake.load_table(T)))
    plan = world.hp.plan(T, world.now + 40 * DAY)
    assert plan.doing("expire")
    at = tab.current.snapshot_id
    ahead = world.now + 40 * DAY
    for verb in (
        lambda: world.hp.expire_after(plan),
        lambda: world.hp.maintain(T, ahead),
        lambda: world.hp.expire_tombstones(T, ahead),
        lambda: world.hp.apply_retention(T, ahead),
    ):
        with pytest.raises(BadInput, match="in the future"):
            verb()
    assert tab.current.snapshot_id == at


def test_a_plan_may_lie_an_hour_ahead_and_further_if_it_is_forced(world):
    """Clocks of machines differ; who forces a plan is believed, and `resume` lets others clean again."""
    play(world, _create(), _append("a", "b"), _append("a"), _append("c"))
    world.using(settings_of(world.lake.load_table(T)))
    hour, far = world.clock + DAY // 24, world.clock + 40 * DAY
    with pytest.raises(BadInput, match="in the future"):
        world.hp.clean(world.hp.plan(T, hour + 1))
    assert world.hp.clean(world.hp.plan(T, hour)).snapshot
    play(world, _append("a"), _append("d"))
    assert world.hp.clean(world.hp.plan(T, far, force=True)).snapshot
    play(world, _append("a"), _append("e"))
    assert world.hp.plan(T, hour + 2).logs[0].action == "none"
    world.hp.resume(T)
    assert world.hp.plan(T, hour + 2).logs[0].action == "clean"


def test_a_late_row_stays_late_in_manifests_that_leave_out_when_a_file_came(world):
    tab = play(world, _create(), _append("a", "b"), _append("c"), _append("d"), CLEAN, _late(0, "a"))
    before = said(world)
    assert before.first_dirty < before.checkpoint
    tab.commit(world.clock, "replace", merge=True)
    for listed in tab.store.lists[tab.current.manifest_list]:
        tab.store.manifests[listed.manifest_path] = [
            ManifestEntry(e.status, e.snapshot_id, e.sequence_number, None, e.data_file)
            if e.status == ManifestEntryStatus.EXISTING
            else e
            for e in tab.store.manifests[listed.manifest_path]
        ]
    assert said(world).first_dirty == before.first_dirty


def test_a_file_without_rows_is_passed_over(world):
    tab = play(world, _create(), _append("a", "b"), _append("a"), _append("c"))
    before = said(world)
    like = tab.file([foreign._row(world, tab, 0, 9, "z", "value")], world.clock)
    nothing = dict.fromkeys(range(1, 7), 0)
    empty = DataFile.from_args(
        content=DataFileContent.DATA, file_path=like.file_path, file_format=FileFormat.PARQUET,
        partition=like.partition, record_count=0, file_size_in_bytes=300, column_sizes={}, split_offsets=None,
        value_counts=nothing,
        nan_value_counts={}, lower_bounds={}, upper_bounds={}, null_value_counts=nothing,
    )  # fmt: skip
    empty.spec_id = like.spec_id
    tab.store.files[like.file_path], tab.store.described[like.file_path] = (), empty
    tab.commit(world.clock, "append", add=[empty])
    assert said(world) == before


@pytest.fixture
def unclean(world):
    play(world, _create(delete__retention__ms="0"), _append("a", "b-"), _append("d"), _append("e"))
    world.using(settings_of(world.lake.load_table(T)))
    return world.lake.tabs[T]


@pytest.mark.parametrize("role", ["key", "value"])
def test_no_pass_is_published_by_a_key_or_value_that_the_table_names_no_more(world, unclean, role):
    play(world, Step("ambush", {"at": 0, "step": ["settings", {"t": T, f"column__{role}": "ingested"}]}))
    before = unclean.current.snapshot_id
    with pytest.raises(Conflict, match="mapped to another column meanwhile"):
        world.hp.clean(world.hp.plan(T, world.now))
    assert unclean.meta.properties["hardpack.fields"].count(f"{role}=6") == 1
    assert unclean.current.snapshot_id == before
    assert (said(world).checkpoint, said(world).horizons) == (None, [])


def test_a_pass_that_ends_within_an_adoption_by_another_key_is_not_believed(world, unclean, monkeypatch):
    adopting = importlib.import_module("hardpack.operations.adopt")
    set_them, times = adopting.alter_properties, []

    def after_a_pass(session, wanted, gone=()):
        if not times:
            times.append(1)
            world.hp.clean(world.hp.plan(T, world.now))
        return set_them(session, wanted, gone)

    monkeypatch.setattr(adopting, "alter_properties", after_a_pass)
    world.hp.adopt(T, {"column.key": "ingested"})
    world.look(T)
    assert "hardpack.state" not in unclean.meta.properties
    assert (said(world).checkpoint, said(world).horizons) == (None, [])


def test_others_who_drop_a_delete_file_that_lies_on_nothing_bring_no_row(world):
    """Iceberg drops delete files that are older than every data file, in any commit."""
    tab = expired(world)
    hide(tab, "b", world)
    old = [p for m in tab._lists(tab.current, ManifestContent.DELETES) for p in tab.store.live[m.manifest_path]]
    path, seen = next((p, r) for p, r in tab.visible(tab.current).items() if any(row.key == "a" for row in r))
    tab.commit(world.clock, "replace", add=[tab.file(list(seen), world.clock)], remove=[path])
    path, seen = next((p, r) for p, r in tab.visible(tab.current).items() if any(row.key == "a" for row in r))
    newer = [row._replace(ingested=world.clock) for row in seen]
    tab.commit(world.clock, "overwrite", add=[tab.file(newer, world.clock)], remove=[path, *old])
    world.look(T)
    assert not said(world).reason.startswith("refused")


def test_one_delete_file_on_several_data_files_makes_no_update_an_arrival(world):
    tab = expired(world)
    keys = {
        p: frozenset(n for n, r in enumerate(tab.store.files[p]) if r.key in "cdefn") for p in tab.paths(tab.current)
    }
    tab.commit(
        world.clock, "delete", deletes=[delete_file(tab, 0, {p: at for p, at in keys.items() if at}, world.clock)]
    )
    world.look(T)
    merged_on_write(world, tab, [])
    world.look(T)
    assert not said(world).reason.startswith("refused")


def test_a_log_that_was_emptied_is_the_same_log_when_its_history_expires(world):
    """Some expire snapshots and forget that there was a parent: nothing proves then that another table stands there."""
    tab = expired(world, cleanup__policy="compact,delete", retention__ms="1")
    play(world, _do("retention"), _append("p"), _append("q"))
    before = said(world).checkpoint, said(world).expired_to
    kept = [tab.meta.snapshots[-2].model_copy(update={"parent_snapshot_id": None}), tab.meta.snapshots[-1]]
    tab.swap(tab.meta.model_copy(update={"snapshots": kept}))
    assert before[1] > 0
    assert (said(world).checkpoint, said(world).expired_to) == before


def test_a_limit_an_undone_pass_is_believed_once_others_expired_what_tells_of_it(world):
    """docs/limits.md says so; the oracle sees it, so the random histories leave it out."""
    play(world, _create(), _append("a", "b-"), _append("c"), _append("d"), CLEAN, _do("rollback", back=1), _append("e"))
    assert said(world).checkpoint is None
    world.went_back.clear()
    with pytest.raises(Violation, match="I9: log 0: no pass saw the row at 4, yet it counts as clean"):
        play(world, _do("foreign_expire", keep=1))


def test_the_time_of_a_retention_counts_what_it_reads(world, monkeypatch):
    play(world, _create(cleanup__policy="delete", retention__ms="1"), _append("a"), _append("b"), _advance(DAY))
    real = SimJvmTable.scan_tasks

    def slow(*args):
        time.sleep(0.2)
        return real(*args)

    monkeypatch.setattr(SimJvmTable, "scan_tasks", slow)
    world.using(world.hp.session(T).checked_settings())
    report = world.hp.apply_retention(T, world.now)
    assert report.logs
    assert report.seconds >= 0.2


def test_trust_changes_nothing_where_late_rows_are_refused_anyhow(world):
    """Else a deleted key's row would be taken without a word once late rows are cleaned again (invariant 9)."""
    expired(world)
    play(
        world, _do("settings", late__rows="refuse"), _late(0, "x"), _do("resume", log=None, trust=True),
        _do("settings", late__rows="clean"), CLEAN,
    )  # fmt: skip
    assert said(world).reason.endswith("or resume with --trust-late-rows")


def test_a_plan_that_waits_is_refused_when_its_table_was_taken_out(world):
    tab = play(world, _create(), _append("k"), _append("k"), _advance(DAY))
    plan = world.hp.plan(T, world.now)
    assert plan.logs
    before = tab.place
    del tab.meta.properties["hardpack.cleanup.policy"]
    for verb in (world.hp.clean, world.hp.clean_or_replan, world.hp.expire_after):
        with pytest.raises(BadInput, match=f"{T}: table property hardpack.cleanup.policy is not set"):
            verb(plan)
    assert tab.place == before
