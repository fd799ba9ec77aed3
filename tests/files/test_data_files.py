"""Data files read and written with Arrow: pyiceberg's own scan and the manifest's numbers are the judges; no JVM."""

import errno
import json
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.demo.topic import COLUMNS
from hardpack.errors import BadInput
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.writer import write_files
from hardpack.rules.reference.cleaner import Row
from hardpack.spark import rewrite as wide
from hardpack.spark.rewrite import RewriteInput
from pyiceberg.types import StringType
from pyroaring import BitMap

from tests.topics import append, columns_of, new_topic, row


def refs(table):
    """The table's files in order of offset, as the JVM lists them."""
    found = sorted(table.refresh().scan().plan_files(), key=lambda t: t.file.lower_bounds[2])
    return [
        ContentFile(
            {
                "file-path": t.file.file_path, "record-count": t.file.record_count, "spec-id": t.file.spec_id,
                "partition": [t.file.partition[0]], "file-format": "parquet",
                "file-size-in-bytes": t.file.file_size_in_bytes,
            }
        )
        for t in found
    ]  # fmt: skip


def dead(*positions):
    return BitMap(positions).serialize()


def as_file(entry):
    return entry if isinstance(entry, ContentFile) else ContentFile(entry)


def entries_of(files, group, target):
    """Iceberg's JSON of what a group becomes."""
    return [file.entry for file in wide._rewrite(files, group, columns_of(files, "offset")[0], target)]


def rows_in(files, entries):
    read = [b for e in entries for b in files.read(as_file(e), columns_of(files, "offset", "key"))]
    return [(r["offset"], r["key"]) for b in read for r in b.to_pylist()]


def numbers(entry, name, files, column):
    found = dict(zip(entry[name]["keys"], entry[name]["values"], strict=True))
    return found[files.schema.find_field(column).field_id]


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(o, f"k{o}") for o in range(5)]})
    append(table, {0: [row(5, "k5"), row(6, "k6", None), row(7, "k7")]})
    return table


def test_living_rows_of_a_group_become_one_file(topic):
    files, (one, other) = DataFiles.of(topic), refs(topic)
    (entry,) = entries_of(files, [RewriteInput(one, dead(1, 4)), RewriteInput(other, dead(0))], 10**9)
    assert rows_in(files, [entry]) == [(o, f"k{o}".encode()) for o in (0, 2, 3, 6, 7)]
    assert entry["record-count"] == 5
    assert ContentFile(entry).column_metrics(files.schema.find_field("value").field_id) == (1, b"v", b"v")
    bounds = [
        int.from_bytes(bytes.fromhex(numbers(entry, n, files, "offset")), "little")
        for n in ("lower-bounds", "upper-bounds")
    ]
    assert bounds == [0, 7]
    assert "/partition=0/hardpack-" in entry["file-path"]
    assert json.loads(json.dumps(entry)) == entry


def test_rows_out_of_order_are_sorted_in_rounds(catalog, monkeypatch):
    table, rng = new_topic(catalog), np.random.default_rng(3)
    for _ in range(3):
        append(table, {0: [row(int(o), f"k{o}", "x" * 50) for o in rng.permutation(400)]})
    monkeypatch.setattr(wide, "SORT_BYTES", 20_000)
    files = DataFiles.of(table)
    entries = entries_of(files, [RewriteInput(r, dead(0)) for r in refs(table)], 10**9)
    offsets = [o for o, _ in rows_in(files, entries)]
    assert len(offsets) == 1197
    assert offsets == sorted(offsets)


def test_a_file_ends_at_its_size(catalog):
    table, rng = new_topic(catalog), np.random.default_rng(3)
    append(table, {0: [Row(o, b"k%d" % o, rng.bytes(40).hex().encode()) for o in range(20_000)]})
    files = DataFiles.of(table)
    entries = entries_of(files, [RewriteInput(refs(table)[0], b"")], 200_000)
    assert len(entries) > 3
    assert all(150_000 < e["file-size-in-bytes"] < 300_000 for e in entries[:-1])
    assert [o for o, _ in rows_in(files, entries)] == list(range(20_000))


