"""A look that remembers manifests sees what a look without memory sees, and reads only what is new."""

import random

import pytest
from hardpack.rules.model import LogState, SeenCommits
from hardpack.rules.settings import read_settings
from hardpack.table import log_views
from hardpack.table.log_views import read_logs
from hardpack.table.manifest_cache import ManifestCache
from hardpack.table.manifests import ManifestReader
from hardpack.table.state import STATE_PROPERTY, write_state

from tests.topics import append, new_topic, row

SETTINGS = read_settings("", {})


@pytest.fixture
def reads(monkeypatch):
    """Paths of the manifests that are read."""
    found, real = [], ManifestReader.entries
    monkeypatch.setattr(
        ManifestReader, "entries", lambda self, m, io=None: (found.append(m.manifest_path), real(self, m, io))[1]
    )  # fmt: skip
    return found


def test_only_new_manifests_are_read(catalog, reads):
    table, memory = new_topic(catalog), ManifestCache()
    for at in range(3):
        append(table, {0: [row(at, "a")], 1: [row(at, "b")]})
    read_logs(table, SETTINGS, memory=memory)
    assert len(reads) == 3
    append(table, {1: [row(3, "b")]})
    views = read_logs(table, SETTINGS, memory=memory)
    assert len(reads) == 4
    assert [(v.partition, len(v.files)) for v in views] == [(0, 3), (1, 4)]
    read_logs(table, SETTINGS, memory=memory)
    assert len(reads) == 4


# a random delete may find its rows gone
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_memory_tells_no_other_story(catalog, seed):
    rng, table, memory, end = random.Random(seed), new_topic(catalog), ManifestCache(), dict.fromkeys(range(3), 0)
    for _ in range(25):
        what, partition = rng.choice(["append"] * 5 + ["late", "delete", "take", "state"]), rng.randrange(3)
        if what in ("append", "late"):
            start = end[partition] if what == "append" else rng.randrange(end[partition] + 1)
            append(table, {partition: [row(start + i, f"k{rng.randrange(5)}") for i in range(3)]})
            end[partition] = max(end[partition], start + rng.choice([3, 3, 7]))
        elif what == "delete":
            table.delete(f"partition = {partition}")
        elif what == "take":
            table.delete(f"partition = {partition} and offset < {rng.randrange(end[partition] + 1)}")
        elif what == "state" and (snapshot := table.current_snapshot()):
            layout = rng.choice([(), (0, end[partition])])
            made = snapshot.snapshot_id, snapshot.sequence_number
            state = LogState(rng.randrange(end[partition] + 1), 0, end[partition], layout=layout, snapshot=made)
            with table.transaction() as change:
                change.set_properties({STATE_PROPERTY: write_state({str(partition): state})})
        if rng.random() < 0.7:
            assert read_logs(table, SETTINGS, memory=memory) == read_logs(table, SETTINGS)


def test_other_columns_are_looked_at_anew(catalog, reads):
    table, memory = new_topic(catalog), ManifestCache()
    append(table, {0: [row(0, "a")]})
    read_logs(table, SETTINGS, memory=memory)
    other = read_settings("", {"hardpack.column.key": "value", "hardpack.column.value": "key"})
    read_logs(table, other, memory=memory)
    assert len(reads) == 2


def test_a_look_that_failed_is_as_if_it_had_not_been(catalog, monkeypatch):
    """The next one would else take what it had read for told."""
    table, memory = new_topic(catalog), ManifestCache()
    append(table, {0: [row(0, "a")]})
    read_logs(table, SETTINGS, memory=memory)
    append(table, {0: [row(1, "a")]})

    def away(*_):
        raise OSError("the storage does not answer")

    with monkeypatch.context() as outage:
        outage.setattr(log_views, "_view", away)
        with pytest.raises(OSError, match="does not answer"):
            read_logs(table, SETTINGS, memory=memory)
    assert read_logs(table, SETTINGS, memory=memory) == read_logs(table, SETTINGS)


def test_what_expired_snapshots_did_is_forgotten(catalog):
    table, memory = new_topic(catalog), ManifestCache()
    append(table, {0: [row(0, "a"), row(1, "b")], 1: [row(0, "c")]})
    made = table.current_snapshot()
    state = LogState(1, 0, 2, snapshot=(made.snapshot_id, made.sequence_number), seen=SeenCommits(made.sequence_number))
    with table.transaction() as change:
        change.set_properties({STATE_PROPERTY: write_state({"0": state, "1": state})})
    for offset in range(2, 6):
        append(table, {0: [row(offset, "b")]})
        table.delete(f"partition = 0 and offset = {offset - 1}")
        read_logs(table, SETTINGS, memory=memory)
        gone = [s.snapshot_id for s in table.snapshots()][:-1]
        table.maintenance.expire_snapshots().by_ids(gone).commit()
    read_logs(table, SETTINGS, memory=memory)
    (known,) = memory._tables.values()
    assert known.changes.keys() <= {s.snapshot_id for s in table.snapshots()}
    assert known.all_files >= known.files
