"""A change of properties beside others who change the same table."""

import pytest
from hardpack.errors import Conflict
from hardpack.operations.alter_properties import TRIES, alter_properties
from pyiceberg.exceptions import CommitFailedException

from tests.topics import new_topic, session_of


@pytest.fixture
def altered(catalog, monkeypatch):
    """Changes a table while so many commits are outrun; gives the table and how many were tried."""

    def alter(outrun):
        table, tries, real = new_topic(catalog), [], type(catalog).commit_table
        session = session_of(table)

        def commit(self, *asked):
            tries.append(1)
            if len(tries) <= outrun:
                raise CommitFailedException("Table has been updated by another process")
            return real(self, *asked)

        monkeypatch.setattr(alter_properties.retry, "sleep", lambda _: None)
        monkeypatch.setattr(type(session.table.catalog), "commit_table", commit)
        alter_properties(session, {"mine": "1"}, ["hardpack.cleanup.policy", "none"])
        return table.refresh().properties, len(tries)

    return alter


def test_a_race_that_is_lost_is_run_again(altered):
    properties, tries = altered(outrun=3)
    assert (properties["mine"], tries) == ("1", 4)
    assert "hardpack.cleanup.policy" not in properties


def test_what_was_checked_is_not_written_beside_settings_that_came_meanwhile(catalog, monkeypatch):
    table = new_topic(catalog)
    session, real, tries = session_of(table), type(catalog).commit_table, []

    def commit(self, *asked):
        tries.append(1)
        if len(tries) == 1:
            with catalog.load_table(table.name()).transaction() as change:
                change.set_properties({"hardpack.late.rows": "refuse"})
            raise CommitFailedException("Table has been updated by another process")
        return real(self, *asked)

    monkeypatch.setattr(alter_properties.retry, "sleep", lambda _: None)
    monkeypatch.setattr(type(session.table.catalog), "commit_table", commit)
    with pytest.raises(Conflict, match="somebody changed the table's settings or columns meanwhile; run it again"):
        alter_properties(session, {"hardpack.late.rows": "clean"})
    assert table.refresh().properties["hardpack.late.rows"] == "refuse"


def test_a_race_that_is_always_lost_is_a_conflict(altered):
    with pytest.raises(Conflict, match=rf"the table changed during each of {TRIES} tries; run it again"):
        altered(outrun=TRIES)
