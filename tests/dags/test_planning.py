"""What the sensor and the plan task see of many tables, from metadata alone."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hardpack.compaction.alter_states import mark_uncleanable
from hardpack.compaction.plan import Plan
from hardpack.operations.units import SHARED_PLANS, planned_logs, share
from hardpack_airflow.planning import (
    LONGEST_LABEL,
    plan_units,
    run_interval,
    run_time,
    shortened,
)

from tests.topics import T0, append, name_of, new_topic, row, session_of

pytestmark = pytest.mark.usefixtures("own_home")


def seen(catalog, monkeypatch, pattern, partitions=None, previous=None, tables=("*.*",), only=None):
    from hardpack import Hardpack

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, **given: cls(catalog, **given)))
    policy = {"name": "all", "tables": tables, "unit.bytes": 10**12}
    return plan_units("hardpack", policy, [pattern], partitions, False, T0, previous=previous, only=only)


def tables_of(found):
    """The tables of the units, in their order."""
    return [json.loads(plan)["table"] for unit in found["units"] for plan in unit["plans"]]


def test_the_filthiest_table_comes_first(catalog, monkeypatch):
    half, full = new_topic(catalog, min_cleanable_dirty_ratio=0), new_topic(catalog, min_cleanable_dirty_ratio=0)
    for table in (half, full):
        for offset in (0, 1, 2):
            append(table, {0: [row(offset, "a")]})
    with half.transaction() as transaction:
        state = {"version": 1, "logs": {"0": {"checkpoint": 1, "start": 0, "end": 1, "horizons": [], "last_clean": {}}}}
        transaction.set_properties({"hardpack.state": json.dumps(state)})
    names = [name_of(half), name_of(full)]
    found = tables_of(seen(catalog, monkeypatch, "t.*"))
    assert [table for table in found if table in names] == names[::-1]


def test_the_settings_of_a_policy_that_was_made_in_code_count(catalog, monkeypatch):
    """The worker's policy file, if there is one, does not know it."""
    from hardpack import Hardpack

    table = new_topic(catalog)
    for offset in (0, 1):
        append(table, {0: [row(offset, "a")]})
    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, **given: cls(catalog, **given)))
    for settings, units in (({}, 1), ({"min.compaction.lag.ms": 10**13}, 0)):
        policy = {"name": "mine", "tables": [name_of(table)], "settings": settings}
        assert len(plan_units("hardpack", policy, [name_of(table)], None, False, T0)["units"]) == units


def test_logs_that_wait_for_somebody_are_told_and_no_others(catalog, monkeypatch):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    for offset in (0, 1):
        append(table, {0: [row(offset, "a")], 1: [row(offset, "a")]})
    mark_uncleanable(session_of(table), [1], "the gate refused")
    found = seen(catalog, monkeypatch, name_of(table))
    (held,) = found["held"]
    assert (held["table"], held["partition"]) == (name_of(table), 1)
    assert "the gate refused" in held["reason"]
    (why,) = planned_logs([Plan.from_json(plan) for unit in found["units"] for plan in unit["plans"]])
    assert str(why) == f"{name_of(table)}/0: dirty ratio 1.000 is above 0"


def test_a_broken_table_is_an_error_beside_the_others(catalog, monkeypatch):
    good, broken = new_topic(catalog, min_cleanable_dirty_ratio=0), new_topic(catalog, min_cleanable_dirty_ratio=9)
    append(good, {0: [row(0, "a")]})
    append(good, {0: [row(1, "a")]})
    found = seen(catalog, monkeypatch, "t.*")
    assert name_of(good) in tables_of(found)
    assert any(name_of(broken) in e for e in found["errors"])


def test_an_outage_in_the_middle_hides_nothing_else(catalog, monkeypatch):
    """A table dropped, or its metadata unreadable, between the list and the look."""
    from hardpack import Hardpack

    good, away = new_topic(catalog, min_cleanable_dirty_ratio=0), new_topic(catalog)
    append(good, {0: [row(0, "a")]})
    append(good, {0: [row(1, "a")]})
    real = Hardpack.plan_of

    def plan_of(self, table, *arguments, **named):
        if name_of(table) == name_of(away):
            raise OSError("connection reset")
        return real(self, table, *arguments, **named)

    monkeypatch.setattr(Hardpack, "plan_of", plan_of)
    found = seen(catalog, monkeypatch, "t.*")
    said = [error for error in found["errors"] if error.startswith(f"{name_of(away)}: a service did not answer")]
    assert "connection reset" in said[0]
    assert name_of(good) in tables_of(found)
    assert not seen(catalog, monkeypatch, name_of(away))["lasting"]


