"""What the sensor and the plan task see of many tables, from metadata alone."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

from hardpack_airflow.look import LONGEST_LABEL, look, run_interval, run_time, shortened

from tests.topics import T0, append, name_of, new_topic, row


def seen(catalog, monkeypatch, pattern):
    from hardpack import Hardpack

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, memory: cls(catalog, memory=memory)))
    policy = {"name": "all", "tables": ["*.*"], "unit.bytes": 10**12}
    return look("hardpack", policy, [pattern], None, False, T0)


def test_the_filthiest_table_comes_first(catalog, monkeypatch):
    half, full = new_topic(catalog, min_cleanable_dirty_ratio=0), new_topic(catalog, min_cleanable_dirty_ratio=0)
    for table in (half, full):
        for offset in (0, 1, 2):
            append(table, {0: [row(offset, "a")]})
    with half.transaction() as transaction:
        state = {"version": 1, "logs": {"0": {"checkpoint": 1, "start": 0, "end": 1, "horizons": [], "last_clean": {}}}}
        transaction.set_properties({"hardpack.state": json.dumps(state)})
    names = [name_of(half), name_of(full)]
    found = seen(catalog, monkeypatch, "t.*")["units"]
    assert [u["label"].split()[0] for u in found if u["label"].split()[0] in names] == names[::-1]


def test_a_broken_table_is_an_error_beside_the_others(catalog, monkeypatch):
    good, broken = new_topic(catalog, min_cleanable_dirty_ratio=0), new_topic(catalog, min_cleanable_dirty_ratio=9)
    append(good, {0: [row(0, "a")]})
    append(good, {0: [row(1, "a")]})
    found = seen(catalog, monkeypatch, "t.*")
    assert any(u["label"].startswith(name_of(good)) for u in found["units"])
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
    assert any(u["label"].startswith(name_of(good)) for u in found["units"])


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
    assert run_time(context("asset_triggered")) == after.timestamp() * 1000
    assert run_interval(context("backfill", **interval)) == (start.timestamp() * 1000, end.timestamp() * 1000)
    assert run_interval(context("scheduled", **interval)) is None
