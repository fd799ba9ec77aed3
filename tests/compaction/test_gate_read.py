"""The check of a run reads no row of logs that stand as their gates have read them, and reads all others."""

import json
from pathlib import Path
from urllib.parse import urlparse

import pytest
from hardpack import HardpackError
from hardpack.table.history import commits
from hardpack.table.packing import PassFolder

from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.spark


@pytest.fixture
def cleaned(hp, catalog):
    """A table of two logs after both phases, each of which took a row."""
    table = new_topic(catalog, delete_retention_ms=1000)
    append(table, {0: [row(0, "a"), row(1, "b", None)], 1: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(2, "a"), row(3, "c")], 1: [row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "d")], 1: [row(4, "d")]})
    name = name_of(table)
    assert len(hp.clean(hp.plan(name, now=T0)).logs) == 2
    assert [log.expired_tombstone for log in hp.expire_tombstones(name, now=T0 + 2000).logs] == [1]
    return table


@pytest.fixture
def read_anew(hp, cleaned, cold):
    """How many of the logs the check of a run reads, all or none; it must tell the same as one that reads all."""

    def count():
        checked = hp.verify(name_of(cleaned), now=T0, sample=True)
        whole = hp.verify(name_of(cleaned), now=T0)
        assert whole.not_read_again == 0
        assert whole.checks
        assert (checked.success, checked.passes_hold) == (whole.success, whole.passes_hold)
        assert bool(checked.checks) == (checked.not_read_again == 0)
        return 2 - checked.not_read_again

    return count


def test_what_the_gates_of_both_phases_read_is_not_read_again(cleaned, read_anew, cold):
    assert read_anew() == 0
    report = cold.verify(name_of(cleaned), now=T0, sample=True)
    assert (report.success, report.checks, report.data_docs, report.not_read_again) == (True, (), (), 2)


def test_rows_behind_those_that_were_read_make_no_difference(cleaned, read_anew):
    append(cleaned, {0: [row(5, "e")], 1: [row(5, "a"), row(6, None)]})
    assert read_anew() == 0


def test_a_late_row_makes_its_log_be_read(cleaned, read_anew):
    append(cleaned.refresh(), {0: [row(3, "late")]})
    assert read_anew() == 2


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM hardpack.{0} WHERE partition = 0 AND offset = 2",
        "CALL hardpack.system.rewrite_data_files(table => '{0}', where => 'partition = 0', "
        "options => map('rewrite-all', 'true'))",
    ],
)
def test_files_that_others_made_are_read(cleaned, read_anew, spark, change):
    spark.sql(change.format(name_of(cleaned)))
    assert read_anew() == 2


def test_rows_that_others_hide_in_the_same_files_are_looked_for(cleaned, read_anew, spark):
    name = name_of(cleaned)
    before = {f["file_path"] for f in cleaned.refresh().inspect.data_files().to_pylist()}
    spark.sql(f"ALTER TABLE hardpack.{name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    append(cleaned.refresh(), {1: [row(5, "e"), row(6, "f")]})
    spark.sql(f"DELETE FROM hardpack.{name} WHERE partition = 1 AND offset = 6")
    after = {f["file_path"] for f in cleaned.refresh().inspect.data_files().to_pylist()}
    assert before < after
    assert read_anew() == 2


def test_what_others_did_between_the_phases_is_not_passed_over(hp, catalog, spark):
    """The second phase's gate read what it found, in which rows that the first one's had read were missing."""
    table = new_topic(catalog, delete_retention_ms=1000)
    append(table, {0: [row(0, "a"), row(1, "b", None), row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "d"), row(5, "e")]})
    name = name_of(table)
    hp.clean(hp.plan(name, now=T0))
    spark.sql(f"DELETE FROM hardpack.{name} WHERE offset = 4")
    assert hp.expire_tombstones(name, now=T0 + 2000).logs[0].expired_tombstone == 1
    report = hp.verify(name, now=T0, sample=True)
    assert (report.success, report.passes_hold, report.not_read_again) == (False, True, 0)


