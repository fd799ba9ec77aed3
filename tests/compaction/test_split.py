"""Files with rows of several logs: taken apart before a pass, row for row, and their logs cleaned like others."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hardpack import BadInput, GateRefused, faults
from hardpack.compaction import split as splitting
from hardpack.failures import as_hardpack_error
from hardpack.table.history import SPLIT_SUMMARY, summary_of
from py4j.protocol import Py4JJavaError

from tests.layouts import FLAT, HOURLY, MIXED, TOPICS, commit, left, rows_of
from tests.topics import T0, name_of

pytestmark = pytest.mark.spark
HOUR, DAY = 3_600_000, 86_400_000
MIXED_HOURS = replace(HOURLY, name="hourly, several logs a file", mixed=True)
MIXED_TOPICS = replace(TOPICS, name="several topics, several logs a file", mixed=True)
MIXED_FLAT = replace(FLAT, name="connect flat, several logs a file", mixed=True)
_names = count()


def made(catalog, layout, **settings):
    table = layout.adopted(
        catalog, f"split.t{next(_names)}", delete_retention_ms=HOUR, min_cleanable_dirty_ratio=0, **settings
    )
    return table, name_of(table)


def data_files(table):
    return sorted(Path(table.location().removeprefix("file://")).rglob("data/**/*.parquet"))


@pytest.mark.parametrize(
    "layout",
    [
        MIXED,
        MIXED_HOURS,
        *(pytest.param(layout, marks=pytest.mark.equivalence) for layout in (MIXED_FLAT, MIXED_TOPICS)),
    ],
    ids=lambda layout: layout.name,
)
def test_files_of_several_logs_are_split_and_their_logs_cleaned(hp, catalog, layout):
    table, name = made(catalog, layout)
    assert hp.adopt(name).compacts
    for hour, keys in enumerate((["a", "b", "c"], ["a", "d-", "e"], ["b-", "e", "f"], ["z", "y", "x"])):
        at = T0 + hour * HOUR
        layout.append(table, {0: rows_of(*keys, start=3 * hour, at=at), 7: rows_of(*keys[:2], start=3 * hour, at=at)})
    now = T0 + DAY
    assert [(s.partition, s.files, s.rows, s.due) for s in hp.status(name, now)] == [("several", 4, 20, True)]
    plan = hp.plan(name, now=now)
    assert (plan.split.files, plan.logs, len(plan.units(1))) == (4, (), 1)
    assert "split first: 4 files that may hold rows of several logs" in hp.clean(plan, dry_run=True).notes[0]
    assert len(table.refresh().snapshots()) == 4
    report = hp.clean(plan)
    assert [(layout.number(log.partition), log.removed) for log in report.logs] == [(0, 3), (7, 2)]
    expected = {(0, 2), (0, 3), (0, 4), (0, 6), (0, 7), (0, 8), (7, 3), (7, 4), (7, 6), (7, 7)}
    expected |= {(0, 9), (0, 10), (0, 11), (7, 9), (7, 10)}
    assert left(layout, table) == expected
    assert hp.verify(name, now=now).success
    assert hp.clean(plan).repeated
    # what comes later is split when its turn comes, and what a pass has cleaned stays clean beside it
    layout.append(table, {0: rows_of("e", "w", start=12, at=T0 + 4 * HOUR), 3: rows_of("q", start=0, at=T0 + 4 * HOUR)})
    seen = {s.partition: s for s in hp.status(name, now)}
    assert (seen[layout.log(0)].first_dirty, seen["several"].rows) == (9, 3)
    assert hp.verify(name, now=now, partitions=plan.partitions).success
    hp.expire_tombstones(name, now=now + 2 * HOUR)
    assert left(layout, table) == (expected | {(0, 12), (0, 13), (3, 0)}) - {(0, 4), (0, 6), (7, 4), (7, 6)}
    again = hp.clean(hp.plan(name, now=now + 2 * HOUR))
    assert [(log.partition, log.removed, log.checkpoint_before) for log in again.logs] == [(layout.log(0), 0, 9)]
    assert hp.verify(name, now=now).success
    assert hp.maintain(name, now=now).table == name


def test_a_split_changes_no_row_and_leaves_each_in_its_iceberg_partition(hp, catalog):
    table, name = made(catalog, MIXED_HOURS)
    for hour in range(2):
        keys = rows_of("b", "a-", "c", start=3 * hour, at=T0 + hour * HOUR)
        MIXED_HOURS.append(table, {p: keys for p in (4, 2, 9)}, **{"bounds": hour == 0})
    before = sorted(map(str, table.refresh().scan().to_arrow().to_pylist()))
    report = hp.split(name)
    table.refresh()
    assert (report.files, report.files_written) == (2, 6)
    assert SPLIT_SUMMARY in summary_of(table.current_snapshot())
    assert table.current_snapshot().summary.operation.value == "replace"
    assert sorted(map(str, table.scan().to_arrow().to_pylist())) == before
    hours = {f["part"] for f in (e["partition"] for e in table.inspect.files().to_pylist())}
    assert len(hours) == 2
    assert hp.split(name).snapshot is None


def test_rows_that_others_deleted_do_not_come_back(hp, catalog, spark):
    table, name = made(catalog, MIXED)
    MIXED.append(table, {p: rows_of("a", "b", "c", start=0) for p in (0, 1)})
    spark.sql(f"ALTER TABLE `{catalog.name}`.{name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM `{catalog.name}`.{name} WHERE _kafka_metadata.partition = 1 AND _kafka_metadata.offset = 1")
    hp.split(name)
    assert left(MIXED, table) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)}
    assert {s.partition: s.rows for s in hp.status(name, T0)} == {0: 3, 1: 2}


def test_a_row_that_names_no_log_is_refused_and_nothing_is_left_behind(hp, catalog):
    table, name = made(catalog, MIXED)
    cells = [MIXED.cells(p, row) for p in (0, 1) for row in rows_of("a", start=0)]
    cells[1]["_kafka_metadata"]["partition"] = None
    commit(table, [((), cells)])
    with pytest.raises((BadInput, Py4JJavaError)) as raised:
        hp.clean(hp.plan(name, now=T0))
    told = as_hardpack_error(raised.value)
    assert isinstance(told, BadInput)
    assert f"{name}: 1 rows of data file" in str(told)
    assert "have no '_kafka_metadata.partition', expected the log's in each" in str(told)
    assert len(data_files(table)) == 1
    assert len(table.refresh().snapshots()) == 1


def test_a_split_that_loses_or_changes_a_row_is_refused(hp, catalog, monkeypatch):
    table, name = made(catalog, MIXED)
    MIXED.append(table, {p: rows_of("a", "b", start=0) for p in (0, 1)})

    def planted(change):
        def split_file(files, read, *rest):
            return real(files, lambda: (change(batch) for batch in read()), *rest)

        real = splitting.split_file
        monkeypatch.setattr(splitting, "split_file", split_file)

    for change in (lambda batch: batch.slice(1), lambda batch: batch.take([0, 1, 2, 2])):
        planted(change)
        with pytest.raises(GateRefused, match="split of 1 files broke"):
            hp.split(name)
        monkeypatch.undo()
    assert len(data_files(table)) == 1
    assert len(table.refresh().snapshots()) == 1


def test_a_large_split_is_committed_in_parts_of_which_those_that_are_done_stay(hp, catalog, monkeypatch):
    table, name = made(catalog, MIXED)
    for start in (0, 2, 4):
        MIXED.append(table, {p: rows_of("a", "b", start=start) for p in (0, 1)})
    before, real, begun = left(MIXED, table), splitting._split, []

    def split_batch(*arguments):
        begun.append(arguments)
        if len(begun) == 2:
            raise OSError("the storage is away")
        return real(*arguments)

    monkeypatch.setattr(splitting, "COMMIT_FILES", 1)
    monkeypatch.setattr(splitting, "_split", split_batch)
    with pytest.raises(OSError, match="away"):
        hp.split(name)
    commits = [s for s in table.refresh().snapshots() if SPLIT_SUMMARY in summary_of(s)]
    assert (len(commits), left(MIXED, table)) == (1, before)
    assert hp.split(name).files == 2, "what was committed is not split again"
    assert left(MIXED, table) == before
    assert len([s for s in table.refresh().snapshots() if SPLIT_SUMMARY in summary_of(s)]) == 3


def test_what_a_plan_was_asked_for_holds_after_the_split(hp, catalog):
    table, name = made(catalog, MIXED)
    for hour in range(3):
        keys = rows_of("a", "b", start=2 * hour, at=T0 + hour * HOUR)
        MIXED.append(table, {p: keys for p in (0, 1, 2)})
    now = T0 + DAY
    assert hp.clean(hp.plan(name, now=now, interval=(0, 1))).logs == ()
    MIXED.append(table, {p: rows_of("c", start=6, at=T0 + 3 * HOUR) for p in (0, 1, 2)})
    plan = hp.plan(name, now=now, partitions=[0, 1], last_stable={"1": 2})
    report = hp.clean_or_replan(type(plan).from_json(plan.to_json()))
    assert [(log.partition, log.removed, log.checkpoint_after) for log in report.logs] == [(0, 4, 6), (1, 0, 2)]
    assert hp.clean(plan).repeated
    MIXED.append(table, {p: rows_of("d", start=7, at=T0 + 4 * HOUR) for p in (0, 1)})
    unknown = hp.plan(name, now=now, partitions=[99])
    with pytest.raises(BadInput, match="there is no partition 99, it has 0, 1, 2"):
        hp.clean(unknown)


def test_one_logs_bad_rows_are_its_own_trouble(hp, catalog):
    table, name = made(catalog, MIXED)
    bad = [replace(row, offset=-1) for row in rows_of("a", "a-", start=0)]
    MIXED.append(table, {0: rows_of("a", "b", start=0), 1: bad})
    MIXED.append(table, {0: rows_of("a", "c", start=2), 1: rows_of("z", start=0)})
    MIXED.append(table, {0: rows_of("z", start=4), 1: rows_of("y", start=1)})
    report = hp.clean(hp.plan(name, now=T0 + DAY))
    assert [(log.partition, log.removed) for log in report.logs] == [(0, 1)]
    assert "expected an offset from 0" in next(s.reason for s in hp.status(name, T0 + DAY) if s.partition == 1)


def test_files_of_which_others_deleted_all_rows_just_go(hp, catalog, spark):
    table, name = made(catalog, MIXED)
    MIXED.append(table, {p: rows_of("a", start=0) for p in (0, 1)})
    spark.sql(f"ALTER TABLE `{catalog.name}`.{name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM `{catalog.name}`.{name} WHERE _kafka_metadata.offset + length(_kafka_key) = 1")
    assert hp.split(name).files_written == 0
    assert hp.status(name, T0) == []


def test_only_logs_that_are_known_are_paused_and_explained(hp, catalog):
    table, name = made(catalog, MIXED)
    MIXED.append(table, {p: rows_of("a", start=0) for p in (0, 1)})
    for ask in (hp.pause, lambda name: hp.pause(name, [0]), lambda name: hp.explain(name, b"a")):
        with pytest.raises(BadInput, match="split"):
            ask(name)
    assert "split first" in hp.expire_tombstones(name, dry_run=True).notes[0]
    hp.split(name)
    assert hp.pause(name, [0])["0"].paused == 1


@pytest.mark.parametrize("point", ["begun", "file written", "before swap", "after swap"])
def test_a_split_that_ends_anywhere_is_done_or_not_and_can_be_done_again(hp, catalog, point):
    table, name = made(catalog, MIXED)
    for start in (0, 2):
        MIXED.append(table, {p: rows_of("a", "b", start=start) for p in (0, 1)})
    before = left(MIXED, table)
    faults.arm(faults.Fault(point, "fail"))
    # what was heard of no more is found in the history
    ends = nullcontext() if point == "after swap" else pytest.raises(Exception, match=point)
    try:
        with ends:
            hp.split(name)
    finally:
        faults.arm(None)
    assert left(MIXED, table) == before
    hp.split(name)
    assert left(MIXED, table) == before
    assert {s.partition for s in hp.status(name, T0)} == {0, 1}
    assert len(table.refresh().snapshots()) == 3
