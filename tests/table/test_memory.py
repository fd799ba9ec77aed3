"""A look that remembers manifests sees what a look without memory sees, and reads only what is new."""

import random

import pytest
from hardpack.rules.model import LogState
from hardpack.rules.settings import read_settings
from hardpack.table.log_views import ManifestCache, read_logs
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
