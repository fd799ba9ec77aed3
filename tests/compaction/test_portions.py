"""A pass in portions: the same rows as one commit leaves; one that dies loses its last portion (invariants 1 to 6)."""

import random
from dataclasses import replace

import pytest
from hardpack import Conflict, GateRefused, faults
from hardpack.compaction import gate_keys, gate_sample, pipeline
from hardpack.compaction.choice import Choice
from hardpack.compaction.portions import portions
from hardpack.faults import Fault, Stopped
from hardpack.operations import what_if
from hardpack.operations.status import table_status
from hardpack.operations.summary import history, summarize
from hardpack.rules.causes import SUPERSEDED
from hardpack.rules.settings import BYTES_PER_KEY, read_settings
from hardpack.rules.times import LONG_MAX
from hardpack.spark.evidence import Sample
from hardpack.table.history import PORTION_SUMMARY, ancestors, commits, summary_of
from hardpack.table.log_views import read_logs
from hardpack.table.state import read_state
from pyroaring import BitMap

from tests.topics import T0, append, name_of, new_topic, random_rows, row, rows_of, session_of

pytestmark = pytest.mark.spark
SEGMENTS = 6
RULES = {"min_cleanable_dirty_ratio": 0, "delete_retention_ms": 1000, "null_keys": "drop", "segment_bytes": 14}
COUNTED = ("rows_before", "rows_after", "superseded", "null_key", "tombstones_waiting", "checkpoint_after",
           "files_rewritten", "files_left_alone", "bytes_read")  # fmt: skip


@pytest.fixture(autouse=True)
def disarmed():
    yield
    faults.arm(None)


def filled(catalog, **settings):
    """Two logs of six segments and an active one; the same rows each time."""
    table, rng, at = new_topic(catalog, **RULES | settings), random.Random(5), [0, 0]
    for _ in range(SEGMENTS):
        more = {p: random_rows(rng, at[p], 60, 30) for p in (0, 1)}
        at = [more[p][-1].offset for p in (0, 1)]
        append(table, more)
    append(table, {p: [row(at[p] + 1, "last")] for p in (0, 1)})
    return table


def planned(hp, table, unit_bytes=1, now=T0):
    return hp.plan(name_of(table), now=now).model_copy(update={"unit_bytes": unit_bytes})


def rows(table):
    return {p: rows_of(table, p) for p in (0, 1)}


def numbers(table):
    """What the portions among the snapshots call themselves, the oldest first."""
    told = [summary_of(s).get(PORTION_SUMMARY) for s in ancestors(table.refresh())]
    return [told_of.partition(":")[0] for told_of in told[::-1] if told_of]


@pytest.fixture
def one_commit(hp, catalog):
    """A filled table that was cleaned as one commit, and the report of that pass."""
    table = filled(catalog)
    return table, hp.clean(planned(hp, table, unit_bytes=None))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"audit_rows": 100},
        {"commit_operation": "replace"},
        {"log_cleaner_dedupe_buffer_size": 20 * BYTES_PER_KEY, "log_cleaner_io_buffer_load_factor": 1.0},
    ],
    ids=["all rows judged", "some rows judged", "replace", "bounded map"],
)
def test_portions_leave_what_one_commit_leaves(hp, catalog, settings):
    other, table = filled(catalog, **settings), filled(catalog, **settings)
    expected = hp.clean(planned(hp, other, unit_bytes=None))
    before = table.refresh().current_snapshot().sequence_number
    report = hp.clean(planned(hp, table))
    assert rows(table) == rows(other)
    told = numbers(table)
    assert told == [f"{n}/{len(told) + 1}" for n in range(1, len(told) + 1)]
    assert len(told) == len(report.portions) == sum(e.files_written for e in report.logs) - 1
    for entry, alike in zip(report.logs, expected.logs, strict=True):
        assert {name: getattr(entry, name) for name in COUNTED} == {name: getattr(alike, name) for name in COUNTED}
    state = read_state("", table.properties)["0"]
    own = tuple(range(before + 1, before + len(told) + 1))
    assert state.seen == (before, before + len(told) + 1, own)
    assert state.checkpoint == read_state("", other.properties)["0"].checkpoint
    assert hp.verify(name_of(table), now=T0).success
    ahead = [hp.plan(name_of(t), now=T0).logs for t in (table, other)]
    told_next, expected_next = ({log.partition: (log.action, log.first_dirty) for log in logs} for logs in ahead)
    assert told_next == expected_next
    hp.expire_tombstones(name_of(table), now=T0 + 1000)
    hp.expire_tombstones(name_of(other), now=T0 + 1000)
    assert rows(table) == rows(other)
    assert hp.verify(name_of(table), now=T0 + 1000).success


