"""Maintenance: what may go, what must stay, and that a table is as it was afterwards."""

import os
import time
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hardpack.demo.topic import COLUMNS
from hardpack.errors import BadInput
from hardpack.files.key_filter import FOLDER, filter_name
from hardpack.operations import maintenance
from hardpack.operations.maintenance import maintain
from hardpack.table.snapshot_expiry import expire_before
from hardpack.table.state import PLAN_SUMMARY
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import SetLocationUpdate

from tests.topics import append, name_of, new_topic, row, rows_of, session_of

DAY = 86_400_000
OFFSETS = "kafka.connect.offsets.control.group"


def put(table, offset, **summary):
    before = table.refresh().current_snapshot()
    append(table, {0: [row(offset, f"k{offset % 2}")]})
    if summary:
        table.refresh()
    return before


def stamped(properties, summaries, at, operations=None):
    """A stand-in for a table with snapshots of these summaries, one a day, the last one now."""
    from types import SimpleNamespace

    snapshots = [
        SimpleNamespace(
            snapshot_id=n + 1,
            parent_snapshot_id=n or None,
            timestamp_ms=at - (len(summaries) - 1 - n) * DAY,
            sequence_number=n + 1,
            summary=SimpleNamespace(
                additional_properties=summary, operation=Operation((operations or {}).get(n, "append"))
            ),
        )
        for n, summary in enumerate(summaries)
    ]
    return SimpleNamespace(
        name=lambda: ("db", "t"),
        properties=properties,
        snapshots=lambda: snapshots,
        current_snapshot=lambda: snapshots[-1],
    )


@pytest.mark.parametrize(
    ("properties", "marked", "days"),
    [
        ({}, {}, 5),
        ({"history.expire.max-snapshot-age-ms": str(2 * DAY)}, {}, 2),
        ({}, {3: {OFFSETS: "{}"}}, 16),  # the last of a sink that was written sixteen days ago
        ({}, {3: {OFFSETS: "{}"}, 18: {OFFSETS: "{}"}}, 5),
        ({}, {3: {OFFSETS: "{}"}, 18: {OFFSETS + "2": "{}"}}, 16),  # another group of connectors
        ({}, {9: {"flink.job-id": "a"}, 12: {"flink.job-id": "b"}}, 10),
        ({}, {9: {"flink.job-id": "a"}, 12: {"flink.job-id": "a", "flink.operator-id": "2"}}, 10),
        ({"history.expire.max-snapshot-age-ms": "0"}, {}, 1),  # what a pass may be working from
        ({}, {9: {"spark.sql.streaming.queryId": "a"}, 12: {"spark.sql.streaming.queryId": "a"}}, 7),
        ({}, {9: {"other": "x"}}, 10),
        ({}, {9: {"redpanda.commit-metadata": "1"}, 12: {"redpanda.commit-metadata": "2"}}, 7),
        ({}, {9: {"automq.commit.id": "1"}, 12: {"commit-user": "2"}}, 10),
        ({}, {9: {"engine-name": "spark", "added-records": "1", PLAN_SUMMARY: "one:x"}}, 5),
        ({"history.expire.max-snapshot-age-ms": str(2**63 - 1)}, {}, 2**63),
    ],
)
def test_what_a_sink_needs_of_the_history_stays(properties, marked, days):
    now = 2_000_000_000_000
    table = stamped(properties, [marked.get(n, {}) for n in range(20)], now)
    assert expire_before(table, now) == max(now - days * DAY, now - (2**63 - 1))


@pytest.mark.parametrize("text", ["five days", "-1", "1e9", "9" * 20])
def test_an_age_that_is_no_number_is_bad_input(text):
    table = stamped({"history.expire.max-snapshot-age-ms": text}, [{}], 2_000_000_000_000)
    with pytest.raises(BadInput, match=r"max-snapshot-age-ms is .*expected a whole number from 0"):
        expire_before(table, 2_000_000_000_000)


def test_a_sink_that_was_silent_for_long_holds_nothing():
    now = 2_000_000_000_000
    table = stamped({}, [{OFFSETS: "{}"} if n == 3 else {} for n in range(50)], now)
    assert expire_before(table, now) == now - 5 * DAY


@pytest.mark.spark
@pytest.mark.parametrize("place", ["{}", "{}/data/nested", "{}/..", "{}/../x/%2e%2e"])
def test_nothing_is_deleted_where_another_table_may_need_it(catalog, hp, place):
    table = new_topic(catalog)
    put(table, 0)
    root = Path(table.location().removeprefix("file://"))
    orphan = root / "data" / "orphan.parquet"
    orphan.write_bytes(b"x")
    os.utime(orphan, (1000, 1000))
    door = hp.jvm_table(name_of(table))
    where = place.format(table.location()).replace(f"/{root.name}/..", "")
    now, warehouse = int(time.time() * 1000), catalog.properties["warehouse"]
    found = maintain(session_of(table, door), now + 100 * DAY, {"other.table": where}, [warehouse])
    assert "other.table" in found.notes[0]
    assert orphan.exists()
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    assert "gc.enabled" in maintain(session_of(table.refresh(), door), now, {}, [warehouse]).notes[0]


