"""The gate on a sample: right passes get through, bugs of the engine do not (invariants 1, 2 and 4)."""

import random

import pytest
from hardpack import GateRefused
from hardpack.compaction import dead_rows, session, verify
from hardpack.rules.reference.cleaner import Log, LogSegment, clean
from hardpack.rules.settings import Settings
from hardpack.spark.causes import superseded as find
from hardpack.table.history import commits
from pyroaring import BitMap

from tests.topics import T0, append, name_of, new_topic, random_rows, row, rows_of

pytestmark = pytest.mark.spark
RULES = {"min.cleanable.dirty.ratio": 0, "delete.retention.ms": 1000, "null.keys": "drop", "segment.bytes": 14}


def filled(catalog, rng, segments=6, rows=80, **settings):
    rules = {k.replace(".", "_"): v for k, v in RULES.items()}
    table, at, made = new_topic(catalog, **{"audit_rows": 40} | rules | settings), 0, []
    for _ in range(segments):
        made.append(random_rows(rng, at, rows, 40))
        at = made[-1][-1].offset
        append(table, {0: made[-1]})
    return table, made


@pytest.mark.parametrize("few", [True, False])
def test_passes_over_more_rows_than_are_audited_equal_the_reference(hp, catalog, monkeypatch, few):
    """In many tasks and buckets, with the head's keys held by every task and without."""
    for name, value in {"ROWS_PER_TASK": 100, "ROWS_PER_BUCKET": 70, "FEW_KEYS": 10**6 if few else 0}.items():
        monkeypatch.setattr(find, name, value)
    rng = random.Random(11)
    table, made = filled(catalog, rng)
    log = Log(tuple(LogSegment(rows[0].offset, tuple(rows)) for rows in made))
    settings = Settings.model_validate(RULES)
    for turn in range(4):
        now = T0 + turn * 1500
        hp.clean_like_kafka(name_of(table), now=now)
        log = clean(log, settings, now).log
        assert [r.offset for r in rows_of(table)] == [r.offset for r in log.rows]
        more = random_rows(rng, log.rows[-1].offset, 60, 40)
        append(table, {0: more})
        log = Log(
            (*log.segments, LogSegment(more[0].offset, tuple(more))), log.checkpoint, log.log_start, None, log.horizons
        )


def test_tombstones_of_files_of_which_only_some_are_compared_in_full(hp, catalog):
    """Many files become one: a tombstone of a file that is not compared is the one that is copied (invariant 2)."""
    rules = {"min_cleanable_dirty_ratio": 0, "audit_rows": 40}
    table = new_topic(catalog, **rules)
    for first in range(0, 200, 40):
        append(table, {0: [row(o, f"k{o}", None if o % 2 else "v") for o in range(first, first + 40)]})
    append(table, {0: [row(200 + n, f"k{n * 40}") for n in range(5)]})
    append(table, {0: [row(300, "z")]})
    report = hp.clean(hp.plan(name_of(table), now=T0))
    assert report.logs[0].files_rewritten > report.logs[0].files_written
    assert report.logs[0].superseded == 5


@pytest.fixture
def broken(monkeypatch):
    """The engine with one of its results spoilt."""

    def spoil(module, name, how):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args: how(real(*args)))

    return spoil


def lose_latest(found):
    for places in found.values():
        places.superseded.update(BitMap(range(0, 40, 2)))
    return found


def keep_superseded(found):
    return {path: places for path, places in found.items() if places.superseded.clear() is None}


@pytest.mark.parametrize("bug", [lose_latest, keep_superseded])
def test_a_wrong_choice_of_rows_is_not_published(hp, catalog, broken, bug):
    table, _ = filled(catalog, random.Random(5), audit_rows=200)
    broken(dead_rows, "find_superseded", bug)
    with pytest.raises(GateRefused, match=r"latest|ledger"):
        hp.clean(hp.plan(name_of(table), now=T0))
    assert list(commits(table.refresh())) == []


