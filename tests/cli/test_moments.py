"""Whatever stands in a table's metadata can be shown, in a terminal and in pages."""

import json
import re
from pathlib import Path

import pytest
from hardpack import Hardpack
from hardpack.cli import main as cli
from hardpack.clock import date_of, moment, time_of
from hardpack.compaction.report import LogReport, PassReport
from hardpack.errors import BadInput, Unavailable
from hardpack.operations.summary import Moment, history
from hardpack.rules.model import LastClean, LogState
from hardpack.rules.settings import LONG_MAX
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY, write_state
from typer.testing import CliRunner

from tests.topics import append, name_of, new_topic, row

FIFTEEN_NINES = 10**15 - 1


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "1970-01-01 00:00:00Z"),
        (-1, "1969-12-31 23:59:59Z"),
        (253_402_300_799_999, "9999-12-31 23:59:59Z"),
        (253_402_300_800_000, "never"),
        (FIFTEEN_NINES * 1000, "never"),
        (LONG_MAX, "never"),
        (10**400, "never"),
        (-62_135_596_800_001, "long ago"),
        (-LONG_MAX, "long ago"),
    ],
)
def test_every_time_is_some_text(ms, text):
    assert moment(ms) == text
    assert date_of(ms or 0).year in range(1, 10_000)


def far_horizon(catalog, ms):
    """A topic of which tombstones wait until a time that no calendar reaches."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a", None), row(1, "b")]})
    append(table, {0: [row(2, "c")]})
    snapshot = table.refresh().current_snapshot()
    made = snapshot.snapshot_id, snapshot.sequence_number
    last = LastClean(1, horizons=(2,))
    with table.transaction() as change:
        state = LogState(2, None, 3, ((2, ms),), snapshot=made, last_clean=last)
        change.set_properties({"hardpack.state": write_state({"0": state})})
    return table


@pytest.mark.parametrize("ms", [FIFTEEN_NINES, LONG_MAX - 1])
def test_a_horizon_beyond_all_calendars_is_shown_as_never(catalog, lake, monkeypatch, ms):
    table = far_horizon(catalog, ms)
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    said = CliRunner().invoke(cli.app, ["status", name_of(table)], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.exception
    assert "never" in said.stdout


def forge(table, summary, at=None):
    """Write what stands in the current snapshot, as whoever may write to the table's folder can."""
    file = Path(table.refresh().metadata_location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    snapshot["summary"] |= summary
    if at is not None:
        snapshot["timestamp-ms"] = at
    file.write_text(json.dumps(metadata))


def reported(**numbers):
    """A summary with the report of a pass."""
    log = {
        "partition": 0, "checkpoint_before": None, "checkpoint_after": 9, "log_end": 9, "rows_before": 9,
        "rows_after": 9, "bytes_before": 9, "bytes_after": 9,
    }  # fmt: skip
    report = PassReport(table="a.b", phase="one", plan="p", now=1, base=1, logs=(LogReport(**log | numbers),))
    return {PASS_SUMMARY: report.summary_json(), PLAN_SUMMARY: "one:x"}


FORGED = [
    {"total-files-size": "many", "added-files-size": "-1"},
    {"total-files-size": "9" * 5000, "added-files-size": "٣"},
    {PASS_SUMMARY: "{", PLAN_SUMMARY: "one:x"},
    {PASS_SUMMARY: json.dumps({"table": 1}), PLAN_SUMMARY: "one:x"},
    reported(bytes_before=10**400),
    reported(rows_before=-(10**400)),
    reported(superseded=LONG_MAX),
]


@pytest.mark.parametrize("at", [None, LONG_MAX, -LONG_MAX])
@pytest.mark.parametrize("summary", FORGED)
def test_a_forged_history_can_be_shown(catalog, summary, at):
    from hardpack_airflow.charts import charts

    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    forge(table, summary, at)
    (seen,) = history(table.refresh())
    assert 0 <= seen.bytes <= LONG_MAX
    assert 0 <= seen.added <= LONG_MAX
    assert len(charts([seen])) == (4 if seen.ended else 2)


def test_a_chart_s_axis_begins_at_nought_and_has_round_values():
    from hardpack_airflow.charts import charts

    for share, size, labels in (
        (0.6, 750_000, ["0%", "20%", "40%", "60%", "0 bytes", "300.0 kB", "600.0 kB", "900.0 kB"]),
        (1.0, 7, ["0%", "50%", "100%", "0 bytes", "3 bytes", "6 bytes", "9 bytes"]),
    ):
        moments = [Moment(at=at, bytes=size, added=1, since_pass=int(size * share)) for at in (1000, 2000)]
        drawn = "".join(charts(moments))
        assert re.findall(r"<text[^>]*>(\d[\d.]*(?:%| bytes| kB))</text>", drawn) == labels


@pytest.mark.parametrize(
    ("text", "said"),
    [("20260131", "looks like a day; write 2026-01-31"), ("9" * 26, "is no time"), (str(2**63 - 1), "is no time")],
)
def test_a_number_that_is_no_time(text, said):
    with pytest.raises(BadInput, match=said):
        time_of(text)
    assert time_of("1767225600000") == 1767225600000
    assert (time_of("20261331"), time_of("20260231")) == (20261331, 20260231)


@pytest.mark.parametrize("now", [2**63 - 1, 10**20, -(10**17)])
def test_the_library_takes_no_time_that_stands_for_never(cold, catalog, now):
    """At Kafka's greatest time the active segment would count as closed."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    with pytest.raises(BadInput, match=f"the time given, {now}, is none"):
        cold.plan(name_of(table), now=now, force=True)


def test_a_row_of_kafkas_time_none_is_not_from_before_1970(catalog, cold):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]}, at=-1)
    append(table.refresh(), {0: [row(1, "a")]}, at=1000)
    (log,) = cold.status(name_of(table), now=5000)
    assert log.dirty_age_ms is None
    assert log.overdue_ms == 0


def test_status_says_when_no_adopted_table_matches(lake, monkeypatch):
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    said = CliRunner().invoke(cli.app, ["status", "none.*", "--json"])
    assert (said.exit_code, said.stdout) == (0, "[]\n")
    assert "No adopted table matches none.*; `hardpack adopt NAMESPACE.TABLE`" in " ".join(said.stderr.split())


def test_the_exit_code_tells_an_outage_from_bad_input(catalog, lake, monkeypatch):
    good, away, wrong = new_topic(catalog), new_topic(catalog), new_topic(catalog)
    append(good, {0: [row(0, "a")]})
    real = Hardpack.status_of
    fails = {}

    def status(self, name, now=None):
        if name in fails:
            raise fails[name]
        return real(self, name, now) if name == name_of(good) else []

    monkeypatch.setattr(Hardpack, "status_of", status)
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))

    def ends():
        said = CliRunner().invoke(cli.app, ["status", "t.*"], env={"COLUMNS": "200"})
        assert name_of(good) in said.stdout
        return said.exit_code

    assert ends() == 0
    fails[name_of(wrong)] = FileNotFoundError("metadata.json")
    assert ends() == 2
    fails[name_of(away)] = Unavailable("away")
    assert ends() == 5