@pytest.mark.spark
def test_manifests_of_tries_that_became_nothing_leave(catalog, hp):
    table = new_topic(catalog, orphan_age_ms=12 * DAY)
    for offset in range(3):
        put(table, offset)
    name, now = name_of(table), int(time.time() * 1000)
    metadata = Path(table.location().removeprefix("file://")) / "metadata"
    first = table.refresh().snapshots()[0]
    table.delete("offset = 0")
    with table.maintenance.expire_snapshots() as expire:
        # no list is left that tells whose its manifest was, and an older snapshot alone needs that
        expire.by_id(first.snapshot_id)
    expired = Path(first.manifest_list).name
    living = {file for file in metadata.iterdir() if file.name != expired}
    of_a_try = (f"{uuid.uuid4()}-m0.avro", f"snap-{2**62}-3-{uuid.uuid4()}.avro", expired)
    of_others = (f"{uuid.uuid4().hex}-00000-1-7-00001.avro", f"optimized-m-{uuid.uuid4()}.avro", "notes.avro")
    for file in (*of_a_try[:2], *of_others):
        (metadata / file).write_bytes(b"x")
    for file in metadata.iterdir():
        if file.is_file():
            os.utime(file, (1000, 1000))
    young = metadata / f"{uuid.uuid4()}-m0.avro"
    young.write_bytes(b"x")

    looked = hp.maintain(name, now, dry_run=True)
    assert {note.rpartition("/")[2] for note in looked.notes if note.startswith("orphan: ")} == set(of_a_try)
    assert all((metadata / file).exists() for file in of_a_try)

    rows, second = rows_of(table), table.refresh().snapshots()[0]
    assert hp.maintain(name, now).orphans_deleted == len(of_a_try)
    left = set(metadata.iterdir())
    assert not left & {metadata / file for file in of_a_try}
    assert left >= {young, *(metadata / file for file in of_others), *living}
    assert rows_of(table.refresh()) == rows
    assert table.scan(snapshot_id=second.snapshot_id).to_arrow().num_rows == 2
    assert hp.maintain(name, now).orphans_deleted == 0


@pytest.mark.spark
def test_bytes_leave_the_storage_and_the_table_stays_as_it_is(catalog, hp):
    # Iceberg looks at the clock, whatever time it is told, before it takes a file for an orphan
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, key_filter_min_rows=1, orphan_age_ms=12 * DAY)
    for offset in range(6):
        put(table, offset)
    name, now = name_of(table), int(time.time() * 1000)
    hp.clean(hp.plan(name, now))
    put(table, 6)
    left = rows_of(table)
    root = Path(table.location().removeprefix("file://"))
    known = {Path(p) for p in table.inspect.all_files()["file_path"].to_pylist()}
    orphan, fresh = root / "data" / "orphan.parquet", root / "data" / "fresh.parquet"
    stale = root / FOLDER / filter_name("gone")
    stale.parent.mkdir(parents=True, exist_ok=True)
    for path in (orphan, fresh, stale):
        path.write_bytes(b"x")
    os.utime(orphan, (1000, 1000))

    looked = hp.maintain(name, now, dry_run=True)
    assert (looked.orphans_deleted, looked.snapshots_after) == (0, 8)
    assert [note for note in looked.notes if note.startswith("orphan: ") and note.endswith("/orphan.parquet")]
    assert orphan.exists()

    kept = hp.maintain(name, now)
    assert (kept.snapshots_before, kept.snapshots_after, kept.files_deleted) == (8, 8, 0)
    assert not orphan.exists()
    assert fresh.exists()
    assert not stale.exists()
    assert (kept.orphans_deleted, kept.filters_deleted) == (1, 1)
    state = table.refresh().properties["hardpack.state"]

    hp.clock = lambda: now + 10 * DAY
    late = hp.maintain(name, now + 10 * DAY)
    assert (late.snapshots_before, late.snapshots_after) == (8, 1)
    assert late.files_deleted > 0
    assert rows_of(table) == left
    assert table.properties["hardpack.state"] == state
    now_known = {Path(p.removeprefix("file://")) for p in table.inspect.files()["file_path"].to_pylist()}
    assert {p for p in (root / "data").rglob("*.parquet")} == {*now_known, fresh}
    assert len(known) > len(now_known)
    # the state still holds once the pass that left it has expired
    assert [log.checkpoint for log in hp.plan(name, now + 10 * DAY).logs] == [5]


@pytest.mark.spark
def test_a_table_may_keep_to_itself(catalog, hp):
    table = new_topic(catalog, maintenance="off")
    put(table, 0)
    put(table, 1)
    hp.clock = lambda: int(time.time() * 1000) + 100 * DAY
    found = hp.maintain(name_of(table))
    assert (found.snapshots_after, found.files_deleted) == (2, 0)
    assert "off" in found.notes[0]


