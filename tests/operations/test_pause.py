"""What people tell logs at the same time: nothing of it is lost, though it makes no snapshot to compare with."""

import pytest
from hardpack import Hardpack
from hardpack.compaction.alter_states import mark_uncleanable
from hardpack.errors import BadInput
from hardpack.operations.pause import pause, resume
from hardpack.operations.status import table_status
from hardpack.rules.model import LogState, SeenCommits, SnapshotRef
from hardpack.table.catalog import open_catalog
from hardpack.table.history import trusted_states
from hardpack.table.state import STATE_PROPERTY, write_state
from pyiceberg.types import IntegerType

from tests.rest_catalog import rest_over
from tests.topics import T0, append, name_of, new_topic, row, session_of


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


def late_behind_a_removed_tombstone(table, log):
    """A row of a log arrives where its tombstones up to offset 9 are gone."""
    snapshot = table.refresh().current_snapshot()
    seen = SnapshotRef(snapshot.snapshot_id, snapshot.sequence_number)
    state = LogState(20, expired_to=9, log_end=20, snapshot=seen, seen=SeenCommits(seen.sequence_number))
    with table.transaction() as change:
        change.set_properties({STATE_PROPERTY: write_state(dict.fromkeys("012", state))})
    append(table.refresh(), {log: [row(3, "b")]})


def test_trust_reaches_only_logs_whose_late_rows_are_refused(topic):
    """The other logs would forget what tombstones are gone, and take a deleted key's row later without a word."""
    late_behind_a_removed_tombstone(topic, 0)
    refused = [log.partition for log in table_status(session_of(topic), T0) if "--trust-late-rows" in log.reason]
    assert refused == [0]
    resume(session_of(topic), None, T0, trust_late_rows=True)
    states = trusted_states(topic.refresh())
    assert {p: state.expired_to for p, state in states.items()} == {"0": -1, "1": 9, "2": 9}
    assert not any("refused" in log.reason for log in table_status(session_of(topic), T0))


def test_trust_lets_in_rows_that_seem_to_be_of_another_topic(topic):
    """It is not asked for again when the topic goes on."""
    append(topic, {0: [row(30, "a")]})
    snapshot = topic.refresh().current_snapshot()
    seen = SnapshotRef(snapshot.snapshot_id, snapshot.sequence_number)
    state = LogState(31, log_end=31, snapshot=seen, seen=SeenCommits(seen.sequence_number))
    with topic.transaction() as change:
        change.set_properties({STATE_PROPERTY: write_state({"0": state, "1": state})})
    append(topic.refresh(), {0: [row(0, "a")]}, at=T0 + 10)

    def refused():
        return [log.partition for log in table_status(session_of(topic.refresh()), T0) if "--trust" in log.reason]

    assert refused() == [0]
    with pytest.raises(BadInput, match="no late rows of it wait to be trusted"):
        resume(session_of(topic), [1], T0, trust_late_rows=True)
    resume(session_of(topic), None, T0, trust_late_rows=True)
    assert refused() == []
    append(topic.refresh(), {0: [row(1, "b")]}, at=T0 + 20)
    assert refused() == []


def test_there_is_nothing_to_trust_where_no_row_came_late(topic):
    late_behind_a_removed_tombstone(topic, 0)
    with pytest.raises(
        BadInput, match=r"partition 2 is neither paused nor marked by a pass, and no late rows of it wait"
    ):
        resume(session_of(topic), [2], T0, trust_late_rows=True)
    assert {state.expired_to for state in trusted_states(topic.refresh()).values()} == {9}


def test_trust_is_said_to_count_for_nothing_where_late_rows_are_refused_anyhow(topic):
    late_behind_a_removed_tombstone(topic, 0)
    with topic.refresh().transaction() as change:
        change.set_properties({"hardpack.late.rows": "refuse"})
    with pytest.raises(BadInput, match="trust lets no late rows in"):
        resume(session_of(topic), [0], T0, trust_late_rows=True)
    assert trusted_states(topic.refresh())["0"].expired_to == 9
