"""A Spark stream's checkpoint tells which offsets it has passed; no Spark."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.fs
import pytest
from hardpack.errors import BadInput, Unavailable
from hardpack.operations import stream_checkpoint
from hardpack.operations.stream_checkpoint import checkpoint_positions
from hardpack.table.history import ancestors

from tests.topics import append, new_topic, row, session_of


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a checkpoint whose last finished batch went to these offsets; a batch after it has only begun."""

    def write(*told):
        for folder in ("offsets", "commits"):
            (tmp_path / folder).mkdir(exist_ok=True)
        lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps({"version": 1, **one}) for one in told)]
        (tmp_path / "offsets" / "7").write_text("\n".join(lines))
        (tmp_path / "offsets" / "8").write_text("v1\n{}\n")
        for name in ("6", "7", ".7.crc"):
            (tmp_path / "commits" / name).write_text("v1")
        return str(tmp_path)

    return write


def read_to(snapshot, position=2, whole=False):
    return {"snapshot_id": snapshot.snapshot_id, "position": position, "scan_all_files": whole}


@pytest.fixture
def topic(catalog):
    """Two logs in three commits, of two files each."""
    table = new_topic(catalog)
    for at in range(3):
        append(table, {log: [row(at * 10 + n, "k") for n in range(10)] for log in (0, 1)})
    return table.refresh()


def positions(table, path):
    return dict(checkpoint_positions(session_of(table), path).offsets)


def test_what_was_not_read_begins_where_the_next_append_does(topic, checkpoint):
    last, middle, first = ancestors(topic)
    assert positions(topic, checkpoint(read_to(first))) == {"0": 10, "1": 10}
    assert positions(topic, checkpoint(read_to(middle))) == {"0": 20, "1": 20}
    assert positions(topic, checkpoint(read_to(last))) == {"0": 30, "1": 30}


def test_a_snapshot_that_was_read_in_part_is_not_passed(topic, checkpoint):
    _, middle, first = ancestors(topic)
    assert positions(topic, checkpoint(read_to(middle, 1))) == {"0": 10, "1": 10}
    assert positions(topic, checkpoint(read_to(first, 1))) == {"0": 0, "1": 0}
    assert positions(topic, checkpoint(read_to(middle, 4, whole=True))) == {"0": 20, "1": 20}
    assert positions(topic, checkpoint(read_to(middle, 3, whole=True))) == {"0": 0, "1": 0}


def test_of_a_table_that_is_read_twice_the_slower_reading_counts(topic, checkpoint):
    last, _, first = ancestors(topic)
    assert positions(topic, checkpoint(read_to(last), read_to(first))) == {"0": 10, "1": 10}


def test_late_rows_are_not_passed_in_their_own_file_or_in_one_of_several_logs(catalog, topic, checkpoint):
    path = checkpoint(read_to(next(ancestors(topic))))
    append(topic, {0: [row(35, "k"), row(6, "late")]})
    assert positions(topic.refresh(), path) == {"0": 6, "1": 30}
    both = new_topic(catalog)
    with both.update_spec() as change:
        change.remove_field("partition")
    append(both.refresh(), {0: [row(n, "k") for n in range(10)], 1: [row(n, "k") for n in range(20)]})
    path = checkpoint(read_to(next(ancestors(both.refresh())), 1))
    append(both, {0: [row(15, "k")], 1: [row(4, "late")]})
    assert set(positions(both.refresh(), path).values()) <= {4}


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_folders_as_spark_names_them(topic, checkpoint, prefix):
    last = next(ancestors(topic))
    assert positions(topic, prefix + checkpoint(read_to(last))) == {"0": 30, "1": 30}


def test_hadoops_s3_is_arrows_and_credentials_are_kept_nowhere(topic, checkpoint, monkeypatch):
    path, asked = checkpoint(read_to(next(ancestors(topic)))), []

    def opened(uri):
        asked.append(uri)
        return pa.fs.LocalFileSystem(), path

    monkeypatch.setattr(stream_checkpoint, "FileSystem", SimpleNamespace(from_uri=opened))
    found = checkpoint_positions(session_of(topic), "s3a://AKIAKEY:SECRETSECRET@bucket/place")
    assert asked == ["s3://AKIAKEY:SECRETSECRET@bucket/place"]
    assert "SECRET" not in found.source
    assert "bucket/place" in found.source


def test_what_is_no_checkpoint_of_the_table(topic, checkpoint, tmp_path, monkeypatch):
    for path in (str(tmp_path / "none"), "nowhere://x/y", str(tmp_path)):
        with pytest.raises(BadInput, match="is no checkpoint of a Spark stream that has finished a batch"):
            checkpoint_positions(session_of(topic), path)
    with pytest.raises(BadInput, match="tells of no kept snapshot of the table"):
        checkpoint_positions(session_of(topic), checkpoint({"snapshot_id": 1, "position": 1}))

    def denied(_):
        raise OSError("AWS Error ACCESS_DENIED")

    monkeypatch.setattr(stream_checkpoint, "_opened", denied)
    with pytest.raises(Unavailable, match="the storage does not answer"):
        checkpoint_positions(session_of(topic), "s3://bucket/place")