def test_a_strangers_table_that_answers_again_is_not_asked_to_be_adopted(catalog, monkeypatch):
    """The sensor was told of its outage, and the task behind it looks at it again."""
    good, foreign = new_topic(catalog, min_cleanable_dirty_ratio=0), "t.foreign"
    for offset in (0, 1):
        append(good, {0: [row(offset, "a")]})
    catalog.create_table(foreign, good.schema())
    found = seen(catalog, monkeypatch, "t.*", only=[name_of(good), foreign])
    assert (tables_of(found), found["errors"], found["gauges"]) == ([name_of(good)], [], {})
    assert foreign not in str(found["reasons"])
    other = new_topic(catalog, min_cleanable_dirty_ratio=0)
    for offset in (0, 1):
        append(other, {0: [row(offset, "a")]})
    assert tables_of(seen(catalog, monkeypatch, "t.*", only=[name_of(other)])) == [name_of(other)]
    (error,) = seen(catalog, monkeypatch, foreign)["errors"]
    assert f"hardpack adopt {foreign}" in error


def test_what_an_earlier_policy_names_too_is_no_error_unless_somebody_asks_for_it(catalog, monkeypatch, tmp_path):
    table = name_of(new_topic(catalog))
    path = tmp_path / "policies.yaml"
    path.write_text(f"policies: [{{name: first, tables: ['t.*']}}, {{name: all, tables: [{table}, 'u.*']}}]")
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))
    found = seen(catalog, monkeypatch, table, tables=(table, "u.*"))
    assert (found["errors"], found["lasting"]) == ([], False)
    assert f"{table}: is cleaned by policy first" in found["reasons"]
    found = seen(catalog, monkeypatch, table, tables=("u.*",))
    assert (found["errors"], found["lasting"]) == ([f"{table}: is cleaned by policy first"], True)
    # the task behind the sensor looks at what was due alone, and its run must not end as if this one were
    behind = seen(catalog, monkeypatch, table, tables=("u.*",), only=["u.due"])
    assert f"{table}: is cleaned by policy first" in behind["errors"]


def test_a_table_nobody_adopted_and_nobody_can_read_is_one_line_of_the_log(catalog, monkeypatch):
    import hardpack.operations.plan_tables

    good, foreign = new_topic(catalog, min_cleanable_dirty_ratio=0), new_topic(catalog)
    for offset in (0, 1):
        append(good, {0: [row(offset, "a")]})
    real = hardpack.operations.plan_tables.open_table

    def open_table(catalog, name):
        if name == name_of(foreign):
            raise ValueError("Unknown type: variant")
        return real(catalog, name)

    monkeypatch.setattr(hardpack.operations.plan_tables, "open_table", open_table)
    found = seen(catalog, monkeypatch, "t.*")
    assert not any(name_of(foreign) in error for error in found["errors"])
    (line,) = [line for line in found["reasons"] if name_of(foreign) in line]
    assert "passed over, as nobody adopted it" in line
    assert name_of(good) in tables_of(found)
    (error,) = seen(catalog, monkeypatch, name_of(foreign))["errors"]
    assert "variant" in error