def past(table):
    return what_if._Table(table.refresh(), read_settings("", table.properties), LONG_MAX)


def test_what_is_told_of_the_past_counts_portions_as_one_pass(hp, catalog, one_commit):
    other, _ = one_commit
    table = filled(catalog)
    portioned = hp.clean(planned(hp, table))
    assert portioned.portions
    told, alike = (hp.what_if(name_of(t), "min.cleanable.dirty.ratio", ["0.5"], every_ms=1000) for t in (table, other))
    assert (told.passes, told.unlike) == (alike.passes, alike.unlike) == (1, 0)
    measured, expected = (
        {log: [replace(m, bytes_written=0) for m in walk.passes] for log, walk in past(t).logs.items()}
        for t in (table, other)
    )
    assert measured == expected
    found, expected = (summarize(t, table_status(session_of(t), T0), history(t.refresh())) for t in (table, other))
    assert (found.passes, found.reclaimed) == (expected.passes, expected.reclaimed)
    assert found.write_amplification == pytest.approx(expected.write_amplification, rel=0.01)


def test_a_plan_applied_twice_is_done_once(hp, catalog):
    table = filled(catalog)
    plan = planned(hp, table)
    first, second = hp.clean(plan), hp.clean(plan)
    assert (second.repeated, second.snapshot, second.portions) == (True, first.snapshot, first.portions)


@pytest.mark.parametrize("done", [1, 4])
def test_a_pass_that_dies_loses_the_portion_that_it_was_at(hp, catalog, one_commit, done):
    other, whole = one_commit
    table = filled(catalog)
    plan, before = planned(hp, table), rows(table)
    faults.arm(Fault("gate passed", "stop", done))
    with pytest.raises(Stopped):
        hp.clean(plan)
    commits = sum(e.files_written for e in whole.logs)
    assert numbers(table) == [f"{n}/{commits}" for n in range(1, done + 1)]
    between = rows(table)
    for p in (0, 1):
        assert set(rows_of(other, p)) <= set(between[p]) <= set(before[p])
    assert between != before
    assert "hardpack.state" not in table.refresh().properties
    assert hp.verify(name_of(table), now=T0).success
    with pytest.raises(Conflict):
        hp.clean(plan)
    report = hp.clean_or_replan(plan)
    assert rows(table) == rows(other)
    assert sum(e.files_rewritten for e in report.logs) == sum(e.files_rewritten for e in whole.logs) - done
    assert hp.verify(name_of(table), now=T0).success


def test_a_portion_of_another_process_with_the_same_plan_is_not_taken_for_its_own(hp, catalog, meanwhile):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, segment_bytes=14)
    for first in (0, 10, 20):
        append(table, {0: [row(first + n, f"k{n + first // 10}") for n in range(10)]})
    append(table, {0: [row(30, "end")]})
    plan = planned(hp, table)

    def begins_the_same():
        faults.arm(Fault("committed", "stop"))
        with pytest.raises(Stopped):
            hp.clean(plan)

    meanwhile(begins_the_same)
    with pytest.raises(Conflict, match="an input file changed"):
        hp.clean(plan)
    assert numbers(table) == ["1/2"]
    hp.clean_or_replan(plan)
    assert [r.offset for r in rows_of(table)] == [0, 10, *range(20, 31)]


def test_what_comes_between_the_portions_is_left_to_the_next_pass(hp, catalog, monkeypatch):
    table = filled(catalog)
    late = row(3, "last", "late"), row(9_999, "k1", "newest")
    real, came = pipeline.publish_portion, []

    def then_append(*args):
        made = real(*args)
        if not came:
            came.append(append(table.refresh(), {0: list(late)}))
        return made

    monkeypatch.setattr(pipeline, "publish_portion", then_append)
    hp.clean(planned(hp, table))
    assert late[0] in rows_of(table)
    # a late row may be an older one of a key, which is no fault of the pass
    assert hp.verify(name_of(table), now=T0).passes_hold
    view = next(v for v in read_logs(table.refresh(), read_settings("", table.properties)) if v.partition == 0)
    assert view.unseen_from == 3
    append(table, {0: [row(10_001, "end")]})
    hp.clean(planned(hp, table, now=T0 + 1))
    assert late[0] not in rows_of(table)
    assert hp.verify(name_of(table), now=T0 + 1).success


