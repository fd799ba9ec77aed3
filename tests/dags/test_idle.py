"""Phase two with nothing due: decided by metadata in Airflow's process, without Spark."""

import pytest
from hardpack.rules.model import LogState
from hardpack.table.state import STATE_PROPERTY, write_state

from tests.conftest import CATALOG
from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.dags


@pytest.fixture
def expired_nothing(lake, monkeypatch):
    from hardpack_airflow import idle
    from pyiceberg.catalog import load_catalog

    monkeypatch.setattr("hardpack.api.open_catalog", lambda name, properties: load_catalog(CATALOG, **lake))
    return lambda plan: idle.expired_nothing(plan, CATALOG)


@pytest.fixture
def table(catalog):
    made = new_topic(catalog, idle_tombstones="expire")
    append(made, {0: [row(0, "a"), row(1, "b", None)]})
    append(made, {0: [row(2, "c")]})
    return made


def with_a_horizon(table, at):
    """As a pass leaves it that saw the tombstone."""
    with table.transaction() as change:
        state = LogState(checkpoint=2, horizons=((1, at),))
        change.set_properties({STATE_PROPERTY: write_state({"0": state})})


def test_nothing_is_due_before_the_horizon(table, cold, expired_nothing):
    with_a_horizon(table, T0 + 2000)
    report = expired_nothing(cold.plan(name_of(table), T0 + 1000).to_json())
    assert (report["table"], report["logs"], report["spark_application"]) == (name_of(table), [], "")
    assert report["snapshot"] is None


def test_a_due_tombstone_is_left_to_spark(table, cold, expired_nothing):
    with_a_horizon(table, T0 + 500)
    plan = cold.plan(name_of(table), T0 + 1000)
    assert [log.action for log in plan.logs] == ["expire"]
    assert expired_nothing(plan.to_json()) is None


def test_spark_is_asked_where_metadata_cannot_be_read(expired_nothing):
    assert expired_nothing('{"table": "no.such"}') is None
    assert expired_nothing("no plan") is None