def test_gauges_are_those_of_a_look_at_all_tables_of_the_policy(catalog, monkeypatch):
    late, broken = new_topic(catalog, late_rows="refuse"), new_topic(catalog, min_cleanable_dirty_ratio=9)
    append(late, {0: [row(offset, "a") for offset in range(5)], 1: [row(0, "a")]})
    append(late, {0: [row(5, "a")], 1: [row(1, "a")]})
    snapshot = late.refresh().current_snapshot()
    made = [snapshot.snapshot_id, snapshot.sequence_number]
    clean = {"checkpoint": 5, "start": 0, "end": 6, "horizons": [], "last_clean": {}, "snapshot": made}
    paused = {"checkpoint": 0, "start": 0, "end": 2, "horizons": [], "last_clean": {}, "paused": 1}
    with late.transaction() as change:
        state = {"version": 1, "logs": {"0": clean, "1": paused}}
        change.set_properties({"hardpack.state": json.dumps(state)})
    append(late, {0: [row(2, "z")]})
    names = [name_of(late), name_of(broken)]
    with monkeypatch.context() as patch:
        patch.setattr("hardpack.clock.clock", lambda: T0 + 7000)
        gauges = seen(catalog, monkeypatch, "t.*", tables=["t.*"], previous=T0)["gauges"]
    assert gauges["time-since-last-run-ms"] == 7000
    assert gauges["last-look-time-secs"] == (T0 + 7000) / 1000
    for tables, counted in ((names[:1], 1), (names, 2)):
        from hardpack_airflow.planning import plan_units

        found = plan_units("hardpack", {"name": "all", "tables": tables}, tables, None, False, T0)["gauges"]
        assert found["uncleanable-partitions-count"] == counted
        assert found["uncleanable-bytes"] > 0
        assert found["paused-partitions-count"] == 1
    assert seen(catalog, monkeypatch, names[0], tables=["t.*"])["gauges"] == {}
    assert seen(catalog, monkeypatch, names[0], ["0"], tables=names[:1])["gauges"] == {}


def test_a_label_fits_airflows_column():
    assert shortened("db.t 1,2") == "db.t 1,2"
    assert len(shortened("t" * 1000)) == LONGEST_LABEL == 200


def test_what_time_a_run_acts_at_and_which_rows_a_backfill_is_about():
    start, end, after = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3))

    def context(kind, **interval):
        return {"dag_run": SimpleNamespace(run_type=SimpleNamespace(value=kind), run_after=after), **interval}

    interval = {"data_interval_start": start, "data_interval_end": end}
    assert run_time(context("scheduled", **interval)) == end.timestamp() * 1000
    assert run_time(context("backfill", **interval)) == end.timestamp() * 1000
    assert run_time(context("manual", **interval)) == after.timestamp() * 1000
    for kind in ("asset_triggered", "operator_triggered", "asset_materialization"):
        assert run_time(context(kind, **interval)) == after.timestamp() * 1000
    assert run_time(context("scheduled")) == after.timestamp() * 1000
    assert run_interval(context("backfill", **interval)) == (start.timestamp() * 1000, end.timestamp() * 1000)
    assert run_interval(context("scheduled", **interval)) is None


@pytest.mark.parametrize(
    ("sizes", "limit", "units"),
    [
        ([3, 4, 5, 9], 10, [[3, 4], [5], [9]]),
        # a large table neither waits for small ones nor parts them
        ([3, 20, 4, 30, 3], 10, [[3, 4, 3], [20], [30]]),
        ([11, 12], 10, [[11], [12]]),
        ([10, 1], 10, [[10], [1]]),
        ([], 10, []),
        ([0] * (SHARED_PLANS + 1), 10, [[0] * SHARED_PLANS, [0]]),
    ],
)
def test_small_pieces_of_work_share_a_unit_in_the_place_of_the_most_urgent(sizes, limit, units):
    plans = [SimpleNamespace(bytes=size) for size in sizes]
    assert [[unit.bytes for unit in shared] for shared in share(plans, limit)] == units


def test_small_tables_share_a_unit_as_far_as_the_policy_lets_them(catalog, monkeypatch):
    names = []
    for _ in range(3):
        table = new_topic(catalog, min_cleanable_dirty_ratio=0)
        append(table, {0: [row(0, "a")]})
        append(table, {0: [row(1, "a")]})
        names.append(name_of(table))

    def shared(**policy):
        from hardpack import Hardpack

        monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, **given: cls(catalog, **given)))
        found = plan_units("hardpack", {"name": "all", "tables": ["*.*"], **policy}, names, None, False, T0)["units"]
        return [sorted(json.loads(plan)["table"] for plan in unit["plans"]) for unit in found]

    assert shared() == [sorted(names)]
    assert sorted(shared(**{"unit.bytes": 1})) == sorted([name] for name in names)