def test_snapshots_of_portions_may_expire(hp, catalog):
    table = filled(catalog)
    hp.clean(planned(hp, table))
    old = [s.snapshot_id for s in table.refresh().snapshots()][:-1]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    table.refresh()
    assert numbers(table) == []
    assert hp.plan(name_of(table), now=T0).doing("clean") == ()
    assert hp.verify(name_of(table), now=T0).success


@pytest.mark.parametrize("gone", [0, 1])
def test_a_portion_that_has_expired_is_not_asked_for_what_its_pass_did(hp, catalog, gone):
    table = filled(catalog)
    report = hp.clean(planned(hp, table))
    append(table.refresh(), {0: [row(3, "k1", "late")]})
    table.maintenance.expire_snapshots().by_ids([report.portions[gone]]).commit()
    found = hp.verify(name_of(table), now=T0)
    assert found.passes_hold
    assert not found.success


def spoilt(how):
    def choices(choice):
        return how(portions(choice))

    return choices


def loses_latest_rows(made):
    for path in made[-2].removed:
        places = made[-2].dead.files[path]
        places.add(SUPERSEDED, BitMap(range(60)) - places.positions)
    return made


def skips_a_portion(made):
    kept = made[:2] + made[3:]
    return [Choice(c.inputs, c.dead, c.hide, c.rewrite, n, len(kept)) for n, c in enumerate(kept, 1)]


@pytest.mark.parametrize(
    ("bug", "audit_rows"), [(loses_latest_rows, 10**6), (skips_a_portion, 10**6), (skips_a_portion, 300)]
)
def test_a_portion_that_breaks_a_guarantee_is_not_published(hp, catalog, monkeypatch, bug, audit_rows):
    table = filled(catalog, audit_rows=audit_rows)
    monkeypatch.setattr(pipeline, "portions", spoilt(bug))
    with pytest.raises(GateRefused, match=r"latest|ledger|duplicate"):
        hp.clean(planned(hp, table))
    assert list(commits(table.refresh())) == []
    told = numbers(table)
    # the rest of the pass is never tried
    assert len(told) == int(told[0].split("/")[1]) - (2 if bug is loses_latest_rows else 1)
    assert all(state.uncleanable for state in read_state("", table.properties).values())


def test_what_the_gates_of_earlier_portions_have_missed_the_last_one_refuses(hp, catalog, monkeypatch):
    every_key = Sample(1, 1)

    def blind_but_for_the_last(choice):
        return every_key if choice.is_last else Sample(2**31 - 1, 1, every_key)

    monkeypatch.setattr(gate_keys, "key_sample", lambda work: every_key)
    for module in (gate_sample, gate_keys):
        monkeypatch.setattr(module, "portion_sample", blind_but_for_the_last)
    monkeypatch.setattr(pipeline, "portions", spoilt(loses_latest_rows))
    table = filled(catalog, audit_rows=300)
    with pytest.raises(GateRefused, match="latest"):
        hp.clean(planned(hp, table))
    assert list(commits(table.refresh())) == []
    told = numbers(table)
    assert len(told) == int(told[0].split("/")[1]) - 1
    assert all(state.uncleanable for state in read_state("", table.properties).values())


def test_deletion_vectors_come_with_the_last_portion(hp, catalog):
    table = new_topic(
        catalog,
        min_cleanable_dirty_ratio=0,
        segment_bytes=14,
        deletion_vector_min_bytes=0,
        deletion_vector_max_ratio=0.5,
    )
    with table.transaction() as change:
        change.set_properties({"write.delete.mode": "merge-on-read"})
    for first in range(0, 400, 100):
        append(table, {0: [row(first + n, f"k{first + n}") for n in range(100)]})
    # of two files most rows go, of two others a few
    keys = [*range(90), *range(100, 190), *range(200, 210), *range(300, 310)]
    append(table, {0: [row(400 + n, f"k{key}") for n, key in enumerate(keys)]})
    append(table, {0: [row(900, "end")]})
    report = hp.clean(planned(hp, table))
    assert numbers(table) == ["1/2"]
    assert [(e.files_rewritten, e.files_under_vectors) for e in report.logs] == [(2, 2)]
    gone = {n for n in range(400) if n in keys}
    assert [r.offset for r in rows_of(table)] == [n for n in range(900) if n not in gone and n < 600] + [900]
    assert hp.verify(name_of(table), now=T0).success