def test_what_a_gate_read_a_sample_of_is_read(hp, catalog):
    table = new_topic(catalog, audit_rows=4)
    append(table, {0: [row(o, f"k{o % 3}") for o in range(8)]})
    append(table, {0: [row(8, "d")]})
    name = name_of(table)
    report = hp.clean(hp.plan(name, now=T0))
    assert [log.gate_read for log in report.logs] == [""]
    checked = hp.verify(name, now=T0, sample=True)
    assert (checked.success, checked.not_read_again) == (True, 0)
    assert checked.checks


def test_a_pass_of_an_older_version_is_read(hp, cleaned, monkeypatch):
    """Its report does not say what its gate has read."""
    newest = next(commits(cleaned.refresh()))
    assert json.loads(newest.report)["logs"][0]["gate_read"]
    as_it_is = PassFolder.text

    def older(folder, kept):
        text = as_it_is(folder, kept)
        if '"gate_read"' not in text:
            return text
        report = json.loads(text)
        return json.dumps(
            {**report, "logs": [{k: v for k, v in e.items() if k != "gate_read"} for e in report["logs"]]}
        )

    monkeypatch.setattr(PassFolder, "text", older)
    report = hp.verify(name_of(cleaned), now=T0, sample=True)
    assert (report.success, report.not_read_again) == (True, 0)
    assert report.checks


def test_a_commit_that_published_other_files_than_were_judged_is_found(hp, catalog, monkeypatch):
    """The planted bug: of the files that a pass wrote one is not added."""
    from hardpack.compaction import publish

    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "a")], 1: [row(0, "a"), row(1, "b"), row(2, "a")]})
    append(table, {0: [row(3, "d")], 1: [row(3, "d")]})
    as_it_is = publish.CommitChange
    monkeypatch.setattr(publish, "CommitChange", lambda **made: as_it_is(**{**made, "add": made["add"][:1]}))
    hp.clean(hp.plan(name_of(table), now=T0))
    report = hp.verify(name_of(table), now=T0, sample=True)
    assert (report.success, report.passes_hold, report.not_read_again) == (False, False, 0)


def test_what_came_during_a_pass_and_is_missing_since_is_looked_for(hp, catalog, spark, meanwhile):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "a")]})
    append(table, {0: [row(3, "c")]})
    name = name_of(table)
    meanwhile(lambda: append(table.refresh(), {0: [row(4, "d")]}))
    hp.clean(hp.plan(name, now=T0))
    assert hp.verify(name, now=T0, sample=True).not_read_again == 1
    spark.sql(f"DELETE FROM hardpack.{name} WHERE offset = 4")
    report = hp.verify(name, now=T0, sample=True)
    assert (report.success, report.passes_hold, report.not_read_again) == (False, True, 0)


def test_a_file_that_has_gone_from_the_storage_is_missed(hp, cleaned, cold):
    name = name_of(cleaned)
    ours = {commit.snapshot for commit in commits(cleaned.refresh())}
    live = [e for e in cleaned.inspect.entries().to_pylist() if e["status"] != 2 and e["snapshot_id"] in ours]
    paths = [entry["data_file"]["file_path"] for entry in live]
    assert cold.verify(name, now=T0, sample=True).not_read_again == 2
    Path(urlparse(paths[0]).path).unlink()
    with pytest.raises((AssertionError, HardpackError)):
        cold.verify(name, now=T0, sample=True)


def test_rows_with_a_lineage_are_read(hp, catalog, spark):
    """Format v3: what a gate reads is not published yet, so it tells no lineage (invariant 2)."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "a")]})
    append(table, {0: [row(3, "c")]})
    name = name_of(table)
    spark.sql(f"ALTER TABLE hardpack.{name} SET TBLPROPERTIES ('format-version'='3')")
    assert [log.gate_read for log in hp.clean(hp.plan(name, now=T0)).logs] == [""]
    report = hp.verify(name, now=T0, sample=True)
    assert (report.success, report.not_read_again) == (True, 0)