def test_the_most_urgent_units_go_and_the_rest_is_told_to_wait(catalog, monkeypatch):
    from hardpack import Hardpack

    names = []
    for rows in (1, 2, 3):
        table = new_topic(catalog, min_cleanable_dirty_ratio=0)
        for offset in range(rows + 1):
            append(table, {0: [row(offset, "a")]})
        names.append(name_of(table))
    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, **given: cls(catalog, **given)))
    policy = {"name": "all", "tables": ["*.*"], "unit.bytes": 1}
    whole = plan_units("hardpack", policy, names, None, False, T0)
    some = plan_units("hardpack", policy | {"units.per.run": 2}, names, None, False, T0)
    assert some["units"] == whole["units"][:2]
    assert some["reasons"][-1] == ("1 less urgent units, of 1 tables, wait for the next run, as units.per.run is 2")
    assert not any("wait for the next run" in reason for reason in whole["reasons"])


def test_a_look_that_is_cut_off_leaves_what_it_has_seen_to_the_next(catalog, monkeypatch):
    """Each try is a process of its own, and Airflow ends it by an exception of no error's kind."""
    from hardpack.operations import plan_tables
    from hardpack_airflow import planning

    tables = [new_topic(catalog) for _ in range(4)]
    for table in tables:
        append(table, {0: [row(0, "a")]})
    monkeypatch.setattr(plan_tables, "known_tables", lambda *_: list(map(name_of, tables)))
    real, opened = plan_tables.open_table, []

    def slow(catalog, name):
        if len(opened) == 2:
            raise KeyboardInterrupt
        opened.append(name)
        return real(catalog, name)

    monkeypatch.setattr(plan_tables, "open_table", slow)
    looked = set()
    for _ in range(3):
        planning._PLAN_CACHES.clear()
        opened.clear()
        with suppress(KeyboardInterrupt):
            seen(catalog, monkeypatch, "*.*")
        assert not looked & set(opened)
        looked |= set(opened)
    assert looked == set(map(name_of, tables))


def test_a_run_with_nothing_to_do_says_that_no_unit_died(catalog, monkeypatch):
    """It has no report, and an alert would ring until there is one."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    name = name_of(table)
    assert seen(catalog, monkeypatch, name, tables=[name])["gauges"]["DeadThreadCount"] == 0
    append(table, {0: [row(1, "a")]})
    append(table, {0: [row(2, "a")]})
    assert "DeadThreadCount" not in seen(catalog, monkeypatch, name, tables=[name])["gauges"]


def test_an_unreadable_table_keeps_no_alert_of_dead_units_ringing(catalog, monkeypatch):
    well, broken = new_topic(catalog), new_topic(catalog, min_cleanable_dirty_ratio=9)
    append(well, {0: [row(0, "a")]})
    names = [name_of(well), name_of(broken)]
    seen(catalog, monkeypatch, names[0])
    found = plan_units("hardpack", {"name": "two", "tables": names}, names, None, False, T0)
    assert len(found["errors"]) == 1
    assert found["gauges"]["DeadThreadCount"] == 0


def test_a_table_without_a_row_is_told_and_no_mistake(catalog, monkeypatch):
    name = name_of(new_topic(catalog))
    assert seen(catalog, monkeypatch, name)["reasons"] == [f"{name}: it has no log yet"]


def test_what_a_look_at_some_tables_cannot_read_is_an_error(catalog, monkeypatch):
    """The sensor found it due, and this worker's home does not say that it was adopted."""
    import hardpack.operations.plan_tables

    due = name_of(new_topic(catalog, min_cleanable_dirty_ratio=0))

    def open_table(_catalog, name):
        raise ValueError("Unknown type: variant")

    monkeypatch.setattr(hardpack.operations.plan_tables, "open_table", open_table)
    (error,) = seen(catalog, monkeypatch, "t.*", only=[due])["errors"]
    assert error.startswith(f"{due}: ")


def test_a_look_at_some_tables_tells_nothing_of_other_policies_tables(catalog, monkeypatch, tmp_path):
    own, others = name_of(new_topic(catalog)), name_of(new_topic(catalog))
    path = tmp_path / "policies.yaml"
    path.write_text(f"policies: [{{name: two, tables: [{others}]}}, {{name: all, tables: ['t.*']}}]")
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))
    found = seen(catalog, monkeypatch, "t.*", tables=("t.*",), only=[own])
    assert (found["errors"], [line for line in found["reasons"] if others in line]) == ([], [])
