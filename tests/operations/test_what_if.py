"""The kept snapshots of a table tell what other settings would have made of it."""

import json

import pytest
from hardpack.api import Hardpack
from hardpack.cli import main as cli_main
from hardpack.errors import BadInput
from hardpack.operations.what_if import TRIED, tried_values
from typer.testing import CliRunner

from tests.benchmarks.what_if import HOUR, SETTING, T0, compared
from tests.topics import append, name_of, new_topic, row


@pytest.fixture
def asked(lake, monkeypatch):
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))

    def ask(*words):
        return CliRunner().invoke(cli_main.app, ["plan", *words], env={"COLUMNS": "200"})

    return ask


@pytest.mark.spark
def test_a_replay_tells_what_real_passes_do(hp, asked):
    told, found = compared(hp, "alike", ("0.5", "0.2"), appends=12, rows=400)
    assert told.passes == found[0][0].passes
    assert told.unmeasured == ()
    assert (told.appends, told.unlike, told.begin) == (12, 0, T0)
    for outcome, real in found:
        for name, truth in real.items():
            assert getattr(outcome, name) == pytest.approx(truth, rel=0.15), (outcome.value, name)
    shown = asked(told.table, "--what-if", f"{SETTING}=0.5,0.2", "--now", str(told.end))
    assert shown.exit_code == 0, shown.exception
    assert "passes/day" in shown.stdout
    assert f"Its own passes: {told.passes / 0.25:.1f} a day" in shown.stdout
    printed = json.loads(asked(told.table, "--what-if", f"{SETTING}=0.5", "--now", str(told.end), "--json").stdout)
    assert printed["outcomes"][0] == found[0][0].model_dump()


@pytest.mark.spark
def test_what_a_history_began_with_and_what_others_did_is_told(hp):
    table = new_topic(hp.catalog, active_segment="none")
    append(table, {0: [row(n, f"k{n % 5}") for n in range(100)]})
    hp.clean(hp.plan(name_of(table), T0))
    append(table.refresh(), {0: [row(n, f"k{n % 5}") for n in range(100, 150)], 1: [row(0, "a")]})
    first = table.refresh().current_snapshot().snapshot_id
    append(table, {0: [row(n, f"k{n % 5}") for n in range(150, 200)]})
    hp.clean(hp.plan(name_of(table), T0 + HOUR, partitions=[0]))
    table.refresh().delete("offset = 196")
    others = [s.snapshot_id for s in table.refresh().snapshots()]
    table.maintenance.expire_snapshots().by_ids(others[: others.index(first)]).commit()
    told = hp.what_if(name_of(table), SETTING, ["0.5"], every_ms=1)
    assert told.bytes_appended < sum(f["file_size_in_bytes"] for f in table.inspect.all_files().to_pylist())
    one = hp.what_if(name_of(table), SETTING, ["0.5"], every_ms=1, partitions=[0])
    assert (one.appends, one.passes) == (1, 1)
    before = table.snapshots()[1].timestamp_ms - 1
    with pytest.raises(BadInput, match="no kept snapshot tells of a pass"):
        hp.what_if(name_of(table), SETTING, ["0.5"], every_ms=1, now=before)
    with pytest.raises(BadInput, match="looks, expected 100,000 at most; look less often with --every-ms"):
        hp.what_if(name_of(table), SETTING, ["0.5"], now=253_402_300_799_999)
    assert told.unlike == 1
    assert told.unmeasured == (1,)
    assert told.appends == 1
    assert told.passes == 1
    assert told.outcomes[0].passes >= 1


@pytest.mark.spark
def test_passes_from_before_its_time_do_not_count(hp):
    table = new_topic(hp.catalog, active_segment="none")
    for begin in (0, 50):
        append(table.refresh(), {0: [row(n, f"k{n % 5}") for n in range(begin, begin + 50)]})
    hp.clean(hp.plan(name_of(table), T0))
    append(table.refresh(), {0: [row(n, f"k{n % 5}") for n in range(100, 150)]})
    table.refresh().maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    told = hp.what_if(name_of(table), SETTING, ["0.5"], every_ms=1)
    assert (told.appends, told.passes, told.bytes_written) == (1, 0, 0)


def test_what_cannot_be_tried_is_told_in_a_sentence(catalog, asked):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "a")]})
    name = name_of(table)
    wrong = {
        "cleanup.policy=delete": f"cleanup.policy cannot be tried, expected one of {', '.join(TRIED)}",
        f"{SETTING}=": "names nothing to try, expected NAME=VALUE,VALUE",
        f"{SETTING}=2": f"{SETTING} cannot be '2', expected: less than or equal to 1",
        "max.compaction.lag.ms=x": "max.compaction.lag.ms cannot be 'x', expected",
        f"{SETTING}=0.5": "no kept snapshot tells of a pass",
    }
    for words, said in wrong.items():
        found = asked(name, "--what-if", words)
        assert isinstance(found.exception, BadInput), words
        assert said in str(found.exception)
    assert "--every-ms goes with --what-if" in str(asked(name, "--every-ms", "5").exception)
    forced = asked(name, "--what-if", f"{SETTING}=0.5", "--force")
    assert "leave one of them out" in str(forced.exception)
    none = asked(name_of(new_topic(catalog)), "--what-if", f"{SETTING}=0.5")
    assert "no kept snapshot tells of a pass" in str(none.exception)


@pytest.mark.spark
def test_a_time_before_all_passes_is_told(hp, asked):
    table = new_topic(hp.catalog, active_segment="none", min_cleanable_dirty_ratio=0)
    append(table, {0: [row(n, f"k{n % 5}") for n in range(20)]})
    hp.clean(hp.plan(name_of(table), T0))
    found = asked(name_of(table), "--what-if", f"{SETTING}=0.5", "--now", "2020-01-01")
    assert "no kept snapshot tells of a pass before 2020-01-01" in str(found.exception)
    assert "the first one that is known is of 20" in str(found.exception)


def test_values_are_read_with_blanks_and_the_prefix():
    assert tried_values("hardpack.min.cleanable.dirty.ratio = 0.1, 0.3 ,") == (SETTING, ["0.1", "0.3"])