@pytest.mark.spark
@pytest.mark.parametrize("alone", [{"hardpack.maintenance": "off"}, {"gc.enabled": "false"}, {}])
def test_rows_past_their_retention_go_where_no_file_may_be_deleted(catalog, hp, alone):
    """Retention is a change of metadata; what keeps files from being deleted does not keep rows."""
    table = new_topic(catalog, cleanup_policy="delete", retention_ms=DAY, segment_bytes=100)
    for offset in range(3):
        put(table, offset)
    with table.transaction() as change:
        change.set_properties(alone)
    name, later = name_of(table), int(time.time() * 1000) + 30 * DAY
    others = {} if alone else {"other.table": table.location()}

    def run(dry_run=False):
        session = session_of(table.refresh(), hp.jvm_table(name))
        return maintain(session, later, others, [catalog.properties["warehouse"]], dry_run)

    told = run(dry_run=True)
    assert "3 rows are past their retention" in told.notes
    assert len(rows_of(table)) == 3
    done = run()
    assert len(done.notes) == 1, "why no file was deleted"
    assert (done.rows_past_retention, done.files_deleted) == (3, 0)
    assert rows_of(table) == []


@pytest.mark.spark
@pytest.mark.parametrize("version", ["2", "3"])
def test_few_manifests_later_the_newest_snapshot_still_says_what_a_sink_looks_for(
    catalog, hp, spark, version, monkeypatch
):
    monkeypatch.setattr(maintenance, "MANY_MANIFESTS", 4)
    table = new_topic(catalog)
    for offset in range(3):
        put(table, offset)
    rows = table.refresh().scan(row_filter="offset = 2").to_arrow()
    rows = rows.set_column(1, rows.schema.field("offset"), [[3]])
    table.append(rows, snapshot_properties={"automq.commit.id": "one"})
    name = name_of(table)
    spark.sql(f"ALTER TABLE hardpack.{name} SET TBLPROPERTIES ('format-version'='{version}')")
    assert hp.maintain(name).manifests_rewritten == 4
    snapshot = table.refresh().current_snapshot()
    assert len(snapshot.manifests(table.io)) == 1
    assert snapshot.summary["automq.commit.id"] == "one"
    assert len(rows_of(table)) == 4
    assert hp.maintain(name).manifests_rewritten == 0


@pytest.mark.spark
def test_shared_data_folders_are_not_searched(catalog, hp):
    table = new_topic(catalog)
    put(table, 0)
    with table.transaction() as change:
        change.set_properties({"write.data.path": "file:///somewhere/shared"})
    found = hp.maintain(name_of(table), int(time.time() * 1000))
    assert found.orphans_deleted == 0
    assert "where other tables' may lie too" in found.notes[0]


def old(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (1000, 1000))
    return path


@pytest.mark.spark
def test_nothing_is_deleted_outside_the_warehouse_unless_the_catalog_allows_it(catalog, hp, tmp_path):
    table = new_topic(catalog)
    put(table, 0)
    elsewhere = old(tmp_path / "others" / "data" / "theirs.parquet")
    with table.transaction() as change:
        change._apply((SetLocationUpdate(location=f"file://{tmp_path}/others"),))
    now = int(time.time() * 1000)
    found = hp.maintain(name_of(table), now)
    assert "does not lie inside" in found.notes[0]
    assert elsewhere.exists()
    catalog.properties["hardpack.locations"] = f"file://{tmp_path}"
    try:
        assert hp.maintain(name_of(table), now).orphans_deleted == 1
    finally:
        del catalog.properties["hardpack.locations"]
    assert not elsewhere.exists()


@pytest.mark.spark
def test_expiry_deletes_no_file_outside_the_tables_location(catalog, hp, tmp_path):
    table = new_topic(catalog, orphan_age_ms=12 * DAY)
    put(table, 0)
    foreign = tmp_path / "foreign.parquet"
    # without field ids, else pyiceberg does not take it into the table
    pq.write_table(table.scan().to_arrow().cast(COLUMNS), foreign)
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    table.add_files([f"file://{foreign}"])
    own = {Path(p.removeprefix("file://")) for p in table.inspect.files()["file_path"].to_pylist()} - {foreign}
    table.delete("partition = 0")
    put(table, 7)
    hp.clock = lambda: int(time.time() * 1000) + 10 * DAY
    found = hp.maintain(name_of(table))
    assert foreign.exists()
    assert not any(path.exists() for path in own)
    assert found.snapshots_after == 1
    assert any("1 expired files stay" in note for note in found.notes)


@pytest.mark.spark
def test_a_table_that_never_held_a_file_has_no_orphans(catalog, hp):
    """Its data folder comes into being with the first file, and Iceberg's procedure fails without it."""
    table = new_topic(catalog)
    table.append(table.schema().as_arrow().empty_table())
    assert table.refresh().current_snapshot() is not None
    assert not Path(table.location().removeprefix("file://"), "data").exists()
    assert hp.maintain(name_of(table), int(time.time() * 1000)).orphans_deleted == 0
