"""Other writers at the worst moment: between our reading and our commit (invariants 6 and 7)."""

from dataclasses import replace

import pytest
from hardpack import Conflict, GateRefused
from hardpack.errors import CommitUnknown
from hardpack.files.data_files import DataFiles
from hardpack.spark import commit
from hardpack.spark.commit import Commits
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.history import commits
from hardpack.table.state import read_state
from pyroaring import BitMap

from tests.topics import T0, append, name_of, new_topic, offsets, row, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b")], 1: [row(0, "a"), row(1, "a")]})
    append(table, {0: [row(2, "a"), row(3, "c")], 1: [row(2, "b")]})
    append(table, {0: [row(4, "b")], 1: [row(3, "a")]})
    return table


def test_an_append_neither_fails_nor_is_lost(hp, topic, meanwhile):
    meanwhile(lambda: append(topic.refresh(), {0: [row(5, "a")]}))
    hp.clean(hp.plan(name_of(topic), now=T0))
    assert offsets(topic) == [1, 2, 3, 4, 5]
    assert hp.verify(name_of(topic), now=T0).success


def test_an_append_after_planning_is_left_to_the_next_pass(hp, topic):
    plan = hp.plan(name_of(topic), now=T0)
    append(topic, {0: [row(5, "c")]})
    hp.clean(plan)
    assert offsets(topic) == [1, 2, 3, 4, 5]
    assert read_state("", topic.properties)["0"].checkpoint == 4


def test_a_rewrite_of_an_input_file_is_a_conflict(hp, spark, topic, meanwhile):
    name = name_of(topic)
    meanwhile(lambda: spark.sql(f"DELETE FROM hardpack.{name} WHERE partition = 0 AND offset = 1"))
    with pytest.raises(Conflict, match="an input file changed"):
        hp.clean(hp.plan(name, now=T0))
    assert offsets(topic) == [0, 2, 3, 4]
    assert "hardpack.state" not in topic.properties
    hp.clean(hp.plan(name, now=T0))
    assert offsets(topic) == [2, 3, 4]


def test_two_cleaners_of_one_log_never_both_win(hp, topic, meanwhile):
    name = name_of(topic)
    slow = hp.plan(name, now=T0)
    fast = hp.plan(name, now=T0 + 1)
    meanwhile(lambda: hp.clean(fast))
    with pytest.raises(Conflict):
        hp.clean(slow)
    assert offsets(topic) == [1, 2, 3, 4]
    assert read_state("", topic.properties)["0"].last_clean.now == T0 + 1


def test_a_pass_is_not_published_on_a_log_that_was_paused_meanwhile(hp, topic, meanwhile):
    """The pause is a swap of its own, which the pass's swap must not undo."""
    name = name_of(topic)
    meanwhile(lambda: hp.pause(name, [0]))
    with pytest.raises(Conflict, match="somebody paused or resumed it"):
        hp.clean(hp.plan(name, now=T0))
    assert offsets(topic) == [0, 1, 2, 3, 4]
    assert read_state("", topic.properties)["0"].paused == 1


