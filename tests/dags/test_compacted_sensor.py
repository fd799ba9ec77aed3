"""Waiting until a table is compacted up to a time or an offset."""

from datetime import UTC, datetime

import pytest
from hardpack.clock import clock
from hardpack.rules.model import LogState
from hardpack.table.state import STATE_PROPERTY, write_state

from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.dags


@pytest.fixture
def looks(catalog, tmp_path, monkeypatch):
    """Whether the sensor is content with a table, cleaned up to offset 2, whose rows came a minute apart."""
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from hardpack import Hardpack
    from hardpack_airflow.compacted_sensor import CompactedSensor

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name: cls(catalog)))
    table = new_topic(catalog)
    for offset in range(4):
        append(table, {0: [row(offset, "a")], 1: [row(offset, "b")]}, at=T0 + offset * 60_000)

    def covered(*checkpoints):
        snapshot = table.refresh().current_snapshot()
        made = snapshot.snapshot_id, snapshot.sequence_number
        states = {str(log): LogState(to, None, 4, (), snapshot=made) for log, to in enumerate(checkpoints)}
        with table.transaction() as change:
            change.set_properties({STATE_PROPERTY: write_state(states)})

    def look(**arguments):
        look.table = table
        return CompactedSensor(task_id="any", **{"table": name_of(table)} | arguments).poke({})

    return covered, look


def test_a_table_is_compacted_up_to_an_offset_when_every_log_is(looks):
    covered, look = looks
    assert not look(offset=1)
    covered(2, 3)
    assert look(offset=2)
    assert not look(offset=3)
    assert look(offset=3, partitions=["1"])


def test_a_table_is_compacted_up_to_a_time_when_all_older_rows_are_covered(looks):
    covered, look = looks
    assert not look(up_to=str(T0 + 1))
    covered(2, 3)
    assert look(up_to=str(T0 + 120_000))
    assert not look(up_to=str(T0 + 120_001))
    assert look(up_to="2020-09-13T12:29:40+00:00", partitions=["1"])


def test_a_row_that_is_stamped_in_the_future_is_not_covered(looks):
    """As where the clock of a producer is ahead."""
    covered, look = looks
    ahead = clock() + 3_600_000
    covered(4, 4)
    assert look(up_to=str(ahead + 1))
    append(look.table.refresh(), {0: [row(4, "a")]}, at=ahead)
    assert not look(up_to=str(ahead + 1))


def test_a_time_may_come_as_one_and_a_catalog_may_be_away_for_a_while(looks, monkeypatch):
    from hardpack import Hardpack
    from hardpack.errors import Unavailable
    from hardpack_airflow import trigger

    covered, look = looks
    covered(2, 3)
    # as of a DAG that renders native objects
    assert look(up_to=datetime.fromtimestamp((T0 + 120_000) / 1000, UTC))
    real, away = Hardpack.status, [1, 1]

    def status(self, *asked):
        if away:
            away.pop()
            raise Unavailable("it is away.")
        return real(self, *asked)

    monkeypatch.setattr(trigger.patient.__globals__["time"], "sleep", lambda _: None)
    monkeypatch.setattr(Hardpack, "status", status)
    assert look(offset=2)
    opened, away = Hardpack.connect, [1, 1]

    def connect(name):
        if away:
            away.pop()
            raise Unavailable("it is away.")
        return opened(name)

    monkeypatch.setattr(Hardpack, "connect", connect)
    assert look(offset=2)


def test_what_cannot_be_waited_for_is_refused(looks):
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow.compacted_sensor import CompactedSensor

    _, look = looks
    for given in ({}, {"up_to": "1", "offset": 1}):
        with pytest.raises(ValueError, match="give it up_to or offset"):
            CompactedSensor(task_id="any", table="a.b", **given)
    with pytest.raises(AirflowFailException, match="up_to is empty once it is rendered"):
        # as a template of a form's blank field renders
        CompactedSensor(task_id="any", table="a.b", up_to=" ").poke({})
    with pytest.raises(AirflowFailException, match="there is no log 7"):
        look(offset=1, partitions=["7"])
    with pytest.raises(AirflowFailException, match="is no time"):
        look(up_to="soon")
    with pytest.raises(AirflowFailException, match="no such table"):
        look(table="t.nowhere", offset=1)


def test_rows_that_came_late_are_not_covered(looks):
    covered, look = looks
    covered(4, 4)
    assert look(offset=4)
    append(look.table, {0: [row(1, "late")]})
    assert not look(offset=4)
    assert look(offset=1)
    assert look(offset=4, partitions=["1"])


def test_a_table_without_a_row_has_no_offset_yet(looks, catalog):
    _, look = looks
    empty = name_of(new_topic(catalog))
    assert not look(table=empty, offset=1)
    assert not look(table=empty, offset=1, partitions=["0"])
    assert look(table=empty, up_to=str(T0))


def test_rows_of_which_nothing_tells_a_time_may_be_older(looks, monkeypatch):
    from hardpack.operations import status

    covered, look = looks
    covered(2, 4)
    assert look(up_to=str(T0 + 1))
    monkeypatch.setattr(status, "is_time", lambda ms: False)
    assert not look(up_to=str(T0 + 1))
    assert look(up_to=str(T0 + 1), partitions=["1"])


def test_files_of_several_logs_may_have_rows_of_any(looks, monkeypatch):
    from hardpack import Hardpack
    from hardpack.operations.status import MIXED

    covered, look = looks
    covered(4, 4)
    real = Hardpack.status

    def with_mixed(self, table, now):
        logs = real(self, table, now)
        mixed = {"partition": MIXED, "checkpoint": None, "first_dirty": 0, "log_end": 0}
        return [*logs, logs[0].model_copy(update=mixed)]

    monkeypatch.setattr(Hardpack, "status", with_mixed)
    assert not look(offset=4, partitions=["1"])
    # which logs there are is not known before they are split
    assert not look(offset=4, partitions=["7"])
    # rows that are stamped in the future are not covered there either
    assert not look(up_to=str(clock() + 3_600_000), partitions=["1"])
    # and nothing tells how old their rows are
    monkeypatch.setattr(Hardpack, "status", lambda *given: [
        one.model_copy(update={"dirty_age_ms": None, "first_uncleanable": 0}) for one in with_mixed(*given)
    ])  # fmt: skip
    assert not look(up_to=str(T0), partitions=["1"])


def test_one_file_without_a_time_leaves_all_ages_open():
    from hardpack.operations.status import _age

    assert (_age([], 10), _age([4, 7], 10), _age([4, None], 10), _age([-1], 10)) == (0, 6, None, None)
