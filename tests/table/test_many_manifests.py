"""Very many entries are decoded by several processes, which see what one sees and refuse what one refuses."""

import gc
import os
import signal
from multiprocessing import current_process

import pytest
from hardpack.rules.settings import read_settings
from hardpack.table import manifests
from hardpack.table.log_views import read_logs
from hardpack.table.manifests import ManifestReader, uncollected

from tests.topics import append, new_topic, row, without_statistics

SETTINGS = read_settings("", {})


@pytest.fixture
def large(monkeypatch):
    """Every manifest is worth a process, and nothing is decoded in this one."""

    def entries(*_):
        raise AssertionError

    monkeypatch.setattr(manifests, "ENTRIES_PER_PROCESS", 1)
    monkeypatch.setattr(ManifestReader, "entries", entries)


@pytest.fixture
def topic(catalog):
    """Three manifests of two logs each."""
    table = new_topic(catalog)
    for at in range(3):
        append(table, {0: [row(at, "a", None)], 1: [row(at, None)]})
    return table


def test_several_processes_tell_what_one_does(topic, request):
    alone = read_logs(topic, SETTINGS)
    request.getfixturevalue("large")
    assert read_logs(topic, SETTINGS) == alone
    assert [len(view.files) for view in alone] == [3, 3]


def test_what_one_of_them_finds_wrong_is_said_as_ever(topic, large):
    with topic.transaction() as change:
        change.set_properties({"write.metadata.metrics.column.offset": "none"})
    with without_statistics():
        append(topic, {0: [row(3, "a")]})
    bad, good = read_logs(topic, SETTINGS)
    assert "no bounds of column 'offset'" in bad.trouble
    assert good.trouble == ""


class Deadly:
    """An IO that ends every process but the one that made it."""

    def __init__(self, io):
        self.io, self.maker = io, os.getpid()

    def new_input(self, location):
        if os.getpid() != self.maker:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.io.new_input(location)


def test_a_killed_process_costs_no_more_than_time(topic, monkeypatch):
    alone = read_logs(topic, SETTINGS)
    monkeypatch.setattr(manifests, "ENTRIES_PER_PROCESS", 1)
    topic.io = Deadly(topic.io)
    assert read_logs(topic, SETTINGS) == alone


def test_a_daemonic_process_decodes_alone(topic, monkeypatch):
    alone = read_logs(topic, SETTINGS)
    monkeypatch.setattr(manifests, "ENTRIES_PER_PROCESS", 1)
    monkeypatch.setitem(current_process()._config, "daemon", True)
    assert read_logs(topic, SETTINGS) == alone


@pytest.mark.parametrize("collects", [True, False])
def test_objects_are_collected_again_after_looks_that_overlap(collects):
    """As those of two threads do."""
    (gc.enable if collects else gc.disable)()
    try:
        one, other = uncollected(), uncollected()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert not gc.isenabled()
        other.__exit__(None, None, None)
        assert gc.isenabled() is collects
    finally:
        gc.enable()