def test_a_stale_pass_that_only_moves_state_loses_too(hp, catalog, meanwhile):
    """No file collides here; only the compare-and-set of the state stands between them."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    append(table, {0: [row(1, "b")]})
    name = name_of(table)
    slow = hp.plan(name, now=T0)
    append(table, {0: [row(2, "c")]})
    fast = hp.plan(name, now=T0 + 1)
    meanwhile(lambda: hp.clean(fast))
    with pytest.raises(Conflict, match="another pass cleaned partition 0"):
        hp.clean(slow)
    assert read_state("", table.refresh().properties)["0"].checkpoint == 2


@pytest.mark.parametrize("moves", ["state alone", "overwrite", "replace"])
def test_a_rollback_behind_the_base_is_a_conflict(hp, catalog, spark, meanwhile, moves):
    """Nothing of a world that somebody has undone is published, though each file that the pass read is there."""
    table = new_topic(catalog, commit_operation="replace" if moves == "replace" else "overwrite")
    name, key = name_of(table), "a" if moves != "state alone" else "b"
    append(table, {0: [row(0, "a")]})
    append(table, {0: [row(1, key)]})
    append(table, {0: [row(2, "c")]})
    before = table.refresh().current_snapshot().snapshot_id
    append(table, {1: [row(0, "z")]})
    plan = hp.plan(name, now=T0)
    meanwhile(lambda: spark.sql(f"CALL hardpack.system.rollback_to_snapshot('{name}', {before})"))
    with pytest.raises(Conflict, match=r"past|Cannot determine history"):
        hp.clean(plan)
    assert offsets(table) == [0, 1, 2]
    assert "hardpack.state" not in table.properties
    hp.clean(hp.plan(name, now=T0))
    assert read_state("", table.refresh().properties)["0"].checkpoint == 2


def test_a_horizon_counts_from_the_commit_of_a_pass_that_takes_long(hp, catalog, meanwhile):
    """Readers have the whole delete.retention.ms from when the tombstone is first seen cleaned (invariant 5)."""
    table, clock = new_topic(catalog, delete_retention_ms=1000), [T0]
    hp.clock = lambda: clock[0]
    append(table, {0: [row(0, "a"), row(1, "a", None)]})
    append(table, {0: [row(2, "b")]})

    def six_hours_later():
        clock[0] += 6 * 3_600_000

    meanwhile(six_hours_later)
    hp.clean(hp.plan(name_of(table), now=T0))
    assert read_state("", table.refresh().properties)["0"].horizons == ((1, T0 + 6 * 3_600_000 + 1000),)


def test_passes_of_different_logs_keep_each_others_state(hp, topic, meanwhile):
    name = name_of(topic)
    other = hp.plan(name, now=T0, partitions=[1])
    meanwhile(lambda: hp.clean(other))
    hp.clean(hp.plan(name, now=T0, partitions=[0]))
    state = read_state("", topic.refresh().properties)
    assert (state["0"].checkpoint, state["1"].checkpoint) == (4, 3)
    assert (offsets(topic), offsets(topic, 1)) == ([1, 2, 3, 4], [1, 2, 3])


def test_a_base_that_expires_while_a_pass_runs_is_no_less_of_the_past(hp, topic, meanwhile, spark):
    """Others append and expire all but the newest snapshot; nothing of what the pass read has changed."""
    name = name_of(topic)

    def expired():
        append(topic.refresh(), {0: [row(50, "z")]})
        spark.sql(
            f"CALL hardpack.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2099-01-01 00:00:00', "
            "retain_last => 1)"
        ).collect()

    plan = hp.plan(name, now=T0)
    meanwhile(expired)
    assert hp.clean(plan).snapshot
    assert topic.refresh().snapshot_by_id(plan.snapshot) is None
    assert offsets(topic) == [1, 2, 3, 4, 50]


def test_rows_that_others_delete_while_a_pass_runs_are_not_the_pass_s_doing(hp, topic, meanwhile, spark):
    """A row-level DELETE on a file that the pass leaves alone, after it was read: verify tells whose it was."""
    name = name_of(topic)

    def deleted():
        spark.sql(f"ALTER TABLE hardpack.{name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
        spark.sql(f"DELETE FROM hardpack.{name} WHERE offset = 3")

    plan = hp.plan(name, now=T0)
    meanwhile(deleted)
    assert hp.clean(plan).snapshot
    assert offsets(topic) == [1, 2, 4]
    # what they delete afterwards makes verify look at what the pass did by itself
    spark.sql(f"DELETE FROM hardpack.{name} WHERE offset = 2")
    found = hp.verify(name, now=T0)
    assert not found.success
    assert found.passes_hold, found.note


def test_a_crash_before_the_commit_changes_nothing(hp, topic, monkeypatch):
    snapshot = topic.current_snapshot().snapshot_id

    def crash(*_):
        raise RuntimeError("power cut")

    plan = hp.plan(name_of(topic), now=T0)
    with monkeypatch.context() as patch:
        patch.setattr(JvmTable, "commit", crash)
        with pytest.raises(RuntimeError, match="power cut"):
            hp.clean(plan)
    assert topic.refresh().current_snapshot().snapshot_id == snapshot
    hp.clean(plan)
    assert offsets(topic) == [1, 2, 3, 4]


@pytest.mark.parametrize("bug", ["drops a living row", "leaves a dead row out of the rewrite"])
def test_the_gate_stops_a_broken_rewrite(hp, topic, monkeypatch, bug):
    """Planted bugs in the engine: nothing of them is published."""
    from hardpack.compaction import staging

    real = staging.rewrite

    def spoilt(file):
        unread = BitMap.deserialize(file.skipped) | BitMap([0, 1]) if bug == "drops a living row" else BitMap()
        return replace(file, skipped=unread.serialize())

    def broken(spark, files, groups, *rest):
        return real(spark, files, [[spoilt(file) for file in group] for group in groups], *rest)

    monkeypatch.setattr(staging, "rewrite", broken)
    before = rows_of(topic)
    with pytest.raises(GateRefused, match="expect_latest_record_per_key") as caught:
        hp.clean(hp.plan(name_of(topic), now=T0))
    assert caught.value.exit_code == 3
    assert list(commits(topic.refresh())) == []
    assert rows_of(topic) == before
    entry = next(p for p in hp.plan(name_of(topic), now=T0).logs if p.partition == 0)
    assert (entry.action, entry.reason[:11]) == ("none", "uncleanable")
    monkeypatch.setattr(staging, "rewrite", real)
    hp.resume(name_of(topic))
    hp.clean(hp.plan(name_of(topic), now=T0))
    assert offsets(topic) == [1, 2, 3, 4]


class LostAnswer:
    """The catalog's operations, whose answer to a commit never arrives."""

    def __init__(self, operations, jvm, deaf):
        self.operations, self.jvm, self.deaf = operations, jvm, deaf

    def current(self):
        return self.operations.current()

    def commit(self, base, metadata):
        self.operations.commit(base, metadata)
        if self.deaf:
            self.deaf.pop()
            # any call that Java answers with an error of its own
            self.jvm.java.lang.Integer.parseInt("the answer was lost")


