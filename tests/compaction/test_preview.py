"""A dry run walks the steps of the pass and says what the pass then does, and changes nothing."""

import random
from pathlib import Path

import pytest
from hardpack.compaction.report import LogReport

from tests.topics import T0, append, name_of, new_topic, random_rows, row

pytestmark = pytest.mark.spark
RECKONED = {"bytes_after", "bytes_written", "files_written", "tombstones_waiting", "gate_read"}
"""What is known only once files are written."""
TOLD = set(LogReport.model_fields) - RECKONED


def said(report):
    return [entry.model_dump(include=TOLD) for entry in report.logs]


def place(table):
    return table.refresh().metadata_location


@pytest.mark.parametrize("seed", range(3))
def test_phase_one_and_two_do_what_their_dry_runs_say(hp, catalog, seed):
    rng = random.Random(seed)
    lazy = {"deletion_vector_max_ratio": "0.4", "deletion_vector_min_bytes": "0"} if seed else {}
    table = new_topic(
        catalog, min_cleanable_dirty_ratio=0, null_keys="drop", delete_retention_ms=10, segment_bytes=4000, **lazy
    )
    if seed:
        with table.transaction() as change:
            change.set_properties({"write.delete.mode": "merge-on-read"})
    at, dropped = 0, 0
    for turn in range(3):
        rows = {p: random_rows(rng, at, 40, 12) for p in range(3)}
        at = max(found[-1].offset for found in rows.values())
        append(table, rows)
        append(table, {p: [row(at + 1, f"end{turn}")] for p in rows})
        at += 1
        now = T0 + turn * 1000
        plan, before = hp.plan(name_of(table), now=now), place(table)
        ahead = hp.clean(plan, dry_run=True)
        assert (place(table), ahead.snapshot) == (before, None)
        did = hp.clean(plan)
        assert said(ahead) == said(did)
        dropped += sum(entry.removed for entry in did.logs)
        before = place(table)
        ahead = hp.expire_tombstones(name_of(table), now=now + 500, dry_run=True)
        assert (place(table), ahead.snapshot) == (before, None)
        did = hp.expire_tombstones(name_of(table), now=now + 500)
        assert said(ahead) == said(did)
        dropped += sum(entry.removed for entry in did.logs)
    assert dropped > 100


def test_retention_does_what_its_dry_run_says(hp, catalog):
    table = new_topic(catalog, cleanup_policy="delete", retention_ms=1000)
    for first in range(0, 40, 10):
        append(table, {0: [row(o, f"k{o}") for o in range(first, first + 10)]})
    before = place(table)
    ahead = hp.apply_retention(name_of(table), now=T0 + 10_000, dry_run=True)
    assert (place(table), ahead.snapshot) == (before, None)
    did = hp.apply_retention(name_of(table), now=T0 + 10_000)
    assert said(ahead) == said(did)
    assert sum(entry.retention for entry in did.logs) >= 30


def test_it_writes_no_key_filter(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, key_filter_min_rows=1)
    append(table, {0: [row(o, f"k{o}") for o in range(20)]})
    append(table, {0: [row(20, "x")]})
    hp.clean(hp.plan(name_of(table), now=T0))
    append(table, {0: [row(21, "y")]})
    folder = Path(table.location().removeprefix("file://"))
    plan, before = hp.plan(name_of(table), now=T0), sorted(folder.rglob("*"))
    hp.clean(plan, dry_run=True)
    assert sorted(folder.rglob("*")) == before
    hp.clean(plan)
    assert [path for path in folder.rglob("hardpack-keys/*.parquet") if path not in before]


def test_the_command_says_that_nothing_was_changed(hp, catalog, lake, monkeypatch, capsys):
    from hardpack.cli import main as cli

    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "a")]})
    append(table, {0: [row(2, "b")]})
    before = place(table)
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: hp)
    monkeypatch.setattr("sys.argv", ["hardpack", "clean", name_of(table), "--dry-run"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "would do this, nothing was changed" in capsys.readouterr().out
    assert place(table) == before
