"""Phase two with nothing due, a check with nothing to read: decided by metadata in Airflow's process, without Spark."""

import json

import pytest
from hardpack.compaction import alter_states
from hardpack.compaction.gate_read import fingerprint
from hardpack.compaction.report import LogReport, PassReport
from hardpack.rules.model import LogState
from hardpack.rules.settings import Settings
from hardpack.table.layout import FIELDS, bound_fields
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY, STATE_PROPERTY, write_state

from tests.conftest import CATALOG
from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.dags


@pytest.fixture
def done(lake, monkeypatch):
    from hardpack_airflow import idle
    from pyiceberg.catalog import load_catalog

    monkeypatch.setattr("hardpack.api.open_catalog", lambda name, properties: load_catalog(CATALOG, **lake))
    return lambda verb, *plans: idle.done_without_spark(verb, plans, CATALOG)


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


def with_a_pass(catalog, judged):
    """A table as a pass leaves it that found nothing to drop, and whose gate read these files, empty for a sample."""
    made = new_topic(catalog)
    append(made, {0: [row(0, "a"), row(1, "b")]})
    files = [f["file_path"] for f in made.inspect.files().to_pylist()]
    name, base, state = name_of(made), made.current_snapshot().snapshot_id, write_state({"0": LogState(checkpoint=2)})
    sizes = {name: 0 for name in ("bytes_before", "bytes_after")} | {"rows_before": 2, "rows_after": 2}
    log = LogReport(
        partition=0,
        checkpoint_before=None,
        checkpoint_after=2,
        log_end=2,
        gate_read=fingerprint(files) if judged else "",
        **sizes,
    )
    report = PassReport(table=name, phase="one", plan="0" * 16, now=T0, base=base, logs=(log,))
    summary = {
        PLAN_SUMMARY: f"one:{report.plan}", PASS_SUMMARY: report.summary_json(), STATE_PROPERTY: state,
        FIELDS: bound_fields(made, Settings()),
    }  # fmt: skip
    alter_states._commit(made, state, summary)
    return made.refresh()


@pytest.fixture
def read_before(catalog):
    return with_a_pass(catalog, judged=True)


def test_nothing_is_due_before_the_horizon(table, cold, done):
    with_a_horizon(table, T0 + 2000)
    [report] = done("phase_two", cold.plan(name_of(table), T0 + 1000).to_json())
    assert (report["table"], report["logs"], report["spark_application"]) == (name_of(table), [], "")
    assert report["snapshot"] is None


def test_a_due_tombstone_is_left_to_spark(table, cold, done):
    with_a_horizon(table, T0 + 500)
    plan = cold.plan(name_of(table), T0 + 1000)
    assert [log.action for log in plan.logs] == ["expire"]
    assert done("phase_two", plan.to_json()) == [None]


def test_of_a_table_phase_two_is_of_all_that_is_due(table, done):
    """Also where a log is not due for phase one, and was not cleaned by this run."""
    request = json.dumps({"table": name_of(table), "now": T0 + 1000})
    with_a_horizon(table, T0 + 2000)
    [report] = done("phase_two", request)
    assert (report["table"], report["logs"]) == (name_of(table), [])
    with_a_horizon(table, T0 + 500)
    assert done("phase_two", request) == [None]
    assert done("phase_two", json.dumps({"table": name_of(table), "now": T0 + 1000, "partitions": ["0"]})) == [None]


def test_a_check_of_rows_that_no_gate_has_read_is_left_to_spark(catalog, cold, done, read_before):
    """One of two tables is left to Spark, and so is the request to check a whole table, which is no plan."""
    plans = [cold.plan(name_of(table), T0).to_json() for table in (read_before, with_a_pass(catalog, judged=False))]
    whole = json.dumps({"table": name_of(read_before), "now": T0})
    known, *others = done("verify", *plans, whole)
    assert (known["success"], known["not_read_again"], known["data_docs"], known["spark_application"]) == (
        True,
        1,
        [],
        "",
    )
    assert others == [None, None]


def test_the_users_own_expectations_are_left_to_spark(cold, done, home, read_before, monkeypatch):
    monkeypatch.setattr("hardpack.api.default_home", lambda: home)
    file = home / "expectations" / f"{name_of(read_before)}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "offset"}}]}'
    )
    plan = cold.plan(name_of(read_before), T0).to_json()
    assert done("verify", plan) == [None]
    file.unlink()
    assert done("verify", plan) != [None]


def test_phase_one_and_maintenance_are_always_done_by_spark(table, cold, done):
    assert done("phase_one", cold.plan(name_of(table), T0).to_json()) == [None]
    assert done("maintain", '{"table": "a.b", "now": 1}') == [None]


@pytest.mark.parametrize("verb", ["phase_two", "verify"])
def test_spark_is_asked_where_metadata_cannot_be_read(done, verb):
    assert done(verb, '{"table": "no.such"}', "no plan") == [None, None]