def test_a_failure_leaves_no_file_behind(topic, tmp_path):
    files, (one, _) = DataFiles.of(topic), refs(topic)

    def broken():
        yield from files.read_whole(one)
        raise RuntimeError("the disk is gone")

    before = {t.file.file_path for t in topic.scan().plan_files()}
    folder = one.path.removeprefix("file://").rpartition("/")[0]
    with pytest.raises(RuntimeError):
        write_files(files, broken(), one, 1)
    import pathlib

    assert {f"file://{p}" for p in pathlib.Path(folder).glob("*.parquet")} == before


def test_columns_follow_their_field_ids(topic):
    with topic.update_schema() as change:
        change.rename_column("value", "payload")
        change.add_column("extra", change._schema.find_type("offset"))
    files = DataFiles.of(topic.refresh())
    (entry,) = entries_of(files, [RewriteInput(refs(topic)[0], dead(0))], 10**9)
    (batch,) = files.read_whole(ContentFile(entry))
    assert batch.schema.names == ["partition", "offset", "timestamp", "key", "payload", "extra"]
    assert batch["payload"].to_pylist() == ["v"] * 4
    assert batch["extra"] == pa.nulls(4, pa.int64())


def test_a_column_that_a_file_has_not_is_null_in_all_its_rows(topic):
    with topic.update_schema() as change:
        change.add_column("later", StringType())
    changed = topic.refresh()
    files = DataFiles.of(changed)
    read = [batch for ref in refs(changed) for batch in files.read(ref, columns_of(files, "later"))]
    assert [value for batch in read for value in batch["later"].to_pylist()] == [None] * 8
    # the partition's value is the table's, whatever the file holds
    read = [batch for ref in refs(changed) for batch in files.read(ref, columns_of(files, "partition", "later"))]
    assert {value for batch in read for value in batch["partition"].to_pylist()} == {0}


def test_rows_come_in_order_from_many_row_groups(catalog):
    table = new_topic(catalog)
    with table.transaction() as change:
        change.set_properties({"write.parquet.row-group-limit": "7"})
    append(table, {0: [row(o, f"k{o}") for o in range(100)]})
    (ref,) = refs(table)
    files = DataFiles.of(table)
    assert pq.ParquetFile(ref.path.removeprefix("file://")).num_row_groups > 10
    assert [r["offset"] for batch in files.read(ref, columns_of(files, "offset")) for r in batch.to_pylist()] == list(
        range(100)
    )
    # a reader that stops in the middle leaves nothing behind that waits
    for batch in files.read_whole(ref):
        assert batch["offset"][0].as_py() == 0
        break


def test_what_is_no_parquet_is_said(topic):
    ref = refs(topic)[0]
    with pytest.raises(BadInput, match=r"is orc, expected parquet; rewrite it"):
        list(
            DataFiles.of(topic).read(
                ContentFile(dict(ref.entry) | {"file-format": "orc"}), columns_of(DataFiles.of(topic), "offset")
            )
        )


def test_a_file_that_could_not_be_begun_leaves_the_real_error(topic, monkeypatch):
    files, (one, _) = DataFiles.of(topic), refs(topic)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("hardpack.files.projection.project", full)
    with pytest.raises(OSError, match="no space left"):
        write_files(files, files.read_whole(one), one, 10**9)


