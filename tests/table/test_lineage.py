"""How rows came to be: what others rewrote since a pass, told from what they put there (invariant 9). No JVM."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hardpack.operations.pause import remember
from hardpack.rules.model import LogState, SeenCommits, SnapshotRef
from hardpack.rules.settings import read_settings
from hardpack.table.log_views import read_logs
from hardpack.table.state import STATE_PROPERTY, write_state
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from tests.topics import T0, append, new_topic, row, session_of

CLEANED = {"checkpoint": 4, "log_end": 5, "horizons": ((3, T0 + 100),), "expired_to": 0}


def view_of(table):
    (view,) = read_logs(table.refresh(), read_settings("", table.properties))
    return view


def expired(table):
    """All snapshots but the newest are gone."""
    table.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in table.snapshots() if s.snapshot_id != table.current_snapshot().snapshot_id]
    ).commit()
    table.refresh()


@pytest.fixture
def topic(catalog):
    """Three files, and a state as a pass over the first two leaves it: a@0, b@1, the tombstone c@3; 4 is active."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(3, "c", None)]})
    append(table, {0: [row(4, "d")]})
    at = table.current_snapshot()
    seen = SeenCommits(at.sequence_number, at.sequence_number)
    state = LogState(**CLEANED, snapshot=SnapshotRef(at.snapshot_id, at.sequence_number), seen=seen)
    with table.transaction() as change:
        change.set_properties({STATE_PROPERTY: write_state({"0": state})})
    return table


def rewritten(table, change=lambda rows: rows):
    """All rows are written anew in one commit, as an UPDATE, a sort or a bin-pack of others does."""
    rows, old = change(table.refresh().scan().to_arrow()), [task.file for task in table.scan().plan_files()]
    transaction = table.transaction()
    with transaction.update_snapshot().overwrite() as update:
        for file in old:
            update.delete_data_file(file)
        for file in _dataframe_to_data_files(transaction.table_metadata, rows, table.io):
            update.append_data_file(file)
    transaction.commit_transaction()
    table.refresh()


def test_rows_that_arrive_below_the_checkpoint_are_late(topic):
    append(topic, {0: [row(2, "b")]})
    assert (view_of(topic).unseen_from, view_of(topic).late_from) == (2, 2)


def test_late_rows_stay_late_when_others_rewrite_their_file(topic):
    append(topic, {0: [row(2, "a"), row(3, "e")]})
    topic.delete("offset = 3 and value is not null")
    assert view_of(topic).late_from == 2


def test_a_rewrite_of_all_rows_forgets_nothing_and_is_looked_at_again(topic):
    """Keys may have changed, so that what was clean has to be cleaned again; but no row has arrived."""
    rewritten(topic)
    view = view_of(topic)
    assert (view.state.checkpoint, view.state.horizons, view.state.expired_to) == (4, ((3, T0 + 100),), 0)
    assert (view.unseen_from, view.late_from) == (0, None)


def test_rows_that_replace_all_others_are_a_log_of_their_own(topic):
    later = pa.scalar(T0 * 1000 + 10**9, pa.int64()).cast(pa.timestamp("us", "UTC"))

    def others(rows):
        times = pa.repeat(later, len(rows)).cast(rows.schema.field("timestamp").type)
        return rows.set_column(2, rows.schema.field("timestamp"), times)

    rewritten(topic, others)
    state = view_of(topic).state
    assert replace(state, replaced=()) == LogState()
    assert [(old.by, old.expired_to) for old in state.replaced] == [(4, 0)], "somebody may go back"


def test_an_old_log_goes_on_when_others_delete_some_of_it_file_by_file(topic):
    append(topic, {0: [row(5, "e")]})
    topic.delete("offset < 2")
    topic.delete("offset < 5")
    assert view_of(topic).state.checkpoint == 4


def test_what_no_snapshot_tells_any_more_is_cleaned_again(topic):
    """Where a log starts anew with the history, it is dirty from its first row on without (invariant 9)."""
    rewritten(topic)
    before = view_of(topic)
    expired(topic)
    after = view_of(topic)
    assert after.state.checkpoint == before.state.checkpoint == 4
    assert after.unseen_from == before.unseen_from == 0


def test_what_history_tells_is_kept_in_the_state_before_it_expires(topic):
    append(topic, {0: [row(5, "e")]})
    rewritten(topic)
    before = view_of(topic)
    remember(session_of(topic), T0)
    expired(topic)
    after = view_of(topic)
    assert (after.unseen_from, after.late_from) == (before.unseen_from, before.late_from) == (0, None)
    snapshots = len(topic.snapshots())
    remember(session_of(topic), T0)
    assert len(topic.refresh().snapshots()) == snapshots, "nothing is new, so nothing is written"


def test_a_state_of_what_is_no_log_does_not_hide_the_others(topic):
    """A row without a number was paused, or the column of the logs was another once."""
    with topic.transaction() as change:
        known = topic.properties[STATE_PROPERTY].replace('{"0"', '{"null":{"end":0},"eu":{"end":3},"0"')
        change.set_properties({STATE_PROPERTY: known})
    assert view_of(topic).state.checkpoint == 4