def test_a_wrong_choice_in_the_few_clean_files_that_are_hit_is_not_published(hp, catalog, broken):
    """They are looked at however many others there are."""
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, audit_rows=300, segment_bytes=14)
    for first in range(0, 900, 60):
        append(table, {0: [row(o, f"k{o}") for o in range(first, first + 60)]})
    append(table, {0: [row(900, "x")]})
    hp.clean(hp.plan(name_of(table), now=T0))
    append(table, {0: [row(901, "k1"), row(902, "k301")]})
    append(table, {0: [row(903, "y")]})
    plan, before = hp.plan(name_of(table), now=T0), len(list(commits(table.refresh())))
    broken(dead_rows, "find_superseded", lose_latest)
    with pytest.raises(GateRefused, match="latest"):
        hp.clean(plan)
    assert len(list(commits(table.refresh()))) == before


def test_rows_that_change_while_they_are_copied_are_not_published(hp, catalog, monkeypatch):
    # nearly all rows of each file stay, so that no sample misses them
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, audit_rows=100)
    for first in range(0, 200, 40):
        append(table, {0: [row(o, f"k{o}", f"v{o}") for o in range(first, first + 40)]})
    append(table, {0: [row(200 + n, f"k{n * 40}") for n in range(5)]})
    append(table, {0: [row(300, "z")]})

    class Spoilt(session.DataFiles):
        def read_whole(self, file):
            for batch in super().read_whole(file):
                at = batch.schema.get_field_index("value")
                yield batch.set_column(at, "value", batch["value"].take(list(range(len(batch)))[::-1]))

    monkeypatch.setattr(session, "DataFiles", Spoilt)
    with pytest.raises(GateRefused, match="unchanged"):
        hp.clean(hp.plan(name_of(table), now=T0))


@pytest.mark.parametrize("deletes", [False, True])
def test_the_check_of_a_run_reads_what_the_pass_changed_and_some_of_the_rest(hp, catalog, monkeypatch, deletes):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, audit_rows=50)
    name = name_of(table)
    for first in range(0, 400, 20):
        append(table, {0: [row(o, f"k{o}") for o in range(first, first + 20)]})
    hp.clean(hp.plan(name, now=T0))
    if deletes:
        hp.spark.sql(f"delete from hardpack.{name} where key = X'{b'k7'.hex()}'")
    append(table.refresh(), {0: [row(400 + n, f"k{390 + n}") for n in range(5)]})
    append(table, {0: [row(500, "z")]})
    assert hp.clean(hp.plan(name, now=T0)).logs[0].superseded == 5
    read = {}

    def seen(sample):
        def evidence(table, columns, sides, hold, **how):
            read[sample] = {s.stands: sum(rows for rows, _ in s.tasks.sizes()) for s in sides}
            return as_it_is(table, columns, sides, hold, **how)

        monkeypatch.setattr(verify, "evidence", evidence)
        return hp.verify(name, now=T0, sample=sample)

    as_it_is = verify.evidence
    reports = {sample: seen(sample) for sample in (False, True)}
    assert all(report.success for report in reports.values())
    assert read[False]["both"] >= 360
    # from a file on that others wrote since the pass before, all is read
    assert read[True] == read[False] if deletes else 50 <= read[True]["both"] < 100
    assert (read[True]["before"], read[True]["after"]) == (read[False]["before"], read[False]["after"])
    # a row that was passed over may be why another went: all is read before anything is called broken
    with monkeypatch.context() as patched:
        patched.setattr(
            verify._Verification,
            "_left_out",
            lambda *_: {f["file_path"] for f in table.refresh().inspect.files().to_pylist()},
        )
        assert seen(True).success
    assert read[True] == read[False]
    # and what is broken in what it reads is found
    hp.spark.sql(f"delete from hardpack.{name} where offset = 402")
    broken = seen(True)
    assert not broken.success
    assert {c.expectation for c in broken.checks if not c.success} == {
        c.expectation for c in seen(False).checks if not c.success
    }
