"""What people tell logs at the same time: nothing of it is lost, though it makes no snapshot to compare with."""

import pytest
from hardpack import Hardpack
from hardpack.compaction.alter_states import mark_uncleanable
from hardpack.operations.pause import pause, resume
from hardpack.table.catalog import open_catalog
from hardpack.table.history import trusted_states
from pyiceberg.types import IntegerType

from tests.rest_catalog import rest_over
from tests.topics import append, name_of, new_topic, row, session_of


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {p: [row(0, "a")] for p in range(3)})
    return table


@pytest.fixture
def in_between(monkeypatch):
    """Do something once, between the reading of the state and its commit."""

    def plant(catalog, action):
        real, done = catalog.commit_table, []

        def commit(*arguments):
            if not done:
                done.append(True)
                action()
            return real(*arguments)

        monkeypatch.setattr(catalog, "commit_table", commit)

    return plant


def states_of(table):
    return {p: (s.paused, s.uncleanable) for p, s in trusted_states(table.refresh()).items()}


def test_both_are_kept(catalog, topic, in_between):
    other = catalog.load_table(name_of(topic))
    in_between(catalog, lambda: mark_uncleanable(session_of(other), [1], "the gate refused"))
    assert pause(session_of(topic), [0])["0"].paused == 1
    assert states_of(topic) == {"0": (1, ""), "1": (0, "the gate refused")}


def test_pauses_of_one_log_count(catalog, topic, in_between):
    other = catalog.load_table(name_of(topic))
    in_between(catalog, lambda: pause(session_of(other), [0]))
    pause(session_of(topic), [0])
    assert states_of(topic) == {"0": (2, "")}


def test_of_three_at_once_none_is_lost(catalog, topic, in_between):
    others = [catalog.load_table(name_of(topic)) for _ in range(2)]

    def both():
        pause(session_of(others[0]), [1])
        pause(session_of(others[1]), [2])

    in_between(catalog, both)
    pause(session_of(topic), [0])
    assert states_of(topic) == {"0": (1, ""), "1": (1, ""), "2": (1, "")}


def test_what_another_writer_does_beside_changes_nothing(catalog, topic, in_between):
    other = catalog.load_table(name_of(topic))

    def comment():
        with other.transaction() as change:
            change.set_properties({"comment": "x"})

    pause(session_of(topic), [0, 1])
    in_between(catalog, comment)
    resume(session_of(topic), [1], 0)
    assert states_of(topic) == {"0": (1, ""), "1": (0, "")}
    assert topic.properties["comment"] == "x"


def test_a_table_whose_mapped_column_is_gone_can_be_paused(topic):
    """Somebody dropped the column of the leader epoch: no pass may touch the table, but people may."""
    with topic.update_schema() as schema:
        schema.add_column("epoch", IntegerType())
    with topic.transaction() as change:
        change.set_properties({"hardpack.column.leader.epoch": "epoch"})
    with topic.update_schema() as schema:
        schema.delete_column("epoch")
    assert pause(session_of(topic), [0])["0"].paused == 1
    assert resume(session_of(topic), None, 0)["0"].paused == 0


def test_none_is_lost_in_a_rest_catalog_either(catalog, topic):
    """It checks what a commit requires and nothing else, so the commit has to require the snapshot that it read."""
    name = name_of(topic)

    def somebody(tries_before):
        if not tries_before:
            mark_uncleanable(session_of(catalog.load_table(name)), [1], "the gate refused")

    with rest_over(catalog, name, somebody) as (uri, came):
        Hardpack(open_catalog("r", {"type": "rest", "uri": uri})).pause(name, [0])
    assert states_of(topic) == {"0": (1, ""), "1": (0, "the gate refused")}
    assert [status for _, status in came] == [409, 200]
    assert all({"assert-table-uuid", "assert-ref-snapshot-id"} <= set(required) for required, _ in came)
