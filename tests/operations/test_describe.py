"""A table described: settings with their origin, logs with what passes know."""

import json

import pytest
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.compaction.plan import Plan
from typer.testing import CliRunner

from tests.topics import T0, append, name_of, new_topic, row


def test_settings_and_where_they_come_from(catalog, cold):
    table = new_topic(catalog, delete_retention_ms=5)
    append(table, {0: [row(3, "a")], 1: [row(0, "b")]})
    found = cold.describe(name_of(table))
    told = {s.name: (s.value, s.origin) for s in found.settings}
    assert told["delete.retention.ms"] == ("5", "table")
    assert told["min.cleanable.dirty.ratio"] == ("0.5", "default")
    assert told["log.cleaner.threads"] == ("", "default")
    assert found.columns["offset"] == "offset"
    assert [(log.partition, log.log_start, log.log_end, log.checkpoint) for log in found.logs] == [
        (0, 3, 4, None), (1, 0, 1, None),
    ]  # fmt: skip
    assert [log.partition for log in cold.describe(name_of(table), [1]).logs] == [1]


def test_it_is_shown(catalog, lake, monkeypatch):
    table = new_topic(catalog, delete_retention_ms=5)
    append(table, {0: [row(3, "a")]})
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    said = CliRunner().invoke(app, ["describe", name_of(table)], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.exception
    first = next(line for line in said.stdout.splitlines() if "cleanup.policy" in line or "delete.retention.ms" in line)
    assert "table" in first, "what is set stands first"
    assert json.loads(CliRunner().invoke(app, ["describe", name_of(table), "--json"]).stdout)["logs"][0]["log_end"] == 4


@pytest.mark.spark
def test_what_a_pass_left_is_told(catalog, hp):
    table = new_topic(catalog, active_segment="none", min_cleanable_dirty_ratio=0, delete_retention_ms=1000)
    append(table, {0: [row(0, "a"), row(1, "a", None)]})
    report = hp.clean(hp.plan(name_of(table), now=T0))
    hp.pause(name_of(table))
    (log,) = hp.describe(name_of(table)).logs
    assert (log.checkpoint, log.expired_to, log.paused, log.last_pass) == (2, -1, 1, report.snapshot)
    ((upto, at),) = log.horizons
    assert upto == 1
    assert at >= T0 + 1000


def test_a_plan_says_nothing_of_newer_settings_that_nobody_set(catalog, lake, monkeypatch):
    """So that the version before reads it, and names it alike."""
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    for settings, named in (({}, False), ({"segment_ms": 5}, True)):
        table = new_topic(catalog, **settings)
        said = CliRunner().invoke(app, ["plan", name_of(table), "--json", "--now", "1"]).stdout
        assert ("segment.ms" in json.loads(said)["settings"]) == named
        assert "horizon.readers" not in json.loads(said)["settings"]
        assert Plan.from_json(said).id == Hardpack.connect(properties=lake).plan(name_of(table), 1).id