@pytest.fixture
def lost_answer(monkeypatch, spark):
    """The first commit goes through, but an error comes back instead of the answer."""
    real, deaf = Commits.__init__, [True]

    def init(self, *arguments):
        real(self, *arguments)
        table = self._java

        class Java:
            def __getattr__(self, name):
                return getattr(table, name)

            def operations(self):
                return LostAnswer(table.operations(), spark._jvm, deaf)

        self._commit_table = Java()
        once = Commits._commit_once

        def commit_once(door, *arguments):
            door._java, kept = door._commit_table, door._java
            try:
                return once(door, *arguments)
            finally:
                door._java = kept

        monkeypatch.setattr(self, "_commit_once", commit_once.__get__(self), raising=False)

    monkeypatch.setattr(Commits, "__init__", init)
    return deaf


def test_a_commit_whose_answer_was_lost_is_found_and_nothing_is_deleted(hp, topic, lost_answer):
    report = hp.clean(hp.plan(name_of(topic), now=T0))
    assert lost_answer == []
    assert report.snapshot == topic.refresh().current_snapshot().snapshot_id
    assert offsets(topic) == [1, 2, 3, 4]


def test_files_stay_when_nobody_knows_whether_the_commit_went_through(hp, topic, lost_answer, monkeypatch):
    def silent(*_):
        raise CommitUnknown("the catalog does not answer")

    plan = hp.plan(name_of(topic), now=T0)
    with monkeypatch.context() as patch:
        patch.setattr(Commits, "_landed", silent)
        with pytest.raises(CommitUnknown):
            hp.clean(plan)
    assert offsets(topic) == [1, 2, 3, 4], "it had gone through, and its files are there"
    assert hp.clean(plan).repeated


def test_a_try_that_was_not_heard_of_is_not_taken_for_lost_when_a_later_one_fails(hp, topic, monkeypatch):
    def once(_, trial):
        if trial.unheard:
            raise Conflict("another pass was faster")
        trial.unheard.append("the connection was lost")
        raise commit._TryAgain("the connection was lost")

    staged = []
    plan, discard = hp.plan(name_of(topic), now=T0), DataFiles.discard
    with monkeypatch.context() as patch:
        patch.setattr(Commits, "_commit_once", once)
        patch.setattr(DataFiles, "discard", lambda files, entries: staged.extend(entries) or discard(files, entries))
        with pytest.raises(CommitUnknown, match="1 of the tries to commit"):
            hp.clean(plan)
    assert staged == [], "a statement that still runs may need the files"
    assert not hp.clean(plan).repeated
