"""A look at some logs reads only the manifests that may hold them, and tells of them what a whole look tells."""

import pytest
from hardpack.compaction.plan import PlanRequest
from hardpack.compaction.planning import make_plan
from hardpack.rules.settings import read_settings
from hardpack.table.log_views import read_logs
from hardpack.table.manifest_cache import ManifestCache
from hardpack.table.manifests import ManifestReader

from tests.topics import T0, append, new_topic, row, session_of

SETTINGS = read_settings("", {})


@pytest.fixture
def topic(catalog):
    """Two commits of each of four logs, and one commit of two logs together."""
    table = new_topic(catalog, active_segment="none", min_cleanable_dirty_ratio=0)
    for turn in range(2):
        for log in range(4):
            append(table, {log: [row(turn, "a")]})
    append(table, {1: [row(2, "a")], 2: [row(2, "a")]})
    return table


@pytest.fixture
def decoded(monkeypatch):
    """Paths of the manifests that were read."""
    real, paths = ManifestReader.entries, []

    def entries(reader, manifest, io=None):
        paths.append(manifest.manifest_path)
        return real(reader, manifest, io)

    monkeypatch.setattr(ManifestReader, "entries", entries)
    return paths


@pytest.mark.parametrize(
    ("wanted", "manifests"), [([0], 2), ([1], 3), (["1", 2], 5), ([7], 0), (["x"], 0), ([], 0), (range(4), 9)]
)
def test_only_their_manifests_are_read(topic, decoded, wanted, manifests):
    whole = read_logs(topic, SETTINGS)
    decoded.clear()
    names = {str(p) for p in wanted}
    assert read_logs(topic, SETTINGS, partitions=wanted) == [v for v in whole if str(v.partition) in names]
    assert len(decoded) == manifests


def test_nothing_partial_is_remembered(topic, decoded):
    memory = ManifestCache()
    one = read_logs(topic, SETTINGS, memory=memory, partitions=[1])
    whole = read_logs(topic, SETTINGS, memory=memory)
    assert [len(v.files) for v in whole] == [2, 3, 3, 2]
    decoded.clear()
    assert read_logs(topic, SETTINGS, memory=memory, partitions=[1]) == one
    assert decoded == [], "all is known already"


def test_a_plan_of_one_log_reads_its_manifests_alone(topic, decoded):
    plan = make_plan(session_of(topic), PlanRequest(T0, partitions=["3"]))
    assert [(p.partition, p.action) for p in plan.logs] == [(3, "clean")]
    assert len(decoded) == 2