def test_groups_of_a_task_leave_nothing_when_one_fails(topic):
    files, (one, other) = DataFiles.of(topic), refs(topic)
    groups = [[RewriteInput(one, dead(1))], [RewriteInput(other, dead(0))]]
    (offset,) = columns_of(files, "offset")

    def write(group):
        return wide._rewrite(files, group, offset, 10**9)

    made = wide._write_all(files, groups, write)
    assert [rows_in(files, new) for new in made] == [
        [(o, f"k{o}".encode()) for o in (0, 2, 3, 4)], [(6, b"k6"), (7, b"k7")],
    ]  # fmt: skip
    written, third_begun, failed, made = threading.Event(), threading.Event(), threading.Event(), []

    def second_fails(group):
        if group is groups[1]:
            # a group that has not begun when another fails is never written
            assert written.wait(10)
            assert third_begun.wait(10)
            failed.set()
            raise OSError(errno.ENOSPC, "no space left on device")
        if group is groups[2]:
            third_begun.set()
            assert failed.wait(10)
        made.append(write(group))
        written.set()
        return made[-1]

    groups.append([RewriteInput(one, dead(2))])
    with pytest.raises(OSError, match="no space"):
        wide._write_all(files, groups, second_fails)
    # also of the one that was written while the other failed
    assert len(made) == 2
    for new in made:
        with pytest.raises(BadInput, match="is missing"):
            rows_in(files, new)


def test_a_damaged_and_a_missing_file_are_named(topic):
    files, (one, other) = DataFiles.of(topic), refs(topic)
    path = Path(one.path.removeprefix("file://"))
    sound = path.read_bytes()
    path.write_bytes(sound[:-20])
    with pytest.raises(BadInput, match=rf"{path.name} is damaged \(.*\); restore it, .* Nothing was changed"):
        list(files.read_whole(one))
    path.write_bytes(sound[:100] + bytes(200) + sound[300:])
    with pytest.raises(BadInput, match=rf"{path.name} is damaged"):
        list(files.read_whole(one))
    path.unlink()
    with pytest.raises(BadInput, match=rf"data file .*{path.name} is missing; restore it"):
        list(files.read_whole(one))
    assert rows_in(files, [other.entry])


def test_a_bit_that_fell_over_is_found_where_pages_have_checksums(topic):
    """As parquet-java writes them, and hardpack; the flipped value would be as good as any other."""
    with topic.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "uncompressed"})
    files = DataFiles.of(topic.refresh())
    (entry,) = entries_of(files, [RewriteInput(ref, b"") for ref in refs(topic)], 10**9)
    assert len(rows_in(files, [entry])) == 8
    path = Path(entry["file-path"].removeprefix("file://"))
    path.write_bytes(path.read_bytes().replace(b"k3", b"k8", 1))
    with pytest.raises(BadInput, match=rf"{path.name} is damaged \(.*CRC"):
        rows_in(files, [entry])


def test_a_machine_without_memory_has_no_damaged_files(topic, monkeypatch):
    def full(*_):
        raise pa.ArrowMemoryError("malloc of size 9 failed")

    monkeypatch.setattr("hardpack.files.projection.FileColumns.mapped", full)
    with pytest.raises(MemoryError, match="malloc"):
        list(DataFiles.of(topic).read_whole(refs(topic)[0]))


def test_a_sound_file_that_does_not_fit_is_not_told_as_a_damaged_one(topic, tmp_path):
    path = tmp_path / "a.parquet"
    (ref, _) = refs(topic)
    fields = [pa.field(f.name, f.type, metadata={"PARQUET:field_id": f"{n + 1}"}) for n, f in enumerate(COLUMNS)]
    fields[1] = fields[1].with_type(pa.time64("ns"))
    pq.write_table(pa.schema(fields).empty_table(), path)
    entry = dict(ref.entry) | {"file-path": f"file://{path}"}
    with pytest.raises(
        BadInput, match=r"a.parquet cannot be read in the table's columns \(.*time64.*rewrite_data_files"
    ):
        list(DataFiles.of(topic).read_whole(ContentFile(entry)))


def test_a_file_that_cannot_be_written_to_its_end_goes(topic):
    files = DataFiles.of(topic)
    location = files.new_location("hardpack-half.puffin")

    def half():
        with files.created(location) as stream:
            stream.write(b"half")
            raise OSError(errno.ENOSPC, "no space left on device")

    with pytest.raises(OSError, match="no space left"):
        half()
    assert not Path(location.removeprefix("file://")).exists()
    with files.created(location) as stream:
        stream.write(b"whole")
    assert Path(location.removeprefix("file://")).read_bytes() == b"whole"
