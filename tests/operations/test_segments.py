"""What `segments` tells of each log, from metadata alone."""

import json

import pytest
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.errors import BadInput
from hardpack.rules.reference.cleaner import Row
from typer.testing import CliRunner

from tests.layouts import MIXED
from tests.topics import T0, append, name_of, new_topic, row, superseded_once


def parts(hp, table, now=T0, **more):
    return [(s.base_offset, s.last_offset, s.rows, s.part) for s in hp.segments(name_of(table), now, **more)]


def test_of_a_log_never_cleaned_the_newest_is_active(catalog, cold):
    assert parts(cold, superseded_once(catalog)) == [(0, 1, 2, "dirty"), (2, 3, 2, "dirty"), (4, 4, 1, "active")]


def test_what_is_too_young_is_told(catalog, cold):
    table = new_topic(catalog, min_compaction_lag_ms=1000)
    for turn in range(3):
        append(table, {0: [row(turn, "a")]}, at=T0 + turn * 1000)
    assert [p for *_, p in parts(cold, table, T0 + 1500)] == ["dirty", "too young", "active"]


def test_a_log_no_longer_written_has_no_active_segment(catalog, cold):
    table = new_topic(catalog, active_segment="none")
    append(table, {0: [row(0, "a")], 1: [row(0, "b", None), row(3, "c", None)]})
    assert parts(cold, table) == [(0, 0, 1, "dirty"), (0, 3, 2, "dirty")]
    (one,) = cold.segments(name_of(table), T0, [1])
    assert (one.tombstones, one.first_timestamp, one.largest_timestamp, len(one.files)) == (2, T0, T0, 1)
    with pytest.raises(BadInput, match="there is no partition 7"):
        cold.segments(name_of(table), T0, [7])


def test_kafkas_time_none_is_no_time(catalog, cold):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]}, at=-1)
    (one,) = cold.segments(name_of(table), T0)
    assert one.first_timestamp is None
    assert one.largest_timestamp == table.current_snapshot().timestamp_ms


def test_files_of_several_logs_without_times_were_made_when_they_were_committed(catalog, cold):
    table = MIXED.adopted(catalog, "lay.mixed_times")
    MIXED.append(table, {log: [Row(0, b"a", b"v", timestamp=-1)] for log in (0, 1)})
    (waiting,) = cold.segments(name_of(table), T0)
    assert (waiting.part, waiting.rows, waiting.first_timestamp) == ("to be split", 2, None)
    assert waiting.largest_timestamp == table.refresh().current_snapshot().timestamp_ms


def test_the_least_time_of_files_is_not_known_where_a_row_has_none(catalog, cold):
    table = MIXED.adopted(catalog, "lay.some_times")
    for at in (-1, T0):
        MIXED.append(table, {log: [Row(max(0, at), b"a", b"v", timestamp=at)] for log in (0, 1)})
    (waiting,) = cold.segments(name_of(table), T0)
    assert (waiting.first_timestamp, waiting.largest_timestamp) == (None, T0)


def test_it_is_shown(catalog, lake, monkeypatch):
    table = superseded_once(catalog)
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    said = CliRunner().invoke(app, ["segments", name_of(table)], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.exception
    assert "base offset" in said.stdout
    assert said.stdout.count("dirty") == 2
    told = json.loads(CliRunner().invoke(app, ["segments", name_of(table), "--json"]).stdout)
    assert [segment["part"] for segment in told] == ["dirty", "dirty", "active"]
    assert all(path.endswith(".parquet") for segment in told for path in segment["files"])


def in_trouble(catalog):
    """A log with a row whose offset nobody can have written, and one that is well."""
    table = new_topic(catalog)
    append(table, {0: [row(5, "a")], 1: [row(0, "b")]})
    append(table, {0: [row(-3, "a")]})
    return table


def test_rows_that_nobody_can_place_are_said_to_be_in_trouble(catalog, lake, cold, monkeypatch):
    table = in_trouble(catalog)
    bad, *_, good = cold.segments(name_of(table), T0)
    assert (bad.base_offset, bad.last_offset, bad.part) == (None, None, "in trouble")
    assert "expected an offset from 0 to" in bad.trouble
    assert (good.partition, good.base_offset, good.part, good.trouble) == (1, 0, "active", "")
    told, well = cold.describe(name_of(table)).logs
    assert (told.trouble, well.trouble) == (bad.trouble, "")
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    for verb in ("segments", "describe"):
        said = CliRunner().invoke(app, [verb, name_of(table)], env={"COLUMNS": "300"})
        assert "expected an offset from 0 to" in " ".join(said.stdout.split())


@pytest.mark.spark
def test_what_a_pass_cleaned_is_clean(catalog, hp):
    table = superseded_once(catalog)
    hp.clean(hp.plan(name_of(table), now=T0, force=True))
    assert parts(hp, table) == [(0, 3, 3, "clean"), (4, 4, 1, "active")]


def test_a_log_that_is_named_twice_is_meant_once(catalog, cold):
    """Its rows would leave twice in a plan's sums, and its files be written anew twice."""
    table = superseded_once(catalog)
    assert parts(cold, table, partitions=[0, "0"]) == parts(cold, table)
    assert len(cold.plan(name_of(table), T0, partitions=[0, 0]).logs) == 1
